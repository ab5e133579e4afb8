/* cases_grid_sample.c -- maps read at given points. */
#include "ops/cases.h"

#include "ops/resample/grid_sample.h"

#include <math.h>
#include <string.h>

#define GRID_CASE(name, shape, points, reach, ...)                                                 \
    static void name(Case *c)                                                                      \
    {                                                                                              \
        Tensor x = case_in(c, "x", shape, -1, 1),                                                  \
               grid = case_in(c, "grid", points, -reach, reach);                                   \
        case_out(c, "y", grid_sample(x, grid, (GridSampleAttr){ __VA_ARGS__ }));                   \
    }

GRID_CASE(linear_zeros, SHAPE(2, 5, 7, 3), SHAPE(2, 4, 6, 2), 1.3f, GRID_BILINEAR, GRID_ZEROS)
GRID_CASE(linear_border, SHAPE(2, 5, 7, 3), SHAPE(2, 3, 5, 2), 1.6f, GRID_BILINEAR, GRID_BORDER)
GRID_CASE(linear_mirror, SHAPE(1, 5, 6, 4), SHAPE(1, 6, 7, 2), 4, GRID_BILINEAR, GRID_REFLECTION)
GRID_CASE(linear_corners, SHAPE(2, 4, 9, 5), SHAPE(2, 5, 3, 2), 1.2f, GRID_BILINEAR, GRID_ZEROS,
          true)
GRID_CASE(border_corners, SHAPE(1, 4, 5, 2), SHAPE(1, 7, 5, 2), 1.5f, GRID_BILINEAR, GRID_BORDER,
          true)
GRID_CASE(mirror_corners, SHAPE(1, 4, 5, 2), SHAPE(1, 7, 5, 2), 3, GRID_BILINEAR, GRID_REFLECTION,
          true)
GRID_CASE(nearest_zeros, SHAPE(2, 5, 7, 3), SHAPE(2, 4, 6, 2), 1.3f, GRID_NEAREST, GRID_ZEROS)
GRID_CASE(nearest_border, SHAPE(1, 5, 7, 3), SHAPE(1, 4, 6, 2), 1.7f, GRID_NEAREST, GRID_BORDER,
          true)
GRID_CASE(nearest_mirror, SHAPE(1, 5, 7, 3), SHAPE(1, 4, 6, 2), 3, GRID_NEAREST, GRID_REFLECTION)
GRID_CASE(cubic_zeros, SHAPE(2, 5, 7, 3), SHAPE(2, 4, 5, 2), 1.3f, GRID_BICUBIC, GRID_ZEROS)
GRID_CASE(cubic_border, SHAPE(1, 5, 7, 3), SHAPE(1, 4, 5, 2), 1.5f, GRID_BICUBIC, GRID_BORDER, true)
GRID_CASE(cubic_mirror, SHAPE(1, 5, 7, 3), SHAPE(1, 4, 5, 2), 2, GRID_BICUBIC, GRID_REFLECTION)
GRID_CASE(one_pixel, SHAPE(1, 1, 1, 2), SHAPE(1, 3, 3, 2), 1.5f, GRID_BILINEAR, GRID_ZEROS)
GRID_CASE(one_mirrored, SHAPE(1, 1, 3, 2), SHAPE(1, 3, 3, 2), 1.5f, GRID_BILINEAR, GRID_REFLECTION,
          true)
GRID_CASE(one_point, SHAPE(2, 6, 5, 1), SHAPE(2, 1, 1, 2), 0.9f, GRID_BILINEAR, GRID_BORDER)
GRID_CASE(crowded, SHAPE(1, 3, 2, 2), SHAPE(1, 40, 30, 2), 1, GRID_BILINEAR, GRID_BORDER)
GRID_CASE(wide, SHAPE(1, 3, 4, 1100), SHAPE(1, 4, 3, 2), 1.2f, GRID_BILINEAR, GRID_ZEROS)
GRID_CASE(large, SHAPE(2, 33, 40, 36), SHAPE(2, 50, 31, 2), 1.1f, GRID_BILINEAR, GRID_ZEROS)

static void fixed_points(Case *c) /* then x is not kept */
{
    Tensor x = case_in(c, "x", SHAPE(2, 5, 6, 3), -1, 1);
    case_out(c, "y",
             grid_sample(x, case_const(c, "grid", SHAPE(2, 4, 4, 2), -1.2f, 1.2f),
                         (GridSampleAttr){ GRID_BILINEAR, GRID_ZEROS }));
}

static void fixed_map(Case *c)
{
    Tensor x = case_const(c, "x", SHAPE(2, 5, 6, 3), -1, 1);
    case_out(c, "y",
             grid_sample(x, case_in_f32(c, "grid", SHAPE(2, 4, 4, 2), -1, 1),
                         (GridSampleAttr){ GRID_BICUBIC, GRID_BORDER }));
}

