/* import.c -- how long a file of torch.export takes to become a graph, and that to be planned.
 *
 *   bench_import FILE.pt2 [SHARE ...] [--json FILE]
 *
 * Seconds by the clock, and CPU seconds of all threads: reading the file; lowering it to a forward
 * graph; the whole training graph; everything kept; then the fastest plan within each SHARE (0.7)
 * of that, by exact levers. tests/import/large_file.py writes files of any size. */
#include "results_file.h"

#include "base/clock.h"
#include "fit/fit.h"

#include <stdio.h>
#include <time.h>

static ResultsFile results;
static double      clock_from, cpu_from;

static double cpu_now(void) { return (double)clock() / CLOCKS_PER_SEC; }

static void stage_begin(void) { clock_from = clock_now(), cpu_from = cpu_now(); }

static void stage_end(const char *what, int32_t nodes, int64_t bytes)
{
    double   s = clock_now() - clock_from, cpu_s = cpu_now() - cpu_from;
    JsonOut *row = results_row(&results, what);
    json_out_int(row, "nodes", nodes);
    results_figure(row, "s", s);
    results_figure(row, "cpu_s", cpu_s);
    if (bytes)
        json_out_int(row, "bytes", bytes);
    json_out_end(row);
    printf("%-22s %8d nodes %8.3f s %8.3f s of CPU", what, nodes, s, cpu_s);
    printf(bytes ? " %12lld bytes\n" : "\n", (long long)bytes);
    fflush(stdout);
    stage_begin();
}

static Err bench_plans(Pool *pool, const Recipe *recipe, const Device *device, int n, char **shares)
{
    FitResult kept;
    TRY(fit_run(pool, recipe, device, &(FitOptions){ .allow = ALLOW_NONE }, &kept));
    stage_end("everything kept", kept.graph.graph->n_nodes, kept.engine->arena_bytes);
    for (int i = 0; i < n; i++) {
        FitResult  fit;
        double     share = atof(shares[i]);
        FitOptions options = { .allow = ALLOW_NONE,
                               .budget_bytes = (int64_t)(share * (double)kept.default_bytes) };
        if (fit_run(pool, recipe, device, &options, &fit))
            printf("within %.2f: %s\n", share, err_text());
        else
            stage_end(pool_print(pool, "planned within %.2f", share), fit.graph.graph->n_nodes,
                      fit.engine->arena_bytes);
        stage_begin();
    }
    return OK;
}

static Err bench(Pool *pool, const char *path, int n, char **shares)
{
    Recipe       *recipe;
    Device       *device;
    TrainingGraph train;
    stage_begin();
    TRY(recipe_read(pool, path, NULL, 0, &recipe));
    stage_end("read", 0, 0);
    Graph *forward = graph_new(pool, F32);
    recipe->model->loss(forward, recipe->config, recipe->batch, recipe->accumulate);
    TRY(graph_check(forward));
    stage_end("lowered", forward->n_nodes, 0);
    TRY(recipe_graph(pool, recipe, false, &train));
    stage_end("training graph", train.graph->n_nodes, 0);
    TRY(device_open(pool, "cpu", &(DeviceOptions){ 0 }, &device));
    stage_begin();
    return bench_plans(pool, recipe, device, n, shares);
}

int main(int argc, char **argv)
{
    Pool *pool = pool_new(NULL, "bench");
    results_begin(&results, &argc, argv, "bench_import FILE.pt2 0.7",
                  "s: by the clock, cpu_s: of all threads; files of tests/import/large_file.py");
    Err err = argc < 2 ? fail(E_USAGE, "bench_import FILE.pt2 [SHARE ...] [--json FILE]")
                       : bench(pool, argv[1], argc - 2, argv + 2);
    if (err)
        fprintf(stderr, "bench_import: %s\n", err_text());
    else
        results_end(&results);
    pool_free(pool);
    return err_exit_code(err);
}
