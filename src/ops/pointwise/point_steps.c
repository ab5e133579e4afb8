/* point_steps.c -- the operations of a pointwise program as vector loops. */
#include "ops/pointwise/point_steps.h"

#include "base/err.h"
#include "ops/pointwise/point_math.h"

typedef int32_t Int;

#define LOOP(...)                                                                                  \
    _Pragma("omp simd") for (int64_t i = 0; i < n; i++) { __VA_ARGS__; }
#define ROW     int64_t n, void *d_, const void *a_, const void *b_, const void *c_
#define UNUSED2 (void)b_, (void)c_

/* Result type R, operand type T, and the value as an expression in x. */
#define UNARY(name, T, R, expr)                                                                    \
    static void name(ROW)                                                                          \
    {                                                                                              \
        R       *d = d_;                                                                           \
        const T *a = a_;                                                                           \
        UNUSED2;                                                                                   \
        LOOP(T x = a[i]; d[i] = (expr))                                                            \
    }

/* The same in x and y: both from rows, or one of them a number. */
#define BINARY(name, T, R, expr)                                                                   \
    static void name##_vv(ROW)                                                                     \
    {                                                                                              \
        R       *d = d_;                                                                           \
        const T *a = a_, *b = b_;                                                                  \
        (void)c_;                                                                                  \
        LOOP(T x = a[i]; T y = b[i]; d[i] = (expr))                                                \
    }                                                                                              \
    static void name##_sv(ROW)                                                                     \
    {                                                                                              \
        R       *d = d_;                                                                           \
        const T *b = b_, x = *(const T *)a_;                                                       \
        (void)c_;                                                                                  \
        LOOP(T y = b[i]; d[i] = (expr))                                                            \
    }                                                                                              \
    static void name##_vs(ROW)                                                                     \
    {                                                                                              \
        R       *d = d_;                                                                           \
        const T *a = a_, y = *(const T *)b_;                                                       \
        (void)c_;                                                                                  \
        LOOP(T x = a[i]; d[i] = (expr))                                                            \
    }

/* ---- floats ---- */

BINARY(add_f, float, float, x + y)
BINARY(sub_f, float, float, x - y)
BINARY(mul_f, float, float, x *y)
BINARY(div_f, float, float, x / y)
BINARY(min_f, float, float, x < y || x != x ? x : y)
BINARY(max_f, float, float, x > y || x != x ? x : y)
BINARY(eq_f, float, Int, x == y)
BINARY(ne_f, float, Int, x != y)
BINARY(lt_f, float, Int, x < y)
BINARY(le_f, float, Int, x <= y)
BINARY(gt_f, float, Int, x > y)
BINARY(ge_f, float, Int, x >= y)

/* The remainder has the divisor's sign; the quotient is the whole number that goes with it. */
static inline float remainder_at(float x, float y)
{
    float r = fmodf(x, y);
    return r != 0 && (y < 0) != (r < 0) ? r + y : r;
}

static inline float floor_div_at(float x, float y)
{
    if (y == 0)
        return x / y;
    float r = fmodf(x, y), q = (x - r) / y;
    if (r != 0 && (y < 0) != (r < 0))
        q -= 1;
    if (q == 0)
        return copysignf(0.0f, x / y);
    float whole = floorf(q);
    return q - whole > 0.5f ? whole + 1 : whole;
}

BINARY(remainder_f, float, float, remainder_at(x, y))
BINARY(floor_div_f, float, float, floor_div_at(x, y))
BINARY(fmod_f, float, float, fmodf(x, y))
BINARY(atan2_f, float, float, atan2f(x, y))

/* Positive numbers by vector code; the rest, where there is any, again by libm. The result may take
 * an operand's place, so operands are read first. */
