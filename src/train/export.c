/* export.c -- writes the weights of a checkpoint under the names of the original. */
#include "train/export.h"

#include "base/flax_file.h"
#include "base/text.h"
#include "device/convert.h"
#include "train/checkpoint.h"
#include "train/lengths.h"

#include <math.h>
#include <string.h>

typedef struct Exporting {
    Pool         *pool;
    const char   *run;
    const Recipe *recipe;
    ExportOptions how;
    const char   *path; /* of the checkpoint */
    SafeFile      file;
    const Graph  *graph;
    SafeTensor   *list;
    int32_t       n, cap;
    ExportReport *report;
} Exporting;

static SafeTensor *listed(const Exporting *e, const char *name)
{
    for (int32_t i = 0; i < e->n; i++)
        if (!strcmp(e->list[i].name, name))
            return &e->list[i];
    return NULL;
}

/* A parameter in fp16. Numbers that it cannot hold would become infinite. */
static Err halved(Exporting *e, SafeTensor *t)
{
    int64_t n = (int64_t)(t->n_bytes / 4);
    float  *x;
    TRY(tensor_f32(e->pool, e->path, t, &x));
    for (int64_t i = 0; i < n; i++)
        if (fabsf(x[i]) >= 65520.0f)
            return fail(E_NUMBER,
                        "%s holds %g at number %lld, which is too large for fp16; leave out --fp16",
                        t->name, (double)x[i], (long long)i);
    uint16_t *half = NEWN(e->pool, uint16_t, n + 1);
    convert_rows(F16, half, F32, x, (size_t)n);
    t->type = SAFE_F16;
    t->data = half;
    t->n_bytes /= 2;
    return OK;
}

static Err export_params(Exporting *e)
{
    int averaged = 0;
    for (int32_t i = 0; i < e->graph->n_params; i++) {
        const Param      *p = &e->graph->params[i];
        const SafeTensor *found = NULL;
        if (e->how.average)
            found = safetensors_find(&e->file, pool_print(e->pool, "ema/%s", p->name));
        averaged += found != NULL;
        found = found ? found : safetensors_find(&e->file, p->name); /* frozen: no average */
        if (!found)
            return fail(E_FORMAT, "%s lacks %s: it belongs to another recipe", e->path, p->name);
        SafeTensor t = *found;
        t.name = p->name;
        if (e->how.half)
            TRY(halved(e, &t));
        VEC_ADD(e->pool, e->list, e->n, e->cap, t);
    }
    e->report->params = e->n;
    if (e->how.average && !averaged)
        return fail(E_USAGE, "%s keeps no averaged weights (ema.rule is none); leave out --ema",
                    e->run);
    return OK;
}

/* Batch-norm statistics. PyTorch counts batches as int64 without an axis. */
static void export_states(Exporting *e)
{
    static const char *const endings[] = { "running_mean", "running_var", "num_batches_tracked" };
    for (int32_t i = 0; i < e->graph->n_constants; i++) {
        const Constant   *c = &e->graph->constants[i];
        const char       *name = value_at(e->graph, c->value)->name;
        const SafeTensor *found = c->saved ? safetensors_find(&e->file, name) : NULL;
        const char       *last = name && strrchr(name, '.') ? strrchr(name, '.') + 1 : name;
        bool              statistic = e->recipe->model->named_inputs;
        for (int k = 0; found && k < 3; k++)
            statistic = statistic || !strcmp(last, endings[k]);
        if (!found || !statistic || !strncmp(name, "optimizer.", 10) || !strncmp(name, "run.", 4))
            continue;
        SafeTensor t = *found;
        if (t.type == SAFE_I32 && t.n_bytes == 4 && !strcmp(last, endings[2])) {
            int32_t  count;
            int64_t *wide = NEW(e->pool, int64_t);
            memcpy(&count, t.data, 4);
            *wide = count;
            t = (SafeTensor){ .name = name, .type = SAFE_I64, .data = wide, .n_bytes = 8 };
        }
        VEC_ADD(e->pool, e->list, e->n, e->cap, t);
    }
}

/* The original's lengths of S4 kernels. */
static void export_lengths(Exporting *e)
{
    for (int32_t i = 0; i < e->graph->n_params; i++) {
        int64_t    *length = NEW(e->pool, int64_t);
        const char *name = lengths_buffer_of(e->pool, e->graph, &e->graph->params[i], length);
        if (name)
            VEC_ADD(e->pool, e->list, e->n, e->cap,
                    (SafeTensor){ .name = name, .type = SAFE_I64, .data = length, .n_bytes = 8 });
    }
}

