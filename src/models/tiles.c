/* tiles.c -- where tiles lie, and the average of what they say. */
#include "models/tiles.h"

#include <string.h>

/* Linear ramps over the overlap at both ends, then divided by their sum at each place. */
static void weights_make(Pool *pool, TileAxis *a, int64_t overlap)
{
    Pool   *work = pool_new(pool, "weights");
    double *sums = NEWN(work, double, a->length), *ramp = NEWN(work, double, a->side);
    a->weights = NEWN(pool, float, (a->n * a->side));
    for (int64_t i = 0; i < a->side; i++) {
        int64_t end = i < a->side - 1 - i ? i : a->side - 1 - i;
        double  rise = ((double)end + 0.5) / (double)(overlap > 1 ? overlap : 1);
        ramp[i] = rise < 1 ? rise : 1;
    }
    for (int64_t t = 0; t < a->n; t++)
        for (int64_t i = 0; i < a->side; i++)
            sums[a->starts[t] + i] += ramp[i];
    for (int64_t t = 0; t < a->n; t++)
        for (int64_t i = 0; i < a->side; i++)
            a->weights[t * a->side + i] = (float)(ramp[i] / sums[a->starts[t] + i]);
    pool_free(work);
}

TileAxis tile_axis(Pool *pool, int64_t length, int64_t side, int64_t overlap)
{
    TileAxis a = { .length = length, .side = side, .n = 1 };
    int64_t  rest = length - side, step = side > overlap ? side - overlap : 1;
    REQUIRE(rest >= 0);
    a.n += (rest + step - 1) / step;
    a.starts = NEWN(pool, int64_t, a.n);
    for (int64_t t = 1; t < a.n; t++)
        a.starts[t] = (2 * t * rest + a.n - 1) / (2 * (a.n - 1)); /* nearest */
    weights_make(pool, &a, overlap);
    return a;
}

TileAxis tile_axis_finer(Pool *pool, const TileAxis *axis, int64_t times)
{
    TileAxis a = { .length = axis->length * times, .side = axis->side * times, .n = axis->n };
    int64_t  overlap = a.side;
    a.starts = NEWN(pool, int64_t, a.n);
    for (int64_t t = 1; t < a.n; t++) {
        int64_t here = axis->starts[t - 1] + axis->side - axis->starts[t];
        a.starts[t] = axis->starts[t] * times;
        overlap = here * times < overlap ? here * times : overlap;
    }
    weights_make(pool, &a, overlap);
    return a;
}

void tile_add(float *canvas, int64_t row, const TileAxis *down, int64_t i, const TileAxis *across,
              int64_t j, int64_t channels, const float *tile)
{
    const float *of_rows = down->weights + i * down->side;
    const float *of_columns = across->weights + j * across->side;
    for (int64_t y = 0; y < down->side; y++) {
        float *to = canvas + ((row + y) * across->length + across->starts[j]) * channels;
        for (int64_t x = 0; x < across->side; x++)
            for (int64_t c = 0; c < channels; c++)
                to[x * channels + c] += of_rows[y] * of_columns[x] *
                                        tile[(y * across->side + x) * channels + c];
    }
}

void tile_take(const float *canvas, int64_t row, const TileAxis *across, int64_t j,
               int64_t channels, float *tile)
{
    for (int64_t y = 0; y < across->side; y++)
        memcpy(tile + y * across->side * channels,
               canvas + ((row + y) * across->length + across->starts[j]) * channels,
               (size_t)(across->side * channels) * sizeof *tile);
}
