/* time.c -- predicted against measured step time of the small recipes, at every rung of the budget
 * ladder.
 *
 *   bench_time [--rungs N] [--seconds S] [--json FILE] [RECIPE...]
 *                                                      ten rungs, about 10 s of steps a recipe
 *
 * Ten plans with exact levers only, from everything kept (the first) to the smallest arena (the
 * last). They take steps in turns with two sessions that measure what `plimsoll probe --model`
 * measures, which is all that predictions are made from: one session keeps everything and has its
 * nodes timed, the other has the smallest arena. So other work on the machine slows prediction and
 * measurement alike. Best steps count; the median shows how busy the machine was.
 */
#include "results_file.h"

#include "base/clock.h"
#include "base/shipped.h"
#include "base/text.h"
#include "profile/probe.h"
#include "train/measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RUNGS = 32 };

typedef struct Ladder {
    const Recipe *recipe;
    const Device *device;
    Stopwatch    *kept, *tight; /* as in plimsoll probe */
    Stopwatch    *rungs[MAX_RUNGS];
    float         ms[MAX_RUNGS][MEASURE_MAX];
    int           n_rungs, n_rounds;
} Ladder;

static int         n_rungs = 10, outside;
static double      seconds = 10;
static ResultsFile results;

static Err ladder_build(Pool *pool, Ladder *l)
{
    EngineOptions how = { .budget_bytes = STOPWATCH_MIN, .effort = MEASURE_EFFORT };
    TRY(stopwatch_new(pool, l->recipe, l->device, NULL, &l->kept));
    TRY(stopwatch_new(pool, l->recipe, l->device, &how, &l->tight));
    int64_t max_bytes = stopwatch_engine(l->kept)->arena_bytes;
    int64_t min_bytes = stopwatch_engine(l->tight)->arena_bytes;
    for (int i = 0; i < n_rungs; i++) {
        how.budget_bytes = i ? max_bytes - (max_bytes - min_bytes) * i / (n_rungs - 1) : 0;
        TRY(stopwatch_new(pool, l->recipe, l->device, &how, &l->rungs[l->n_rungs++]));
    }
    return OK;
}

static Err ladder_climb(Ladder *l)
{
    double ms, begin = 0;
    for (int round = -1; round < MEASURE_MAX; round++) {
        if (round == 0) /* round -1 touched pages and made kernels */
            begin = clock_now();
        if (round >= MEASURE_MIN && clock_now() - begin > seconds)
            break;
        TRY(round < 0 ? stopwatch_step(l->kept, &ms) : stopwatch_sample(l->kept));
        TRY(stopwatch_step(l->tight, &ms));
        for (int i = 0; i < l->n_rungs; i++) {
            TRY(stopwatch_step(l->rungs[i], &ms));
            if (round >= 0)
                l->ms[i][round] = (float)ms;
        }
        l->n_rounds = round + 1;
    }
    return OK;
}

static int by_size(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void results_pair(JsonOut *row, const char *key, double low, double high)
{
    json_out_row(row, key);
    results_figure(row, NULL, low);
    results_figure(row, NULL, high);
    json_out_end(row);
}

/* One row: ratios of predicted to measured time, and what the last rung recomputes. */
static void ladder_results(const Ladder *l, double min_ratio, double max_ratio)
{
    const Engine *first = stopwatch_engine(l->rungs[0]),
                 *last = stopwatch_engine(l->rungs[l->n_rungs - 1]);
    JsonOut *row = results_row(&results, l->recipe->name);
    results_pair(row, "ratio", min_ratio, max_ratio);
    json_out_int(row, "recomputed", last->recomputed);
    results_pair(row, "arena_mib", (double)first->arena_bytes / (1 << 20),
                 (double)last->arena_bytes / (1 << 20));
    json_out_end(row);
}

static void ladder_print(const Ladder *l, const Profile *profile, const Measured *m)
{
    double min_ratio = INFINITY, max_ratio = 0;
    for (int i = 0; i < l->n_rungs; i++) {
        const Engine *engine = stopwatch_engine(l->rungs[i]);
        float         ms[MEASURE_MAX];
        memcpy(ms, l->ms[i], sizeof ms);
        qsort(ms, (size_t)l->n_rounds, sizeof *ms, by_size);
        double predicted = stopwatch_predict_ms(l->rungs[i], profile);
        double ratio = predicted / (double)ms[0];
        outside += ratio < 0.85 || ratio > 1.15;
        min_ratio = fmin(min_ratio, ratio);
        max_ratio = fmax(max_ratio, ratio);
        printf("%-18s %10s %5d recomputed  predicted %8.2f ms  measured %8.2f ms  ratio %.3f%s  "
               "(median %.2f)\n",
               i ? "" : l->recipe->name, bytes_text(engine->arena_bytes), engine->recomputed,
               predicted, (double)ms[0], ratio, fabs(ratio - 1) > 0.15 ? " !" : "",
               (double)ms[l->n_rounds / 2]);
    }
    printf("%-18s operators alone sum to %.2f ms of a step of %.2f ms; %d rounds\n", "",
           m->nodes_ms, m->step_ms, l->n_rounds);
    ladder_results(l, min_ratio, max_ratio);
    fflush(stdout);
}

static Err bench(Pool *parent, const char *name, const Device *device)
{
    Pool        *pool = pool_new(parent, "recipe");
    Recipe      *recipe;
    Measured     m;
    Profile     *profile = NEW(pool, Profile);
    ProbeOptions brief = { .bandwidth_bytes = 32 << 20, .largest_flops = 1e8, .seconds = 0.005 };
    TRY(recipe_read(pool, name, NULL, 0, &recipe));
    TRY(probe_rates(pool, device, &brief, profile));
    Ladder ladder = { .recipe = recipe, .device = device };
    TRY(ladder_build(pool, &ladder));
    TRY(ladder_climb(&ladder));
    stopwatch_file(pool, ladder.kept, profile, &m);
    profile_ready(pool, profile);
    stopwatch_file_tight(pool, ladder.kept, ladder.tight, profile);
    ladder_print(&ladder, profile, &m);
    pool_free(pool);
    return OK;
}

int main(int argc, char **argv)
{
    results_begin(&results, &argc, argv, "bench_time",
                  "ratio: predicted / measured step time, lowest and highest of the rungs; "
                  "recomputed: nodes at the last rung; arena_mib: first and last rung.");
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
    Err err = n_rungs < 1 || n_rungs > MAX_RUNGS ? fail(E_USAGE, "--rungs takes 1 to %d", MAX_RUNGS)
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
    results_end(&results);
    pool_free(pool);
    return err_exit_code(err);
}
