/* cases_resize.c -- images at other sizes, pooling. */
#include "ops/cases.h"

#include "ops/resample/max_pool2d.h"
#include "ops/resample/resize.h"

#include <string.h>

#define RESIZE_CASE(name, shape, height, width, mode)                                              \
    static void name(Case *c)                                                                      \
    {                                                                                              \
        case_out(c, "y", resize(case_in(c, "x", shape, -1, 1), height, width, mode));              \
    }

RESIZE_CASE(nearest_twice, SHAPE(2, 3, 4, 5), 6, 8, RESIZE_NEAREST)
RESIZE_CASE(nearest_up, SHAPE(1, 5, 7, 3), 12, 19, RESIZE_NEAREST)
RESIZE_CASE(nearest_down, SHAPE(2, 11, 9, 2), 4, 5, RESIZE_NEAREST)
/* fp32 decides the index */
RESIZE_CASE(nearest_rounding, SHAPE(1, 6, 26, 1), 74, 22, RESIZE_NEAREST)
RESIZE_CASE(bilinear_up, SHAPE(2, 3, 5, 4), 7, 11, RESIZE_BILINEAR)
RESIZE_CASE(bilinear_half, SHAPE(1, 8, 10, 3), 4, 5, RESIZE_BILINEAR) /* the 2x2 mean of DiT3D */
/* some pixels reach nothing */
RESIZE_CASE(bilinear_down, SHAPE(1, 13, 9, 2), 3, 4, RESIZE_BILINEAR)
RESIZE_CASE(bilinear_one, SHAPE(1, 1, 1, 3), 3, 2, RESIZE_BILINEAR)
RESIZE_CASE(bicubic_up, SHAPE(1, 5, 4, 3), 20, 16, RESIZE_BICUBIC)
RESIZE_CASE(bicubic_down, SHAPE(2, 9, 13, 1), 4, 5, RESIZE_BICUBIC)
RESIZE_CASE(bicubic_one, SHAPE(1, 1, 2, 3), 5, 7, RESIZE_BICUBIC)
RESIZE_CASE(mixed, SHAPE(1, 4, 9, 3), 9, 4, RESIZE_BILINEAR) /* taller and narrower */
RESIZE_CASE(area_down, SHAPE(2, 7, 10, 3), 3, 4, RESIZE_AREA)
RESIZE_CASE(area_up, SHAPE(2, 4, 4, 4), 16, 16, RESIZE_AREA) /* the edge processor's pool */
RESIZE_CASE(area_odd, SHAPE(1, 5, 3, 2), 7, 8, RESIZE_AREA)
RESIZE_CASE(area_all, SHAPE(2, 6, 5, 3), 1, 1, RESIZE_AREA)
RESIZE_CASE(large_nearest, SHAPE(2, 17, 31, 40), 34, 62, RESIZE_NEAREST)
RESIZE_CASE(large_bicubic, SHAPE(1, 33, 21, 24), 51, 64, RESIZE_BICUBIC)

#define RESIZE_AS(name, shape, ...)                                                                \
    static void name(Case *c)                                                                      \
    {                                                                                              \
        case_out(c, "y", resize_op(case_in(c, "x", shape, -1, 1), (ResizeAttr){ __VA_ARGS__ }));   \
    }

RESIZE_AS(exact_up, SHAPE(1, 5, 7, 3), RESIZE_NEAREST_EXACT, .size = { 12, 19 })
RESIZE_AS(exact_down, SHAPE(2, 11, 9, 2), RESIZE_NEAREST_EXACT, .size = { 4, 5 })
RESIZE_AS(line_nearest, SHAPE(2, 7, 5), RESIZE_NEAREST, .size = { 16 })
RESIZE_AS(line_exact, SHAPE(2, 17, 1), RESIZE_NEAREST_EXACT, .size = { 6 })
RESIZE_AS(line_linear, SHAPE(3, 9, 4), RESIZE_BILINEAR, .size = { 21 })
RESIZE_AS(line_corners, SHAPE(2, 9, 3), RESIZE_BILINEAR, true, .size = { 4 })
RESIZE_AS(volume_nearest, SHAPE(1, 3, 4, 5, 2), RESIZE_NEAREST, .size = { 6, 5, 9 })
RESIZE_AS(volume_linear, SHAPE(2, 3, 4, 5, 2), RESIZE_BILINEAR, .size = { 5, 3, 8 })
RESIZE_AS(volume_corners, SHAPE(1, 4, 3, 6, 3), RESIZE_BILINEAR, true, .size = { 7, 5, 4 })
RESIZE_AS(volume_area, SHAPE(1, 4, 7, 6, 2), RESIZE_AREA, .size = { 3, 2, 4 })
RESIZE_AS(corners_up, SHAPE(2, 3, 5, 4), RESIZE_BILINEAR, true, .size = { 7, 11 })
RESIZE_AS(corners_down, SHAPE(1, 13, 9, 2), RESIZE_BILINEAR, true, .size = { 4, 1 })
RESIZE_AS(corners_cubic, SHAPE(1, 5, 4, 3), RESIZE_BICUBIC, true, .size = { 12, 9 })
RESIZE_AS(corners_cubic_down, SHAPE(1, 11, 8, 2), RESIZE_BICUBIC, true, .size = { 5, 3 })
RESIZE_AS(scaled_nearest, SHAPE(1, 7, 6, 3), RESIZE_NEAREST, .size = { 9, 11 },
          .scale = { 1.3, 1.9 })
