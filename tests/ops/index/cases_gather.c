/* cases_gather.c -- gather, scatter_add, scatter, indices of several axes. */
#include "ops/cases.h"

#include "ops/index/gather.h"

static void gather_axes(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(4, 5, 6), -2, 2);
    case_out(c, "last", gather(x, -1, case_ints(c, "i", SHAPE(4, 5, 3), 0, 6)));
    case_out(c, "middle", gather(x, 1, case_ints(c, "j", SHAPE(4, 9, 6), 0, 5)));
    case_out(c, "first", gather(x, 0, case_ints(c, "k", SHAPE(2, 5, 6), 0, 4)));
    case_out(c, "fewer", gather(x, 1, case_ints(c, "l", SHAPE(3, 2, 4), 0, 5)));
}

static void rows_axes(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(4, 7, 5), -2, 2), v = case_in(c, "v", SHAPE(9), -2, 2);
    case_out(c, "middle", index_rows(x, 1, case_ints(c, "i", SHAPE(2, 3), 0, 7), -1));
    case_out(c, "back", index_rows(x, 0, case_ints(c, "j", SHAPE(6), -4, 4), -1));
    case_out(c, "last", index_rows(x, -1, case_ints(c, "k", SHAPE(11), -5, 5), -1));
    case_out(c, "one", index_rows(v, 0, case_ints(c, "l", SHAPE(2, 5), 0, 9), -1));
}

static void rows_padded(Case *c)
{
    case_out(c, "y",
             index_rows(case_in(c, "table", SHAPE(6, 5), -2, 2), 0,
                        case_ints(c, "ids", SHAPE(3, 7), 0, 6), 2));
}

static void index_several(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(4, 5, 3), -2, 2), i = case_ints(c, "i", SHAPE(6), -4, 4),
           j = case_ints(c, "j", SHAPE(2, 1), 0, 5), k = case_ints(c, "k", SHAPE(6), 0, 3);
    case_out(c, "two", index_at(x, TENSORS(i, j)));
    case_out(c, "three", index_at(x, TENSORS(i, j, k)));
    case_out(c, "one", index_at(x, TENSORS(i)));
}

static void gather_large(Case *c)
{
    case_out(c, "y",
             gather(case_in(c, "x", SHAPE(300, 40), -2, 2), 0,
                    case_ints(c, "i", SHAPE(2000, 40), 0, 300)));
    case_out(c, "z",
             index_rows(case_in(c, "t", SHAPE(3, 50, 33), -2, 2), 1,
                        case_ints(c, "j", SHAPE(900), 0, 50), -1));
    case_out(c, "w",
             index_rows(case_in(c, "u", SHAPE(500), -2, 2), 0,
                        case_ints(c, "k", SHAPE(5000), 0, 500), -1));
}

const OpCase cases_gather[] = {
    { "axes", gather_axes,
      "last = x.gather(2, i); middle = x.gather(1, j); first = x.gather(0, k); fewer = x.gather(1, "
      "l)" },
    { "rows", rows_axes, "middle = x[:, i]; back = x[j]; last = x[:, :, k]; one = v[l]" },
    { "padding", rows_padded,
      "t = torch.where(torch.arange(6)[:, None] == 2, table.detach(), table); y = t[ids]",
      CASE_NO_DIFFERENCES },
    { "several", index_several, "two = x[i, j]; three = x[i, j, k]; one = x[i]" },
    { "large", gather_large, "y = x.gather(0, i); z = t[:, j]; w = u[k]", CASE_LIVE_ONLY },
    { 0 }
};

const OpCase cases_flat_index[] = {
    { "several", index_several, "two = x[i, j]; three = x[i, j, k]; one = x[i]" }, { 0 }
};

