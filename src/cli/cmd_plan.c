/* cmd_plan.c -- `plan`: the planner alone, on any graph with costs and sizes. */
#include "cli/cli.h"

#include "base/clock.h"
#include "base/json_out.h"
#include "base/text.h"
#include "plan/plan.h"

#include <unistd.h>

static struct {
    const char *budget, *out;
    int64_t     effort, seed;
    double      time_limit;
    bool        json, layout;
} opt;

static const Option options[] = {
    { "budget",     OPT_TEXT,   &opt.budget,     "BYTES", "stay within this; 80% means of running every node once" },
    { "o",          OPT_TEXT,   &opt.out,        "FILE",  "write plan.json here" },
    { "layout",     OPT_FLAG,   &opt.layout,     NULL,    "place every buffer: the budget then is of the arena" },
    { "effort",     OPT_INT,    &opt.effort,     "N",     "search moves; the default takes about 10 s on 2 cores" },
    { "time-limit", OPT_NUMBER, &opt.time_limit, "S",     "cut the search off after S seconds" },
    { "seed",       OPT_INT,    &opt.seed,       "N",     "of the search" },
    { "json",       OPT_FLAG,   &opt.json,       NULL,    "print the result as JSON" },
    { 0 }
};

static Err plan_json(const Plan *plan, bool fits, double seconds)
{
    JsonOut o;
    json_out_stream(&o, stdout, JSON_PRETTY);
    json_out_object(&o, NULL);
    json_out_bool(&o, "fits", fits);
    json_out_int(&o, "budget_bytes", plan->budget_bytes);
    json_out_int(&o, "peak_bytes", plan->live_bytes);
    json_out_int(&o, "live_bytes", plan->live_bytes);
    json_out_int(&o, "arena_bytes", plan->arena_bytes);
    json_out_int(&o, "bound_bytes", plan->bound_bytes);
    json_out_number(&o, "cost", plan->cost);
    json_out_number(&o, "base_cost", plan->base_cost);
    json_out_bool(&o, "cut", plan->cut);
    json_out_int(&o, "steps", plan->n_steps);
    json_out_number(&o, "seconds", seconds);
    json_out_end(&o);
    return json_out_done(&o);
}

static Err cmd_plan_run(Pool *pool, int n_args, char **args)
{
    PGraph     *graph;
    Plan       *keep, *plan;
    PlanOptions options_in = { .effort = opt.effort, .seed = (uint64_t)opt.seed, .time_limit_s = opt.time_limit,
                               .layout = opt.layout };

    if (n_args != 1)
        return fail(E_USAGE, "plan takes one file: plimsoll plan graph.json --budget B -o plan.json");
    TRY(pgraph_read(pool, args[0], &graph));
    TRY(plan_keep_all(pool, graph, &keep));
    PlanMeter meter;
    TRY(plan_simulate(NULL, graph, keep, &meter));
    int64_t base = graph->base_peak_bytes ? graph->base_peak_bytes : meter.live_bytes;
    options_in.budget_bytes = meter.live_bytes;
    if (opt.budget)
        TRY(bytes_read(opt.budget, base, &options_in.budget_bytes));
    if (!opt.json && isatty(2))
        options_in.progress = show_planning;

    double start = clock_now();
    Err    err = plan_solve(pool, graph, &options_in, &plan);
    double seconds = clock_now() - start;
    if (err && err != E_BUDGET)
        return err;
    TRY(plan_check(graph, plan, err ? 0 : options_in.budget_bytes));
    if (opt.json)
        TRY(plan_json(plan, !err, seconds));
    else
        printf("%d nodes: peak %s of %s, cost %.6g (%+.3f %% over running every node once), %d steps, %.2f s%s\n",
               graph->n_nodes, bytes_text(plan->live_bytes), bytes_text(meter.live_bytes), plan->cost,
               plan->base_cost > 0 ? 100 * (plan->cost / plan->base_cost - 1) : 0, plan->n_steps, seconds,
               plan->cut ? ", cut off" : "");
    if (opt.out && !err)
        TRY(plan_write(opt.out, graph, plan));
    if (err)
        return fail(E_BUDGET, "no plan within %lld bytes was found: the least peak found is %lld (no plan can do with "
                    "less than %lld); ask for that", (long long)options_in.budget_bytes, (long long)plan->live_bytes,
                    (long long)plan->bound_bytes);
    return OK;
}

const Command cmd_plan = {
    "plan", "graph.json --budget B -o plan.json", "the cheapest plan of any graph within a budget", options, cmd_plan_run
};
