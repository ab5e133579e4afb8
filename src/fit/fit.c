/* fit.c -- chooses the levers, then the plan.
 *
 * A candidate (candidates.c) is the recipe under one setting of the levers that are allowed. Its
 * cost is known before any search: the time of its step with everything kept. Candidates are tried
 * in the order of that cost:
 *
 *   everything kept fits      take it; candidates that cost more need not be tried
 *   no plan of it can fit     its structural bound is above the budget: skip it
 *   otherwise                 the planner searches, with a share of the effort that does not depend
 *                             on the budget
 *
 * Under a time limit each candidate is first tried with a short search as it is built, until one
 * fits: a plan that was found is never lost.
 *
 * More memory never gives a slower plan: neither the list of candidates nor their effort depends on
 * the budget, and the plans of one candidate only get faster with more of it. */
#include "fit/fit_int.h"

#include "base/clock.h"
#include "base/int_math.h"
#include "base/stop.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

const char *const allow_words[] = {
#define X(name, word, text) word,
    ALLOW_LIST(X)
#undef X
        NULL
};

Err allow_read(const char *text, unsigned *allow)
{
    *allow = ALLOW_NONE;
    if (!strcmp(text, "none"))
        return OK;
    for (const char *at = text;; at++) {
        size_t n = strcspn(at, ",");
        int    bit = 0;
        while (bit < ALLOW_COUNT &&
               (strlen(allow_words[bit]) != n || memcmp(allow_words[bit], at, n)))
            bit++;
        if (bit == ALLOW_COUNT)
            return fail(E_USAGE,
                        "--allow takes none or a list of algorithm, chunk, split, precision, "
                        "batchnorm-split; not '%.*s'",
                        (int)n, at);
        *allow |= 1u << bit;
        at += n;
        if (!*at)
            break;
    }
    if (*allow & ALLOW_BATCHNORM_SPLIT)
        *allow |= ALLOW_SPLIT;
    return OK;
}

Err recipe_split(Recipe *recipe, int64_t split)
{
    if (split != 1 && recipe_no_split(recipe))
        return fail(E_USAGE, "the micro-batches of %s cannot be split: %s", recipe->name,
                    recipe_no_split(recipe));
    if (split < 1 || recipe->batch % split)
        return fail(E_USAGE, "a micro-batch of %lld cannot be split into %lld equal ones",
                    (long long)recipe->batch, (long long)split);
    recipe->batch /= split;
    recipe->accumulate *= split;
    recipe->levers.split = (recipe->levers.split > 1 ? recipe->levers.split : 1) * split;
    return OK;
}

Err recipe_merge(Recipe *recipe, int64_t merge)
{
    if (merge < 1 || recipe->accumulate % merge || recipe->levers.split > 1)
        return fail(E_USAGE, "%lld micro-batches cannot be run as groups of %lld",
                    (long long)recipe->accumulate, (long long)merge);
    recipe->batch *= merge;
    recipe->accumulate /= merge;
    recipe->levers.merge = (recipe->levers.merge > 1 ? recipe->levers.merge : 1) * merge;
    return OK;
}

/* ---- the changes in words ---- */

static void fit_change(FitResult *r, bool exact, const char *what, const char *from, const char *to)
{
    REQUIRE(r->n_changes < (int)(sizeof r->changes / sizeof *r->changes));
    r->changes[r->n_changes++] = (FitChange){ what, from, to, exact };
}

static const char *const fit_host_words[] = { "all state on the device", "EMA on the host",
                                              "EMA, moments and master copies on the host" };

