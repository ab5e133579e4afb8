/* checkpoint.c -- saving and loading; see the header for the files. */
#include "train/checkpoint.h"

#include "base/file.h"
#include "base/json_out.h"
#include "base/safetensors.h"
#include "base/text.h"
#include "train/lengths.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct Entry {           /* one tensor of the file */
    int32_t param;               /* index, or -1: a saved state, bytes as they are */
    int32_t value;
} Entry;

struct Saver {
    Session    *session;
    const char *folder;
    int64_t     keep;
    SafeTensor *tensors;         /* in file order; data points to its Entry */
    int32_t     n;
    const char *header;
    size_t      n_header;
    float      *room;            /* the largest tensor in disk order */
};

static SafeType safe_type(Type type)
{
    static const SafeType map[] = { SAFE_F32, SAFE_BF16, SAFE_F16, SAFE_I32, SAFE_U8 };
    return map[type];
}

static void entry_add(Pool *pool, SafeTensor **list, int32_t *n, int32_t *cap, const char *name,
                      Shape shape, Type type, Entry entry)
{
    Entry   *kept = NEW(pool, Entry);
    int64_t *dims = NEWN(pool, int64_t, MAX_RANK);
    *kept = entry;
    memcpy(dims, shape.dim, sizeof shape.dim);
    VEC_ADD(pool, *list, *n, *cap,
            (SafeTensor){ .name = name,
                          .type = safe_type(type),
                          .rank = shape.rank,
                          .shape = dims,
                          .data = kept });
}

/* Everything a checkpoint holds; parameters and their state in disk order and fp32. */
static void entries(Pool *pool, const Graph *graph, SafeTensor **list, int32_t *n)
{
    int32_t cap = 0;
    bool   *done = NEWN(pool, bool, graph->n_values);
    for (int32_t i = 0; i < graph->n_params; i++) {
        const Param *p = &graph->params[i];
        entry_add(pool, list, n, &cap, p->name, p->disk, F32,
                  (Entry){ i, p->master >= 0 ? p->master : p->value });
        if (p->master >= 0)
            done[p->master] = true;
        const int32_t     state[] = { p->m, p->v, p->ema };
        const char *const word[] = { "optimizer.m", "optimizer.v", "ema" };
        for (int j = 0; j < 3; j++)
            if (state[j] >= 0) {
                entry_add(pool, list, n, &cap, pool_print(pool, "%s/%s", word[j], p->name), p->disk,
                          F32, (Entry){ i, state[j] });
                done[state[j]] = true;
            }
    }
    for (int32_t i = 0; i < graph->n_constants; i++) {
        const Constant *c = &graph->constants[i];
        const Value    *value = value_at(graph, c->value);
        if (c->saved && !done[c->value])
            entry_add(pool, list, n, &cap, value->name, value->shape, value->type,
                      (Entry){ -1, c->value });
    }
}

Err saver_new(Pool *pool, Session *session, const char *folder, int64_t keep, Saver **out)
{
    const Graph *graph = session_engine(session)->graph;
    Saver       *saver = NEW(pool, Saver);
    int64_t      largest = 1;
    *saver = (Saver){ .session = session, .folder = folder, .keep = keep };
    entries(pool, graph, &saver->tensors, &saver->n);
    const char *const *said = lengths_metadata(
        pool, graph, (const char *const[]){ "format", "plimsoll-checkpoint-1", NULL });
    TRY(safetensors_header(pool, saver->tensors, saver->n, said, &saver->header, &saver->n_header));
    for (int32_t i = 0; i < saver->n; i++)
        if ((int64_t)saver->tensors[i].n_bytes > largest)
            largest = (int64_t)saver->tensors[i].n_bytes;
    saver->room = NEWN(pool, float, (largest + 3) / 4);
    TRY(folder_make(folder));
    folder_tidy(folder);
    *out = saver;
    return OK;
}

static void checkpoint_path(char *to, size_t n, const char *folder, int64_t step,
                            const char *ending)
{
    snprintf(to, n, "%s/step-%06lld%s", folder, (long long)step, ending);
}

