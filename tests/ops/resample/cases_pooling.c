/* cases_pooling.c -- windows: the largest and the mean, of any size, and adaptive ones. */
#include "ops/cases.h"

#include "ops/elementwise/basic.h"
#include "ops/resample/pooling.h"

#include <math.h>
#include <string.h>

#define POOL_CASE(name, shape, low, high, ...)                                                     \
    static void name(Case *c)                                                                      \
    {                                                                                              \
        case_out(c, "y", pool_op(case_in(c, "x", shape, low, high), (PoolAttr){ __VA_ARGS__ }));   \
    }

POOL_CASE(stem, SHAPE(2, 11, 9, 5), -1, 1, .kind = POOL_MAX, .kernel = { 3, 3 }, .stride = { 2, 2 },
          .pad_lo = { 1, 1 }, .pad_hi = { 1, 1 }, .dilation = { 1, 1 })
POOL_CASE(same, SHAPE(1, 7, 5, 8), -1, 1, .kind = POOL_MAX, .kernel = { 5, 5 }, .stride = { 1, 1 },
          .pad_lo = { 2, 2 }, .pad_hi = { 2, 2 }, .dilation = { 1, 1 })
POOL_CASE(dilated, SHAPE(2, 9, 10, 3), -1, 1, .kind = POOL_MAX, .kernel = { 2, 3 },
          .stride = { 1, 2 }, .pad_lo = { 1, 1 }, .pad_hi = { 1, 1 }, .dilation = { 2, 2 })
POOL_CASE(ties, SHAPE(2, 7, 7, 4), 256, 260, .kind = POOL_MAX, .kernel = { 3, 3 },
          .stride = { 2, 2 }, .pad_lo = { 1, 1 }, .pad_hi = { 1, 1 }, .dilation = { 1, 1 })
POOL_CASE(ceil_max, SHAPE(1, 8, 6, 3), -1, 1, .kind = POOL_MAX, .kernel = { 3, 3 },
          .stride = { 2, 2 }, .dilation = { 1, 1 }, .ceil_mode = true)
POOL_CASE(ceil_cells, SHAPE(1, 7, 6, 3), -1, 1, .kind = POOL_MAX, .kernel = { 2, 2 },
          .stride = { 2, 2 }, .dilation = { 1, 1 }, .ceil_mode = true)
POOL_CASE(ceil_short, SHAPE(2, 1, 5, 3), -1, 1, .kind = POOL_MAX, .kernel = { 2, 3 },
          .stride = { 2, 3 }, .dilation = { 1, 1 }, .ceil_mode = true) /* longer than the axis */
POOL_CASE(cells, SHAPE(2, 6, 9, 3), -1, 1, .kind = POOL_MAX, .kernel = { 2, 2 }, .stride = { 2, 2 },
          .dilation = { 1, 1 })
POOL_CASE(line, SHAPE(2, 13, 7), -1, 1, .kind = POOL_MAX, .kernel = { 4 }, .stride = { 3 },
          .pad_lo = { 2 }, .pad_hi = { 2 }, .dilation = { 1 })
POOL_CASE(long_line, SHAPE(1, 3000, 1), -1, 1, .kind = POOL_MAX, .kernel = { 300 }, .stride = { 7 },
          .dilation = { 1 }) /* more taps than a byte counts */
POOL_CASE(volume, SHAPE(1, 4, 5, 6, 3), -1, 1, .kind = POOL_MAX, .kernel = { 2, 3, 3 },
          .stride = { 2, 1, 2 }, .pad_lo = { 0, 1, 1 }, .pad_hi = { 0, 1, 1 },
          .dilation = { 1, 1, 1 })
POOL_CASE(gaps, SHAPE(1, 8, 8, 2), -1, 1, .kind = POOL_MAX, .kernel = { 2, 1 }, .stride = { 3, 4 },
          .dilation = { 1, 1 }) /* some values are in no window */