static void fit_say_changes(Pool *pool, const Recipe *asked, FitResult *r)
{
    const Recipe *now = r->recipe;
    r->n_changes = 0;
    if (now->batch != asked->batch)
        fit_change(
            r, false, "micro-batch",
            pool_print(pool, "%lld x %lld", (long long)asked->batch, (long long)asked->accumulate),
            pool_print(pool, "%lld x %lld", (long long)now->batch, (long long)now->accumulate));
    if (now->precision != asked->precision)
        fit_change(r, false, "precision", recipe_precisions[asked->precision],
                   recipe_precisions[now->precision]);
    if (now->levers.sample_chunks > 1)
        fit_change(r, false, "sample chunks", "whole",
                   now->levers.sample_chunks == asked->batch
                       ? pool_print(pool, "one sample at a time, %d nodes", r->graph.chunked)
                       : pool_print(pool, "%lld chunks, %d nodes",
                                    (long long)now->levers.sample_chunks, r->graph.chunked));
    if (now->levers.loss_chunks > 1)
        fit_change(r, false, "loss chunks", "whole",
                   pool_print(pool, "%lld chunks, with %d nodes before the loss",
                              (long long)now->levers.loss_chunks, r->graph.chunked - 1));
    if (r->engine->leaner)
        fit_change(r, false, "algorithm", r->engine->device->library,
                   pool_print(pool, "builtin, in %d nodes", r->engine->leaner));
    if (now->levers.stored_attention != asked->levers.stored_attention)
        fit_change(r, false, "attention", asked->levers.stored_attention ? "stored" : "streamed",
                   now->levers.stored_attention ? "stored" : "streamed");
    if (now->levers.release != asked->levers.release)
        fit_change(r, true, "gradient release", "update at the end", "as each gradient is final");
    if (now->levers.shard != asked->levers.shard)
        fit_change(r, true, "level of division", pool_print(pool, "%d", asked->levers.shard),
                   pool_print(pool, "%d", now->levers.shard));
    if (now->levers.bucket != asked->levers.bucket)
        fit_change(r, true, "buckets", "the default",
                   pool_text(pool, bytes_text(now->levers.bucket)));
    if (now->levers.host != asked->levers.host)
        fit_change(r, true, "placement", fit_host_words[asked->levers.host],
                   fit_host_words[now->levers.host]);
    if (r->engine->offloaded)
        fit_change(r, true, "host transfers", "0", pool_print(pool, "%d", r->engine->offloaded));
    if (r->engine->recomputed)
        fit_change(r, true, "recompute", "nothing",
                   pool_print(pool, "%d nodes", r->engine->recomputed));
}

/* ---- searching ---- */

/* The effort of one search. Under the recipe's numeric levers it is all of it, whatever else is
 * allowed, so that allowing more never gives a worse plan. Smaller micro-batches and lower
 * precision, which gain most, get half; every other setting, of which there are many, an eighth.
 * The choices of host-resident state on a GPU share it, and the levels at which ranks divide state: they
 * are the same step with more or less room. */
static int64_t fit_share(const Fit *fit, const Candidate *c)
{
    const Levers *is = &c->recipe->levers, *asked = &fit->recipe->levers;
    bool          inside = is->sample_chunks != asked->sample_chunks ||
                  is->loss_chunks != asked->loss_chunks ||
                  is->max_workspace != asked->max_workspace ||
                  is->stored_attention != asked->stored_attention;
    bool as_asked = c->recipe->batch == fit->recipe->batch &&
                    c->recipe->precision == fit->recipe->precision && !inside;
    int32_t nodes = 0;
    for (int i = 0; i < c->kept->n_programs; i++)
        if (c->kept->programs[i].pgraph->n_nodes > nodes)
            nodes = c->kept->programs[i].pgraph->n_nodes;
    /* Half of the planner's default: several candidates are searched, and the other half was seen to
     * change a step's time by 0.11 % at most. */
    int64_t effort = fit->options->effort > 0 ? fit->options->effort
                                              : plan_default_effort(nodes) / 2;
    int     placements = 1;
    for (int host = asked->host + 1; host <= HOST_STATE; host++)
        placements += fit_can_host(fit, host);
    placements *= fit_levels(fit);
    effort = effort / placements + 1;
    return as_asked ? effort : effort / (inside ? 8 : 2) + 1;
}

/* One search's progress as progress of all: never backwards, although each search begins at 0. */
static void fit_progress(void *arg, double done, const char *text)
{
    Fit   *fit = arg;
    double all = fit->part_from + fit->part_share * (done < 1 ? done : 1);
    fit->shown = all > fit->shown ? all : fit->shown;
    if (fit->options->progress)
        fit->options->progress(fit->options->progress_arg, fit->shown < 0.99 ? fit->shown : 0.99,
                               text);
}

