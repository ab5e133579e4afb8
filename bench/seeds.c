/* seeds.c -- the five systems at full size under the budgets of common GPUs: planned, not run.
 *
 *   kept         everything kept, every lever at its default
 *   exact        our plan with exact levers only: it gives the same bits
 *   levers       our plan with splits and leaner algorithms too (batch norm is not split)
 *   minimum      the smallest arena with exact levers, and on the next line what limits it
 *   per block    plain checkpointing: a block's inputs are kept, its forward is recomputed before
 *                its backward. Blocks are the modules at one depth of names; the best depth and
 *                number of blocks are used
 *
 * Times are predicted, in % more than with everything kept. Where the budget is too small, a cell
 * has the smallest arena found, marked "min". Arguments: the effort of each search (0: the
 * default), a substring of the rows' names (RECIPE/PRECISION/GIB), a device (cpu, h200); and
 * --json FILE. */
#include "results_file.h"

#include "base/clock.h"
#include "base/text.h"
#include "fit/sheet.h"
#include "fit/fit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Row {
    const char *recipe;
    int64_t     gib;
} Row;

static const Row rows[] = {
    { "stdiff-64x2048", 24 }, { "stdiff-64x2048", 16 }, { "stablesr-edge-before", 24 },
    { "lag-32x6", 8 },        { "sashimi-24576", 2 },   { "sashimi-24576", 1 },
    { "dit3d-xl", 16 },
};

typedef struct Cell {
    bool    fits;
    int64_t bytes;
    double  extra; /* % more than with everything kept */
} Cell;

/* ---- plain checkpointing ---- */

typedef struct Blocks {
    const PGraph *graph;
    int32_t      *of; /* [node] its block; -1: not in the forward pass */
    int32_t       n;
} Blocks;

static size_t path_cut(const char *path, int depth)
{
    size_t at = 0;
    for (; path[at]; at++)
        if (path[at] == '.' && --depth == 0)
            break;
    return at;
}

/* Sequences of forward nodes whose module names agree down to `depth`. */
static Blocks blocks_at(Pool *pool, const Engine *engine, const Program *program, int depth)
{
    const PGraph *graph = program->pgraph;
    Blocks        b = { .graph = graph, .of = NEWN(pool, int32_t, graph->n_nodes) };
    const char   *last = NULL;
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        const Node *node = &engine->graph->nodes[program->node_of[n]];
        const char *path = engine->graph->modules[node->module].path;
        b.of[n] = -1;
        if (node->backward || node->phase != PHASE_MICRO)
            continue;
        size_t length = path_cut(path, depth);
        if (!last || path_cut(last, depth) != length || strncmp(last, path, length))
            b.n++;
        last = path;
        b.of[n] = b.n - 1;
    }
    /* A value that a later block overwrites in place cannot be kept: it belongs to that block. */
    for (int32_t n = graph->n_nodes - 1; n >= 0; n--)
        for (int32_t i = 0; i < graph->nodes[n].n_inplace; i++) {
            int32_t producer = graph->values[graph->nodes[n].inplace[i][1]].producer;
            if (producer >= 0 && b.of[n] >= 0 && b.of[producer] >= 0)
                b.of[producer] = b.of[n];
        }
    return b;
}

/* Blocks below `n_blocks` drop the values that only they and the backward pass read. */
static Err blocks_plan(Pool *pool, const Blocks *b, int32_t n_blocks, Plan **plan)
{
    const PGraph *graph = b->graph;
    int32_t      *runs = NEWN(pool, int32_t, 2 * graph->n_nodes + 1), n_runs = 0;
    bool *inner = NEWN(pool, bool, graph->n_values), *recompute = NEWN(pool, bool, graph->n_nodes),
         *done = NEWN(pool, bool, b->n + 1);
    for (int32_t v = 0; v < graph->n_values; v++) {
        int32_t producer = graph->values[v].producer;
        inner[v] = producer >= 0 && b->of[producer] >= 0 && b->of[producer] < n_blocks &&
                   !graph->nodes[producer].once && !graph->values[v].persistent &&
                   !graph->values[v].final;
    }
    for (int32_t n = 0; n < graph->n_nodes; n++)
        for (int32_t i = 0; i < graph->nodes[n].n_in; i++) {
            int32_t v = graph->nodes[n].in[i], producer = graph->values[v].producer;
            if (inner[v] && b->of[n] >= 0 && b->of[n] != b->of[producer])
                inner[v] = false;
        }
    /* needed by the backward pass, or by a node that is recomputed */
    for (int32_t n = graph->n_nodes - 1; n >= 0; n--)
        for (int32_t i = 0; i < graph->nodes[n].n_in; i++) {
            int32_t v = graph->nodes[n].in[i];
            if (inner[v] && (b->of[n] < 0 || recompute[n]))
                recompute[graph->values[v].producer] = true;
        }
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        for (int32_t i = 0; i < graph->nodes[n].n_in && b->of[n] < 0; i++) {
            int32_t v = graph->nodes[n].in[i],
                    block = inner[v] ? b->of[graph->values[v].producer] : -1;
            if (block < 0 || done[block])
                continue;
            done[block] = true;
            for (int32_t m = 0; m < n; m++)
                if (b->of[m] == block && recompute[m])
                    runs[n_runs++] = m;
        }
        runs[n_runs++] = n;
    }
    TRY(plan_from_runs(pool, graph, runs, n_runs, plan));
    return plan_check(graph, *plan, 0);
}

