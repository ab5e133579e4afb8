/* cuda_kernel.h -- the macro that gives an operator its CUDA kernel. The build finds its uses
 * (scripts/list_ops.sh) and makes the plugin's table from them.
 *
 *   CUDA_KERNEL(softmax, .run = softmax_cuda)
 *   CUDA_KERNEL(sum, .choose = sum_choose_cuda, .run = sum_cuda)     fields in Kernel's order
 */
#ifndef OPS_CUDA_KERNEL_H
#define OPS_CUDA_KERNEL_H

#include "ir/op.h"

#ifdef __cplusplus
#define CUDA_KERNEL(op, ...)                                                                       \
    extern "C" {                                                                                   \
    extern const Kernel cuda_kernel_##op;                                                          \
    const Kernel        cuda_kernel_##op = { __VA_ARGS__ };                                        \
    }
#else
#define CUDA_KERNEL(op, ...)                                                                       \
    extern const Kernel cuda_kernel_##op;                                                          \
    const Kernel        cuda_kernel_##op = { __VA_ARGS__ };
#endif

#endif