/* Each misuse gives a sentence with the numbers. */
static const char *misuse(Case *c)
{
    static const char *const said[] = { "the input must be floats (N,H,W,C), not f32 (6,5)",
                                        "the grid must be floats (2,P,Q,2), not f32 (6,5)",
                                        "the grid must be floats (2,P,Q,2), not f32 (3,4,4,2)",
                                        "mode 3 or padding 0 is out of range" };
    (void)c;
    for (int i = 0; i < (int)(sizeof said / sizeof *said); i++) {
        Pool          *pool = pool_new(NULL, "misuse");
        Graph         *g = graph_new(pool, F32);
        Tensor         x = state_add(g, "x", F32, SHAPE(2, 6, 5, 3), CLASS_INPUTS, false);
        Tensor         flat = state_add(g, "flat", F32, SHAPE(6, 5), CLASS_INPUTS, false);
        Tensor         three = state_add(g, "three", F32, SHAPE(3, 4, 4, 2), CLASS_INPUTS, false);
        GridSampleAttr of = { GRID_BILINEAR, GRID_ZEROS };
        switch (i) {
        case 0: grid_sample(flat, three, of); break;
        case 1: grid_sample(x, flat, of); break;
        case 2: grid_sample(x, three, of); break;
        case 3:
            of.mode = GRID_MODES;
            grid_sample(x, state_add(g, "two", F32, SHAPE(2, 4, 4, 2), CLASS_INPUTS, false), of);
            break;
        }
        bool right = graph_check(g) == E_SHAPE && strstr(err_text(), said[i]);
        pool_free(pool);
        if (!right)
            return said[i];
    }
    return NULL;
}

/* Points that are no numbers, or far away: nothing is read outside the map. */
static void far_points(Case *c)
{
    static const float at[] = {
        NAN, 0, 1e30f, -1e30f, INFINITY, 0.5f, 0, -INFINITY, 3e9f, 0, 0, 0
    };
    Tensor x = constant_add(case_graph(c), "x", F32, SHAPE(1, 2, 2, 1),
                            (const float[]){ 1, 2, 3, 4 }, CLASS_CONSTANTS);
    Tensor grid = constant_add(case_graph(c), "grid", F32, SHAPE(1, 2, 3, 2), at, CLASS_CONSTANTS);
    case_out(c, "zeros", grid_sample(x, grid, (GridSampleAttr){ GRID_BILINEAR, GRID_ZEROS }));
    case_out(c, "cubic", grid_sample(x, grid, (GridSampleAttr){ GRID_BICUBIC, GRID_REFLECTION }));
}

static const char *far_points_check(Case *c)
{
    const float *y = case_result(c, "zeros");
    for (int i = 0; i < 5; i++)
        if (y[i] != 0)
            return "a point outside is not 0";
    return y[5] == 2.5f ? NULL : "the centre is off";
}

#define GRID(mode, padding, corners)                                                               \
    "y = F.grid_sample(x.permute(0, 3, 1, 2), grid, '" mode "', '" padding "', " corners           \
    ").permute(0, 2, 3, 1)"

enum { KINKS = CASE_NO_DIFFERENCES };

const OpCase cases_grid_sample[] = {
    { "zeros", linear_zeros, GRID("bilinear", "zeros", "False"), KINKS },
    { "border", linear_border, GRID("bilinear", "border", "False"), KINKS },
    { "reflection", linear_mirror, GRID("bilinear", "reflection", "False"), KINKS },
    { "corners", linear_corners, GRID("bilinear", "zeros", "True"), KINKS },
    { "border, corners", border_corners, GRID("bilinear", "border", "True"), KINKS },
    { "reflection, corners", mirror_corners, GRID("bilinear", "reflection", "True"), KINKS },
    { "nearest", nearest_zeros, GRID("nearest", "zeros", "False"), KINKS },
    { "nearest, border", nearest_border, GRID("nearest", "border", "True"), KINKS },
    { "nearest, reflection", nearest_mirror, GRID("nearest", "reflection", "False"), KINKS },
    { "cubic", cubic_zeros, GRID("bicubic", "zeros", "False") },
    { "cubic, border", cubic_border, GRID("bicubic", "border", "True") },
    { "cubic, reflection", cubic_mirror, GRID("bicubic", "reflection", "False") },
    { "one pixel", one_pixel, GRID("bilinear", "zeros", "False"), KINKS },
    { "one row, reflection", one_mirrored, GRID("bilinear", "reflection", "True"), KINKS },
    { "one point", one_point, GRID("bilinear", "border", "False"), KINKS },
    { "fixed points", fixed_points, GRID("bilinear", "zeros", "False") },
    { "fixed map", fixed_map, GRID("bicubic", "border", "False") },
    { "misuse", one_point, NULL, CASE_NO_TORCH, .check = misuse },
    { "far points", far_points, NULL, CASE_NO_TORCH | CASE_F32_ONLY, .check = far_points_check },
    { "crowded", crowded, GRID("bilinear", "border", "False"), KINKS | CASE_LIVE_ONLY },
    { "wide", wide, GRID("bilinear", "zeros", "False"), KINKS | CASE_LIVE_ONLY },
    { "large", large, GRID("bilinear", "zeros", "False"), KINKS | CASE_LIVE_ONLY },
    { 0 }
};
