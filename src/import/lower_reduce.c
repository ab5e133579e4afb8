/* lower_reduce.c -- sums, means, extremes, softmax, losses. */
#include "import/lower.h"

#include "ops/elementwise/basic.h"
#include "ops/elementwise/unary.h"
#include "ops/loss/loss.h"
#include "ops/reduce/softmax.h"

#include <math.h>
#include <string.h>

/* The axes named by `dim` (none named: all of them), as bits. */
static Err axes_of(Lower *l, int rank, uint32_t *axes)
{
    int64_t dims[VIEW_RANK];
    int     n;
    TRY(arg_ints(l, "dim", dims, &n));
    *axes = n ? 0 : (1u << rank) - 1;
    for (int i = 0; i < n; i++) {
        int64_t a = dims[i] + (dims[i] < 0 ? rank : 0);
        if (a < 0 || a >= (rank ? rank : 1))
            return refuse(l, "axis %lld of %d", (long long)dims[i], rank);
        *axes |= rank ? 1u << a : 0;
    }
    return OK;
}

static double reduced_count(const View *v, uint32_t axes)
{
    double n = 1;
    for (int a = 0; a < v->rank; a++)
        n *= axes >> a & 1 ? (double)v->dim[a] : 1;
    return n;
}

/* Reduced axes come back with extent 1 where the call keeps them. */
static Operand kept_axes(Operand item, uint32_t axes, int rank)
{
    for (int a = 0; a < rank; a++)
        if (axes >> a & 1)
            item.view = view_inserted(item.view, a, 1);
    return item;
}

static Err give_reduced(Lower *l, Operand item, uint32_t axes, int rank)
{
    return give(l, 0, arg_bool(l, "keepdim", false) ? kept_axes(item, axes, rank) : item);
}

static Err reduce(Lower *l)
{
    Operand  x, y;
    uint32_t axes;
    TRY(arg_item(l, "self", &x));
    TRY(axes_of(l, x.view.rank, &axes));
    Formula f = formula(l);
    int     step = formula_input(&f, x);
    char    what = (char)l->def->with;
    double  scale = what == 'm' ? 1 / reduced_count(&x.view, axes) : 1;
    if (what == 'A' || what == 'O' || what == 'c') /* all, any, count_nonzero */
        step = F1(&f, TO_TRUTH, step);
    if (what == 'n') { /* nansum */
        int x0 = step;
        step = F3(&f, SELECT, F1(&f, IS_NAN, x0), formula_number(&f, 0), x0);
    }
    TRY(formula_reduce(&f, step,
                       what == 'X' || what == 'O'   ? POINT_AMAX
                       : what == 'N' || what == 'A' ? POINT_AMIN
                                                    : POINT_SUM,
                       axes, scale, out_type_of(l, 0), &y));
    return give_reduced(l, y, axes, x.view.rank);
}

/* Mean first, then the mean of squared differences; `correction` is taken from the count. */
static Err variance(Lower *l)
{
    Operand  x, mean, y;
    uint32_t axes;
    double   correction;
    TRY(arg_item(l, "self", &x));
    TRY(axes_of(l, x.view.rank, &axes));
    TRY(arg_float(l, "correction", arg_bool(l, "unbiased", true), &correction));
    double  n = reduced_count(&x.view, axes);
    Formula f = formula(l);
    TRY(formula_reduce(&f, formula_input(&f, x), POINT_SUM, axes, 1 / n, EX_F32, &mean));
    mean = kept_axes(mean, axes, x.view.rank);
    Formula g = formula(l);
    int     d = F2(&g, SUB, formula_input(&g, x), formula_input(&g, mean));
    TRY(formula_reduce(&g, F1(&g, SQUARE, d), POINT_SUM, axes, 1 / (n - correction),
                       out_type_of(l, 0), &y));
    char what = (char)l->def->with;
    if (what == 's' || what == 'S') {
        Formula h = formula(l);
        TRY(formula_item(&h, formula_root(&h, formula_input(&h, y)), out_type_of(l, 0), &y));
    }
    if ((what == 'b' || what == 'S') && l->call->n_out > 1) { /* var_mean, std_mean */
        Operand kept = mean;
        if (!arg_bool(l, "keepdim", false))
            for (int a = x.view.rank - 1; a >= 0; a--)
                if (axes >> a & 1)
                    kept.view = view_dropped(kept.view, a);
        TRY(give(l, 1, kept));
    }
    return give_reduced(l, y, axes, x.view.rank);
}

