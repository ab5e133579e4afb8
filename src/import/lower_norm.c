/* lower_norm.c -- norms. */
#include "import/lower.h"

#include "ops/norm/batchnorm.h"
#include "ops/norm/groupnorm.h"
#include "ops/norm/layernorm.h"
#include "ops/norm/rmsnorm.h"
#include "ops/norm/weight_norm.h"
#include "ops/elementwise/basic.h"

#include <string.h>

static Err channels_tensor(Lower *l, const char *name, int *order, Tensor *t)
{
    View x;
    TRY(arg_view(l, name, &x));
    if (x.rank < 2)
        return refuse(l, "an input with %d axes", x.rank);
    order_channels_last(x.rank, order);
    Shape shape = view_shape(view_dims(&x), order);
    if (x.rank == 2) /* a map of one point */
        shape = SHAPE(x.dim[0], 1, x.dim[1]);
    *t = view_tensor_as(x, order, shape);
    return OK;
}

static Err norm_with_groups(Lower *l, int64_t groups)
{
    Tensor x, w, b;
    double eps;
    int    order[VIEW_RANK];
    TRY(channels_tensor(l, "input", order, &x));
    TRY(arg_vector(l, "weight", &w));
    TRY(arg_vector(l, "bias", &b));
    TRY(arg_float(l, "eps", 1e-5, &eps));
    groups = groups ? groups : dim(tensor_shape(x), -1);
    return give_tensor(l, 0, groupnorm(x, w, b, groups, (float)eps, NORM_LINEAR), order);
}

static Err group_norm(Lower *l)
{
    int64_t groups;
    TRY(arg_int(l, arg_given(l, "group") ? "group" : "num_groups", 1, &groups));
    return norm_with_groups(l, groups);
}

static Err instance_norm(Lower *l)
{
    if (!arg_bool(l, "use_input_stats", true))
        return refuse(l, "instance norm with stored statistics is not supported");
    return norm_with_groups(l, 0);
}

/* The last n axes innermost and as one. */
static Err rows_tensor(Lower *l, const char *name, int n, int *order, Tensor *t)
{
    View x;
    TRY(arg_view(l, name, &x));
    if (n < 1 || n > x.rank)
        return refuse(l, "%d axes of %d to normalise", n, x.rank);
    int all[VIEW_RANK], k = 0;
    view_order(&x, all);
    for (int i = 0; i < x.rank; i++)
        if (all[i] < x.rank - n)
            order[k++] = all[i];
    for (int i = x.rank - n; i < x.rank; i++)
        order[k++] = i;
    int64_t width = 1;
    for (int i = x.rank - n; i < x.rank; i++)
        width *= x.dim[i];
    Dims outer = { .rank = x.rank - n + 1 };
    int  outer_order[VIEW_RANK];
    for (int i = 0; i < x.rank - n; i++) {
        outer.at[i] = x.dim[i];
        outer_order[i] = order[i];
    }
    outer.at[x.rank - n] = width;
    outer_order[x.rank - n] = x.rank - n;
    *t = view_tensor_as(x, order, view_shape(outer, outer_order));
    return OK;
}

static Err flat_vector(Lower *l, const char *name, Tensor *t)
{
    TRY(arg_vector(l, name, t));
    if (tensor_ok(*t))
        *t = reshape(*t, SHAPE(shape_count(tensor_shape(*t))));
    return OK;
}

static Err layer_norm(Lower *l)
{
    Tensor  x, w, b;
    double  eps;
    int64_t shape[VIEW_RANK];
    int     n, order[VIEW_RANK];
    TRY(arg_ints(l, "normalized_shape", shape, &n));
    TRY(rows_tensor(l, "input", n, order, &x));
    TRY(flat_vector(l, "weight", &w));
    TRY(flat_vector(l, "bias", &b));
    TRY(arg_float(l, "eps", 1e-5, &eps));
    return give_tensor(l, 0, layernorm(x, w, b, (float)eps), order);
}

static Err rms_norm(Lower *l)
{
    Tensor  x, w;
    double  eps;
    int64_t shape[VIEW_RANK];
    int     n, order[VIEW_RANK];
    TRY(arg_ints(l, "normalized_shape", shape, &n));
    TRY(rows_tensor(l, "input", n, order, &x));
    TRY(flat_vector(l, "weight", &w));
    TRY(arg_float(l, "eps", 1.1920928955078125e-07, &eps)); /* of fp32, as PyTorch's default */
    return give_tensor(l, 0, rmsnorm(x, w, (float)eps), order);
}

