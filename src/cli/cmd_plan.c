/* cmd_plan.c -- `plan`: the planner alone, for any graph with costs and sizes. */
#include "cli/cli.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/int_math.h"
#include "base/json_out.h"
#include "base/stop.h"
#include "base/terminal.h"
#include "base/text.h"
#include "plan/prove.h"

#include <string.h>

enum { CURVE_POINTS = 20 };

static struct {
    const char *budget, *out, *prove_lp;
    double      prove_limit;
    bool        json, layout, prove, curve;
} opt;
static SearchOptions search;

static const Option options[] = {
    { "budget", OPT_TEXT, &opt.budget, "BYTES",
      "bytes to stay within; 80%kept: share of the peak without recomputation" },
    { "o", OPT_TEXT, &opt.out, "FILE", "write the plan here, as JSON" },
    { "layout", OPT_FLAG, &opt.layout, NULL,
      "also place every buffer; the budget then limits the arena" },
    { "curve", OPT_FLAG, &opt.curve, NULL,
      "show the lowest cost at every twentieth of the memory, up to the budget" },
    { "prove", OPT_FLAG, &opt.prove, NULL,
      "print lower bounds; uses the solver CBC if it is installed" },
    { "prove-limit", OPT_SECONDS, &opt.prove_limit, "S",
      "seconds for CBC on each of its two programs, default 30" },
    { "prove-lp", OPT_TEXT, &opt.prove_lp, "FILE",
      "write the integer program here instead of solving it" },
    SEARCH_OPTIONS(search, "search moves; the default takes about 10 s on 2 cores"),
    { "json", OPT_FLAG, &opt.json, NULL, "print the result as JSON" },
    { 0 }
};

/* The result, for both text and JSON. */
typedef struct Found {
    const PGraph *graph;
    const Plan   *plan;
    bool          fits;
    double        seconds;
    int64_t       keep_all_bytes;
    Proof         proof;
    bool          proved;
    int64_t       budgets[CURVE_POINTS];
    Plan         *curve[CURVE_POINTS];
    int           n_curve;
} Found;

static double extra_percent(const Plan *plan, double cost)
{
    return plan->base_cost > 0 ? 100 * (cost / plan->base_cost - 1) : 0;
}

/* Percent of the extra cost that may be avoidable; 0: the bound is reached. */
static double gap_percent(const Plan *plan, double bound)
{
    double extra = plan->cost - plan->base_cost;
    return extra > 0 && plan->cost > bound ? 100 * (plan->cost - bound) / extra : 0;
}

static void plan_json_proof(JsonOut *o, const Found *f)
{
    const Proof *proof = &f->proof;
    json_out_object(o, "proof");
    json_out_number(o, "any_order_cost", proof->any_cost);
    json_out_int(o, "any_order_bytes", proof->any_bytes);
    json_out_bool(o, "any_order_exact", proof->exact);
    json_out_number(o, "any_order_gap_percent", gap_percent(f->plan, proof->any_cost));
    if (proof->order_tried) {
        json_out_number(o, "input_order_cost", proof->order_cost);
        json_out_bool(o, "input_order_closed", proof->order_closed);
        json_out_number(o, "input_order_gap_percent", gap_percent(f->plan, proof->order_cost));
    } else {
        json_out_string(o, "input_order_note", proof->order_note);
    }
    json_out_int(o, "columns", proof->order_columns);
    json_out_int(o, "rows", proof->order_rows);
    json_out_end(o);
}

static Err plan_json(const Found *f)
{
    JsonOut     o;
    const Plan *plan = f->plan;
    json_out_stream(&o, stdout, JSON_PRETTY);
    json_out_object(&o, NULL);
    json_out_bool(&o, "fits", f->fits);
    json_out_int(&o, "budget_bytes", plan->budget_bytes);
    json_out_int(&o, "peak_bytes", plan_peak_bytes(plan));
    json_out_int(&o, "live_bytes", plan->live_bytes);
    json_out_int(&o, "arena_bytes", plan->arena_bytes);
    json_out_int(&o, "bound_bytes", plan->bound_bytes);
    json_out_number(&o, "cost", plan->cost);
    json_out_number(&o, "base_cost", plan->base_cost);
    json_out_bool(&o, "cut", plan->cut);
    json_out_int(&o, "steps", plan->n_steps);
    json_out_number(&o, "seconds", f->seconds);
    if (f->proved)
        plan_json_proof(&o, f);
    if (f->n_curve > 0) {
        json_out_array(&o, "curve");
        for (int i = 0; i < f->n_curve; i++) {
            json_out_object(&o, NULL);
            json_out_int(&o, "budget_bytes", f->budgets[i]);
            json_out_bool(&o, "fits", f->curve[i] != NULL);
            if (f->curve[i]) {
                json_out_int(&o, "live_bytes", f->curve[i]->live_bytes);
                json_out_number(&o, "cost", f->curve[i]->cost);
            }
            json_out_end(&o);
        }
        json_out_end(&o);
    }
    json_out_end(&o);
    return json_out_done(&o);
}

