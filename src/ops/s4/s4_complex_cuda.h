/* s4_complex_cuda.h -- complex numbers in double precision, for the parameters and states of S4. */
#ifndef OPS_S4_S4_COMPLEX_CUDA_H
#define OPS_S4_S4_COMPLEX_CUDA_H

#include <stdint.h>

typedef struct Complex {
    double re, im;
} Complex;

__device__ __forceinline__ Complex z_mul(Complex a, Complex b)
{
    return { a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re };
}
__device__ __forceinline__ Complex z_add(Complex a, Complex b)
{
    return { a.re + b.re, a.im + b.im };
}
__device__ __forceinline__ Complex z_conj(Complex a) { return { a.re, -a.im }; }
__device__ __forceinline__ Complex z_at(const float *x, int64_t i)
{
    return { (double)x[2 * i], (double)x[2 * i + 1] };
}

#endif