static Err saver_forget(Saver *saver, int64_t newest)        /* all but the newest `keep` */
{
    Pool   *pool = pool_new(NULL, "forget");
    char  **names, path[FILE_PATH_MAX];
    int     n, whole = 0;
    Err     err = folder_list(pool, saver->folder, &names, &n);
    for (int i = n - 1; !err && i >= 0; i--) {
        long long step;
        int       end = 0;
        if (sscanf(names[i], "step-%lld.json%n", &step, &end) != 1 || names[i][end] || !end ||
            step > newest)
            continue;
        if (++whole <= saver->keep)
            continue;
        checkpoint_path(path, sizeof path, saver->folder, step, ".safetensors");
        err = file_remove(path);
        /* last: it brings a killed run back here */
        checkpoint_path(path, sizeof path, saver->folder, step, ".json");
        if (!err)
            err = file_remove(path);
    }
    pool_free(pool);
    return err;
}

static void plateau_write(FileOut *out, const Plateau *p)
{
    file_out_print(out,
                   "  \"plateau\": {\"bad\": %lld, \"cooldown\": %lld, \"sum\": %.17g, \"count\": "
                   "%lld, \"rates\": "
                   "[%.17g, %.17g]",
                   (long long)p->bad, (long long)p->cooldown, p->sum, (long long)p->count,
                   p->rates[0], p->rates[1]);
    if (p->seen)
        file_out_print(out, ", \"best\": %.17g", p->best);
    file_out_print(out, "},\n");
}

/* A run whose schedule has only become one begins it anew. */
static Err plateau_read(const Json *checkpoint, Plateau *p)
{
    const Json *json, *rates;
    if (!p->on || !json_get(checkpoint, "plateau"))
        return OK;
    TRY(json_need_object(checkpoint, "plateau", &json));
    TRY(json_need_int(json, "bad", &p->bad));
    TRY(json_need_int(json, "cooldown", &p->cooldown));
    TRY(json_need_int(json, "count", &p->count));
    TRY(json_need_number(json, "sum", &p->sum));
    TRY(json_need_array(json, "rates", &rates));
    if (rates->n != 2)
        return json_fail(json, rates, "a plateau has 2 rates, not %u", rates->n);
    for (uint32_t i = 0; i < 2; i++)
        TRY(json_item_number(rates, i, &p->rates[i]));
    p->seen = json_get(json, "best") != NULL;
    return p->seen ? json_need_number(json, "best", &p->best) : OK;
}

Err saver_save(Saver *saver, const RunState *state)
{
    static FileOut out;          /* 40 KiB: not on the stack of a small thread, not on the heap */
    Session       *session = saver->session;
    const Graph   *graph = session_engine(session)->graph;
    char           path[FILE_PATH_MAX];
    Err            err = OK;

    checkpoint_path(path, sizeof path, saver->folder, state->step, ".safetensors");
    TRY(file_out_init(&out, path));
    file_out_add(&out, saver->header, saver->n_header);
    for (int32_t i = 0; i < saver->n && !err; i++) {
        const Entry *entry = saver->tensors[i].data;
        if (entry->param >= 0) {
            err = session_get_param(session, entry->param, entry->value, saver->room);
            file_out_add(&out, saver->room, saver->tensors[i].n_bytes);
        } else {
            err = session_read(session, entry->value, saver->room);
            file_out_add(&out, saver->room, (size_t)value_at(graph, entry->value)->bytes);
        }
    }
    TRY(file_out_done(&out, err));

    checkpoint_path(path, sizeof path, saver->folder, state->step, ".json");
    TRY(file_out_init(&out, path));
    file_out_print(&out,
                   "{\n  \"format\": \"plimsoll-checkpoint-1\",\n  \"step\": %lld,\n  \"drawn\": "
                   "%lld,\n"
                   "  \"seed\": %lld,\n",
                   (long long)state->step, (long long)state->drawn, (long long)state->seed);
    if (state->plateau.on)
        plateau_write(&out, &state->plateau);
    file_out_print(&out, "  \"tensors\": %d\n}\n", saver->n);
    TRY(file_out_done(&out, OK));
    return saver_forget(saver, state->step);
}

