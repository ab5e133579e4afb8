/* cases_permute.c -- axes in another order, patches. */
#include "ops/cases.h"

#include "ops/arrange/permute.h"

static void permute_orders(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(2, 3, 4, 5), -2, 2),
           z = case_in(c, "z", SHAPE(1, 6, 1), -2, 2);
    case_out(c, "nchw", permute(x, (int[]){ 0, 3, 1, 2 }));
    case_out(c, "heads", permute(x, (int[]){ 0, 2, 1, 3 }));
    case_out(c, "back", permute(x, (int[]){ 3, 2, 1, 0 }));
    case_out(c, "swap", swap_axes(x, 0, -1));
    case_out(c, "same", swap_axes(x, 2, 2));
    case_out(c, "ones", permute(z, (int[]){ 1, 2, 0 }));
}

static void permute_large(Case *c) /* past one tile on both sides */
{
    case_out(c, "y", swap_axes(case_in(c, "x", SHAPE(3, 131, 77), -2, 2), 1, 2));
    case_out(c, "z", permute(case_in(c, "w", SHAPE(5, 37, 3, 33), -2, 2), (int[]){ 2, 0, 3, 1 }));
}

static void patches_2d(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(2, 4, 6, 3), -2, 2);
    Tensor p = patchify2d(x, 2, 3);
    case_out(c, "p", p);
    case_out(c, "x2", unpatchify2d(p, tensor_shape(x), 2, 3));
}

static void patches_3d(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(2, 4, 2, 6, 3), -2, 2);
    Tensor p = patchify3d(x, 2, 1, 3);
    case_out(c, "p", p);
    case_out(c, "x2", unpatchify3d(p, tensor_shape(x), 2, 1, 3));
}

const OpCase cases_permute[] = {
    { "orders", permute_orders,
      "nchw = x.permute(0, 3, 1, 2); heads = x.permute(0, 2, 1, 3); "
      "back = x.permute(3, 2, 1, 0); swap = x.transpose(0, 3); same = x * 1; "
      "ones = z.permute(1, 2, 0)" },
    { "patches", patches_2d,
      "p = x.reshape(2, 2, 2, 2, 3, 3).permute(0, 1, 3, 2, 4, 5).reshape(2, 4, 18); x2 = x * 1" },
    { "cubes", patches_3d,
      "p = x.reshape(2, 2, 2, 2, 1, 2, 3, 3).permute(0, 1, 3, 5, 2, 4, 6, 7).reshape(2, 8, 18); "
      "x2 = x * 1" },
    { "large", permute_large, "y = x.transpose(1, 2); z = w.permute(2, 0, 3, 1)", CASE_LIVE_ONLY },
    { 0 }
};
