/* step.c -- time and memory of whole training steps, on the CPU or a GPU.
 *
 *   bench_step [--device NAME] [--budget BYTES] [--effort N] [--steps N] [--threads N] [--top N]
 *              [--nodes FILE] [--part P] [--random] [--one-lane] [--digest] [--hold]
 *              RECIPE [KEY=VALUE ...]
 *
 * Prints one JSON line: ms (the median step: all micro-batches and the update), fastest, cpu_ms (of
 * all threads, the mean), predicted, planned and measured arena, host arena, GPU memory of this
 * process, loss; where values are offloaded also waited, the time in a step that kernels of one
 * lane wait for copies to and from the host. Steps follow each other without a pause, as in
 * training; on a GPU events mark their ends. A budget is met by exact levers alone. Every step gets
 * the same batch, drawn once, so that loading is not measured.
 *
 *   --part P      trains one network of StableSR alone (bench/networks.h)
 *   --random      feeds random numbers, for inputs such as latents that no drawn data has
 *   --top N       adds the N operators that take the longest when they run alone
 *   --nodes FILE  writes every node's time: operator, algorithm, shapes, microseconds
 *   --one-lane    captures CUDA graphs without branches
 *   --digest      adds a digest of all trained parameters
 *   --hold        prints `warm` when the plan is made, before memory is allocated, and waits for a
 *                 line */
#include "networks.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/text.h"
#include "ops/ops.h"
#include "ops/optimizer/optim.h"
#include "train/feeds.h"
#include "fit/fit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct Bench {
    const char   *device, *recipe, *network, *nodes, *sets[64];
    int64_t       budget, effort, steps, threads, top;
    int           n_sets;
    bool          random, one_lane, digest, hold;
    TrainingGraph graph;
    Recipe       *opened;
    Session      *session;
    Feeds         feeds;
    int32_t       counters[COUNTER_WORDS]; /* read once, as training does */
} Bench;

static Err step_run(Bench *b, int64_t step)
{
    TrainGraph *g = &b->graph.train;
    int32_t    *counters = b->counters;
    float       rates[RATE_GROUPS + 2] = { 0 };
    counters[COUNTER_STEP] = (int32_t)step;
    rates[RATE_EMA_DECAY] = 0.9999f;
    for (int i = 0; i < b->graph.n_groups; i++)
        rates[RATE_GROUPS + i] = 1e-5f;
    TRY(session_write(b->session, g->rates.id, rates));
    for (int64_t micro = 0; micro < b->opened->accumulate; micro++) {
        counters[COUNTER_MICRO] = (int32_t)micro;
        TRY(session_write(b->session, g->counters.id, counters));
        TRY(session_run(b->session, PHASE_MICRO));
    }
    return session_run(b->session, PHASE_UPDATE);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct Row { /* all nodes of one operator and algorithm */
    const OpDef *op;
    const char  *algorithm;
    int          n;
    double       ns;
} Row;

static void nodes_write(FILE *file, const Engine *engine, const double *ns)
{
    const Graph *graph = engine->graph;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const Node *node = &graph->nodes[i];
        if (!isfinite(ns[i]))
            continue;
        fprintf(file, "%s;%s;", node->op->name,
                engine->choices[i].name ? engine->choices[i].name : "");
        for (int j = 0; j < node->n_in; j++)
            fprintf(file, "%s ", in_given(node, j) ? shape_text(in_shape(node, j)) : "-");
        fprintf(file, ";%s;%.1f\n", node->out[0] >= 0 ? shape_text(out_shape(node, 0)) : "-",
                ns[i] / 1e3);
    }
}

