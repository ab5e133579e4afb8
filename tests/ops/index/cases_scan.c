/* cases_scan.c -- running sums and products. */
#include "ops/cases.h"

#include "ops/elementwise/basic.h"
#include "ops/elementwise/binary.h"
#include "ops/elementwise/unary.h"
#include "ops/index/scan.h"

static void sums_axes(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(3, 5, 7), -2, 2);
    case_out(c, "last", cumsum(x, -1));
    case_out(c, "middle", cumsum(x, 1));
    case_out(c, "first", cumsum(x, 0));
    case_out(c, "ints", cumsum(case_ints(c, "i", SHAPE(2, 9), -5, 5), 1));
    case_out(c, "bytes", cumsum(case_bytes(c, "b", SHAPE(8, 3), 0, 200), 0));
}

static void sums_large(Case *c)
{
    case_out(c, "long", cumsum(case_in(c, "x", SHAPE(2, 5000), -1, 1), 1));
    case_out(c, "wide", cumsum(case_in(c, "z", SHAPE(3, 100, 600), -1, 1), 1));
}

const OpCase cases_cumsum[] = {
    { "axes", sums_axes,
      "last = x.cumsum(2); middle = x.cumsum(1); first = x.cumsum(0); ints = i.cumsum(1); bytes = "
      "b.cumsum(0)" },
    { "large", sums_large, "long = x.cumsum(1); wide = z.cumsum(1)", CASE_LIVE_ONLY },
    { 0 }
};

static void products_axes(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(3, 5, 7), 0.5f, 1.5f);
    case_out(c, "last", cumprod(x, -1));
    case_out(c, "middle", cumprod(x, 1));
}

static void products_zeros(Case *c) /* none, one or several zeros in a row */
{
    static const float mask[24] = { 1, 1, 0, 1, 1, 1, 0, 1, 0, 1, 1, 1,
                                    1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1 };
    Tensor             x = case_in_f32(c, "x", SHAPE(4, 6), 0.5f, 1.5f),
           m = constant_add(case_graph(c), "m", F32, SHAPE(4, 6), mask, CLASS_CONSTANTS);
    case_out(c, "y", cumprod(mul(add(x, affine(x, -0.5f, 0)), m), 1));
}

const OpCase cases_cumprod[] = {
    { "axes", products_axes, "last = x.cumprod(2); middle = x.cumprod(1)" },
    { "zeros", products_zeros,
      "m = torch.ones(4, 6, dtype=x.dtype); m[0, 2] = m[1, 0] = m[1, 2] = m[2, 5] = 0; "
      "y = (0.5 * x * m).cumprod(1)" },
    { 0 }
};
