/* formula.c -- elementwise computations of a program: on the host if every operand is a constant,
 * otherwise one pointwise node. */
#include "import/lower.h"

#include <math.h>
#include <string.h>

Formula formula(Lower *l) { return (Formula){ .l = l }; }

static int add_step(Formula *f, PointStep step)
{
    if (f->n_steps == POINT_STEPS) {
        f->full = true;
        return 0;
    }
    f->step[f->n_steps] = step;
    return f->n_steps++;
}

int formula_input(Formula *f, Operand item)
{
    if (f->n_in == POINT_INPUTS) {
        f->full = true;
        return 0;
    }
    f->missing |= !item.set || (!item.host && !tensor_ok(item.view.base));
    f->in[f->n_in] = item;
    return add_step(f, (PointStep){ .op = POINT_INPUT,
                                    .integer = !type_floats(item.type),
                                    .a = (int16_t)f->n_in++ });
}

int formula_number(Formula *f, double value) { return formula_input(f, item_number(f->l, value)); }

int formula_integer(Formula *f, int64_t value)
{
    return formula_input(f, item_integer(f->l, value));
}

static char point_kind(PointOp op)
{
    static const char kinds[] = {
#define X(name, n, kind) kind,
        POINT_OP_LIST(X)
#undef X
    };
    return kinds[op];
}

static bool compares(PointOp op) { return op >= POINT_EQ && op <= POINT_GE; }

int formula_step(Formula *f, PointOp op, int a, int b, int c)
{
    char kind = point_kind(op);
    bool mixed = kind == 's' || compares(op);
    int  first = op == POINT_SELECT ? 1 : 0, x[3] = { a, b, c };
    bool floats = false;
    for (int i = first; i < 3; i++)
        floats |= x[i] >= 0 && !f->step[x[i]].integer;
    if (kind == 'f' || (mixed && floats))
        for (int i = first; i < 3; i++)
            if (x[i] >= 0 && op != POINT_TO_F32)
                x[i] = formula_float(f, x[i]);
    bool integer = kind == 'i' || (kind == 's' && !floats);
    return add_step(f, (PointStep){ .op = (uint8_t)op,
                                    .integer = integer,
                                    .a = (int16_t)x[0],
                                    .b = (int16_t)x[1],
                                    .c = (int16_t)x[2] });
}

int formula_float(Formula *f, int a)
{
    return f->step[a].integer
               ? add_step(f, (PointStep){ .op = POINT_TO_F32, .a = (int16_t)a, .b = -1, .c = -1 })
               : a;
}

int formula_power(Formula *f, int x, double p)
{
    return p == 2   ? F1(f, SQUARE, x)
           : p == 1 ? F1(f, ABS, x)
                    : F2(f, POW, F1(f, ABS, x), formula_number(f, p));
}

int formula_norm(Formula *f, int x, double p)
{
    if (p == 1)
        return x;
    int nil = formula_number(f, 0), none = F2(f, EQ, x, nil);
    int some = F3(f, SELECT, none, formula_number(f, 1), x);
    int root = p == 2 ? F1(f, SQRT, some) : F2(f, POW, some, formula_number(f, 1 / p));
    return F3(f, SELECT, none, nil, root);
}

int formula_root(Formula *f, int x) { return formula_norm(f, x, 2); }

int formula_as(Formula *f, int a, ExportedType type)
{
    if (type == EX_BOOL)
        return F1(f, TO_TRUTH, a);
    if (type_floats(type))
        return formula_float(f, a);
    return f->step[a].integer ? a : F1(f, TO_I32, a);
}

/* ---- on the host ---- */

typedef struct HostNumber {
    double  f;
    int64_t i;
} HostNumber;

static double erf_gelu(double x) { return 0.5 * x * (1 + erf(x * 0.70710678118654752440)); }
static double tanh_gelu(double x)
{
    return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}
static double sign_of(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0 * x; }
static double softplus_of(double x) { return x > 30 ? x : log1p(exp(x)); }