Err checkpoint_newest(Pool *pool, const char *folder, int64_t *step)
{
    char **names;
    int    n;
    *step = -1;
    TRY(folder_list(pool, folder, &names, &n));
    for (int i = 0; i < n; i++) {
        long long at;
        int       end = 0;
        if (sscanf(names[i], "step-%lld.json%n", &at, &end) == 1 && end && !names[i][end] &&
            at > *step)
            *step = at;
    }
    return *step >= 0
               ? OK
               : fail(E_IO, "%s holds no whole checkpoint; start the run anew without --resume",
                      folder);
}

static bool tensor_fits(const SafeTensor *t, Shape shape)
{
    if (t->rank != shape.rank)
        return false;
    for (int i = 0; i < shape.rank; i++)
        if (t->shape[i] != shape.dim[i])
            return false;
    return true;
}

static Err tensor_misfit(const char *path, const SafeTensor *t, Shape shape)
{
    Shape found = { .rank = t->rank < MAX_RANK ? t->rank : MAX_RANK };
    for (int i = 0; i < found.rank; i++)
        found.dim[i] = t->shape[i];
    return fail(E_FORMAT, "%s: %s is %s, the model has %s", path, t->name, shape_text(found),
                shape_text(shape));
}

Err checkpoint_load(Pool *pool, Session *session, const char *folder, int64_t step, RunState *state)
{
    const Graph *graph = session_engine(session)->graph;
    char         path[FILE_PATH_MAX];
    const Json  *json;
    SafeFile     file;
    SafeTensor  *want = NULL;
    int32_t      n = 0;
    Pool        *work = pool_new(pool, "load");

    checkpoint_path(path, sizeof path, folder, step, ".json");
    TRY(json_read(work, path, 0, &json));
    TRY(json_need_int(json, "step", &state->step));
    TRY(json_need_int(json, "drawn", &state->drawn));
    TRY(json_need_int(json, "seed", &state->seed));
    TRY(plateau_read(json, &state->plateau));
    if (state->step != step || state->drawn < 0)
        return fail(E_FORMAT,
                    "%s says step %lld with %lld samples drawn: it is damaged or was renamed", path,
                    (long long)state->step, (long long)state->drawn);
    checkpoint_path(path, sizeof path, folder, step, ".safetensors");
    TRY(safetensors_read(work, path, &file));
    TRY(lengths_same(path, &file, graph));
    entries(work, graph, &want, &n);
    for (int32_t i = 0; i < n; i++) {
        const Entry      *entry = want[i].data;
        const SafeTensor *t = safetensors_find(&file, want[i].name);
        Shape             shape = shape_of(want[i].shape, want[i].rank);
        if (!t)
            return fail(E_FORMAT, "%s lacks %s: it belongs to another recipe", path, want[i].name);
        if (!tensor_fits(t, shape) || t->type != want[i].type)
            return tensor_misfit(path, t, shape);
        if (entry->param >= 0)
            TRY(session_put_param(session, entry->param, entry->value, t->data));
        else
            TRY(session_write(session, entry->value, t->data));
    }
    pool_free(work);
    return OK;
}

/* A saved state that belongs to the model rather than to the run: batch-norm statistics. */
static const Value *state_find(const Graph *graph, const char *name)
{
    for (int32_t i = 0; i < graph->n_constants; i++) {
        const Value *value = value_at(graph, graph->constants[i].value);
        if (graph->constants[i].saved && value->class == CLASS_CONSTANTS &&
            strncmp(name, "optimizer.", 10) && !strcmp(value->name, name))
            return value;
    }
    return NULL;
}

