/* lower_items.c -- operands: constants on the host, and how they become tensors of the graph. */
#include "import/lower.h"

#include "base/hash.h"

#include <string.h>

Operand item_of(const Lower *l, View view, ExportedType type)
{
    (void)l;
    return (Operand){ .set = true, .view = view, .type = type };
}

Operand item_none(const Lower *l) { return (Operand){ .view = { .base = tensor_none(l->graph) } }; }

Operand item_host(Lower *l, ExportedType type, Dims dims, HostArray **array)
{
    HostArray *a = NEW(l->pool, HostArray);
    a->integer = !type_floats(type);
    a->n = dims_count(dims);
    /* one of them is used; a file that states the wrong type for a table finds memory all the same */
    a->i = NEWN(l->pool, int64_t, (size_t)a->n + 1);
    a->f = (double *)(void *)a->i;
    *array = a;
    return (Operand){
        .set = true, .view = view_make(tensor_none(l->graph), dims, NULL), .host = a, .type = type
    };
}

Operand item_number(Lower *l, double value)
{
    HostArray *a;
    Operand    item = item_host(l, EX_F64, (Dims){ 0 }, &a);
    a->f[0] = value;
    return item;
}

Operand item_integer(Lower *l, int64_t value)
{
    HostArray *a;
    Operand    item = item_host(l, EX_I64, (Dims){ 0 }, &a);
    a->i[0] = value;
    return item;
}

Operand item_with(Operand item, View view)
{
    item.view = view;
    return item;
}

double host_f(const Operand *item, int64_t at)
{
    if (at < 0 || at >= item->host->n) /* give refuses such a view */
        return 0;
    return item->host->integer ? (double)item->host->i[at] : item->host->f[at];
}

int64_t host_i(const Operand *item, int64_t at)
{
    if (at < 0 || at >= item->host->n)
        return 0;
    if (item->host->integer)
        return item->host->i[at];
    return int_of(item->host->f[at]);
}

Err item_int(const Operand *item, int64_t *value)
{
    if (!item->set || !item->host || view_count(&item->view) != 1)
        return fail(E_USAGE, "a size or index depends on the data; only fixed ones are supported");
    *value = host_i(item, item->view.offset);
    return OK;
}

HostWalk host_walk(const View *view)
{
    return (HostWalk){ .view = view, .at = view->offset, .left = view_count(view) };
}

bool host_step(HostWalk *w, int64_t *at)
{
    if (!w->left)
        return false;
    *at = w->at;
    w->left--;
    for (int a = w->view->rank - 1; a >= 0; a--) {
        w->at += w->view->stride[a];
        if (++w->index[a] < w->view->dim[a])
            break;
        w->at -= w->view->stride[a] * w->view->dim[a];
        w->index[a] = 0;
    }
    return true;
}

/* Axes along which a constant does not change become repeated ones: a mask that is the same for all
 * samples is then computed, and stored, once. */
Operand item_compressed(Operand item)
{
    for (int a = 0; a < item.view.rank; a++) {
        View    first = item.view;
        int64_t at, stride = item.view.stride[a];
        bool    same = stride && item.view.dim[a] > 1;
        first.dim[a] = 1;
        for (HostWalk w = host_walk(&first); same && host_step(&w, &at);)
            for (int64_t i = 1; same && i < item.view.dim[a]; i++)
                same = item.host->integer ? item.host->i[at] == item.host->i[at + i * stride]
                                          : item.host->f[at] == item.host->f[at + i * stride];
        if (same)
            item.view.stride[a] = 0;
    }
    return item;
}

/* Elements as a graph tensor stores them. */
static Err host_bytes(Lower *l, const Operand *item, const View *view, Type type, void **bytes)
{
    int64_t n = view_count(view), at, i = 0;
    char   *to = NEWN(l->graph->pool, char, n *type_bytes(type) + 1);
    *bytes = to;
    for (HostWalk w = host_walk(view); host_step(&w, &at); i++) {
        if (type_is_float(type)) {
            ((float *)(void *)to)[i] = (float)host_f(item, at);
        } else if (type == U8) {
            to[i] = (char)host_i(item, at);
        } else {
            int64_t x = host_i(item, at);
            /* INT64_MIN and INT64_MAX serve as "everything": they may saturate. */
            if ((x > INT32_MAX || x < INT32_MIN) && x != INT64_MAX && x != INT64_MIN)
                return refuse(l, "the constant %lld does not fit into 32 bits", (long long)x);
            ((int32_t *)(void *)to)[i] = (int32_t)(x > INT32_MAX   ? INT32_MAX
                                                   : x < INT32_MIN ? INT32_MIN
                                                                   : x);
        }
    }
    return OK;
}

/* A constant in the graph. Repeated axes are not stored. Equal constants are one: their name is the
 * hash of their content. */
Err item_view(Lower *l, const Operand *item, View *view)
{
    if (!item->host) {
        *view = item->view;
        return OK;
    }
    View kept = item->view;
    for (int a = 0; a < kept.rank; a++)
        if (!kept.stride[a] || kept.dim[a] == 1)
            kept.dim[a] = 1;
    Type  type = type_floats(item->type) ? F32 : store_type(l, item->type);
    void *bytes;
    TRY(host_bytes(l, item, &kept, type, &bytes));
    Dims     dims = view_dims(&kept);
    Shape    shape = view_shape(dims, NULL);
    uint64_t hash = hash_bytes(hash_int(HASH_EMPTY, type), bytes,
                               (size_t)(shape_count(shape) * type_bytes(type)));
    for (int a = 0; a < shape.rank; a++)
        hash = hash_int(hash, shape.dim[a]);
    int32_t module = l->graph->module;
    l->graph->module = 0;
    Tensor t = constant_add(l->graph,
                            pool_print(l->pool, "constant.%016llx", (unsigned long long)hash), type,
                            shape, bytes, CLASS_CONSTANTS);
    l->graph->module = module;
    *view = view_expanded(view_make(t, dims, NULL), view_dims(&item->view));
    return graph_check(l->graph);
}
