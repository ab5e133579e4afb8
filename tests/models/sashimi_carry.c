/* sashimi_carry.c -- SaShiMi with carried state: outputs of consecutive chunks are those of the
 * recurrence over the whole file, a row that starts again forgets; data comes in the order of the
 * files; a resumed run gives the same bits. */
#include "folder.h"
#include "sashimi_run.h"
#include "test.h"

#include "base/file.h"
#include "base/random.h"
#include "data/wav.h"
#include "models/sashimi.h"
#include "train/feeds.h"
#include "fit/fit.h"
#include "train/trainer.h"

#include <stdlib.h>
#include <unistd.h>

enum { MAX_SETS = 12, CHUNKS = 4 };

static Run run_new(const char *const *sets)
{
    const char *all[MAX_SETS] = { "model.state_carry=true", "validate.every=0" };
    int         n = 2;
    for (; *sets; sets++)
        all[n++] = *sets;
    return run_of(all, n);
}

static int32_t token_at(int64_t row, int64_t t, int64_t levels)
{
    return (int32_t)random_below_at((RandomKey){ .seed = (uint64_t)row }, (uint64_t)t,
                                    (uint32_t)levels);
}

/* Row 1 starts again with chunk 2, the others continue. */
static float carried(int64_t row, int chunk) { return chunk > 0 && !(row == 1 && chunk == 2); }

static void as_the_recurrence(void)
{
    static const char *const sizes[][MAX_SETS - 2] = {
        { "model.length=128", "batch=3", "model.width=8" },
        { "model.length=48", "batch=2", "model.width=5", "model.expand=3", "model.ff=1",
          "model.layers=1" },
        { "model.length=45", "batch=2", "model.pools=0", "model.state=6", "model.width=4" },
        { "model.length=16", "batch=2", "model.components=1", "model.width=3", "model.state=2" },
        /* one coarse step */
        { "model.length=64", "batch=1", "model.pools=3", "model.layers=1", "model.head=categorical",
          "model.bits=3" },
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        Run            r = run_new(sizes[i]);
        const Sashimi *m = r.recipe->config;
        Sampler        s = { .pool = r.pool, .own = &r, .weight = run_weight };
        SashimiNet    *net;
        int64_t        batch = r.recipe->batch, outputs = sashimi_outputs(m);
        int32_t       *tokens = NEWN(r.pool, int32_t, batch * m->length);
        float         *carry = NEWN(r.pool, float, batch), *out = NEWN(r.pool, float, outputs);
        SashimiState **states = NEWN(r.pool, SashimiState *, batch);
        double         worst = 0, alone = 0;
        CHECK_OK(sashimi_net_new(r.pool, m, &s, &net));
        CHECK_OK(session_feed(r.session, "tokens", tokens));
        CHECK_OK(session_feed(r.session, "target", tokens));
        CHECK_OK(session_feed(r.session, "carry", carry));
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            for (int64_t b = 0; b < batch; b++) {
                carry[b] = carried(b, chunk);
                for (int64_t t = 0; t < m->length; t++)
                    tokens[b * m->length + t] = token_at(b, chunk * m->length + t,
                                                         sashimi_levels(m));
            }
            CHECK_OK(session_run(r.session, PHASE_MICRO));
            const float *whole = session_output(r.session, "output");
            for (int64_t b = 0; b < batch; b++) {
                SashimiState *fresh = sashimi_state_new(r.pool, net);
                if (carry[b] == 0)
                    states[b] = sashimi_state_new(r.pool, net);
                for (int64_t t = 0; t < m->length; t++) {
                    const float *got = whole + (b * m->length + t) * outputs;
                    double       apart = 0, size = 0, without = 0;
                    sashimi_step(net, fresh, tokens[b * m->length + t], out);
                    for (int64_t e = 0; e < outputs; e++)
                        without += pow((double)out[e] - (double)got[e], 2);
                    sashimi_step(net, states[b], tokens[b * m->length + t], out);
                    for (int64_t e = 0; e < outputs; e++) {
                        apart += pow((double)out[e] - (double)got[e], 2);
                        size += pow((double)out[e], 2);
                    }
                    worst = fmax(worst, sqrt(apart / size));
                    alone = fmax(alone, sqrt(without / size));
                }
            }
        }
        printf("%s, %s: off by %.3g over %d chunks (each alone: %.3g)\n", sizes[i][0], sizes[i][1],
               worst, CHUNKS, alone);
        CHECK(worst < 3e-4);
        CHECK(alone > 100 * worst); /* the carried state matters */
        pool_free(r.pool);
    }
}

/* ---- data ---- */

/* Three files of 3, 1 and 4 chunks of 64 frames and a rest. */
static void write_audio(void)
{
    static const int chunks[] = { 3, 1, 4 };
    float            wave[5 * 64];
    CHECK_OK(folder_make("carry_audio"));
    for (int k = 0; k < 3; k++) {
        char path[64];
        for (int i = 0; i < 5 * 64; i++)
            wave[i] = (float)((0.2 + 0.1 * k) * sin(0.07 * (k + 1) * i) * (i + 50) / 300);
        snprintf(path, sizeof path, "carry_audio/%d.wav", k);
        CHECK_OK(wav_write(path, wave, chunks[k] * 64 + 10, 1, 8000));
    }
}

