/* lower_complex.c -- complex numbers, as two operands: real and imaginary parts.
 *
 * No tensor of the graph is complex. A call that moves elements, adds or sums is lowered twice, once
 * for each part; a product of two complex operands is lowered for every pair of parts; the rest are
 * formulas of the parts. So gradients are those of the parts, which is what PyTorch calls the
 * gradient of a complex number.
 */
#include "import/lower.h"

#include <math.h>
#include <string.h>

bool type_complex(ExportedType type) { return type == EX_C64 || type == EX_C128 || type == EX_C32; }

ExportedType type_part(ExportedType type)
{
    return type == EX_C64 ? EX_F32 : type == EX_C128 ? EX_F64 : type == EX_C32 ? EX_F16 : type;
}

/* ---- operands, one part at a time ---- */

static bool is_complex(const Lower *l, int32_t value)
{
    return value >= 0 && type_complex(l->program->values[value].type);
}

static int complex_operands(const Lower *l, const ExportedCall *call)
{
    int n = 0;
    for (int32_t k = 0; k < call->n_args; k++) {
        const ExportedArg *a = &call->args[k];
        n += a->kind == ARG_COMPLEX;
        for (int32_t j = 0; (a->kind == ARG_VALUE || a->kind == ARG_VALUES) && j < a->n; j++)
            n += is_complex(l, a->values[j]);
    }
    return n;
}

bool complex_call(const Lower *l, const ExportedCall *call)
{
    for (int32_t k = 0; k < call->n_out; k++)
        if (is_complex(l, call->out[k]))
            return true;
    return complex_operands(l, call) > 0;
}

/* Zero under the same extents. */
static Operand nothing_like(Lower *l, Operand item)
{
    HostArray *array;
    Operand zero = item_host(l, type_floats(item.type) ? item.type : EX_F32, (Dims){ 0 }, &array);
    zero.view = view_expanded(zero.view, view_dims(&item.view));
    return zero;
}

int complex_part_read(const Lower *l) { return l->parts.on ? l->parts.give : 0; }

Operand complex_part_of_number(Lower *l, Operand number)
{
    bool none = l->parts.on && l->parts.mode == PAIR_SAME && l->parts.give;
    return none ? nothing_like(l, number) : number;
}

Operand complex_part(Lower *l, int32_t value)
{
    int part = complex_part_read(l);
    if (!is_complex(l, value))
        return l->items[value].set && type_floats(l->items[value].type)
                   ? complex_part_of_number(l, l->items[value])
                   : l->items[value];
    if (l->parts.mode == PAIR_PICK) {
        part = l->parts.pick & 1;
        l->parts.pick >>= 1;
    }
    return part ? l->imag[value] : l->items[value];
}

Operand *complex_slot(Lower *l, int32_t value)
{
    return is_complex(l, value) && complex_part_read(l) ? &l->imag[value] : &l->items[value];
}

Err complex_arg(Lower *l, const char *name, ComplexParts *x)
{
    const ExportedArg *a = arg(l, name);
    *x = (ComplexParts){ 0 };
    if (!arg_given(l, name))
        return refuse(l, "'%s' is missing", name);
    x->real = a->kind != ARG_COMPLEX && !(a->kind == ARG_VALUE && is_complex(l, a->values[0]));
    for (int part = 0; part < 2; part++) {
        l->parts = (ComplexPair){ .on = true, .give = part };
        Err err = arg_item(l, name, part ? &x->im : &x->re);
        l->parts = (ComplexPair){ 0 };
        TRY(err);
    }
    return OK;
}

Err complex_give(Lower *l, int i, Operand re, Operand im)
{
    for (int part = 0; part < 2; part++) {
        l->parts = (ComplexPair){ .on = true, .give = part };
        Err err = give(l, i, part ? im : re);
        l->parts = (ComplexPair){ 0 };
        TRY(err);
    }
    return OK;
}

/* ---- calls that real numbers have too ---- */

/* The call as if its operands were real. */
static Err run_parts(Lower *l, ComplexPair parts)
{
    const LowerDef *own = l->def;
    l->def = lower_find(own->target);
    REQUIRE(l->def);
    l->parts = parts;
    Err err = l->def->lower(l);
    l->parts = (ComplexPair){ 0 };
    l->def = own;
    return err;
}