/* The time of each operator when its nodes run alone, summed over the nodes. */
static Err step_profile(Pool *pool, Bench *b, const Engine *engine)
{
    const Graph *graph = b->graph.graph;
    double *best = NEWN(pool, double, graph->n_nodes), *ns = NEWN(pool, double, graph->n_nodes),
           all = 0;
    Row    *rows = NULL;
    int32_t n = 0, cap = 0;
    for (int32_t i = 0; i < graph->n_nodes; i++)
        best[i] = ns[i] = INFINITY;
    for (int round = 0; round < 3; round++) {
        TRY(session_profile(b->session, PHASE_MICRO, ns));
        TRY(session_profile(b->session, PHASE_UPDATE, ns));
        for (int32_t i = 0; i < graph->n_nodes; i++)
            best[i] = ns[i] < best[i] ? ns[i] : best[i];
    }
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const char *algorithm = engine->choices[i].name ? engine->choices[i].name : "";
        int32_t     at = 0;
        if (!isfinite(best[i]))
            continue;
        while (at < n &&
               (rows[at].op != graph->nodes[i].op || strcmp(rows[at].algorithm, algorithm)))
            at++;
        if (at == n)
            VEC_ADD(pool, rows, n, cap, (Row){ .op = graph->nodes[i].op, .algorithm = algorithm });
        rows[at].n++;
        rows[at].ns += best[i];
        all += best[i];
    }
    if (b->nodes) {
        FILE *file = fopen(b->nodes, "w");
        if (!file)
            return fail(E_IO, "%s cannot be written", b->nodes);
        nodes_write(file, engine, best);
        fclose(file);
    }
    for (int64_t t = 0; t < b->top; t++) {
        int32_t longest = 0;
        for (int32_t i = 1; i < n; i++)
            longest = rows[i].ns > rows[longest].ns ? i : longest;
        if (n == 0 || rows[longest].ns <= 0)
            break;
        printf("    %-26s %-14s %6d nodes %10.3f ms %5.1f %%\n", rows[longest].op->name,
               rows[longest].algorithm, rows[longest].n, rows[longest].ns / 1e6,
               100 * rows[longest].ns / all);
        rows[longest].ns = 0;
    }
    return OK;
}

/* A digest of all trained parameters: equal if the steps gave the same bits. */
static Err step_digest(Pool *pool, const Bench *b, uint64_t *digest)
{
    const Graph *graph = b->graph.graph;
    *digest = HASH_EMPTY;
    for (int32_t i = 0; i < graph->n_params; i++) {
        size_t bytes = (size_t)value_at(graph, graph->params[i].value)->bytes;
        void  *copy;
        if (graph->params[i].frozen)
            continue;
        copy = pool_alloc(pool, bytes, 1);
        TRY(session_read(b->session, graph->params[i].value, copy));
        *digest = hash_bytes(*digest, copy, bytes);
    }
    return OK;
}

/* If the host waited for the GPU after every step, the GPU would then wait for the host, which it
 * does not in training. So the host runs ahead, and events mark the end of each step. */
static Err steps_by_events(Pool *pool, Bench *b, const Device *device, double *ms)
{
    void **ends = NEWN(pool, void *, b->steps + 1);
    for (int64_t i = 0; i <= b->steps; i++)
        TRY(device->api->event_new(device, &ends[i]));
    TRY(device->api->event(device, ends[0]));
    for (int64_t i = 0; i < b->steps; i++) {
        TRY(step_run(b, 3 + i));
        TRY(device->api->event(device, ends[i + 1]));
    }
    TRY(device_wait(device));
    for (int64_t i = 0; i < b->steps; i++) {
        TRY(device->api->event_ns(device, ends[i], ends[i + 1], &ms[i]));
        ms[i] *= 1e-6;
    }
    for (int64_t i = 0; i <= b->steps; i++)
        device->api->event_free(device, ends[i]);
    return OK;
}

static Err steps_by_clock(Bench *b, double *ms)
{
    for (int64_t i = 0; i < b->steps; i++) {
        double start = clock_now();
        TRY(step_run(b, 3 + i));
        ms[i] = (clock_now() - start) * 1e3;
    }
    return OK;
}