static void pow_rows(int64_t n, float *d, const float *a, const float *b, int64_t da, int64_t db)
{
    enum { BLOCK = 64 };
    float x[BLOCK], y[BLOCK], z[BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t m = n - i < BLOCK ? n - i : BLOCK;
        int     special = 0;
        for (int64_t j = 0; j < m; j++) {
            x[j] = a[(i + j) * da];
            y[j] = b[(i + j) * db];
        }
        for (int64_t j = m; j < BLOCK; j++)
            x[j] = y[j] = 1;
#pragma omp simd reduction(+ : special)
        for (int64_t j = 0; j < BLOCK; j++) {
            z[j] = point_pow(x[j], y[j]);
            special += point_pow_special(x[j], y[j]);
        }
        for (int64_t j = 0; special && j < m; j++)
            if (point_pow_special(x[j], y[j]))
                z[j] = powf(x[j], y[j]);
        memcpy(d + i, z, (size_t)m * sizeof *z);
    }
}
static void pow_f_vv(ROW) { (void)c_, pow_rows(n, d_, a_, b_, 1, 1); }
static void pow_f_vs(ROW) { (void)c_, pow_rows(n, d_, a_, b_, 1, 0); }
static void pow_f_sv(ROW) { (void)c_, pow_rows(n, d_, a_, b_, 0, 1); }

UNARY(detach_f, float, float, x)
UNARY(round_bf16_f, float, float, point_round_bf16(x))
UNARY(neg_f, float, float, -x)
UNARY(abs_f, float, float, fabsf(x))
UNARY(sign_f, float, float, (float)((x > 0) - (x < 0)))
UNARY(square_f, float, float, x *x)
UNARY(sqrt_f, float, float, sqrtf(x))
UNARY(rsqrt_f, float, float, 1.0f / sqrtf(x))
UNARY(reciprocal_f, float, float, 1.0f / x)
UNARY(exp_f, float, float, vexp(x))
UNARY(exp2_f, float, float, point_exp2(x))
UNARY(expm1_f, float, float, point_expm1(x))
UNARY(log_f, float, float, vlog(x))
UNARY(log2_f, float, float, point_log2(x))
UNARY(log1p_f, float, float, point_log1p(x))
UNARY(tan_f, float, float, tanf(x))
UNARY(asin_f, float, float, asinf(x))
UNARY(acos_f, float, float, acosf(x))
UNARY(atan_f, float, float, atanf(x))
UNARY(sinh_f, float, float, sinhf(x))
UNARY(cosh_f, float, float, coshf(x))
UNARY(tanh_f, float, float, vtanh(x))
UNARY(sigmoid_f, float, float, vsigmoid(x))
UNARY(log_sigmoid_f, float, float, -vsoftplus(-x))
UNARY(softplus_f, float, float, vsoftplus(x))
UNARY(relu_f, float, float, x < 0 ? 0.0f : x)
UNARY(silu_f, float, float, point_silu(x))
UNARY(gelu_f, float, float, vgelu(x))
UNARY(gelu_tanh_f, float, float, point_gelu_tanh(x))
UNARY(mish_f, float, float, point_mish(x))
UNARY(erf_f, float, float, verf(x))
UNARY(floor_f, float, float, floorf(x))
UNARY(ceil_f, float, float, ceilf(x))
UNARY(round_f, float, float, rintf(x))
UNARY(trunc_f, float, float, truncf(x))
UNARY(is_nan_f, float, Int, x != x)
UNARY(is_inf_f, float, Int, fabsf(x) == INFINITY)
UNARY(silu_slope_f, float, float, point_silu_slope(x))
UNARY(gelu_slope_f, float, float, vgelu_slope(x))
UNARY(gelu_tanh_slope_f, float, float, point_gelu_tanh_slope(x))
UNARY(mish_slope_f, float, float, point_mish_slope(x))
UNARY(to_i32_f, float, Int,
      x >= 2147483648.0f    ? INT32_MAX
      : x >= -2147483648.0f ? (Int)x
      : x < 0               ? INT32_MIN
                            : 0)