#define AUDIO                                                                                      \
    "model.length=64", "model.width=8", "model.layers=1", "data.kind=audio", "data.path=carry_audio"

/* Rows read the chunks in order; carry is 0 at the first of a file; tokens are contiguous. */
static void files_in_order(void)
{
    static const int64_t first_of[] = { 0, 0, 0, 3, 4, 4, 4, 4 };
    write_audio();
    Run     r = run_new((const char *const[]){ AUDIO, "batch=2", NULL });
    Feeds   feeds;
    int32_t last[2] = { 0 };
    CHECK_OK(feeds_new(r.pool, r.session, PHASE_MICRO, &feeds));
    CHECK_OK(feeds_open(r.pool, &feeds, r.recipe));
    CHECK_OK(feeds_prefetch(r.pool, &feeds));
    CHECK_INT(feeds.source->n_samples, 8);
    for (int64_t t = 0; t < 20; t++) {
        CHECK_OK(feeds_fill(&feeds, t, 2 * t));
        const int32_t *tokens = feeds_find(&feeds, "tokens")->bytes,
                      *target = feeds_find(&feeds, "target")->bytes;
        const float *carry = feeds_find(&feeds, "carry")->bytes;
        for (int row = 0; row < 2; row++) {
            int64_t id = (4 * row + t) % 8;
            bool    goes_on = t > 0 && first_of[id] != id;
            CHECK_INT(carry[row], goes_on);
            CHECK_INT(tokens[64 * row], goes_on ? last[row] : 128);
            for (int i = 1; i < 64; i++)
                CHECK(tokens[64 * row + i] == target[64 * row + i - 1]);
            last[row] = target[64 * row + 63];
        }
    }
    pool_free(r.pool);
}

/* ---- runs ---- */

/* A stopped and resumed run, with a validation that must not change the states; and with less
 * memory. */
static void goes_on(void)
{
    Pool   *pool = pool_new(NULL, "on");
    Run     r = run_new((const char *const[]){ AUDIO, "batch=2", "accumulate=2", "data.holdout=0.4",
                                               "save.every=0", NULL });
    Device *device;
    TrainResult result;
    char       *a, *b, *c;
    size_t      n, m, k;
    FitResult   tight;
    r.recipe->validate = (EveryConfig){ .every = 2, .batches = 2 };
    CHECK_OK(device_cpu(pool, &(DeviceOptions){ .threads = 2, .backend = "builtin" }, &device));
    for (int i = 0; i < 3; i++)
        folder_clear(pool, pool_print(pool, "carry_%d", i));
    r.recipe->steps = 6;
    CHECK_OK(train_run(pool, r.recipe, device, &(TrainOptions){ .out = "carry_0", .quiet = true },
                       &result));
    CHECK_INT(result.measured_bytes, result.planned_bytes);
    r.recipe->steps = 3;
    CHECK_OK(train_run(pool, r.recipe, device, &(TrainOptions){ .out = "carry_1", .quiet = true },
                       &result));
    r.recipe->steps = 6;
    r.recipe->validate.every = 0;
    unlink("carry_1/plan.json"); /* it includes phase `validate` */
    CHECK_OK(train_run(pool, r.recipe, device,
                       &(TrainOptions){ .out = "carry_1", .resume = true, .quiet = true },
                       &result));
    CHECK_INT(fit_run(pool, r.recipe, device,
                      &(FitOptions){ .budget_bytes = 1, .effort = 300, .allow = ALLOW_DEFAULT },
                      &tight),
              E_BUDGET);
    CHECK_INT(tight.recipe->batch, 2); /* never split */
    CHECK_INT(fit_run(pool, r.recipe, device,
                      &(FitOptions){ .budget_bytes = 1, .effort = 300, .allow = ALLOW_NONE },
                      &tight),
              E_BUDGET);
    CHECK_INT(recipe_split(recipe_copy(pool, r.recipe), 2), E_USAGE);
    CHECK(strstr(err_text(), "state_carry") != NULL);
    CHECK_OK(train_run(pool, r.recipe, device,
                       &(TrainOptions){ .out = "carry_2",
                                        .budget_bytes = tight.minimum_bytes,
                                        .allow = ALLOW_NONE,
                                        .quiet = true },
                       &result));
    CHECK(result.recomputed > 0);
    CHECK_OK(file_read(pool, "carry_0/step-000006.safetensors", &a, &n));
    CHECK_OK(file_read(pool, "carry_1/step-000006.safetensors", &b, &m));
    CHECK_OK(file_read(pool, "carry_2/step-000006.safetensors", &c, &k));
    CHECK(n == m && !memcmp(a, b, n));
    CHECK(n == k && !memcmp(a, c, n));
    CHECK(strstr(a + 8, "kernel.state") != NULL); /* the states are part of a checkpoint */
    pool_free(pool);
    pool_free(r.pool);
}

int main(void)
{
    RUN(as_the_recurrence);
    RUN(files_in_order);
    RUN(goes_on);
    return test_end();
}
