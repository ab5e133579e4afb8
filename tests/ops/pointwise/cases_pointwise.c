/* cases_pointwise.c -- pointwise programs: every operation, broadcasts, permutations, sums. */
#include "ops/cases.h"

#include "ops/pointwise/pointwise.h"

#include <math.h>
#include <stdarg.h>

/* A program over a space of this shape. */
static PointProgram over(Shape s) { return point_begin(s.rank, s.dim); }

/* x under broadcasting, its last axis along the last of the space; axes of 1 are repeated. */
static int along(PointProgram *p, Tensor x)
{
    Shape   s = tensor_shape(x);
    int64_t stride[POINT_RANK] = { 0 }, next = 1;
    for (int a = s.rank - 1; a >= 0 && p->attr.rank - s.rank + a >= 0; a--) {
        stride[p->attr.rank - s.rank + a] = s.dim[a] > 1 ? next : 0;
        next *= s.dim[a];
    }
    return point_input(p, x, stride);
}

/* x whose axis a lies along axis axes[a] of the space. */
static int permuted(PointProgram *p, Tensor x, const int *axes)
{
    Shape   s = tensor_shape(x);
    int64_t stride[POINT_RANK] = { 0 }, next = 1;
    for (int a = s.rank - 1; a >= 0; a--) {
        stride[axes[a]] = next;
        next *= s.dim[a];
    }
    return point_input(p, x, stride);
}

static int op1(PointProgram *p, PointOp op, int a) { return point_step(p, op, a, -1, -1); }
static int op2(PointProgram *p, PointOp op, int a, int b) { return point_step(p, op, a, b, -1); }
#define S1(op, a)       op1(&p, POINT_##op, (a))
#define S2(op, a, b)    op2(&p, POINT_##op, (a), (b))
#define S3(op, a, b, c) point_step(&p, POINT_##op, (a), (b), (c))
#define NUM(x)          point_constant(&p, (x))

/* The only result, at every point. */
static Tensor stored(PointProgram *p, int step, Type type, Shape shape)
{
    point_store(p, step, type, shape);
    return point_end(p, NULL);
}

static void unary(Case *c, PointOp op, Shape s, float low, float high)
{
    Tensor       x = case_in(c, "x", s, low, high);
    PointProgram p = over(s);
    case_out(c, "y", stored(&p, op1(&p, op, along(&p, x)), tensor_type(x), s));
}

static void binary(Case *c, PointOp op, float low, float high, float low2, float high2)
{
    Shape        s = SHAPE(7, 45);
    Tensor       x = case_in(c, "x", s, low, high), z = case_in(c, "z", s, low2, high2);
    PointProgram p = over(s);
    case_out(c, "y", stored(&p, op2(&p, op, along(&p, x), along(&p, z)), tensor_type(x), s));
}

/*      name        low   high  PyTorch                        flags */
/* clang-format off */
#define UNARY_LIST(X)                                                                              \
    X(NEG,          -2,   2,    "-x",                          0)                                  \
    X(SQUARE,       -2,   2,    "x * x",                       0)                                  \
    X(SQRT,         0.1f, 4,    "torch.sqrt(x)",               0)                                  \
    X(RSQRT,        0.2f, 4,    "torch.rsqrt(x)",              0)                                  \
    X(RECIPROCAL,   0.3f, 3,    "1 / x",                       0)                                  \
    X(EXP,          -3,   3,    "torch.exp(x)",                0)                                  \
    X(EXP2,         -4,   4,    "torch.exp2(x)",               0)                                  \
    X(EXPM1,        -2,   2,    "torch.expm1(x)",              0)                                  \
    X(LOG,          0.2f, 9,    "torch.log(x)",                0)                                  \
    X(LOG2,         0.2f, 9,    "torch.log2(x)",               0)                                  \
    X(LOG1P,        -0.8f, 4,   "torch.log1p(x)",              0)                                  \
    X(SIN,          -9,   9,    "torch.sin(x)",                0)                                  \
    X(COS,          -9,   9,    "torch.cos(x)",                0)                                  \
    X(TAN,          -1.2f, 1.2f, "torch.tan(x)",               0)                                  \
    X(ASIN,         -0.9f, 0.9f, "torch.asin(x)",              0)                                  \
    X(ACOS,         -0.9f, 0.9f, "torch.acos(x)",              0)                                  \
    X(ATAN,         -4,   4,    "torch.atan(x)",               0)                                  \
    X(SINH,         -2,   2,    "torch.sinh(x)",               0)                                  \
    X(COSH,         -2,   2,    "torch.cosh(x)",               0)                                  \
    X(TANH,         -4,   4,    "torch.tanh(x)",               0)                                  \
    X(SIGMOID,      -6,   6,    "torch.sigmoid(x)",            0)                                  \
    X(LOG_SIGMOID,  -9,   9,    "F.logsigmoid(x)",             0)                                  \
    X(SOFTPLUS,     -9,   9,    "F.softplus(x)",               0)                                  \
    X(SILU,         -9,   9,    "F.silu(x)",                   0)                                  \
    X(GELU,         -5,   5,    "F.gelu(x)",                   0)                                  \
    X(GELU_TANH,    -5,   5,    "F.gelu(x, approximate='tanh')", 0)                                \
    X(MISH,         -9,   9,    "F.mish(x)",                   0)                                  \
    X(ERF,          -3,   3,    "torch.erf(x)",                0)                                  \
    X(ABS,          -2,   2,    "torch.abs(x)",                CASE_NO_DIFFERENCES)                \
    X(RELU,         -2,   2,    "F.relu(x)",                   CASE_NO_DIFFERENCES)                \
    X(SIGN,         -2,   2,    "torch.sign(x)",               CASE_NO_DIFFERENCES)                \
    X(FLOOR,        -4,   4,    "torch.floor(x)",              CASE_NO_DIFFERENCES)                \
    X(CEIL,         -4,   4,    "torch.ceil(x)",               CASE_NO_DIFFERENCES)                \
    X(ROUND,        -4,   4,    "torch.round(x)",              CASE_NO_DIFFERENCES)                \
    X(TRUNC,        -4,   4,    "torch.trunc(x)",              CASE_NO_DIFFERENCES)                \
    X(DETACH,       -2,   2,    "x.detach() + 0 * x",          CASE_NO_DIFFERENCES)                \
    X(TO_F32,       -2,   2,    "x * 1",                       0)