static Err vector_norm(Lower *l)
{
    Operand  x, y;
    uint32_t axes;
    double   p;
    TRY(arg_item(l, "self", &x));
    TRY(axes_of(l, x.view.rank, &axes));
    p = 2;
    if (arg(l, arg_given(l, "ord") ? "ord" : "p") &&
        arg(l, arg_given(l, "ord") ? "ord" : "p")->kind != ARG_TEXT)
        TRY(arg_float(l, arg_given(l, "ord") ? "ord" : "p", 2, &p));
    Formula f = formula(l);
    int     s = formula_input(&f, x);
    if (isinf(p)) {
        TRY(formula_reduce(&f, F1(&f, ABS, s), p > 0 ? POINT_AMAX : POINT_AMIN, axes, 1,
                           out_type_of(l, 0), &y));
        return give_reduced(l, y, axes, x.view.rank);
    }
    if (p == 0)
        return refuse(l, "the norm 0 is not supported");
    TRY(formula_reduce(&f, formula_power(&f, s, p), POINT_SUM, axes, 1, out_type_of(l, 0), &y));
    if (p != 1) {
        Formula g = formula(l);
        TRY(formula_item(&g, formula_norm(&g, formula_input(&g, y), p), out_type_of(l, 0), &y));
    }
    return give_reduced(l, y, axes, x.view.rank);
}

/* Of vectors, unless an order is asked for over two axes: that is a norm of matrices. */
static Err vector_or_matrix_norm(Lower *l)
{
    Operand            x;
    const ExportedArg *dim = arg(l, "dim");
    TRY(arg_item(l, "self", &x));
    int axes = arg_given(l, "dim") ? dim->n : x.view.rank;
    if (arg_given(l, "ord") && axes == 2 && strcmp(arg_text(l, "ord", ""), "fro") != 0)
        return refuse(l, "of the norms of matrices only Frobenius' is supported");
    return vector_norm(l);
}

/* The mean of what is a number. */
static Err nan_mean(Lower *l)
{
    Operand  x, sum, count;
    uint32_t axes;
    TRY(arg_item(l, "self", &x));
    TRY(axes_of(l, x.view.rank, &axes));
    Formula f = formula(l), g = formula(l), h = formula(l);
    int     v = formula_float(&f, formula_input(&f, x)), nil = formula_number(&f, 0);
    TRY(formula_reduce(&f, F3(&f, SELECT, F1(&f, IS_NAN, v), nil, v), POINT_SUM, axes, 1, EX_F32,
                       &sum));
    v = formula_float(&g, formula_input(&g, x));
    int some = F3(&g, SELECT, F1(&g, IS_NAN, v), formula_number(&g, 0), formula_number(&g, 1));
    TRY(formula_reduce(&g, some, POINT_SUM, axes, 1, EX_F32, &count));
    int mean = F2(&h, DIV, formula_input(&h, sum), formula_input(&h, count));
    TRY(formula_item(&h, mean, out_type_of(l, 0), &sum));
    return give_reduced(l, sum, axes, x.view.rank);
}

/* ---- softmax ---- */

static Err softmax_of(Lower *l)
{
    View x;
    int  axis, order[VIEW_RANK];
    TRY(arg_view(l, "self", &x));
    if (!x.rank)
        x = view_inserted(x, 0, 1);
    TRY(arg_axis(l, "dim", x.rank, -1, &axis));
    view_order_last(&x, axis, order);
    Tensor t = view_tensor(x, order);
    return give_tensor(l, 0, l->def->with ? log_softmax(t) : softmax(t), order);
}

