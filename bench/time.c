/* time.c -- predicted against measured step time of the small recipes: everything kept, and two
 * budgets.
 *
 *   bench_time [RECIPE...]
 *
 * The operators are timed in steps that keep everything; plans for the budgets are made with those
 * times. Then the three plans take steps by turns, so that a busy machine burdens all alike. Best
 * steps count.
 */
#include "base/shipped.h"
#include "base/text.h"
#include "device/probe.h"
#include "train/measure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PLANS = 3, ROUNDS = 15, EFFORT = 1000 };      /* any plan will do: it is timed, not judged */

static Err plans_print(Pool *pool, const Recipe *recipe, const Device *device, const Measured *m)
{
    static const double shares[PLANS] = { 1, 0.7, 0.5 }; /* of what is above parameters and state */
    Stopwatch *plans[PLANS] = { NULL };
    double     best[PLANS], ms;
    TRY(stopwatch_new(pool, recipe, device, NULL, &plans[0]));
    const Engine *full = stopwatch_engine(plans[0]);
    for (int i = 1; i < PLANS; i++) {
        double        above = (double)(full->arena_bytes - full->persistent_bytes);
        EngineOptions plan = { .budget_bytes =
                                   full->persistent_bytes + (int64_t)(shares[i] * above),
                               .effort = EFFORT };
        Err           err = stopwatch_new(pool, recipe, device, &plan, &plans[i]);
        if (err == E_BUDGET)
            plans[i] = NULL;
        else
            TRY(err);
    }
    for (int round = -1; round < ROUNDS; round++)
        for (int i = 0; i < PLANS; i++) {
            if (plans[i])
                TRY(stopwatch_step(plans[i], &ms));
            best[i] = round < 0 ? INFINITY : fmin(best[i], ms);
        }
    for (int i = 0; i < PLANS; i++) {
        const Engine *engine = plans[i] ? stopwatch_engine(plans[i]) : NULL;
        if (!engine) {
            printf("%-18s %3.0f %%: no plan\n", recipe->name, 100 * shares[i]);
            continue;
        }
        double predicted = engine_step_ns(engine, recipe->accumulate) * 1e-6;
        printf("%-18s %10s %5d recomputed  predicted %8.2f ms  measured %8.2f ms  ratio %.3f  "
               "(%.0f %% measured)\n",
               recipe->name, bytes_text(engine->arena_bytes), engine->recomputed, predicted,
               best[i], predicted / best[i], 100 * engine_time_share(engine, TIME_MEASURED));
    }
    printf("%-18s operators alone sum to %.2f ms of a step of %.2f ms\n", "", m->nodes_ms,
           m->step_ms);
    return OK;
}

static Err bench(Pool *parent, const char *name, Device *device)
{
    Pool    *pool = pool_new(parent, "recipe");
    Recipe  *recipe;
    Measured m;
    Profile *profile = NEW(pool, Profile);
    Device   timed = *device;
    TRY(recipe_read(pool, name, NULL, 0, &recipe));
    TRY(probe_rates(
        pool, device,
        &(ProbeOptions){ .bandwidth_bytes = 32 << 20, .largest_flops = 1e8, .seconds = 0.005 },
        profile));
    TRY(measure_recipe(pool, recipe, device, &(MeasureOptions){ .seconds = 3 }, profile, &m));
    profile_ready(pool, profile);
    timed.profile = profile;
    TRY(plans_print(pool, recipe, &timed, &m));
    fflush(stdout);
    pool_free(pool);
    return OK;
}

int main(int argc, char **argv)
{
    Pool   *pool = pool_new(NULL, "bench");
    Device *device;
    char  **names = argv + 1;
    int     n = argc - 1;
    Err     err = device_cpu(pool, NULL, &device);
    if (!err && !n)
        err = shipped_list(pool, "recipes", ".yaml", &names, &n);
    for (int i = 0; i < n && !err; i++)
        if (argc > 1 || strstr(names[i], "-small"))
            err = bench(pool, names[i], device);
    if (err)
        fprintf(stderr, "bench_time: %s\n", err_text());
    pool_free(pool);
    return err_exit_code(err);
}