#define X(op, low, high, torch, flags)                                                             \
    static void unary_##op(Case *c) { unary(c, POINT_##op, SHAPE(5, 37), low, high); }
UNARY_LIST(X)
#undef X

#define BINARY_LIST(X)                                                                             \
    X(ADD,       -2,   2,    -3,   3,    "x + z",               0)                                 \
    X(SUB,       -2,   2,    -3,   3,    "x - z",               0)                                 \
    X(MUL,       -2,   2,    -3,   3,    "x * z",               0)                                 \
    X(DIV,       -2,   2,    0.3f, 3,    "x / z",               0)                                 \
    X(POW,       0.2f, 3,    -2,   2,    "x ** z",              0)                                 \
    X(ATAN2,     -2,   2,    0.3f, 3,    "torch.atan2(x, z)",   0)                                 \
    X(FLOOR_DIV, -9,   9,    0.3f, 3,    "torch.div(x, z, rounding_mode='floor')", CASE_NO_DIFFERENCES)          \
    X(REMAINDER, -9,   9,    -3,   -0.3f, "torch.remainder(x, z)", CASE_NO_DIFFERENCES)            \
    X(FMOD,      -9,   9,    0.3f, 3,    "torch.fmod(x, z)",    CASE_NO_DIFFERENCES)               \
    X(MIN,       -2,   2,    -2,   2,    "torch.minimum(x, z)", CASE_NO_DIFFERENCES)               \
    X(MAX,       -2,   2,    -2,   2,    "torch.maximum(x, z)", CASE_NO_DIFFERENCES)               \
    X(CLAMP_MIN, -2,   2,    -2,   2,    "torch.clamp(x, min=z)", CASE_NO_DIFFERENCES)             \
    X(CLAMP_MAX, -2,   2,    -2,   2,    "torch.clamp(x, max=z)", CASE_NO_DIFFERENCES)

#define X(op, low, high, low2, high2, torch, flags)                                                \
    static void binary_##op(Case *c) { binary(c, POINT_##op, low, high, low2, high2); }
BINARY_LIST(X)
#undef X
/* clang-format on */

/* silu(a + b): keeps a + b. */
static void silu_of_sum(Case *c)
{
    Shape        s = SHAPE(3, 5, 7);
    Tensor       a = case_in(c, "a", s, -3, 3), b = case_in(c, "b", s, -3, 3);
    PointProgram p = over(s);
    case_out(c, "y", stored(&p, S1(SILU, S2(ADD, along(&p, a), along(&p, b))), tensor_type(a), s));
}

/* A longer chain, enough for two threads and odd at the end. */
static void chain(Case *c)
{
    Shape        s = SHAPE(257, 131);
    Tensor       x = case_in(c, "x", s, -2, 2), g = case_in(c, "g", SHAPE(131), 0.5f, 1.5f);
    Tensor       b = case_in(c, "b", SHAPE(131), -1, 1), h = case_in(c, "h", s, -2, 2);
    PointProgram p = over(s);
    int          v = S2(ADD, S2(MUL, along(&p, x), along(&p, g)), along(&p, b));
    int          y = S2(MUL, S1(SILU, v), S1(TANH, along(&p, h)));
    case_out(c, "y", stored(&p, y, tensor_type(x), s));
}