static void fit_found(Fit *fit, const Engine *engine, double step_ns)
{
    if (!fit->options->found || (fit->found_ns > 0 && step_ns >= fit->found_ns))
        return;
    fit->found_ns = step_ns;
    fit->options->found(fit->options->found_arg, engine->arena_bytes,
                        step_ns * engine_pace(engine));
}

static Err fit_search(Fit *fit, Candidate *c, int64_t budget, TrainingGraph *graph, Engine **engine)
{
    EngineOptions how = { .budget_bytes = budget,
                          .effort = fit_share(fit, c),
                          .seed = fit->options->seed,
                          .progress = fit->options->progress ? fit_progress : NULL,
                          .progress_arg = fit };
    if (fit->options->time_limit_s > 0) {
        how.time_limit_s = fit->deadline_s - clock_now();
        if (how.time_limit_s < 0.01)
            how.time_limit_s = 0.01; /* the seeds alone */
    }
    return fit_build(c->pool, c->recipe, fit->device, fit->options, &how, graph, engine);
}

static void fit_take(FitResult *r, const Candidate *c, const TrainingGraph *graph, Engine *engine)
{
    r->recipe = c->recipe;
    r->graph = *graph;
    r->engine = engine;
    r->step_ns = engine_step_ns(engine, recipe_rounds(c->recipe));
}

static bool fit_faster(double a_ns, double b_ns) /* by more than rounding of a sum explains */
{
    return a_ns < b_ns * (1 - 1e-9);
}

/* The share of the time limit that one candidate gets while none fits, and its effort: hardly more
 * than the solvers that do not search. */
static const double first_share = 0.2;
enum { FIRST_EFFORT = 2000 };

Err fit_first(Fit *fit, Candidate *c)
{
    int64_t       budget = fit->options->budget_bytes;
    TrainingGraph graph = c->graph;
    Engine       *engine = c->kept;
    if ((!fit->hasty && !fit->options->found) || !budget || fit->first.engine || stop_asked() ||
        c->kept->bound_bytes > budget)
        return OK;
    if (c->kept->keep_all_bytes > budget) {
        if (c->twin)
            return OK;
        EngineOptions how = { .budget_bytes = budget,
                              .effort = FIRST_EFFORT,
                              .hasty = true,
                              .time_limit_s = first_share * fit->options->time_limit_s,
                              .seed = fit->options->seed };
        Err err = fit_build(c->pool, c->recipe, fit->device, fit->options, &how, &graph, &engine);
        if (err && err != E_BUDGET)
            return err;
    }
    if (engine_fits(engine, budget)) {
        fit_take(&fit->first, c, &graph, engine);
        fit_found(fit, engine, fit->first.step_ns);
    }
    return OK;
}

/* Tries one candidate. A faster plan becomes the result; while nothing fits, a smaller one does. */
static Err fit_try(Fit *fit, Candidate *c, FitResult *r)
{
    int64_t       budget = fit->options->budget_bytes;
    TrainingGraph graph = c->graph;
    Engine       *engine = c->kept;
    if (r->fits && !fit_faster(c->kept->keep_all_ns, r->engine->cost_ns))
        return OK;
    if (r->engine && fit_late(fit)) {
        r->cut = true;
        return OK;
    }
    if (budget && c->kept->keep_all_bytes > budget) {
        /* While nothing fits, search even what cannot fit: its smallest arena may be the
         * minimum. */
        if (c->twin || (r->fits && c->kept->bound_bytes > budget))
            return OK;
        Err err = fit_search(fit, c, budget, &graph, &engine);
        if (err && err != E_BUDGET)
            return err;
    }
    bool fits = engine_fits(engine, budget);
    r->cut |= engine->cut || fit->cut;
    bool better = fits ? !r->fits || fit_faster(engine->cost_ns, r->engine->cost_ns)
                       : !r->fits && (!r->engine || engine->arena_bytes < r->engine->arena_bytes);
    if (better)
        fit_take(r, c, &graph, engine);
    r->fits |= fits;
    if (better && fits)
        fit_found(fit, engine, r->step_ns);
    return OK;
}