static bool cell_better(Cell now, Cell best)
{
    if (now.fits != best.fits)
        return now.fits;
    return now.fits ? now.extra < best.extra : now.bytes < best.bytes;
}

static void blocks_try(Engine *engine, const Blocks *b, int32_t n_blocks, int64_t budget,
                       Cell *best)
{
    Pool   *pool = pool_new(NULL, "blocks");
    Program one = engine->programs[0];
    if (!blocks_plan(pool, b, n_blocks, &one.plan)) {
        double more = (double)one.repeat * (one.plan->cost - engine->programs[0].meter.cost);
        Cell   cell = { one.plan->live_bytes <= budget, one.plan->live_bytes,
                        100 * more / engine->cost_ns };
        /* layouts are slow: only for plans that could be better */
        if ((!best->bytes || cell_better(cell, *best)) &&
            !engine_place(pool, engine, &one, 0, NULL, NULL)) {
            cell.bytes = one.arena_bytes;
            cell.fits = one.arena_bytes <= budget;
            if (!best->bytes || cell_better(cell, *best))
                *best = cell;
        }
    }
    pool_free(pool);
}

static Cell per_block(Pool *pool, Engine *engine, int64_t budget)
{
    Cell best = { 0 };
    for (int depth = 1; depth <= 6; depth++) {
        Blocks b = blocks_at(pool, engine, &engine->programs[0], depth);
        for (int sixteenths = 1; sixteenths <= 16; sixteenths++)
            blocks_try(engine, &b, (int32_t)((int64_t)b.n * sixteenths / 16), budget, &best);
    }
    return best;
}

/* ---- the table ---- */

static Cell ours(Pool *pool, const Recipe *recipe, const Device *device, FitOptions how,
                 unsigned allow, FitResult *r)
{
    how.allow = allow;
    Err err = fit_run(pool, recipe, device, &how, r);
    if (err && err != E_BUDGET) {
        fprintf(stderr, "%s\n", err_text());
        exit(1);
    }
    double extra = 100 * (r->step_ns / r->default_ns - 1);
    extra = fabs(extra) < 1e-6 ? 0 : extra; /* rounding: sums in another order */
    return (Cell){ r->fits, r->engine->arena_bytes, extra };
}

static ResultsFile results;

static JsonOut *seed_row(const Row *row, const char *precision, const char *variant)
{
    JsonOut *o = results_row(&results, row->recipe);
    json_out_string(o, "precision", precision);
    json_out_int(o, "budget_gib", row->gib);
    json_out_string(o, "variant", variant);
    return o;
}

static void results_size(const Row *row, const char *precision, const char *variant, int64_t bytes)
{
    JsonOut *o = seed_row(row, precision, variant);
    results_figure(o, "gib", (double)bytes / (double)(1 << 30));
    json_out_end(o);
}