/* ---- batch norm ---- */

/* State that a call writes: a buffer's tensor, which lower_input has made persistent. */
static Err state_of(Lower *l, const char *name, Tensor *t)
{
    Operand item;
    TRY(arg_item(l, name, &item));
    *t = tensor_none(l->graph);
    if (!item.set)
        return OK;
    if (item.host)
        return refuse(l, "'%s' is not a buffer of the module", name);
    *t = item.view.base;
    return OK;
}

static Err batch_norm(Lower *l)
{
    Tensor x, w, b, mean, var, statistics;
    double eps, momentum;
    int    order[VIEW_RANK];
    TRY(channels_tensor(l, "input", order, &x));
    TRY(arg_vector(l, "weight", &w));
    TRY(arg_vector(l, "bias", &b));
    TRY(state_of(l, "running_mean", &mean));
    TRY(state_of(l, "running_var", &var));
    TRY(arg_float(l, "eps", 1e-5, &eps));
    TRY(arg_float(l, "momentum", 0.1, &momentum));
    if (l->def->with || !arg_bool(l, "training", true)) {
        if (!tensor_ok(mean) || !tensor_ok(var))
            return refuse(l, "batch norm outside training needs stored statistics");
        return give_tensor(l, 0, batchnorm_eval(x, w, b, mean, var, (float)eps, false), order);
    }
    Tensor y = batchnorm(x, w, b, (float)eps, false, &statistics);
    TRY(graph_check(l->graph));
    if (tensor_ok(mean) && tensor_ok(var) && l->graph->phase == PHASE_MICRO) {
        const char *name = value_at(l->graph, mean.id)->name;
        Tensor batches = state_add(l->graph, pool_print(l->pool, "%s.count", name), I32, SHAPE(1),
                                   CLASS_CONSTANTS, false);
        batchnorm_track(x, statistics, mean, var, batches, (float)eps, (float)momentum);
    }
    return give_tensor(l, 0, y, order);
}

/* g v / |v|: the norm over all axes but one, or over all of them where `dim` is -1. */
static Err weight_norm_of(Lower *l)
{
    View    v, g;
    int64_t axis;
    TRY(arg_view(l, "v", &v));
    TRY(arg_view(l, "g", &g));
    TRY(arg_int(l, "dim", 0, &axis));
    if (axis < -1 || axis >= v.rank)
        return refuse(l, "axis %lld of %d", (long long)axis, v.rank);
    if (!axis)
        return give_tensor(l, 0, weight_norm(view_tensor(g, NULL), view_tensor(v, NULL)), NULL);
    Operand  sum, x = item_of(l, v, EX_F32);
    uint32_t axes = ((1u << v.rank) - 1) & ~(axis < 0 ? 0 : 1u << axis);
    Formula  f = formula(l);
    TRY(formula_reduce(&f, F1(&f, SQUARE, formula_input(&f, x)), POINT_SUM, axes, 1, EX_F32, &sum));
    for (int i = 0; i < v.rank; i++)
        if (axes >> i & 1)
            sum.view = view_inserted(sum.view, i, 1);
    Formula h = formula(l);
    int     scale = F2(&h, MUL, formula_input(&h, item_of(l, g, EX_F32)),
                       F1(&h, RSQRT, formula_input(&h, sum)));
    return formula_give(&h, F2(&h, MUL, formula_input(&h, x), scale), 0);
}

/* clang-format off */
const LowerDef lower_norms[] = {
    { "aten.group_norm.default", group_norm, 0, false },
    { "aten.instance_norm.default", instance_norm, 0, false },
    { "aten.layer_norm.default", layer_norm, 0, false },
    { "aten.rms_norm.default", rms_norm, 0, false },
    { "aten._fused_rms_norm.default", rms_norm, 0, false },
    { "aten.batch_norm.default", batch_norm, 0, false },
    /* of a program that was decomposed; nobody reads their other results */
    { "aten.native_layer_norm.default", layer_norm, 0, false },
    { "aten.native_group_norm.default", group_norm, 0, false },
    { "aten._native_batch_norm_legit.default", batch_norm, 0, false },
    { "aten._native_batch_norm_legit.no_stats", batch_norm, 0, false },
    { "aten._native_batch_norm_legit_functional.default", batch_norm, 0, false },
    { "aten._native_batch_norm_legit_no_training.default", batch_norm, 1, false },
    { "aten._weight_norm.default", weight_norm_of, 0, false },
    { 0 }
};
/* clang-format on */
