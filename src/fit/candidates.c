/* candidates.c -- the settings of the levers that are worth a search, and their order.
 *
 * The recipe as it is comes first. Then comes what is allowed: smaller micro-batches, lower
 * precision, leaner algorithms, per-sample operators in chunks, the loss in chunks, attention the
 * other way. Each is also tried with early gradient release and with host-resident state, where
 * that is possible. */
#include "fit/fit_int.h"

#include "base/clock.h"
#include "base/stop.h"
#include "ops/ops.h"

#include <math.h>
#include <stdlib.h>

static void fit_note(FitResult *r, const char *sentence)
{
    if (r->n_notes < (int)(sizeof r->notes / sizeof *r->notes))
        r->notes[r->n_notes++] = sentence;
}

Err fit_build(Pool *pool, const Recipe *recipe, const Device *device, const FitOptions *options,
              const EngineOptions *how, TrainingGraph *graph, Engine **engine)
{
    EngineOptions with = *how;
    TRY(recipe_suits(recipe, device));
    with.accumulate = recipe_rounds(recipe);
    with.validate = recipe_validation(recipe).batches;
    with.max_workspace = recipe->levers.max_workspace;
    TRY(recipe_graph(pool, recipe, options->given_noise, graph));
    return engine_new(pool, graph->graph, device, &with, engine);
}

bool fit_late(const Fit *fit)
{
    double limit_s = fit->options->time_limit_s;
    return stop_asked() ||
           (limit_s > 0 && clock_now() > fit->deadline_s + (fit->first.engine ? 0 : limit_s));
}

bool fit_late_to_build(const Fit *fit)
{
    double half_s = fit->options->time_limit_s / 2;
    return fit_late(fit) ||
           (fit->hasty && fit->first.engine && clock_now() > fit->deadline_s - half_s);
}

Err fit_add(Fit *fit, const Recipe *recipe, bool twin)
{
    if (fit->n > 0 && fit_late_to_build(fit))
        fit->cut = true;
    if (fit->n == MAX_CANDIDATES || fit->cut)
        return OK;
    Candidate *c = &fit->list[fit->n];
    *c =
        (Candidate){ .pool = pool_new(fit->pool, "candidate"), .twin = twin, .asked = fit->n == 0 };
    c->recipe = recipe_for(c->pool, recipe, fit->device);
    Err  err = fit_build(c->pool, c->recipe, fit->device, fit->options, &(EngineOptions){ 0 },
                         &c->graph, &c->kept);
    bool no_room = err == E_BUDGET && recipe->levers.host; /* the host is too small for the state */
    if (err && !no_room)
        return err;
    bool chunks = recipe->levers.sample_chunks > 1 || recipe->levers.loss_chunks > 1;
    if (no_room || (recipe->levers.max_workspace && !c->kept->leaner && !c->asked) ||
        (chunks && !c->graph.chunked))
        pool_free(c->pool); /* impossible, or the lever changes nothing */
    else
        return fit_first(fit, &fit->list[fit->n++]);
    return OK;
}

/* Adds the recipe as it is and, where possible, with gradient release. */
static Err fit_add_both(Fit *fit, Recipe *recipe)
{
    bool can = !recipe->levers.release && !recipe_no_release(recipe);
    TRY(fit_add(fit, recipe, can));
    if (!can)
        return OK;
    int both = fit->n;
    recipe->levers.release = true;
    Err err = fit_add(fit, recipe, false);
    recipe->levers.release = false;
    if (both > 0 && fit->n == both) /* release was not added: search this one itself */
        fit->list[both - 1].twin = false;
    return err;
}

bool fit_can_host(const Fit *fit, int host)
{
    return fit->device->to_host > 0 && (host != HOST_EMA || fit->recipe->ema.rule != EMA_NONE);
}

/* Adds the recipe and, only if it does not fit, the same with host-resident state, which is always
 * slower. */
static Err fit_add_all(Fit *fit, Recipe *recipe)
{
    int first = fit->n, host = recipe->levers.host;
    TRY(fit_add_both(fit, recipe));
    if (first == fit->n || fit->list[first].kept->keep_all_bytes <= fit->options->budget_bytes)
        return OK;
    for (recipe->levers.host = host + 1; recipe->levers.host <= HOST_STATE; recipe->levers.host++)
        if (fit_can_host(fit, recipe->levers.host))
            TRY(fit_add_both(fit, recipe));
    recipe->levers.host = host;
    return OK;
}

static const int64_t chunk_counts[] = { 4, 16 };

