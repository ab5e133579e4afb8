/* known_dml.c -- the loss of a mixture of logistics.
 *
 *   sum or mean of  -logsumexp(log p_j + log_softmax(logits))  over all targets, those that a mask
 *   leaves out being 0, where x (..., 3K) = [logits | means | log scales] and p_j is the mass of
 *   the target's bin, as dml.h says
 *
 * log p_j is compared in normal form (known_terms.h): how it is multiplied out, the sign inside of
 * softplus and sigmoid, and which edge is asked for first do not matter.
 */
#include "import/known_calls.h"
#include "import/known_terms.h"

#include "ops/loss/dml.h"
#include "ops/loss/loss.h"

#include <math.h>
#include <string.h>

enum { LEAF_TARGET, LEAF_LOGITS, LEAF_MEANS, LEAF_SCALES };

typedef struct DmlLoss {
    int32_t x, target, mask; /* mask: targets that count, or -1 */
    int     levels;
    double  scale;
} DmlLoss;

typedef struct DmlSearch {
    KnownSearch *k;
    Terms        t;
    Dims         dims; /* of what is computed for each component: (..., K) */
    DmlLoss      found;
} DmlSearch;

/* ---- reading ---- */

static Poly read_value(DmlSearch *s, int32_t value);

static Poly fail_poly(DmlSearch *s)
{
    s->t.failed = true;
    return poly_number(0);
}

static bool is_integer(const DmlSearch *s, int32_t value)
{
    ExportedType type = s->k->l->program->values[value].type;
    return type == EX_I64 || type == EX_I32;
}

static Poly read_arg(DmlSearch *s, const ExportedCall *call, int i)
{
    double number;
    if (known_number_at(call, i, &number))
        return poly_number(number);
    return known_arg(call, i) >= 0 ? read_value(s, known_arg(call, i)) : fail_poly(s);
}

/* A third of the last axis of x. */
static Poly read_part(DmlSearch *s, const ExportedCall *call, int32_t value)
{
    const ExportedArg *axis = call_arg(call, "dim");
    Dims               whole;
    int32_t            x = known_arg(call, 0);
    bool               last = axis && axis->kind == ARG_INT && !axis->values &&
                (axis->ints[0].value == -1 || axis->ints[0].value == s->dims.rank - 1);
    if (!last || call->n_out != 3 || !known_dims(s->k, x, &whole) || whole.rank != s->dims.rank ||
        whole.at[whole.rank - 1] != 3 * s->dims.at[whole.rank - 1] ||
        (s->found.x >= 0 && s->found.x != x))
        return fail_poly(s);
    s->found.x = x;
    for (int i = 0; i < 3; i++)
        if (call->out[i] == value)
            return poly_leaf(&s->t, LEAF_LOGITS + i);
    return fail_poly(s);
}

static Poly read_target(DmlSearch *s, int32_t value)
{
    if (s->found.target >= 0 && s->found.target != value)
        return fail_poly(s);
    s->found.target = value;
    return poly_leaf(&s->t, LEAF_TARGET);
}

/* A new last axis: for each component. What stands in front of it is the target. */
static Poly read_axis(DmlSearch *s, const ExportedCall *call)
{
    const ExportedArg *at = call->n_args == 2 ? &call->args[1] : NULL;
    int32_t            value = known_arg(call, 0);
    Dims               dims, want = s->dims;
    want.rank--;
    if (!at || at->kind != ARG_INT || at->values ||
        (at->ints[0].value != -1 && at->ints[0].value != want.rank) ||
        !known_dims(s->k, value, &dims) || !dims_same(dims, want) || !is_integer(s, value))
        return fail_poly(s);
    return read_target(s, value);
}

static Poly read_test(DmlSearch *s, const ExportedCall *call, AtomKind kind, int below)
{
    Poly a = read_arg(s, call, below), b = read_arg(s, call, !below),
         d = poly_sum(&s->t, &a, -1, &b);
    return poly_of(&s->t, kind, &d, 0);
}

/* The constants of the tests for an edge say how many values a target can take. */
static Poly read_equal(DmlSearch *s, const ExportedCall *call)
{
    double number;
    if (known_number_at(call, 1, &number) && number + 1 > s->found.levels && number < 1 << 16)
        s->found.levels = (int)number + 1;
    return read_test(s, call, ATOM_ZERO, 0);
}

static Poly read_choice(DmlSearch *s, const ExportedCall *call)
{
    Poly test = read_arg(s, call, 0), a = read_arg(s, call, 1), b = read_arg(s, call, 2);
    return poly_choice(&s->t, &test, &a, &b);
}

