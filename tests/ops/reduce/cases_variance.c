/* cases_variance.c -- variance and product over axes. */
#include "ops/cases.h"

#include "ops/elementwise/basic.h"
#include "ops/elementwise/binary.h"
#include "ops/elementwise/unary.h"
#include "ops/reduce/variance.h"

static void var_axes(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(4, 6, 5), -2, 2);
    case_out(c, "last", var_over(x, 4, 1, false));
    case_out(c, "middle", var_over(x, 2, 0, true));
    case_out(c, "two", var_over(x, 6, 1, false));
    case_out(c, "apart", var_over(x, 5, 1, true));
    case_out(c, "all", var_over(x, 7, 0, false));
}

static void var_far(Case *c) /* the mean is far from 0 */
{
    case_out(c, "y", var_over(case_in(c, "x", SHAPE(3, 700), 100, 101), 2, 1, false));
}

static void var_large(Case *c)
{
    case_out(c, "long", var_over(case_in(c, "x", SHAPE(2, 5000), -2, 2), 2, 1, false));
    case_out(c, "wide", var_over(case_in(c, "z", SHAPE(3, 100, 600), -2, 2), 2, 1, false));
}

const OpCase cases_var[] = {
    { "axes", var_axes,
      "last = x.var(2); middle = x.var(1, correction=0, keepdim=True); two = x.var((1, 2)); apart "
      "= x.var((0, 2), keepdim=True); all = x.var(correction=0).view(1)" },
    { "far", var_far, "y = x.var(1)", CASE_F32_ONLY | CASE_NO_DIFFERENCES, 1e-4 },
    { "large", var_large, "long = x.var(1); wide = z.var(1)", CASE_LIVE_ONLY },
    { 0 }
};

static void prod_axes(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(4, 6, 5), 0.5f, 1.5f);
    case_out(c, "last", prod_over(x, 4, false));
    case_out(c, "middle", prod_over(x, 2, true));
    case_out(c, "apart", prod_over(x, 5, false));
}

static void prod_zeros(Case *c) /* none, one or several zeros in a row */
{
    static const float mask[24] = { 1, 1, 0, 1, 1, 1, 0, 1, 0, 1, 1, 1,
                                    1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1 };
    Tensor             x = case_in_f32(c, "x", SHAPE(4, 6), 0.5f, 1.5f),
           m = constant_add(case_graph(c), "m", F32, SHAPE(4, 6), mask, CLASS_CONSTANTS);
    case_out(c, "y", prod_over(mul(affine(x, 2, 0), m), 2, false));
    case_out(c, "z", prod_over(mul(x, m), 1, false));
}

const OpCase cases_prod[] = {
    { "axes", prod_axes,
      "last = x.prod(2); middle = x.prod(1, True); apart = x.permute(1, 0, 2).reshape(6, "
      "20).prod(1)" },
    { "zeros", prod_zeros,
      "m = torch.ones(4, 6, dtype=x.dtype); m[0, 2] = m[1, 0] = m[1, 2] = m[2, 5] = 0; "
      "y = (2 * x * m).prod(1); z = (x * m).prod(0)" },
    { 0 }
};
