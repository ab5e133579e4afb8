/* bias_sums_cuda.h -- column sums of a matrix, for the gradients of biases (linear_cuda.cu). */
#ifndef OPS_LINEAR_BIAS_SUMS_CUDA_H
#define OPS_LINEAR_BIAS_SUMS_CUDA_H

#include "ir/op.h"

size_t bias_sums_bytes_cuda(const Device *device, int64_t rows, int64_t width);
Err    bias_sums_cuda(const Call *call, Type type, const void *x, int64_t rows, int64_t width,
                      void *workspace, const float *before, float *out);

#endif