/* max(x, number) */
static Poly read_clamp(DmlSearch *s, const ExportedCall *call)
{
    double number;
    Poly   a = read_arg(s, call, 0);
    if (call->n_args != 2 || strcmp(call->args[1].name, "min") ||
        !known_number_at(call, 1, &number))
        return fail_poly(s);
    return poly_of(&s->t, ATOM_MAX, &a, number);
}

static Poly read_log_sigmoid(DmlSearch *s, const ExportedCall *call)
{
    Poly a = read_arg(s, call, 0);
    a = poly_times(&s->t, &a, -1);
    a = poly_of(&s->t, ATOM_SOFTPLUS, &a, 0);
    return poly_times(&s->t, &a, -1);
}

static Poly read_softplus(DmlSearch *s, const ExportedCall *call)
{
    Poly a = read_arg(s, call, 0);
    return call->n_args == 1 ? poly_of(&s->t, ATOM_SOFTPLUS, &a, 0) : fail_poly(s);
}

static Poly read_function(DmlSearch *s, const ExportedCall *call, AtomKind kind, double before,
                          double after)
{
    Poly a = read_arg(s, call, 0), number = poly_number(before);
    a = poly_sum(&s->t, &a, 1, &number);
    a = poly_of(&s->t, kind, &a, 0);
    number = poly_number(after);
    return poly_sum(&s->t, &a, 1, &number);
}

typedef enum DmlCall {
    DML_NONE,
    DML_ADD,
    DML_SUB,
    DML_MUL,
    DML_DIV,
    DML_NEG,
    DML_EXP,
    DML_EXPM1,
    DML_LOG,
    DML_LOG1P,
    DML_SOFTPLUS,
    DML_LOG_SIGMOID,
    DML_SIGMOID,
    DML_CLAMP,
    DML_EQUAL,
    DML_GREATER,
    DML_LESS,
    DML_CHOICE,
    DML_SAME,
    DML_AXIS,
    DML_PART
} DmlCall;

static const struct {
    const char *target;
    DmlCall     how;
    int         n_args; /* others are not known; 0: the reader looks */
} dml_calls[] = {
    { "add.Tensor", DML_ADD, 2 },
    { "sub.Tensor", DML_SUB, 2 },
    { "mul.Tensor", DML_MUL, 2 },
    { "div.Tensor", DML_DIV, 2 },
    { "neg.default", DML_NEG, 1 },
    { "exp.default", DML_EXP, 1 },
    { "expm1.default", DML_EXPM1, 1 },
    { "log.default", DML_LOG, 1 },
    { "log1p.default", DML_LOG1P, 1 },
    { "softplus.default", DML_SOFTPLUS, 0 },
    { "log_sigmoid.default", DML_LOG_SIGMOID, 1 },
    { "sigmoid.default", DML_SIGMOID, 1 },
    { "clamp.default", DML_CLAMP, 0 },
    { "clamp_min.default", DML_CLAMP, 0 },
    { "eq.Scalar", DML_EQUAL, 2 },
    { "gt.Scalar", DML_GREATER, 2 },
    { "lt.Scalar", DML_LESS, 2 },
    { "where.self", DML_CHOICE, 3 },
    { "to.dtype", DML_SAME, 0 },
    { "unsqueeze.default", DML_AXIS, 0 },
    { "chunk.default", DML_PART, 0 },
    { "split.Tensor", DML_PART, 0 },
    { "split_with_sizes.default", DML_PART, 0 },
};

static DmlCall call_at(DmlSearch *s, int32_t value, const ExportedCall **call)
{
    for (size_t i = 0; i < sizeof dml_calls / sizeof *dml_calls; i++)
        if (known_made_by(s->k, value, dml_calls[i].target)) {
            *call = known_call(s->k, value, dml_calls[i].target);
            return *call && (!dml_calls[i].n_args || (*call)->n_args == dml_calls[i].n_args)
                       ? dml_calls[i].how
                       : DML_NONE;
        }
    return DML_NONE;
}

/* In fp32; of integers, with the target alone; truth values of these. One for each component, or
 * for all. */
static bool fits_here(DmlSearch *s, int32_t value)
{
    ExportedType type = s->k->l->program->values[value].type;
    Dims         dims, want = s->dims;
    if (!known_dims(s->k, value, &dims) || dims.rank != want.rank)
        return false;
    if (dims.at[dims.rank - 1] == 1)
        want.at[want.rank - 1] = 1;
    return dims_same(dims, want) &&
           (type == EX_F32 || type == EX_BOOL || type == EX_I64 || type == EX_I32);
}

