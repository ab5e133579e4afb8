/* whatif.c -- each row is the recipe with one thing changed: built, planned and placed again.
 *
 * Rows without a search come first; rows that search share what is left of the time. A row that the
 * time limit reaches is marked as such, never estimated. */
#include "fit/whatif_int.h"

#include "base/clock.h"
#include "base/text.h"
#include "ops/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const effort_words[] = { "immediate", "short", "long" };

enum { SHORT_EFFORT = 2000, LOSS_CHUNKS = 4 };

static double run_left_s(const WhatIfRun *run)
{
    return run->options->time_limit_s - (clock_now() - run->start_s);
}

/* Plans the recipe; the row gets its figures, or the sentence that says why it failed. */
static Err run_plan(WhatIfRun *run, WhatIf *row, const Recipe *recipe, WhatIfSearch search)
{
    double left = run_left_s(run);
    if (run->options->progress)
        run->options->progress(run->options->progress_arg, (double)run->n / run->expected,
                               row->name);
    if (left <= 0) {
        row->cut = row->failed = true;
        row->note = "not reached within the time limit";
        return OK;
    }
    Pool      *pool = pool_new(NULL, "what-if");
    FitResult *result = NEW(pool, FitResult);
    FitOptions how = { .budget_bytes = search == SEARCH_HALF ? run->half_bytes
                                       : search              ? 1
                                                             : 0,
                       .allow = run->options->allow,
                       .time_limit_s = search == SEARCH_ALL ? left / 2 : left,
                       .effort = run->options->effort ? run->options->effort : SHORT_EFFORT };
    Err        err = search == SEARCH_ALL ? fit_run(pool, recipe, run->e->device, &how, result)
                                          : fit_plan(pool, recipe, run->e->device, &how, result);
    if (err && (err != E_BUDGET || !result->engine)) { /* NULL: the host has no room for state */
        row->failed = true;
        row->note = pool_text(run->pool, err_text());
    } else {
        row->peak_bytes = result->engine->arena_bytes;
        row->saved_bytes = run->e->sheet->peak_bytes - row->peak_bytes;
        row->slowdown = result->step_ns / (run->e->step_ms * 1e6);
        row->cut = result->cut;
        Text note = { .pool = run->pool };
        for (int i = 0; search && i < result->n_changes; i++)
            text_add(&note, "%s%s %s", i ? ", " : "", result->changes[i].what,
                     result->changes[i].to);
        if (search && note.n)
            row->note = note.at;
        if (row->cut)
            row->note = pool_print(run->pool, "%s%ssearch cut short", row->note ? row->note : "",
                                   row->note ? "; " : "");
    }
    pool_free(pool);
    return OK;
}

Err run_row(WhatIfRun *run, WhatIf row, const Recipe *recipe, WhatIfSearch search)
{
    REQUIRE(run->n < MAX_ROWS);
    TRY(run_plan(run, &row, recipe, search));
    run->rows[run->n++] = row;
    return OK;
}

void run_refuse(WhatIfRun *run, WhatIf row, const char *why)
{
    REQUIRE(run->n < MAX_ROWS);
    row.failed = true;
    row.note = why;
    run->rows[run->n++] = row;
}

/* ---- levers that do not change the model ---- */

static Err run_precision(WhatIfRun *run)
{
    Recipe *r = recipe_copy(run->pool, run->e->recipe);
    if (recipe_type(r) != F32)
        return OK;
    r->precision = PRECISION_BF16;
    return run_row(
        run, (WhatIf){ .name = "bf16 storage, fp32 master weights", .how = "--precision bf16" }, r,
        SEARCH_NONE);
}

/* Micro-batches of half the size, and of one sample; the effective batch stays. */
static Err run_split(WhatIfRun *run)
{
    int64_t batch = run->e->recipe->batch;
    for (int which = 0; which < 2; which++) {
        int64_t split = which ? batch : 2;
        Recipe *r = recipe_copy(run->pool, run->e->recipe);
        if (batch < 2 || batch % split || (which && batch == 2) || recipe_no_split(r))
            continue;
        TRY(recipe_split(r, split));
        bool        norm = graph_has(run->e->sheet->engine->graph, &op_batchnorm);
        const char *note = norm ? "batch norm then takes its statistics from fewer samples" : NULL;
        TRY(run_row(
            run,
            (WhatIf){ .note = note,
                      .name = pool_print(run->pool, "micro-batches of %lld, effective batch kept",
                                         (long long)r->batch),
                      .how = pool_print(run->pool, "--batch %lld --set accumulate=%lld",
                                        (long long)r->batch, (long long)r->accumulate) },
            r, SEARCH_NONE));
    }
    return OK;
}

static Err run_attention(WhatIfRun *run)
{
    Recipe *r = recipe_copy(run->pool, run->e->recipe);
    for (int32_t i = 0; i < run->e->n_avoided; i++)
        if (!strncmp(run->e->avoided[i].name, "attention scores", 16)) {
            r->levers.stored_attention = !r->levers.stored_attention;
            return run_row(run,
                           (WhatIf){ .name = "attention with stored scores (the plain form)",
                                     .how = "fit --allow algorithm, where it is faster" },
                           r, SEARCH_NONE);
        }
    return OK;
}

