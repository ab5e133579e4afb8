/* lower_grid.c -- a volume read at given points: eight rows by index, weighted; one for nearest.
 *
 * What of the points is rounded down takes no gradient; their distances from there do. */
#include "import/lower.h"

#include "ops/resample/grid_sample.h"

typedef struct Volume {
    Lower      *l;
    Operand     rows; /* (N D H W, C) */
    Dims        dims; /* of the points: (N, P, Q, R) */
    int64_t     samples, channels, size[3];
    Operand     place[3]; /* by axis: D, H, W */
    GridMode    mode;
    GridPadding padding;
    bool        corners;
} Volume;

/* Between low / 2 and high / 2, mirrored there as often as needed. */
static int reflected(Formula *f, int x, double low, double high)
{
    double span = (high - low) / 2;
    if (span <= 0)
        return formula_number(f, 0);
    int width = formula_number(f, span), start = formula_number(f, low / 2);
    x = F1(f, ABS, F2(f, SUB, x, start));
    int turns = F1(f, DETACH, F1(f, FLOOR, F2(f, DIV, x, width)));
    int rest = F2(f, SUB, x, F2(f, MUL, turns, width));
    int odd = F2(f, REMAINDER, turns, formula_number(f, 2));
    int back = F2(f, SUB, width, rest);
    return F2(f, ADD, F3(f, SELECT, F2(f, GT, odd, formula_number(f, 0.5)), back, rest), start);
}

/* From -1 .. 1 to 0 .. size - 1 of an axis. */
static Err place_on(Volume *v, View grid, int axis)
{
    Lower  *l = v->l;
    double  n = (double)v->size[axis];
    View    at = view_selected(grid, 4, 2 - axis); /* (x, y, z) */
    Formula f = formula(l);
    int     x = formula_float(&f, formula_input(&f, item_of(l, at, EX_F32)));
    int     half = formula_number(&f, v->corners ? (n - 1) / 2 : n / 2);
    int     shift = formula_number(&f, v->corners ? 0 : -0.5);
    int     last = formula_number(&f, n - 1);
    x = F2(&f, ADD, F2(&f, MUL, F2(&f, ADD, x, formula_number(&f, 1)), half), shift);
    if (v->padding == GRID_REFLECTION)
        x = reflected(&f, x, v->corners ? 0 : -1, v->corners ? 2 * (n - 1) : 2 * n - 1);
    if (v->padding != GRID_ZEROS)
        x = F2(&f, CLAMP_MAX, F2(&f, CLAMP_MIN, x, formula_number(&f, 0)), last);
    if (v->mode == GRID_NEAREST)
        x = F1(&f, ROUND, x);
    return formula_item(&f, x, EX_F32, &v->place[axis]);
}

/* Which of the two neighbours along each axis: bits 0, 1, 2. */
static int neighbour(Formula *f, int at, int corner, int axis)
{
    int low = F1(f, DETACH, F1(f, FLOOR, at));
    return corner >> axis & 1 ? F2(f, ADD, low, formula_number(f, 1)) : low;
}

/* The row that a point reads; of places outside any within, whose weight is 0. */
static Err row_of(Volume *v, int corner, Operand *row)
{
    Formula f = formula(v->l);
    int     sum = formula_input(&f, lower_positions(v->l, 4, 0, v->samples));
    for (int axis = 0; axis < 3; axis++) {
        int last = formula_number(&f, (double)v->size[axis] - 1);
        int at = neighbour(&f, formula_input(&f, v->place[axis]), corner, axis);
        at = F2(&f, CLAMP_MAX, F2(&f, CLAMP_MIN, at, formula_number(&f, 0)), last);
        sum = F2(&f, ADD, F2(&f, MUL, sum, formula_integer(&f, v->size[axis])),
                 formula_as(&f, at, EX_I64));
    }
    return formula_item(&f, sum, EX_I64, row);
}

/* What the row counts for: the product of the nearnesses, 0 outside. */
static int weight_of(Volume *v, Formula *f, int corner)
{
    int product = -1, one = formula_number(f, 1), nil = formula_number(f, 0);
    for (int axis = 0; axis < 3; axis++) {
        View wide = v->place[axis].view;
        wide = view_inserted(wide, wide.rank, 1);
        int x = formula_input(f, item_with(v->place[axis], wide));
        int at = neighbour(f, x, corner, axis);
        int w = v->mode == GRID_NEAREST ? one : F2(f, SUB, one, F1(f, ABS, F2(f, SUB, x, at)));
        int last = formula_number(f, (double)v->size[axis] - 1);
        int inside = F2(f, AND, F2(f, GE, at, nil), F2(f, LE, at, last));
        w = F3(f, SELECT, inside, w, nil);
        product = product < 0 ? w : F2(f, MUL, product, w);
    }
    return product;
}

static Err sum_of(Volume *v, Operand *sum)
{
    Dims rows = v->dims;
    rows.at[rows.rank++] = v->channels;
    *sum = item_none(v->l);
    for (int corner = 0; corner < (v->mode == GRID_NEAREST ? 1 : 8); corner++) {
        Operand row, read;
        TRY(row_of(v, corner, &row));
        TRY(lower_take(v->l, v->rows, 0, row, rows, &read));
        Formula f = formula(v->l);
        int     y = F2(&f, MUL, formula_input(&f, read), weight_of(v, &f, corner));
        if (sum->set)
            y = F2(&f, ADD, formula_input(&f, *sum), y);
        TRY(formula_item(&f, y, out_type_of(v->l, 0), sum));
        sum->set = true;
    }
    return OK;
}

Err lower_volume_sampled(Lower *l)
{
    View    x, grid, rows;
    Operand sum;
    int64_t mode, padding;
    TRY(arg_view(l, "input", &x));
    TRY(arg_view(l, "grid", &grid));
    TRY(arg_int(l, "interpolation_mode", 0, &mode));
    TRY(arg_int(l, "padding_mode", 0, &padding));
    if (x.rank != 5 || grid.rank != 5 || grid.dim[4] != 3 ||
        (mode != GRID_BILINEAR && mode != GRID_NEAREST))
        return refuse(l, "an input with %d axes, read at points of %d, in mode %d", x.rank,
                      grid.rank, (int)mode);
    Volume v = { .l = l,
                 .dims = { 4, { grid.dim[0], grid.dim[1], grid.dim[2], grid.dim[3] } },
                 .samples = x.dim[0],
                 .channels = x.dim[1],
                 .size = { x.dim[2], x.dim[3], x.dim[4] },
                 .mode = (GridMode)mode,
                 .padding = (GridPadding)padding,
                 .corners = arg_bool(l, "align_corners", false) };
    Dims   flat = { 2, { x.dim[0] * x.dim[2] * x.dim[3] * x.dim[4], x.dim[1] } };
    if (flat.at[0] > INT32_MAX)
        return refuse(l, "a volume of %lld points", (long long)flat.at[0]);
    rows = view_copied_reshape(view_permuted(x, (int[]){ 0, 2, 3, 4, 1 }), flat);
    v.rows = item_of(l, rows, out_type_of(l, 0));
    for (int axis = 0; axis < 3; axis++)
        TRY(place_on(&v, grid, axis));
    TRY(sum_of(&v, &sum));
    return give_view(l, 0, view_permuted(sum.view, (int[]){ 0, 4, 1, 2, 3 }));
}