static Err fit_refuse(const FitResult *r, const FitOptions *options)
{
    const Program *peak = &r->engine->programs[r->engine->peak_program];
    int64_t        runtime = r->engine->device->runtime_bytes; /* part of a GPU's budget */
    int64_t        budget = options->budget_bytes + runtime, minimum = r->minimum_bytes + runtime;
    if (r->cut) /* the true minimum may be far lower: name what was found */
        return fail(E_BUDGET,
                    "%s before a plan within %s was found: the smallest found so far needs %s. "
                    "Give the search more time, or use that as the budget",
                    stop_asked() ? "the search was stopped" : "the time limit came",
                    bytes_exact(budget), bytes_exact(minimum));
    if (!program_in_step(peak))
        return fail(E_BUDGET,
                    "no plan fits %s: phase %s needs at least %s, of which %s are parameters and "
                    "state. Use that as the budget, or choose a smaller %s",
                    bytes_exact(budget), peak->name, bytes_exact(minimum),
                    bytes_text(r->engine->persistent_bytes),
                    peak->phases[PHASE_VALIDATE] ? "validate.batch" : "sample.n");
    return fail(E_BUDGET,
                "no plan fits %s: this model needs at least %s with the allowed levers, of which "
                "%s are parameters and state (lower bound: %s). Use that minimum as the budget, "
                "choose a smaller --batch%s",
                bytes_exact(budget), bytes_exact(minimum), bytes_text(r->engine->persistent_bytes),
                bytes_text(r->bound_bytes + runtime),
                options->allow & ALLOW_PRECISION ? ""
                                                 : ", or allow more levers (--what-if shows them)");
}

/* Searches once more with the smallest arena as the budget: near its budget the search tries harder
 * to place plans, so it may end below. Without this, the minimum that one refusal names could be
 * undercut by the next. */
static Err fit_minimum(Fit *fit, FitResult *r)
{
    Candidate    *c = fit->list;
    TrainingGraph graph;
    Engine       *engine;
    if (r->cut || !engine_fits(r->engine, 0))
        return OK;
    while (c->recipe != r->recipe)
        c++;
    Err err = fit_search(fit, c, r->engine->arena_bytes, &graph, &engine);
    if (err)
        return err == E_BUDGET ? OK : err;
    r->cut |= engine->cut;
    if (engine->arena_bytes < r->engine->arena_bytes)
        fit_take(r, c, &graph, engine);
    r->fits = engine_fits(r->engine, fit->options->budget_bytes);
    return OK;
}

typedef struct LevelBest {    /* of all candidates of one level of division */
    const Candidate *fastest; /* with everything kept; NULL: none was built */
    int64_t          bound_bytes;
} LevelBest;

static LevelBest level_best(const Fit *fit, int shard)
{
    LevelBest best = { .bound_bytes = INT64_MAX };
    for (int i = 0; i < fit->n; i++) {
        const Candidate *c = &fit->list[i];
        if (c->recipe->levers.shard != shard)
            continue;
        if (!best.fastest || c->kept->keep_all_ns < best.fastest->kept->keep_all_ns)
            best.fastest = c;
        best.bound_bytes = int_min(best.bound_bytes, c->kept->bound_bytes);
    }
    return best;
}

/* Why the plan divides no more and no less. */
static void level_note(Fit *fit, const FitResult *r, int shard, Text *text)
{
    LevelBest     best = level_best(fit, shard);
    const Engine *kept = best.fastest ? best.fastest->kept : NULL;
    if (!kept || shard == r->recipe->levers.shard)
        return;
    text_add(text, "%s level %d ", text->n ? ";" : "Of the other levels of division,", shard);
    if (best.bound_bytes > fit->options->budget_bytes)
        text_add(text, "needs at least %s", bytes_text(best.bound_bytes));
    else if (kept->keep_all_ns > r->engine->cost_ns * (1 + 5e-4))
        text_add(text, "is slower by %.1f %% or more",
                 100 * (kept->keep_all_ns / r->engine->cost_ns - 1));
    else if (kept->keep_all_bytes > fit->options->budget_bytes)
        text_add(text,
                 "needs %s with everything kept, and no faster plan within the budget was "
                 "found",
                 bytes_text(kept->keep_all_bytes));
    else
        text_add(text, "is as fast");
}

