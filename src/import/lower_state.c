/* lower_state.c -- buffers and parameters that a program writes keep what was written for the next
 * step: moving averages, codebooks, power iterations, counters.
 *
 * What the step reads is a copy from its beginning. The backward pass and what is recomputed read
 * that copy, whenever the new numbers are stored. Statistics of batch norms are stored by operators
 * of their own (lower_norm.c). */
#include "import/lower.h"

#include "ops/elementwise/basic.h"

#include <string.h>

static bool counts_batches(const ExportedInput *in)
{
    static const char ending[] = "num_batches_tracked";
    size_t            n = strlen(in->name), m = sizeof ending - 1;
    return n >= m && !strcmp(in->name + n - m, ending);
}

static bool keeps(const Lower *l, const ExportedInput *in)
{
    return in->value >= 0 && (in->kind == EX_PARAMETER || in->kind == EX_BUFFER) &&
           !lower_is_statistic(l, in->value) && !counts_batches(in);
}

/* The values that are written to: those of which calls show or write a part. */
void kept_find(Lower *l)
{
    const Exported *p = l->program;
    int32_t        *root = NEWN(l->pool, int32_t, p->n_values + 1);
    bool           *written = NEWN(l->pool, bool, p->n_values + 1);
    for (int32_t v = 0; v < p->n_values; v++)
        root[v] = v;
    for (int32_t i = 0; i < p->n_calls; i++) {
        const ExportedCall *c = &p->calls[i];
        bool                writes, shows = lower_shows_or_writes(l, c, &writes);
        const ExportedArg  *to = call_arg(c, "out") ? call_arg(c, "out") : c->args;
        if (!shows || !c->n_args || to->kind != ARG_VALUE || to->values[0] < 0)
            continue;
        for (int32_t k = 0; k < c->n_out; k++)
            if (c->out[k] >= 0)
                root[c->out[k]] = root[to->values[0]];
        written[root[to->values[0]]] |= writes;
    }
    l->kept = NEWN(l->pool, int32_t, p->n_values + 1);
    for (int32_t v = 0; v < p->n_values; v++)
        l->kept[v] = TENSOR_NONE;
    for (int32_t i = 0; i < p->n_inputs; i++) {
        const ExportedInput *in = &p->inputs[i];
        bool                 some = in->value >= 0 && written[in->value];
        for (int32_t k = 0; k < p->n_outputs && in->name; k++)
            some |= (p->outputs[k].kind == EX_BUFFER_MUTATION ||
                     p->outputs[k].kind == EX_PARAMETER_MUTATION) &&
                    p->outputs[k].target && !strcmp(p->outputs[k].target, in->name);
        if (some && keeps(l, in))
            l->kept[in->value] = TENSOR_POISONED; /* until it is added */
    }
}

/* The tensor, copied at the beginning of the step. The sum lets gradients pass and is exact. */
static Err kept_copy(Lower *l, const ExportedInput *in, Operand *item)
{
    Formula f = formula(l);
    int     x = formula_input(&f, *item), y = F1(&f, DETACH, x);
    if (in->kind == EX_PARAMETER)
        y = F2(&f, ADD, y, F2(&f, SUB, x, y));
    return formula_item(&f, y, item->type, item);
}

Err kept_begin(Lower *l, const ExportedInput *in, Operand *item)
{
    const ExportedValue *v = &l->program->values[in->value];
    const char          *kind = in->kind == EX_PARAMETER ? "parameter" : "buffer";
    if (type_complex(v->type))
        return fail(E_USAGE,
                    "%s: the %s %s is complex and written in every step, which is not supported",
                    l->program->path, kind, in->name);
    if (v->type == EX_F32 && l->graph->compute != F32)
        return fail(E_USAGE,
                    "%s: the %s %s is written in every step; what is added to it would be lost in "
                    "%s, so use --precision fp32",
                    l->program->path, kind, in->name, type_name(l->graph->compute));
    l->kept[in->value] = item->view.base.id;
    return kept_copy(l, in, item);
}

/* A buffer as saved state: floats as fp32, whole numbers as int32. */
Err kept_buffer(Lower *l, const ExportedInput *in, Dims dims, Operand *item)
{
    const ExportedValue  *v = &l->program->values[in->value];
    const ExportedWeight *w = exported_weight(l->program, in->name);
    bool                  floats = type_floats(v->type);
    Type                  type = floats ? F32 : store_type(l, v->type);
    int64_t               n = dims_count(dims);
    void                 *start = pool_alloc(l->pool, 4 * (size_t)(n + 1), 8);
    HostArray            *array;
    memset(start, 0, 4 * (size_t)(n + 1));
    if (w && w->storage && floats)
        weight_floats(w, start);
    if (w && w->storage && !floats) {
        item_host(l, v->type, dims, &array);
        weight_arrays(w, array, NULL);
        for (int64_t i = 0; i < n; i++) {
            if (array->i[i] != (int32_t)array->i[i])
                return fail(E_USAGE, "%s: the buffer %s holds %lld, which does not fit into int32",
                            l->program->path, in->name, (long long)array->i[i]);
            if (type == U8)
                ((uint8_t *)start)[i] = (uint8_t)array->i[i];
            else
                ((int32_t *)start)[i] = (int32_t)array->i[i];
        }
    }
    l->graph->module = 0;
    Tensor t = state_add_from(l->graph, in->name, type, view_shape(dims, NULL), start,
                              CLASS_CONSTANTS, true);
    *item = item_of(l, view_make(t, dims, NULL), v->type);
    TRY(graph_check(l->graph));
    return kept_begin(l, in, item);
}

/* What the program leaves in an input: what was written to it, or the output that stands for it. */
static Err kept_end(Lower *l, const ExportedInput *in, Operand *item)
{
    const Exported *p = l->program;
    for (int32_t k = 0; k < p->n_outputs; k++) {
        const ExportedOutput *o = &p->outputs[k];
        if ((o->kind == EX_BUFFER_MUTATION || o->kind == EX_PARAMETER_MUTATION) && o->target &&
            !strcmp(o->target, in->name) && o->arg.kind == ARG_VALUE)
            return lower_output(l, o->arg.values[0], item);
    }
    return lower_output(l, in->value, item);
}

Err kept_store(Lower *l)
{
    const Exported *p = l->program;
    for (int32_t i = 0; i < p->n_inputs && l->graph->phase == PHASE_MICRO; i++) {
        const ExportedInput *in = &p->inputs[i];
        Operand              now;
        View                 v;
        if (in->value < 0 || l->kept[in->value] < 0)
            continue;
        Tensor store = { l->graph, l->kept[in->value] };
        TRY(kept_end(l, in, &now));
        TRY(item_view(l, &now, &v));
        Tensor x = cast(view_tensor(v, NULL), tensor_type(store));
        assign(store, reshape(x, tensor_shape(store)));
        TRY(graph_check(l->graph));
    }
    return OK;
}

const char *kept_first(const Lower *l)
{
    const Exported *p = l->program;
    for (int32_t i = 0; i < p->n_inputs; i++)
        if (p->inputs[i].value >= 0 && l->kept[p->inputs[i].value] >= 0)
            return p->inputs[i].name;
    return NULL;
}
