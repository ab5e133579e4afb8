/* results_audio.c -- audio as an image: waveforms with their spectrograms below.
 *
 * The width shows the whole clip. The spectrogram goes from 0 (bottom) to half the sample rate,
 * with Hann windows of WINDOW samples. Brightness is the level, from FLOOR_DB below the loudest
 * point of the clip. */
#include "train/results.h"

#include "data/raster.h"

#include <math.h>
#include <string.h>

enum { COLUMNS = 640, WAVE = 64, WINDOW = 256, BINS = WINDOW / 2, BAND_GAP = 4 };
static const double FLOOR_DB = 60;

typedef struct AudioClip {
    const float *data;
    int64_t      length, channels;
} AudioClip;

static double audio_at(const AudioClip *s, int64_t i) /* first channel; 0 outside the clip */
{
    return i < 0 || i >= s->length ? 0 : (double)s->data[i * s->channels];
}

static void draw_wave(const AudioClip *s, unsigned char *rows)
{
    for (int64_t column = 0; column < COLUMNS; column++) {
        int64_t from = column * s->length / COLUMNS, to = (column + 1) * s->length / COLUMNS;
        double  low = audio_at(s, from), high = low;
        for (int64_t i = from; i <= to; i++) { /* one more than the column: no gaps */
            low = fmin(low, audio_at(s, i));
            high = fmax(high, audio_at(s, i));
        }
        for (int64_t y = 0; y < WAVE; y++) {
            double top = 1 - 2 * (double)y / WAVE, bottom = 1 - 2 * (double)(y + 1) / WAVE;
            rows[y * COLUMNS + column] = low <= top && high >= bottom ? 230 : 24;
        }
    }
}

/* The power spectrum of the window around sample `middle`. */
static void spectrum(const AudioClip *s, int64_t middle, const double *wave, double *power)
{
    double x[WINDOW];
    for (int64_t i = 0; i < WINDOW; i++)
        x[i] = audio_at(s, middle - WINDOW / 2 + i) * (0.5 - 0.5 * wave[(i + WINDOW / 4) % WINDOW]);
    for (int64_t k = 0; k < BINS; k++) {
        double re = 0, im = 0;
        for (int64_t i = 0; i < WINDOW; i++) {
            im += x[i] * wave[i * k % WINDOW];
            re += x[i] * wave[(i * k + WINDOW / 4) % WINDOW];
        }
        power[k] = re * re + im * im;
    }
}

static void draw_spectrum(Pool *work, const AudioClip *s, unsigned char *rows)
{
    double *power = NEWN(work, double, COLUMNS *BINS), wave[WINDOW], loudest = 1e-12;
    for (int i = 0; i < WINDOW; i++)
        wave[i] = sin(2 * acos(-1) * i / WINDOW);
    for (int64_t column = 0; column < COLUMNS; column++)
        spectrum(s, (2 * column + 1) * s->length / (2 * COLUMNS), wave, power + column * BINS);
    for (int64_t i = 0; i < COLUMNS * BINS; i++)
        loudest = fmax(loudest, power[i]);
    for (int64_t column = 0; column < COLUMNS; column++)
        for (int64_t k = 0; k < BINS; k++) {
            double db = 10 * log10(fmax(power[column * BINS + k] / loudest, 1e-30));
            rows[(BINS - 1 - k) * COLUMNS + column] = (unsigned char)lrint(
                255 * fmax(1 + db / FLOOR_DB, 0));
        }
}

Err results_audio_image(Pool *pool, const char *path, const SampleResult *r)
{
    int64_t        n = r->shape.dim[0], band = WAVE + BINS + BAND_GAP, height = n * band - BAND_GAP;
    Pool          *work = pool_new(pool, "audio image");
    unsigned char *pixels = NEWN(work, unsigned char, height *COLUMNS);
    memset(pixels, 90, (size_t)(height * COLUMNS));
    for (int64_t i = 0; i < n; i++) {
        AudioClip s = { r->data + i * r->shape.dim[1] * r->shape.dim[2], r->shape.dim[1],
                        r->shape.dim[2] };
        draw_wave(&s, pixels + i * band * COLUMNS);
        draw_spectrum(work, &s, pixels + (i * band + WAVE) * COLUMNS);
    }
    Err err = image_write_in(work, path, pixels, height, COLUMNS, 1);
    pool_free(work);
    return err;
}