static double host_float(PointOp op, double a, double b)
{
    switch (op) {
    case POINT_ADD: return a + b;
    case POINT_SUB: return a - b;
    case POINT_MUL: return a * b;
    case POINT_DIV: return a / b;
    case POINT_FLOOR_DIV: return floor(a / b);
    case POINT_REMAINDER: return a - b * floor(a / b);
    case POINT_FMOD: return fmod(a, b);
    case POINT_POW: return pow(a, b);
    case POINT_ATAN2: return atan2(a, b);
    case POINT_MIN:
    case POINT_CLAMP_MAX: return isnan(a) || a < b ? a : b;
    case POINT_MAX:
    case POINT_CLAMP_MIN: return isnan(a) || a > b ? a : b;
    case POINT_TO_F32:
    case POINT_DETACH: return a;
    case POINT_ROUND_BF16:
    case POINT_ROUND_F16: return a; /* a table keeps the precision that it has */
    case POINT_NEG: return -a;
    case POINT_ABS: return fabs(a);
    case POINT_SIGN: return sign_of(a);
    case POINT_SQUARE: return a * a;
    case POINT_SQRT: return sqrt(a);
    case POINT_RSQRT: return 1 / sqrt(a);
    case POINT_RECIPROCAL: return 1 / a;
    case POINT_EXP: return exp(a);
    case POINT_EXP2: return exp2(a);
    case POINT_EXPM1: return expm1(a);
    case POINT_LOG: return log(a);
    case POINT_LOG2: return log2(a);
    case POINT_LOG1P: return log1p(a);
    case POINT_SIN: return sin(a);
    case POINT_COS: return cos(a);
    case POINT_TAN: return tan(a);
    case POINT_ASIN: return asin(a);
    case POINT_ACOS: return acos(a);
    case POINT_ATAN: return atan(a);
    case POINT_SINH: return sinh(a);
    case POINT_COSH: return cosh(a);
    case POINT_TANH: return tanh(a);
    case POINT_SIGMOID: return 1 / (1 + exp(-a));
    case POINT_LOG_SIGMOID: return -softplus_of(-a);
    case POINT_SOFTPLUS: return softplus_of(a);
    case POINT_RELU: return a > 0 || isnan(a) ? a : 0;
    case POINT_SILU: return a / (1 + exp(-a));
    case POINT_GELU: return erf_gelu(a);
    case POINT_GELU_TANH: return tanh_gelu(a);
    case POINT_MISH: return a * tanh(softplus_of(a));
    case POINT_ERF: return erf(a);
    case POINT_FLOOR: return floor(a);
    case POINT_CEIL: return ceil(a);
    case POINT_ROUND: return nearbyint(a);
    case POINT_TRUNC: return trunc(a);
    default: return NAN;
    }
}

static int64_t floor_div(int64_t a, int64_t b)
{
    if (!b)
        return 0;
    if (b == -1) /* the smallest number has no negative */
        return (int64_t)(0 - (uint64_t)a);
    int64_t q = a / b;
    return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}

static int64_t host_integer(PointOp op, int64_t a, int64_t b)
{
    switch (op) {
    case POINT_ADD: return (int64_t)((uint64_t)a + (uint64_t)b);
    case POINT_SUB: return (int64_t)((uint64_t)a - (uint64_t)b);
    case POINT_MUL: return (int64_t)((uint64_t)a * (uint64_t)b);
    case POINT_FLOOR_DIV: return floor_div(a, b);
    case POINT_REMAINDER: return b && b != -1 ? a - b * floor_div(a, b) : 0;
    case POINT_FMOD: return b && b != -1 ? a % b : 0;
    case POINT_MIN:
    case POINT_CLAMP_MAX: return a < b ? a : b;
    case POINT_MAX:
    case POINT_CLAMP_MIN: return a > b ? a : b;
    case POINT_AND: return a & b;
    case POINT_OR: return a | b;
    case POINT_XOR: return a ^ b;
    case POINT_SHIFT_LEFT: return (int64_t)((uint64_t)a << (b & 63));
    case POINT_SHIFT_RIGHT: return a >> (b & 63);
    case POINT_NEG: return (int64_t)(0 - (uint64_t)a);
    case POINT_ABS: return a < 0 ? (int64_t)(0 - (uint64_t)a) : a;
    case POINT_SIGN: return (a > 0) - (a < 0);
    case POINT_SQUARE: return (int64_t)((uint64_t)a * (uint64_t)a);
    default: return a;
    }
}

