/* int_math.h -- integer arithmetic for sizes and grids: division and alignment, rounded up; the
 * smaller and the larger of two.
 *
 * Of ceil_div and align: numbers are not negative, divisors are above 0, and the sum of both fits
 * its type. Kernels on a GPU may call all of these, and CUDA files may use them in constants.
 */
#ifndef BASE_INT_MATH_H
#define BASE_INT_MATH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__
#define INT_MATH static constexpr __host__ __device__ __forceinline__
#else
#define INT_MATH static inline
#endif

/* The smallest whole number not below n / by. */
INT_MATH int64_t ceil_div(int64_t n, int64_t by) { return (n + by - 1) / by; }

/* The smallest multiple of unit that is not below n. */
INT_MATH int64_t align_up(int64_t n, int64_t unit) { return ceil_div(n, unit) * unit; }

/* The same for a count of bytes or elements that is a size_t. */
INT_MATH size_t align_bytes(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

INT_MATH int64_t int_min(int64_t a, int64_t b) { return a < b ? a : b; }
INT_MATH int64_t int_max(int64_t a, int64_t b) { return a > b ? a : b; }
INT_MATH size_t  size_max(size_t a, size_t b) { return a > b ? a : b; }

#undef INT_MATH

#endif
