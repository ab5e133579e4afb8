/* unary_cpu.c -- functions of one number on the CPU. A gradient is dy times the slope, which is
 * written in terms of what the rule keeps: the input x or the output y. */
#include "ops/elementwise/unary.h"

#include "device/convert.h"
#include "ops/reduce/rows.h"
#include "ops/elementwise/vmath.h"

static inline float silu_at(float x) { return x * vsigmoid(x); }
static inline float silu_slope(float x)
{
    float s = vsigmoid(x);
    return s * fmaf(x, 1.0f - s, 1.0f);
}
static inline float relu_at(float x) { return x < 0 ? 0.0f : x; } /* NaN stays NaN */
/* clang-format off */
static inline float relu_slope(float y)   { return y > 0 ? 1.0f : 0.0f; }
static inline float tanh_at(float x)      { return vtanh(x); }
static inline float tanh_slope(float y)   { return fmaf(-y, y, 1.0f); }
static inline float sigmoid_at(float x)   { return vsigmoid(x); }
static inline float sigmoid_slope(float y) { return y * (1.0f - y); }
static inline float gelu_at(float x)      { return vgelu(x); }
static inline float gelu_slope(float x)   { return vgelu_slope(x); }
static inline float softplus_at(float x)  { return vsoftplus(x); }
static inline float softplus_slope(float x) { return vsigmoid(x); }
static inline float exp_at(float x)       { return vexp(x); }
static inline float exp_slope(float y)    { return y; }
/* clang-format on */

/* (1 + tanh u) / 2 = sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3) */
static const float gelu_a = 0.7978845608f, gelu_b = 0.044715f * 0.7978845608f;

static inline float gelu_tanh_at(float x)
{
    return x * vsigmoid(2.0f * x * fmaf(gelu_b, x * x, gelu_a));
}

static inline float gelu_tanh_slope(float x)
{
    float z = x * x, s = vsigmoid(2.0f * x * fmaf(gelu_b, z, gelu_a));
    float du = fmaf(3.0f * gelu_b, z, gelu_a);
    return s * fmaf(2.0f * x * (1.0f - s), du, 1.0f);
}

#define X(fn, reads, flops)                                                                        \
    static void fn##_row(const Call *call, int64_t first, int64_t n, const float *const *in,       \
                         float *out)                                                               \
    {                                                                                              \
        const float *x = in[0];                                                                    \
        (void)call, (void)first;                                                                   \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) out[i] = fn##_at(x[i]);                \
    }                                                                                              \
    static void fn##_grad_row(const Call *call, int64_t first, int64_t n, const float *const *in,  \
                              float *out)                                                          \
    {                                                                                              \
        const float *kept = in[0], *dy = in[1];                                                    \
        (void)call, (void)first;                                                                   \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) out[i] = dy[i] * fn##_slope(kept[i]);  \
    }                                                                                              \
    static void fn##_bf16(int64_t n, const uint16_t *const *in, uint16_t *out)                     \
    {                                                                                              \
        const uint16_t *x = in[0];                                                                 \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++)                                        \
            out[i] = bf16_rounded(fn##_at(bf16_to_f32(x[i])));                                     \
    }                                                                                              \
    static void fn##_grad_bf16(int64_t n, const uint16_t *const *in, uint16_t *out)                \
    {                                                                                              \
        const uint16_t *kept = in[0], *dy = in[1];                                                 \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++)                                        \
            out[i] = bf16_rounded(bf16_to_f32(dy[i]) * fn##_slope(bf16_to_f32(kept[i])));          \
    }                                                                                              \
    Err fn##_cpu(const Call *call)                                                                 \
    {                                                                                              \
        return rows_all_bf16(call->node, 1) ? rows_run_bf16(call, 1, fn##_bf16)                    \
                                            : rows_run(call, 1, fn##_row);                         \
    }                                                                                              \
    Err fn##_grad_cpu(const Call *call)                                                            \
    {                                                                                              \
        return rows_all_bf16(call->node, 2) ? rows_run_bf16(call, 2, fn##_grad_bf16)               \
                                            : rows_run(call, 2, fn##_grad_row);                    \
    }
UNARY_LIST(X)
#undef X

static void affine_row(const Call *call, int64_t first, int64_t n, const float *const *in,
                       float *out)
{
    const float *x = in[0];
    AffineAttr   a = *ATTR(call->node, AffineAttr);
    (void)first;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        out[i] = fmaf(a.scale, x[i], a.offset);
}

Err affine_cpu(const Call *call) { return rows_run(call, 1, affine_row); }
