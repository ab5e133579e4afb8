/* plimsoll.c -- implements plimsoll.h with the rooms layout and plan.
 *
 * Arguments are checked here, because other callers of those rooms never pass wrong ones. Answers
 * are copied, so that no internal type is visible. */
#include "lib/lib_int.h"

#include "layout/layout.h"
#include "plan/plan_buffers.h"

#include <limits.h>
#include <stdio.h>

const char *plimsoll_version(void) { return PLIMSOLL_VERSION; }

plimsoll_status lib_status(Err err, plimsoll_error *error)
{
    if (error)
        snprintf(error->text, sizeof error->text, "%s", err ? err_text() : "");
    return (plimsoll_status)err_exit_code(err);
}

Err lib_no_memory(void) { return fail(E_DEVICE, "out of memory"); }

static Err lib_limits(int64_t effort, int64_t min, double time_limit_s)
{
    if (effort < min)
        return fail(E_USAGE, "the effort is %lld, must be %lld or more", (long long)effort,
                    (long long)min);
    if (!(time_limit_s >= 0))
        return fail(E_USAGE, "the time limit is %g seconds, must be 0 (none) or more",
                    time_limit_s);
    return OK;
}

/* ---- buffers ---- */

static Err place(Pool *pool, plimsoll_buffer *buffers, size_t n,
                 const plimsoll_place_options *options, plimsoll_arena *arena)
{
    LayoutResult result;
    TRY(lib_limits(options->effort, -1, options->time_limit_s));
    if (!buffers && n > 0)
        return fail(E_USAGE, "%zu buffers are to be placed, but the pointer to them is NULL", n);
    if (n > INT_MAX)
        return fail(E_USAGE, "%zu buffers are more than can be placed at once", n);
    if (options->capacity < 0)
        return fail(E_USAGE, "the capacity is %lld bytes, must be 0 (any) or more",
                    (long long)options->capacity);
    Buffer *of = NEWN(pool, Buffer, n + 1);
    for (size_t i = 0; i < n; i++)
        of[i] = (Buffer){ .lower = buffers[i].lower,
                          .upper = buffers[i].upper,
                          .size = buffers[i].size,
                          .align = buffers[i].align,
                          .offset = buffers[i].offset,
                          .fixed = buffers[i].fixed };
    LayoutOptions how = { .capacity = options->capacity,
                          .max_nodes = options->effort,
                          .time_limit_s = options->time_limit_s,
                          .seed = options->seed };
    Err           err = layout_within(pool, of, (int)n, &how, &result);
    if (err && err != E_BUDGET)
        return err;
    const char *refusal = pool_text(pool, err_text()); /* before the checker can replace it */
    TRY(layout_check(of, (int)n, result.arena_bytes));
    for (size_t i = 0; i < n; i++)
        buffers[i].offset = of[i].offset;
    *arena = (plimsoll_arena){ result.arena_bytes, result.bound_bytes, result.proved, result.cut };
    return err ? fail(err, "%s", refusal) : OK;
}

plimsoll_status plimsoll_place(plimsoll_buffer *buffers, size_t n,
                               const plimsoll_place_options *options, plimsoll_arena *arena,
                               plimsoll_error *error)
{
    plimsoll_place_options defaults = { 0 };
    Pool                  *pool = pool_try("plimsoll_place");
    plimsoll_arena         none;
    PoolGuard              guard;
    Err                    err;
    if (!pool)
        return lib_status(lib_no_memory(), error);
    pool_guard(&guard, pool);
    if (!setjmp(guard.at))
        err = place(pool, buffers, n, options ? options : &defaults, arena ? arena : &none);
    else
        err = lib_no_memory();
    pool_unguard(&guard);
    pool_free(pool);
    return lib_status(err, error);
}

/* ---- plans ---- */

typedef struct LibPlan { /* public fields first: plimsoll_plan_free gets their address */
    plimsoll_plan of;
    Pool         *pool;
} LibPlan;

_Static_assert((int)STEP_RUN == PLIMSOLL_RUN && (int)STEP_DROP == PLIMSOLL_DROP &&
                   (int)STEP_SAVE == PLIMSOLL_SAVE && (int)STEP_LOAD == PLIMSOLL_LOAD &&
                   (int)STEP_WAIT == PLIMSOLL_WAIT && (int)STEP_FREE_HOST == PLIMSOLL_FREE_HOST &&
                   STEP_KINDS == 6,
               "steps are numbered as plimsoll.h has them");