static Poly read_two(DmlSearch *s, const ExportedCall *call, DmlCall how)
{
    Poly a = read_arg(s, call, 0), b = read_arg(s, call, 1);
    switch (how) {
    case DML_ADD: return poly_sum(&s->t, &a, 1, &b);
    case DML_SUB: return poly_sum(&s->t, &a, -1, &b);
    case DML_MUL: return poly_product(&s->t, &a, &b);
    default: return poly_ratio(&s->t, &a, &b);
    }
}

/* A conversion keeps the number: not from fractions to whole numbers. */
static Poly read_same(DmlSearch *s, const ExportedCall *call)
{
    int32_t from = known_arg(call, 0);
    if (from < 0 || call->out[0] < 0 || (is_integer(s, call->out[0]) && !is_integer(s, from)) ||
        s->k->l->program->values[from].type == EX_BOOL)
        return fail_poly(s);
    return read_value(s, from);
}

static Poly read_call(DmlSearch *s, const ExportedCall *call, DmlCall how, int32_t value)
{
    Poly a;
    switch (how) {
    case DML_ADD:
    case DML_SUB:
    case DML_MUL:
    case DML_DIV: return read_two(s, call, how);
    case DML_NEG: a = read_arg(s, call, 0); return poly_times(&s->t, &a, -1);
    case DML_EXP: return read_function(s, call, ATOM_EXP, 0, 0);
    case DML_EXPM1: return read_function(s, call, ATOM_EXP, 0, -1);
    case DML_LOG: return read_function(s, call, ATOM_LOG, 0, 0);
    case DML_LOG1P: return read_function(s, call, ATOM_LOG, 1, 0);
    case DML_SOFTPLUS: return read_softplus(s, call);
    case DML_LOG_SIGMOID: return read_log_sigmoid(s, call);
    case DML_SIGMOID: return read_function(s, call, ATOM_SIGMOID, 0, 0);
    case DML_CLAMP: return read_clamp(s, call);
    case DML_EQUAL: return read_equal(s, call);
    case DML_GREATER: return read_test(s, call, ATOM_POSITIVE, 0);
    case DML_LESS: return read_test(s, call, ATOM_POSITIVE, 1);
    case DML_CHOICE: return read_choice(s, call);
    case DML_SAME: return read_same(s, call);
    case DML_AXIS: return read_axis(s, call);
    case DML_PART: return read_part(s, call, value);
    default: return is_integer(s, value) ? read_target(s, value) : fail_poly(s);
    }
}

static Poly read_value(DmlSearch *s, int32_t value)
{
    const ExportedCall *call = NULL;
    if (s->t.failed || ++s->k->steps > KNOWN_STEPS || !fits_here(s, value))
        return fail_poly(s);
    DmlCall how = call_at(s, value, &call);
    return read_call(s, call, how, value);
}

/* ---- what it must be ---- */

typedef struct DmlForm {
    bool high_first; /* the test for the last bin comes first */
    bool difference; /* the mass as a difference of two sigmoids */
} DmlForm;

static Poly sum3(Terms *t, const Poly *a, double by_b, const Poly *b, double by_c, const Poly *c)
{
    Poly sum = poly_sum(t, a, by_b, b);
    return poly_sum(t, &sum, by_c, c);
}

/* log of the mass between minus and plus, and whether it is above 1e-5. */
static Poly log_mass(Terms *t, const DmlForm *form, const Poly *plus, const Poly *minus, Poly *test)
{
    Poly least = poly_number(1e-5), y;
    if (form->difference) {
        Poly a = poly_of(t, ATOM_SIGMOID, plus, 0), b = poly_of(t, ATOM_SIGMOID, minus, 0);
        y = poly_sum(t, &a, -1, &b);
        *test = poly_sum(t, &y, -1, &least);
        y = poly_of(t, ATOM_MAX, &y, 1e-12);
        y = poly_of(t, ATOM_LOG, &y, 0);
    } else {
        Poly back = poly_times(t, plus, -1), one = poly_number(1), zero = poly_number(0);
        Poly a = poly_of(t, ATOM_SOFTPLUS, &back, 0), b = poly_of(t, ATOM_SOFTPLUS, minus, 0);
        Poly width = poly_sum(t, minus, -1, plus);
        width = poly_of(t, ATOM_EXP, &width, 0);
        width = poly_sum(t, &one, -1, &width);
        width = poly_of(t, ATOM_LOG, &width, 0);
        y = sum3(t, &zero, -1, &a, -1, &b);
        y = poly_sum(t, &y, 1, &width);
        least = poly_number(log(1e-5));
        *test = poly_sum(t, &y, -1, &least);
    }
    *test = poly_of(t, ATOM_POSITIVE, test, 0);
    return y;
}

