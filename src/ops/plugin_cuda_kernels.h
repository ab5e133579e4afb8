/* plugin_cuda_kernels.h -- the CUDA plugin's entry points, and the kernels its table is made of. */
#ifndef OPS_PLUGIN_CUDA_KERNELS_H
#define OPS_PLUGIN_CUDA_KERNELS_H

#include "ir/op.h"

/* What libplimsoll_cuda.so exports; device/cuda.c finds these by name. */
Err plimsoll_cuda_open(Pool *pool, const DeviceOptions *options, Device *device);
Err plimsoll_cuda_describe(Pool *pool, const DeviceOptions *options, const char *json,
                           Device *device);

/* The kernels that ops/cuda_kernel.h defines. cuda_kernels.def is made by the build
 * (scripts/list_ops.sh). */
#define CUDA_KERNEL(op) extern const Kernel cuda_kernel_##op;
#include "ops/cuda_kernels.def"
#undef CUDA_KERNEL

#endif
