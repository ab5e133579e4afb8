/* cases_embedding.c -- rows of a table, sinusoids of time. */
#include "ops/cases.h"

#include "ops/embedding/embedding.h"

static void embedding_tokens(Case *c)
{
    case_out(c, "y",
             embedding(case_in(c, "table", SHAPE(7, 5), -2, 2),
                       case_ints(c, "ids", SHAPE(3, 11), 0, 7)));
}

static void embedding_thin(Case *c) /* rows that no id names get zeros */
{
    case_out(
        c, "y",
        embedding(case_in(c, "table", SHAPE(40, 1), -2, 2), case_ints(c, "ids", SHAPE(5), 0, 40)));
    case_out(c, "z",
             lookup(case_in(c, "levels", SHAPE(9), -2, 2), case_ints(c, "t", SHAPE(2, 3), 0, 9)));
}

static void embedding_large(Case *c)
{
    case_out(c, "y",
             embedding(case_in(c, "table", SHAPE(64, 33), -2, 2),
                       case_ints(c, "ids", SHAPE(2, 1500), 0, 64)));
}

const OpCase cases_embedding[] = { { "tokens", embedding_tokens, "y = table[ids]" },
                                   { "thin", embedding_thin, "y = table[ids]; z = levels[t]" },
                                   { "large", embedding_large, "y = table[ids]", CASE_LIVE_ONLY },
                                   { 0 } };

static void time_ints(Case *c)
{
    case_out(c, "y", time_embedding(case_ints(c, "t", SHAPE(5), 0, 1000), 12, 10000));
}

static void time_floats(Case *c)
{
    static const float t[3] = { 0, 0.5f, 999.25f };
    Tensor             times = constant_add(case_graph(c), "times", F32, SHAPE(3), t, CLASS_INPUTS);
    case_out(c, "y", time_embedding(times, 2, 10000));
    case_out(c, "z", time_embedding(times, 64, 10000));
}

const OpCase cases_time_embedding[] = {
    { "whole times", time_ints,
      "a = t[:, None] * torch.exp(-math.log(10000) * torch.arange(6).double() / 6); "
      "y = torch.cat([a.cos(), a.sin()], 1)" },
    { "any time", time_floats,
      "t = torch.tensor([0, 0.5, 999.25]).double()[:, None]; "
      "y = torch.cat([t.cos(), t.sin()], 1); "
      "a = t * torch.exp(-math.log(10000) * torch.arange(32).double() / 32); "
      "z = torch.cat([a.cos(), a.sin()], 1)" },
    { 0 }
};