/* r: names the levers that were changed; NULL: none. */
static void print_cell(Pool *pool, const Row *row, const char *precision, const char *variant,
                       Cell cell, const FitResult *r)
{
    JsonOut *o = seed_row(row, precision, variant);
    results_figure(o, "gib", (double)cell.bytes / (double)(1 << 30));
    if (!cell.fits)
        json_out_bool(o, "min", true);
    results_figure(o, "extra_percent", round(10 * cell.extra) / 10);
    Text levers = { .pool = pool };
    for (int i = 0; r && i < r->n_changes; i++)
        text_add(&levers, "%s%s %s", i ? "; " : "", r->changes[i].what, r->changes[i].to);
    if (levers.n)
        json_out_string(o, "levers", levers.at);
    json_out_end(o);
    printf("  %s%9s %+6.1f%%", cell.fits ? "      " : "min   ", bytes_text(cell.bytes), cell.extra);
    fflush(stdout);
}

/* The levers that were changed, on a separate line. */
static void fit_say(const FitResult *r)
{
    for (int i = 0; i < r->n_changes; i++)
        printf("%s%s %s", i ? "; " : "    levers: ", r->changes[i].what, r->changes[i].to);
    if (r->n_changes)
        printf("\n");
}

static void bench_row(const Row *row, const char *precision, int64_t effort, const char *name)
{
    Pool       *pool = pool_new(NULL, "seeds");
    const char *set = pool_print(pool, "precision=%s", precision);
    Recipe     *recipe;
    Device     *device;
    FitResult   kept, exact, all, minimum, split;
    FitOptions  how = { .effort = effort }, none;
    if (recipe_read(pool, row->recipe, &set, 1, &recipe) ||
        device_open(pool, name, NULL, &device) || fit_plan(pool, recipe, device, &how, &kept)) {
        fprintf(stderr, "%s\n", err_text());
        exit(1);
    }
    how.budget_bytes = row->gib << 30;
    none = how;
    none.budget_bytes = 1;
    double begin = clock_now();
    printf("%-20s %s %3lld GiB  %9s", row->recipe, precision, (long long)row->gib,
           bytes_text(kept.default_bytes));
    results_size(row, precision, "everything kept", kept.default_bytes);
    Cell cell = ours(pool, recipe, device, how, ALLOW_NONE, &exact);
    print_cell(pool, row, precision, "exact levers", cell, NULL);
    cell = ours(pool, recipe, device, how, ALLOW_DEFAULT, &all);
    print_cell(pool, row, precision, "all levers", cell, &all);
    print_cell(pool, row, precision, "per block", per_block(pool, kept.engine, how.budget_bytes),
               NULL);
    printf("  %5.1f s\n", clock_now() - begin);
    fit_say(&all);
    if (ours(pool, recipe, device, none, ALLOW_NONE, &minimum).fits)
        minimum = exact;
    printf("    minimum %s (no plan needs less than %s): %s\n",
           bytes_text(minimum.engine->arena_bytes), bytes_text(minimum.bound_bytes),
           sheet_fullest(pool, minimum.engine));
    results_size(row, precision, "minimum", minimum.engine->arena_bytes);
    results_size(row, precision, "bound", minimum.bound_bytes);
    if (!all.fits) {
        cell = ours(pool, recipe, device, how, ALLOW_DEFAULT | ALLOW_BATCHNORM_SPLIT, &split);
        if (split.recipe->batch != all.recipe->batch) {
            printf("    with --allow batchnorm-split, which is a different model:");
            print_cell(pool, row, precision, "batchnorm-split", cell, &split);
            printf("\n");
            fit_say(&split);
        }
    }
    fflush(stdout);
    pool_free(pool);
}

int main(int argc, char **argv)
{
    results_begin(
        &results, &argc, argv, "bench_seeds",
        "Planned, not run. extra_percent is time over everything kept. Per block: plain "
        "checkpointing at the module depth and number of blocks that does best. min: does "
        "not fit the budget; the smallest arena found. minimum: the smallest arena with "
        "exact levers; bound: no plan needs less.");
    int64_t     effort = argc > 1 ? strtoll(argv[1], NULL, 10) : 0;
    const char *only = argc > 2 ? argv[2] : "", *device = argc > 3 ? argv[3] : "cpu";
    printf("%-20s %s %7s  %9s  %22s  %22s  %22s\n", "recipe", "    ", "budget", "kept",
           "exact levers", "all levers", "per block");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int low = 0; low < 2; low++) {
            const char *precision = low ? "bf16" : "fp32";
            char        name[80];
            snprintf(name, sizeof name, "%s/%s/%lld", rows[i].recipe, precision,
                     (long long)rows[i].gib);
            if (strstr(name, only))
                bench_row(&rows[i], precision, effort, device);
        }
    results_end(&results);
    return 0;
}
