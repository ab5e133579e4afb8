/* ladder.c -- every small recipe, from everything kept down to the minimum, in six rungs.
 *
 * With exact levers only, three steps give the bits of everything kept, within the budget; one rung
 * below the minimum is refused, and names the same minimum. With numeric levers too, the
 * effective batch and its loss stay, so the first loss differs by rounding alone (2e-6) and the
 * next two by what the optimizer makes of it (1e-3, the contract's figure). Every rung goes through
 * a plan file: what runs is what was read back. */
#include "test.h"

#include "ops/optimizer/optim.h"
#include "train/feeds.h"
#include "fit/fit.h"

#include <stdlib.h>
#include <unistd.h>

enum { RUNGS = 6, STEPS = 3, EFFORT = 1000 };

typedef struct Small {
    const char *recipe;
    const char *sets[6]; /* smaller still: some recipes take seconds a step */
} Small;

static const Small smalls[] = {
    { "unet-small", { "batch=4" } },
    { "stdiff-small",
      { "model.image=[16, 16]", "model.channels=[16, 16, 32]", "model.groups=4",
        "model.head_width=16", "model.sde_dt=0.5", "accumulate=1" } },
    { "stablesr-small", { "model.image=32", "model.latent=8" } },
    { "lag-small", { "batch=4" } },
    { "sashimi-small", { "model.length=256" } },
    { "dit3d-small", { "batch=4" } },
    { "dit3d-wrap-small", { "batch=2" } },
};
enum { N_SMALLS = sizeof smalls / sizeof *smalls };

typedef struct Outcome {
    float    loss[STEPS];
    uint64_t weights; /* of parameters, moments, averages and statistics, as bits */
    int64_t  measured_bytes;
} Outcome;

static uint64_t hash_bytes(uint64_t hash, const void *data, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        hash = (hash ^ ((const unsigned char *)data)[i]) * 1099511628211u;
    return hash;
}

static uint64_t hash_state(Session *session, const Graph *graph)
{
    uint64_t hash = 14695981039346656037u;
    for (int32_t i = 0; i < graph->n_params; i++) {
        const Param  *p = &graph->params[i];
        const int32_t ids[] = { p->value, p->m, p->v, p->ema };
        for (int j = 0; j < 4; j++)
            if (ids[j] >= 0)
                hash = hash_bytes(hash, session_bytes(session, ids[j]),
                                  value_at(graph, ids[j])->bytes);
    }
    /* batch-norm statistics, whatever their order */
    for (int32_t i = 0; i < graph->n_constants; i++) {
        const Constant *c = &graph->constants[i];
        const Value    *v = value_at(graph, c->value);
        if (c->saved && strstr(v->name, "running"))
            hash += hash_bytes(hash_bytes(1, v->name, (int64_t)strlen(v->name)),
                               session_bytes(session, c->value), v->bytes);
    }
    return hash;
}

static void train(Pool *pool, const FitResult *fit, Outcome *out)
{
    const Recipe     *recipe = fit->recipe;
    const TrainGraph *train = &fit->graph.train;
    Session          *session;
    Feeds             feeds;
    CHECK_OK(session_new(pool, fit->engine, &session));
    CHECK_OK(session_init(session, 1));
    CHECK_OK(feeds_new(pool, session, PHASE_MICRO, &feeds));
    CHECK_OK(feeds_open(pool, &feeds, recipe));
    int32_t *counters = session_bytes(session, train->counters.id);
    float   *rates = session_bytes(session, train->rates.id);
    for (int step = 0; step < STEPS; step++) {
        counters[COUNTER_STEP] = step;
        rates[RATE_EMA_DECAY] = 0.9f;
        for (int i = 0; i < fit->graph.n_groups; i++)
            rates[RATE_GROUPS + i] = 1e-3f;
        for (int64_t micro = 0; micro < recipe->accumulate; micro++) {
            counters[COUNTER_MICRO] = (int32_t)micro;
            CHECK_OK(feeds_fill(&feeds, step * recipe->accumulate + micro,
                                (step * recipe->accumulate + micro) * recipe->batch));
            CHECK_OK(session_run(session, PHASE_MICRO));
        }
        out->loss[step] = *(float *)session_bytes(session, train->loss.id);
        CHECK_OK(session_run(session, PHASE_UPDATE));
    }
    out->weights = hash_state(session, fit->engine->graph);
    out->measured_bytes = 0;
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        int64_t measured = session_measured_bytes(session, (Phase)phase);
        if (measured) /* phases between steps do not run here */
            CHECK_INT(measured, session_planned_bytes(session, (Phase)phase));
        out->measured_bytes = measured > out->measured_bytes ? measured : out->measured_bytes;
    }
}