UNARY(to_truth_f, float, Int, x != 0)

static void round_f16_f(ROW)
{
    enum { BLOCK = 256 };
    uint16_t half[BLOCK];
    UNUSED2;
    for (int64_t i = 0; i < n; i += BLOCK) {
        size_t m = (size_t)(n - i < BLOCK ? n - i : BLOCK);
        convert_rows(F16, half, F32, (const float *)a_ + i, m);
        convert_rows(F32, (float *)d_ + i, F16, half, m);
    }
}

/* Far numbers, where there are any, again by libm. */
#define SINE(name, fast, exact)                                                                    \
    static void name(ROW)                                                                          \
    {                                                                                              \
        enum { BLOCK = 64 };                                                                       \
        float *d = d_, x[BLOCK];                                                                   \
        UNUSED2;                                                                                   \
        for (int64_t at = 0; at < n; at += BLOCK) {                                                \
            int64_t      m = n - at < BLOCK ? n - at : BLOCK;                                      \
            const float *a = (const float *)a_ + at;                                               \
            int          far = 0;                                                                  \
            memcpy(x, a, (size_t)m * sizeof *x);                                                   \
            _Pragma("omp simd reduction(+ : far)") for (int64_t i = 0; i < m; i++)                 \
            {                                                                                      \
                d[at + i] = fast(x[i]);                                                            \
                far += !(fabsf(x[i]) <= POINT_SIN_MAX);                                            \
            }                                                                                      \
            for (int64_t i = 0; far && i < m; i++)                                                 \
                if (!(fabsf(x[i]) <= POINT_SIN_MAX))                                               \
                    d[at + i] = exact(x[i]);                                                       \
        }                                                                                          \
    }
SINE(sin_f, point_sin, sinf)
SINE(cos_f, point_cos, cosf)

/* ---- integers: sums and products wrap round ---- */

#define WRAP(op) ((Int)((uint32_t)x op(uint32_t) y))
BINARY(add_i, Int, Int, WRAP(+))
BINARY(sub_i, Int, Int, WRAP(-))
BINARY(mul_i, Int, Int, WRAP(*))
BINARY(min_i, Int, Int, x < y ? x : y)
BINARY(max_i, Int, Int, x > y ? x : y)
BINARY(eq_i, Int, Int, x == y)
BINARY(ne_i, Int, Int, x != y)
BINARY(lt_i, Int, Int, x < y)
BINARY(le_i, Int, Int, x <= y)
BINARY(gt_i, Int, Int, x > y)
BINARY(ge_i, Int, Int, x >= y)
BINARY(and_i, Int, Int, x &y)
BINARY(or_i, Int, Int, x | y)
BINARY(xor_i, Int, Int, x ^ y)
BINARY(shift_left_i, Int, Int, (uint32_t)y < 32 ? (Int)((uint32_t)x << y) : 0)
BINARY(shift_right_i, Int, Int, x >> ((uint32_t)y < 32 ? y : 31))

/* Divided by 0: 0. */
static inline Int fmod_at(Int x, Int y) { return y == 0 || y == -1 ? 0 : x % y; }
static inline Int mod_at(Int x, Int y)
{
    Int r = fmod_at(x, y);
    return r != 0 && (y < 0) != (r < 0) ? r + y : r;
}
static inline Int quotient_at(Int x, Int y)
{
    if (y == 0)
        return 0;
    if (y == -1)
        return (Int)(0u - (uint32_t)x);
    return (x - mod_at(x, y)) / y;
}
BINARY(fmod_i, Int, Int, fmod_at(x, y))
BINARY(remainder_i, Int, Int, mod_at(x, y))
BINARY(floor_div_i, Int, Int, quotient_at(x, y))

