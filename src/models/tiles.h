/* tiles.h -- a canvas covered by overlapping tiles of one size.
 *
 *      |<---- side ---->|
 *      [ tile 0         ]
 *                  [ tile 1         ]
 *                             [ tile 2         ]
 *      |<------------- length ----------------->|
 *
 * Both axes are divided alike, so a tile is a pair of numbers. What tiles say of a place is averaged
 * with weights that fall towards a tile's ends, by the product of those of its axes; along an axis
 * the weights of a place add up to 1. Where one tile alone covers a place its weight is 1. */
#ifndef MODELS_TILES_H
#define MODELS_TILES_H

#include "base/err.h"
#include "base/pool.h"

typedef struct TileAxis {
    int64_t  length, side, n; /* side: of a tile; n: tiles */
    int64_t *starts;
    float   *weights; /* (n, side) */
} TileAxis;

/* Tiles that overlap by `overlap` or more, as evenly as whole numbers allow. length >= side. */
TileAxis tile_axis(Pool *pool, int64_t length, int64_t side, int64_t overlap);
/* The same tiles of a canvas that is `times` finer. */
TileAxis tile_axis_finer(Pool *pool, const TileAxis *axis, int64_t times);

/* canvas (rows, across.length, channels) += tile (side, side, channels), weighted. `row` is the
 * canvas' row at which tile number i of axis down begins. */
void tile_add(float *canvas, int64_t row, const TileAxis *down, int64_t i, const TileAxis *across,
              int64_t j, int64_t channels, const float *tile);
/* The tile's part of the canvas. */
void tile_take(const float *canvas, int64_t row, const TileAxis *across, int64_t j,
               int64_t channels, float *tile);

#endif
