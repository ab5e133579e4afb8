/* bottlenecks.c -- the peak as a short ranked list.
 *
 * State has one row per class, because one remedy (no EMA, another optimizer) removes all of it.
 * Everything else is grouped by class, type and shape, because the maps of one level of a network
 * grow and shrink together. */
#include "fit/explained.h"

#include <stdlib.h>
#include <string.h>

static bool bottleneck_is_state(Class mem_class) { return mem_class <= CLASS_CONSTANTS; }

typedef struct BottleneckKey {
    const LiveBuffer *live;
    const Value      *value; /* NULL: a workspace */
} BottleneckKey;

static int bottleneck_key_order(const void *a, const void *b)
{
    const BottleneckKey *x = a, *y = b;
    if (x->live->mem_class != y->live->mem_class)
        return x->live->mem_class < y->live->mem_class ? -1 : 1;
    if (bottleneck_is_state(x->live->mem_class))
        return 0;
    if (x->live->bytes != y->live->bytes)
        return x->live->bytes < y->live->bytes ? 1 : -1;
    if (!x->value || !y->value)
        return (x->value != NULL) - (y->value != NULL);
    if (x->value->type != y->value->type)
        return x->value->type < y->value->type ? -1 : 1;
    if (x->value->shape.rank != y->value->shape.rank)
        return x->value->shape.rank - y->value->shape.rank;
    return memcmp(x->value->shape.dim, y->value->shape.dim,
                  (size_t)x->value->shape.rank * sizeof *x->value->shape.dim);
}

static int bottleneck_order(const void *a, const void *b)
{
    const Bottleneck *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes ? 1 : -1) : strcmp(x->what, y->what);
}

/* The innermost module that contains both. */
static int32_t module_above(const Graph *graph, int32_t a, int32_t b)
{
    while (a != b)
        if (a > b) /* children come after their parents */
            a = graph->modules[a].parent;
        else
            b = graph->modules[b].parent;
    return a;
}

void bottlenecks_find(Pool *pool, const Sheet *sheet, Bottleneck **list, int32_t *n)
{
    const Graph   *graph = sheet->engine->graph;
    BottleneckKey *by_key = NEWN(pool, BottleneckKey, sheet->n_live + 1);
    int32_t        cap = 0, module = 0;
    *list = NULL;
    *n = 0;
    for (int32_t i = 0; i < sheet->n_live; i++)
        by_key[i] = (BottleneckKey){ &sheet->live[i], sheet->live[i].value >= 0
                                                          ? value_at(graph, sheet->live[i].value)
                                                          : NULL };
    qsort(by_key, (size_t)sheet->n_live, sizeof *by_key, bottleneck_key_order);
    for (int32_t i = 0; i < sheet->n_live; i++) {
        const LiveBuffer *b = by_key[i].live;
        const Value      *value = by_key[i].value;
        bool              state = bottleneck_is_state(b->mem_class);
        if (!i || bottleneck_key_order(&by_key[i - 1], &by_key[i])) {
            const char *what = class_name(b->mem_class);
            if (!state && value)
                what = pool_print(pool, "%s %s %s", what, shape_text(value->shape),
                                  type_name(value->type));
            VEC_ADD(pool, *list, *n, cap,
                    (Bottleneck){ .what = what, .each = state ? 0 : b->bytes });
            module = b->module;
        }
        Bottleneck *row = &(*list)[*n - 1];
        module = module_above(graph, module, b->module);
        row->where = *graph->modules[module].path ? graph->modules[module].path : "(model)";
        row->bytes += b->bytes;
        row->n++;
    }
    if (*n)
        qsort(*list, (size_t)*n, sizeof **list, bottleneck_order);
}