static Poly edge_test(Terms *t, int bin)
{
    Poly target = poly_leaf(t, LEAF_TARGET), number = poly_number(bin);
    target = poly_sum(t, &target, -1, &number);
    return poly_of(t, ATOM_ZERO, &target, 0);
}

/* log p_j as dml_cpu.c computes it. */
static Poly wanted(Terms *t, int levels, const DmlForm *form)
{
    double half = 1.0 / levels;
    Poly   target = poly_leaf(t, LEAF_TARGET), mean = poly_leaf(t, LEAF_MEANS),
         scale = poly_leaf(t, LEAF_SCALES), one = poly_number(1), step = poly_number(half),
         none = { 0 }, test;
    scale = poly_of(t, ATOM_MAX, &scale, -7);
    Poly inverse = poly_times(t, &scale, -1);
    inverse = poly_of(t, ATOM_EXP, &inverse, 0);
    Poly centre = poly_times(t, &target, 2 * half);
    centre = sum3(t, &centre, -1, &one, -1, &mean);
    Poly mid = poly_product(t, &centre, &inverse), plus = poly_sum(t, &centre, 1, &step),
         minus = poly_sum(t, &centre, -1, &step);
    plus = poly_product(t, &plus, &inverse);
    minus = poly_product(t, &minus, &inverse);

    Poly soft = poly_of(t, ATOM_SOFTPLUS, &plus, 0), low = poly_sum(t, &plus, -1, &soft);
    soft = poly_of(t, ATOM_SOFTPLUS, &minus, 0);
    Poly high = poly_sum(t, &none, -1, &soft);
    soft = poly_of(t, ATOM_SOFTPLUS, &mid, 0);
    Poly density = sum3(t, &mid, -1, &scale, -2, &soft), width = poly_number(log(2 * half));
    density = poly_sum(t, &density, 1, &width);
    Poly mass = log_mass(t, form, &plus, &minus, &test), y = poly_choice(t, &test, &mass, &density);
    Poly first = edge_test(t, 0), last = edge_test(t, levels - 1);
    if (form->high_first) {
        y = poly_choice(t, &first, &low, &y);
        return poly_choice(t, &last, &high, &y);
    }
    y = poly_choice(t, &last, &high, &y);
    return poly_choice(t, &first, &low, &y);
}

static bool is_mass(DmlSearch *s, const Poly *log_p)
{
    for (int i = 0; !s->t.failed && s->found.levels >= 2 && i < 4; i++) {
        Poly want = wanted(&s->t, s->found.levels, &(DmlForm){ i & 1, i >> 1 });
        if (!s->t.failed && poly_same(&want, log_p))
            return true;
    }
    return false;
}

/* ---- around it ---- */

static bool is_last_axis(const ExportedCall *call, int rank)
{
    const ExportedArg *axis = call->n_args > 1 ? &call->args[1] : NULL;
    return axis && (axis->kind == ARG_INT || axis->kind == ARG_INTS) && axis->n == 1 &&
           !axis->values && (axis->ints[0].value == -1 || axis->ints[0].value == rank - 1);
}

/* log_softmax of the first part of x */
static bool is_log_share(DmlSearch *s, int32_t value)
{
    const ExportedCall *call = known_call(s->k, value, "log_softmax.int");
    if (!call || !fits_here(s, value) || call->n_args != 2 || !is_last_axis(call, s->dims.rank))
        return false;
    Poly x = read_arg(s, call, 0), want = poly_leaf(&s->t, LEAF_LOGITS);
    return !s->t.failed && poly_same(&x, &want);
}

/* logsumexp(log p + log share) along the components */
static bool find_mixture(DmlSearch *s, int32_t value)
{
    const ExportedCall *sum = known_call(s->k, value, "logsumexp.default"), *add;
    if (!sum || sum->n_args != 2 || !known_dims(s->k, known_arg(sum, 0), &s->dims) ||
        s->dims.rank < 1 || s->dims.at[s->dims.rank - 1] > DML_MAX ||
        !is_last_axis(sum, s->dims.rank))
        return false;
    add = known_call(s->k, known_arg(sum, 0), "add.Tensor");
    if (!add || add->n_args != 2)
        return false;
    int share = known_made_by(s->k, known_arg(add, 1), "log_softmax.int");
    if (!is_log_share(s, known_arg(add, share)))
        return false;
    Poly log_p = read_arg(s, add, !share);
    return s->found.target >= 0 && s->found.x >= 0 && is_mass(s, &log_p);
}