static bool host_compares(PointOp op, double a, double b)
{
    switch (op) {
    case POINT_EQ: return a == b;
    case POINT_NE: return a != b;
    case POINT_LT: return a < b;
    case POINT_LE: return a <= b;
    case POINT_GT: return a > b;
    default: return a >= b;
    }
}

static bool host_compares_whole(PointOp op, int64_t a, int64_t b)
{
    switch (op) {
    case POINT_EQ: return a == b;
    case POINT_NE: return a != b;
    case POINT_LT: return a < b;
    case POINT_LE: return a <= b;
    case POINT_GT: return a > b;
    default: return a >= b;
    }
}

static HostNumber host_step_value(const PointStep *steps, const PointStep *s, const HostNumber *x)
{
    HostNumber a = s->a >= 0 ? x[s->a] : (HostNumber){ 0 };
    HostNumber b = s->b >= 0 ? x[s->b] : (HostNumber){ 0 };
    bool       whole = s->a >= 0 && steps[s->a].integer;
    switch (s->op) {
    case POINT_SELECT: return a.i ? b : x[s->c];
    case POINT_TO_F32: return (HostNumber){ .f = whole ? (double)a.i : a.f };
    case POINT_TO_I32: return (HostNumber){ .i = whole ? a.i : isfinite(a.f) ? int_of(a.f) : 0 };
    case POINT_TO_TRUTH: return (HostNumber){ .i = whole ? a.i != 0 : a.f != 0 };
    case POINT_NOT: return (HostNumber){ .i = whole ? !a.i : a.f == 0 };
    case POINT_IS_NAN: return (HostNumber){ .i = !whole && isnan(a.f) };
    case POINT_IS_INF: return (HostNumber){ .i = !whole && isinf(a.f) };
    default: break;
    }
    if (compares((PointOp)s->op))
        return (HostNumber){ .i = whole ? host_compares_whole((PointOp)s->op, a.i, b.i)
                                        : host_compares((PointOp)s->op, a.f, b.f) };
    return s->integer ? (HostNumber){ .i = host_integer((PointOp)s->op, a.i, b.i) }
                      : (HostNumber){ .f = host_float((PointOp)s->op, a.f, b.f) };
}

/* To `bits` of precision, half to even; numbers below `least` have fewer. */
static double rounded_to(double x, int bits, int least)
{
    int exponent;
    if (!isfinite(x) || x == 0)
        return x;
    frexp(x, &exponent);
    int unit = (exponent > least ? exponent : least) - bits;
    return ldexp(nearbyint(ldexp(x, -unit)), unit);
}

static double rounded(ExportedType type, double x)
{
    switch (type) {
    case EX_F32: return (double)(float)x;
    case EX_BF16: return rounded_to((double)(float)x, 8, -125);
    case EX_F16: return fabs(x) >= 65520 ? copysign(INFINITY, x) : rounded_to(x, 11, -13);
    default: return x;
    }
}

/* Axes along which every operand is repeated are computed once. */
static Dims varying(const Formula *f, Dims dims)
{
    Dims kept = dims;
    for (int a = 0; a < dims.rank; a++)
        kept.at[a] = dims.at[a] ? 1 : 0;
    for (int i = 0; i < f->n_in; i++) {
        const View *v = &f->in[i].view;
        for (int a = 0; a < v->rank; a++)
            if (v->stride[a] && v->dim[a] > 1)
                kept.at[dims.rank - v->rank + a] = v->dim[a];
    }
    return kept;
}