static Err by_parts(Lower *l, PairMode mode)
{
    bool complex = false;
    for (int32_t k = 0; k < l->call->n_out; k++)
        complex |= is_complex(l, l->call->out[k]);
    for (int part = 0; part <= complex; part++)
        TRY(run_parts(l, (ComplexPair){ .on = true, .mode = mode, .give = part }));
    return OK;
}

static Err same(Lower *l) { return by_parts(l, PAIR_SAME); }
static Err scaled(Lower *l) { return by_parts(l, PAIR_SCALE); }

/* (a + ib)(c + id) = ac - bd + i(ad + bc) for any product that is linear in each operand. */
static Err bilinear(Lower *l)
{
    Operand r[4], re, im;
    int     n = complex_operands(l, l->call);
    if (n > 2 || l->call->n_out != 1 || l->call->out[0] < 0)
        return refuse(l, "products of %d complex operands are not supported", n);
    if (n < 2)
        return scaled(l);
    for (uint32_t pick = 0; pick < 4; pick++) {
        TRY(run_parts(l, (ComplexPair){ .on = true, .mode = PAIR_PICK, .pick = pick }));
        r[pick] = l->items[l->call->out[0]];
    }
    Formula f = formula(l), g = formula(l);
    int     difference = F2(&f, SUB, formula_input(&f, r[0]), formula_input(&f, r[3]));
    int     sum = F2(&g, ADD, formula_input(&g, r[1]), formula_input(&g, r[2]));
    TRY(formula_item(&f, difference, out_type_of(l, 0), &re));
    TRY(formula_item(&g, sum, out_type_of(l, 0), &im));
    return complex_give(l, 0, re, im);
}

/* ---- formulas of the parts ---- */

typedef struct Steps { /* of one part's formula */
    Formula f;
    int     a, b, c, d; /* a + ib, c + id */
} Steps;

static Steps steps_of(Lower *l, const ComplexParts *x, const ComplexParts *y)
{
    Steps s = { .f = formula(l) };
    s.a = formula_input(&s.f, x->re);
    s.b = formula_input(&s.f, x->im);
    if (y) {
        s.c = formula_input(&s.f, y->re);
        s.d = formula_input(&s.f, y->im);
    }
    return s;
}

/* The real part is what `part` gives for 0, the imaginary one for 1. */
static Err give_parts(Lower *l, const ComplexParts *x, const ComplexParts *y,
                      int (*part)(Steps *s, int i))
{
    Operand result[2];
    for (int i = 0; i < 2; i++) {
        Steps s = steps_of(l, x, y);
        TRY(formula_item(&s.f, part(&s, i), out_type_of(l, 0), &result[i]));
    }
    return complex_give(l, 0, result[0], result[1]);
}

static int product_part(Steps *s, int i)
{
    Formula *f = &s->f;
    return i ? F2(f, ADD, F2(f, MUL, s->a, s->d), F2(f, MUL, s->b, s->c))
             : F2(f, SUB, F2(f, MUL, s->a, s->c), F2(f, MUL, s->b, s->d));
}

static Err product(Lower *l)
{
    ComplexParts x, y;
    TRY(complex_arg(l, "self", &x));
    TRY(complex_arg(l, "other", &y));
    return x.real || y.real ? scaled(l) : give_parts(l, &x, &y, product_part);
}

static int square_size(Formula *f, int a, int b)
{
    return F2(f, ADD, F1(f, SQUARE, a), F1(f, SQUARE, b));
}

static int quotient_part(Steps *s, int i)
{
    Formula *f = &s->f;
    int      up = i ? F2(f, SUB, F2(f, MUL, s->b, s->c), F2(f, MUL, s->a, s->d))
                    : F2(f, ADD, F2(f, MUL, s->a, s->c), F2(f, MUL, s->b, s->d));
    return F2(f, DIV, up, square_size(f, s->c, s->d));
}

static Err quotient(Lower *l)
{
    ComplexParts x, y;
    TRY(complex_arg(l, "self", &x));
    TRY(complex_arg(l, "other", &y));
    return y.real ? scaled(l) : give_parts(l, &x, &y, quotient_part);
}

