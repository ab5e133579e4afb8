/* math_cuda.h -- elementary functions on CUDA that the toolkit lacks, each within a few ulp, as in
 * vmath.h. */
#ifndef OPS_ELEMENTWISE_MATH_CUDA_H
#define OPS_ELEMENTWISE_MATH_CUDA_H

#include <cuda_runtime.h>
#include <math.h>

/* The fast division is within 2 ulp; where 1 + exp(-x) is too large for it, the result is 0. */
__device__ __forceinline__ float sigmoidf(float x) { return __fdividef(1.0f, 1.0f + expf(-x)); }

/* log(1 + exp(x)), without overflow. */
__device__ __forceinline__ float softplusf(float x)
{
    return (x > 0 ? x : 0.0f) + log1pf(expf(-fabsf(x)));
}

/* The normal distribution: Phi(x), and its density. GELU is x Phi(x). */
__device__ __forceinline__ float normal_cdf(float x)
{
    return fmaf(0.5f, erff(x * 0.70710678f), 0.5f);
}
__device__ __forceinline__ float normal_density(float x)
{
    return 0.39894228f * expf(-0.5f * x * x);
}

#endif