/* Broadcasts of every kind in one program: scalar, row, column, middle, outer. */
static void broadcasts(Case *c)
{
    Shape        s = SHAPE(4, 3, 5, 6);
    Tensor       x = case_in(c, "x", s, -1, 1), one = case_in(c, "one", SHAPE(1), 0.5f, 1.5f);
    Tensor       row = case_in(c, "row", SHAPE(6), -1, 1);
    Tensor       column = case_in(c, "column", SHAPE(4, 1, 1, 1), 0.5f, 1.5f);
    Tensor       middle = case_in(c, "middle", SHAPE(3, 1, 6), -1, 1);
    Tensor       outer = case_in(c, "outer", SHAPE(4, 1, 5, 1), -1, 1);
    PointProgram p = over(s);
    int          y = S2(MUL, S2(ADD, along(&p, x), along(&p, row)), along(&p, column));
    y = S2(ADD, S2(MUL, y, along(&p, one)), S2(MUL, along(&p, middle), along(&p, outer)));
    case_out(c, "y", stored(&p, S1(TANH, y), tensor_type(x), s));
}

/* Two vectors, neither of which has all axes. */
static void outer_sum(Case *c)
{
    Shape        s = SHAPE(9, 11);
    Tensor       u = case_in(c, "u", SHAPE(9, 1), -1, 1), v = case_in(c, "v", SHAPE(11), -1, 1);
    PointProgram p = over(s);
    case_out(c, "y", stored(&p, S1(SIN, S2(ADD, along(&p, u), along(&p, v))), tensor_type(u), s));
}

/* A number and its functions, which are the same at every point. */
static void numbers(Case *c)
{
    Shape        s = SHAPE(3, 40);
    Tensor       x = case_in(c, "x", s, -1, 1), t = case_in(c, "t", SHAPE(1), 0.5f, 1);
    PointProgram p = over(s);
    int          k = S1(EXP, S2(MUL, along(&p, t), NUM(0.5f)));
    case_out(c, "y", stored(&p, S2(MUL, S2(SUB, k, along(&p, x)), k), tensor_type(x), s));
}

static void transposed(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(33, 65), -1, 1), z = case_in(c, "z", SHAPE(65, 33), -1, 1);
    PointProgram p = over(SHAPE(65, 33));
    int          y = S2(MUL, permuted(&p, x, (int[]){ 1, 0 }), S1(SIN, along(&p, z)));
    case_out(c, "y", stored(&p, y, tensor_type(x), SHAPE(65, 33)));
}

static void transposed_large(Case *c) /* boxes across */
{
    Shape        s = SHAPE(3, 200, 130);
    Tensor       x = case_in(c, "x", SHAPE(3, 130, 200), -1, 1), z = case_in(c, "z", s, -1, 1);
    PointProgram p = over(s);
    int          y = S2(MUL, permuted(&p, x, (int[]){ 0, 2, 1 }), along(&p, z));
    case_out(c, "y", stored(&p, y, tensor_type(x), s));
}

/* Channels last and first, and a tensor whose axes are all elsewhere. */
static void permutations(Case *c)
{
    Shape        s = SHAPE(2, 3, 4, 5);
    Tensor       x = case_in(c, "x", SHAPE(2, 4, 5, 3), -1, 1);
    Tensor       z = case_in(c, "z", SHAPE(5, 4, 3, 2), -1, 1), w = case_in(c, "w", s, -1, 1);
    Tensor       v = case_in(c, "v", SHAPE(5, 3), -1, 1); /* repeated and transposed */
    PointProgram p = over(s);
    int          a = permuted(&p, x, (int[]){ 0, 2, 3, 1 });
    int          b = permuted(&p, z, (int[]){ 3, 2, 1, 0 });
    int          d = permuted(&p, v, (int[]){ 3, 1 });
    int          y = S2(ADD, S2(MUL, a, b), S2(MUL, along(&p, w), d));
    case_out(c, "y", stored(&p, S1(SIGMOID, y), tensor_type(x), s));
}

/* The same tensor twice: as it is, and transposed. */
static void with_own_transpose(Case *c)
{
    Shape        s = SHAPE(12, 12);
    Tensor       x = case_in(c, "x", s, -1, 1);
    PointProgram p = over(s);
    int          y = S2(MUL, along(&p, x), permuted(&p, x, (int[]){ 1, 0 }));
    case_out(c, "y", stored(&p, y, tensor_type(x), s));
}

/* Only moved: a copy with other strides. */
static void only_permuted(Case *c)
{
    Tensor       x = case_in(c, "x", SHAPE(6, 10, 9), -1, 1);
    PointProgram p = over(SHAPE(9, 6, 10));
    case_out(c, "y",
             stored(&p, permuted(&p, x, (int[]){ 1, 2, 0 }), tensor_type(x), SHAPE(9, 6, 10)));
}

static void eight_axes(Case *c)
{
    int64_t dim[] = { 2, 3, 2, 1, 3, 2, 2, 3 };
    Tensor  x = case_in(c, "x", SHAPE(12, 36), -1, 1);
    Tensor  v = case_in(c, "v", SHAPE(2, 2, 3), -1, 1), w = case_in(c, "w", SHAPE(3, 3), -1, 1);
    PointProgram p = point_begin(8, dim);
    int64_t      whole[] = { 216, 72, 36, 36, 12, 6, 3, 1 };
    int          a = point_input(&p, x, whole);
    int          b = permuted(&p, v, (int[]){ 0, 5, 7 }), d = permuted(&p, w, (int[]){ 4, 1 });
    case_out(c, "y", stored(&p, S2(ADD, S2(MUL, a, b), d), tensor_type(x), SHAPE(12, 36)));
}

