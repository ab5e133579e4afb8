/* dump.c -- copies outputs and gradients of one step, and writes them. */
#include "train/dump.h"

#include "base/safetensors.h"
#include "device/convert.h"

struct Dump {
    Pool    *pool;
    Session *session;
    void   **bytes; /* [parameter] of gradients that pass; NULL: it persists, or is not trained */
    float  **disk;  /* [parameter] gradients in disk order */
    SafeTensor *tensors; /* of the file */
    int32_t     n, cap;
};

static const Graph *dump_graph(const Dump *d) { return session_engine(d->session)->graph; }

Err dump_new(Pool *pool, Session *session, Dump **out)
{
    Dump        *d = *out = NEW(pool, Dump);
    const Graph *graph = session_engine(session)->graph;
    *d = (Dump){ .pool = pool,
                 .session = session,
                 .bytes = NEWN(pool, void *, graph->n_params + 1),
                 .disk = NEWN(pool, float *, graph->n_params + 1) };
    for (int32_t i = 0; i < graph->n_params; i++) {
        const Param *p = &graph->params[i];
        if (!p->trained)
            continue;
        d->disk[i] = NEWN(pool, float, shape_count(p->disk));
        if (value_at(graph, p->grad)->persistent)
            continue;
        d->bytes[i] = pool_alloc(pool, (size_t)value_at(graph, p->grad)->bytes, 1);
        TRY(session_watch(session, p->grad, d->bytes[i]));
    }
    return OK;
}

static void dump_add(Dump *d, const char *kind, const char *name, const Shape *shape,
                     const float *data)
{
    VEC_ADD(d->pool, d->tensors, d->n, d->cap,
            (SafeTensor){ .name = *name ? pool_print(d->pool, "%s/%s", kind, name) : kind,
                          .type = SAFE_F32,
                          .rank = shape->rank,
                          .shape = shape->dim,
                          .data = data });
}

Err dump_outputs(Dump *d)
{
    const Graph *graph = dump_graph(d);
    for (int32_t i = 0; i < graph->n_outputs; i++) {
        const Output *output = &graph->outputs[i];
        const Value  *value = value_at(graph, output->value);
        if (output->phase != PHASE_MICRO || !type_is_float(value->type))
            continue;
        int64_t     count = shape_count(value->shape);
        float      *wide = NEWN(d->pool, float, count);
        const void *data = session_output_at(d->session, i);
        if (!data)
            return fail(E_DEVICE, "the output %s cannot be read", output->name);
        convert_rows(F32, wide, value->type, data, (size_t)count);
        dump_add(d, "output", output->name, &value->shape, wide);
    }
    for (int32_t i = 0; i < graph->n_params; i++)
        if (d->disk[i] && !d->bytes[i])
            TRY(session_get_param(d->session, i, graph->params[i].grad, d->disk[i]));
    return OK;
}

Err dump_write(Dump *d, const char *path, float loss)
{
    const Graph *graph = dump_graph(d);
    Shape        one = SHAPE(1);
    dump_add(d, "loss", "", &one, &loss);
    for (int32_t i = 0; i < graph->n_params; i++) {
        const Param *p = &graph->params[i];
        if (!d->disk[i])
            continue;
        if (d->bytes[i])
            param_to_disk(p, value_at(graph, p->grad), d->bytes[i], d->disk[i]);
        dump_add(d, "gradient", p->name, &p->disk, d->disk[i]);
    }
    return safetensors_write(path, d->tensors, d->n, NULL);
}