UNARY(detach_i, Int, Int, x)
UNARY(not_i, Int, Int, x == 0)
UNARY(neg_i, Int, Int, (Int)(0u - (uint32_t)x))
UNARY(abs_i, Int, Int, x < 0 ? (Int)(0u - (uint32_t)x) : x)
UNARY(sign_i, Int, Int, (x > 0) - (x < 0))
UNARY(square_i, Int, Int, (Int)((uint32_t)x *(uint32_t)x))
UNARY(to_f32_i, Int, float, (float)x)
UNARY(to_truth_i, Int, Int, x != 0)

/* ---- a choice: the bits are copied, so one form serves both kinds ---- */

#define SELECT(name, yes, no)                                                                      \
    static void name(ROW)                                                                          \
    {                                                                                              \
        Int       *d = d_;                                                                         \
        const Int *a = a_, *b = b_, *c = c_, bs = *b, cs = *c;                                     \
        (void)bs, (void)cs;                                                                        \
        LOOP(d[i] = a[i] ? yes : no)                                                               \
    }
SELECT(select_vv, b[i], c[i])
SELECT(select_sv, bs, c[i])
SELECT(select_vs, b[i], cs)
SELECT(select_ss, bs, cs)

/* ---- tables ---- */

typedef struct PointFns {
    PointFn *vv, *sv, *vs; /* unary: vv */
} PointFns;

#define ONE(name)                                                                                  \
    {                                                                                              \
        name, NULL, NULL                                                                           \
    }
#define THREE(name)                                                                                \
    {                                                                                              \
        name##_vv, name##_sv, name##_vs                                                            \
    }

static const PointFns float_fns[POINT_OP_COUNT] = {
    [POINT_ADD] = THREE(add_f),
    [POINT_SUB] = THREE(sub_f),
    [POINT_MUL] = THREE(mul_f),
    [POINT_DIV] = THREE(div_f),
    [POINT_FLOOR_DIV] = THREE(floor_div_f),
    [POINT_REMAINDER] = THREE(remainder_f),
    [POINT_FMOD] = THREE(fmod_f),
    [POINT_POW] = THREE(pow_f),
    [POINT_ATAN2] = THREE(atan2_f),
    [POINT_MIN] = THREE(min_f),
    [POINT_MAX] = THREE(max_f),
    [POINT_CLAMP_MIN] = THREE(max_f),
    [POINT_CLAMP_MAX] = THREE(min_f),
    [POINT_EQ] = THREE(eq_f),
    [POINT_NE] = THREE(ne_f),
    [POINT_LT] = THREE(lt_f),
    [POINT_LE] = THREE(le_f),
    [POINT_GT] = THREE(gt_f),
    [POINT_GE] = THREE(ge_f),
    [POINT_TO_F32] = ONE(detach_f),
    [POINT_TO_I32] = ONE(to_i32_f),
    [POINT_TO_TRUTH] = ONE(to_truth_f),
    [POINT_ROUND_BF16] = ONE(round_bf16_f),
    [POINT_ROUND_F16] = ONE(round_f16_f),
    [POINT_NEG] = ONE(neg_f),
    [POINT_ABS] = ONE(abs_f),
    [POINT_SIGN] = ONE(sign_f),
    [POINT_SQUARE] = ONE(square_f),
    [POINT_SQRT] = ONE(sqrt_f),
    [POINT_RSQRT] = ONE(rsqrt_f),
    [POINT_RECIPROCAL] = ONE(reciprocal_f),
    [POINT_EXP] = ONE(exp_f),
    [POINT_EXP2] = ONE(exp2_f),
    [POINT_EXPM1] = ONE(expm1_f),
    [POINT_LOG] = ONE(log_f),
    [POINT_LOG2] = ONE(log2_f),
    [POINT_LOG1P] = ONE(log1p_f),
    [POINT_SIN] = ONE(sin_f),
    [POINT_COS] = ONE(cos_f),
    [POINT_TAN] = ONE(tan_f),
    [POINT_ASIN] = ONE(asin_f),
    [POINT_ACOS] = ONE(acos_f),
    [POINT_ATAN] = ONE(atan_f),
    [POINT_SINH] = ONE(sinh_f),
    [POINT_COSH] = ONE(cosh_f),
    [POINT_TANH] = ONE(tanh_f),
    [POINT_SIGMOID] = ONE(sigmoid_f),
    [POINT_LOG_SIGMOID] = ONE(log_sigmoid_f),
    [POINT_SOFTPLUS] = ONE(softplus_f),
    [POINT_RELU] = ONE(relu_f),
    [POINT_SILU] = ONE(silu_f),
    [POINT_GELU] = ONE(gelu_f),
    [POINT_GELU_TANH] = ONE(gelu_tanh_f),
    [POINT_MISH] = ONE(mish_f),
    [POINT_ERF] = ONE(erf_f),
    [POINT_FLOOR] = ONE(floor_f),
    [POINT_CEIL] = ONE(ceil_f),
    [POINT_ROUND] = ONE(round_f),
    [POINT_TRUNC] = ONE(trunc_f),
    [POINT_IS_NAN] = ONE(is_nan_f),
    [POINT_IS_INF] = ONE(is_inf_f),
    [POINT_DETACH] = ONE(detach_f),
    [POINT_SILU_SLOPE] = ONE(silu_slope_f),
    [POINT_GELU_SLOPE] = ONE(gelu_slope_f),
    [POINT_GELU_TANH_SLOPE] = ONE(gelu_tanh_slope_f),
    [POINT_MISH_SLOPE] = ONE(mish_slope_f),
};