/* ---- sums ---- */

static void summed_over(Case *c, Shape s, uint32_t axes, Shape of, PointReduce how, float scale)
{
    Tensor       x = case_in(c, "x", s, -1, 1), z = case_in(c, "z", s, -1, 1);
    PointProgram p = over(s);
    int          y = S2(MUL, along(&p, x), S1(SIGMOID, along(&p, z)));
    point_reduce(&p, y, how, axes, scale, tensor_type(x), of);
    case_out(c, "y", point_end(&p, NULL));
}

static void sum_inner(Case *c) { summed_over(c, SHAPE(7, 5, 33), 4, SHAPE(7, 5), POINT_SUM, 1); }
static void sum_leading(Case *c)
{
    summed_over(c, SHAPE(7, 5, 33), 3, SHAPE(33), POINT_SUM, 1.0f / 35);
}
static void sum_middle(Case *c)
{
    summed_over(c, SHAPE(3, 19, 8), 2, SHAPE(3, 8), POINT_SUM, 0.5f);
}
static void sum_outer_inner(Case *c) { summed_over(c, SHAPE(6, 5, 9), 5, SHAPE(5), POINT_SUM, 1); }
static void sum_all(Case *c) { summed_over(c, SHAPE(11, 13), 3, SHAPE(1), POINT_SUM, 0.25f); }
static void sum_all_large(Case *c)
{
    summed_over(c, SHAPE(301, 403), 3, SHAPE(1), POINT_SUM, 1e-3f);
}
static void sum_leading_large(Case *c)
{
    summed_over(c, SHAPE(1021, 67), 1, SHAPE(67), POINT_SUM, 1);
}
static void sum_middle_large(Case *c)
{
    summed_over(c, SHAPE(3, 505, 66), 2, SHAPE(3, 66), POINT_SUM, 1);
}
static void sum_inner_large(Case *c)
{
    summed_over(c, SHAPE(130, 515), 2, SHAPE(130, 1), POINT_SUM, 1);
}

static void extreme(Case *c, Shape s, uint32_t axes, Shape of, PointReduce how)
{
    Tensor       x = case_in(c, "x", s, -2, 2);
    PointProgram p = over(s);
    point_reduce(&p, S2(MUL, along(&p, x), NUM(0.5f)), how, axes, 1, tensor_type(x), of);
    case_out(c, "y", point_end(&p, NULL));
}
static void largest_inner(Case *c) { extreme(c, SHAPE(9, 31), 2, SHAPE(9), POINT_AMAX); }
static void smallest_leading(Case *c) { extreme(c, SHAPE(9, 31), 1, SHAPE(31), POINT_AMIN); }
static void largest_of_all(Case *c) { extreme(c, SHAPE(90, 131), 3, SHAPE(1), POINT_AMAX); }

/* Several elements are the largest: they share. */
static void largest_ties(Case *c)
{
    Shape        s = SHAPE(5, 40);
    Tensor       x = case_in(c, "x", s, -2, 2);
    PointProgram p = over(s);
    int          whole = S1(ROUND, along(&p, x)); /* flat: the tie is between sums with it */
    int          y = S2(ADD, S2(MUL, NUM(0), along(&p, x)), whole);
    point_reduce(&p, y, POINT_AMAX, 2, 1, tensor_type(x), SHAPE(5, 1));
    case_out(c, "y", point_end(&p, NULL));
    PointProgram q = over(s);
    int          m = op2(&q, POINT_CLAMP_MAX, along(&q, x), point_constant(&q, 0.5f));
    point_reduce(&q, m, POINT_AMAX, 2, 1, tensor_type(x), SHAPE(5));
    case_out(c, "z", point_end(&q, NULL));
}

/* Stored and summed at once, with different axes. */
static void several_results(Case *c)
{
    Shape        s = SHAPE(6, 7, 10);
    Tensor       x = case_in(c, "x", s, -1, 1), v = case_in(c, "v", SHAPE(10), -1, 1);
    Tensor       out[4];
    PointProgram p = over(s);
    int          e = S1(EXP, S2(ADD, along(&p, x), along(&p, v)));
    int          f = S2(MUL, e, along(&p, x));
    point_store(&p, e, tensor_type(x), s);
    point_store(&p, f, F32, SHAPE(42, 10));
    point_reduce(&p, S1(SQUARE, f), POINT_SUM, 4, 0.1f, F32, SHAPE(6, 7));
    point_reduce(&p, f, POINT_SUM, 3, 1, F32, SHAPE(10));
    point_end(&p, out);
    case_out(c, "e", out[0]);
    case_out(c, "f", out[1]);
    case_out(c, "rows", out[2]);
    case_out(c, "columns", out[3]);
}

