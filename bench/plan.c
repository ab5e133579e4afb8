/* plan.c -- the quality of plans and the time that planning takes.
 *
 *   1 published graphs (../shared/instances/recompute) against their proved optima
 *   2 a transformer's training step, over budgets and numbers of nodes, against plain per-block
 *     checkpointing and against a lower bound for any order
 *
 * Arguments: --quick for the first table only, a graph's name for its rows only, a number of blocks
 * for the transformer of that size; and --json FILE.
 */
#include "results_file.h"

#include "base/clock.h"
#include "plan/prove.h"
#include "../tests/plan/make.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

/* CPU seconds of all threads; on two idle cores a plan takes about half as long. */
static double cpu_now(void) { return (double)clock() / CLOCKS_PER_SEC; }

typedef struct Row {
    const char *graph;
    double      fraction, known; /* extra cost in %, of the best schedule in the input order */
    const char *how;
} Row;

/* clang-format off */
static const Row rows[] = {
    { "VGG16", 0.90, 1.968, "proved" },     { "VGG16", 0.85, 1.968, "proved" },
    { "vgg_unet", 0.90, 1.129, "proved" },  { "vgg_unet", 0.80, 1.984, "proved" },
    { "vgg_unet", 0.70, 2.967, "proved" },  { "vgg_unet", 0.60, 4.451, "proved" },
    { "vgg_unet", 0.50, 6.967, "proved" },  { "vgg_unet", 0.45, 9.321, "proved" },
    { "vgg_unet", 0.40, 13.11, "found" },   { "MobileNet", 0.90, 0.164, "found" },
    { "MobileNet", 0.80, 0.370, "proved" }, { "MobileNet", 0.70, 0.626, "found" },
    { "MobileNet", 0.50, 1.635, "proved" }, { "MobileNet", 0.30, 3.97, "found" },
    { "RL100", 0.90, 0.789, "proved" },     { "RL100", 0.80, 2.296, "proved" },
    { "RL100", 0.70, 7.73, "found" },       { "RL100", 0.60, 206, "found" },
};
/* clang-format on */

static ResultsFile results;

static void instance_results(size_t i, double extra, double cpu_s)
{
    JsonOut *row = results_row(&results, rows[i].graph);
    json_out_number(row, "budget", rows[i].fraction);
    results_figure(row, "extra_percent", extra);
    json_out_number(row, "known_percent", rows[i].known);
    json_out_string(row, "known", rows[i].how);
    results_figure(row, "cpu_s", cpu_s);
    json_out_end(row);
}

static void bench_instances(const char *only)
{
    printf("published graphs: extra cost in %% of running every node once\n");
    printf("%-10s %6s %9s %9s %8s %10s %8s %8s\n", "graph", "budget", "ours", "known", "",
           "difference", "seconds", "cpu");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (only && strcmp(only, rows[i].graph))
            continue;
        Pool       *pool = pool_new(NULL, "bench");
        const char *path = pool_print(pool, "%s/../shared/instances/recompute/%s.json", SOURCE_DIR,
                                      rows[i].graph);
        PGraph     *graph;
        Plan       *plan;
        if (pgraph_read(pool, path, &graph)) {
            printf("%-10s skipped: %s\n", rows[i].graph, err_text());
            pool_free(pool);
            continue;
        }
        PlanOptions options = {
            .budget_bytes = (int64_t)ceil(rows[i].fraction * (double)graph->base_peak_bytes),
        };
        double begin = clock_now(), cpu = cpu_now();
        Err    err = plan_solve(pool, graph, &options, &plan);
        double extra = 100 * (plan->cost / plan->base_cost - 1);
        if (!err)
            instance_results(i, extra, cpu_now() - cpu);
        if (err)
            printf("%-10s %6.2f %s\n", rows[i].graph, rows[i].fraction, err_text());
        else
            printf("%-10s %6.2f %9.3f %9.3f %8s %+9.2f%% %8.2f %8.2f\n", rows[i].graph,
                   rows[i].fraction, extra, rows[i].known, rows[i].how,
                   100 * (extra / rows[i].known - 1), clock_now() - begin, cpu_now() - cpu);
        fflush(stdout);
        pool_free(pool);
    }
}