RESIZE_AS(scaled_twice, SHAPE(1, 3, 4, 3), RESIZE_NEAREST, .size = { 6, 8 }, .scale = { 2, 2 })
RESIZE_AS(scaled_linear, SHAPE(1, 7, 6, 3), RESIZE_BILINEAR, .size = { 9, 4 },
          .scale = { 1.3, 0.7 })
RESIZE_AS(scaled_cubic, SHAPE(1, 7, 6, 3), RESIZE_BICUBIC, .size = { 9, 4 }, .scale = { 1.3, 0.7 })
RESIZE_AS(scaled_beyond, SHAPE(1, 4, 3, 2), RESIZE_BILINEAR, .size = { 6, 3 },
          .scale = { 1.7, 1.1 })
RESIZE_AS(smooth_linear, SHAPE(1, 13, 9, 2), RESIZE_BILINEAR, false, true, .size = { 5, 4 })
RESIZE_AS(smooth_mixed, SHAPE(2, 12, 5, 3), RESIZE_BILINEAR, false, true, .size = { 5, 8 })
RESIZE_AS(smooth_cubic, SHAPE(1, 17, 11, 2), RESIZE_BICUBIC, false, true, .size = { 6, 4 })
RESIZE_AS(smooth_corners, SHAPE(1, 12, 10, 2), RESIZE_BICUBIC, true, true, .size = { 5, 7 })
RESIZE_AS(large_volume, SHAPE(1, 5, 12, 11, 20), RESIZE_BILINEAR, .size = { 10, 24, 22 })
RESIZE_AS(large_smooth, SHAPE(1, 64, 48, 24), RESIZE_BICUBIC, false, true, .size = { 20, 31 })
RESIZE_AS(large_line, SHAPE(2, 1500, 3), RESIZE_BILINEAR, .size = { 4001 })

static void same_size(Case *c) /* every mode is the identity: no node at all */
{
    Tensor x = case_in(c, "x", SHAPE(1, 3, 5, 2), -1, 1);
    for (int mode = 0; mode < RESIZE_MODES; mode++)
        x = resize(x, 3, 5, (ResizeMode)mode);
    x = resize_op(x, (ResizeAttr){ RESIZE_BILINEAR, true, .size = { 3, 5 }, .scale = { 1, 1 } });
    case_out(c, "y", resize(x, 6, 5, RESIZE_BICUBIC));
}

/* Each misuse gives a sentence with the numbers. */
static const char *misuse(Case *c)
{
    static const char *const said[] = {
        "not f32 (6,5)",
        "axis 2 of (2,6,5,3) cannot become 0",
        "only linear and cubic have align_corners",
        "scale -2 is out of range",
        "must be (N,H,W,C), not (6,5)",
    };
    (void)c;
    for (int i = 0; i < (int)(sizeof said / sizeof *said); i++) {
        Pool      *pool = pool_new(NULL, "misuse");
        Graph     *g = graph_new(pool, F32);
        Tensor     x = state_add(g, "x", F32, SHAPE(2, 6, 5, 3), CLASS_INPUTS, false);
        Tensor     flat = state_add(g, "flat", F32, SHAPE(6, 5), CLASS_INPUTS, false);
        ResizeAttr to = { .mode = RESIZE_NEAREST, .size = { 4, 4 } };
        switch (i) {
        case 0: resize_op(flat, to); break;
        case 1: to.size[1] = 0, resize_op(x, to); break;
        case 2: to.align_corners = true, resize_op(x, to); break;
        case 3: to.scale[0] = -2, resize_op(x, to); break;
        case 4: resize(flat, 3, 3, RESIZE_AREA); break;
        }
        bool right = graph_check(g) == E_SHAPE && strstr(err_text(), said[i]);
        pool_free(pool);
        if (!right)
            return said[i];
    }
    return NULL;
}