static Err plan_live_ranges(const PGraph *graph, const Plan *found, LibPlan *plan)
{
    PlacedRange *placed;
    int32_t      n;
    TRY(plan_placed_ranges(plan->pool, graph, found, &placed, &n));
    plimsoll_live_range *ranges = NEWN(plan->pool, plimsoll_live_range, n + 1);
    for (int32_t i = 0; i < n; i++)
        ranges[i] = (plimsoll_live_range){ placed[i].value,      placed[i].node,
                                           placed[i].first_step, placed[i].last_step,
                                           placed[i].offset,     placed[i].bytes };
    plan->of.live_ranges = ranges;
    plan->of.n_live_ranges = (size_t)n;
    return OK;
}

static Err find_plan(const plimsoll_graph *graph, const plimsoll_plan_options *options,
                     LibPlan *plan)
{
    Plan *found;
    if (!graph)
        return fail(E_USAGE, "the graph is NULL; check whether it could be read");
    const PGraph *of = &graph->of;
    if (graph->wrong)
        return fail(E_USAGE, "%s", graph->wrong);
    TRY(lib_limits(options->effort, 0, options->time_limit_s));
    if (options->budget_bytes < 0 || options->host_budget_bytes < 0)
        return fail(E_USAGE, "a budget of %lld bytes, %lld on the host; 0 means none",
                    (long long)options->budget_bytes, (long long)options->host_budget_bytes);
    TRY(pgraph_check(of));
    PlanOptions how = { .budget_bytes = options->budget_bytes,
                        .host_budget_bytes = options->host_budget_bytes,
                        .effort = options->effort,
                        .time_limit_s = options->time_limit_s,
                        .seed = options->seed,
                        .layout = options->place };
    Err         err = plan_solve(plan->pool, of, &how, &found);
    if (err && err != E_BUDGET)
        return err;
    const char    *refusal = pool_text(plan->pool, err_text());
    plimsoll_step *steps = NEWN(plan->pool, plimsoll_step, found->n_steps + 1);
    TRY(plan_check(of, found, err || options->place ? 0 : options->budget_bytes));
    for (int32_t i = 0; i < found->n_steps; i++)
        steps[i] = (plimsoll_step){ (plimsoll_step_kind)found->steps[i].kind, found->steps[i].id };
    plan->of = (plimsoll_plan){ .steps = steps,
                                .n_steps = (size_t)found->n_steps,
                                .live_bytes = found->live_bytes,
                                .arena_bytes = options->place ? found->arena_bytes : 0,
                                .host_bytes = found->host_bytes,
                                .bound_bytes = found->bound_bytes,
                                .cost = found->cost,
                                .base_cost = found->base_cost,
                                .cut = found->cut };
    if (options->place)
        TRY(plan_live_ranges(of, found, plan));
    return err ? fail(err, "%s", refusal) : OK;
}

plimsoll_status plimsoll_find_plan(const plimsoll_graph        *graph,
                                   const plimsoll_plan_options *options, plimsoll_plan **plan,
                                   plimsoll_error *error)
{
    if (!plan)
        return lib_status(fail(E_USAGE, "the pointer for the plan is NULL"), error);
    *plan = NULL;
    Pool *pool = pool_try("plimsoll_plan");
    if (!pool)
        return lib_status(lib_no_memory(), error);
    PoolGuard guard;
    Err       err;
    pool_guard(&guard, pool);
    if (!setjmp(guard.at)) {
        LibPlan *found = NEW(pool, LibPlan);
        found->pool = pool;
        err = find_plan(graph, options ? options : &(plimsoll_plan_options){ 0 }, found);
        if (!err || err == E_BUDGET)
            *plan = &found->of;
    } else {
        err = lib_no_memory();
    }
    pool_unguard(&guard);
    plimsoll_status status = lib_status(err, error);
    if (!*plan)
        pool_free(pool);
    return status;
}

void plimsoll_plan_free(plimsoll_plan *plan)
{
    if (plan)
        pool_free(((LibPlan *)plan)->pool);
}
