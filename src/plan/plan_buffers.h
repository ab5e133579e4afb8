/* plan_buffers.h -- the buffers a plan needs: one for each live range of a value.
 *
 * A live range goes from a value's production to its drop. A value that is dropped and recomputed
 * has several, each placed on its own. Values joined by inplace share one buffer; views share their
 * root's; workspace is a buffer of one step.
 */
#ifndef PLAN_PLAN_BUFFERS_H
#define PLAN_PLAN_BUFFERS_H

#include "layout/layout.h"
#include "plan/plan.h"

typedef struct LiveRange {
    int32_t value;  /* root value, or -1 for workspace */
    int32_t node;   /* the node whose workspace it is; -1: a value */
    int32_t buffer; /* index into buffers; values joined by inplace share one. -1: no bytes
                              * of its own (0 bytes, or `within` is set) */
    int32_t within; /* this persistent value's bytes were taken over; -1: none */
    int32_t first_step, last_step; /* inclusive */
} LiveRange;

typedef struct PlanBuffers {
    Buffer    *buffers; /* without persistent values: those lie below, always live */
    LiveRange *ranges;  /* in order of first_step */
    int32_t    n_buffers, n_ranges;
} PlanBuffers;

Err plan_buffers(Pool *pool, const PGraph *graph, const Plan *plan, PlanBuffers *out);

/* Places the plan's buffers above the persistent values, within the budget if a short search
 * manages that. arena_bytes counts both. */
Err plan_buffers_place(Pool *pool, const PGraph *graph, const Plan *plan, int64_t budget_bytes,
                       PlanBuffers *out, int64_t *arena_bytes);

/* A live range with its place in the arena. */
typedef struct PlacedRange {
    int32_t value, node; /* value: not a view, or -1 for workspace of the node; node: -1 for a
                              * value */
    int32_t first_step, last_step; /* inclusive */
    int64_t offset, bytes;
} PlacedRange;

/* All placed ranges of a plan that was placed (arena_bytes is set): persistent values first, then
 * by first_step. Ranges of 0 bytes are left out. */
Err plan_placed_ranges(Pool *pool, const PGraph *graph, const Plan *plan, PlacedRange **placed,
                       int32_t *n);

/* The host slots, one from a value's save to its free_host. Host-resident values are left out: they
 * keep their slots. */
Err plan_slots(Pool *pool, const PGraph *graph, const Plan *plan, PlanBuffers *out);

#endif