static int reciprocal_part(Steps *s, int i)
{
    return F2(&s->f, DIV, i ? F1(&s->f, NEG, s->b) : s->a, square_size(&s->f, s->a, s->b));
}

static int exp_part(Steps *s, int i)
{
    return F2(&s->f, MUL, F1(&s->f, EXP, s->a), i ? F1(&s->f, SIN, s->b) : F1(&s->f, COS, s->b));
}

static int conjugate_part(Steps *s, int i) { return i ? F1(&s->f, NEG, s->b) : s->a; }

static int square_part(Steps *s, int i)
{
    return i ? F2(&s->f, MUL, F2(&s->f, ADD, s->a, s->a), s->b)
             : F2(&s->f, SUB, F1(&s->f, SQUARE, s->a), F1(&s->f, SQUARE, s->b));
}

static Err unary(Lower *l)
{
    static int (*const parts[])(Steps *, int) = { reciprocal_part, exp_part, conjugate_part,
                                                  square_part };
    ComplexParts x;
    TRY(complex_arg(l, "self", &x));
    return give_parts(l, &x, NULL, parts[l->def->with]);
}

/* Only the imaginary part changes: the real one remains a view. */
static Err conjugate(Lower *l)
{
    ComplexParts x;
    TRY(complex_arg(l, "self", &x));
    Formula f = formula(l);
    TRY(formula_item(&f, F1(&f, NEG, formula_input(&f, x.im)), x.im.type, &x.im));
    return complex_give(l, 0, x.re, x.im);
}

/* Whole exponents from 1 to 3. */
static Err power(Lower *l)
{
    ComplexParts x;
    double       e;
    TRY(complex_arg(l, "self", &x));
    TRY(arg_float(l, "exponent", 1, &e));
    if (e == 1)
        return complex_give(l, 0, x.re, x.im);
    if (e == 2)
        return give_parts(l, &x, NULL, square_part);
    if (e == -1)
        return give_parts(l, &x, NULL, reciprocal_part);
    return refuse(l, "the power %g of complex numbers is not supported; multiply them", e);
}

/* |x|; at zero, where the root has no derivative, PyTorch's is 0: the argument is then held at 1. */
static Err size(Lower *l)
{
    ComplexParts x;
    TRY(complex_arg(l, "self", &x));
    Formula f = formula(l);
    int     a = formula_input(&f, x.re), b = formula_input(&f, x.im), s = square_size(&f, a, b);
    int     zero = formula_number(&f, 0), some = F2(&f, GT, s, zero);
    int     root = F1(&f, SQRT, F3(&f, SELECT, some, s, formula_number(&f, 1)));
    return formula_give(&f, F3(&f, SELECT, some, root, zero), 0);
}

static Err angle(Lower *l)
{
    ComplexParts x;
    TRY(complex_arg(l, "self", &x));
    Formula f = formula(l);
    int     a = formula_input(&f, x.re), b = formula_input(&f, x.im);
    return formula_give(&f, F2(&f, ATAN2, b, a), 0);
}

static Err itself(Lower *l)
{
    ComplexParts x;
    TRY(complex_arg(l, "self", &x));
    return complex_give(l, 0, x.re, x.im);
}

/* ---- from parts, and to them ---- */

static Err part_of(Lower *l)
{
    ComplexParts x;
    TRY(complex_arg(l, "self", &x));
    return give(l, 0, l->def->with ? x.im : x.re);
}

static Err from_parts(Lower *l)
{
    Operand re, im;
    TRY(arg_item(l, "real", &re));
    TRY(arg_item(l, "imag", &im));
    Formula f = formula(l);
    Dims    dims;
    formula_input(&f, re);
    formula_input(&f, im);
    TRY(formula_dims(&f, &dims));
    re.view = view_expanded(re.view, dims);
    im.view = view_expanded(im.view, dims);
    return complex_give(l, 0, re, im);
}

static Err polar(Lower *l)
{
    Operand size, turn, result[2];
    TRY(arg_item(l, "abs", &size));
    TRY(arg_item(l, "angle", &turn));
    for (int i = 0; i < 2; i++) {
        Formula f = formula(l);
        int     r = formula_input(&f, size), t = formula_input(&f, turn);
        int     y = F2(&f, MUL, r, i ? F1(&f, SIN, t) : F1(&f, COS, t));
        TRY(formula_item(&f, y, out_type_of(l, 0), &result[i]));
    }
    return complex_give(l, 0, result[0], result[1]);
}

