/* weights.c -- matches a file's tensors with a model's parameters and statistics and loads them. */
#include "train/weights.h"

#include "base/text.h"
#include "ops/ops.h"
#include "train/lengths.h"
#include "train/weights_file.h"
#include "train/weights_parts.h"

#include <math.h>
#include <string.h>

SafeType safe_type(Type type)
{
    static const SafeType map[] = { SAFE_F32, SAFE_BF16, SAFE_F16, SAFE_I32, SAFE_U8 };
    return map[type];
}

bool tensor_fits(const SafeTensor *t, Shape shape)
{
    if (!t->rank && shape.rank == 1 && shape.dim[0] == 1)
        return true; /* a scalar: graphs have no tensors without axes */
    if (t->rank != shape.rank)
        return false;
    for (int i = 0; i < shape.rank; i++)
        if (t->shape[i] != shape.dim[i])
            return false;
    return true;
}

static const char *tensor_shape_text(const SafeTensor *t)
{
    Shape found = { .rank = t->rank < MAX_RANK ? t->rank : MAX_RANK };
    for (int i = 0; i < found.rank; i++)
        found.dim[i] = t->shape[i];
    return shape_text(found);
}

Err tensor_misfit(const char *path, const SafeTensor *t, Shape shape)
{
    return fail(E_FORMAT, "%s: %s is %s, the model has %s", path, t->name, tensor_shape_text(t),
                shape_text(shape));
}

/* Saved state that belongs to the model and not to the run: batch-norm statistics. */
static const Value *state_find(const Graph *graph, const char *name)
{
    for (int32_t i = 0; i < graph->n_constants; i++) {
        const Value *value = value_at(graph, graph->constants[i].value);
        if (graph->constants[i].saved && value->mem_class == CLASS_CONSTANTS &&
            strncmp(name, "optimizer.", 10) && !strcmp(value->name, name))
            return value;
    }
    return NULL;
}

/* Compares element counts only: PyTorch's batch counters have rank 0. */
static bool state_fits(const Value *value, const SafeTensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->shape[i];
    return n == shape_count(value->shape);
}

/* Checked here, where the tensor is known. Later the loss would only show that something is
 * wrong. */
static Err weights_finite(const char *path, const char *name, const float *data, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(data[i]))
            return fail(E_FORMAT, "%s: number %lld of %s is not finite; these weights are damaged",
                        path, (long long)i, name);
    return OK;
}

static Err weights_variance(const char *path, const char *name, const float *data, int64_t n)
{
    static const char word[] = "running_var";
    size_t            length = strlen(name);
    if (length < sizeof word - 1 || strcmp(name + length - (sizeof word - 1), word))
        return OK;
    for (int64_t i = 0; i < n; i++)
        if (data[i] < 0)
            return fail(E_FORMAT,
                        "%s: number %lld of %s is %g, and a variance is never below 0; "
                        "these weights are damaged",
                        path, (long long)i, name, (double)data[i]);
    return OK;
}

/* Statistics may have any floating-point type, as parameters may. PyTorch counts batches in int64,
 * this program in int32. */
static Err state_load(Pool *pool, Session *session, const char *path, const Value *value,
                      int32_t id, const SafeTensor *t)
{
    int64_t count = shape_count(value->shape);
    bool    wide = value->type == I32 && t->type == SAFE_I64;
    bool    same = t->type == safe_type(value->type) || (value->type == U8 && t->type == SAFE_BOOL);
    if (!state_fits(value, t))
        return tensor_misfit(path, t, value->shape);
    if (value->type == F32) {
        float *data;
        TRY(tensor_f32(pool, path, t, &data));
        TRY(weights_finite(path, t->name, data, count));
        TRY(weights_variance(path, t->name, data, count));
        return session_write(session, id, data);
    }
    if (!same && !wide)
        return fail(E_FORMAT, "%s: %s holds %s, not %s", path, t->name, safe_type_name(t->type),
                    safe_type_name(safe_type(value->type)));
    if (!wide)
        return session_write(session, id, t->data);
    int32_t *narrow = NEWN(pool, int32_t, count);
    for (int64_t i = 0; i < count; i++) {
        int64_t x;
        memcpy(&x, (const char *)t->data + 8 * i, 8);
        narrow[i] = x < INT32_MIN ? INT32_MIN : x > INT32_MAX ? INT32_MAX : (int32_t)x;
    }
    return session_write(session, id, narrow);
}