static void add_axes(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(3, 4, 5), -2, 2), v = case_in(c, "v", SHAPE(6), -2, 2);
    case_out(c, "middle",
             scatter_add(x, 1, case_ints(c, "i", SHAPE(3, 7, 5), 0, 4),
                         case_in(c, "s", SHAPE(3, 7, 5), -2, 2)));
    case_out(c, "last",
             scatter_add(x, 2, case_ints(c, "j", SHAPE(3, 4, 2), 0, 5),
                         case_in(c, "t", SHAPE(3, 4, 3), -2, 2))); /* more values than indices */
    case_out(
        c, "one",
        scatter_add(v, 0, case_ints(c, "k", SHAPE(40), 0, 6), case_in(c, "u", SHAPE(40), -2, 2)));
}

static void put_added(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(4, 5, 3), -2, 2), i = case_ints(c, "i", SHAPE(8), 0, 4),
           j = case_ints(c, "j", SHAPE(1), 0, 5);
    case_out(c, "rows", index_put(x, TENSORS(i), case_in(c, "v", SHAPE(8, 5, 3), -2, 2), true));
    case_out(c, "two", index_put(x, TENSORS(i, j), case_in(c, "w", SHAPE(3), -2, 2), true));
}

static void add_large(Case *c)
{
    case_out(c, "y",
             scatter_add(case_in(c, "x", SHAPE(64, 70), -2, 2), 0,
                         case_ints(c, "i", SHAPE(3000, 70), 0, 64),
                         case_in(c, "s", SHAPE(3000, 70), -1, 1)));
}

const OpCase cases_scatter_add[] = {
    { "axes", add_axes,
      "middle = x.scatter_add(1, i, s); last = x.scatter_add(2, j, t[:, :, :2]); one = "
      "v.scatter_add(0, k, u)" },
    { "put", put_added,
      "rows = x.index_put((i,), v, accumulate=True); two = x.index_put((i, j), w, "
      "accumulate=True)" },
    { "large", add_large, "y = x.scatter_add(0, i, s)", CASE_LIVE_ONLY },
    { 0 }
};

/* Of equal indices the last wins: torch by a loop, which is also what its gradients follow. */
static void write_axes(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(3, 6, 5), -2, 2), s = case_in(c, "s", SHAPE(3, 4, 5), -2, 2);
    case_out(c, "middle", scatter(x, 1, case_ints(c, "i", SHAPE(3, 4, 5), 0, 6), s));
    case_out(c, "last",
             scatter(x, -1, case_ints(c, "j", SHAPE(3, 6, 2), 0, 5),
                     case_in(c, "t", SHAPE(3, 6, 2), -2, 2)));
}

static void put_rows(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(4, 5, 3), -2, 2), i = case_ints(c, "i", SHAPE(6), -4, 4),
           j = case_ints(c, "j", SHAPE(6), 0, 5);
    case_out(c, "rows", index_put(x, TENSORS(i), case_in(c, "v", SHAPE(6, 5, 3), -2, 2), false));
    case_out(c, "two", index_put(x, TENSORS(i, j), case_in(c, "w", SHAPE(6, 1), -2, 2), false));
    case_out(c, "one", index_put(x, TENSORS(i, j), case_in(c, "u", SHAPE(1), -2, 2), false));
}

const OpCase cases_scatter[] = {
    { "axes", write_axes,
      "a = torch.arange(3)[:, None]; b = torch.arange(5); middle = x\n"
      "for m in range(4): middle = middle.index_put((a, i[:, m], b.expand(3, 5)), s[:, m])\n"
      "last = x; b = torch.arange(6)\n"
      "for m in range(2): last = last.index_put((a, b.expand(3, 6), j[:, :, m]), t[:, :, m])" },
    { "put", put_rows,
      "rows = x; two = x; one = x\n"
      "for m in range(6):\n"
      "  rows = rows.index_put((i[m],), v[m]); two = two.index_put((i[m], j[m]), w[m])\n"
      "  one = one.index_put((i[m], j[m]), u)" },
    { 0 }
};
