/* avoided.c -- lists what a plain form of the forward nodes would store for the backward pass. */
#include "fit/avoided.h"

#include "ir/op.h"

#include <stdlib.h>
#include <string.h>

static int avoided_order(const void *a, const void *b)
{
    const Avoided *x = a, *y = b;
    int64_t        all_x = x->bytes * x->count, all_y = y->bytes * y->count;
    return all_x != all_y ? (all_x < all_y ? 1 : -1) : strcmp(x->name, y->name);
}

static const char *avoided_where(const Graph *graph, const Node *node)
{
    const char *path = graph->modules[node->module].path;
    return *path ? path : node->op->name;
}

void avoided_find(Pool *pool, const Graph *graph, Avoided **list, int32_t *n)
{
    int32_t cap = 0;
    *list = NULL;
    *n = 0;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const Node        *node = &graph->nodes[i];
        const NeverStored *rule = &node->op->never_stored;
        int64_t            bytes = rule->what && node->phase == PHASE_MICRO && !node->backward
                                       ? rule->bytes(node)
                                       : 0;
        int32_t            same = 0;
        if (!bytes)
            continue;
        while (same < *n && !((*list)[same].bytes == bytes && (*list)[same].reason == rule->reason))
            same++;
        if (same < *n)
            (*list)[same].count++;
        else
            VEC_ADD(pool, *list, *n, cap,
                    (Avoided){ rule->what, avoided_where(graph, node),
                               pool_print(pool, "%s of %s", rule->what, avoided_where(graph, node)),
                               rule->reason, bytes, 1 });
    }
    if (*n)
        qsort(*list, (size_t)*n, sizeof **list, avoided_order);
}
