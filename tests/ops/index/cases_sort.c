/* cases_sort.c -- sorting and the first few. */
#include "ops/cases.h"

#include "ops/index/sort.h"

static void sort_axes(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(3, 7, 5), -2, 2), i = case_ints(c, "i", SHAPE(3, 40), -9, 9),
           y[2];
    sort(y, x, -1, false);
    case_out(c, "last", y[0]);
    sort(y, x, 1, true);
    case_out(c, "middle", y[0]);
    sort(y, i, 1, false); /* equals stay in order */
    case_out(c, "ints", y[0]);
    case_out(c, "places", y[1]);
    sort(y, i, 1, true);
    case_out(c, "down", y[1]);
}

static void first_few(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(4, 50), -20, 20), i = case_ints(c, "i", SHAPE(2, 90), 0, 30),
           y[2];
    topk(y, x, 3, 1, true);
    case_out(c, "largest", y[0]);
    topk(y, x, 1, 0, false);
    case_out(c, "smallest", y[0]);
    topk(y, x, 20, -1, true);
    case_out(c, "many", y[0]);
    topk(y, i, 7, 1, true);
    case_out(c, "ints", y[0]);
    case_out(c, "places", y[1]);
}

static void sort_large(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(3, 5000), -50, 50),
           i = case_ints(c, "i", SHAPE(2, 9000), 0, 99), y[2];
    sort(y, x, 1, true);
    case_out(c, "down", y[0]);
    sort(y, i, 1, false);
    case_out(c, "places", y[1]);
    topk(y, x, 10, 1, true);
    case_out(c, "few", y[0]);
}

/* Floats have equal values too; their order does not show in values, but in gradients: torch's
 * stable sort and topk by it. */
const OpCase cases_sort[] = {
    { "axes", sort_axes,
      "last = x.sort(dim=2, stable=True).values; middle = x.sort(dim=1, descending=True, "
      "stable=True).values; "
      "u = i.sort(dim=1, stable=True); ints = u.values; places = u.indices; down = i.sort(dim=1, "
      "descending=True, stable=True).indices",
      CASE_NO_DIFFERENCES },
    { "few", first_few,
      "f = lambda v, d, m: v.sort(dim=d, descending=m, stable=True); largest = f(x, 1, "
      "True).values[:, :3]; smallest = f(x, 0, False).values[:1]; many = f(x, 1, True).values[:, "
      ":20]; ints = f(i, 1, True).values[:, :7]; places = f(i, 1, True).indices[:, :7]",
      CASE_NO_DIFFERENCES },
    { "large", sort_large,
      "f = lambda v, m: v.sort(dim=1, descending=m, stable=True); down = f(x, True).values; places "
      "= f(i, False).indices; few = f(x, True).values[:, :10]",
      CASE_LIVE_ONLY | CASE_NO_DIFFERENCES },
    { 0 }
};
