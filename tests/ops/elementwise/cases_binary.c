/* cases_binary.c -- two tensors element by element, and a vector along a tensor. */
#include "ops/cases.h"

#include "ops/elementwise/binary.h"
#include "ops/linear/linear.h"
#include "ops/elementwise/unary.h"

static void sub_odd(Case *c)
{
    case_out(c, "y",
             sub(case_in(c, "a", SHAPE(3, 5, 7), -2, 2), case_in(c, "b", SHAPE(3, 5, 7), -2, 2)));
}

static void sub_same(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(9), -2, 2);
    case_out(c, "y", sub(x, sub(x, affine(x, 0.5f, 0))));
}

const OpCase cases_sub[] = { { "odd", sub_odd, "y = a - b" },
                             { "one value, many uses", sub_same, "y = x - (x - 0.5 * x)" },
                             { 0 } };

static void mul_odd(Case *c)
{
    case_out(c, "y",
             mul(case_in(c, "a", SHAPE(3, 5, 7), -2, 2), case_in(c, "b", SHAPE(3, 5, 7), -2, 2)));
}

static void mul_square(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(1, 13), -2, 2);
    case_out(c, "y", mul(x, x));
}

static void mul_large(Case *c)
{
    case_out(c, "y",
             mul(case_in(c, "a", SHAPE(70001), -2, 2), case_const(c, "b", SHAPE(70001), -2, 2)));
}

const OpCase cases_mul[] = { { "odd", mul_odd, "y = a * b" },
                             { "square", mul_square, "y = x * x" },
                             { "large, one gradient", mul_large, "y = a * b", CASE_LIVE_ONLY },
                             { 0 } };

static void weighted_odd(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(2, 11, 3), -2, 2), y = case_in(c, "y", SHAPE(2, 11, 3), -2, 2);
    case_out(c, "s", weighted_sum(x, 0.75f, y, -1.5f));
}

const OpCase cases_weighted_sum[] = { { "odd", weighted_odd, "s = 0.75 * x - 1.5 * y" }, { 0 } };

static void add_rows_bc(Case *c)
{
    case_out(
        c, "y",
        add_rows(case_in(c, "x", SHAPE(3, 5, 2, 7), -2, 2), case_in(c, "v", SHAPE(3, 7), -2, 2)));
}

static void add_rows_c(Case *c)
{
    case_out(c, "y",
             add_rows(case_in(c, "x", SHAPE(2, 9, 5), -2, 2), case_in(c, "v", SHAPE(5), -2, 2)));
}

static void add_rows_positions(Case *c)
{
    case_out(
        c, "y",
        add_rows(case_in(c, "x", SHAPE(3, 9, 5), -2, 2), case_in(c, "v", SHAPE(1, 9, 5), -2, 2)));
}

static void add_rows_thin(Case *c)
{
    case_out(
        c, "y",
        add_rows(case_in(c, "x", SHAPE(2, 17, 1), -2, 2), case_in(c, "v", SHAPE(2, 1), -2, 2)));
    case_out(
        c, "z",
        add_rows(case_in(c, "w", SHAPE(2, 4, 3), -2, 2), case_in(c, "s", SHAPE(1, 1, 1), -2, 2)));
}

static void add_rows_flat(Case *c) /* no axis is repeated */
{
    case_out(c, "y",
             add_rows(case_in(c, "x", SHAPE(4, 6), -2, 2), case_in(c, "v", SHAPE(4, 6), -2, 2)));
}

static void add_rows_large(Case *c) /* several ranges of rows, rows wider than a block too */
{
    case_out(
        c, "y",
        add_rows(case_in(c, "x", SHAPE(3, 5000, 7), -2, 2), case_in(c, "v", SHAPE(3, 7), -2, 2)));
    case_out(c, "z",
             add_rows(case_in(c, "w", SHAPE(70, 1, 1300), -2, 2),
                      case_in(c, "u", SHAPE(1, 1, 1300), -2, 2)));
}

const OpCase cases_add_rows[] = {
    { "batch and channels", add_rows_bc, "y = x + v[:, None, None, :]" },
    { "channels", add_rows_c, "y = x + v" },
    { "positions", add_rows_positions, "y = x + v" },
    { "thin", add_rows_thin, "y = x + v[:, None, :]; z = w + s" },
    { "nothing repeated", add_rows_flat, "y = x + v" },
    { "large", add_rows_large, "y = x + v[:, None, :]; z = w + u", CASE_LIVE_ONLY },
    { 0 }
};