POOL_CASE(one_pixel, SHAPE(3, 1, 1, 1), -1, 1, .kind = POOL_MAX, .kernel = { 3, 3 },
          .stride = { 1, 1 }, .pad_lo = { 1, 1 }, .pad_hi = { 1, 1 }, .dilation = { 1, 1 })
POOL_CASE(large_max, SHAPE(2, 56, 45, 67), -1, 1, .kind = POOL_MAX, .kernel = { 3, 3 },
          .stride = { 2, 2 }, .pad_lo = { 1, 1 }, .pad_hi = { 1, 1 }, .dilation = { 1, 1 })
POOL_CASE(wide_max, SHAPE(1, 3, 90, 512), -1, 1, .kind = POOL_MAX, .kernel = { 3, 3 },
          .stride = { 1, 1 }, .pad_lo = { 1, 1 }, .pad_hi = { 1, 1 }, .dilation = { 1, 1 })

/* on a GPU a warp per window */
POOL_CASE(long_windows, SHAPE(2, 17, 19, 12), 256, 290, .kind = POOL_MAX, .kernel = { 9, 10 },
          .stride = { 4, 5 }, .pad_lo = { 4, 4 }, .pad_hi = { 4, 4 }, .dilation = { 1, 1 })
POOL_CASE(long_means, SHAPE(2, 17, 19, 12), -1, 1, .kind = POOL_AVG, .kernel = { 9, 10 },
          .stride = { 4, 5 }, .pad_lo = { 4, 4 }, .pad_hi = { 4, 4 }, .dilation = { 1, 1 })

POOL_CASE(mean_plain, SHAPE(2, 6, 8, 5), -1, 1, .kind = POOL_AVG, .kernel = { 2, 2 },
          .stride = { 2, 2 }, .dilation = { 1, 1 }, .count_padding = true)
POOL_CASE(mean_padded, SHAPE(2, 7, 9, 3), -1, 1, .kind = POOL_AVG, .kernel = { 3, 3 },
          .stride = { 2, 2 }, .pad_lo = { 1, 1 }, .pad_hi = { 1, 1 }, .dilation = { 1, 1 },
          .count_padding = true)
POOL_CASE(mean_inside, SHAPE(1, 7, 9, 3), -1, 1, .kind = POOL_AVG, .kernel = { 3, 3 },
          .stride = { 1, 1 }, .pad_lo = { 1, 1 }, .pad_hi = { 1, 1 }, .dilation = { 1, 1 })
POOL_CASE(mean_ceil, SHAPE(1, 8, 8, 3), -1, 1, .kind = POOL_AVG, .kernel = { 3, 3 },
          .stride = { 2, 2 }, .pad_lo = { 1, 1 }, .pad_hi = { 1, 1 }, .dilation = { 1, 1 },
          .ceil_mode = true, .count_padding = true)
POOL_CASE(mean_ceil_inside, SHAPE(1, 8, 5, 3), -1, 1, .kind = POOL_AVG, .kernel = { 3, 2 },
          .stride = { 2, 2 }, .dilation = { 1, 1 }, .ceil_mode = true)
POOL_CASE(mean_divisor, SHAPE(1, 6, 7, 4), -1, 1, .kind = POOL_AVG, .kernel = { 3, 2 },
          .stride = { 2, 3 }, .pad_lo = { 1, 0 }, .pad_hi = { 1, 0 }, .dilation = { 1, 1 },
          .divisor = 7)
POOL_CASE(mean_line, SHAPE(3, 25, 1), -1, 1, .kind = POOL_AVG, .kernel = { 5 }, .stride = { 1 },
          .pad_lo = { 2 }, .pad_hi = { 2 }, .dilation = { 1 }, .count_padding = true)
POOL_CASE(mean_volume, SHAPE(1, 5, 4, 6, 2), -1, 1, .kind = POOL_AVG, .kernel = { 3, 2, 2 },
          .stride = { 1, 2, 2 }, .pad_lo = { 1, 0, 0 }, .pad_hi = { 1, 0, 0 },
          .dilation = { 1, 1, 1 }, .count_padding = true)