static void fit_note_levels(Fit *fit, FitResult *r)
{
    Text text = { .pool = fit->pool };
    for (int n = 0; r->fits && fit_levels(fit) > 1 && n < fit_levels(fit); n++)
        level_note(fit, r, fit_level(fit, n), &text);
    if (text.n && r->n_notes < (int)(sizeof r->notes / sizeof *r->notes))
        r->notes[r->n_notes++] = pool_print(fit->pool, "%s.", text.at);
}

static void fit_take_first(const Fit *fit, FitResult *r)
{
    r->recipe = fit->first.recipe;
    r->graph = fit->first.graph;
    r->engine = fit->first.engine;
    r->step_ns = fit->first.step_ns;
    r->fits = true;
}

/* `refine`: where nothing fits, search again for the minimum (fit_minimum). */
static Err fit_choose(Fit *fit, bool refine, FitResult *r)
{
    const Candidate *asked = NULL;
    fit_order(fit);
    for (int i = 0; i < fit->n; i++)
        if (fit->list[i].asked)
            asked = &fit->list[i];
    r->default_bytes = asked->kept->keep_all_bytes;
    r->default_ns = asked->kept->keep_all_ns;
    if (fit->first.engine && fit->hasty)
        fit_take_first(fit, r);
    double whole = 0;
    for (int i = 0; i < fit->n; i++)
        whole += (double)fit_share(fit, &fit->list[i]);
    for (int i = 0; i < fit->n; i++) {
        int64_t bound = fit->list[i].kept->bound_bytes;
        r->bound_bytes = i == 0 || bound < r->bound_bytes ? bound : r->bound_bytes;
        fit->part_share = (double)fit_share(fit, &fit->list[i]) / whole;
        TRY(fit_try(fit, &fit->list[i], r));
        fit->part_from += fit->part_share;
    }
    if (!r->fits && fit->first.engine && stop_asked())
        fit_take_first(fit, r);
    if (fit->cut) /* some candidates were not built, so there is no bound */
        r->bound_bytes = 0;
    if (refine && !r->fits)
        TRY(fit_minimum(fit, r));
    TRY(engine_finish(r->engine, true));
    if (fit->options->progress)
        fit->options->progress(fit->options->progress_arg, 1, "");
    fit_say_changes(fit->pool, fit->recipe, r);
    if (r->fits)
        r->n_notes = r->n_changes ? r->n_notes : 0; /* no lever was needed */
    fit_note_levels(fit, r);
    for (int i = 0; i < fit->n; i++)
        if (fit->list[i].recipe != r->recipe)
            pool_free(fit->list[i].pool);
    if (r->fits)
        return OK;
    r->minimum_bytes = r->engine->arena_bytes;
    return fit_refuse(r, fit->options);
}

static void fit_begin(Pool *pool, const Recipe *recipe, const Device *device,
                      const FitOptions *options, Fit *fit)
{
    *fit = (Fit){ .pool = pool,
                  .recipe = recipe,
                  .device = device,
                  .options = options,
                  .deadline_s = clock_now() + options->time_limit_s };
}

Err fit_run(Pool *pool, const Recipe *recipe, const Device *device, const FitOptions *options,
            FitResult *r)
{
    Fit *fit = NEW(pool, Fit);
    *r = (FitResult){ 0 };
    fit_begin(pool, recipe, device, options, fit);
    fit->hasty = options->time_limit_s > 0;
    if (options->budget_bytes) {
        TRY(fit_candidates(fit, r));
    } else {
        TRY(fit_add(fit, recipe, false));
    }
    return fit_choose(fit, true, r);
}

