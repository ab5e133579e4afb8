/* whatif.c -- each row is the recipe with one thing changed, built, planned and placed anew.
 *
 * Cheap rows come first; rows that search share what is left of the time. A row that the limit
 * reaches is marked, never guessed. */
#include "report/whatif.h"

#include "base/clock.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const effort_words[] = { "immediate", "short", "long" };

enum { SHORT_EFFORT = 2000, MOST_ROWS = 40, LOSS_CHUNKS = 4 };

typedef struct Run {
    Pool                *pool;
    Explained           *e;
    const WhatIfOptions *options;
    double               start_s;
    WhatIf              *rows;
    int32_t              n;
    int64_t              half_bytes;     /* the budget of SEARCH_HALF */
    int                  expected;       /* rows in all, for the progress line */
} Run;

/* keep all; least arena; half of what that saves; least arena with every lever */
typedef enum Search { SEARCH_NONE, SEARCH_LEAST, SEARCH_HALF, SEARCH_ALL } Search;

static double run_left_s(const Run *run)
{
    return run->options->time_limit_s - (clock_now() - run->start_s);
}

/* Plans the recipe; the row gets its figures, or the sentence why not. */
static Err run_plan(Run *run, WhatIf *row, const Recipe *recipe, Search search)
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
    FitOptions how = { .budget_bytes = search == SEARCH_HALF ? run->half_bytes : search ? 1 : 0,
                       .allow = run->options->allow,
                       .time_limit_s = left,
                       .effort = run->options->effort ? run->options->effort : SHORT_EFFORT };
    Err        err = search == SEARCH_ALL ? fit_run(pool, recipe, run->e->device, &how, result)
                                          : fit_plan(pool, recipe, run->e->device, &how, result);
    if (err && err != E_BUDGET) {
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

static Err run_row(Run *run, WhatIf row, const Recipe *recipe, Search search)
{
    REQUIRE(run->n < MOST_ROWS);
    TRY(run_plan(run, &row, recipe, search));
    run->rows[run->n++] = row;
    return OK;
}

static void run_refuse(Run *run, WhatIf row, const char *why)
{
    REQUIRE(run->n < MOST_ROWS);
    row.failed = true;
    row.note = why;
    run->rows[run->n++] = row;
}

/* ---- levers that leave the model as it is ---- */

static Err run_precision(Run *run)
{
    Recipe *r = recipe_copy(run->pool, run->e->recipe);
    if (recipe_type(r) != F32)
        return OK;
    r->precision = 1;
    return run_row(run, (WhatIf){ .name = "bf16 storage, fp32 master weights",
                                  .how = "--precision bf16" }, r, SEARCH_NONE);
}

/* Halves, and single samples; the effective batch stays. */
static Err run_split(Run *run)
{
    int64_t batch = run->e->recipe->batch;
    for (int which = 0; which < 2; which++) {
        int64_t pieces = which ? batch : 2;
        Recipe *r = recipe_copy(run->pool, run->e->recipe);
        if (batch < 2 || batch % pieces || (which && batch == 2) || recipe_no_cut(r))
            continue;
        TRY(recipe_cut(r, pieces));
        TRY(run_row(run, (WhatIf){
            .name = pool_print(run->pool, "micro-batches of %lld, effective batch kept",
                               (long long)r->batch),
            .how = pool_print(run->pool, "--batch %lld --set accumulate=%lld", (long long)r->batch,
                              (long long)r->accumulate) },
            r, SEARCH_NONE));
    }
    return OK;
}

static Err run_attention(Run *run)
{
    Recipe *r = recipe_copy(run->pool, run->e->recipe);
    for (int32_t i = 0; i < run->e->n_avoided; i++)
        if (!strncmp(run->e->avoided[i].name, "attention scores", 16)) {
            r->levers.stored_attention = !r->levers.stored_attention;
            return run_row(run,
                           (WhatIf){ .name = "attention that stores its scores (the plain form)",
                                     .how = "fit --allow algorithm, where it is faster" },
                           r, SEARCH_NONE);
        }
    return OK;
}

static Err run_release(Run *run)
{
    Recipe     *r = recipe_copy(run->pool, run->e->recipe);
    const char *why_not = recipe_no_release(r);
    WhatIf      row = { .name = "gradients released as they become final",
                        .how = "fit, within a budget", .exact = true };
    if (why_not) {
        run_refuse(run, row, why_not);
        return OK;
    }
    r->levers.release = true;
    return run_row(run, row, r, SEARCH_NONE);
}

static Err run_scratch(Run *run)
{
    Recipe *r = recipe_copy(run->pool, run->e->recipe);
    r->levers.most_scratch = 1;
    return run_row(run, (WhatIf){ .name = "algorithms with least workspace",
                                  .how = "fit --allow algorithm" }, r, SEARCH_NONE);
}

/* A row whose lots cut something, or why there is none. */
static Err run_lots(Run *run, WhatIf row, const Recipe *recipe, const char *why_not)
{
    Pool         *pool = pool_new(NULL, "lots");
    TrainingGraph graph;
    Err           err = recipe_graph(pool, recipe, false, &graph);
    bool          cut = !err && graph.cut;
    pool_free(pool);
    TRY(err);
    if (cut)
        return run_row(run, row, recipe, SEARCH_NONE);
    run_refuse(run, row, why_not);
    return OK;
}

static Err run_loss(Run *run)
{
    Recipe *r = recipe_copy(run->pool, run->e->recipe);
    r->levers.chunks = LOSS_CHUNKS;
    return run_lots(
        run,
        (WhatIf){
            .name = pool_print(run->pool, "loss and the rows before it in %d chunks", LOSS_CHUNKS),
            .how = "fit --allow chunk, within a budget" },
        r, "nothing before the loss works row by row in equal chunks");
}

static Err run_regions(Run *run)
{
    Recipe *r = recipe_copy(run->pool, run->e->recipe);
    if (r->batch < 2)
        return OK;
    r->levers.regions = r->batch;
    return run_lots(run, (WhatIf){ .name = "regions sample by sample, batch norm whole",
                                   .how = "fit --allow split, within a budget" }, r,
                    "no run of per-sample operators keeps more than it hands on");
}

static Err run_hosted(Run *run, HostState host, const char *name)
{
    Recipe *r = recipe_copy(run->pool, run->e->recipe);
    WhatIf  row = { .name = name, .how = "fit, within a budget", .exact = true };
    if (run->e->device->to_host <= 0) {
        row.how = "-";
        run_refuse(run, row, "host and device share one memory here");
        return OK;
    }
    r->levers.host = (int)host;
    return run_row(run, row, r, SEARCH_NONE);
}

static Err run_state(Run *run)
{
    Recipe *r = recipe_copy(run->pool, run->e->recipe);
    if (r->ema.rule != EMA_NONE) {
        r->ema.rule = EMA_NONE;
        TRY(run_row(run, (WhatIf){ .name = "no average of the weights (EMA)",
                                   .how = "--set ema.rule=none", .effort = EFFORT_SHORT },
                    r, SEARCH_NONE));
        TRY(run_hosted(run, HOST_EMA, "EMA on the host"));
    }
    TRY(run_hosted(run, HOST_STATE, "EMA, moments and master copies on the host"));
    r = recipe_copy(run->pool, run->e->recipe);
    if (r->optimizer.kind != OPTIMIZER_SGD) {
        r->optimizer.kind = OPTIMIZER_SGD;
        TRY(run_row(run, (WhatIf){ .name = "SGD with momentum: one state a weight",
                                   .how = "--set optimizer.kind=sgd",
                                   .effort = EFFORT_SHORT }, r, SEARCH_NONE));
        r->optimizer.beta1 = 0;
        TRY(run_row(run, (WhatIf){ .name = "SGD without momentum: no state",
                                   .how = "--set optimizer.kind=sgd --set optimizer.beta1=0",
                                   .effort = EFFORT_SHORT }, r, SEARCH_NONE));
    }
    return OK;
}

/* The first bytes are the cheapest: half of what recomputing can save costs much less than half. */
static Err run_recompute(Run *run)
{
    TRY(run_row(
        run,
        (WhatIf){ .name = "recompute as much as helps", .how = "fit --allow none", .exact = true },
        run->e->recipe, SEARCH_LEAST));
    const WhatIf *least = &run->rows[run->n - 1];
    if (least->failed || least->saved_bytes <= 0)
        return OK;
    run->half_bytes = least->peak_bytes + least->saved_bytes / 2;
    return run_row(run, (WhatIf){ .name = "recompute for half of that", .exact = true,
                   .how = pool_print(run->pool, "fit --allow none --budget %lld",
                   (long long)run->half_bytes) },
                   run->e->recipe, SEARCH_HALF);
}

/* ---- changes to the model ---- */

typedef enum Move { MOVE_HALF, MOVE_HALF_UP, MOVE_TWICE, MOVE_THREE_QUARTERS,
                    MOVE_TWO_THIRDS } Move;

static const struct Change {
    const char *system, *name, *keys;    /* several keys move together, ' ' between */
    Move        move;
} model_changes[] = {
    { "stdiff",   "fewer predicted frames",     "predicted",            MOVE_HALF_UP },
    { "stdiff",   "fewer observed frames",      "observed",             MOVE_HALF_UP },
    { "stdiff",   "half the resolution",        "image",                MOVE_HALF },
    { "stdiff",   "half the channels",          "channels",             MOVE_HALF },
    { "stdiff",   "half the head width",        "head_width",           MOVE_HALF },
    { "stdiff",   "fewer layers",               "layers",               MOVE_HALF },
    { "stablesr", "half the resolution",        "image latent",         MOVE_HALF },
    { "stablesr", "half the edge channels",     "edge_width",           MOVE_HALF },
    { "stablesr", "fewer edge layers",          "edge_convs",           MOVE_HALF_UP },
    { "stablesr", "half the head width",        "head_width",           MOVE_HALF },
    { "stablesr", "fewer layers",               "layers",               MOVE_HALF },
    { "lag",      "fewer images a set",         "set_size",             MOVE_HALF_UP },
    { "lag",      "half the resolution",        "image",                MOVE_HALF },
    { "lag",      "patches of twice the side",  "patch",                MOVE_TWICE },
    { "lag",      "fewer DiT layers",           "depth",                MOVE_TWO_THIRDS },
    { "lag",      "fewer encoder layers",       "encoder_depth",        MOVE_TWO_THIRDS },
    { "lag",      "half the encoder's heads",   "encoder_heads",        MOVE_HALF },
    { "sashimi",  "half the sequence length",   "length",               MOVE_HALF },
    { "sashimi",  "fewer layers",               "layers",               MOVE_THREE_QUARTERS },
    { "sashimi",  "fewer mixtures",             "components",           MOVE_TWO_THIRDS },
    { "sashimi",  "half the channels",          "width",                MOVE_HALF },
    { "sashimi",  "half the state",             "state",                MOVE_HALF },
    { "dit3d",    "half the frames",            "frames",               MOVE_HALF },
    { "dit3d",    "half the resolution",        "image",                MOVE_HALF },
    { "dit3d",    "patches of twice the side",  "patch",                MOVE_TWICE },
    { "dit3d",    "half the width",             "width",                MOVE_HALF },
    { "dit3d",    "twice the heads, half as wide", "heads",             MOVE_TWICE },
    { "dit3d",    "fewer layers",               "depth",                MOVE_TWO_THIRDS },
    { "unet",     "half the resolution",        "height width",         MOVE_HALF },
    { "unet",     "half the channels",          "widths",               MOVE_HALF },
};

static int64_t moved(Move move, int64_t v)
{
    switch (move) {
    case MOVE_HALF:           return v / 2;
    case MOVE_HALF_UP:        return (v + 1) / 2;
    case MOVE_TWICE:          return 2 * v;
    case MOVE_THREE_QUARTERS: return v * 3 / 4;
    case MOVE_TWO_THIRDS:     return v * 2 / 3;
    }
    return v;
}

/* "model.key=value" with the value moved; NULL where nothing would change. */
static const char *moved_setting(Pool *pool, const Recipe *recipe, const char *key, size_t n,
                                 Move move)
{
    const Field *f = recipe->model->fields;
    while (f->key && (strlen(f->key) != n || memcmp(f->key, key, n)))
        f++;
    REQUIRE(f->key && (f->kind == FIELD_INT || f->kind == FIELD_INTS));
    const void *at = (const char *)recipe->config + f->offset;
    if (f->kind == FIELD_INT) {
        int64_t was = *(const int64_t *)at, now = moved(move, was);
        return now == was || now < 1 ? NULL : pool_print(pool, "model.%s=%lld", f->key,
                                                         (long long)now);
    }
    Text text = { .pool = pool };
    for (int i = 0; i < ((const Ints *)at)->n; i++)
        text_add(&text, "%s%lld", i ? "," : "[", (long long)moved(move, ((const Ints *)at)->at[i]));
    return pool_print(pool, "model.%s=%s]", f->key, text.at);
}

static Err run_change(Run *run, const struct Change *change)
{
    Recipe *r = recipe_copy(run->pool, run->e->recipe);
    Text    how = { .pool = run->pool };
    WhatIf  row = { .name = change->name, .effort = EFFORT_LONG };
    for (const char *key = change->keys; *key; key += strspn(key, " ")) {
        size_t      n = strcspn(key, " ");
        const char *setting = moved_setting(run->pool, r, key, n, change->move);
        if (!setting)
            return OK;
        text_add(&how, "%s--set %s", how.n ? " " : "", setting);
        row.how = how.at;
        if (recipe_set(run->pool, r, setting)) {
            run_refuse(run, row, pool_text(run->pool, err_text()));
            return OK;
        }
        key += n;
    }
    if (r->model->check && r->model->check(r->config)) {
        run_refuse(run, row, pool_text(run->pool, err_text()));
        return OK;
    }
    return run_row(run, row, r, SEARCH_NONE);
}

static Err run_changes(Run *run)
{
    for (size_t i = 0; i < sizeof model_changes / sizeof *model_changes; i++)
        if (!strcmp(model_changes[i].system, run->e->recipe->model->name))
            TRY(run_change(run, &model_changes[i]));
    Recipe *r = recipe_copy(run->pool, run->e->recipe);
    r->batch /= 2;
    if (r->batch < 1)
        return OK;
    return run_row(run, (WhatIf){ .name = "half the batch, and half the effective batch",
                                  .effort = EFFORT_LONG,
                                  .how = pool_print(run->pool, "--batch %lld",
                                                    (long long)r->batch) }, r, SEARCH_NONE);
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
    Run run = { .pool = pool, .e = e, .options = options, .start_s = clock_now(),
                .rows = NEWN(pool, WhatIf, MOST_ROWS),
                .expected = 20 };
    TRY(run_precision(&run));
    TRY(run_split(&run));
    TRY(run_attention(&run));
    TRY(run_release(&run));
    TRY(run_scratch(&run));
    TRY(run_loss(&run));
    TRY(run_regions(&run));
    TRY(run_state(&run));
    TRY(run_changes(&run));
    TRY(beliefs_find(pool, e));
    TRY(run_recompute(&run));
    qsort(run.rows, (size_t)run.n, sizeof *run.rows, row_order);
    TRY(run_row(&run,
                (WhatIf){ .name = "all levers together, model and effective batch kept",
                          .how = "fit --allow algorithm,chunk,split,precision" },
                e->recipe, SEARCH_ALL));
    if (options->progress)
        options->progress(options->progress_arg, 1, "");
    e->what_if = run.rows;
    e->n_what_if = run.n;
    return OK;
}