static Err host_points(Formula *f, int result, ExportedType type, Dims dims, Operand *item)
{
    HostArray *to;
    HostWalk   walk[POINT_INPUTS];
    HostNumber x[POINT_STEPS];
    View       views[POINT_INPUTS];
    *item = item_host(f->l, type, dims, &to);
    for (int i = 0; i < f->n_in; i++) {
        views[i] = view_expanded(f->in[i].view, dims);
        walk[i] = host_walk(&views[i]);
    }
    for (int64_t n = 0; n < to->n; n++) {
        int64_t at[POINT_INPUTS];
        for (int i = 0; i < f->n_in; i++)
            host_step(&walk[i], &at[i]);
        for (int s = 0; s <= result; s++) {
            const PointStep *step = &f->step[s];
            if (step->op != POINT_INPUT)
                x[s] = host_step_value(f->step, step, x);
            else if (step->integer)
                x[s].i = host_i(&f->in[step->a], at[step->a]);
            else
                x[s].f = host_f(&f->in[step->a], at[step->a]);
        }
        if (to->integer)
            to->i[n] = x[result].i;
        else
            to->f[n] = rounded(type, x[result].f);
    }
    return OK;
}

static Err host_formula(Formula *f, int result, ExportedType type, Dims dims, Operand *item)
{
    Formula once = *f;
    Dims    kept = varying(f, dims);
    for (int i = 0; i < f->n_in; i++) {
        View *v = &once.in[i].view;
        for (int a = 0; a < v->rank; a++)
            v->dim[a] = v->dim[a] < kept.at[dims.rank - v->rank + a]
                            ? v->dim[a]
                            : kept.at[dims.rank - v->rank + a];
    }
    TRY(host_points(&once, result, type, kept, item));
    item->view = view_expanded(item->view, dims);
    return OK;
}

/* ---- in the graph ---- */

Err formula_dims(Formula *f, Dims *dims)
{
    *dims = (Dims){ 0 };
    for (int i = 0; i < f->n_in; i++)
        dims->rank = f->in[i].view.rank > dims->rank ? f->in[i].view.rank : dims->rank;
    for (int a = 0; a < dims->rank; a++)
        dims->at[a] = 1;
    for (int i = 0; i < f->n_in; i++) {
        const View *v = &f->in[i].view;
        for (int a = 0; a < v->rank; a++) {
            int64_t *to = &dims->at[dims->rank - v->rank + a];
            if (v->dim[a] != 1 && *to != 1 && *to != v->dim[a])
                return refuse(f->l, "its operands do not broadcast together");
            if (v->dim[a] != 1)
                *to = v->dim[a];
        }
    }
    return dims_count(*dims) <= DIMS_MAX ? OK : refuse(f->l, "more than 2^48 elements");
}

/* An operand that is a slice of something is copied out of it; repeated axes stay repeated. */
static View whole_operand(View v, const int *order)
{
    int have[VIEW_RANK];
    if (view_is_whole(&v, have))
        return v;
    View kept = v;
    for (int a = 0; a < v.rank; a++)
        if (!v.stride[a])
            kept.dim[a] = 1;
    return view_expanded(view_densed(kept, order), view_dims(&v));
}

/* The space of a node: the axes in the order of iteration, those merged that all operands allow. */
typedef struct Space {
    Dims     dims;
    int      order[VIEW_RANK];
    int      rank;
    int64_t  dim[VIEW_RANK];
    int64_t  stride[POINT_INPUTS][VIEW_RANK];
    uint32_t reduced; /* axes of the space */
} Space;

static bool merges(const Space *s, int n_in, const View *views, int axis, uint32_t axes, int last)
{
    if (!s->rank || !(axes >> axis & 1) != !(axes >> last & 1))
        return false;
    for (int i = 0; i < n_in; i++)
        if (views[i].rank &&
            s->stride[i][s->rank - 1] != views[i].stride[axis] * views[i].dim[axis])
            return false;
    return true;
}