static void mul_rows_bc(Case *c)
{
    case_out(
        c, "y",
        mul_rows(case_in(c, "x", SHAPE(3, 4, 2, 7), -2, 2), case_in(c, "v", SHAPE(3, 7), -2, 2)));
}

static void mul_rows_sample(Case *c) /* one number per sample */
{
    case_out(
        c, "y",
        mul_rows(case_in(c, "x", SHAPE(3, 4, 5), -2, 2), case_in(c, "v", SHAPE(3, 1, 1), -2, 2)));
}

static void mul_rows_f32(Case *c) /* a vector of another type */
{
    case_out(
        c, "y",
        mul_rows(case_in(c, "x", SHAPE(3, 4, 5), -2, 2), case_in_f32(c, "v", SHAPE(5), -2, 2)));
}

static void mul_rows_large(Case *c)
{
    case_out(
        c, "y",
        mul_rows(case_in(c, "x", SHAPE(2, 800, 65), -2, 2), case_in(c, "v", SHAPE(2, 65), -2, 2)));
}

const OpCase cases_mul_rows[] = {
    { "batch and channels", mul_rows_bc, "y = x * v[:, None, None, :]" },
    { "per sample", mul_rows_sample, "y = x * v" },
    { "fp32 vector", mul_rows_f32, "y = x * v" },
    { "large", mul_rows_large, "y = x * v[:, None, :]", CASE_LIVE_ONLY },
    { 0 }
};

static void gated_small(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(2, 9, 5), -2, 2), h = case_in(c, "h", SHAPE(2, 9, 5), -2, 2);
    case_out(c, "y", gated_add(x, case_in(c, "g", SHAPE(2, 5), -2, 2), h));
}

static void gated_large(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(2, 700, 48), -2, 2),
           h = case_in(c, "h", SHAPE(2, 700, 48), -2, 2);
    case_out(c, "y", gated_add(x, case_in(c, "g", SHAPE(2, 48), -2, 2), h));
}

/* What passes the gate comes from a layer: the gradient gives partial column sums for its bias
 * (ops/linear/column_sums.h). */
static void gated_layer(Case *c, int64_t samples, int64_t rows, int64_t width)
{
    LinearAttr attr = { .in_out = true };
    Tensor     none = { case_graph(c), TENSOR_NONE };
    Tensor     x = case_in(c, "x", SHAPE(samples, rows, 1), -2, 2);
    Tensor     h = linear_op(x, case_const(c, "w", SHAPE(1, width), -1, 1),
                             case_in(c, "b", SHAPE(width), -1, 1), attr);
    Tensor     around = linear_op(x, case_const(c, "u", SHAPE(1, width), -1, 1), none, attr);
    Tensor     y = gated_add(around, case_in(c, "g", SHAPE(samples, width), -2, 2), h);
    case_out(c, "y", linear_op(y, case_in(c, "v", SHAPE(width, 1), -1, 1), none, attr));
}

static void gated_short(Case *c) { gated_layer(c, 8, 130, 68); }
static void gated_long(Case *c) { gated_layer(c, 2, 529, 72); }
static void gated_odd(Case *c) { gated_layer(c, 3, 401, 67); }
static void gated_wider(Case *c) { gated_layer(c, 2, 1200, 4612); }
static void gated_tokens(Case *c) { gated_layer(c, 3, 3001, 384); }

#define GATED_LAYER "y = (x @ u + g[:, None, :] * (x @ w + b)) @ v"

const OpCase cases_gated_add[] = {
    { "tokens", gated_small, "y = x + g[:, None, :] * h" },
    { "a layer, short samples", gated_short, GATED_LAYER },
    { "a layer, long samples", gated_long, GATED_LAYER },
    { "a layer, odd", gated_odd, GATED_LAYER, CASE_LIVE_ONLY },
    { "a wide layer", gated_wider, GATED_LAYER, CASE_LIVE_ONLY | CASE_NO_DIFFERENCES },
    { "a layer, many rows", gated_tokens, GATED_LAYER, CASE_LIVE_ONLY | CASE_NO_DIFFERENCES },
    { "large", gated_large, "y = x + g[:, None, :] * h", CASE_LIVE_ONLY },
    { 0 }
};