static void plan_print_proof(const Found *f)
{
    const Proof *proof = &f->proof;
    if (proof->exact)
        print_sentence(stdout,
                       "proof: all states were searched: no plan costs less than %.6g, none needs "
                       "less than %s",
                       proof->any_cost, bytes_text(proof->any_bytes));
    else if (gap_percent(f->plan, proof->any_cost) == 0)
        print_sentence(stdout,
                       "proof, any order: optimal: no plan within %s costs less; none needs less "
                       "than %s",
                       f->fits ? "the budget" : "this peak", bytes_text(proof->any_bytes));
    else
        print_sentence(stdout,
                       "proof, any order: no plan costs less than %.6g (%+.3f %%); at most %.1f %% "
                       "of the extra cost is avoidable; none needs less than %s",
                       proof->any_cost, extra_percent(f->plan, proof->any_cost),
                       gap_percent(f->plan, proof->any_cost), bytes_text(proof->any_bytes));
    if (!proof->order_tried)
        print_sentence(stdout, "proof, input order: %s", proof->order_note);
    else if (proof->order_closed && proof->order_cost >= f->plan->cost * (1 - 1e-9))
        print_sentence(stdout,
                       "proof, input order: optimal: no plan that keeps the order of first runs "
                       "costs less (%lld columns, CBC)",
                       (long long)proof->order_columns);
    else
        print_sentence(stdout,
                       "proof, input order: no plan that keeps the order of first runs costs less "
                       "than %.6g (%+.3f %%), gap %.2f %%%s",
                       proof->order_cost, extra_percent(f->plan, proof->order_cost),
                       gap_percent(f->plan, proof->order_cost),
                       proof->order_closed ? "" : ": CBC ran out of time; try --prove-limit");
}

static void plan_print(const Found *f)
{
    const Plan *plan = f->plan;
    char        arena[64] = "";
    if (plan->arena_bytes > 0)
        snprintf(arena, sizeof arena, "arena %s, ", bytes_text(plan->arena_bytes));
    print_sentence(stdout,
                   "%d nodes: %speak %s of %s, cost %.6g (%+.3f %% over running every node once), "
                   "%d steps, %.2f s%s",
                   f->graph->n_nodes, arena, bytes_text(plan->live_bytes),
                   bytes_text(f->keep_all_bytes), plan->cost, extra_percent(plan, plan->cost),
                   plan->n_steps, f->seconds, plan->cut ? ", cut off" : "");
    if (f->proved)
        plan_print_proof(f);
    for (int i = 0; i < f->n_curve; i++) {
        printf("%12s  ", bytes_text(f->budgets[i]));
        if (f->curve[i])
            printf("%+9.3f %%\n", extra_percent(f->curve[i], f->curve[i]->cost));
        else
            printf("%9s\n", "no plan");
    }
}

/* Plans for every twentieth of the memory of everything kept, up to and including the budget. */
static Err plan_find_curve(Pool *pool, const PlanOptions *how, Found *f)
{
    for (int k = 1; k <= CURVE_POINTS; k++) {
        int64_t peak = f->keep_all_bytes, n = CURVE_POINTS;
        int64_t bytes = peak / n * k + ceil_div(peak % n * k, n); /* ceil(peak * k / n) */
        if (bytes >= how->budget_bytes || k == CURVE_POINTS)
            bytes = how->budget_bytes;
        f->budgets[f->n_curve++] = bytes;
        if (bytes == how->budget_bytes)
            break;
    }
    return plan_curve(pool, f->graph, how, f->budgets, f->n_curve, f->curve);
}

