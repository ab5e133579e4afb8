/* cases_extreme.c -- the largest and smallest, and their indices. */
#include "ops/cases.h"

#include "ops/elementwise/basic.h"
#include "ops/index/extreme.h"

static void which_axes(Case *c)
{
    Tensor x = case_const(c, "x", SHAPE(4, 6, 5), -2, 2),
           i = case_ints(c, "i", SHAPE(3, 40), -3, 3), b = case_bytes(c, "b", SHAPE(9, 4), 0, 5);
    case_out(c, "last", argmax(x, -1, false));
    case_out(c, "middle", argmin(x, 1, true));
    case_out(c, "first", argmax(x, 0, false));
    case_out(c, "ints", argmax(i, 1, false));
    case_out(c, "bytes", argmin(b, 0, false));
    case_out(c, "one", argmax(case_const(c, "v", SHAPE(7), -2, 2), 0, false));
}

static void which_large(Case *c)
{
    case_out(c, "long", argmax(case_const(c, "x", SHAPE(2, 5000), -50, 50), 1, false));
    case_out(c, "wide", argmin(case_const(c, "z", SHAPE(3, 100, 600), -50, 50), 1, false));
}

/* Values repeat: the first of equals counts, in numpy also for floats. */
const OpCase cases_arg_extreme[] = {
    { "axes", which_axes,
      "t = torch.from_numpy; n = lambda v: v.numpy(); last = t(n(x).argmax(2)); middle = "
      "t(n(x).argmin(1))[:, None]; first = t(n(x).argmax(0)); ints = t(n(i).argmax(1)); bytes = "
      "t(n(b).argmin(0)); one = t(n(v).argmax(0, keepdims=True))" },
    { "large", which_large,
      "t = torch.from_numpy; long = t(x.numpy().argmax(1)); wide = t(z.numpy().argmin(1))",
      CASE_LIVE_ONLY },
    { 0 }
};

static void values_axes(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(4, 6, 5), -2, 2), i = case_ints(c, "i", SHAPE(3, 40), -3, 3);
    Tensor which;
    case_out(c, "middle", amax(x, 2, false));
    case_out(c, "last", amin(x, 4, true));
    case_out(c, "two", amax(x, 3, false));
    case_out(c, "apart", amax(x, 5, true));
    case_out(c, "all", amin(x, 7, false));
    case_out(c, "ints", amax(i, 2, false));
    case_out(c, "along", max_along(x, 1, false, &which));
    case_out(c, "kept", min_along(x, -1, true, NULL));
}

static void values_equal(Case *c) /* five numbers in all: many are equal */
{
    static const float steps[5] = { -1, 0, 0.5f, 1, 2 };
    float              data[84];
    for (int i = 0; i < 84; i++)
        data[i] = steps[i * i % 5];
    Tensor zero = case_in_f32(c, "z", SHAPE(3, 7, 4), 0, 0),
           x = add(zero,
                   constant_add(case_graph(c), "x", F32, SHAPE(3, 7, 4), data, CLASS_CONSTANTS));
    case_out(c, "last", amax(x, 4, false));
    case_out(c, "rows", amin(x, 6, false));
    case_out(c, "apart", amax(x, 5, false));
}

static void values_large(Case *c)
{
    case_out(c, "long", amax(case_in(c, "x", SHAPE(2, 5000), -50, 50), 2, false));
    case_out(c, "wide", amin(case_in(c, "z", SHAPE(3, 100, 600), -50, 50), 2, false));
}

#define EQUAL_DATA                                                                                 \
    "s = torch.tensor([-1, 0, 0.5, 1, 2], dtype=z.dtype); x = z + s[torch.arange(84) ** 2 % "      \
    "5].view(3, 7, 4); "

const OpCase cases_extreme[] = {
    { "axes", values_axes,
      "middle = x.amax(1); last = x.amin(2, True); two = x.amax((0, 1)); apart = x.amax((0, 2), "
      "True); all = x.amin().view(1); ints = i.amax(1); along = x.max(1).values; kept = x.min(2, "
      "True).values",
      CASE_NO_DIFFERENCES },
    { "equal", values_equal,
      EQUAL_DATA "last = x.amax(2); rows = x.amin((1, 2)); apart = x.amax((0, 2))",
      CASE_NO_DIFFERENCES },
    { "large", values_large, "long = x.amax(1); wide = z.amin(1)",
      CASE_LIVE_ONLY | CASE_NO_DIFFERENCES },
    { 0 }
};