/* A softmax in three programs, as an importer would write it. */
static void softmax_steps(Case *c)
{
    Shape        s = SHAPE(13, 29), one = SHAPE(13, 1);
    Tensor       x = case_in(c, "x", s, -3, 3);
    PointProgram p = over(s), q = over(s), r = over(s);
    point_reduce(&p, along(&p, x), POINT_AMAX, 2, 1, tensor_type(x), one);
    Tensor m = point_end(&p, NULL), out[2];
    int    e = op1(&q, POINT_EXP, op2(&q, POINT_SUB, along(&q, x), along(&q, m)));
    point_store(&q, e, F32, s);
    point_reduce(&q, e, POINT_SUM, 2, 1, F32, one);
    point_end(&q, out);
    int y = op2(&r, POINT_DIV, along(&r, out[0]), along(&r, out[1]));
    case_out(c, "y", stored(&r, y, tensor_type(x), s));
}

/* ---- integers, truth values, types ---- */

static void choices(Case *c)
{
    Shape        s = SHAPE(8, 21);
    Tensor       x = case_in(c, "x", s, -2, 2), z = case_in(c, "z", s, -2, 2);
    PointProgram p = over(s);
    int          a = along(&p, x), b = along(&p, z);
    int          both = S2(AND, S2(GT, a, NUM(0)), S1(NOT, S2(GE, b, NUM(1))));
    int          either = S2(XOR, S2(LT, a, NUM(-1)), S2(NE, b, NUM(0)));
    int          y = S3(SELECT, both, S2(MUL, a, b), S3(SELECT, either, S1(SIN, a), NUM(0.5f)));
    case_out(c, "y", stored(&p, y, tensor_type(x), s));
}

/* Integers of two types, mixed with floats; their results go through memory as i32 and u8. */
static void integers(Case *c)
{
    Shape        s = SHAPE(6, 17);
    Tensor       x = case_in(c, "x", s, -2, 2), i = case_ints(c, "i", s, -50, 50);
    Tensor       u = case_bytes(c, "u", SHAPE(17), 0, 9), out[3];
    PointProgram p = over(s), q = over(s);
    int          a = along(&p, i), b = along(&p, u), seven = point_integer(&p, 7);
    int          mix = S2(ADD, S2(MUL, a, b), S2(REMAINDER, a, seven));
    int          div = S2(SUB, S2(FLOOR_DIV, a, seven), S2(FMOD, a, point_integer(&p, -5)));
    int          bits = S2(XOR, S2(SHIFT_LEFT, b, point_integer(&p, 2)), S2(AND, a, seven));
    point_store(&p, S2(ADD, mix, S2(MAX, div, S1(ABS, bits))), I32, s);
    point_store(&p, S2(OR, S2(LT, a, b), S2(EQ, b, point_integer(&p, 3))), U8, s);
    point_reduce(&p, a, POINT_SUM, 2, 1, I32, SHAPE(6, 1));
    point_end(&p, out);
    int f = op2(&q, POINT_ADD, op2(&q, POINT_MUL, along(&q, out[0]), along(&q, x)),
                along(&q, out[2]));
    case_out(c, "y",
             stored(&q, point_step(&q, POINT_SELECT, along(&q, out[1]), f, along(&q, x)), F32, s));
}

static void any_all(Case *c) /* of truth values, as u8 */
{
    Shape        s = SHAPE(7, 3);
    Tensor       x = case_in(c, "x", s, -2, 2), out[2];
    PointProgram p = over(s), q = over(s);
    int          t = S2(GT, along(&p, x), NUM(0.5f));
    point_reduce(&p, t, POINT_AMAX, 2, 1, U8, SHAPE(7, 1));
    point_reduce(&p, t, POINT_AMIN, 2, 1, U8, SHAPE(7, 1));
    point_end(&p, out);
    int y = point_step(&q, POINT_SELECT, along(&q, out[0]), along(&q, x),
                       op1(&q, POINT_NEG, along(&q, x)));
    y = point_step(&q, POINT_SELECT, along(&q, out[1]), op1(&q, POINT_SQUARE, y), y);
    case_out(c, "y", stored(&q, y, F32, s));
}

static void casts(Case *c)
{
    Shape        s = SHAPE(5, 23);
    Tensor       x = case_in(c, "x", s, -9, 9);
    PointProgram p = over(s);
    int          a = along(&p, x), whole = S1(TO_I32, S2(MUL, a, NUM(1.5f)));
    int          y = S2(ADD, S2(MUL, S1(TO_F32, whole), a), S1(TO_TRUTH, a));
    case_out(c, "y", stored(&p, y, F32, s));
}

static void rounding(Case *c)
{
    Shape        s = SHAPE(5, 23);
    Tensor       x = case_in(c, "x", s, -9, 9);
    PointProgram p = over(s);
    int          a = along(&p, x), third = S2(MUL, a, NUM(0.34375f));
    int          y = S2(ADD, S1(ROUND_BF16, third), S1(ROUND_F16, S2(MUL, third, third)));
    case_out(c, "y", stored(&p, y, F32, s));
}