/* Over several axes: max + log(sum(exp(x - max))). */
static Err logsumexp_over(Lower *l, uint32_t axes)
{
    Operand x, most, sum, y;
    TRY(arg_item(l, "self", &x));
    int     rank = x.view.rank;
    Formula f = formula(l);
    TRY(formula_reduce(&f, F1(&f, DETACH, formula_input(&f, x)), POINT_AMAX, axes, 1, EX_F32,
                       &most));
    Formula g = formula(l);
    int     off = formula_input(&g, kept_axes(most, axes, rank));
    TRY(formula_reduce(&g, F1(&g, EXP, F2(&g, SUB, formula_input(&g, x), off)), POINT_SUM, axes, 1,
                       EX_F32, &sum));
    Formula h = formula(l);
    int     a = F1(&h, LOG, formula_input(&h, sum));
    TRY(formula_item(&h, F2(&h, ADD, a, formula_input(&h, most)), out_type_of(l, 0), &y));
    return give_reduced(l, y, axes, rank);
}

static Err logsumexp_of(Lower *l)
{
    View     x;
    uint32_t axes;
    int      order[VIEW_RANK], axis = 0;
    TRY(arg_view(l, "self", &x));
    TRY(axes_of(l, x.rank, &axes));
    while (axis < x.rank && !(axes >> axis & 1))
        axis++;
    if (axis == x.rank || axes != 1u << axis)
        return logsumexp_over(l, axes);
    view_order_last(&x, axis, order);
    Tensor y = logsumexp(view_tensor(x, order));
    TRY(graph_check(l->graph));
    Dims kept = view_dims(&x);
    kept.at[axis] = 1;
    View view = view_make(y, kept, order);
    return give_view(l, 0, arg_bool(l, "keepdim", false) ? view : view_dropped(view, axis));
}

/* ---- losses ---- */

enum { REDUCE_NONE, REDUCE_MEAN, REDUCE_SUM };

/* Elements of a loss, reduced as the call says. */
static Err give_loss(Lower *l, Formula *f, int step)
{
    Operand y;
    int64_t how;
    TRY(arg_int(l, "reduction", REDUCE_MEAN, &how));
    if (how == REDUCE_NONE)
        return formula_give(f, step, 0);
    Dims dims;
    TRY(formula_dims(f, &dims));
    double n = (double)dims_count(dims);
    TRY(formula_reduce(f, step, POINT_SUM, (1u << dims.rank) - 1, how == REDUCE_MEAN ? 1 / n : 1,
                       EX_F32, &y));
    return give(l, 0, y);
}

static Err pair_loss(Lower *l)
{
    Operand x, target;
    double  beta;
    TRY(arg_item(l, "self", &x));
    TRY(arg_item(l, "target", &target));
    TRY(arg_float(l, l->def->with == 'h' ? "delta" : "beta", 1, &beta));
    Formula f = formula(l);
    int     d = F2(&f, SUB, formula_input(&f, x), formula_input(&f, target));
    int     size = F1(&f, ABS, d), square = F1(&f, SQUARE, d), b = formula_number(&f, beta);
    int     half = F2(&f, MUL, square, formula_number(&f, 0.5)), y;
    switch (l->def->with) {
    case '2': y = square; break;
    case '1': y = size; break;
    case 'h': /* Huber: delta (|d| - delta / 2) beyond delta */
        y = F3(&f, SELECT, F2(&f, LE, size, b), half,
               F2(&f, MUL, b, F2(&f, SUB, size, formula_number(&f, 0.5 * beta))));
        break;
    default: /* smooth L1: d^2 / (2 beta) within beta */
        y = beta == 0 ? size
                      : F3(&f, SELECT, F2(&f, LT, size, b), F2(&f, DIV, half, b),
                           F2(&f, SUB, size, formula_number(&f, 0.5 * beta)));
    }
    return give_loss(l, &f, y);
}