static void space_fill(Space *s, int n_in, const View *views, uint32_t axes)
{
    int last = 0;
    for (int k = 0; k < s->dims.rank; k++) {
        int axis = s->order[k];
        if (s->dims.at[axis] == 1)
            continue;
        bool merged = merges(s, n_in, views, axis, axes, last);
        if (merged)
            s->dim[s->rank - 1] *= s->dims.at[axis];
        else
            s->dim[s->rank++] = s->dims.at[axis];
        for (int i = 0; i < n_in; i++)
            s->stride[i][s->rank - 1] = views[i].rank ? views[i].stride[axis] : 0;
        if (axes >> axis & 1)
            s->reduced |= 1u << (s->rank - 1);
        last = axis;
    }
    if (!s->rank) {
        s->rank = 1;
        s->dim[0] = 1;
        s->reduced = axes ? 1 : 0;
    }
}

/* Is the operand a single constant? Then it is part of the program. */
static bool constant_operand(const Operand *item)
{
    if (!item->host)
        return false;
    for (int a = 0; a < item->view.rank; a++)
        if (item->view.dim[a] != 1 && item->view.stride[a])
            return false;
    return true;
}

static Err operand_views(Formula *f, Dims dims, Space *s, View *views)
{
    int leading = -1;
    for (int i = 0; i < f->n_in; i++) {
        views[i] = (View){ .base = tensor_none(f->l->graph) };
        if (constant_operand(&f->in[i]))
            continue;
        TRY(item_view(f->l, &f->in[i], &views[i]));
        views[i] = view_expanded(views[i], dims);
        /* The order of iteration is that of the first operand that is not repeated, a graph tensor
         * rather than a constant. */
        bool full = !f->in[i].host;
        for (int a = 0; a < dims.rank; a++)
            full &= views[i].dim[a] == 1 || views[i].stride[a];
        if (full && leading < 0)
            leading = i;
    }
    for (int a = 0; a < dims.rank; a++)
        s->order[a] = a;
    if (leading >= 0)
        view_order(&views[leading], s->order);
    for (int i = 0; i < f->n_in; i++)
        if (tensor_ok(views[i].base))
            views[i] = whole_operand(views[i], s->order);
    return graph_check(f->l->graph);
}

static int emit_input(Formula *f, PointProgram *p, const Space *s, const View *views, int i)
{
    const Operand *item = &f->in[i];
    if (tensor_ok(views[i].base))
        return point_input(p, views[i].base, s->stride[i]);
    if (!type_floats(item->type))
        return point_integer(p, (int32_t)host_i(item, item->view.offset));
    return point_constant(p, (float)host_f(item, item->view.offset));
}

/* fp32 where the file has fp32 and no operand is kept in fewer bits. */
static Type result_type(const Formula *f, const View *views, ExportedType type)
{
    Type want = store_type(f->l, type);
    if (type != EX_F32 || want == F32)
        return want;
    for (int i = 0; i < f->n_in; i++)
        if (tensor_ok(views[i].base) && !f->in[i].host && type_is_float(view_type(&views[i])) &&
            view_type(&views[i]) != F32)
            return want;
    return F32;
}

static Err emit_formula(Formula *f, int result, ExportedType type, Dims dims, PointReduce how,
                        uint32_t axes, double scale, Operand *item)
{
    View  views[POINT_INPUTS];
    Space s = { .dims = dims };
    TRY(operand_views(f, dims, &s, views));
    space_fill(&s, f->n_in, views, axes);
    if (s.rank > POINT_RANK)
        return refuse(f->l, "operands with %d axes that cannot be merged", s.rank);
    PointProgram p = point_begin(s.rank, s.dim);
    p.graph = f->l->graph;
    int at[POINT_STEPS];
    for (int i = 0; i <= result; i++) {
        const PointStep *step = &f->step[i];
        at[i] = step->op == POINT_INPUT
                    ? emit_input(f, &p, &s, views, step->a)
                    : point_step(&p, (PointOp)step->op, step->a >= 0 ? at[step->a] : -1,
                                 step->b >= 0 ? at[step->b] : -1, step->c >= 0 ? at[step->c] : -1);
    }
    Dims left = { 0 };
    int  order[VIEW_RANK], place[VIEW_RANK], n = 0;
    for (int a = 0; a < dims.rank; a++) {
        place[a] = left.rank;
        if (!(axes >> a & 1))
            left.at[left.rank++] = dims.at[a];
    }
    for (int k = 0; k < dims.rank; k++)
        if (!(axes >> s.order[k] & 1))
            order[n++] = place[s.order[k]];
    Shape shape = view_shape(left, order);
    Type  stored = how == POINT_SUM && type_floats(type) && type != EX_BF16 && type != EX_F16
                       ? F32
                       : result_type(f, views, type);
    if (how == POINT_STORED)
        point_store(&p, at[result], stored, shape);
    else
        point_reduce(&p, at[result], how, s.reduced, (float)scale, stored, shape);
    Tensor t = point_end(&p, NULL);
    TRY(graph_check(f->l->graph));
    *item = item_of(f->l, view_make(t, left, order), type);
    return OK;
}

