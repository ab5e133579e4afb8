/* cases_linear.c -- linear layers in both weight layouts. */
#include "ops/cases.h"

#include "ops/elementwise/basic.h"
#include "ops/linear/linear.h"
#include "ops/elementwise/unary.h"

static void linear_case(Case *c, Shape x, int64_t out, bool in_out, bool bias)
{
    int64_t in = dim(x, -1);
    Tensor  none = { case_graph(c), TENSOR_NONE };
    Tensor  tx = case_in(c, "x", x, -1, 1);
    Tensor  w = case_in(c, "w", in_out ? SHAPE(in, out) : SHAPE(out, in), -1, 1);
    case_out(
        c, "y",
        linear_op(tx, w, bias ? case_in(c, "b", SHAPE(out), -1, 1) : none, (LinearAttr){ in_out }));
}

static void torch_layout(Case *c) { linear_case(c, SHAPE(3, 5, 7), 9, false, true); }
static void flax_layout(Case *c) { linear_case(c, SHAPE(2, 11, 13), 4, true, true); }
static void no_bias(Case *c) { linear_case(c, SHAPE(17, 3), 18, false, false); }
static void one_row(Case *c) { linear_case(c, SHAPE(1, 33), 65, false, true); }
static void one_column(Case *c) { linear_case(c, SHAPE(37, 1), 1, true, true); }
static void large(Case *c) { linear_case(c, SHAPE(2, 515, 193), 259, false, true); }

/* Large enough, with rows of 4 more than a multiple of 8, to go two rows at a time on a GPU. */
static void odd_widths(Case *c) { linear_case(c, SHAPE(2, 1024, 468), 564, true, true); }
static void odd_in(Case *c) { linear_case(c, SHAPE(2048, 588), 464, false, true); }
static void odd_out(Case *c) { linear_case(c, SHAPE(2048, 472), 564, false, false); }

/* Columns of dy are summed by blocks on a GPU: two such rows a stripe, or three blocks a row. */
static void wide_bias(Case *c) { linear_case(c, SHAPE(300, 8), 1404, true, true); }
static void wider_bias(Case *c) { linear_case(c, SHAPE(300, 4), 4612, true, true); }

static void twice(Case *c, bool in_out) /* the gradients of w and b are sums */
{
    Tensor x = case_in(c, "x", SHAPE(5, 6), -1, 1), w = case_in(c, "w", SHAPE(6, 6), -1, 1);
    Tensor b = case_in(c, "b", SHAPE(6), -1, 1);
    case_out(c, "y",
             linear_op(linear_op(x, w, b, (LinearAttr){ in_out }), w, b, (LinearAttr){ in_out }));
}

static void torch_twice(Case *c) { twice(c, false); }
static void flax_twice(Case *c) { twice(c, true); }

/* The product itself adds: to a tensor that only it reads, and to its own input. */
static void onto(Case *c, Shape x, int64_t out, bool in_out)
{
    int64_t in = dim(x, -1);
    Tensor  tx = case_in(c, "x", x, -1, 1), h = silu(tx);
    Tensor  w = case_in(c, "w", in_out ? SHAPE(in, out) : SHAPE(out, in), -1, 1);
    Tensor  v = case_in(c, "v", SHAPE(out, out), -1, 1);
    Tensor  b = case_in(c, "b", SHAPE(out), -1, 1);
    Tensor  r = silu(case_in(c, "r", shape_with(x, -1, out), -1, 1));
    Tensor  y = linear_onto(h, w, b, r, (LinearAttr){ in_out });
    Tensor  none = { case_graph(c), TENSOR_NONE };
    case_out(c, "y", linear_onto(y, v, none, y, (LinearAttr){ in_out }));
}

static void torch_onto(Case *c) { onto(c, SHAPE(3, 5, 7), 9, false); }
static void flax_onto(Case *c) { onto(c, SHAPE(2, 11, 13), 4, true); }
static void odd_onto(Case *c) { onto(c, SHAPE(202, 1636), 1636, true); }

