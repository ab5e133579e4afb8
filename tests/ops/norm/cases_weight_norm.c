/* cases_weight_norm.c -- weights by length and direction. */
#include "ops/cases.h"

#include "ops/norm/weight_norm.h"

static void column_of_lengths(Case *c) /* as PyTorch keeps them: (rows,1) */
{
    case_out(
        c, "w",
        weight_norm(case_in(c, "g", SHAPE(6, 1), 0.5f, 2), case_in(c, "v", SHAPE(6, 43), -1, 1)));
}

static void convolution(Case *c)
{
    case_out(
        c, "w",
        weight_norm(case_in(c, "g", SHAPE(3), 0.5f, 2), case_in(c, "v", SHAPE(3, 2, 3, 3), -1, 1)));
}

static void one_wide(Case *c) /* only the sign of v is left; its gradient is 0 by algebra */
{
    case_out(
        c, "w",
        weight_norm(case_in(c, "g", SHAPE(5), 0.5f, 2), case_in(c, "v", SHAPE(5, 1), 0.5f, 1)));
}

static void frozen_direction(Case *c)
{
    case_out(
        c, "w",
        weight_norm(case_in(c, "g", SHAPE(4, 1), 0.5f, 2), case_const(c, "v", SHAPE(4, 9), -1, 1)));
}

static void line(Case *c)
{
    case_out(c, "w",
             weight_norm(case_in(c, "g", SHAPE(5, 1, 1), 0.5f, 2),
                         case_in(c, "v", SHAPE(5, 3, 7), -1, 1)));
}

static void volume(Case *c)
{
    case_out(c, "w",
             weight_norm(case_in(c, "g", SHAPE(4, 1, 1, 1, 1), 0.5f, 2),
                         case_in(c, "v", SHAPE(4, 2, 3, 2, 3), -1, 1)));
}

static void large(Case *c)
{
    case_out(c, "w",
             weight_norm(case_in(c, "g", SHAPE(131, 1), 0.5f, 2),
                         case_in(c, "v", SHAPE(131, 517), -1, 1)));
}

#define WEIGHT(g) "w = " g " * v / v.flatten(1).norm(dim=1).reshape(-1, *[1] * (v.dim() - 1))"

const OpCase cases_weight_norm[] = { { "column of lengths", column_of_lengths, WEIGHT("g") },
                                     { "convolution", convolution,
                                       WEIGHT("g.reshape(3, 1, 1, 1)") },
                                     { "one wide", one_wide, WEIGHT("g.reshape(5, 1)"), 0, 1e-2 },
                                     { "line", line, WEIGHT("g") },
                                     { "volume", volume, "w = torch._weight_norm(v, g, 0)" },
                                     { "frozen direction", frozen_direction, WEIGHT("g") },
                                     { "large", large, WEIGHT("g"), CASE_LIVE_ONLY },
                                     { 0 } };
