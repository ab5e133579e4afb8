/* unary_cuda.cu -- functions of one number on CUDA. A gradient is dy times the slope, which is
 * written in terms of what the rule keeps: the input x or the output y. */
#include "ops/linear/column_sums_cuda.h"
#include "ops/elementwise/math_cuda.h"

extern "C" {
#include "ops/elementwise/unary.h"
}

__device__ __forceinline__ float silu_at(float x) { return x * sigmoidf(x); }
__device__ __forceinline__ float silu_slope(float x)
{
    float s = sigmoidf(x);
    return s * fmaf(x, 1.0f - s, 1.0f);
}
__device__ __forceinline__ float relu_at(float x) { return x < 0 ? 0.0f : x; } /* NaN stays NaN */
__device__ __forceinline__ float relu_slope(float y) { return y > 0 ? 1.0f : 0.0f; }
__device__ __forceinline__ float tanh_at(float x) { return tanhf(x); }
__device__ __forceinline__ float tanh_slope(float y) { return fmaf(-y, y, 1.0f); }
__device__ __forceinline__ float sigmoid_at(float x) { return sigmoidf(x); }
__device__ __forceinline__ float sigmoid_slope(float y) { return y * (1.0f - y); }
__device__ __forceinline__ float gelu_at(float x) { return x * normal_cdf(x); }
__device__ __forceinline__ float gelu_slope(float x)
{
    return fmaf(x, normal_density(x), normal_cdf(x));
}
__device__ __forceinline__ float softplus_at(float x) { return softplusf(x); }
__device__ __forceinline__ float softplus_slope(float x) { return sigmoidf(x); }
__device__ __forceinline__ float exp_at(float x) { return expf(x); }
__device__ __forceinline__ float exp_slope(float y) { return y; }

/* (1 + tanh u) / 2 = sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3) */
#define GELU_A 0.7978845608f
#define GELU_B (0.044715f * GELU_A)

__device__ __forceinline__ float gelu_tanh_at(float x)
{
    return x * sigmoidf(2.0f * x * fmaf(GELU_B, x * x, GELU_A));
}

__device__ __forceinline__ float gelu_tanh_slope(float x)
{
    float z = x * x, s = sigmoidf(2.0f * x * fmaf(GELU_B, z, GELU_A));
    float du = fmaf(3.0f * GELU_B, z, GELU_A);
    return s * fmaf(2.0f * x * (1.0f - s), du, 1.0f);
}

#define X(fn, reads, flops)                                                                        \
    struct fn##_fn {                                                                               \
        __device__ float at(const float *x) const { return fn##_at(x[0]); }                        \
    };                                                                                             \
    struct fn##_grad_fn {                                                                          \
        __device__ float at(const float *x) const { return x[1] * fn##_slope(x[0]); }              \
    };                                                                                             \
    extern "C" Err fn##_cuda(const Call *call) { return rows_cuda<1>(call, Each<fn##_fn>()); }     \
    extern "C" Err fn##_grad_cuda(const Call *call)                                                \
    {                                                                                              \
        return rows_col_sums_cuda<2>(call, Each<fn##_grad_fn>());                                  \
    }
UNARY_LIST(X)
#undef X

struct AffineFn {
    AffineAttr       a;
    __device__ float at(const float *x) const { return fmaf(a.scale, x[0], a.offset); }
};

extern "C" Err affine_cuda(const Call *call)
{
    Each<AffineFn> f;
    f.a = *ATTR(call->node, AffineAttr);
    return rows_cuda<1>(call, f);
}

CUDA_KERNEL(affine, .run = affine_cuda)
CUDA_KERNEL(silu, .run = silu_cuda)
CUDA_KERNEL(relu, .run = relu_cuda)
CUDA_KERNEL(tanh, .run = tanh_cuda)
CUDA_KERNEL(sigmoid, .run = sigmoid_cuda)
CUDA_KERNEL(gelu, .run = gelu_cuda)
CUDA_KERNEL(gelu_tanh, .run = gelu_tanh_cuda)
CUDA_KERNEL(softplus, .run = softplus_cuda)
CUDA_KERNEL(exp, .run = exp_cuda)
CUDA_KERNEL(silu_grad, .run = silu_grad_cuda)
CUDA_KERNEL(relu_grad, .run = relu_grad_cuda)
CUDA_KERNEL(tanh_grad, .run = tanh_grad_cuda)
CUDA_KERNEL(sigmoid_grad, .run = sigmoid_grad_cuda)
CUDA_KERNEL(gelu_grad, .run = gelu_grad_cuda)
CUDA_KERNEL(gelu_tanh_grad, .run = gelu_tanh_grad_cuda)
CUDA_KERNEL(softplus_grad, .run = softplus_grad_cuda)
CUDA_KERNEL(exp_grad, .run = exp_grad_cuda)
