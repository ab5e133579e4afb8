/* plan_buffers.c -- walks the steps: a buffer opens when a value becomes live and closes at its
 * drop.
 *
 *   step      0      1      2      3      4      5
 *   a         run a |======| drop a               run a |==   two live ranges of a, two buffers
 *   b (inplace of a)  or:  a |=====run b=====|            one buffer: a's range, then b's
 */
#include "plan/plan_buffers.h"

typedef struct BufferWalk {
    const PGraph *graph;
    Pool         *pool;
    PlanBuffers  *out;
    int32_t       cap_buffers, cap_ranges;
    int64_t      *held;  /* [value] */
    int32_t      *range; /* [value] its open range, or -1 */
} BufferWalk;

static int32_t walk_buffer(BufferWalk *w, int32_t step, int64_t bytes)
{
    if (bytes == 0)
        return -1;
    Buffer buffer = { .lower = step, .upper = step + 1, .size = bytes, .align = w->graph->align };
    VEC_ADD(w->pool, w->out->buffers, w->out->n_buffers, w->cap_buffers, buffer);
    return w->out->n_buffers - 1;
}

static int32_t walk_range(BufferWalk *w, LiveRange range)
{
    VEC_ADD(w->pool, w->out->ranges, w->out->n_ranges, w->cap_ranges, range);
    return w->out->n_ranges - 1;
}

/* last: the last step during which the value is live. */
static void walk_close(BufferWalk *w, int32_t value, int32_t last)
{
    if (w->range[value] < 0)
        return;
    LiveRange *range = &w->out->ranges[w->range[value]];
    range->last_step = last;
    if (range->buffer >= 0 && w->out->buffers[range->buffer].upper < last + 1)
        w->out->buffers[range->buffer].upper = last + 1;
    w->range[value] = -1;
}

static void walk_open(BufferWalk *w, int32_t value, int32_t step, int32_t buffer, int32_t within)
{
    w->range[value] = walk_range(w, (LiveRange){
                                        .value = value,
                                        .node = -1,
                                        .buffer = buffer,
                                        .within = within,
                                        .first_step = step,
                                        .last_step = step,
                                    });
}

static void walk_run(BufferWalk *w, int32_t id, int32_t step)
{
    const PGraph *graph = w->graph;
    const PNode  *node = &graph->nodes[id];
    for (int32_t i = 0; i < node->n_out; i++) {
        int32_t v = node->out[i], taken = pgraph_taken_over(node, v);
        if (graph->values[v].persistent || graph->values[v].view_of >= 0)
            continue;
        if (taken >= 0) {
            int32_t root = pgraph_root(graph, taken), buffer = -1, within = -1;
            if (graph->values[root].persistent) {
                within = root;
            } else if (w->range[root] >= 0) {
                buffer = w->out->ranges[w->range[root]].buffer;
                within = w->out->ranges[w->range[root]].within;
            }
            walk_close(w, v, step);
            walk_close(w, root, step);
            walk_open(w, v, step, buffer, within);
        } else if (w->range[v] < 0) {
            walk_open(w, v, step, walk_buffer(w, step, w->held[v]), -1);
        }
    }
    if (node->workspace > 0)
        walk_range(w, (LiveRange){
                          .value = -1,
                          .node = id,
                          .buffer = walk_buffer(w, step, node->workspace),
                          .within = -1,
                          .first_step = step,
                          .last_step = step,
                      });
}

Err plan_buffers(Pool *pool, const PGraph *graph, const Plan *plan, PlanBuffers *out)
{
    Pool      *temp = pool_new(NULL, "plan_buffers");
    BufferWalk w = {
        .graph = graph,
        .pool = pool,
        .out = out,
        .held = pgraph_held_bytes(temp, graph),
        .range = NEWN(temp, int32_t, graph->n_values + 1),
    };
    *out = (PlanBuffers){ 0 };
    for (int32_t v = 0; v < graph->n_values; v++)
        w.range[v] = -1;
    for (int32_t s = 0; s < plan->n_steps; s++) {
        Step step = plan->steps[s];
        if (step.kind == STEP_RUN)
            walk_run(&w, step.id, s);
        else if (step.kind == STEP_DROP && graph->values[step.id].view_of < 0)
            walk_close(&w, step.id, s - 1);
        else if (step.kind == STEP_LOAD && w.range[step.id] < 0 &&
                 !graph->values[step.id].persistent)
            walk_open(&w, step.id, s, walk_buffer(&w, s, graph->values[step.id].bytes), -1);
    }
    for (int32_t v = 0; v < graph->n_values; v++)
        walk_close(&w, v, plan->n_steps - 1);
    pool_free(temp);
    return OK;
}