static void kinks(Case *c) /* whole numbers: every kink and tie is met */
{
    Shape        s = SHAPE(4, 50);
    Tensor       x = case_in(c, "x", s, -3, 3), z = case_in(c, "z", s, -3, 3);
    PointProgram p = over(s);
    int          a = along(&p, x), b = along(&p, z);
    /* x - fraction(x) is whole, and x's gradient passes */
    int          wx = S2(SUB, a, S1(DETACH, S2(SUB, a, S1(FLOOR, a))));
    int          wz = S2(SUB, b, S1(DETACH, S2(SUB, b, S1(FLOOR, b))));
    int          y = S2(ADD, S2(MAX, wx, wz), S2(MUL, NUM(3), S2(MIN, wx, wz)));
    y = S2(ADD, y, S2(MUL, NUM(5), S1(ABS, wx)));
    y = S2(ADD, y, S2(MUL, NUM(7), S1(RELU, wx)));
    y = S2(ADD, y, S2(MUL, NUM(11), S2(CLAMP_MAX, S2(CLAMP_MIN, wx, NUM(-1)), NUM(1))));
    y = S2(ADD, y, S2(MUL, NUM(13), S2(CLAMP_MIN, wx, wz)));
    case_out(c, "y", stored(&p, y, F32, s));
}

static void powers(Case *c)
{
    Shape        s = SHAPE(4, 33);
    Tensor       x = case_in(c, "x", s, 0.25f, 3);
    PointProgram p = over(s);
    int          a = along(&p, x), y = S2(POW, a, NUM(2));
    float        to[] = { 3, 0.5f, -0.5f, -1, 2.5f, -1.5f, 4, 1, 0 };
    for (int i = 0; i < (int)(sizeof to / sizeof *to); i++)
        y = S2(ADD, y, S2(MUL, NUM(0.5f + (float)i), S2(POW, a, NUM(to[i]))));
    case_out(c, "y", stored(&p, y, F32, s));
}

static void zero_powers(Case *c) /* negative and zero bases, to whole powers */
{
    Shape        s = SHAPE(4, 33);
    Tensor       x = case_in(c, "x", s, -3, 3), k = case_in(c, "k", SHAPE(33), 0, 4);
    PointProgram p = over(s);
    int          a = along(&p, x), e = S1(FLOOR, along(&p, k));
    int          y = S2(POW, S1(TRUNC, a), e);
    y = S2(ADD, y, S2(POW, a, NUM(4)));
    case_out(c, "y", stored(&p, y, F32, s));
}

/* Far arguments: where functions overflow, underflow or leave their fast range. */
static void far_values(Case *c)
{
    Shape        s = SHAPE(300);
    Tensor       x = case_in(c, "x", s, -300, 300);
    PointProgram p = over(s), q = over(s);
    int          a = along(&p, x);
    int          y = S2(ADD, S1(SILU, a), S2(ADD, S1(SOFTPLUS, a), S1(MISH, a)));
    y = S2(ADD, y, S2(ADD, S1(LOG_SIGMOID, a), S1(GELU_TANH, a)));
    case_out(c, "y", stored(&p, y, F32, s));
    int b = op2(&q, POINT_MUL, along(&q, x), point_constant(&q, 1000));
    case_out(c, "z",
             stored(&q, op2(&q, POINT_ADD, op1(&q, POINT_SIN, b), op1(&q, POINT_COS, b)), F32, s));
}

/* ---- sizes ---- */

static void one_point(Case *c)
{
    Tensor       x = case_in(c, "x", SHAPE(1), -1, 1);
    PointProgram p = point_begin(0, NULL);
    case_out(c, "y", stored(&p, S1(EXP, along(&p, x)), tensor_type(x), SHAPE(1)));
}

static void tiny_inner(Case *c) /* rows of three, as of colours */
{
    Shape        s = SHAPE(50, 40, 3);
    Tensor       x = case_in(c, "x", s, -1, 1), v = case_in(c, "v", SHAPE(3), -1, 1);
    Tensor       w = case_in(c, "w", SHAPE(40, 1), 0.5f, 1);
    PointProgram p = over(s);
    int          y = S2(DIV, S2(SUB, along(&p, x), along(&p, v)), along(&p, w));
    case_out(c, "y", stored(&p, y, tensor_type(x), s));
}

/* Long programs: many operands, and more values alive than one would like. */
static void many_operands(Case *c)
{
    static const char *const names[] = { "a", "b", "c", "d", "e", "f", "g", "h",
                                         "i", "j", "k", "l", "m", "n", "o", "q" };
    Shape                    s = SHAPE(3, 19);
    PointProgram             p = over(s);
    int                      y = -1;
    for (int i = 0; i < POINT_INPUTS; i++) {
        int x = S1(TANH, along(&p, case_in(c, names[i], i % 3 ? s : SHAPE(19), -1, 1)));
        y = i ? S2(ADD, S2(MUL, y, S1(SIGMOID, x)), x) : x;
    }
    case_out(c, "y", stored(&p, y, F32, s));
}