Err fit_plan(Pool *pool, const Recipe *recipe, const Device *device, const FitOptions *options,
             FitResult *r)
{
    Fit *fit = NEW(pool, Fit);
    *r = (FitResult){ 0 };
    fit_begin(pool, recipe, device, options, fit);
    TRY(fit_add(fit, recipe, false));
    if (!fit->n) /* fit_add added none: r->engine stays NULL */
        return fail(E_BUDGET,
                    "the host has no room for the state of this model; raise --host-budget");
    return fit_choose(fit, false, r); /* one of several tries: no refining */
}

/* ---- budget against time ---- */

/* Budgets tried for one candidate; points of the whole curve are at least 1/40 of its span
 * apart. */
enum { CURVE_POINTS = 12, CURVE_APART = 40 };

static int point_order(const void *a, const void *b)
{
    const FitPoint *x = a, *y = b;
    if (x->peak_bytes != y->peak_bytes)
        return x->peak_bytes > y->peak_bytes ? -1 : 1;
    return (x->sum_ns < y->sum_ns) - (x->sum_ns > y->sum_ns); /* of equal peaks the fastest last */
}

static FitPoint point_as(const Recipe *recipe, int64_t peak_bytes, double sum_ns, double step_ns)
{
    return (FitPoint){ .peak_bytes = peak_bytes,
                       .sum_ns = sum_ns,
                       .step_ns = step_ns,
                       .batch = recipe->batch,
                       .accumulate = recipe->accumulate,
                       .precision = recipe->precision,
                       .levers = recipe->levers };
}

static FitPoint point_of(const Candidate *c, int64_t peak_bytes, double sum_ns)
{
    return point_as(c->recipe, peak_bytes, sum_ns, engine_forecast_ns(c->kept, sum_ns, peak_bytes));
}

static FitPoint point_known(const FitResult *known)
{
    const Engine *engine = known->engine;
    FitPoint      p = point_as(known->recipe, engine->arena_bytes, engine->cost_ns, known->step_ns);
    p.recomputed = engine->recomputed;
    p.offloaded = engine->offloaded;
    return p;
}

/* Plans the largest program at budgets from its bound to everything kept; the other programs keep
 * their plans. */
static Err curve_add(Fit *fit, const Candidate *c, FitPoint *points, int *n)
{
    Engine  *kept = c->kept;
    Program *main = &kept->programs[kept->peak_program];
    int64_t  budgets[CURVE_POINTS], others = 0, low = plan_bound_bytes(main->pgraph),
                                   high = main->meter.live_bytes;
    Plan *plans[CURVE_POINTS];
    points[(*n)++] = point_of(c, kept->arena_bytes, kept->cost_ns);
    if (c->twin)
        return OK;
    for (int i = 0; i < kept->n_programs; i++)
        if (i != kept->peak_program && kept->programs[i].arena_bytes > others)
            others = kept->programs[i].arena_bytes;
    for (int i = 0; i < CURVE_POINTS; i++)
        budgets[i] = low + (high - low) / CURVE_POINTS * i;
    PlanOptions how = { .effort = fit_share(fit, c),
                        .seed = fit->options->seed,
                        .host_budget_bytes = engine_slots_budget(kept),
                        .progress = fit->options->progress,
                        .progress_arg = fit->options->progress_arg };
    if (fit->options->time_limit_s > 0) {
        how.time_limit_s = fit->deadline_s - clock_now();
        how.time_limit_s = how.time_limit_s < 0.01 ? 0.01 : how.time_limit_s;
    }
    TRY(plan_curve(c->pool, main->pgraph, &how, budgets, CURVE_POINTS, plans));
    for (int i = 0; i < CURVE_POINTS; i++) {
        Program one = *main;
        if (!plans[i])
            continue;
        one.plan = plans[i];
        TRY(engine_place(c->pool, kept, &one, 0, NULL, NULL));
        if (kept->device->host_bytes && one.host_bytes > kept->device->host_bytes)
            continue;
        double    more = program_in_step(main)
                             ? (double)main->repeat * (one.meter.cost - main->meter.cost)
                             : 0;
        FitPoint *p = &points[(*n)++];
        *p = point_of(c, one.arena_bytes > others ? one.arena_bytes : others, kept->cost_ns + more);
        p->recomputed = one.meter.n_recomputes;
        p->offloaded = one.slots.n_ranges;
    }
    return OK;
}