static const PointFns integer_fns[POINT_OP_COUNT] = {
    [POINT_ADD] = THREE(add_i),
    [POINT_SUB] = THREE(sub_i),
    [POINT_MUL] = THREE(mul_i),
    [POINT_FLOOR_DIV] = THREE(floor_div_i),
    [POINT_REMAINDER] = THREE(remainder_i),
    [POINT_FMOD] = THREE(fmod_i),
    [POINT_MIN] = THREE(min_i),
    [POINT_MAX] = THREE(max_i),
    [POINT_CLAMP_MIN] = THREE(max_i),
    [POINT_CLAMP_MAX] = THREE(min_i),
    [POINT_EQ] = THREE(eq_i),
    [POINT_NE] = THREE(ne_i),
    [POINT_LT] = THREE(lt_i),
    [POINT_LE] = THREE(le_i),
    [POINT_GT] = THREE(gt_i),
    [POINT_GE] = THREE(ge_i),
    [POINT_AND] = THREE(and_i),
    [POINT_OR] = THREE(or_i),
    [POINT_XOR] = THREE(xor_i),
    [POINT_SHIFT_LEFT] = THREE(shift_left_i),
    [POINT_SHIFT_RIGHT] = THREE(shift_right_i),
    [POINT_NOT] = ONE(not_i),
    [POINT_TO_F32] = ONE(to_f32_i),
    [POINT_TO_I32] = ONE(detach_i),
    [POINT_TO_TRUTH] = ONE(to_truth_i),
    [POINT_NEG] = ONE(neg_i),
    [POINT_ABS] = ONE(abs_i),
    [POINT_SIGN] = ONE(sign_i),
    [POINT_SQUARE] = ONE(square_i),
    [POINT_DETACH] = ONE(detach_i),
};

PointFn *point_fn(PointOp op, bool integer, unsigned numbers)
{
    if (op == POINT_SELECT) {
        static PointFn *const selects[] = { select_vv, select_sv, select_vs, select_ss };
        return selects[numbers >> 1 & 3];
    }
    const PointFns *fns = integer ? &integer_fns[op] : &float_fns[op];
    PointFn        *fn = numbers & 1 ? fns->sv : numbers & 2 ? fns->vs : fns->vv;
    REQUIRE(fn);
    return fn;
}
