/* sashimi_nucleus.c -- choosing among the likeliest levels, with shares that can be checked by
 * hand. */
#include "test.h"

#include "models/sashimi.h"

#include <math.h>

static SamplerConfig sampler_of(double temperature, double top_p)
{
    return (SamplerConfig){ .temperature = temperature, .top_p = top_p };
}

/* Shares 0.4, 0.3, 0.2, 0.1 in another order. */
static void categorical(void)
{
    Sashimi       m = { .bits = 2, .head = HEAD_CATEGORICAL };
    const float   logits[4] = { logf(0.2f), logf(0.4f), logf(0.1f), logf(0.3f) };
    const float   even[4] = { 0.5f, 0.5f, 0.5f, 0.5f };
    float         noise[4] = { 0.5f, 0.5f, 0.9999f, 0.9f }; /* prefers level 2, then level 3 */
    LikelyLevel   list[4];
    SamplerConfig s = sampler_of(1, 0.35);
    CHECK_INT(sashimi_pick_likely(&m, &s, logits, noise, 0.5, list), 1);
    s.top_p = 0.6;
    CHECK_INT(sashimi_pick_likely(&m, &s, logits, noise, 0.5, list), 3);
    CHECK_NEAR(list[0].share, 0.4, 1e-6);
    CHECK_NEAR(list[3].share, 0.1, 1e-6);
    s.top_p = 0.9999999;
    CHECK_INT(sashimi_pick_likely(&m, &s, logits, noise, 0.5, list), 2);
    CHECK_INT(sashimi_pick_likely(&m, &s, logits, even, 0.5, list), 1);
    s = sampler_of(0.5, 0.55); /* squares: 0.533, 0.3, ... */
    CHECK_INT(sashimi_pick_likely(&m, &s, logits, noise, 0.5, list), 3);
    s.top_p = 0.53;
    CHECK_INT(sashimi_pick_likely(&m, &s, logits, noise, 0.5, list), 1);
    s = sampler_of(0, 0.9); /* the highest has all */
    CHECK_INT(sashimi_pick_likely(&m, &s, logits, noise, 0.5, list), 1);
}

/* One logistic of four levels around 0: with nearest, edges at -0.75, -0.25 and 0.25. */
static void mixture(void)
{
    Sashimi       m = { .bits = 2, .head = HEAD_DML, .components = 1 };
    const float   head[3] = { 0, 0, logf(0.25f) }, noise[1] = { 0.5f };
    LikelyLevel   list[4];
    SamplerConfig s = sampler_of(1, 0.4);
    double        e = exp(1), middle = 2 / (1 + 1 / e) - 1;
    CHECK_INT(sashimi_pick_likely(&m, &s, head, noise, 0.999, list), 2);
    CHECK_NEAR(list[0].share, middle, 1e-7);
    CHECK_NEAR(list[1].share, 1 - 1 / (1 + 1 / e), 1e-7); /* level 3: all above 0.25 */
    s.top_p = 0.6;                                        /* levels 2 and 3 */
    CHECK_INT(sashimi_pick_likely(&m, &s, head, noise, 0.999, list), 3);
    CHECK_INT(sashimi_pick_likely(&m, &s, head, noise, 0.5, list), 2);
    s.top_p = 0.999999999; /* all, in the order of levels */
    CHECK_INT(sashimi_pick_likely(&m, &s, head, noise, 0.9999, list), 3);
    CHECK_INT(sashimi_pick_likely(&m, &s, head, noise, 0.0001, list), 0);
    s.top_p = 0.5;
    m.dml_round = ROUND_FLOOR; /* edges at -0.5, 0 and 0.5: levels 1 and 2 are equal */
    CHECK_INT(sashimi_pick_likely(&m, &s, head, noise, 0.1, list), 1);
    CHECK_INT(sashimi_pick_likely(&m, &s, head, noise, 0.9, list), 2);
    CHECK_INT(list[0].level + list[1].level, 3);
    CHECK_NEAR(list[0].share, list[1].share, 1e-9);
}

/* Two narrow components: one may be left out whole, and temperature 0 leaves out the other. */
static void components(void)
{
    Sashimi     m = { .bits = 8, .head = HEAD_DML, .components = 2 };
    const float head[6] = { logf(0.9f), logf(0.1f), 0.5f, -0.5f, -6, -6 },
                noise[2] = { 0.5f, 0.5f };
    LikelyLevel   list[256];
    SamplerConfig s = sampler_of(1, 0.85);
    int64_t       low = 0;
    for (int i = 1; i < 100; i++)
        low += sashimi_pick_likely(&m, &s, head, noise, i / 100.0, list) < 128;
    CHECK_INT(low, 0);
    s.top_p = 0.9999;
    for (int i = 1; i < 100; i++)
        low += sashimi_pick_likely(&m, &s, head, noise, i / 100.0, list) < 128;
    CHECK(low >= 8 && low <= 12);
    s = sampler_of(0, 0.9999);
    for (int i = 1; i < 100; i++)
        CHECK(sashimi_pick_likely(&m, &s, head, noise, i / 100.0, list) > 128);
}

int main(void)
{
    RUN(categorical);
    RUN(mixture);
    RUN(components);
    return test_end();
}