/* Levers within a micro-batch that stays whole: one at a time. */
static Err fit_add_inside(Fit *fit, Recipe *recipe)
{
    unsigned allow = fit->options->allow;
    Levers   asked = recipe->levers, *levers = &recipe->levers;
    bool     plain = asked.sample_chunks <= 1 && asked.loss_chunks <= 1;
    int64_t  max_chunks = recipe_max_chunks(recipe);
    for (int64_t chunks = 2; allow & ALLOW_SPLIT && plain && chunks <= max_chunks; chunks++) {
        /* The smallest divisor and single samples: what lies between is seldom better than both. */
        if (recipe->batch % chunks || (levers->sample_chunks > 1 && chunks < max_chunks))
            continue;
        levers->sample_chunks = chunks;
        TRY(fit_add_all(fit, recipe));
    }
    *levers = asked;
    for (size_t i = 0;
         allow & ALLOW_CHUNK && plain && i < sizeof chunk_counts / sizeof *chunk_counts; i++) {
        levers->loss_chunks = chunk_counts[i];
        TRY(fit_add_all(fit, recipe));
    }
    *levers = asked;
    if (allow & ALLOW_ALGORITHM &&
        graph_has(fit->list[0].graph.graph,
                  asked.stored_attention ? &op_attention_stored : &op_attention)) {
        levers->stored_attention = !asked.stored_attention;
        TRY(fit_add_all(fit, recipe));
    }
    *levers = asked;
    return OK;
}

static int64_t fit_max_workspace(const Engine *engine)
{
    size_t largest = 0;
    for (int32_t i = 0; i < engine->graph->n_nodes; i++)
        if (engine->choices[i].workspace_bytes > largest)
            largest = engine->choices[i].workspace_bytes;
    return (int64_t)largest;
}

Err fit_candidates(Fit *fit, FitResult *r)
{
    unsigned      allow = fit->options->allow;
    const Recipe *asked = fit->recipe;
    bool          down = allow & ALLOW_PRECISION && recipe_type(asked) == F32;
    bool          split = allow & ALLOW_SPLIT && asked->batch > 1 && !fit->options->given_noise;
    bool          lean = allow & ALLOW_ALGORITHM && fit->device->kind == DEVICE_CPU;
    const char   *why_not = recipe_no_release(asked);
    TRY(fit_add_all(fit, recipe_copy(fit->pool, asked)));
    if (split && graph_has(fit->list[0].graph.graph, &op_batchnorm) &&
        !(allow & ALLOW_BATCHNORM_SPLIT)) {
        split = false;
        fit_note(r, "The micro-batch was not split: batch norm would take its statistics from "
                    "fewer samples. Recomputation and sample chunks keep them as they are; --allow "
                    "batchnorm-split permits the split.");
    }
    if (split && recipe_no_split(asked)) {
        split = false;
        fit_note(
            r, pool_print(fit->pool, "The micro-batch was not split: %s.", recipe_no_split(asked)));
    }
    if (why_not)
        fit_note(r, pool_print(fit->pool, "Gradients are not released early: %s.", why_not));
    /* Any algorithm; lean ones in place of those with the largest workspaces; lean ones
     * everywhere. */
    int64_t workspace[] = { asked->levers.max_workspace, fit_max_workspace(fit->list[0].kept) / 4,
                            1 };
    for (int leaner = 0; leaner <= (lean ? 2 : 0); leaner++)
        for (int low = 0; low <= (down ? 1 : 0); low++)
            for (int64_t n_split = 1; n_split <= (split ? asked->batch : 1); n_split++) {
                if (asked->batch % n_split || (leaner == 1 && (workspace[1] <= 1 || n_split > 1)))
                    continue;
                Recipe *recipe = recipe_copy(fit->pool, asked);
                TRY(recipe_split(recipe, n_split));
                if (low)
                    recipe->precision = PRECISION_BF16;
                recipe->levers.max_workspace = workspace[leaner];
                if (leaner || low || n_split > 1) /* else it was added first */
                    TRY(fit_add_all(fit, recipe));
                if (n_split == 1 && !leaner)
                    TRY(fit_add_inside(fit, recipe));
            }
    return OK;
}

static int candidate_order(const void *a, const void *b)
{
    const Candidate *x = a, *y = b;
    int64_t          x_ns = llround(x->kept->keep_all_ns), y_ns = llround(y->kept->keep_all_ns);
    if (x_ns != y_ns)
        return x_ns < y_ns ? -1 : 1;
    /* The same cost: prefer what is nearest to the recipe. */
    const Levers *p = &x->recipe->levers, *q = &y->recipe->levers;
    int64_t       apart[] = { (p->max_workspace > 0) - (q->max_workspace > 0),
                              q->max_workspace - p->max_workspace,
                              p->stored_attention - q->stored_attention,
                              p->split - q->split,
                              p->loss_chunks - q->loss_chunks,
                              p->sample_chunks - q->sample_chunks,
                              p->host - q->host,
                              p->release - q->release,
                              x->recipe->precision - y->recipe->precision };
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++)
        if (apart[i])
            return apart[i] < 0 ? -1 : 1;
    return 0;
}

void fit_order(Fit *fit) { qsort(fit->list, (size_t)fit->n, sizeof *fit->list, candidate_order); }