Err formula_item(Formula *f, int result, ExportedType type, Operand *item)
{
    Dims dims;
    TRY(formula_dims(f, &dims));
    if (f->full)
        return refuse(f->l, "a computation of more than %d operations", POINT_STEPS);
    if (f->missing)
        return refuse(f->l, "an argument is missing");
    result = formula_as(f, result, type);
    bool host = true;
    for (int i = 0; i < f->n_in; i++)
        host &= f->in[i].host != NULL;
    if (host)
        return host_formula(f, result, type, dims, item);
    return emit_formula(f, result, type, dims, POINT_STORED, 0, 1, item);
}

Err formula_give(Formula *f, int result, int i)
{
    Operand item;
    TRY(formula_item(f, result, out_type_of(f->l, i), &item));
    return give(f->l, i, item);
}

static Err host_reduce(Formula *f, int result, PointReduce how, uint32_t axes, double scale,
                       ExportedType type, Dims dims, Operand *item)
{
    Operand    full;
    HostArray *to;
    Dims       left = { 0 };
    TRY(host_formula(f, result, f->step[result].integer ? EX_I64 : EX_F64, dims, &full));
    View into = { .rank = dims.rank };
    for (int a = 0; a < dims.rank; a++)
        if (!(axes >> a & 1))
            left.at[left.rank++] = dims.at[a];
    int64_t stride = 1;
    for (int a = dims.rank - 1; a >= 0; a--) {
        into.dim[a] = dims.at[a];
        into.stride[a] = axes >> a & 1 ? 0 : stride;
        stride *= axes >> a & 1 ? 1 : dims.at[a];
    }
    *item = item_host(f->l, type, left, &to);
    bool   *seen = NEWN(f->l->pool, bool, to->n + 1);
    int64_t from, at;
    for (HostWalk r = host_walk(&full.view), w = host_walk(&into); host_step(&r, &from);) {
        host_step(&w, &at);
        double x = host_f(&full, from), old = to->integer ? (double)to->i[at] : to->f[at];
        double next = how == POINT_SUM    ? (seen[at] ? old : 0) + x
                      : !seen[at]         ? x
                      : how == POINT_AMAX ? fmax(old, x)
                                          : fmin(old, x);
        seen[at] = true;
        if (to->integer)
            to->i[at] = int_of(next);
        else
            to->f[at] = next;
    }
    for (int64_t n = 0; n < to->n && how == POINT_SUM && !to->integer; n++)
        to->f[n] = rounded(type, to->f[n] * scale);
    return OK;
}

Err formula_reduce(Formula *f, int result, PointReduce how, uint32_t axes, double scale,
                   ExportedType type, Operand *item)
{
    Dims dims;
    TRY(formula_dims(f, &dims));
    if (type_floats(type))
        result = formula_float(f, result);
    else if (!f->step[result].integer)
        result = F1(f, TO_I32, result);
    if (f->full)
        return refuse(f->l, "a computation of more than %d operations", POINT_STEPS);
    if (f->missing)
        return refuse(f->l, "an argument is missing");
    bool host = true;
    for (int i = 0; i < f->n_in; i++)
        host &= f->in[i].host != NULL;
    if (host)
        return host_reduce(f, result, how, axes, scale, type, dims, item);
    return emit_formula(f, result, type, dims, how, axes, scale, item);
}
