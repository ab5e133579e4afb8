/* chunk_rule.c -- how a node runs in chunks, from its operator's ChunkDef. */
#include "ir/chunk_rule.h"

#include <string.h>

enum { CHUNK_MAX_INPUTS = 32 }; /* bits of a mask */

/* True if every input of the mask can be sliced along the same axis as input `like`. */
static bool chunk_inputs(const Node *n, uint32_t inputs, int like, int64_t chunks)
{
    for (int i = 0; i < n->n_in; i++)
        if (inputs & INPUT(i) && (!chunk_divides(in_shape(n, i), chunks) ||
                                  chunk_axis(in_shape(n, i)) != chunk_axis(in_shape(n, like))))
            return false;
    return true;
}

static bool chunk_along(const Node *n, ChunkBy by, Shape x, int axis)
{
    switch (by) {
    case CHUNK_NEVER: return false;
    case CHUNK_ELEMENTS:
    case CHUNK_MEAN_LOSS:
    case CHUNK_CUSTOM: return true;
    case CHUNK_ROWS: return axis < x.rank - 1;
    case CHUNK_SAMPLES:
    case CHUNK_CHEAP_SAMPLES: return axis == 0;
    case CHUNK_COUNTED_LOSS: return axis < x.rank - 1 && in_given(n, n->n_in - 1);
    }
    return false;
}

bool chunk_rule(Pool *pool, const Node *n, int64_t chunks, bool rows_only, ChunkRule *rule)
{
    const ChunkDef *def = &n->op->chunk;
    if (def->by == CHUNK_NEVER || (rows_only && def->by == CHUNK_SAMPLES) ||
        n->phase != PHASE_MICRO || n->once || n->n_in > CHUNK_MAX_INPUTS)
        return false;
    *rule = (ChunkRule){ .inputs = def->inputs,
                         .sums = def->by == CHUNK_MEAN_LOSS || def->by == CHUNK_COUNTED_LOSS };
    for (int i = 0; i < CHUNK_MAX_INPUTS; i++) /* only inputs that are present */
        if (i >= n->n_in || n->in[i] < 0)
            rule->inputs &= ~INPUT(i);
    bool chosen = def->by == CHUNK_CUSTOM && !def->inputs; /* .fit names the inputs itself */
    int  like = 0;
    while (!chosen && like < n->n_in && !(rule->inputs & INPUT(like)))
        like++;
    if (!chosen && (like >= n->n_in || !chunk_inputs(n, rule->inputs, like, chunks)))
        return false;
    Shape x = in_shape(n, like);
    int   axis = chosen ? -1 : chunk_axis(x);
    if (!chunk_along(n, def->by, x, axis))
        return false;
    if (n->op->attr_bytes) {
        rule->attr = pool_alloc(pool, (size_t)n->op->attr_bytes, 1);
        memcpy(rule->attr, n->attr, (size_t)n->op->attr_bytes);
    }
    return !def->fit || def->fit(&(ChunkCall){ n, chunks, axis, &rule->inputs, rule->attr });
}