/* Whole numbers are int32 here, truth values bytes, and a number alone has an axis. */
static void as_original(Exporting *e, SafeTensor *t, const SafeTensor *original)
{
    size_t n = t->n_bytes / safe_type_bytes(t->type);
    if (n != original->n_bytes / safe_type_bytes(original->type))
        return;
    t->rank = original->rank;
    t->shape = original->shape;
    if (t->type == SAFE_U8 && original->type == SAFE_BOOL)
        t->type = SAFE_BOOL;
    if (t->type != SAFE_I32 || original->type != SAFE_I64)
        return;
    int64_t *wide = NEWN(e->pool, int64_t, n + 1);
    for (size_t i = 0; i < n; i++)
        wide[i] = ((const int32_t *)t->data)[i];
    t->type = SAFE_I64;
    t->data = wide;
    t->n_bytes = n * 8;
}

/* What else the original's state dict holds. */
static Err export_others(Exporting *e)
{
    const ModelDef *model = e->recipe->model;
    OtherTensor    *others = NULL;
    int32_t         n = 0;
    if (model->others)
        TRY(model->others(e->pool, e->recipe->config, &others, &n));
    for (int32_t i = 0; i < n; i++) {
        SafeTensor        t = others[i].tensor;
        const SafeTensor *same = others[i].same_as ? listed(e, others[i].same_as) : NULL;
        SafeTensor       *own = listed(e, t.name);
        if (own && t.data)
            as_original(e, own, &t);
        if (own)
            continue;
        if (same) {
            const char *name = t.name;
            t = *same;
            t.name = name;
        } else if (!t.data) {
            e->report->left_out = t.name;
            continue;
        }
        if (others[i].counts) {
            int64_t *count = NEW(e->pool, int64_t);
            memcpy(count, t.data, 8);
            *count += e->report->step * e->recipe->accumulate;
            t.data = count;
        }
        VEC_ADD(e->pool, e->list, e->n, e->cap, t);
    }
    return OK;
}

/* By the name's ending. A name that promises another format is refused. */
static Err export_form(const char *path, const Recipe *recipe, bool *flax)
{
    static const char *const others[] = { ".pt",  ".pth", ".ckpt", ".bin", ".npz",
                                          ".npy", ".pkl", ".h5",   ".onnx" };
    const char              *dot = strrchr(path, '.');
    *flax = dot && !strcmp(dot, ".msgpack");
    if (*flax && !recipe->model->flax)
        return fail(E_USAGE,
                    "%s would be a Flax file, but the original of %s is a PyTorch program; name a "
                    ".safetensors file",
                    path, recipe->model->name);
    for (size_t i = 0; dot && i < sizeof others / sizeof *others; i++)
        if (!strcmp(dot, others[i]))
            return fail(E_USAGE,
                        "export writes safetensors, not %s; name the file weights.safetensors (in "
                        "Python: model.load_state_dict(safetensors.torch.load_file(FILE)))",
                        dot);
    return OK;
}

Err export_weights(Pool *pool, const char *run, const Recipe *recipe, const ExportOptions *options,
                   ExportReport *report)
{
    TrainingGraph graph;
    Exporting e = { .pool = pool, .run = run, .recipe = recipe, .how = *options, .report = report };
    bool      flax;
    *report = (ExportReport){ .step = options->checkpoint };
    TRY(export_form(options->out, recipe, &flax));
    TRY(checkpoint_file(pool, run, &report->step, &e.path, &report->note));
    TRY(safetensors_read(pool, e.path, &e.file));
    TRY(recipe_graph(pool, recipe, true, &graph));
    e.graph = graph.graph;
    TRY(lengths_same(e.path, &e.file, e.graph));
    TRY(export_params(&e));
    export_states(&e);
    export_lengths(&e);
    TRY(export_others(&e));
    report->tensors = e.n;
    for (int32_t i = 0; i < e.n; i++)
        report->bytes += (int64_t)e.list[i].n_bytes;
    const char *const *metadata = lengths_metadata(pool, e.graph,
                                                   (const char *const[]){ "format", "pt", NULL });
    return flax ? flax_write(options->out, e.list, e.n)
                : safetensors_write(options->out, e.list, e.n, metadata);
}
