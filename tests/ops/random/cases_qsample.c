/* cases_qsample.c -- samples with the noise of time t. */
#include "ops/cases.h"

#include "ops/random/qsample.h"

static Tensor levels(Case *c)
{
    static const float abar[4] = { 0.875f, 0.5f, 0.25f, 0.0078125f };
    return constant_add(case_graph(c), "abar", F32, SHAPE(4), abar, CLASS_CONSTANTS);
}

static void q_each(Case *c)
{
    Tensor x = case_const(c, "x", SHAPE(3, 5, 7, 2), -2, 2),
           e = case_const(c, "e", SHAPE(3, 5, 7, 2), -2, 2);
    case_out(c, "y", q_sample(x, e, levels(c), case_ints(c, "t", SHAPE(3), 0, 4)));
}

static void q_sets(Case *c) /* three images share a time; samples end inside blocks */
{
    Tensor x = case_const(c, "x", SHAPE(6, 31, 301), -2, 2),
           e = case_const(c, "e", SHAPE(6, 31, 301), -2, 2);
    case_out(c, "y", q_sample(x, e, levels(c), case_ints(c, "t", SHAPE(2), 0, 4)));
}

#define ABAR "a = torch.tensor([0.875, 0.5, 0.25, 0.0078125]).double()"
const OpCase cases_q_sample[] = {
    { "each its own", q_each,
      ABAR "[t][:, None, None, None]; y = a.sqrt() * x + (1 - a).sqrt() * e" },
    { "sets", q_sets,
      ABAR "[t].repeat_interleave(3)[:, None, None]; y = a.sqrt() * x + (1 - a).sqrt() * e",
      CASE_LIVE_ONLY },
    { 0 }
};