/* Hands on what was found since, unless an earlier point is at least as good in both. */
static void curve_tell(const FitOptions *options, const FitPoint *points, int from, int n)
{
    for (int i = from; options->point && i < n; i++) {
        bool beaten = false;
        for (int k = 0; k < n && !beaten; k++)
            beaten = k != i && points[k].peak_bytes <= points[i].peak_bytes &&
                     points[k].sum_ns <= points[i].sum_ns &&
                     (k < i || points[k].peak_bytes < points[i].peak_bytes ||
                      points[k].sum_ns < points[i].sum_ns);
        if (!beaten)
            options->point(options->point_arg, &points[i]);
    }
}

Err fit_curve(Pool *pool, const Recipe *recipe, const Device *device, const FitOptions *options,
              const FitResult *known, FitPoint **out, int *n_out)
{
    Pool     *own = pool_new(pool, "curve");
    Fit      *fit = NEW(own, Fit);
    FitResult unused = { 0 };
    FitPoint *points = NEWN(pool, FitPoint, MAX_CANDIDATES * (CURVE_POINTS + 1) + 1);
    int       n = 0, kept = 0;
    Err       err;
    fit_begin(own, recipe, device, options, fit);
    err = fit_candidates(fit, &unused);
    for (int i = 0; i < fit->n && !err && !fit_late(fit); i++) {
        int before = n;
        err = curve_add(fit, &fit->list[i], points, &n);
        curve_tell(options, points, before, n);
    }
    pool_free(own);
    TRY(err);
    if (known)
        points[n++] = point_known(known);
    /* From the smallest peak upwards, keep what is faster than everything smaller. Of points close
     * together keep the last, which is the fastest and hardly larger. Then reverse the order. */
    qsort(points, (size_t)n, sizeof *points, point_order);
    FitPoint *front = NEWN(pool, FitPoint, n + 1);
    int64_t   apart = n ? (points[0].peak_bytes - points[n - 1].peak_bytes) / CURVE_APART : 0;
    for (int i = n - 1; i >= 0; i--)
        if (!kept || points[i].sum_ns < front[kept - 1].sum_ns) {
            if (kept > 1 && (points[i].peak_bytes - front[kept - 2].peak_bytes < apart ||
                             points[i].peak_bytes - front[kept - 1].peak_bytes < apart / 4))
                kept--; /* never the smallest itself */
            front[kept++] = points[i];
        }
    for (int i = 0; i < kept / 2; i++) {
        FitPoint swap = front[i];
        front[i] = front[kept - 1 - i];
        front[kept - 1 - i] = swap;
    }
    *out = front;
    *n_out = kept;
    return OK;
}

Err fit_offers(Pool *pool, const Recipe *recipe, const Device *device, const FitOptions *options,
               FitOffer *offers, int *n)
{
    double deadline = clock_now() + options->time_limit_s;
    *n = 0;
    for (int bit = 0; bit < ALLOW_COUNT; bit++) {
        FitOptions more = *options;
        FitOffer  *offer = &offers[*n];
        if (options->allow & 1u << bit)
            continue;
        more.allow |= 1u << bit | (bit == ALLOW_BATCHNORM_SPLIT_BIT ? ALLOW_SPLIT : 0);
        if (options->time_limit_s > 0)
            more.time_limit_s = deadline - clock_now() > 0.01 ? deadline - clock_now() : 0.01;
        offer->allow = (AllowBit)bit;
        Err err = fit_run(pool, recipe, device, &more, &offer->result);
        if (err && err != E_BUDGET)
            return err;
        for (int i = 0; i < offer->result.n_changes; i++)
            offer->possible |= !offer->result.changes[i].exact;
        ++*n;
    }
    return OK;
}
