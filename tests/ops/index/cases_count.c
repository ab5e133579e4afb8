/* cases_count.c -- one-hot rows and counts. */
#include "ops/cases.h"

#include "ops/index/count.h"

static void rows_of_types(Case *c)
{
    Tensor ids = case_ints(c, "i", SHAPE(4, 3), 0, 5);
    case_out(c, "floats", one_hot(ids, 5, F32));
    case_out(c, "half", one_hot(ids, 7, BF16));
    case_out(c, "ints", one_hot(ids, 5, I32));
    case_out(c, "bytes", one_hot(ids, 6, U8));
}

const OpCase cases_one_hot[] = {
    { "types", rows_of_types,
      "floats = F.one_hot(i, 5); half = F.one_hot(i, 7); ints = floats; bytes = F.one_hot(i, 6)" },
    { 0 }
};

static void bins(Case *c)
{
    Tensor x = case_const(c, "x", SHAPE(11, 33), -2, 2);
    case_out(c, "ids", bincount(case_ints(c, "i", SHAPE(200), 0, 9), 12));
    case_out(c, "floats", histc(x, 7, -1, 1));
    case_out(c, "one", histc(x, 1, -2, 2));
}

static void bins_large(Case *c)
{
    case_out(c, "ids", bincount(case_ints(c, "i", SHAPE(70000), 0, 3000), 3000));
    case_out(c, "floats", histc(case_const(c, "x", SHAPE(50000), -2, 2), 100, -2, 1.5f));
}

const OpCase cases_count[] = {
    { "bins", bins,
      "ids = i.bincount(minlength=12); x = x.float(); floats = x.histc(7, -1, 1); one = x.histc(1, "
      "-2, 2)" },
    { "large", bins_large,
      "ids = i.bincount(minlength=3000); floats = x.float().histc(100, -2, 1.5)", CASE_LIVE_ONLY },
    { 0 }
};