static void rung(Pool *parent, const Recipe *recipe, const Device *device, const FitOptions *how,
                 const Outcome *want, bool exact)
{
    Pool       *pool = pool_new(parent, "rung");
    const char *path = pool_print(pool, "ladder_%s.plan.json", recipe->name);
    FitResult   fit, back;
    Outcome     got;
    CHECK_OK(fit_run(pool, recipe, device, how, &fit));
    if (fit.fits) {
        CHECK(fit.engine->arena_bytes <= how->budget_bytes);
        CHECK_INT(fit.recipe->batch * fit.recipe->accumulate, recipe->batch * recipe->accumulate);
        CHECK_OK(fit_write(path, recipe, &fit));
        CHECK_OK(fit_read(pool, path, recipe, device, false, &back));
        CHECK_INT(back.engine->arena_bytes, fit.engine->arena_bytes);
        CHECK_NEAR(back.engine->cost_ns, fit.engine->cost_ns, 0.5);
        train(pool, &back, &got);
        CHECK(got.measured_bytes <= how->budget_bytes);
        for (int step = 0; step < STEPS; step++)
            if (exact)
                CHECK(got.loss[step] == want->loss[step]);
            else
                CHECK_NEAR((double)got.loss[step], (double)want->loss[step],
                           (step ? 1e-3 : 2e-6) * (double)want->loss[step]);
        if (exact)
            CHECK(got.weights == want->weights);
        const Levers *levers = &fit.recipe->levers;
        printf("  %11lld: %11lld, %lld x %lld%s%s%s%s, %3d recomputed, %+.1f %%\n",
               (long long)how->budget_bytes, (long long)fit.engine->arena_bytes,
               (long long)fit.recipe->batch, (long long)fit.recipe->accumulate,
               levers->release ? ", released" : "",
               levers->sample_chunks > 1 ? ", sample chunks" : "",
               levers->loss_chunks > 1 ? ", loss chunks" : "",
               levers->stored_attention ? ", attention stored" : "", fit.engine->recomputed,
               100 * (fit.step_ns / fit.default_ns - 1));
    }
    unlink(path);
    pool_free(pool);
}

static void ladder(const Small *small, bool exact)
{
    Pool      *pool = pool_new(NULL, "ladder");
    Recipe    *recipe;
    Device    *device;
    FitOptions how = { .allow = exact ? ALLOW_NONE : ALLOW_DEFAULT, .effort = EFFORT };
    FitResult  keep, minimum;
    Outcome    want;
    int        n_sets = 0;
    while (n_sets < 6 && small->sets[n_sets])
        n_sets++;
    CHECK_OK(recipe_read(pool, pool_print(pool, SOURCE_DIR "/recipes/%s.yaml", small->recipe),
                         small->sets, n_sets, &recipe));
    CHECK_OK(device_cpu(pool, &(DeviceOptions){ .threads = 2 }, &device));
    CHECK_OK(fit_run(pool, recipe, device, &how, &keep));
    train(pool, &keep, &want);

    how.budget_bytes = 1;
    CHECK_INT(fit_run(pool, recipe, device, &how, &minimum), E_BUDGET);
    CHECK(minimum.bound_bytes <= minimum.minimum_bytes &&
          minimum.minimum_bytes < keep.default_bytes);
    printf("%s, %s levers: everything kept %lld, minimum %lld, bound %lld, state %lld\n",
           small->recipe, exact ? "exact" : "all", (long long)keep.default_bytes,
           (long long)minimum.minimum_bytes, (long long)minimum.bound_bytes,
           (long long)keep.engine->persistent_bytes);
    int rungs = exact ? RUNGS : RUNGS / 2;
    for (int i = 0; i < rungs; i++) {
        how.budget_bytes = minimum.minimum_bytes + (keep.default_bytes - minimum.minimum_bytes) *
                                                       (rungs - 1 - i) / (rungs - 1);
        rung(pool, recipe, device, &how, &want, exact);
    }
    int64_t named = minimum.minimum_bytes;
    how.budget_bytes = named - (keep.default_bytes - named) / (rungs - 1);
    CHECK_INT(fit_run(pool, recipe, device, &how, &minimum), E_BUDGET);
    CHECK_INT(minimum.minimum_bytes, named);
    pool_free(pool);
}

int main(int argc, char **argv)
{
    for (int i = 0; i < N_SMALLS; i++) {
        if (argc > 1 && strcmp(argv[1], smalls[i].recipe))
            continue;
        test_name = smalls[i].recipe;
        ladder(&smalls[i], true);
        ladder(&smalls[i], false);
    }
    return test_end();
}
