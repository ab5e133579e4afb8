/* cases_grouped_mm.c -- rows in groups, each by its own matrix. */
#include "ops/cases.h"

#include "ops/index/grouped_mm.h"

static Tensor ends_of(Case *c, const int32_t *ends, int64_t groups)
{
    return constant_add(case_graph(c), "ends", I32, SHAPE(groups), ends, CLASS_INPUTS);
}

static void groups(Case *c) /* one is empty, and some rows are in none */
{
    Tensor ends = ends_of(c, (const int32_t[]){ 3, 3, 8, 9 }, 4);
    case_out(c, "y",
             grouped_mm(case_in(c, "x", SHAPE(11, 5), -1, 1),
                        case_in(c, "w", SHAPE(4, 5, 7), -1, 1), ends));
}

static void groups_large(Case *c)
{
    Tensor ends = ends_of(c, (const int32_t[]){ 100, 101, 250 }, 3);
    case_out(c, "y",
             grouped_mm(case_in(c, "x", SHAPE(250, 90), -1, 1),
                        case_in(c, "w", SHAPE(3, 90, 130), -1, 1), ends));
}

const OpCase cases_grouped_mm[] = {
    { "groups", groups,
      "y = torch.cat((x[:3] @ w[0], x[3:8] @ w[2], x[8:9] @ w[3], 0 * x[9:] @ w[0]))" },
    { "large", groups_large, "y = torch.cat((x[:100] @ w[0], x[100:101] @ w[1], x[101:] @ w[2]))",
      CASE_LIVE_ONLY },
    { 0 }
};
