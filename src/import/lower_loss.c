/* lower_loss.c -- further losses of ATen: distances and margins. */
#include "import/lower.h"

#include <math.h>

enum { REDUCTION_NONE, REDUCTION_MEAN, REDUCTION_SUM };

/* The elements' mean, sum, or themselves, as the call's `reduction` says. */
static Err give_reduced(Lower *l, Formula *f, int step)
{
    Operand y;
    Dims    dims;
    int64_t how;
    TRY(arg_int(l, "reduction", REDUCTION_MEAN, &how));
    if (how == REDUCTION_NONE)
        return formula_give(f, step, 0);
    TRY(formula_dims(f, &dims));
    double scale = how == REDUCTION_MEAN ? 1 / (double)dims_count(dims) : 1;
    TRY(formula_reduce(f, step, POINT_SUM, (1u << dims.rank) - 1, scale, EX_F32, &y));
    return give(l, 0, y);
}

static Err operand(Formula *f, const char *name, int *step)
{
    Operand item;
    TRY(arg_item(f->l, name, &item));
    if (!item.set)
        return refuse(f->l, "'%s' is missing", name);
    *step = formula_float(f, formula_input(f, item));
    return OK;
}

/* The norm of a - b + eps along the last axis, which `keep` keeps. */
static Err distance(Lower *l, Operand a, Operand b, double eps, bool keep, Operand *y)
{
    Formula f = formula(l), g = formula(l);
    int     d = F2(&f, SUB, formula_input(&f, a), formula_input(&f, b));
    Dims    dims;
    Operand sum;
    double  p;
    TRY(arg_float(l, "p", 2, &p));
    d = F2(&f, ADD, d, formula_number(&f, eps));
    if (!(p > 0) || isinf(p))
        return refuse(l, "the norm %g is not supported", p);
    d = formula_power(&f, d, p);
    TRY(formula_dims(&f, &dims));
    if (!dims.rank)
        return refuse(l, "a distance of single numbers");
    TRY(formula_reduce(&f, d, POINT_SUM, 1u << (dims.rank - 1), 1, EX_F32, &sum));
    TRY(formula_item(&g, formula_norm(&g, formula_input(&g, sum), p), EX_F32, y));
    if (keep)
        y->view = view_inserted(y->view, dims.rank - 1, 1);
    return OK;
}

static Err pair_distance(Lower *l)
{
    Operand a, b, y;
    double  eps;
    TRY(arg_item(l, "x1", &a));
    TRY(arg_item(l, "x2", &b));
    TRY(arg_float(l, "eps", 1e-6, &eps));
    TRY(distance(l, a, b, eps, arg_bool(l, "keepdim", false), &y));
    return give(l, 0, y);
}

/* max(0, margin + |a - p| - |a - n|); swap: the nearer of |a - n| and |p - n|. */
static Err triplet(Lower *l)
{
    static const char *const names[] = { "anchor", "positive", "negative" };
    Operand                  x[3], d[3];
    double                   margin, eps;
    bool                     swap = arg_bool(l, "swap", false);
    for (int i = 0; i < 3; i++)
        TRY(arg_item(l, names[i], &x[i]));
    TRY(arg_float(l, "margin", 1, &margin));
    TRY(arg_float(l, "eps", 1e-6, &eps));
    TRY(distance(l, x[0], x[1], eps, false, &d[0]));
    TRY(distance(l, x[0], x[2], eps, false, &d[1]));
    if (swap)
        TRY(distance(l, x[1], x[2], eps, false, &d[2]));
    Formula f = formula(l);
    int     far = formula_input(&f, d[1]);
    if (swap)
        far = F2(&f, MIN, far, formula_input(&f, d[2]));
    int y = F2(&f, SUB, F2(&f, ADD, formula_input(&f, d[0]), formula_number(&f, margin)), far);
    return give_reduced(l, &f, F2(&f, CLAMP_MIN, y, formula_number(&f, 0)));
}

static Err ranking(Lower *l)
{
    Formula f = formula(l);
    int     a = 0, b = 0, target = 0;
    double  margin;
    TRY(operand(&f, "input1", &a));
    TRY(operand(&f, "input2", &b));
    TRY(operand(&f, "target", &target));
    TRY(arg_float(l, "margin", 0, &margin));
    int y = F2(&f, MUL, F1(&f, NEG, target), F2(&f, SUB, a, b));
    y = F2(&f, ADD, y, formula_number(&f, margin));
    return give_reduced(l, &f, F2(&f, CLAMP_MIN, y, formula_number(&f, 0)));
}

/* x where the target is 1, max(0, margin - x) where it is -1. */
static Err hinge(Lower *l)
{
    Formula f = formula(l);
    int     x = 0, target = 0;
    double  margin;
    TRY(operand(&f, "self", &x));
    TRY(operand(&f, "target", &target));
    TRY(arg_float(l, "margin", 1, &margin));
    int zero = formula_number(&f, 0), one = formula_number(&f, 1);
    int away = F2(&f, CLAMP_MIN, F2(&f, SUB, formula_number(&f, margin), x), zero);
    int other = F3(&f, SELECT, F2(&f, EQ, target, one), zero, away);
    int own = F3(&f, SELECT, F2(&f, EQ, target, formula_number(&f, -1)), zero, x);
    return give_reduced(l, &f, F2(&f, ADD, other, own));
}

/* exp(x) - y x of logarithms, else x - y log(x + eps); `full` adds Stirling's term. */
static Err poisson(Lower *l)
{
    Formula f = formula(l);
    int     x = 0, y = 0, z;
    double  eps;
    TRY(operand(&f, "input", &x));
    TRY(operand(&f, "target", &y));
    TRY(arg_float(l, "eps", 1e-8, &eps));
    if (arg_bool(l, "log_input", true))
        z = F2(&f, SUB, F1(&f, EXP, x), F2(&f, MUL, y, x));
    else
        z = F2(&f, SUB, x, F2(&f, MUL, y, F1(&f, LOG, F2(&f, ADD, x, formula_number(&f, eps)))));
    if (arg_bool(l, "full", false)) {
        int one = formula_number(&f, 1), large = F2(&f, GT, y, one);
        int safe = F3(&f, SELECT, large, y, one), log = F1(&f, LOG, safe);
        int turn = F1(&f, LOG, F2(&f, MUL, safe, formula_number(&f, 2 * M_PI)));
        int term = F2(&f, ADD, F2(&f, SUB, F2(&f, MUL, safe, log), safe),
                      F2(&f, MUL, formula_number(&f, 0.5), turn));
        z = F2(&f, ADD, z, F3(&f, SELECT, large, term, formula_number(&f, 0)));
    }
    return give_reduced(l, &f, z);
}

/* clang-format off */
const LowerDef lower_losses[] = {
    { "aten.pairwise_distance.default", pair_distance, 0, false },
    { "aten.triplet_margin_loss.default", triplet, 0, false },
    { "aten.margin_ranking_loss.default", ranking, 0, false },
    { "aten.hinge_embedding_loss.default", hinge, 0, false },
    { "aten.poisson_nll_loss.default", poisson, 0, false },
    { 0 }
};
/* clang-format on */