POOL_CASE(mean_lopsided, SHAPE(1, 6, 6, 2), -1, 1, .kind = POOL_AVG, .kernel = { 3, 3 },
          .stride = { 1, 1 }, .pad_lo = { 2, 0 }, .pad_hi = { 0, 1 }, .dilation = { 1, 1 },
          .count_padding = true)
POOL_CASE(large_mean, SHAPE(2, 40, 37, 70), -1, 1, .kind = POOL_AVG, .kernel = { 3, 3 },
          .stride = { 2, 2 }, .pad_lo = { 1, 1 }, .pad_hi = { 1, 1 }, .dilation = { 1, 1 },
          .count_padding = true)
POOL_CASE(long_mean, SHAPE(1, 9001, 3), -1, 1, .kind = POOL_AVG, .kernel = { 4 }, .stride = { 4 },
          .dilation = { 1 })

#define ADAPTIVE_CASE(name, shape, kind, ...)                                                      \
    static void name(Case *c)                                                                      \
    {                                                                                              \
        case_out(c, "y",                                                                           \
                 adaptive_pool(case_in(c, "x", shape, -1, 1), (int64_t[]){ __VA_ARGS__ }, kind));  \
    }

ADAPTIVE_CASE(adaptive_line, SHAPE(2, 11, 3), POOL_AVG, 4)
ADAPTIVE_CASE(adaptive_map, SHAPE(2, 7, 9, 3), POOL_AVG, 3, 4)
ADAPTIVE_CASE(adaptive_volume, SHAPE(1, 5, 4, 6, 2), POOL_AVG, 2, 3, 4)
ADAPTIVE_CASE(global_line, SHAPE(3, 17, 5), POOL_AVG, 1)
ADAPTIVE_CASE(global_map, SHAPE(2, 7, 7, 9), POOL_AVG, 1, 1)
ADAPTIVE_CASE(global_volume, SHAPE(2, 3, 4, 5, 6), POOL_AVG, 1, 1, 1)
ADAPTIVE_CASE(adaptive_max_line, SHAPE(2, 11, 3), POOL_MAX, 4)
ADAPTIVE_CASE(adaptive_max_map, SHAPE(2, 10, 7, 3), POOL_MAX, 4, 3)
ADAPTIVE_CASE(adaptive_max_up, SHAPE(1, 3, 4, 2), POOL_MAX, 5, 6)
ADAPTIVE_CASE(adaptive_max_volume, SHAPE(1, 4, 5, 7, 2), POOL_MAX, 3, 2, 3)
ADAPTIVE_CASE(global_max, SHAPE(2, 6, 5, 7), POOL_MAX, 1, 1)

ADAPTIVE_CASE(global_max_large, SHAPE(2, 20, 17, 9), POOL_MAX, 1, 1)

static void not_a_number(Case *c)
{
    float numbers[7 * 6 * 2];
    for (int i = 0; i < 7 * 6 * 2; i++)
        numbers[i] = (float)(i % 5) - 2;
    numbers[2 * (3 * 6 + 2)] = NAN;
    case_out(
        c, "y",
        pool_op(
            constant_add(case_graph(c), "x", F32, SHAPE(1, 7, 6, 2), numbers, CLASS_CONSTANTS),
            (PoolAttr){
                .kind = POOL_MAX, .kernel = { 3, 3 }, .stride = { 1, 1 }, .dilation = { 1, 1 } }));
}

/* Window (p, q) of channel 0 holds pixel (3, 2) where p is 1..3 and q is 0..2. */
static const char *not_a_number_check(Case *c)
{
    const float *y = case_result(c, "y");
    for (int p = 0; p < 5; p++)
        for (int q = 0; q < 4; q++) {
            bool in = p >= 1 && p <= 3 && q <= 2;
            if (isnan(y[2 * (p * 4 + q)]) != in || isnan(y[2 * (p * 4 + q) + 1]))
                return "a NaN is lost or spreads";
        }
    return NULL;
}