static Err bce(Lower *l)
{
    Operand x, target, weight, positive;
    TRY(arg_item(l, "self", &x));
    TRY(arg_item(l, "target", &target));
    TRY(arg_item(l, "weight", &weight));
    TRY(arg_item(l, "pos_weight", &positive));
    Formula f = formula(l);
    int     s = formula_input(&f, x), t = formula_float(&f, formula_input(&f, target)), y;
    int     rest = F2(&f, SUB, formula_number(&f, 1), t);
    if (l->def->with) { /* of logits: (1 - t) x + (1 + (p - 1) t) softplus(-x) */
        int w = formula_number(&f, 1);
        if (positive.set)
            w = F2(&f, ADD, w,
                   F2(&f, MUL, F2(&f, SUB, formula_input(&f, positive), formula_number(&f, 1)), t));
        y = F2(&f, ADD, F2(&f, MUL, rest, s), F2(&f, MUL, w, F1(&f, SOFTPLUS, F1(&f, NEG, s))));
    } else {
        int low = formula_number(&f, -100);
        int yes = F2(&f, CLAMP_MIN, F1(&f, LOG, s), low);
        int no = F2(&f, CLAMP_MIN, F1(&f, LOG, F2(&f, SUB, formula_number(&f, 1), s)), low);
        y = F1(&f, NEG, F2(&f, ADD, F2(&f, MUL, t, yes), F2(&f, MUL, rest, no)));
    }
    if (weight.set)
        y = F2(&f, MUL, y, formula_input(&f, weight));
    return give_loss(l, &f, y);
}

/* Targets that do not count are LOSS_IGNORE for our operator. */
static Err target_tensor(Lower *l, Operand target, int64_t ignore, Tensor *t)
{
    View v;
    if (ignore != LOSS_IGNORE && ignore >= INT32_MIN && ignore <= INT32_MAX) {
        Formula f = formula(l);
        int     x = formula_input(&f, target);
        int     no = F2(&f, EQ, x, formula_integer(&f, ignore));
        TRY(formula_item(&f, F3(&f, SELECT, no, formula_integer(&f, LOSS_IGNORE), x), EX_I64,
                         &target));
    }
    TRY(item_view(l, &target, &v));
    *t = view_tensor(v, NULL);
    return graph_check(l->graph);
}

Err target_count(Lower *l, Operand targets, int64_t ignore, Tensor *count)
{
    Formula  f = formula(l), g = formula(l);
    Operand  sum, share;
    View     v;
    uint32_t all = (1u << targets.view.rank) - 1;
    int64_t  split = l->graph->build->split;
    int      counts = F2(&f, NE, formula_input(&f, targets), formula_integer(&f, ignore));
    TRY(formula_reduce(&f, F3(&f, SELECT, counts, formula_number(&f, 1), formula_number(&f, 0)),
                       POINT_SUM, all, 1, EX_F32, &sum));
    int n = F2(&g, MAX, formula_input(&g, sum), formula_number(&g, 1));
    n = F2(&g, MUL, n, formula_number(&g, split > 1 ? 1 / (double)split : 1));
    TRY(formula_item(&g, n, EX_F32, &share));
    TRY(item_view(l, &share, &v));
    *count = view_tensor_as(v, NULL, SHAPE(1));
    return graph_check(l->graph);
}

Err lower_target_count(Lower *l, Operand own, int32_t value, int64_t ignore, Tensor *count)
{
    const BuildOptions *build = l->graph->build;
    Operand             all = own;
    *count = tensor_none(l->graph);
    if (build->split > 1 && value < 0)
        return refuse(l, "its targets are no tensor of the program");
    if (build->split > 1)
        TRY(lower_all(l, value, &all));
    else if (!l->program->uncounted && value >= 0 && !lower_from_inputs(l, value))
        l->program->uncounted = l->call;
    return build->split > 1 || build->counts_given ? target_count(l, all, ignore, count) : OK;
}

/* The divisor of a mean over targets, where lowering makes it itself. */
static Err own_count(Lower *l, Operand own, int64_t ignore, Operand *count)
{
    const ExportedArg *named = arg(l, "target");
    Tensor             t;
    if (l->graph->build->split <= 1) {
        int32_t value = named->kind == ARG_VALUE ? named->values[0] : -1;
        l->program->own_count = lower_from_inputs(l, value) ? count->view.base.id : -1;
        return OK;
    }
    TRY(lower_target_count(l, own, named->kind == ARG_VALUE ? named->values[0] : -1, ignore, &t));
    *count = item_of(l, view_make(t, (Dims){ 0 }, NULL), EX_F32);
    return OK;
}