static void many_steps(Case *c)
{
    Shape        s = SHAPE(40, 60);
    Tensor       x = case_in(c, "x", s, -1, 1);
    PointProgram p = over(s);
    int          a = along(&p, x), y = a;
    for (int i = 0; i < 40; i++) {
        y = S2(ADD, y, S2(MUL, NUM(0.1f), S1(SIN, y)));
        if (i % 8 == 0)
            y = S2(MUL, y, a);
    }
    case_out(c, "y", stored(&p, y, F32, s));
}

/* Each node may take over the bytes of the one before, though it reads it again at the end. */
static void in_place(Case *c)
{
    Shape        s = SHAPE(70, 150);
    Tensor       x = case_in(c, "x", s, -1, 1), v = case_in(c, "v", SHAPE(70, 1), -1, 1), out[2];
    PointProgram p = over(s), q = over(s), r = over(s);
    Tensor       a = stored(&p, S1(EXP, along(&p, x)), tensor_type(x), s);
    int          t = op1(&q, POINT_SIN, along(&q, a));
    point_store(&q, t, tensor_type(x), s);
    point_store(&q, op2(&q, POINT_MUL, op1(&q, POINT_TANH, t), along(&q, a)), F32, s);
    point_end(&q, out);
    int y = op2(&r, POINT_ADD, op2(&r, POINT_MUL, along(&r, out[0]), along(&r, v)),
                along(&r, out[1]));
    case_out(c, "y", stored(&r, y, tensor_type(x), s));
}

static void square_not_in_place(Case *c) /* as many bytes, but transposed */
{
    Shape        s = SHAPE(100, 100);
    Tensor       x = case_in(c, "x", s, -1, 1);
    PointProgram p = over(s), q = over(s);
    Tensor       a = stored(&p, S1(EXP, along(&p, x)), tensor_type(x), s);
    case_out(c, "y",
             stored(&q, op1(&q, POINT_NEG, permuted(&q, a, (int[]){ 1, 0 })), tensor_type(x), s));
}

static void chunks(Case *c)
{
    Shape        s = SHAPE(6, 4, 10);
    Tensor       x = case_in(c, "x", s, -1, 1), v = case_in(c, "v", SHAPE(10), -1, 1);
    Tensor       w = case_in(c, "w", SHAPE(6, 1, 10), -1, 1), out[2];
    PointProgram p = over(s);
    int          y = S1(TANH, S2(ADD, S2(MUL, along(&p, x), along(&p, w)), along(&p, v)));
    point_store(&p, y, tensor_type(x), SHAPE(24, 10));
    point_reduce(&p, y, POINT_SUM, 4, 1, F32, SHAPE(6, 4));
    point_end(&p, out);
    case_out(c, "y", out[0]);
    case_out(c, "rows", out[1]);
}

#define MANY_OPERANDS                                                                              \
    "y = None\n"                                                                                   \
    "for t in (a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, q):\n"                                 \
    "    t = torch.tanh(t)\n"                                                                      \
    "    y = t if y is None else y * torch.sigmoid(t) + t\n"
#define MANY_STEPS                                                                                 \
    "y = x\n"                                                                                      \
    "for i in range(40):\n"                                                                        \
    "    y = y + 0.1 * torch.sin(y)\n"                                                             \
    "    y = y * x if i % 8 == 0 else y\n"

