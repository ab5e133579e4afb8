/* tiles.c -- tiles cover the canvas, overlap as asked, and their weights add up to 1. */
#include "test.h"

#include "models/tiles.h"

#include <math.h>
#include <string.h>

static void covered(const TileAxis *a, int64_t overlap)
{
    double sums[256] = { 0 };
    CHECK_INT(a->starts[0], 0);
    CHECK_INT(a->starts[a->n - 1] + a->side, a->length);
    for (int64_t t = 0; t < a->n; t++) {
        if (t)
            CHECK(a->starts[t] > a->starts[t - 1] &&
                  a->starts[t - 1] + a->side - a->starts[t] >= overlap);
        for (int64_t i = 0; i < a->side; i++) {
            float w = a->weights[t * a->side + i];
            CHECK(w > 0 && w <= 1);
            sums[a->starts[t] + i] += (double)w;
        }
    }
    for (int64_t i = 0; i < a->length; i++)
        CHECK_NEAR(sums[i], 1, 1e-6);
}

static void axes(void)
{
    Pool *pool = pool_new(NULL, "tiles");
    for (int64_t length = 8; length < 70; length++) {
        TileAxis a = tile_axis(pool, length, 8, 2), fine = tile_axis_finer(pool, &a, 3);
        covered(&a, 2);
        covered(&fine, 6);
        CHECK_INT(fine.n, a.n);
        for (int64_t t = 0; t < a.n; t++)
            CHECK_INT(fine.starts[t], 3 * a.starts[t]);
        CHECK_INT(a.n, 1 + (length - 8 + 5) / 6); /* no more than are needed */
    }
    pool_free(pool);
}

/* Between tiles of 0 and of 1 the average rises by small steps; one tile alone stays as it is. */
static void blends(void)
{
    Pool    *pool = pool_new(NULL, "tiles");
    TileAxis one = tile_axis(pool, 4, 4, 1), two = tile_axis(pool, 7, 4, 1),
             wide = tile_axis(pool, 24, 16, 8);
    float tile[2 * 16 * 16], canvas[2 * 16 * 24];
    for (int i = 0; i < 2 * 16 * 16; i++)
        tile[i] = 0.1f * (float)i;
    memset(canvas, 0, sizeof canvas);
    tile_add(canvas, 0, &one, 0, &one, 0, 2, tile);
    CHECK(!memcmp(canvas, tile, 2 * 4 * 4 * sizeof *tile));
    tile_take(canvas, 0, &one, 0, 2, tile + 32);
    CHECK(!memcmp(tile + 32, tile, 32 * sizeof *tile));
    memset(canvas, 0, sizeof canvas);
    tile_add(canvas, 1, &one, 0, &two, 1, 2, tile); /* columns 3 to 6 of 7, from row 1 on */
    CHECK_NEAR(canvas[(7 + 3) * 2 + 1], tile[1] / 2, 1e-6);
    CHECK_NEAR(canvas[(7 + 4) * 2 + 1], tile[3], 1e-6);
    CHECK_NEAR(canvas[3 * 2 + 1], 0, 0);

    for (int i = 0; i < 16 * 16; i++)
        tile[i] = 1;
    memset(canvas, 0, sizeof canvas);
    tile_add(canvas, 0, &wide, 0, &wide, 1, 1, tile);
    for (int64_t x = 1; x < 24; x++)
        CHECK(canvas[x] >= canvas[x - 1] && canvas[x] - canvas[x - 1] <= 0.13f);
    CHECK_NEAR(canvas[23], 1, 0);
    pool_free(pool);
}

int main(void)
{
    RUN(axes);
    RUN(blends);
    return test_end();
}
