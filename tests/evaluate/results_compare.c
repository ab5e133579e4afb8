/* results_compare.c -- errors of clips by hand: valid pixels, metres, changes between frames. */
#include "test.h"

#include "evaluate/results_compare.h"

/* Two frames of 1x3 pixels; the last pixel is not valid in the second. */
static const float   truth[] = { 0, 0.5f, -1, 0.25f, 0.5f, 1 };
static const float   result[] = { 0.5f, 0.5f, -0.5f, 0.25f, 0, -1 };
static const uint8_t mask[] = { 1, 1, 1, 1, 1, 0 };

static Evaluation of_clip(const uint8_t *valid, double low, double high)
{
    ClipSums   sums = { 0 };
    Evaluation e = { 0 };
    clips_compare(
        &(TruthRow){ .shape = SHAPE(2, 1, 3, 1), .result = result, .truth = truth, .mask = valid },
        &sums);
    clips_means(&sums, low, high, &e);
    return e;
}

static void by_hand(void)
{
    Evaluation e = of_clip(mask, 10, 50); /* a difference of 2 is 40 m */
    CHECK(e.has_clips && e.clips.metres);
    CHECK_NEAR(e.clips.mae, 20 * (0.5 + 0.5 + 0.5) / 5, 1e-6);
    CHECK_NEAR(e.clips.rmse, 20 * sqrt(0.75 / 5), 1e-6);
    /* pixel 0: -0.25 against 0.25; pixel 1: -0.5 against 0 */
    CHECK_NEAR(e.clips.temporal, 20 * (0.5 + 0.5) / 2, 1e-6);
    CHECK_INT(e.clips.valid, 5);
    CHECK_INT(e.clips.pixels, 6);
    e = of_clip(NULL, 0, 0);
    CHECK(!e.clips.metres);
    CHECK_NEAR(e.clips.mae, 127.5 * 3.5 / 6, 1e-4);
    CHECK_NEAR(e.clips.temporal, 127.5 * (0.5 + 0.5 + 2.5) / 3, 1e-4);
    e = of_clip((const uint8_t[6]){ 0 }, 0, 1);
    CHECK(e.has_clips && isnan(e.clips.mae) && isnan(e.clips.temporal));
}

int main(void)
{
    RUN(by_hand);
    return test_end();
}