/* Every form of the loss as log_softmax, a sum over the classes, and a reduction:
 * -sum_c ((c == t) (1 - s) + s / C) w_c log p_c, where targets are class indices, and
 * -sum_c (t_c (1 - s) + s / C) w_c log p_c, where they are probabilities. */
static Err entropy_of_parts(Lower *l, View x, Operand target, bool logits)
{
    Operand weight, each, y;
    int64_t how, ignore;
    double  smoothing;
    bool    lone = x.rank == 1, shares = type_floats(target.type);
    TRY(arg_item(l, "weight", &weight));
    TRY(arg_int(l, "reduction", REDUCE_MEAN, &how));
    TRY(arg_int(l, "ignore_index", LOSS_IGNORE, &ignore));
    TRY(arg_float(l, "label_smoothing", 0, &smoothing));
    if (lone) {
        x = view_inserted(x, 0, 1);
        if (shares)
            target.view = view_inserted(target.view, 0, 1);
    }
    int64_t classes = x.dim[1];
    Operand scores = item_of(l, x, EX_F32);
    if (logits) {
        int order[VIEW_RANK];
        view_order_last(&x, 1, order);
        Tensor t = log_softmax(view_tensor(x, order));
        TRY(graph_check(l->graph));
        scores.view = view_make(t, view_dims(&x), order);
    }
    if (!shares)
        target.view = view_inserted(target.view, lone ? 0 : 1, 1);
    if (lone && !shares)
        target.view = view_inserted(target.view, 0, 1);
    if (weight.set)
        for (int a = 2; a < x.rank; a++)
            weight.view = view_inserted(weight.view, weight.view.rank, 1);
    Operand  iota = lower_positions(l, x.rank, 1, classes);
    uint32_t all = 0;
    for (int pass = 0; pass < 2; pass++) { /* the loss of each sample, then its weight */
        Formula f = formula(l);
        int     t = formula_input(&f, target), p = formula_input(&f, scores), share = t;
        int     hit = shares ? -1 : F2(&f, EQ, t, formula_input(&f, iota));
        if (!shares)
            share = F3(&f, SELECT, hit, formula_number(&f, 1), formula_number(&f, 0));
        if (smoothing != 0 && !pass)
            share = F2(&f, ADD, F2(&f, MUL, share, formula_number(&f, 1 - smoothing)),
                       formula_number(&f, smoothing / (double)classes));
        int term = pass ? share : F1(&f, NEG, F2(&f, MUL, share, p));
        if (weight.set)
            term = F2(&f, MUL, term, formula_input(&f, weight));
        if (!shares)
            term = F3(&f, SELECT, F2(&f, NE, t, formula_integer(&f, ignore)), term,
                      formula_number(&f, 0));
        if (pass)
            term = F1(&f, DETACH, term);
        TRY(formula_reduce(&f, term, POINT_SUM, 1u << 1, 1, EX_F32, pass ? &y : &each));
        if (how != REDUCE_MEAN || shares)
            break;
    }
    if (how == REDUCE_NONE)
        return give(l, 0, lone ? item_with(each, view_dropped(each.view, 0)) : each);
    all = (1u << each.view.rank) - 1;
    double  n = how == REDUCE_MEAN && shares ? (double)view_count(&each.view) : 1;
    Formula sum = formula(l), count = formula(l), mean = formula(l);
    Operand total, weights;
    TRY(formula_reduce(&sum, formula_input(&sum, each), POINT_SUM, all, 1 / n, EX_F32, &total));
    if (how != REDUCE_MEAN || shares)
        return give(l, 0, total);
    TRY(formula_reduce(&count, formula_input(&count, y), POINT_SUM, all, 1, EX_F32, &weights));
    if (!weight.set) /* the number of targets, which inputs may tell */
        TRY(own_count(l, target, ignore, &weights));
    int a = formula_input(&mean, total), b = formula_input(&mean, weights);
    return formula_give(&mean, F2(&mean, DIV, a, b), 0);
}

/* Of scores that are logarithms of probabilities already. */
static Err nll_loss_of(Lower *l)
{
    View    x;
    Operand target;
    TRY(arg_view(l, "self", &x));
    TRY(arg_item(l, "target", &target));
    return entropy_of_parts(l, x, target, false);
}

