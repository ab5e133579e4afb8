/* lower_bag.c -- rows of a table, summed, averaged or maximised by bag. */
#include "import/lower.h"

#include <math.h>

enum { BAG_SUM, BAG_MEAN, BAG_MAX };

typedef struct Bags {
    Operand rows;  /* (bags, each, width), or (1, all, width) where bags differ in size */
    Operand in;    /* which rows count for which bag: (bags, each, 1); not set: all of them */
    Operand share; /* by what rows are multiplied, of the same size; not set: 1 */
    int64_t bags, each;
} Bags;

/* Offsets that are constants and cut the indices into bags of one size? */
static bool equal_bags(const Operand *offsets, int64_t bags, int64_t n)
{
    int64_t at, k = 0;
    if (!offsets->host || !bags || n % bags)
        return false;
    for (HostWalk w = host_walk(&offsets->view); k < bags && host_step(&w, &at); k++)
        if (host_i(offsets, at) != k * (n / bags))
            return false;
    return true;
}

/* Row j belongs to bag b from its offset up to the next one's. */
static Err members(Lower *l, Operand offsets, bool last, int64_t bags, int64_t n, Operand *in)
{
    Operand first = offsets, next = offsets, end = item_integer(l, n),
            row = lower_positions(l, 3, 1, n);
    if (last) {
        next.view = view_sliced(next.view, 0, 1, bags, 1);
    } else {
        end.view = view_expanded(end.view, (Dims){ 1, { 1 } });
        Operand both[] = { item_with(next, view_sliced(next.view, 0, 1, bags - 1, 1)), end };
        TRY(lower_join(l, bags > 1 ? both : &both[1], bags > 1 ? 2 : 1, 0, &next));
    }
    first.view = view_sliced(first.view, 0, 0, bags, 1);
    Operand *bounds[] = { &first, &next };
    for (int i = 0; i < 2; i++)
        bounds[i]->view = view_inserted(view_inserted(bounds[i]->view, 1, 1), 2, 1);
    Formula f = formula(l);
    int     at = formula_input(&f, row);
    int     from = F2(&f, GE, at, formula_input(&f, first));
    int     below = F2(&f, LT, at, formula_input(&f, next));
    return formula_item(&f, F2(&f, AND, from, below), EX_BOOL, in);
}

static Err without_padding(Lower *l, Operand ids, int64_t padding, Operand *in)
{
    Formula f = formula(l);
    int     some = F2(&f, NE, formula_input(&f, ids), formula_integer(&f, padding));
    if (in->set)
        some = F2(&f, AND, formula_input(&f, *in), some);
    return formula_item(&f, some, EX_BOOL, in);
}

static Err bags_of(Lower *l, Bags *b)
{
    Operand table, ids, offsets;
    int64_t padding;
    TRY(arg_item(l, "weight", &table));
    TRY(arg_item(l, "indices", &ids));
    TRY(arg_item(l, "offsets", &offsets));
    TRY(arg_item(l, "per_sample_weights", &b->share));
    TRY(arg_int(l, "padding_idx", -1, &padding));
    if (arg_given(l, "padding_idx") && padding < 0)
        padding += table.view.dim[0];
    if (table.view.rank != 2 || ids.view.rank != 1 || offsets.view.rank != 1)
        return refuse(l, "indices with %d axes", ids.view.rank);
    bool    last = arg_bool(l, "include_last_offset", false);
    int64_t n = ids.view.dim[0], width = table.view.dim[1];
    b->bags = offsets.view.dim[0] - last;
    bool equal = equal_bags(&offsets, b->bags, n);
    b->each = equal ? n / b->bags : n;
    b->in = item_none(l);
    if (!equal)
        TRY(members(l, offsets, last, b->bags, n, &b->in));
    Dims shape = { 3, { n / b->each, b->each, 1 } };
    TRY(lower_reshape(l, ids, shape, &ids));
    if (padding >= 0)
        TRY(without_padding(l, ids, padding, &b->in));
    if (b->share.set)
        TRY(lower_reshape(l, b->share, shape, &b->share));
    ids.view = view_dropped(ids.view, 2);
    shape.at[2] = width;
    return lower_take(l, table, 0, ids, shape, &b->rows);
}

static Err bag_sizes(Lower *l, const Bags *b, Operand *count)
{
    Formula f = formula(l);
    TRY(formula_reduce(&f, formula_float(&f, formula_input(&f, b->in)), POINT_SUM, 1u << 1, 1,
                       EX_F32, count));
    return OK;
}

/* The other results say which bag each index is in; nothing but PyTorch's backward reads them. */
static Err embedding_bag(Lower *l)
{
    Bags    b;
    Operand y, count;
    int64_t how;
    TRY(arg_int(l, "mode", BAG_SUM, &how));
    TRY(bags_of(l, &b));
    Formula f = formula(l);
    int     row = formula_input(&f, b.rows);
    if (b.share.set)
        row = F2(&f, MUL, row, formula_input(&f, b.share));
    if (b.in.set)
        row = F3(&f, SELECT, formula_input(&f, b.in), row,
                 formula_number(&f, how == BAG_MAX ? -INFINITY : 0));
    double scale = how == BAG_MEAN && !b.in.set ? 1 / (double)b.each : 1;
    TRY(formula_reduce(&f, row, how == BAG_MAX ? POINT_AMAX : POINT_SUM, 1u << 1, scale, EX_F32,
                       &y));
    if (!b.in.set || how == BAG_SUM)
        return give(l, 0, y);
    TRY(bag_sizes(l, &b, &count));
    Formula g = formula(l);
    int     sum = formula_input(&g, y), n = formula_input(&g, count), one = formula_number(&g, 1);
    int     some = F2(&g, GT, n, formula_number(&g, 0));
    int     full = how == BAG_MAX ? sum : F2(&g, DIV, sum, F3(&g, SELECT, some, n, one));
    return formula_give(&g, F3(&g, SELECT, some, full, formula_number(&g, 0)), 0);
}

/* clang-format off */
const LowerDef lower_bags[] = {
    { "aten.embedding_bag.padding_idx", embedding_bag, 0, false },
    { "aten.embedding_bag.default", embedding_bag, 0, false },
    { 0 }
};
/* clang-format on */