/* partial: ignores statistics of another shape. */
static Err states_load(Pool *pool, Session *session, const char *path, const SafeFile *file,
                       bool partial)
{
    const Graph *graph = session_engine(session)->graph;
    for (int i = 0; i < file->n; i++) {
        const SafeTensor *t = &file->tensors[i];
        const Value      *state = state_find(graph, t->name);
        if (state && (!partial || state_fits(state, t)))
            TRY(state_load(pool, session, path, state, (int32_t)(state - graph->values), t));
    }
    return OK;
}

Err weights_load_run(Pool *pool, Session *session, const char *path, bool raw, bool *averaged)
{
    const Graph *graph = session_engine(session)->graph;
    SafeFile     file;
    Pool        *work = pool_new(pool, "weights");

    TRY(safetensors_read(work, path, &file));
    *averaged = false;
    for (int32_t i = 0; i < graph->n_params; i++) {
        const Param      *p = &graph->params[i];
        Pool             *one = pool_new(work, "tensor");
        const SafeTensor *t = raw ? NULL
                                  : safetensors_find(&file, pool_print(one, "ema/%s", p->name));
        float            *data = NULL;
        *averaged = *averaged || t;
        t = t ? t : safetensors_find(&file, p->name);
        if (!t)
            return fail(E_FORMAT, "%s lacks %s: it belongs to another recipe", path, p->name);
        if (!tensor_fits(t, p->disk))
            return tensor_misfit(path, t, p->disk);
        TRY(tensor_f32(one, path, t, &data));
        TRY(session_set_param(session, i, data));
        pool_free(one);
    }
    TRY(states_load(work, session, path, &file, false));
    pool_free(work);
    return OK;
}

/* Weight normalisation divides each row by its length, so no row may be zero. */
static Err weights_lengths(const char *path, const Graph *graph, const Param *param,
                           const float *data)
{
    int64_t rows = param->disk.dim[0], width = shape_count(param->disk) / (rows ? rows : 1);
    bool    direction = false;
    for (int32_t i = 0; i < graph->n_nodes && !direction; i++)
        direction = graph->nodes[i].op == &op_weight_norm && graph->nodes[i].in[1] == param->value;
    for (int64_t r = 0; direction && r < rows; r++) {
        int64_t c = 0;
        while (c < width && data[r * width + c] == 0)
            c++;
        if (c == width)
            return fail(E_FORMAT,
                        "%s: row %lld of %s is all zeros; weight normalisation divides by its "
                        "length, which must not be 0",
                        path, (long long)r, param->name);
    }
    return OK;
}

enum { MAX_NAMED = 4 }; /* names in a message */

typedef struct NameList {
    Text text;
    int  n;
} NameList;

static void names_add(NameList *names, const char *name)
{
    if (names->n++ < MAX_NAMED)
        text_add(&names->text, "%s%s", names->n > 1 ? ", " : "",
                 *name ? name : "a tensor without a name");
}

static const char *names_text(Pool *pool, const NameList *names) /* " (a, b and 3 more)" */
{
    if (!names->n)
        return "";
    if (names->n <= MAX_NAMED)
        return pool_print(pool, " (%s)", names->text.at);
    return pool_print(pool, " (%s and %d more)", names->text.at, names->n - MAX_NAMED);
}

/* True if the file has fewer input channels than the model and the parameter allows it; the
 * weights of the new channels start at 0. */