/* t (log t - x), or exp(t) (t - x) where the target is a logarithm */
static Err kl_div_of(Lower *l)
{
    Operand x, target;
    TRY(arg_item(l, "self", &x));
    TRY(arg_item(l, "target", &target));
    Formula f = formula(l);
    int     s = formula_input(&f, x), t = formula_input(&f, target), y;
    if (arg_bool(l, "log_target", false)) {
        y = F2(&f, MUL, F1(&f, EXP, t), F2(&f, SUB, t, s));
    } else { /* t log t is 0 at 0 */
        int some = F2(&f, GT, t, formula_number(&f, 0));
        int safe = F3(&f, SELECT, some, t, formula_number(&f, 1));
        y = F2(&f, MUL, t, F2(&f, SUB, F1(&f, LOG, safe), s));
    }
    return give_loss(l, &f, y);
}

/* log(1 + exp(-t x)) */
static Err soft_margin(Lower *l)
{
    Operand x, target;
    TRY(arg_item(l, "self", &x));
    TRY(arg_item(l, "target", &target));
    Formula f = formula(l);
    int     m = F2(&f, MUL, formula_input(&f, x), formula_float(&f, formula_input(&f, target)));
    return give_loss(l, &f, F1(&f, SOFTPLUS, F1(&f, NEG, m)));
}

/* sum(a b) / (max(|a|, eps) max(|b|, eps)) */
static Err cosine_similarity(Lower *l)
{
    Operand a, b, part[3];
    int     axis;
    double  eps;
    TRY(arg_item(l, "x1", &a));
    TRY(arg_item(l, "x2", &b));
    TRY(arg_float(l, "eps", 1e-8, &eps));
    int rank = a.view.rank > b.view.rank ? a.view.rank : b.view.rank;
    TRY(arg_axis(l, "dim", rank, 1, &axis));
    for (int k = 0; k < 3; k++) {
        Formula f = formula(l);
        int     x = formula_input(&f, k == 2 ? b : a), y = formula_input(&f, k == 1 ? a : b);
        TRY(formula_reduce(&f, F2(&f, MUL, x, y), POINT_SUM, 1u << axis, 1, EX_F32, &part[k]));
    }
    Formula g = formula(l);
    int     low = formula_number(&g, eps * eps), size[3];
    for (int k = 0; k < 3; k++)
        size[k] = formula_input(&g, part[k]);
    int product = F2(&g, MUL, F2(&g, MAX, size[1], low), F2(&g, MAX, size[2], low));
    return formula_give(&g, F2(&g, DIV, size[0], F1(&g, SQRT, product)), 0);
}

static Err aminmax(Lower *l)
{
    Operand  x, y;
    int      axis = 0;
    uint32_t axes;
    TRY(arg_item(l, "self", &x));
    axes = (1u << x.view.rank) - 1;
    if (arg_given(l, "dim")) {
        TRY(arg_axis(l, "dim", x.view.rank, 0, &axis));
        axes = 1u << axis;
    }
    for (int i = 0; i < 2; i++) {
        Formula f = formula(l);
        TRY(formula_reduce(&f, formula_input(&f, x), i ? POINT_AMAX : POINT_AMIN, axes, 1,
                           out_type_of(l, i), &y));
        TRY(give(l, i, arg_bool(l, "keepdim", false) ? kept_axes(y, axes, x.view.rank) : y));
    }
    return OK;
}

static Err cross_entropy_of(Lower *l)
{
    View    x;
    Operand target;
    Tensor  t;
    int64_t how, ignore;
    double  smoothing;
    int     order[VIEW_RANK];
    TRY(arg_view(l, "self", &x));
    TRY(arg_item(l, "target", &target));
    TRY(arg_int(l, "reduction", REDUCE_MEAN, &how));
    TRY(arg_int(l, "ignore_index", LOSS_IGNORE, &ignore));
    TRY(arg_float(l, "label_smoothing", 0, &smoothing));
    if (how != REDUCE_MEAN || smoothing != 0 || arg_given(l, "weight") || type_floats(target.type))
        return entropy_of_parts(l, x, target, true);
    TRY(target_tensor(l, target, ignore, &t));
    if (x.rank == 1)
        x = view_inserted(x, 0, 1);
    /* Classes are axis 1; targets lie in the file's order, so x must too. */
    order_channels_last(x.rank, order);
    Tensor             rows = view_tensor(x, order);
    int64_t            classes = x.dim[1], n = shape_count(tensor_shape(rows)) / classes;
    const ExportedArg *named = arg(l, "target");
    Tensor             count;
    TRY(lower_target_count(l, target, named->kind == ARG_VALUE ? named->values[0] : -1, ignore,
                           &count));
    Tensor y = cross_entropy(reshape(rows, SHAPE(n, classes)), reshape(t, SHAPE(n)), count, 1);
    return give_tensor(l, 0, y, NULL);
}