/* (..., 2) to complex numbers: two views. */
static Err from_pairs(Lower *l)
{
    Operand x;
    TRY(arg_item(l, "self", &x));
    int last = x.view.rank - 1;
    if (last < 0 || x.view.dim[last] != 2)
        return refuse(l, "the last axis must have two elements");
    return complex_give(l, 0, item_with(x, view_selected(x.view, last, 0)),
                        item_with(x, view_selected(x.view, last, 1)));
}

/* Both parts in one tensor, at the same distance everywhere? Then the pairs are a view. */
static bool pairs_lie(const ComplexParts *x, View *pairs)
{
    const View *a = &x->re.view, *b = &x->im.view;
    if (x->re.host || x->im.host || a->base.id != b->base.id || a->rank == VIEW_RANK ||
        memcmp(a->stride, b->stride, (size_t)a->rank * sizeof *a->stride) != 0)
        return false;
    *pairs = view_inserted(*a, a->rank, 2);
    pairs->stride[a->rank] = b->offset - a->offset;
    return true;
}

Err complex_pairs(Lower *l, const ComplexParts *x, Operand *out)
{
    View pairs;
    int  rank = x->re.view.rank;
    if (pairs_lie(x, &pairs)) {
        *out = item_with(x->re, pairs);
        return OK;
    }
    if (rank == VIEW_RANK)
        return refuse(l, "a tensor of %d axes", rank + 1);
    Operand both[] = { item_with(x->re, view_inserted(x->re.view, rank, 1)),
                       item_with(x->im, view_inserted(x->im.view, rank, 1)) };
    return lower_join(l, both, 2, rank, out);
}

static Err to_pairs(Lower *l)
{
    ComplexParts x;
    Operand      out;
    TRY(complex_arg(l, "self", &x));
    TRY(complex_pairs(l, &x, &out));
    return give(l, 0, out);
}

/* Ones: the imaginary part is zero. */
static Err ones(Lower *l)
{
    TRY(run_parts(l, (ComplexPair){ .on = true, .give = 0 }));
    Operand re = l->items[l->call->out[0]];
    return complex_give(l, 0, re, nothing_like(l, re));
}

static Err full(Lower *l)
{
    ComplexParts x;
    Err          err;
    HostArray   *array[2];
    Operand      item[2];
    TRY(complex_arg(l, "fill_value", &x));
    Dims dims = out_dims(l, 0, &err);
    TRY(err);
    if (!x.re.host || !x.im.host)
        return refuse(l, "a value that depends on the data is not supported");
    for (int i = 0; i < 2; i++) {
        const Operand *part = i ? &x.im : &x.re;
        item[i] = item_host(l, out_type_of(l, 0), (Dims){ 0 }, &array[i]);
        array[i]->f[0] = host_f(part, part->view.offset);
        item[i].view = view_expanded(item[i].view, dims);
    }
    return complex_give(l, 0, item[0], item[1]);
}

#define SAME(name)                                                                                 \
    {                                                                                              \
        "aten." name, same, 0, false                                                               \
    }
#define BILINEAR(name)                                                                             \
    {                                                                                              \
        "aten." name, bilinear, 0, false                                                           \
    }