/* Each misuse gives a sentence with the numbers. */
static const char *misuse(Case *c)
{
    static const char *const said[] = {
        "must be floats (N,L,C), (N,H,W,C) or (N,D,H,W,C), not f32 (6,5)",
        "a window of 9 values, 1 apart, does not fit axis 1 of (2,6,5,3)",
        "window 0 along axis 1 of (2,6,5,3) has only padding",
        "a mean has no dilation, but axis 2 has 2",
        "stride 0",
        "axis 2 of (2,6,5,3) cannot become 0 values",
        "divisor -1",
    };
    (void)c;
    for (int i = 0; i < (int)(sizeof said / sizeof *said); i++) {
        Pool    *pool = pool_new(NULL, "misuse");
        Graph   *g = graph_new(pool, F32);
        Tensor   x = state_add(g, "x", F32, SHAPE(2, 6, 5, 3), CLASS_INPUTS, false);
        Tensor   flat = state_add(g, "flat", F32, SHAPE(6, 5), CLASS_INPUTS, false);
        PoolAttr of = {
            .kind = POOL_AVG, .kernel = { 3, 3 }, .stride = { 1, 1 }, .dilation = { 1, 1 }
        };
        switch (i) {
        case 0: pool_op(flat, of); break;
        case 1: of.kernel[0] = 9, pool_op(x, of); break;
        case 2: of.pad_lo[0] = 3, pool_op(x, of); break;
        case 3: of.dilation[1] = 2, pool_op(x, of); break;
        case 4: of.stride[1] = 0, pool_op(x, of); break;
        case 5: adaptive_pool(x, (int64_t[]){ 3, 0 }, POOL_MAX); break;
        case 6: of.divisor = -1, pool_op(x, of); break;
        }
        bool right = graph_check(g) == E_SHAPE && strstr(err_text(), said[i]);
        pool_free(pool);
        if (!right)
            return said[i];
    }
    return NULL;
}

#define MAP(f)    "y = " f ".permute(0, 2, 3, 1)"
#define X2        "x.permute(0, 3, 1, 2)"
#define LINE(f)   "y = " f ".permute(0, 2, 1)"
#define X1        "x.permute(0, 2, 1)"
#define VOLUME(f) "y = " f ".permute(0, 2, 3, 4, 1)"
#define X3        "x.permute(0, 4, 1, 2, 3)"

enum { KINKS = CASE_NO_DIFFERENCES };

