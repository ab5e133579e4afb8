/* time.c -- predicted against measured step time of the small recipes, at every rung of the budget
 * ladder.
 *
 *   bench_time [--rungs N] [--seconds S] [RECIPE...]        ten rungs, about 10 s of steps a recipe
 *
 * Ten plans, from everything kept (the first) down to the least memory that can be had (the last),
 * exact levers only. They take steps by turns with one more session that keeps everything and whose
 * nodes are timed: that is the probe, and all that the predictions know of. So a busy machine
 * burdens prediction and measurement alike. Best steps count; how much longer the median step of
 * the first rung took says how busy it was.
 */
#include "base/clock.h"
#include "base/shipped.h"
#include "base/text.h"
#include "device/probe.h"
#include "plan/node_time.h"
#include "train/measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNGS_MOST = 32, EFFORT = 1000 };         /* any plan will do: it is timed, not judged */

typedef struct Ladder {
    const Recipe *recipe;
    const Device *device;
    Stopwatch    *probe, *rungs[RUNGS_MOST];
    float         ms[RUNGS_MOST][MEASURE_MOST];
    int           n_rungs, n_rounds;
} Ladder;

static int n_rungs = 10, outside;
static double seconds = 10;

/* The least arena of the recipe with exact levers. */
static Err least_bytes(Pool *pool, const Ladder *l, int64_t *bytes)
{
    TrainingGraph graph;
    Engine       *engine;
    TRY(recipe_graph(pool, l->recipe, false, &graph));
    Err err = engine_new(pool, graph.graph, l->device,
                         &(EngineOptions){ .budget_bytes = 1, .effort = EFFORT }, &engine);
    if (err && err != E_BUDGET)
        return err;
    *bytes = engine->arena_bytes;
    return OK;
}

static Err ladder_build(Pool *pool, Ladder *l)
{
    int64_t least, most;
    TRY(least_bytes(pool, l, &least));
    TRY(stopwatch_new(pool, l->recipe, l->device, NULL, &l->probe));
    most = stopwatch_engine(l->probe)->arena_bytes;
    for (int i = 0; i < n_rungs; i++) {
        int64_t budget = n_rungs > 1 ? most - (most - least) * i / (n_rungs - 1) : most;
        TRY(stopwatch_new(pool, l->recipe, l->device,
                          &(EngineOptions){ .budget_bytes = i ? budget : 0, .effort = EFFORT },
                          &l->rungs[l->n_rungs++]));
    }
    return OK;
}

static Err ladder_climb(Ladder *l)
{
    double ms, begin = 0;
    for (int round = -1; round < MEASURE_MOST; round++) {
        if (round == 0)                              /* the first touched pages, made kernels */
            begin = clock_now();
        if (round >= MEASURE_LEAST && clock_now() - begin > seconds)
            break;
        TRY(round < 0 ? stopwatch_step(l->probe, &ms) : stopwatch_sample(l->probe));
        for (int i = 0; i < l->n_rungs; i++) {
            TRY(stopwatch_step(l->rungs[i], &ms));
            if (round >= 0)
                l->ms[i][round] = (float)ms;
        }
        l->n_rounds = round + 1;
    }
    return OK;
}

/* A step of this plan by the times of a profile that was taken after it was made. */
static double predicted_ms(const Engine *engine, const Device *device, int64_t accumulate)
{
    uint64_t  identity = graph_identity(engine->graph);
    double    ns = 0;
    TimeBasis basis;
    for (int i = 0; i < engine->n_programs; i++) {
        const Program *program = &engine->programs[i];
        if (!program_in_step(program))
            continue;
        double times = program->parts[PART_MICRO] ? (double)accumulate : 1;
        for (int32_t s = 0; s < program->plan->n_steps; s++) {
            if (program->plan->steps[s].kind != STEP_RUN)
                continue;
            int32_t node = program->node_of[program->plan->steps[s].id];
            ns += times * node_time(device, &engine->graph->nodes[node], &engine->choices[node],
                                    identity, &basis);
        }
    }
    return ns * 1e-6;
}

static int by_size(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void ladder_print(const Ladder *l, const Device *timed, const Measured *m)
{
    for (int i = 0; i < l->n_rungs; i++) {
        const Engine *engine = stopwatch_engine(l->rungs[i]);
        float         ms[MEASURE_MOST];
        memcpy(ms, l->ms[i], sizeof ms);
        qsort(ms, (size_t)l->n_rounds, sizeof *ms, by_size);
        double predicted = predicted_ms(engine, timed, l->recipe->accumulate);
        double ratio = predicted / (double)ms[0];
        outside += ratio < 0.85 || ratio > 1.15;
        printf("%-18s %10s %5d recomputed  predicted %8.2f ms  measured %8.2f ms  ratio %.3f%s  "
               "(median %.2f)\n",
               i ? "" : l->recipe->name, bytes_text(engine->arena_bytes), engine->recomputed,
               predicted, (double)ms[0], ratio, fabs(ratio - 1) > 0.15 ? " !" : "",
               (double)ms[l->n_rounds / 2]);
    }
    printf("%-18s operators alone sum to %.2f ms of a step of %.2f ms; %d rounds\n", "",
           m->nodes_ms, m->step_ms, l->n_rounds);
    fflush(stdout);
}

static Err bench(Pool *parent, const char *name, const Device *device)
{
    Pool    *pool = pool_new(parent, "recipe");
    Recipe  *recipe;
    Measured m;
    Profile *profile = NEW(pool, Profile);
    Device   timed = *device;
    ProbeOptions brief = { .bandwidth_bytes = 32 << 20, .largest_flops = 1e8, .seconds = 0.005 };
    TRY(recipe_read(pool, name, NULL, 0, &recipe));
    TRY(probe_rates(pool, device, &brief, profile));
    Ladder ladder = { .recipe = recipe, .device = device };
    TRY(ladder_build(pool, &ladder));
    TRY(ladder_climb(&ladder));
    stopwatch_file(pool, ladder.probe, profile, &m);
    profile_ready(pool, profile);
    timed.profile = profile;
    ladder_print(&ladder, &timed, &m);
    pool_free(pool);
    return OK;
}

int main(int argc, char **argv)
{
    Pool   *pool = pool_new(NULL, "bench");
    Device *device;
    char  **names = NEWN(pool, char *, argc);
    int     n = 0;
    bool    all = true;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--rungs") && i + 1 < argc)
            n_rungs = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--seconds") && i + 1 < argc)
            seconds = atof(argv[++i]);
        else
            names[n++] = argv[i], all = false;
    }
    Err err = n_rungs < 1 || n_rungs > RUNGS_MOST
                  ? fail(E_USAGE, "--rungs takes 1 to %d", RUNGS_MOST)
                  : device_cpu(pool, NULL, &device);
    if (!err && all)
        err = shipped_list(pool, "recipes", ".yaml", &names, &n);
    for (int i = 0; i < n && !err; i++)
        if (!all || strstr(names[i], "-small"))
            err = bench(pool, names[i], device);
    if (err)
        fprintf(stderr, "bench_time: %s\n", err_text());
    else
        printf("%d rungs differ by more than 15 %%\n", outside);
    pool_free(pool);
    return err_exit_code(err);
}