#define TO(size, mode)                                                                             \
    "y = F.interpolate(x.permute(0, 3, 1, 2), " size ", mode=" mode ").permute(0, 2, 3, 1)"
#define LINE(how)   "y = F.interpolate(x.permute(0, 2, 1), " how ").permute(0, 2, 1)"
#define VOLUME(how) "y = F.interpolate(x.permute(0, 4, 1, 2, 3), " how ").permute(0, 2, 3, 4, 1)"
#define AREA(size)  "y = F.adaptive_avg_pool2d(x.permute(0, 3, 1, 2), " size ").permute(0, 2, 3, 1)"

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
    { "exact up", exact_up, TO("(12, 19)", "'nearest-exact'") },
    { "exact down", exact_down, TO("(4, 5)", "'nearest-exact'") },
    { "line nearest", line_nearest, LINE("16, mode='nearest'") },
    { "line exact", line_exact, LINE("6, mode='nearest-exact'") },
    { "line linear", line_linear, LINE("21, mode='linear'") },
    { "line corners", line_corners, LINE("4, mode='linear', align_corners=True") },
    { "volume nearest", volume_nearest, VOLUME("(6, 5, 9), mode='nearest'") },
    { "volume linear", volume_linear, VOLUME("(5, 3, 8), mode='trilinear'") },
    { "volume corners", volume_corners, VOLUME("(7, 5, 4), mode='trilinear', align_corners=True") },
    { "volume area", volume_area, VOLUME("(3, 2, 4), mode='area'") },
    { "corners up", corners_up, TO("(7, 11)", "'bilinear', align_corners=True") },
    { "corners down", corners_down, TO("(4, 1)", "'bilinear', align_corners=True") },
    { "corners cubic", corners_cubic, TO("(12, 9)", "'bicubic', align_corners=True") },
    { "corners cubic down", corners_cubic_down, TO("(5, 3)", "'bicubic', align_corners=True") },
    { "scaled nearest", scaled_nearest, TO("scale_factor=(1.3, 1.9)", "'nearest'") },
    { "scaled twice", scaled_twice, TO("scale_factor=(2.0, 2.0)", "'nearest'") },
    { "scaled linear", scaled_linear, TO("scale_factor=(1.3, 0.7)", "'bilinear'") },
    { "scaled cubic", scaled_cubic, TO("scale_factor=(1.3, 0.7)", "'bicubic'") },
    { "scaled beyond the edge", scaled_beyond, TO("scale_factor=(1.7, 1.1)", "'bilinear'") },
    { "smooth linear", smooth_linear, TO("(5, 4)", "'bilinear', antialias=True") },
    { "smooth mixed", smooth_mixed, TO("(5, 8)", "'bilinear', antialias=True") },
    { "smooth cubic", smooth_cubic, TO("(6, 4)", "'bicubic', antialias=True") },
    { "smooth corners", smooth_corners,
      TO("(5, 7)", "'bicubic', antialias=True, align_corners=True") },
    { "large volume", large_volume, VOLUME("(10, 24, 22), mode='trilinear'"), CASE_LIVE_ONLY },
    { "large smooth", large_smooth, TO("(20, 31)", "'bicubic', antialias=True"), CASE_LIVE_ONLY },
    { "large line", large_line, LINE("4001, mode='linear'"), CASE_LIVE_ONLY },
    { "misuse", same_size, NULL, CASE_NO_TORCH, .check = misuse },
    { "same size", same_size, TO("(6, 5)", "'bicubic'") },
    { "large nearest", large_nearest, TO("(34, 62)", "'nearest'"), CASE_LIVE_ONLY },
    { "large bicubic", large_bicubic, TO("(51, 64)", "'bicubic'"), CASE_LIVE_ONLY },
    { 0 }
};

static void pool_even(Case *c)
{
    case_out(c, "y", max_pool2d(case_in(c, "x", SHAPE(2, 6, 8, 3), -1, 1)));
}

static void pool_odd(Case *c) /* the last row and column are left out */
{
    case_out(c, "y", max_pool2d(case_in(c, "x", SHAPE(1, 7, 5, 10), -1, 1)));
}

static void pool_ties(Case *c) /* bf16 has 3 numbers here: the first of equals is taken */
{
    case_out(c, "y", max_pool2d(case_in(c, "x", SHAPE(2, 8, 8, 4), 256, 260)));
}

static void pool_large(Case *c)
{
    case_out(c, "y", max_pool2d(case_in(c, "x", SHAPE(3, 31, 26, 37), -1, 1)));
}

static void pool_wide(Case *c) /* more channels than are staged at a time */
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
