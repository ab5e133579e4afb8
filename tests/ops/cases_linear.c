/* cases_linear.c -- linear layers in both weight layouts. */
#include "cases.h"

#include "ops/linear.h"

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
static void flax_layout(Case *c)  { linear_case(c, SHAPE(2, 11, 13), 4, true, true); }
static void no_bias(Case *c)      { linear_case(c, SHAPE(17, 3), 18, false, false); }
static void one_row(Case *c)      { linear_case(c, SHAPE(1, 33), 65, false, true); }
static void one_column(Case *c)   { linear_case(c, SHAPE(37, 1), 1, true, true); }
static void large(Case *c)        { linear_case(c, SHAPE(2, 515, 193), 259, false, true); }

/* Large enough, with rows of 4 more than a multiple of 8, to go two rows at a time on a card. */
static void odd_widths(Case *c) { linear_case(c, SHAPE(2, 1024, 468), 564, true, true); }
static void odd_in(Case *c)     { linear_case(c, SHAPE(2048, 588), 464, false, true); }
static void odd_out(Case *c)    { linear_case(c, SHAPE(2048, 472), 564, false, false); }

static void twice(Case *c, bool in_out)      /* the gradients of w and b are sums */
{
    Tensor x = case_in(c, "x", SHAPE(5, 6), -1, 1), w = case_in(c, "w", SHAPE(6, 6), -1, 1);
    Tensor b = case_in(c, "b", SHAPE(6), -1, 1);
    case_out(c, "y",
             linear_op(linear_op(x, w, b, (LinearAttr){ in_out }), w, b, (LinearAttr){ in_out }));
}

static void torch_twice(Case *c)  { twice(c, false); }
static void flax_twice(Case *c)   { twice(c, true); }

const OpCase cases_linear[] = {
    { "torch layout, used twice", torch_twice, "y = F.linear(F.linear(x, w, b), w, b)" },
    { "flax layout, used twice", flax_twice, "y = (x @ w + b) @ w + b" },
    { "torch layout", torch_layout, "y = F.linear(x, w, b)" },
    { "flax layout", flax_layout, "y = x @ w + b" },
    { "no bias", no_bias, "y = F.linear(x, w)" },
    { "one row", one_row, "y = F.linear(x, w, b)" },
    { "one column", one_column, "y = x @ w + b" },
    { "large", large, "y = F.linear(x, w, b)", CASE_LIVE_ONLY },
    { "odd widths", odd_widths, "y = x @ w + b", CASE_LIVE_ONLY | CASE_NO_DIFFERENCES },
    { "odd width in", odd_in, "y = F.linear(x, w, b)", CASE_LIVE_ONLY | CASE_NO_DIFFERENCES },
    { "odd width out", odd_out, "y = F.linear(x, w)", CASE_LIVE_ONLY | CASE_NO_DIFFERENCES },
    { 0 }
};