/* clang-format off */
const LowerDef lower_reduces[] = {
    { "aten.sum.default", reduce, '+', false }, { "aten.sum.dim_IntList", reduce, '+', false },
    { "aten.mean.default", reduce, 'm', false }, { "aten.mean.dim", reduce, 'm', false },
    { "aten.amax.default", reduce, 'X', false }, { "aten.amin.default", reduce, 'N', false },
    { "aten.max.default", reduce, 'X', false }, { "aten.min.default", reduce, 'N', false },
    { "aten.all.default", reduce, 'A', false }, { "aten.all.dim", reduce, 'A', false },
    { "aten.any.default", reduce, 'O', false }, { "aten.any.dim", reduce, 'O', false },
    { "aten.any.dims", reduce, 'O', false }, { "aten.all.dims", reduce, 'A', false },
    { "aten.nansum.default", reduce, 'n', false }, { "aten.count_nonzero.default", reduce, 'c', false },
    { "aten.count_nonzero.dim_IntList", reduce, 'c', false },
    { "aten.var.default", variance, 'v', false }, { "aten.var.dim", variance, 'v', false },
    { "aten.var.correction", variance, 'v', false }, { "aten.std.default", variance, 's', false },
    { "aten.std.dim", variance, 's', false }, { "aten.std.correction", variance, 's', false },
    { "aten.var_mean.correction", variance, 'b', false }, { "aten.var_mean.dim", variance, 'b', false },
    { "aten.std_mean.correction", variance, 'S', false }, { "aten.std_mean.default", variance, 'S', false },
    { "aten.std_mean.dim", variance, 'S', false }, { "aten.var_mean.default", variance, 'b', false },
    { "aten.linalg_vector_norm.default", vector_norm, 0, false },
    { "aten.norm.ScalarOpt_dim", vector_norm, 0, false }, { "aten.norm.Scalar", vector_norm, 0, false },
    { "aten.frobenius_norm.dim", vector_norm, 0, false },
    { "aten.linalg_norm.default", vector_or_matrix_norm, 0, false },
    { "aten.linalg_norm.ord_str", vector_or_matrix_norm, 0, false },
    { "aten.nanmean.default", nan_mean, 0, false },
    { "aten.softmax.int", softmax_of, 0, false }, { "aten._softmax.default", softmax_of, 0, false },
    { "aten.log_softmax.int", softmax_of, 1, false },
    { "aten._log_softmax.default", softmax_of, 1, false },
    { "aten.logsumexp.default", logsumexp_of, 0, false },
    { "aten.mse_loss.default", pair_loss, '2', false }, { "aten.l1_loss.default", pair_loss, '1', false },
    { "aten.smooth_l1_loss.default", pair_loss, 's', false },
    { "aten.huber_loss.default", pair_loss, 'h', false },
    { "aten.binary_cross_entropy.default", bce, 0, false },
    { "aten.binary_cross_entropy_with_logits.default", bce, 1, false },
    { "aten.cross_entropy_loss.default", cross_entropy_of, 0, false },
    { "aten.nll_loss_nd.default", nll_loss_of, 0, false }, { "aten.nll_loss.default", nll_loss_of, 0, false },
    { "aten.kl_div.default", kl_div_of, 0, false }, { "aten.soft_margin_loss.default", soft_margin, 0, false },
    { "aten.cosine_similarity.default", cosine_similarity, 0, false },
    { "aten.aminmax.default", aminmax, 0, false },
    { 0 }
};
/* clang-format on */
