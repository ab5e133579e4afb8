/* bandwidth_cuda.h -- measures a GPU's memory bandwidth with plain kernels: read, write, copy. */
#ifndef DEVICE_BANDWIDTH_CUDA_H
#define DEVICE_BANDWIDTH_CUDA_H

#include "device/cuda.h"
#include "device/device.h"

Err cuda_nothing(cudaStream_t stream); /* launches an empty kernel */
/* allocates two arrays of that many bytes for the time of the call */
Err cuda_bandwidth(const CudaHandle *handle, int64_t bytes, Bandwidth *bandwidth);

#endif
