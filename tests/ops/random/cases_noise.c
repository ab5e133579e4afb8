/* cases_noise.c -- random numbers and dropout, against base/random.h's single calls. */
#include "ops/cases.h"

#include "base/random.h"
#include "device/convert.h"
#include "ops/embedding/embedding.h"
#include "ops/random/noise.h"
#include "ops/optimizer/optim.h"
#include "ops/elementwise/unary.h"

static const int32_t words[COUNTER_WORDS] = {
    [COUNTER_SEED_LOW] = 17, [COUNTER_SEED_HIGH] = -3, [COUNTER_STEP] = 5, [COUNTER_MICRO] = 2
};
static const RandomKey key = { .seed = (uint64_t)0xFFFFFFFDu << 32 | 17, .stream = 9, .step = 5 };

static Tensor counters(Case *c)
{
    return constant_add(case_graph(c), "counters", I32, SHAPE(COUNTER_WORDS), words, CLASS_INPUTS);
}

/* In the compute type, which the harness shows as fp32. */
static bool same(float got, float want)
{
    uint16_t half;
    float    rounded;
    convert_rows(F16, &half, F32, &want, 1);
    convert_rows(F32, &rounded, F16, &half, 1);
    return got == want || got == bf16_to_f32(f32_to_bf16(want)) || got == rounded;
}

enum { SMALL = 3 * 7 * 5, LARGE = 70001 };

static void normal_numbers(Case *c)
{
    Type type = case_graph(c)->compute;
    case_out(c, "y", random_normal(counters(c), 9, type, SHAPE(3, 7, 5)));
    case_out(c, "large", random_normal(counters(c), 9, type, SHAPE(LARGE)));
}

static const char *normal_check(Case *c)
{
    for (uint64_t i = 0; i < SMALL; i++)
        if (!same(case_result(c, "y")[i], random_normal_at(key, 2 * SMALL + i)))
            return "not base/random's normal numbers";
    for (uint64_t i = 0; i < LARGE; i++)
        if (!same(case_result(c, "large")[i], random_normal_at(key, 2 * LARGE + i)))
            return "not base/random's normal numbers, in several threads";
    return NULL;
}

const OpCase cases_random_normal[] = {
    { "numbers", normal_numbers, NULL, CASE_NO_TORCH, 0, 0, normal_check }, { 0 }
};

static void uniform_numbers(Case *c)
{
    case_out(c, "y", random_uniform(counters(c), 9, case_graph(c)->compute, SHAPE(3, 7, 5)));
}

static const char *uniform_check(Case *c)
{
    for (uint64_t i = 0; i < SMALL; i++)
        if (!same(case_result(c, "y")[i], random_uniform_at(key, 2 * SMALL + i)))
            return "not base/random's uniform numbers";
    return NULL;
}

const OpCase cases_random_uniform[] = {
    { "numbers", uniform_numbers, NULL, CASE_NO_TORCH, 0, 0, uniform_check }, { 0 }
};

static void ints_looked_up(Case *c)
{
    static const float itself[6] = { 0, 1, 2, 3, 4, 5 };
    Tensor table = constant_add(case_graph(c), "itself", F32, SHAPE(6), itself, CLASS_CONSTANTS);
    case_out(c, "y", lookup(table, random_ints(counters(c), 9, 6, SHAPE(SMALL))));
}

static const char *ints_check(Case *c)
{
    for (uint64_t i = 0; i < SMALL; i++)
        if (case_result(c, "y")[i] != (float)random_below_at(key, 2 * SMALL + i, 6))
            return "not base/random's whole numbers";
    return NULL;
}

const OpCase cases_random_ints[] = {
    { "looked up", ints_looked_up, NULL, CASE_NO_TORCH, 0, 0, ints_check }, { 0 }
};

static void dropout_quarter(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(3, 7, 5), 1, 2);
    case_out(c, "x1", affine(x, 1, 0));
    case_out(c, "y", dropout(x, counters(c), 9, 0.25f));
    case_out(c, "twice", dropout(dropout(x, counters(c), 9, 0.25f), counters(c), 9, 0.25f));
    case_out(c, "none", dropout(x, counters(c), 9, 0));
}

static const char *dropout_check(Case *c)
{
    const float *x = case_result(c, "x1"), *y = case_result(c, "y");
    float        scale = 1 / (1 - 0.25f);
    int          zeros = 0;
    for (uint64_t i = 0; i < SMALL; i++) {
        bool dropped = random_uniform_at(key, 2 * SMALL + i) < 0.25f;
        if (!same(y[i], dropped ? 0 : x[i] * scale))
            return "a dropped element lives or a living one is wrong";
        if (dropped != (case_result(c, "twice")[i] == 0) || case_result(c, "none")[i] != x[i])
            return "the same counters do not give the same mask";
        zeros += dropped;
    }
    return zeros > SMALL / 8 && zeros < SMALL / 2 ? NULL : "not about a quarter was dropped";
}

const OpCase cases_dropout[] = {
    { "a quarter", dropout_quarter, NULL, CASE_NO_TORCH, 0, 0, dropout_check }, { 0 }
};

static void samples_half(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(50, 3), 1, 2);
    case_out(c, "x1", affine(x, 1, 0));
    case_out(c, "y", drop_samples(x, counters(c), 9, 0.5f));
}

static const char *samples_check(Case *c)
{
    for (uint64_t i = 0; i < 150; i++) {
        bool dropped = random_uniform_at(key, 2 * 50 + i / 3) < 0.5f;
        if (case_result(c, "y")[i] != (dropped ? 0 : case_result(c, "x1")[i]))
            return "not whole samples";
    }
    return NULL;
}

const OpCase cases_drop_samples[] = {
    { "half of them", samples_half, NULL, CASE_NO_TORCH, 0, 0, samples_check }, { 0 }
};