static bool tensor_widens(const SafeTensor *t, const Param *p)
{
    Shape narrow = p->disk;
    if (!p->widens || t->rank != narrow.rank || t->shape[1] > narrow.dim[1])
        return false;
    narrow.dim[1] = t->shape[1];
    return tensor_fits(t, narrow);
}

static float *tensor_widened(Pool *pool, const SafeTensor *t, const Param *p, const float *data)
{
    int64_t rows = p->disk.dim[0], inner = shape_count(p->disk) / rows,
            has = inner / p->disk.dim[1] * t->shape[1];
    float *wide = NEWN(pool, float, (rows * inner)); /* zeros */
    for (int64_t r = 0; r < rows; r++)
        memcpy(wide + r * inner, data + r * has, (size_t)has * sizeof *wide);
    return wide;
}

/* The file's tensor for a parameter, or NULL if there is none that fits. */
static const SafeTensor *tensor_for(const SafeFile *file, const Param *p)
{
    const SafeTensor *t = safetensors_find(file, p->name);
    return t && (tensor_fits(t, p->disk) || tensor_widens(t, p)) ? t : NULL;
}

/* A tied weight, or a constant that has the same contents in the file and in the model. *differs: a
 * constant with other contents. */
static bool tensor_known(const SafeTensor *t, const OtherTensor *others, int32_t n, bool *differs)
{
    for (int32_t i = 0; i < n; i++) {
        const OtherTensor *o = &others[i];
        if (strcmp(o->tensor.name, t->name) != 0)
            continue;
        *differs = !o->same_as && !o->counts && o->tensor.data &&
                   (o->tensor.type != t->type || o->tensor.n_bytes != t->n_bytes ||
                    memcmp(o->tensor.data, t->data, t->n_bytes) != 0);
        return !*differs;
    }
    return false;
}

/* Does the name begin as one of the words between '|'? A word without '.' is a whole name. */
static bool name_unread(const char *name, const char *words)
{
    for (size_t n; words && *words; words += n + (words[n] == '|')) {
        n = strcspn(words, "|");
        if (!strncmp(name, words, n) && (words[n - 1] == '.' || !name[n]))
            return true;
    }
    return false;
}

typedef struct Matching {
    Pool        *pool;
    const Graph *graph;
    NameList     missing, unused, left_out; /* left_out: of the original, and known to be no part */
    int32_t      frozen;                    /* of those missing: they are never trained */
} Matching;

static Err params_match(Matching *m, const SafeFile *file, const WeightsFrom *from)
{
    for (int32_t i = 0; i < m->graph->n_params; i++) {
        const Param      *p = &m->graph->params[i];
        const SafeTensor *t = safetensors_find(file, p->name);
        bool              fits = tensor_for(file, p) != NULL;
        if (t && !fits && !from->partial)
            return fail(E_FORMAT,
                        "%s: %s is %s, the model has %s; change the recipe's sizes to those of "
                        "the file, or leave such tensors out with --init-partial",
                        from->path, t->name, tensor_shape_text(t), shape_text(p->disk));
        m->frozen += !fits && p->frozen;
        if (!fits)
            names_add(&m->missing,
                      t ? pool_print(m->pool, "%s of another shape", p->name) : p->name);
    }
    return OK;
}

static void tensor_match(Matching *m, const SafeTensor *t, const WeightsFrom *from)
{
    const Value *state = state_find(m->graph, t->name);
    bool         differs = false;
    if (state && !state_fits(state, t))
        names_add(&m->unused, pool_print(m->pool, "%s of another shape", t->name));
    else if (state || param_find((Graph *)(uintptr_t)m->graph, t->name) ||
             lengths_buffer(m->graph, t->name) ||
             tensor_known(t, from->others, from->n_others, &differs))
        return;
    else if (name_unread(t->name, from->unread))
        names_add(&m->left_out, t->name);
    else
        names_add(&m->unused,
                  differs
                      ? pool_print(m->pool, "%s, which was exported with other contents", t->name)
                      : t->name);
}

