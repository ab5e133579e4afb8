/* bandwidth_cuda.h -- plain kernels that show what a GPU's memory gives: read, write, copy. */
#ifndef DEVICE_BANDWIDTH_CUDA_H
#define DEVICE_BANDWIDTH_CUDA_H

#include "device/cuda.h"
#include "device/device.h"

Err cuda_nothing(cudaStream_t stream);       /* one launch that does nothing */
/* takes two such arrays */
Err cuda_bandwidth(const CudaHandle *handle, int64_t bytes, Bandwidth *bandwidth);

#endif
