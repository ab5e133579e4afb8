/* plan_buffers.h -- the buffers a plan needs: one per stay of a value (first run to drop).
 *
 * A value that is dropped and recomputed has several stays, each placed on its own. Values joined
 * by inplace share one buffer; views share their root's; workspace is a buffer of one step.
 */
#ifndef PLAN_PLAN_BUFFERS_H
#define PLAN_PLAN_BUFFERS_H

#include "layout/layout.h"
#include "plan/plan.h"

typedef struct LiveRange {
    int32_t value;           /* root value, or -1 for workspace */
    int32_t node;            /* workspace: of this node */
    int32_t buffer;          /* index into buffers; several values joined by inplace share one.
                              * -1: no bytes of its own (0 bytes, or `within` is set) */
    int32_t within;          /* took over the bytes of this persistent value, or -1 */
    int32_t first_step, last_step;   /* steps during which it is live, inclusive */
} LiveRange;

typedef struct PlanBuffers {
    Buffer *buffers;         /* persistent values are not here: they lie below, always live */
    LiveRange   *ranges;           /* in order of first_step */
    int32_t n_buffers, n_ranges;
} PlanBuffers;

Err plan_buffers(Pool *pool, const PGraph *graph, const Plan *plan, PlanBuffers *out);

/* Its buffers with offsets above the persistent values, within the budget if a short search finds
 * that; arena_bytes counts both. */
Err plan_buffers_place(Pool *pool, const PGraph *graph, const Plan *plan, int64_t budget_bytes,
                       PlanBuffers *out, int64_t *arena_bytes);

/* Bytes of the arena that a value, or a node's workspace, has for a while. */
typedef struct PlacedRange {
    int32_t value, node;     /* no view; -1: workspace of that node, which else is -1 */
    int32_t first_step, last_step;   /* both included */
    int64_t offset, bytes;
} PlacedRange;

/* Of a plan that was placed (arena_bytes): persistent values first, then by first_step; nothing of
 * 0 bytes. */
Err plan_placed_ranges(Pool *pool, const PGraph *graph, const Plan *plan, PlacedRange **placed, int32_t *n);

/* Those on the host: one slot from a value's save to its free_host. Host-resident values are not here:
 * their slots are always theirs. */
Err plan_slots(Pool *pool, const PGraph *graph, const Plan *plan, PlanBuffers *out);

#endif