/* Compares the names and shapes of file and model. *note describes the differences; NULL: none. */
static Err weights_match(Pool *pool, const Graph *graph, const SafeFile *file,
                         const WeightsFrom *from, const char **note)
{
    const Text empty = { .pool = pool };
    Matching   m = { pool, graph, { empty, 0 }, { empty, 0 }, { empty, 0 }, 0 };
    bool       strange;
    TRY(params_match(&m, file, from));
    for (int i = 0; i < file->n && !from->part; i++)
        tensor_match(&m, &file->tensors[i], from);
    strange = m.missing.n || m.unused.n;
    if (m.missing.n == graph->n_params)
        return fail(E_USAGE, "%s holds no parameter of this model%s%s; give another file",
                    from->path, m.unused.n ? ", but for example " : "",
                    m.unused.n ? m.unused.text.at : "");
    *note = strange
                ? pool_print(pool, "%d parameters missing%s, %d tensors unused%s", m.missing.n,
                             names_text(pool, &m.missing), m.unused.n, names_text(pool, &m.unused))
                : NULL;
    if (m.missing.n)
        *note = pool_print(
            pool, "%s; %d of %d parameters are from the file, %d are random%s", *note,
            graph->n_params - m.missing.n, graph->n_params, m.missing.n,
            m.frozen ? pool_print(pool, ", of which %d are frozen and stay so", m.frozen) : "");
    if (strange && from->part)
        return fail(E_USAGE,
                    "%s lacks %d of %d parameters that are needed here%s; give another "
                    "file",
                    from->path, m.missing.n, graph->n_params, names_text(pool, &m.missing));
    if (strange && !from->partial)
        return fail(E_USAGE, "%s does not match the model: %s; %s", from->path, *note,
                    weights_is_part(from->path)
                        ? "it is one of several files: name their folder instead"
                        : "--init-partial takes the tensors that match");
    if (m.left_out.n)
        *note = pool_print(pool,
                           "%s%s%d tensors of the original that this model does not have are "
                           "left out%s",
                           *note ? *note : "", *note ? "; " : "", m.left_out.n,
                           names_text(pool, &m.left_out));
    return OK;
}

Err weights_load(Pool *pool, Session *session, const char *path, bool partial, const char **note)
{
    return weights_load_from(pool, session, &(WeightsFrom){ .path = path, .partial = partial },
                             note);
}

Err weights_load_from(Pool *pool, Session *session, const WeightsFrom *from, const char **note)
{
    const Graph *graph = session_engine(session)->graph;
    const char  *ignored, *taken, *path = from->path;
    SafeFile     file;
    Pool        *work = pool_new(pool, "weights");

    note = note ? note : &ignored;
    TRY(weights_file_read(work, graph, path, from->average, &file, &taken));
    TRY(weights_match(pool, graph, &file, from, note));
    if (taken)
        *note = pool_print(pool, "%s%s%s", taken, *note ? "; " : "", *note ? *note : "");
    for (int32_t i = 0; i < graph->n_params; i++) {
        const Param      *p = &graph->params[i];
        const SafeTensor *t = tensor_for(&file, p);
        float            *data = NULL;
        Pool             *one = pool_new(work, "tensor");
        if (t) {
            TRY(lengths_tensor(one, path, &file, graph, p, t, &data));
            if (!tensor_fits(t, p->disk))
                data = tensor_widened(one, t, p, data);
            TRY(weights_finite(path, p->name, data, shape_count(p->disk)));
            TRY(weights_lengths(path, graph, p, data));
            TRY(session_set_param(session, i, data));
            if (p->ema >= 0)
                TRY(session_put_param(session, i, p->ema, data));
        }
        pool_free(one);
    }
    TRY(states_load(work, session, path, &file, from->partial));
    pool_free(work);
    return OK;
}