/* PyTorch counts batches in int64, we in i32; all else is fp32 on both sides. */
static Err state_load(Pool *pool, Session *session, const char *path, const Value *value,
                      int32_t id, const SafeTensor *t)
{
    int64_t count = shape_count(value->shape);
    if (t->type == safe_type(value->type) && t->n_bytes == (size_t)value->bytes)
        return session_write(session, id, t->data);
    if (value->type != I32 || t->type != SAFE_I64 || t->n_bytes != (size_t)count * 8)
        return tensor_misfit(path, t, value->shape);
    int32_t *narrow = NEWN(pool, int32_t, count + 1);
    for (int64_t i = 0; i < count; i++) {
        int64_t x;
        memcpy(&x, (const char *)t->data + 8 * i, 8);
        narrow[i] = (int32_t)x;
    }
    return session_write(session, id, narrow);
}

static Err states_load(Pool *pool, Session *session, const char *path, const SafeFile *file)
{
    const Graph *graph = session_engine(session)->graph;
    for (int i = 0; i < file->n; i++) {
        const Value *state = state_find(graph, file->tensors[i].name);
        if (state)
            TRY(state_load(pool, session, path, state, (int32_t)(state - graph->values),
                           &file->tensors[i]));
    }
    return OK;
}

Err checkpoint_weights(Pool *pool, Session *session, const char *folder, int64_t step, bool raw,
                       bool *averaged)
{
    const Graph *graph = session_engine(session)->graph;
    char         path[FILE_PATH_MAX];
    SafeFile     file;
    Pool        *work = pool_new(pool, "weights");

    checkpoint_path(path, sizeof path, folder, step, ".safetensors");
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
    TRY(states_load(work, session, path, &file));
    pool_free(work);
    return OK;
}

/* Said here, where the tensor is known; the loss would only say that something is wrong. */
static Err weights_finite(const char *path, const Param *param, const float *data)
{
    int64_t n = shape_count(param->disk);
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(data[i]))
            return fail(E_FORMAT, "%s: number %lld of %s is not finite; these weights are spoilt",
                        path, (long long)i, param->name);
    return OK;
}

Err weights_load(Pool *pool, Session *session, const char *path, bool partial)
{
    const Graph *graph = session_engine(session)->graph;
    SafeFile     file;
    Pool        *work = pool_new(pool, "weights");
    int          missing = 0, unused = 0;
    const char  *first_missing = NULL, *first_unused = NULL;

    TRY(safetensors_read(work, path, &file));
    for (int32_t i = 0; i < graph->n_params; i++) {
        const SafeTensor *t = safetensors_find(&file, graph->params[i].name);
        if (t && !tensor_fits(t, graph->params[i].disk))
            return tensor_misfit(path, t, graph->params[i].disk);
        if (!t && !missing++)
            first_missing = graph->params[i].name;
    }
    for (int i = 0; i < file.n; i++)
        if (!param_find((Graph *)(uintptr_t)graph, file.tensors[i].name) &&
            !state_find(graph, file.tensors[i].name) && !unused++)
            first_unused = file.tensors[i].name;
    if (!partial && (missing || unused))
        return fail(E_USAGE,
                    "%s does not match the model: %d parameters missing%s%s, %d tensors "
                    "unused%s%s; "
                    "--init-partial takes what fits",
                    path, missing, missing ? " (first: " : "",
                    missing ? pool_print(pool, "%s)", first_missing) : "", unused,
                    unused ? " (first: " : "", unused ? pool_print(pool, "%s)", first_unused) : "");
    if (missing == graph->n_params)
        return fail(E_USAGE, "%s holds no parameter of this model%s%s; another file is meant", path,
                    unused ? ", but for example " : "", unused ? first_unused : "");
    for (int32_t i = 0; i < graph->n_params; i++) {
        const SafeTensor *t = safetensors_find(&file, graph->params[i].name);
        float            *data = NULL;
        Pool             *one = pool_new(work, "tensor");
        if (t) {
            TRY(lengths_tensor(one, path, &file, graph, &graph->params[i], t, &data));
            TRY(weights_finite(path, &graph->params[i], data));
            TRY(session_set_param(session, i, data));
            if (graph->params[i].ema >= 0)
                TRY(session_put_param(session, i, graph->params[i].ema, data));
        }
        pool_free(one);
    }
    TRY(states_load(work, session, path, &file));
    pool_free(work);
    return OK;
}
