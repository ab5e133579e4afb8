/* sashimi_step.c -- compares SaShiMi's recurrent form with the training form over whole sequences,
 * also at odd sizes; and checks what is drawn from its outputs. */
#include "sashimi_run.h"
#include "test.h"

#include "base/random.h"
#include "exec/session.h"
#include "models/sashimi.h"
#include "recipe/recipe.h"

#include <stdlib.h>

/* The tokens are also the targets. */
static Run run_fed(const char *const *sets, int n)
{
    Run            r = run_of(sets, n);
    const Sashimi *m = r.recipe->config;
    int64_t        count = r.recipe->batch * m->length;
    r.tokens = NEWN(r.pool, int32_t, count);
    for (int64_t i = 0; i < count; i++)
        r.tokens[i] = (int32_t)random_below_at((RandomKey){ .seed = 9 }, (uint64_t)i,
                                               (uint32_t)sashimi_levels(m));
    CHECK_OK(session_feed(r.session, "tokens", r.tokens));
    CHECK_OK(session_feed(r.session, "target", r.tokens));
    return r;
}

static void both_forms(void)
{
    static const struct {
        const char *sets[8];
        int         n;
    } sizes[] = {
        { { "model.length=128", "batch=2", "model.width=8" }, 3 },
        { { "model.length=240", "model.width=5", "model.expand=3", "model.ff=1", "model.layers=1" },
          5 },
        { { "model.length=45", "model.pools=0", "model.state=6", "model.width=4" }, 4 },
        { { "model.length=60", "model.pools=1", "model.ff=5", "model.expand=1", "model.width=17" },
          5 },
        { { "model.length=192", "model.pools=3", "model.layers=1", "model.width=4",
            "model.head=categorical", "model.bits=3" },
          6 },
        { { "model.length=16", "model.components=1", "model.bits=16", "model.width=2",
            "model.state=2" },
          5 },
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        Run            r = run_fed(sizes[i].sets, sizes[i].n);
        const Sashimi *m = r.recipe->config;
        Sampler        s = { .pool = r.pool, .own = &r, .weight = run_weight };
        SashimiNet    *net;
        int64_t        outputs = sashimi_outputs(m);
        CHECK_OK(session_run(r.session, PHASE_MICRO));
        const float *whole = session_output(r.session, "output");
        CHECK_OK(sashimi_net_new(r.pool, m, &s, &net));
        float *out = NEWN(r.pool, float, outputs);
        double worst = 0;
        for (int64_t b = 0; b < r.recipe->batch; b++) {
            SashimiState *state = sashimi_state_new(r.pool, net);
            for (int64_t t = 0; t < m->length; t++) {
                const float *want = whole + (b * m->length + t) * outputs;
                double       apart = 0, size = 0;
                sashimi_step(net, state, r.tokens[b * m->length + t], out);
                for (int64_t e = 0; e < outputs; e++) {
                    apart += pow((double)out[e] - (double)want[e], 2);
                    size += pow((double)want[e], 2);
                }
                worst = fmax(worst, sqrt(apart / size));
            }
        }
        printf("%s, %s: off by %.3g\n", sizes[i].sets[0], sizes[i].sets[1], worst);
        CHECK(worst < 3e-4); /* width 2 divides by deviations near zero; most are at 1e-6 */
        pool_free(r.pool);
    }
}

static void picks(void)
{
    Sashimi m = { .bits = 8, .head = HEAD_DML, .components = 2 };
    float   even[2] = { 0.5f, 0.5f }, tilted[2] = { 0.01f, 0.99f };
    float   out[6] = { 1, 0, 0.25f, -0.25f, -3, -3 };      /* logits, means, log scales */
    CHECK_INT(sashimi_pick(&m, 1, out, even, 0.5), 160);   /* (0.25 + 1) 128 */
    CHECK_INT(sashimi_pick(&m, 1, out, tilted, 0.5), 96);  /* noise prefers the second */
    CHECK_INT(sashimi_pick(&m, 0, out, tilted, 0.5), 160); /* temperature 0: no noise */
    out[2] = 0.25f + 0.6f / 128;                           /* 160.6: nearest or floor */
    CHECK_INT(sashimi_pick(&m, 1, out, even, 0.5), 161);
    m.dml_round = ROUND_FLOOR;
    CHECK_INT(sashimi_pick(&m, 1, out, even, 0.5), 160);
    out[2] = 5; /* out of range: last level */
    CHECK_INT(sashimi_pick(&m, 1, out, even, 0.5), 255);
    out[2] = -5;
    CHECK_INT(sashimi_pick(&m, 1, out, even, 0.5), 0);
    out[2] = 0;
    out[4] = -50; /* no narrower than exp(-7) */
    CHECK_INT(sashimi_pick(&m, 1, out, even, 1 - 1e-12),
              (int64_t)floor((1 + exp(-7) * 27.631) * 128));
    m = (Sashimi){ .bits = 2, .head = HEAD_CATEGORICAL };
    float some[4] = { 0, 3, 1, 2 }, any[4] = { 0.5f, 0.5f, 0.5f, 0.5f };
    CHECK_INT(sashimi_pick(&m, 1, some, any, 0.5), 1);
    any[2] = 0.99f;
    CHECK_INT(sashimi_pick(&m, 1, some, any, 0.5), 2);
}

/* Audio: stereo in pairs, mu-law expanded, never outside [-1,1], the same for the same random
 * numbers. */
static void run_uniform(Sampler *s, const char *name, int64_t index, float *to, int64_t n)
{
    (void)s;
    random_uniforms(
        (RandomKey){ .seed = 2, .stream = random_stream(name), .step = (uint32_t)index }, 0, n, to);
}

static int64_t progress_done;
static void    run_progress(Sampler *s, int64_t done, int64_t of)
{
    (void)s;
    CHECK(done > progress_done && done <= of);
    progress_done = done;
}

static void audio_results(void)
{
    static const char *const sets[] = { "model.length=32", "model.width=4", "model.channels=2",
                                        "model.encoding=mu_law", "sampler.length=601" };
    Run                      r = run_fed(sets, 5);
    Sampler                  s = { .pool = r.pool,
                                   .n = 3,
                                   .config = &r.recipe->sampler,
                                   .own = &r,
                                   .weight = run_weight,
                                   .uniform = run_uniform,
                                   .progress = run_progress };
    SampleResult             a, b;
    for (int i = 0; i < 2; i++) {
        progress_done = 0;
        CHECK_OK(r.recipe->model->sample(&s, r.recipe->config, i ? &b : &a));
    }
    CHECK_TEXT(shape_text(a.shape), "(3,300,2)");
    CHECK_INT(a.rate, 8000);
    CHECK_INT(memcmp(a.data, b.data, 1800 * sizeof *a.data), 0);
    CHECK(memcmp(a.data, a.data + 600, 600 * sizeof *a.data) != 0);
    int64_t outside = 0, small = 0;
    for (int64_t i = 0; i < 1800; i++) {
        outside += !(a.data[i] >= -1 && a.data[i] <= 1);
        small += fabsf(a.data[i]) < 1.0f / 255;
    }
    CHECK_INT(outside, 0);
    CHECK(small > 0); /* levels that linear 8-bit audio does not have */
    s.config = &(SamplerConfig){ .length = 1 };
    CHECK_INT(r.recipe->model->sample(&s, r.recipe->config, &a), E_USAGE);
    pool_free(r.pool);
}

int main(void)
{
    RUN(both_forms);
    RUN(picks);
    RUN(audio_results);
    return test_end();
}