static Err run_release(WhatIfRun *run)
{
    Recipe     *r = recipe_copy(run->pool, run->e->recipe);
    const char *why_not = recipe_no_release(r);
    WhatIf      row = { .name = "gradients released as they become final",
                        .how = "fit, within a budget",
                        .exact = true };
    if (why_not) {
        run_refuse(run, row, why_not);
        return OK;
    }
    r->levers.release = true;
    return run_row(run, row, r, SEARCH_NONE);
}

static Err run_workspace(WhatIfRun *run)
{
    Recipe *r = recipe_copy(run->pool, run->e->recipe);
    r->levers.max_workspace = 1;
    return run_row(run,
                   (WhatIf){ .name = "algorithms with the smallest workspace",
                             .how = "fit --allow algorithm" },
                   r, SEARCH_NONE);
}

/* Adds the row if its chunks apply to any node, else the reason why not. */
static Err run_chunks(WhatIfRun *run, WhatIf row, const Recipe *recipe, const char *why_not)
{
    Pool         *pool = pool_new(NULL, "chunks");
    TrainingGraph graph;
    Err           err = recipe_graph(pool, recipe, false, &graph);
    bool          chunked = !err && graph.chunked;
    pool_free(pool);
    TRY(err);
    if (chunked)
        return run_row(run, row, recipe, SEARCH_NONE);
    run_refuse(run, row, why_not);
    return OK;
}

static Err run_loss(WhatIfRun *run)
{
    Recipe *r = recipe_copy(run->pool, run->e->recipe);
    r->levers.loss_chunks = LOSS_CHUNKS;
    return run_chunks(
        run,
        (WhatIf){
            .name = pool_print(run->pool, "loss and the rows before it in %d chunks", LOSS_CHUNKS),
            .how = "fit --allow chunk, within a budget" },
        r, "nothing before the loss works row by row in equal chunks");
}

static Err run_sample_chunks(WhatIfRun *run)
{
    Recipe *r = recipe_copy(run->pool, run->e->recipe);
    r->levers.sample_chunks = recipe_max_chunks(r);
    if (r->levers.sample_chunks < 2)
        return OK;
    return run_chunks(run,
                      (WhatIf){ .name = r->levers.sample_chunks == r->batch
                                            ? "one sample at a time, except in batch norm"
                                            : "chunks of samples, except in batch norm",
                                .how = "fit --allow split, within a budget" },
                      r, "no sequence of per-sample operators keeps more bytes than it passes on");
}

static Err run_host_resident(WhatIfRun *run, HostState host, const char *name)
{
    Recipe *r = recipe_copy(run->pool, run->e->recipe);
    WhatIf  row = { .name = name, .how = "fit, within a budget", .exact = true };
    if (run->e->device->to_host <= 0) {
        row.how = "on a GPU: fit, within a budget";
        run_refuse(run, row, "on the CPU, host and device share one memory");
        return OK;
    }
    r->levers.host = (int)host;
    return run_row(run, row, r, SEARCH_NONE);
}

static Err run_state(WhatIfRun *run)
{
    Recipe *r = recipe_copy(run->pool, run->e->recipe);
    if (r->ema.rule != EMA_NONE) {
        r->ema.rule = EMA_NONE;
        TRY(run_row(run,
                    (WhatIf){ .name = "no average of the weights (EMA)",
                              .how = "--set ema.rule=none",
                              .effort = EFFORT_SHORT },
                    r, SEARCH_NONE));
        TRY(run_host_resident(run, HOST_EMA, "EMA on the host"));
    }
    TRY(run_host_resident(run, HOST_STATE, "EMA, moments and master copies on the host"));
    r = recipe_copy(run->pool, run->e->recipe);
    if (r->optimizer.kind != OPTIMIZER_SGD) {
        r->optimizer.kind = OPTIMIZER_SGD;
        TRY(run_row(run,
                    (WhatIf){ .name = "SGD with momentum: one state per weight",
                              .how = "--set optimizer.kind=sgd",
                              .effort = EFFORT_SHORT },
                    r, SEARCH_NONE));
        r->optimizer.beta1 = 0;
        TRY(run_row(run,
                    (WhatIf){ .name = "SGD without momentum: no state",
                              .how = "--set optimizer.kind=sgd --set optimizer.beta1=0",
                              .effort = EFFORT_SHORT },
                    r, SEARCH_NONE));
    }
    return OK;
}

/* The budget to ask for, which on a GPU includes the runtime. */
static const char *recompute_words(const WhatIfRun *run, int64_t arena_bytes)
{
    return pool_print(run->pool, "fit --allow none --budget %lld",
                      (long long)(arena_bytes + run->e->device->runtime_bytes));
}

