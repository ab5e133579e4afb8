/* candidates.c -- the settings of the levers that are worth a search, and their order.
 *
 * The recipe as it is comes first. Then comes what is allowed: smaller micro-batches, lower
 * precision, leaner algorithms, per-sample operators in chunks, the loss in chunks, attention the
 * other way. Each is also tried with early gradient release and with host-resident state, where
 * that is possible. */
#include "fit/fit_int.h"

#include "base/clock.h"
#include "base/int_math.h"
#include "base/stop.h"
#include "ops/ops.h"

#include <math.h>
#include <stdlib.h>

enum { MIN_BUCKET = 64 << 10 }; /* bytes; messages of smaller ones cost more than they move */

static void fit_note(FitResult *r, const char *sentence)
{
    if (r->n_notes < (int)(sizeof r->notes / sizeof *r->notes))
        r->notes[r->n_notes++] = sentence;
}

Err fit_build(Pool *pool, const Recipe *recipe, const Device *device, const FitOptions *options,
              const EngineOptions *how, TrainingGraph *graph, Engine **engine)
{
    EngineOptions with = *how;
    with.draft = true;
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

int fit_levels(const Fit *fit)
{
    bool many = fit->options->shard_auto && fit->recipe->levers.ranks > 1;
    return many ? 3 : 1; /* 1 and 2 are the same */
}

int fit_level(const Fit *fit, int n)
{
    static const int levels[] = { 1, 0, 3 };
    return fit_levels(fit) == 1 ? fit->recipe->levers.shard : levels[n];
}

/* The largest bucket, in bytes of gradients. */
static int64_t fit_bucket(const Graph *graph)
{
    int64_t largest = 0;
    for (int32_t i = 0; i < graph->n_buckets; i++)
        largest = int_max(largest, graph->buckets[i]->total * (int64_t)sizeof(float));
    return largest;
}

/* Smaller buckets begin to move earlier, larger ones need fewer messages but more room: the recipe
 * gets another size only for a step that is faster by bucket_gain. */
static const double bucket_gain = 0.005;

static Err fit_add_buckets(Fit *fit, Recipe *recipe, int first)
{
    static const double sizes[] = { 0.25, 4, 16 };
    int64_t             bucket = fit_bucket(fit->list[first].graph.graph);
    int                 best = first;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int before = fit->n;
        recipe->levers.bucket = (int64_t)(sizes[i] * (double)bucket);
        if (recipe->levers.bucket < MIN_BUCKET)
            continue;
        TRY(fit_add(fit, recipe, false));
        if (fit->n > before && fit->list[before].kept->keep_all_ns <
                                   (1 - bucket_gain) * fit->list[best].kept->keep_all_ns)
            best = before;
    }
    recipe->levers.bucket = fit->list[best].recipe->levers.bucket;
    return OK;
}

/* Several micro-batches of a rank as one: fewer rounds, so less is moved, and more is kept. */
static Err fit_add_merges(Fit *fit, const Recipe *base)
{
    int64_t rounds = recipe_rounds(base);
    bool    merges = false;
    if (rounds > 1)
        TRY(recipe_merges(base, &merges));
    for (int64_t merge = 2; merge <= rounds && merges; merge++) {
        if (rounds % merge)
            continue;
        Recipe *recipe = recipe_copy(fit->pool, base);
        TRY(recipe_merge(recipe, merge));
        TRY(fit_add_all(fit, recipe));
    }
    return OK;
}

typedef struct LeverChoices { /* which numeric levers are tried */
    bool    down, split, merge, lean;
    int64_t workspace[3];
} LeverChoices;

/* Every candidate with the levers of `base`, which has been added. Any algorithm; lean ones in place
 * of those with the largest workspaces; lean ones everywhere. */
static Err fit_add_numeric(Fit *fit, const Recipe *base, const LeverChoices *c)
{
    for (int leaner = 0; leaner <= (c->lean ? 2 : 0); leaner++)
        for (int low = 0; low <= (c->down ? 1 : 0); low++)
            for (int64_t n_split = 1; n_split <= (c->split ? base->batch : 1); n_split++) {
                if (base->batch % n_split || (leaner == 1 && (c->workspace[1] <= 1 || n_split > 1)))
                    continue;
                Recipe *recipe = recipe_copy(fit->pool, base);
                TRY(recipe_split(recipe, n_split));
                if (low)
                    recipe->precision = PRECISION_BF16;
                recipe->levers.max_workspace = c->workspace[leaner];
                if (leaner || low || n_split > 1) /* else it was added first */
                    TRY(fit_add_all(fit, recipe));
                if (n_split == 1 && !leaner)
                    TRY(fit_add_inside(fit, recipe));
            }
    return c->merge ? fit_add_merges(fit, base) : OK;
}

static LeverChoices fit_choices(const Fit *fit, FitResult *r)
{
    unsigned      allow = fit->options->allow;
    const Recipe *asked = fit->recipe;
    LeverChoices  c = { .down = allow & ALLOW_PRECISION && recipe_type(asked) == F32,
                        .split = allow & ALLOW_SPLIT && !fit->options->given_noise,
                        .lean = allow & ALLOW_ALGORITHM && fit->device->kind == DEVICE_CPU,
                        .workspace = { asked->levers.max_workspace,
                                       fit_max_workspace(fit->list[0].kept) / 4, 1 } };
    const char   *why_not = recipe_no_release(asked);
    bool          whole = asked->batch == 1 && asked->levers.ranks <= 1;
    if (c.split && !whole && recipe_no_split(asked)) {
        c.split = false;
        fit_note(
            r, pool_print(fit->pool, "The micro-batch was not split: %s.", recipe_no_split(asked)));
    }
    if (c.split && !whole && graph_has(fit->list[0].graph.graph, &op_batchnorm) &&
        !(allow & ALLOW_BATCHNORM_SPLIT)) {
        c.split = false;
        fit_note(r, "The micro-batch was not split: batch norm would take its statistics from "
                    "fewer samples. Recomputation and sample chunks do not change them; --allow "
                    "batchnorm-split permits the split.");
    }
    if (why_not)
        fit_note(r, pool_print(fit->pool, "Gradients are not released early: %s.", why_not));
    c.merge = c.split && asked->levers.ranks > 1;
    c.split &= asked->batch > 1;
    return c;
}

Err fit_candidates(Fit *fit, FitResult *r)
{
    LeverChoices choices;
    for (int n = 0; n < fit_levels(fit); n++) {
        Recipe *base = recipe_copy(fit->pool, fit->recipe);
        int     first = fit->n;
        base->levers.shard = fit_level(fit, n);
        TRY(fit_add_all(fit, base));
        if (n == 0)
            choices = fit_choices(fit, r);
        if (fit->n > first && fit_levels(fit) > 1 && !base->levers.bucket)
            TRY(fit_add_buckets(fit, base, first));
        TRY(fit_add_numeric(fit, base, &choices));
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
                              p->merge - q->merge,
                              llabs(p->shard - SHARD_DEFAULT) - llabs(q->shard - SHARD_DEFAULT),
                              p->bucket - q->bucket,
                              p->release - q->release,
                              x->recipe->precision - y->recipe->precision };
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++)
        if (apart[i])
            return apart[i] < 0 ? -1 : 1;
    return 0;
}

void fit_order(Fit *fit) { qsort(fit->list, (size_t)fit->n, sizeof *fit->list, candidate_order); }