/* where(mask, ., 0) with a truth value for each target */
static int32_t under_mask(DmlSearch *s, int32_t value)
{
    double              zero;
    Dims                a, b;
    const ExportedCall *call = known_call(s->k, value, "where.ScalarOther");
    if (!call || call->n_args != 3 || !known_number_at(call, 2, &zero) || zero != 0 ||
        s->found.mask >= 0)
        return value;
    s->found.mask = known_arg(call, 0);
    if (s->found.mask < 0 || s->k->l->program->values[s->found.mask].type != EX_BOOL ||
        !known_dims(s->k, s->found.mask, &a) || !known_dims(s->k, known_arg(call, 1), &b) ||
        !dims_same(a, b))
        return -1;
    return known_arg(call, 1);
}

static int32_t under_signs(DmlSearch *s, int32_t value)
{
    for (const ExportedCall *neg; (neg = known_call(s->k, value, "neg.default")) != NULL;) {
        s->found.scale = -s->found.scale;
        value = known_arg(neg, 0);
    }
    return value;
}

/* Targets that the mask leaves out become LOSS_IGNORE; one that has that number otherwise is out of
 * range like all below 0. */
static Err target_rows(Lower *l, Operand target, const Operand *mask, int64_t rows, Tensor *t)
{
    Formula f = formula(l);
    Operand item;
    View    v;
    int     y = F2(&f, MAX, formula_input(&f, target), formula_integer(&f, -1));
    if (mask)
        y = F3(&f, SELECT, formula_input(&f, *mask), y, formula_integer(&f, LOSS_IGNORE));
    TRY(formula_item(&f, y, EX_I64, &item));
    TRY(item_view(l, &item, &v));
    *t = view_tensor_as(v, NULL, SHAPE(rows));
    return graph_check(l->graph);
}

static Err build_dml(Lower *l, void *with, bool *fits)
{
    const DmlLoss *at = with;
    ComplexParts   x, target, mask = { .real = true };
    View           v, one;
    Tensor         t;
    Operand        number = item_number(l, 1);
    *fits = known_parts(l, at->x, &x) && known_parts(l, at->target, &target) &&
            (at->mask < 0 || known_parts(l, at->mask, &mask));
    if (!*fits)
        return OK;
    TRY(item_view(l, &x.re, &v));
    TRY(item_view(l, &number, &one));
    int64_t width = v.dim[v.rank - 1], rows = view_count(&v) / width;
    TRY(target_rows(l, target.re, at->mask < 0 ? NULL : &mask.re, rows, &t));
    Tensor y = dml_loss(view_tensor_as(v, NULL, SHAPE(rows, width)), t,
                        view_tensor_as(one, NULL, SHAPE(1)), at->levels, (float)at->scale);
    TRY(graph_check(l->graph));
    if (strcmp(l->call->target, "aten.mean.default") != 0)
        return give_tensor(l, 0, y, NULL);
    Formula f = formula(l);
    Operand sum = item_of(l, view_make(y, (Dims){ 0 }, NULL), EX_F32);
    int     share = formula_number(&f, 1 / (double)rows);
    return formula_give(&f, F2(&f, MUL, formula_input(&f, sum), share), 0);
}

int known_dml_levels(Lower *l, int32_t target)
{
    for (int32_t i = 0; i < l->program->n_calls; i++) {
        const ExportedCall *call = &l->program->calls[i];
        if (strcmp(call->target, "aten.logsumexp.default") != 0 || call->n_out != 1 ||
            call->out[0] < 0)
            continue;
        KnownSearch k = { .l = l };
        DmlSearch   s = { .k = &k, .found = { .x = -1, .target = -1, .mask = -1 } };
        if (find_mixture(&s, call->out[0]) && s.found.target == target)
            return s.found.levels;
    }
    return 0;
}

KnownCalls *known_dml_loss(KnownSearch *k, const ExportedCall *root)
{
    if (root->n_args != 1 || root->n_out != 1 || root->out[0] < 0 ||
        k->l->program->values[root->out[0]].type != EX_F32)
        return NULL;
    DmlSearch s = { .k = k, .found = { .x = -1, .target = -1, .mask = -1, .scale = -1 } };
    int32_t   value = under_signs(&s, known_arg(root, 0));
    value = under_signs(&s, under_mask(&s, value));
    if (!find_mixture(&s, value))
        return NULL;
    DmlLoss *found = NEW(k->l->pool, DmlLoss);
    *found = s.found;
    return known_group(k, root, found, build_dml);
}