static Err bench(Pool *pool, Bench *b)
{
    Device       *device;
    const Engine *engine;
    FitResult     fit;
    float         loss;
    int64_t       used = 0, measured = 0;
    double       *times = NEWN(pool, double, b->steps + 1), cpu_ms;

    TRY(recipe_read(pool, b->recipe, b->sets, b->n_sets, &b->opened));
    TRY(device_open(pool, b->device,
                    &(DeviceOptions){ .threads = (int)b->threads, .tf32 = recipe_tf32(b->opened) },
                    &device));
    if (b->network)
        TRY(network_choose(b->network, b->opened));
    TRY(fit_run(
        pool, b->opened, device,
        &(FitOptions){ .budget_bytes = b->budget, .effort = b->effort, .allow = ALLOW_NONE },
        &fit));
    b->graph = fit.graph;
    engine = fit.engine;
    if (b->hold) {
        puts("warm");
        fflush(stdout);
        getchar();
    }
    TRY(session_new(pool, engine, &b->session));
    if (b->one_lane)
        session_one_lane(b->session);
    TRY(session_init(b->session, 1));
    TRY(feeds_new(pool, b->session, PHASE_MICRO, &b->feeds));
    if (b->network || b->random) {
        network_fill(&b->feeds);
    } else {
        TRY(feeds_open(pool, &b->feeds, b->opened));
        TRY(feeds_fill(&b->feeds, 0, 0));
    }
    TRY(session_read(b->session, b->graph.train.counters.id, b->counters));
    for (int i = 0; i < 3; i++)
        TRY(step_run(b, i));
    TRY(device_wait(device));
    cpu_ms = (double)clock();
    TRY(device->api ? steps_by_events(pool, b, device, times) : steps_by_clock(b, times));
    cpu_ms = ((double)clock() - cpu_ms) * 1e3 / CLOCKS_PER_SEC / (double)b->steps;
    qsort(times, (size_t)b->steps, sizeof *times, by_size);
    TRY(session_read(b->session, b->graph.train.loss.id, &loss));
    if (device->api)
        TRY(device->api->used_bytes(device, &used));
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        if (session_measured_bytes(b->session, (Phase)phase) > measured)
            measured = session_measured_bytes(b->session, (Phase)phase);
    printf("{\"work\": \"%s\", \"precision\": \"%s\", \"device\": \"%s\", \"ms\": %.3f, "
           "\"fastest\": %.3f, \"cpu_ms\": %.3f, \"arena\": %lld, "
           "\"measured\": %lld, \"used\": %lld, \"recomputed\": %d, \"offloaded\": %d, "
           "\"host\": %lld, "
           "\"predicted\": %.3f, "
           "\"source\": \"%s\", \"loss\": %.6g",
           b->opened->name, recipe_precisions[b->opened->precision], device->name,
           times[b->steps / 2], times[0], cpu_ms, (long long)engine->arena_bytes,
           (long long)measured, (long long)used, engine->recomputed, engine->offloaded,
           (long long)engine->host_bytes, engine->cost_ns * 1e-6, engine_time_source(engine),
           (double)loss);
    if (b->digest) {
        uint64_t digest;
        TRY(step_digest(pool, b, &digest));
        printf(", \"digest\": \"%016llx\"", (unsigned long long)digest);
    }
    if (engine->offloaded) {
        double waits[2];
        TRY(session_copy_wait_ns(b->session, PHASE_MICRO, &waits[0]));
        TRY(session_copy_wait_ns(b->session, PHASE_UPDATE, &waits[1]));
        printf(", \"waited\": %.3f", ((double)b->opened->accumulate * waits[0] + waits[1]) * 1e-6);
    }
    printf("}\n");
    return b->top || b->nodes ? step_profile(pool, b, engine) : OK;
}

int main(int argc, char **argv)
{
    Bench b = { .steps = 10 };
    Pool *pool = pool_new(NULL, "bench");
    Err   err = OK;
    for (int i = 1; i < argc && !err; i++) {
        bool more = i + 1 < argc;
        if (!strcmp(argv[i], "--device") && more)
            b.device = argv[++i];
        else if (!strcmp(argv[i], "--budget") && more)
            err = bytes_read(argv[++i], 0, &b.budget);
        else if (!strcmp(argv[i], "--effort") && more)
            b.effort = atoll(argv[++i]);
        else if (!strcmp(argv[i], "--steps") && more)
            b.steps = atoll(argv[++i]);
        else if (!strcmp(argv[i], "--threads") && more)
            b.threads = atoll(argv[++i]);
        else if (!strcmp(argv[i], "--top") && more)
            b.top = atoll(argv[++i]);
        else if (!strcmp(argv[i], "--part") && more)
            b.network = argv[++i];
        else if (!strcmp(argv[i], "--nodes") && more)
            b.nodes = argv[++i];
        else if (!strcmp(argv[i], "--random"))
            b.random = true;
        else if (!strcmp(argv[i], "--one-lane"))
            b.one_lane = true;
        else if (!strcmp(argv[i], "--digest"))
            b.digest = true;
        else if (!strcmp(argv[i], "--hold"))
            b.hold = true;
        else if (!b.recipe)
            b.recipe = argv[i];
        else if (b.n_sets < 64)
            b.sets[b.n_sets++] = argv[i];
    }
    if (!b.recipe || b.steps < 1)
        err = fail(E_USAGE, "bench_step [--device NAME] [--budget B] [--steps N] [--top N] "
                            "[--nodes FILE] [--part P] RECIPE [KEY=VALUE ...]");
    err = err ? err : bench(pool, &b);
    if (err)
        fprintf(stderr, "bench_step: %s\n", err_text());
    pool_free(pool);
    return err_exit_code(err);
}