/* A short search, under a second: if this plan is hard to place, another plan is often easy. */
Err plan_buffers_place(Pool *pool, const PGraph *graph, const Plan *plan, int64_t budget_bytes,
                       PlanBuffers *out, int64_t *arena_bytes)
{
    LayoutResult result = { 0 };
    int64_t      fixed = 0;
    for (int32_t v = 0; v < graph->n_values; v++)
        fixed += pgraph_persistent_room(graph, v);
    TRY(plan_buffers(pool, graph, plan, out));
    if (out->n_buffers > 0) {
        LayoutOptions options = { .capacity = budget_bytes > fixed ? budget_bytes - fixed : 0,
                                  .max_nodes = PLACE_NODES,
                                  .remember = true };
        Err           err = layout_solve(pool, out->buffers, out->n_buffers, &options, &result);
        if (err && err != E_BUDGET) /* not a failure: the caller compares sizes */
            return err;
        TRY(layout_check(out->buffers, out->n_buffers, result.arena_bytes));
    }
    *arena_bytes = fixed + result.arena_bytes;
    return OK;
}

/* Persistent values lie at the bottom, one after the other, for all steps. Returns where they
 * end. */
static int64_t placed_persistent(const PGraph *graph, const Plan *plan, PlacedRange *placed,
                                 int32_t *n, int64_t *offset)
{
    int64_t at = 0;
    for (int32_t v = 0; v < graph->n_values; v++) {
        int64_t room = pgraph_persistent_room(graph, v);
        offset[v] = at;
        at += room;
        if (room > 0)
            placed[(*n)++] =
                (PlacedRange){ v, -1, 0, plan->n_steps - 1, offset[v], graph->values[v].bytes };
    }
    return at;
}

/* The planner has placed this plan before, within the budget or as low as possible; the same search
 * gives the same offsets. */
Err plan_placed_ranges(Pool *pool, const PGraph *graph, const Plan *plan, PlacedRange **placed,
                       int32_t *n)
{
    PlanBuffers all;
    int64_t     aims[] = { plan->budget_bytes, 0 }, arena_bytes = -1;
    int64_t    *offset = NEWN(pool, int64_t, graph->n_values + 1);
    for (int i = 0; i < 2 && arena_bytes != plan->arena_bytes; i++)
        TRY(plan_buffers_place(pool, graph, plan, aims[i], &all, &arena_bytes));
    REQUIRE(arena_bytes == plan->arena_bytes);
    *n = 0;
    *placed = NEWN(pool, PlacedRange, graph->n_values + all.n_ranges + 1);
    int64_t above = placed_persistent(graph, plan, *placed, n, offset);
    for (int32_t i = 0; i < all.n_ranges; i++) {
        const LiveRange *s = &all.ranges[i];
        if (s->buffer < 0 && s->within < 0)
            continue;
        bool          has_buffer = s->buffer >= 0;
        const Buffer *b = has_buffer ? &all.buffers[s->buffer] : NULL;
        (*placed)[(*n)++] = (PlacedRange){ s->value,
                                           s->value < 0 ? s->node : -1,
                                           s->first_step,
                                           s->last_step,
                                           has_buffer ? above + b->offset : offset[s->within],
                                           has_buffer ? b->size : graph->values[s->within].bytes };
    }
    return OK;
}

Err plan_slots(Pool *pool, const PGraph *graph, const Plan *plan, PlanBuffers *out)
{
    Pool      *temp = pool_new(NULL, "plan_slots");
    BufferWalk w = {
        .graph = graph, .pool = pool, .out = out, .range = NEWN(temp, int32_t, graph->n_values + 1)
    };
    *out = (PlanBuffers){ 0 };
    for (int32_t v = 0; v < graph->n_values; v++)
        w.range[v] = -1;
    for (int32_t s = 0; s < plan->n_steps; s++) {
        Step step = plan->steps[s];
        if (step.kind == STEP_SAVE && w.range[step.id] < 0 && !graph->values[step.id].host_resident)
            walk_open(&w, step.id, s, walk_buffer(&w, s, graph->values[step.id].bytes), -1);
        else if (step.kind == STEP_FREE_HOST)
            walk_close(&w, step.id, s);
    }
    for (int32_t v = 0; v < graph->n_values; v++)
        walk_close(&w, v, plan->n_steps - 1);
    pool_free(temp);
    return OK;
}
