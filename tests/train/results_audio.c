/* results_audio.c -- the image of audio shows tones at their pitch, and silent or very short clips
 * are drawn too. */
#include "test.h"

#include "base/file.h"
#include "data/png.h"
#include "train/results.h"

enum { WIDE = 640, WAVE = 64, BINS = 128, BAND = WAVE + BINS + 4, RATE = 8000, MAX_SAMPLES = 8000 };

static float audio[2 * MAX_SAMPLES];

/* Draws n clips of one length and reads the image. */
static void image_of(Pool *pool, int64_t n, int64_t length, int64_t channels, Raster *out)
{
    SampleResult r = {
        .kind = RESULT_AUDIO, .shape = SHAPE(n, length, channels), .data = audio, .rate = RATE
    };
    char     *bytes;
    size_t    size;
    ImageInfo info;
    CHECK_OK(results_audio_image(pool, "results_audio.png", &r));
    CHECK_OK(file_read(pool, "results_audio.png", &bytes, &size));
    CHECK_OK(png_parse("results_audio.png", (const unsigned char *)bytes, size, &info));
    Work work = { .n = info.room };
    work.at = pool_alloc(pool, work.n, 1);
    CHECK_OK(png_decode("results_audio.png", (const unsigned char *)bytes, size, &work, out));
    CHECK_INT(out->width, WIDE);
    CHECK_INT(out->height, n * BAND - 4);
    CHECK_OK(file_remove("results_audio.png"));
}

static int64_t brightest_row(const Raster *r, int64_t top, int64_t column)
{
    const unsigned char *at = r->at;
    int64_t              best = 0;
    for (int64_t y = 1; y < BINS; y++)
        if (at[(top + y) * WIDE + column] > at[(top + best) * WIDE + column])
            best = y;
    return best;
}

static void pitch(void)
{
    Pool  *pool = pool_new(NULL, "test");
    Raster r;
    int    tones[2] = { 1000, 3000 }; /* bins 32 and 96 from the bottom */
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < MAX_SAMPLES; i++)
            audio[k * MAX_SAMPLES + i] = (float)(0.9 * sin(2 * acos(-1) * tones[k] * i / RATE));
    image_of(pool, 2, MAX_SAMPLES, 1, &r);
    for (int64_t column = 20; column < WIDE - 20; column += 100) {
        CHECK_INT(brightest_row(&r, WAVE, column), BINS - 1 - 32);
        CHECK_INT(brightest_row(&r, BAND + WAVE, column), BINS - 1 - 96);
    }
    const unsigned char *at = r.at; /* the wave fills exactly 0.9 of its band */
    CHECK(at[WAVE / 2 * WIDE + 300] > 200 && at[6 * WIDE + 300] > 200);
    CHECK(at[1 * WIDE + 300] < 100 && at[(WAVE - 2) * WIDE + 300] < 100);
    pool_free(pool);
}

static void odd_audio(void)
{
    Pool  *pool = pool_new(NULL, "test");
    Raster r;
    memset(audio, 0, sizeof audio);
    image_of(pool, 1, MAX_SAMPLES, 1, &r); /* silence is dark */
    CHECK_INT(((const unsigned char *)r.at)[(WAVE + 60) * WIDE + 300], 0);
    audio[0] = 1;
    image_of(pool, 3, 1, 1, &r); /* one sample, far fewer than columns */
    image_of(pool, 1, 100, 2, &r);
    audio[5] = NAN;
    image_of(pool, 1, 100, 1, &r);
    pool_free(pool);
}

int main(void)
{
    RUN(pitch);
    RUN(odd_audio);
    return test_end();
}
