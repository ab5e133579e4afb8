/* cases_reduce.c -- sums over axes and repetition. */
#include "ops/cases.h"

#include "ops/reduce/reduce.h"

static void sum_each(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(2, 5, 3, 7), -1, 1);
    case_out(c, "middle", sum_axes(x, 1, 2));
    case_out(c, "mean", mean_axes(x, 1, -2));
    case_out(c, "front", sum_axes(x, 0, 0));
    case_out(c, "back", mean_axes(x, -1, -1));
    case_out(c, "all", sum_axes(x, 0, -1));
}

static void sum_large(Case *c) /* several slices, and K wider than a block */
{
    case_out(c, "y", sum_axes(case_in(c, "x", SHAPE(40000, 3), -1, 1), 0, 0));
    case_out(c, "z", mean_axes(case_in(c, "w", SHAPE(2, 150, 1100), -1, 1), 1, 1));
    case_out(c, "s", sum_axes(case_in(c, "v", SHAPE(50001), -1, 1), 0, 0));
}

static void sum_sets(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(2, 5, 3, 7), -1, 1),
           i = case_ints(c, "i", SHAPE(4, 3, 5), -9, 9);
    case_out(c, "apart", sum_over(x, 5, false));
    case_out(c, "kept", mean_over(x, 11, true));
    case_out(c, "all", mean_over(x, 15, false));
    case_out(c, "one", sum_over(x, 8, true));
    case_out(c, "none", sum_over(x, 0, false));
    case_out(c, "ints", sum_over(i, 5, false));
}

const OpCase cases_sum[] = {
    { "sets", sum_sets,
      "apart = x.sum((0, 2)); kept = x.mean((0, 1, 3), True); all = x.mean().view(1); one = "
      "x.sum(3, "
      "True); none = x * 1; ints = i.sum((0, 2))" },
    { "each axis", sum_each,
      "middle = x.sum((1, 2)); mean = x.mean((1, 2)); front = x.sum(0); back = x.mean(-1); "
      "all = x.sum().reshape(1)" },
    { "large", sum_large, "y = x.sum(0); z = w.mean(1); s = v.sum().reshape(1)", CASE_LIVE_ONLY,
      2e-5 },
    { 0 }
};

static void repeat_both(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(2, 3, 5), -1, 1);
    case_out(c, "each", repeat_each(x, 0, 3));
    case_out(c, "inner", repeat_each(x, -1, 2));
    case_out(c, "tiled", tile(x, 1, 4));
    case_out(c, "once", tile(x, 1, 1));
}

static void repeat_large(Case *c)
{
    case_out(c, "y", repeat_each(case_in(c, "x", SHAPE(3, 501), -1, 1), 0, 40));
}

const OpCase cases_repeat[] = {
    { "each and tiled", repeat_both,
      "each = x.repeat_interleave(3, 0); inner = x.repeat_interleave(2, 2); "
      "tiled = x.repeat(1, 4, 1); once = x * 1" },
    { "large", repeat_large, "y = x.repeat_interleave(40, 0)", CASE_LIVE_ONLY },
    { 0 }
};