/* One input of several layers: its gradient is their sum, added by the products themselves. */
static void shared(Case *c, Shape x, const int64_t outs[3], bool in_out, bool residual)
{
    static const char *const weights[] = { "u", "v", "w" }, *const results[] = { "p", "q", "r" };
    int64_t in = dim(x, -1);
    Tensor  none = { case_graph(c), TENSOR_NONE }, h = silu(case_in(c, "x", x, -1, 1));
    for (int i = 0; i < 3 && outs[i]; i++) {
        Tensor w = case_in(c, weights[i], in_out ? SHAPE(in, outs[i]) : SHAPE(outs[i], in), -1, 1);
        Tensor y = linear_op(h, w, none, (LinearAttr){ in_out });
        case_out(c, results[i], residual ? add(h, y) : y);
    }
}

static void torch_shared(Case *c)
{
    shared(c, SHAPE(3, 5, 7), (const int64_t[]){ 9, 4, 11 }, false, false);
}
static void flax_shared(Case *c)
{
    shared(c, SHAPE(2, 11, 13), (const int64_t[]){ 4, 18, 1 }, true, false);
}
/* the summand has other readers too */
static void residuals(Case *c) { shared(c, SHAPE(5, 9), (const int64_t[]){ 9, 9, 0 }, true, true); }
static void deep_shared(Case *c) /* sums long enough for split-K on a GPU */
{
    shared(c, SHAPE(2, 32, 40), (const int64_t[]){ 4160, 2112, 0 }, false, false);
}
static void odd_shared(Case *c)
{
    shared(c, SHAPE(2, 128, 468), (const int64_t[]){ 4484, 4488, 0 }, true, false);
}
static void odd_residuals(Case *c)
{
    shared(c, SHAPE(202, 1636), (const int64_t[]){ 1636, 1636, 0 }, false, true);
}

const OpCase cases_linear[] = {
    { "torch layout, used twice", torch_twice, "y = F.linear(F.linear(x, w, b), w, b)" },
    { "flax layout, used twice", flax_twice, "y = (x @ w + b) @ w + b" },
    { "torch layout", torch_layout, "y = F.linear(x, w, b)" },
    { "flax layout", flax_layout, "y = x @ w + b" },
    { "no bias", no_bias, "y = F.linear(x, w)" },
    { "one row", one_row, "y = F.linear(x, w, b)" },
    { "one column", one_column, "y = x @ w + b" },
    { "torch layout, one input", torch_shared,
      "h = F.silu(x); p = F.linear(h, u); q = F.linear(h, v); r = F.linear(h, w)" },
    { "flax layout, one input", flax_shared, "h = F.silu(x); p = h @ u; q = h @ v; r = h @ w" },
    { "residuals", residuals, "h = F.silu(x); p = h + h @ u; q = h + h @ v" },
    { "torch layout, added", torch_onto,
      "h = F.silu(r) + F.linear(F.silu(x), w, b); y = h + F.linear(h, v)" },
    { "flax layout, added", flax_onto, "h = F.silu(r) + F.silu(x) @ w + b; y = h + h @ v" },
    { "odd widths, added", odd_onto, "h = F.silu(r) + F.silu(x) @ w + b; y = h + h @ v",
      CASE_LIVE_ONLY | CASE_NO_DIFFERENCES },
    { "deep, one input", deep_shared, "h = F.silu(x); p = F.linear(h, u); q = F.linear(h, v)",
      CASE_LIVE_ONLY | CASE_NO_DIFFERENCES },
    { "odd widths, one input", odd_shared, "h = F.silu(x); p = h @ u; q = h @ v",
      CASE_LIVE_ONLY | CASE_NO_DIFFERENCES },
    { "odd widths, residuals", odd_residuals,
      "h = F.silu(x); p = h + F.linear(h, u); q = h + F.linear(h, v)",
      CASE_LIVE_ONLY | CASE_NO_DIFFERENCES },
    { "large", large, "y = F.linear(x, w, b)", CASE_LIVE_ONLY },
    { "wide bias", wide_bias, "y = x @ w + b", CASE_LIVE_ONLY | CASE_NO_DIFFERENCES },
    { "wider bias", wider_bias, "y = x @ w + b", CASE_LIVE_ONLY | CASE_NO_DIFFERENCES },
    { "odd widths", odd_widths, "y = x @ w + b", CASE_LIVE_ONLY | CASE_NO_DIFFERENCES },
    { "odd width in", odd_in, "y = F.linear(x, w, b)", CASE_LIVE_ONLY | CASE_NO_DIFFERENCES },
    { "odd width out", odd_out, "y = F.linear(x, w)", CASE_LIVE_ONLY | CASE_NO_DIFFERENCES },
    { 0 }
};