/* The sentence of a refusal; it comes after the result, so that --json is complete. */
static Err plan_refuse(const Found *f)
{
    int64_t bound = f->plan->bound_bytes;
    if (f->proved && f->proof.any_bytes > bound)
        bound = f->proof.any_bytes;
    int64_t     effort = search.effort > 0 ? search.effort : plan_default_effort(f->graph->n_nodes);
    char        longer[80] = "";
    const char *advice = f->plan->cut ? "give the search more time, or " : longer;
    if (plan_peak_bytes(f->plan) > bound)
        snprintf(longer, sizeof longer, "search with more than --effort %lld, or ",
                 (long long)effort);
    return fail(E_BUDGET,
                "no plan within %lld bytes was found%s: the smallest peak found is %lld (no plan "
                "needs less than %lld); %suse that as the budget",
                (long long)f->plan->budget_bytes, f->plan->cut ? " before the time limit" : "",
                (long long)plan_peak_bytes(f->plan), (long long)bound, advice);
}

/* Where nothing fits, the proof is for the plan with the smallest peak, within what it needs. */
static Err plan_find_proof(Pool *pool, const PlanOptions *how, Found *f)
{
    ProveOptions prove = { .budget_bytes = f->fits ? how->budget_bytes : f->plan->live_bytes,
                           .time_limit_s = opt.prove_limit,
                           .lp_path = opt.prove_lp };
    TRY(plan_prove(pool, f->graph, f->plan, &prove, &f->proof));
    f->proved = true;
    if (f->proof.cheaper && f->fits && !how->layout) /* better than the search: use it */
        f->plan = f->proof.cheaper;
    return OK;
}

static Err plan_read_budget(const char *text, int64_t kept_bytes, int64_t *bytes)
{
    if (budget_is_of_kept(text))
        return budget_of_kept(text, kept_bytes, bytes);
    if (strchr(text, '%'))
        return fail(E_USAGE,
                    "--budget %s is a share of a device's memory, but a graph has no device; write "
                    "%skept for a share of the peak of running every node once",
                    text, text);
    TRY(bytes_read(text, 0, bytes));
    return *bytes > 0 ? OK : fail(E_USAGE, "--budget must be more than 0 bytes");
}

static Err cmd_plan_run(Pool *pool, int n_args, char **args)
{
    PGraph     *graph;
    Plan       *keep, *plan;
    PlanOptions how = { .effort = search.effort,
                        .seed = (uint64_t)search.seed,
                        .time_limit_s = search.time_limit,
                        .layout = opt.layout };
    if (n_args != 1)
        return fail(E_USAGE,
                    "plan takes one file: plimsoll plan graph.json --budget B -o plan.json");
    if (opt.curve && opt.layout)
        return fail(E_USAGE, "--curve counts live bytes: leave out --layout");
    if (opt.out)
        TRY(file_try(opt.out));
    if (opt.prove_lp)
        TRY(file_try(opt.prove_lp));
    TRY(pgraph_read(pool, args[0], &graph));
    TRY(plan_keep_all(pool, graph, &keep));
    int64_t base = graph->base_peak_bytes ? graph->base_peak_bytes : keep->live_bytes;
    if (opt.budget)
        TRY(plan_read_budget(opt.budget, base, &how.budget_bytes));
    if (!opt.json && terminal_draws())
        how.progress = show_planning;

    stop_on_interrupt(
        "\nplimsoll: stopping, with the best plan found so far; ^C again ends at once\n");
    Found  found = { .graph = graph, .keep_all_bytes = keep->live_bytes };
    double start = clock_now();
    Err    err = plan_solve(pool, graph, &how, &plan);
    found.seconds = clock_now() - start;
    if (err && err != E_BUDGET)
        return err;
    found.plan = plan;
    found.fits = !err;
    TRY(plan_check(graph, plan, err ? 0 : how.budget_bytes));
    if (!opt.budget) /* proof and curve then go up to everything kept */
        how.budget_bytes = keep->live_bytes;
    if (opt.prove || opt.prove_lp)
        TRY(plan_find_proof(pool, &how, &found));
    if (opt.curve)
        TRY(plan_find_curve(pool, &how, &found));
    if (opt.json)
        TRY(plan_json(&found));
    else
        plan_print(&found);
    if (opt.out && found.fits)
        TRY(plan_write(opt.out, graph, found.plan));
    else if (!opt.json && found.fits)
        next_command("plan %s --budget %lld -o plan.json", text_word(pool, args[0]),
                     (long long)plan_peak_bytes(found.plan));
    return found.fits ? OK : plan_refuse(&found);
}

const Command cmd_plan = { "plan", "graph.json --budget B -o plan.json",
                           "find the cheapest plan for any graph within a budget", options,
                           cmd_plan_run };
