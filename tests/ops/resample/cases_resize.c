/* cases_resize.c -- images at other sizes, pooling. */
#include "ops/cases.h"

#include "ops/resample/max_pool2d.h"
#include "ops/resample/resize.h"

#define RESIZE_CASE(name, shape, height, width, mode)                                    \
    static void name(Case *c)                                                            \
    {                                                                                    \
        case_out(c, "y", resize(case_in(c, "x", shape, -1, 1), height, width, mode));    \
    }

RESIZE_CASE(nearest_twice, SHAPE(2, 3, 4, 5), 6, 8, RESIZE_NEAREST)
RESIZE_CASE(nearest_up, SHAPE(1, 5, 7, 3), 12, 19, RESIZE_NEAREST)
RESIZE_CASE(nearest_down, SHAPE(2, 11, 9, 2), 4, 5, RESIZE_NEAREST)
/* fp32 decides the index */
RESIZE_CASE(nearest_rounding, SHAPE(1, 6, 26, 1), 74, 22, RESIZE_NEAREST)
RESIZE_CASE(bilinear_up, SHAPE(2, 3, 5, 4), 7, 11, RESIZE_BILINEAR)
RESIZE_CASE(bilinear_half, SHAPE(1, 8, 10, 3), 4, 5, RESIZE_BILINEAR)  /* the 2x2 mean of DiT3D */
/* some pixels reach nothing */
RESIZE_CASE(bilinear_down, SHAPE(1, 13, 9, 2), 3, 4, RESIZE_BILINEAR)
RESIZE_CASE(bilinear_one, SHAPE(1, 1, 1, 3), 3, 2, RESIZE_BILINEAR)
RESIZE_CASE(bicubic_up, SHAPE(1, 5, 4, 3), 20, 16, RESIZE_BICUBIC)
RESIZE_CASE(bicubic_down, SHAPE(2, 9, 13, 1), 4, 5, RESIZE_BICUBIC)
RESIZE_CASE(bicubic_one, SHAPE(1, 1, 2, 3), 5, 7, RESIZE_BICUBIC)
RESIZE_CASE(mixed, SHAPE(1, 4, 9, 3), 9, 4, RESIZE_BILINEAR)  /* taller and narrower */
RESIZE_CASE(area_down, SHAPE(2, 7, 10, 3), 3, 4, RESIZE_AREA)
RESIZE_CASE(area_up, SHAPE(2, 4, 4, 4), 16, 16, RESIZE_AREA)  /* the edge processor's pool */
RESIZE_CASE(area_odd, SHAPE(1, 5, 3, 2), 7, 8, RESIZE_AREA)
RESIZE_CASE(area_all, SHAPE(2, 6, 5, 3), 1, 1, RESIZE_AREA)
RESIZE_CASE(large_nearest, SHAPE(2, 17, 31, 40), 34, 62, RESIZE_NEAREST)
RESIZE_CASE(large_bicubic, SHAPE(1, 33, 21, 24), 51, 64, RESIZE_BICUBIC)

static void same_size(Case *c)               /* every mode is the identity: no node at all */
{
    Tensor x = case_in(c, "x", SHAPE(1, 3, 5, 2), -1, 1);
    for (int mode = 0; mode < RESIZE_MODES; mode++)
        x = resize(x, 3, 5, (ResizeMode)mode);
    case_out(c, "y", resize(x, 6, 5, RESIZE_BICUBIC));
}

#define TO(size, mode)                                                                             \
    "y = F.interpolate(x.permute(0, 3, 1, 2), " size ", mode=" mode ").permute(0, 2, 3, 1)"
#define AREA(size) "y = F.adaptive_avg_pool2d(x.permute(0, 3, 1, 2), " size ").permute(0, 2, 3, 1)"

const OpCase cases_resize[] = {
    { "nearest twice", nearest_twice, TO("(6, 8)", "'nearest'") },
    { "nearest up", nearest_up, TO("(12, 19)", "'nearest'") },
    { "nearest down", nearest_down, TO("(4, 5)", "'nearest'") },
    { "nearest rounding", nearest_rounding,
      "y = F.interpolate(x.float().permute(0, 3, 1, 2), (74, 22), mode='nearest').permute(0, 2, 3, "
      "1).double()" },
    { "bilinear up", bilinear_up, TO("(7, 11)", "'bilinear'") },
    { "bilinear half", bilinear_half, TO("(4, 5)", "'bilinear'") },
    { "bilinear down", bilinear_down, TO("(3, 4)", "'bilinear'") },
    { "bilinear from one pixel", bilinear_one, TO("(3, 2)", "'bilinear'") },
    { "bicubic up", bicubic_up, TO("(20, 16)", "'bicubic'") },
    { "bicubic down", bicubic_down, TO("(4, 5)", "'bicubic'") },
    { "bicubic from two pixels", bicubic_one, TO("(5, 7)", "'bicubic'") },
    { "taller and narrower", mixed, TO("(9, 4)", "'bilinear'") },
    { "area down", area_down, AREA("(3, 4)") },
    { "area up", area_up, AREA("(16, 16)") },
    { "area odd", area_odd, AREA("(7, 8)") },
    { "area all", area_all, AREA("1") },
    { "same size", same_size, TO("(6, 5)", "'bicubic'") },
    { "large nearest", large_nearest, TO("(34, 62)", "'nearest'"), CASE_LIVE_ONLY },
    { "large bicubic", large_bicubic, TO("(51, 64)", "'bicubic'"), CASE_LIVE_ONLY },
    { 0 }
};

static void pool_even(Case *c)
{
    case_out(c, "y", max_pool2d(case_in(c, "x", SHAPE(2, 6, 8, 3), -1, 1)));
}

static void pool_odd(Case *c)                /* the last row and column are left out */
{
    case_out(c, "y", max_pool2d(case_in(c, "x", SHAPE(1, 7, 5, 10), -1, 1)));
}

static void pool_ties(Case *c)  /* bf16 has 3 numbers here: the first of equals is taken */
{
    case_out(c, "y", max_pool2d(case_in(c, "x", SHAPE(2, 8, 8, 4), 256, 260)));
}

static void pool_large(Case *c)
{
    case_out(c, "y", max_pool2d(case_in(c, "x", SHAPE(3, 31, 26, 37), -1, 1)));
}

static void pool_wide(Case *c)               /* more channels than are staged at a time */
{
    case_out(c, "y", max_pool2d(case_in(c, "x", SHAPE(1, 2, 4, 1100), -1, 1)));
}

#define POOL "y = F.max_pool2d(x.permute(0, 3, 1, 2), 2).permute(0, 2, 3, 1)"

const OpCase cases_max_pool2d[] = {
    { "even", pool_even, POOL, CASE_NO_DIFFERENCES },
    { "odd", pool_odd, POOL, CASE_NO_DIFFERENCES },
    { "ties", pool_ties, POOL, CASE_NO_DIFFERENCES },
    { "large", pool_large, POOL, CASE_NO_DIFFERENCES | CASE_LIVE_ONLY },
    { "wide", pool_wide, POOL, CASE_NO_DIFFERENCES | CASE_LIVE_ONLY },
    { 0 }
};