const OpCase cases_pool[] = {
    { "stem", stem, MAP("F.max_pool2d(" X2 ", 3, 2, 1)"), KINKS },
    { "same size", same, MAP("F.max_pool2d(" X2 ", 5, 1, 2)"), KINKS },
    { "dilated", dilated, MAP("F.max_pool2d(" X2 ", (2, 3), (1, 2), 1, 2)"), KINKS },
    { "ties", ties, MAP("F.max_pool2d(" X2 ", 3, 2, 1)"), KINKS },
    { "ceil", ceil_max, MAP("F.max_pool2d(" X2 ", 3, 2, ceil_mode=True)"), KINKS },
    { "ceil of cells", ceil_cells, MAP("F.max_pool2d(" X2 ", 2, 2, ceil_mode=True)"), KINKS },
    { "ceil, short axis", ceil_short, MAP("F.max_pool2d(" X2 ", (2, 3), ceil_mode=True)"), KINKS },
    { "cells", cells, MAP("F.max_pool2d(" X2 ", 2)"), KINKS },
    { "line", line, LINE("F.max_pool1d(" X1 ", 4, 3, 2)"), KINKS },
    { "long line", long_line, LINE("F.max_pool1d(" X1 ", 300, 7)"), KINKS },
    { "volume", volume, VOLUME("F.max_pool3d(" X3 ", (2, 3, 3), (2, 1, 2), (0, 1, 1))"), KINKS },
    { "gaps", gaps, MAP("F.max_pool2d(" X2 ", (2, 1), (3, 4))"), KINKS },
    { "one pixel", one_pixel, MAP("F.max_pool2d(" X2 ", 3, 1, 1)") },
    { "large", large_max, MAP("F.max_pool2d(" X2 ", 3, 2, 1)"), KINKS | CASE_LIVE_ONLY },
    { "wide", wide_max, MAP("F.max_pool2d(" X2 ", 3, 1, 1)"), KINKS | CASE_LIVE_ONLY },
    { "long windows", long_windows, MAP("F.max_pool2d(" X2 ", (9, 10), (4, 5), 4)"), KINKS },
    { "long means", long_means,
      MAP("F.avg_pool2d(" X2 ", (9, 10), (4, 5), 4, count_include_pad=False)"), KINKS },
    { "misuse", one_pixel, NULL, CASE_NO_TORCH, .check = misuse },
    { "NaN", not_a_number, "", CASE_NO_TORCH | CASE_F32_ONLY, .check = not_a_number_check },
    { "mean", mean_plain, MAP("F.avg_pool2d(" X2 ", 2)") },
    { "mean padded", mean_padded, MAP("F.avg_pool2d(" X2 ", 3, 2, 1)") },
    { "mean inside", mean_inside, MAP("F.avg_pool2d(" X2 ", 3, 1, 1, count_include_pad=False)") },
    { "mean ceil", mean_ceil, MAP("F.avg_pool2d(" X2 ", 3, 2, 1, ceil_mode=True)") },
    { "mean ceil inside", mean_ceil_inside,
      MAP("F.avg_pool2d(" X2 ", (3, 2), 2, ceil_mode=True, count_include_pad=False)") },
    { "mean divisor", mean_divisor,
      MAP("F.avg_pool2d(" X2 ", (3, 2), (2, 3), (1, 0), divisor_override=7)") },
    { "mean line", mean_line, LINE("F.avg_pool1d(" X1 ", 5, 1, 2)") },
    { "mean volume", mean_volume, VOLUME("F.avg_pool3d(" X3 ", (3, 2, 2), (1, 2, 2), (1, 0, 0))") },
    { "mean lopsided", mean_lopsided, MAP("F.avg_pool2d(F.pad(" X2 ", (0, 1, 2, 0)), 3, 1)") },
    { "large mean", large_mean, MAP("F.avg_pool2d(" X2 ", 3, 2, 1)"), CASE_LIVE_ONLY },
    { "long mean", long_mean, LINE("F.avg_pool1d(" X1 ", 4)"), CASE_LIVE_ONLY },
    { "adaptive line", adaptive_line, LINE("F.adaptive_avg_pool1d(" X1 ", 4)") },
    { "adaptive map", adaptive_map, MAP("F.adaptive_avg_pool2d(" X2 ", (3, 4))") },
    { "adaptive volume", adaptive_volume, VOLUME("F.adaptive_avg_pool3d(" X3 ", (2, 3, 4))") },
    { "global line", global_line, LINE("F.adaptive_avg_pool1d(" X1 ", 1)") },
    { "global map", global_map, MAP("F.adaptive_avg_pool2d(" X2 ", 1)") },
    { "global volume", global_volume, VOLUME("F.adaptive_avg_pool3d(" X3 ", 1)") },
    { "adaptive max line", adaptive_max_line, LINE("F.adaptive_max_pool1d(" X1 ", 4)"), KINKS },
    { "adaptive max map", adaptive_max_map, MAP("F.adaptive_max_pool2d(" X2 ", (4, 3))"), KINKS },
    { "adaptive max up", adaptive_max_up, MAP("F.adaptive_max_pool2d(" X2 ", (5, 6))"), KINKS },
    { "adaptive max volume", adaptive_max_volume,
      VOLUME("F.adaptive_max_pool3d(" X3 ", (3, 2, 3))"), KINKS },
    { "global max, large", global_max_large, MAP("F.adaptive_max_pool2d(" X2 ", 1)"),
      KINKS | CASE_LIVE_ONLY },
    { "global max", global_max, MAP("F.adaptive_max_pool2d(" X2 ", 1)"), KINKS },
    { 0 }
};