const OpCase cases_pointwise[] = {
#define X(op, low, high, torch, flags) { #op, unary_##op, "y = " torch, flags },
    UNARY_LIST(X)
#undef X
#define X(op, low, high, low2, high2, torch, flags) { #op, binary_##op, "y = " torch, flags },
        BINARY_LIST(X)
#undef X
            { "silu of a sum", silu_of_sum, "y = F.silu(a + b)" },
    { "chain", chain, "y = F.silu(x * g + b) * torch.tanh(h)", CASE_LIVE_ONLY },
    { "broadcasts", broadcasts, "y = torch.tanh((x + row) * column * one + middle * outer)", 0, 0,
      3e-2 },
    { "outer sum", outer_sum, "y = torch.sin(u + v)" },
    { "numbers", numbers, "y = (torch.exp(0.5 * t) - x) * torch.exp(0.5 * t)" },
    { "transposed", transposed, "y = x.T * torch.sin(z)" },
    { "transposed large", transposed_large, "y = x.transpose(1, 2) * z", CASE_LIVE_ONLY },
    { "permutations", permutations,
      "y = torch.sigmoid(x.permute(0, 3, 1, 2) * z.permute(3, 2, 1, 0) + w * v.T[:, None, :])" },
    { "with own transpose", with_own_transpose, "y = x * x.T" },
    { "only permuted", only_permuted, "y = x.permute(2, 0, 1) * 1" },
    { "eight axes", eight_axes,
      "y = (x.reshape(2, 3, 2, 1, 3, 2, 2, 3) * v.reshape(2, 1, 1, 1, 1, 2, 1, 3) + "
      "w.T.reshape(1, 3, 1, 1, 3, 1, 1, 1)).reshape(12, 36)" },
    { "sum over inner", sum_inner, "y = (x * torch.sigmoid(z)).sum(2)" },
    { "mean over leading", sum_leading, "y = (x * torch.sigmoid(z)).mean((0, 1))" },
    { "sum over middle", sum_middle, "y = 0.5 * (x * torch.sigmoid(z)).sum(1)" },
    { "sum over outer and inner", sum_outer_inner, "y = (x * torch.sigmoid(z)).sum((0, 2))" },
    { "sum over all", sum_all, "y = 0.25 * (x * torch.sigmoid(z)).sum().reshape(1)", 0, 5e-5,
      3e-2 },
    { "large sum over all", sum_all_large, "y = 1e-3 * (x * torch.sigmoid(z)).sum().reshape(1)",
      CASE_LIVE_ONLY },
    { "large sum over leading", sum_leading_large, "y = (x * torch.sigmoid(z)).sum(0)",
      CASE_LIVE_ONLY },
    { "large sum over middle", sum_middle_large, "y = (x * torch.sigmoid(z)).sum(1)",
      CASE_LIVE_ONLY },
    { "large sum over inner", sum_inner_large, "y = (x * torch.sigmoid(z)).sum(1, keepdim=True)",
      CASE_LIVE_ONLY },
    { "largest over inner", largest_inner, "y = (0.5 * x).amax(1)", CASE_NO_DIFFERENCES },
    { "smallest over leading", smallest_leading, "y = (0.5 * x).amin(0)", CASE_NO_DIFFERENCES },
    { "largest of all", largest_of_all, "y = (0.5 * x).amax().reshape(1)",
      CASE_NO_DIFFERENCES | CASE_LIVE_ONLY },
    { "largest, with ties", largest_ties,
      "y = (0 * x + x.round()).amax(1, keepdim=True); z = torch.clamp(x, max=0.5).amax(1)",
      CASE_NO_DIFFERENCES },
    { "several results", several_results,
      "e = torch.exp(x + v); f0 = e * x; f = f0.reshape(42, 10); rows = 0.1 * (f0 * f0).sum(2); "
      "columns = f0.sum((0, 1))" },
    { "softmax in steps", softmax_steps, "y = F.softmax(x, 1)" },
    { "choices", choices,
      "y = torch.where((x > 0) & ~(z >= 1), x * z, torch.where((x < -1) ^ (z != 0), torch.sin(x), "
      "torch.full_like(x, 0.5)))",
      CASE_NO_DIFFERENCES },
    { "integers", integers,
      "m = i * u + i % 7 + torch.maximum(i.div(7, rounding_mode='floor') - torch.fmod(i, -5), "
      "torch.abs((u << 2) ^ (i & 7)))\n"
      "y = torch.where((i < u) | (u == 3), m * x + i.sum(1, keepdim=True), x)" },
    { "any and all", any_all,
      "t = x > 0.5; w = torch.where(t.any(1, keepdim=True), x, -x); "
      "y = torch.where(t.all(1, keepdim=True), w * w, w)",
      CASE_NO_DIFFERENCES },
    { "casts", casts, "y = (x * 1.5).int().double() * x + (x != 0).double()", CASE_NO_DIFFERENCES },
    { "rounding", rounding,
      "t = x * 0.34375; y = t.to(torch.bfloat16).double() + (t * t).to(torch.float16).double()",
      CASE_NO_DIFFERENCES },
    { "kinks", kinks,
      "wx = x - (x - x.floor()).detach(); wz = z - (z - z.floor()).detach()\n"
      "y = torch.maximum(wx, wz) + 3 * torch.minimum(wx, wz) + 5 * wx.abs() + 7 * F.relu(wx) + 11 "
      "* "
      "torch.clamp(wx, -1, 1) + 13 * torch.clamp(wx, min=wz)",
      CASE_NO_DIFFERENCES },
    { "powers", powers,
      "y = x ** 2\n"
      "for n, k in enumerate((3, 0.5, -0.5, -1, 2.5, -1.5, 4, 1, 0)):\n"
      "    y = y + (0.5 + n) * x ** k\n" },
    { "powers of zero and negative numbers", zero_powers, "y = x.trunc() ** k.floor() + x ** 4",
      CASE_NO_DIFFERENCES },
    { "far values", far_values,
      "y = F.silu(x) + F.softplus(x) + F.mish(x) + F.logsigmoid(x) + F.gelu(x, "
      "approximate='tanh'); z = torch.sin(1000 * x) + torch.cos(1000 * x)",
      CASE_NO_DIFFERENCES },
    { "one point", one_point, "y = torch.exp(x)" },
    { "tiny inner axis", tiny_inner, "y = (x - v) / w" },
    { "many operands", many_operands, MANY_OPERANDS },
    { "many steps", many_steps, MANY_STEPS },
    { "in place", in_place, "a = torch.exp(x); t = torch.sin(a); y = t * v + torch.tanh(t) * a", 0,
      0, 2e-2 },
    { "square, not in place", square_not_in_place, "y = -torch.exp(x).T" },
    { "chunks", chunks, "t = torch.tanh(x * w + v); y = t.reshape(24, 10); rows = t.sum(2)" },
    { 0 }
};