/* The first bytes cost least: half of what recomputation can save costs much less than half. */
static Err run_recompute(WhatIfRun *run)
{
    TRY(run_row(
        run,
        (WhatIf){ .name = "recompute as much as helps", .how = "fit --allow none", .exact = true },
        run->e->recipe, SEARCH_MINIMUM));
    WhatIf *minimum = &run->rows[run->n - 1];
    if (minimum->failed || minimum->saved_bytes <= 0)
        return OK;
    minimum->how = recompute_words(run, minimum->peak_bytes);
    run->half_bytes = minimum->peak_bytes + minimum->saved_bytes / 2;
    return run_row(run,
                   (WhatIf){ .name = "recompute for half of that",
                             .exact = true,
                             .how = recompute_words(run, run->half_bytes) },
                   run->e->recipe, SEARCH_HALF);
}

/* Sets every lever that this model allows; `host`: also host-resident state. Returns them in
 * words. */
static const char *together_levers(const WhatIfRun *run, Recipe *r, bool host)
{
    const Explained *e = run->e;
    unsigned         allow = run->options->allow;
    Text             text = { .pool = run->pool };
    if (allow & ALLOW_PRECISION && recipe_type(r) == F32) {
        r->precision = PRECISION_BF16;
        text_add(&text, "bf16, ");
    }
    if (allow & ALLOW_SPLIT && r->batch > 1 && !recipe_no_split(r) &&
        (allow & ALLOW_BATCHNORM_SPLIT || !graph_has(e->sheet->engine->graph, &op_batchnorm)) &&
        !recipe_split(r, r->batch))
        text_add(&text, "micro-batches of 1, ");
    if (!recipe_no_release(r)) {
        r->levers.release = true;
        text_add(&text, "gradients released, ");
    }
    if (host) {
        r->levers.host = HOST_STATE;
        text_add(&text, "state on the host, ");
    }
    if (allow & ALLOW_ALGORITHM)
        r->levers.max_workspace = 1;
    return text.n ? text.at : "";
}

/* Plans between everything kept and the minimum, as fit --curve shows them. */
static Err run_curve(WhatIfRun *run)
{
    double     left = run_left_s(run);
    FitOptions how = { .budget_bytes = 1,
                       .allow = ALLOW_DEFAULT & run->options->allow,
                       .time_limit_s = left / 4,
                       .effort = run->options->effort ? run->options->effort : SHORT_EFFORT };
    if (left <= 0 || !run->options->curve)
        return OK;
    if (run->options->progress)
        run->options->progress(run->options->progress_arg, 0.9, "budget against time");
    return fit_curve(run->pool, run->e->recipe, run->e->device, &how, run->e->fit, &run->e->curve,
                     &run->e->n_curve);
}

/* First all levers together; then, in the time left, every combination that fit would try. */
static Err run_together(WhatIfRun *run)
{
    const WhatIf name = { .name = "all levers together, effective batch kept",
                          .how = "fit --allow algorithm,chunk,split,precision" };
    bool         host = run->e->device->to_host > 0;
    Recipe      *r = recipe_copy(run->pool, run->e->recipe);
    const char  *levers = together_levers(run, r, host);
    TRY(run_row(run, name, r, SEARCH_MINIMUM));
    if (host && run->rows[run->n - 1].failed && run_left_s(run) > 0) { /* no room on the host */
        run->n--;
        r = recipe_copy(run->pool, run->e->recipe);
        levers = together_levers(run, r, false);
        TRY(run_row(run, name, r, SEARCH_MINIMUM));
    }
    WhatIf *row = &run->rows[run->n - 1], other = *row;
    if (row->failed)
        return OK;
    row->note = pool_print(run->pool, "%s%s", levers, row->note ? row->note : "nothing recomputed");
    budgets_replan(run->e, fmin(run_left_s(run), run->options->time_limit_s / 4));
    TRY(run_curve(run));
    if (run_left_s(run) <= 0)
        return OK;
    TRY(run_plan(run, &other, run->e->recipe, SEARCH_ALL));
    if (!other.failed && other.peak_bytes < row->peak_bytes)
        *row = other;
    return OK;
}

static int row_order(const void *a, const void *b)
{
    const WhatIf *x = a, *y = b;
    if (x->failed != y->failed)
        return x->failed ? 1 : -1;
    if (x->saved_bytes != y->saved_bytes)
        return x->saved_bytes < y->saved_bytes ? 1 : -1;
    return strcmp(x->name, y->name);
}

Err whatif_run(Pool *pool, Explained *e, const WhatIfOptions *options)
{
    WhatIfRun run = { .pool = pool,
                      .e = e,
                      .options = options,
                      .start_s = clock_now(),
                      .rows = NEWN(pool, WhatIf, MAX_ROWS),
                      .expected = 20 };
    TRY(run_precision(&run));
    TRY(run_split(&run));
    TRY(run_attention(&run));
    TRY(run_release(&run));
    TRY(run_workspace(&run));
    TRY(run_loss(&run));
    TRY(run_sample_chunks(&run));
    TRY(run_state(&run));
    TRY(run_changes(&run));
    TRY(beliefs_find(pool, e));
    TRY(run_recompute(&run));
    qsort(run.rows, (size_t)run.n, sizeof *run.rows, row_order);
    TRY(run_together(&run));
    if (options->progress)
        options->progress(options->progress_arg, 1, "");
    e->what_if = run.rows;
    e->n_what_if = run.n;
    return OK;
}