/* clang-format off */
const LowerDef lower_complexes[] = {
    SAME("view.default"), SAME("_unsafe_view.default"), SAME("reshape.default"),
    SAME("flatten.using_ints"), SAME("unflatten.int"), SAME("unsqueeze.default"),
    SAME("squeeze.default"), SAME("squeeze.dim"), SAME("squeeze.dims"), SAME("view_as.default"),
    SAME("reshape_as.default"), SAME("ravel.default"), SAME("expand.default"),
    SAME("expand_as.default"), SAME("broadcast_to.default"), SAME("swapdims.default"),
    SAME("moveaxis.int"), SAME("moveaxis.intlist"), SAME("transpose.int"),
    SAME("swapaxes.default"), SAME("t.default"), SAME("numpy_T.default"), SAME("mT.default"),
    SAME("permute.default"), SAME("movedim.int"), SAME("movedim.intlist"), SAME("select.int"),
    SAME("slice.Tensor"), SAME("narrow.default"), SAME("diagonal.default"), SAME("flip.default"),
    SAME("chunk.default"), SAME("split.Tensor"), SAME("split_with_sizes.default"),
    SAME("split.sizes"), SAME("unbind.int"), SAME("tensor_split.sections"), SAME("cat.default"),
    SAME("concat.default"), SAME("stack.default"), SAME("repeat.default"), SAME("tile.default"),
    SAME("repeat_interleave.self_int"), SAME("slice_scatter.default"),
    SAME("select_scatter.default"), SAME("tril.default"), SAME("triu.default"),
    SAME("roll.default"), SAME("pad.default"), SAME("constant_pad_nd.default"),
    SAME("index_select.default"), SAME("index.Tensor"), SAME("index_put.default"),
    SAME("gather.default"), SAME("embedding.default"), SAME("cumsum.default"),
    SAME("add.Tensor"), SAME("add.Scalar"), SAME("sub.Tensor"), SAME("sub.Scalar"),
    SAME("rsub.Scalar"), SAME("rsub.Tensor"), SAME("neg.default"), SAME("where.self"),
    SAME("where.ScalarOther"), SAME("where.ScalarSelf"), SAME("masked_fill.Scalar"),
    SAME("masked_fill.Tensor"), SAME("sum.default"), SAME("sum.dim_IntList"),
    SAME("mean.default"), SAME("mean.dim"), SAME("clone.default"), SAME("contiguous.default"),
    SAME("alias.default"), SAME("detach.default"), SAME("lift_fresh_copy.default"),
    SAME("positive.default"), SAME("copy.default"), SAME("fill.Scalar"), SAME("fill.Tensor"),
    SAME("zero.default"), SAME("to.dtype"), SAME("to.dtype_layout"), SAME("to.device"),
    SAME("to.other"), SAME("_to_copy.default"), SAME("type_as.default"), SAME("zeros.default"),
    SAME("zeros_like.default"), SAME("new_zeros.default"), SAME("empty.memory_format"),
    SAME("fft_fftshift.default"), SAME("fft_ifftshift.default"),
    SAME("empty_like.default"), SAME("new_empty.default"), SAME("sym_size.int"),
    { "sym_size.int", same, 0, false },
    { "aten.ones.default", ones, 0, false }, { "aten.ones_like.default", ones, 0, false },
    { "aten.full.default", full, 0, false }, { "aten.full_like.default", full, 0, false },
    BILINEAR("matmul.default"), BILINEAR("mm.default"), BILINEAR("bmm.default"),
    BILINEAR("mv.default"), BILINEAR("dot.default"), BILINEAR("einsum.default"),
    BILINEAR("outer.default"),
    { "aten.mul.Tensor", product, 0, false }, { "aten.mul.Scalar", product, 0, false },
    { "aten.div.Tensor", quotient, 0, false }, { "aten.div.Scalar", quotient, 0, false },
    { "aten.reciprocal.default", unary, 0, false }, { "aten.exp.default", unary, 1, false },
    { "aten.square.default", unary, 3, false }, { "aten.pow.Tensor_Scalar", power, 0, false },
    { "aten._conj.default", conjugate, 0, true }, { "aten.conj.default", conjugate, 0, true },
    { "aten.conj_physical.default", unary, 2, false },
    { "aten._conj_physical.default", unary, 2, false },
    { "aten.resolve_conj.default", itself, 0, true }, { "aten.resolve_neg.default", itself, 0, true },
    { "aten.abs.default", size, 0, false }, { "aten.angle.default", angle, 0, false },
    { "aten.real.default", part_of, 0, true }, { "aten.imag.default", part_of, 1, true },
    { "aten.complex.default", from_parts, 0, false }, { "aten.polar.default", polar, 0, false },
    { "aten.view_as_complex.default", from_pairs, 0, true },
    { "aten.view_as_real.default", to_pairs, 0, true },
    { 0 }
};
/* clang-format on */

const LowerDef *complex_find(const char *target)
{
    const LowerDef *const lists[] = { lower_complexes, lower_ffts };
    for (int i = 0; i < 2; i++)
        for (const LowerDef *def = lists[i]; def->target; def++)
            if (!strcmp(def->target, target))
                return def;
    return NULL;
}