/* The smallest number of blocks that plain checkpointing must recompute to fit, or -1. */
static int32_t bench_per_block(Pool *pool, const PGraph *graph, const MakeBlocks *blocks,
                               int64_t budget, double *extra)
{
    int32_t low = 0, high = blocks->n_blocks + 1;
    while (low < high) {
        int32_t k = (low + high) / 2;
        Plan   *plan;
        if (k > blocks->n_blocks)
            return -1;
        REQUIRE(make_per_block(pool, graph, blocks, k, &plan) == OK);
        if (plan->live_bytes <= budget) {
            *extra = 100 * (plan->cost / plan->base_cost - 1);
            high = k;
        } else {
            low = k + 1;
        }
    }
    return high <= blocks->n_blocks ? high : -1;
}

/* A lower bound on the extra cost of any plan in any order, in %. */
static double bench_bound(Pool *pool, const PGraph *graph, const Plan *plan, int64_t budget)
{
    ProveOptions options = { .budget_bytes = budget, .any_only = true, .time_limit_s = 5 };
    Proof        proof;
    REQUIRE(plan_prove(pool, graph, plan, &options, &proof) == OK);
    return 100 * (proof.any_cost / plan->base_cost - 1);
}

static void bench_transformer(int32_t n_blocks)
{
    static const double fractions[] = { 0.9, 0.7, 0.5, 0.35, 0.25 };
    Pool               *pool = pool_new(NULL, "bench");
    MakeBlocks          blocks;
    PGraph             *graph = make_transformer(pool, n_blocks, 1 << 20, &blocks);
    Plan               *all, *plan;
    REQUIRE(plan_keep_all(pool, graph, &all) == OK);
    int64_t fixed = pgraph_persistent_bytes(graph);
    for (size_t i = 0; i < sizeof fractions / sizeof *fractions; i++) {
        PlanOptions options = {
            .budget_bytes = fixed + (int64_t)(fractions[i] * (double)(all->live_bytes - fixed)),
        };
        double   block_extra = 0, begin = clock_now(), cpu = cpu_now();
        Err      err = plan_solve(pool, graph, &options, &plan);
        double   seconds = clock_now() - begin, used = cpu_now() - cpu;
        int32_t  k = bench_per_block(pool, graph, &blocks, options.budget_bytes, &block_extra);
        JsonOut *row = results_row(&results, "transformer step");
        json_out_int(row, "nodes", graph->n_nodes);
        json_out_number(row, "budget", fractions[i]);
        printf("%6d %6.2f ", graph->n_nodes, fractions[i]);
        if (err) {
            printf("%9s %9s ", "none", "");
        } else {
            double extra = 100 * (plan->cost / plan->base_cost - 1),
                   bound = bench_bound(pool, graph, plan, options.budget_bytes);
            printf("%9.3f %9.3f ", extra, bound);
            results_figure(row, "extra_percent", extra);
            results_figure(row, "bound_percent", bound);
        }
        if (k < 0) {
            printf("%12s ", "none");
        } else {
            printf("%12.3f ", block_extra);
            results_figure(row, "per_block_percent", block_extra);
        }
        results_figure(row, "cpu_s", used);
        json_out_end(row);
        printf("%8.2f %8.2f\n", seconds, used);
        fflush(stdout);
    }
    pool_free(pool);
}

int main(int argc, char **argv)
{
    results_begin(
        &results, &argc, argv, "bench_plan",
        "extra_percent: cost above running every node once. bound_percent: no plan in any "
        "order costs less.");
    bool quick = argc > 1 && !strcmp(argv[1], "--quick");
    bool one = argc > 1 && !quick && !atoi(argv[1]);
    if (argc < 2 || quick || one)
        bench_instances(one ? argv[1] : NULL);
    if (quick || one) {
        results_end(&results);
        return 0;
    }
    printf("\ntransformer step: extra cost in %% at a fraction of all activations\n");
    printf("%6s %6s %9s %9s %12s %8s %8s\n", "nodes", "budget", "ours", "bound", "per block",
           "seconds", "cpu");
    static const int32_t sizes[] = { 17, 70, 172, 690 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (argc < 2 || atoi(argv[1]) == sizes[i])
            bench_transformer(sizes[i]);
    results_end(&results);
    return 0;
}
