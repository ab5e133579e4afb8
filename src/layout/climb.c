/* climb.c -- repeats greedy placement, each time with the buffers in trouble moved forward.
 *
 * Squeaky wheel optimization (Joslin and Clements 1999): a buffer that ended above the goal gets a
 * better rank, so that it is placed lower next time. Cheap, and the only improvement that
 * components of tens of thousands of buffers can afford.
 */
#include "base/stop.h"
#include "layout/layout_int.h"

#include <stdlib.h>
#include <string.h>

enum {
    CLIMB_ROUNDS = 32,
    CLIMB_STEP = 20, /* a buffer above the goal moves forward by 1/20 of all
                                      * ranks */
};

typedef struct Claim {
    int64_t key;
    int32_t item;
} Claim;

static int climb_compare(const void *a, const void *b)
{
    const Claim *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->item < y->item ? -1 : x->item > y->item;
}

int64_t climb_improve(Pool *pool, Component *component, uint64_t seed, int64_t goal,
                      int64_t max_nodes, double deadline)
{
    Pool    *temp = pool_new(pool, "climb");
    int32_t *by_rank = NEWN(temp, int32_t, component->n);
    int64_t *offset = NEWN(temp, int64_t, component->n), nodes = 0;
    Claim   *claim = NEWN(temp, Claim, component->n);

    order_build(component, order_names[component->order], seed, by_rank);
    memcpy(offset, component->offset, sizeof *offset * (size_t)component->n);
    for (int32_t rank = 0; rank < component->n; rank++)
        claim[rank] = (Claim){ (int64_t)rank * CLIMB_STEP, by_rank[rank] };
    for (int round = 0; round < CLIMB_ROUNDS && component->top > goal; round++) {
        if (nodes + component->n > max_nodes || stop_late(deadline))
            break;
        for (int32_t i = 0; i < component->n; i++)
            if (offset[claim[i].item] + component->items[claim[i].item].size > goal)
                claim[i].key -= component->n;
        qsort(claim, (size_t)component->n, sizeof *claim, climb_compare);
        for (int32_t rank = 0; rank < component->n; rank++)
            by_rank[rank] = claim[rank].item;
        int64_t top = greedy_place(temp, component, by_rank, offset);
        nodes += component->n;
        if (top == INT64_MAX)
            break;
        if (top < component->top) {
            component->top = top;
            memcpy(component->offset, offset, sizeof *offset * (size_t)component->n);
        }
    }
    pool_free(temp);
    return nodes;
}
