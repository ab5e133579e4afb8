/* cuda.h -- what the files of the CUDA plugin share: the handles behind a CUDA Device, launch
 * checks.
 *
 * For files of the plugin only (plugin_cuda_*.c, ops/ *_cuda.cu): nothing else sees a CUDA header.
 * Kernels are queued on one stream, host transfers on one for each way; nothing waits for the GPU
 * but reads and the end of a step. */
#ifndef DEVICE_CUDA_H
#define DEVICE_CUDA_H

#include "base/err.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct CudaHandle {  /* Device.handle; planning for a GPU that is not here has no stream */
    cudaStream_t stream;
    cudaStream_t copies[2];      /* by CopyWay: host transfers beside the kernels */
    /* multiprocessors: grids of reductions depend on it, so it is part of a plan */
    int          sms;
    int          capability;     /* 90 for sm_90 */
    bool         tf32;           /* products of fp32 values may round their factors to tf32 */
    void        *blaslt, *cudnn; /* library handles, made before the first step */
    void        *described;      /* without a GPU: cuDNN's description of it */
} CudaHandle;

/* The failed call's own text and the runtime's word stand in the sentence. */
#define CUDA_TRY(call)                                                                             \
    do {                                                                                           \
        cudaError_t cuda_err_ = (call);                                                            \
        if (cuda_err_ != cudaSuccess)                                                              \
            return fail(E_DEVICE, "%s: %s (%s:%d)", #call, cudaGetErrorString(cuda_err_),          \
                        __FILE__, __LINE__);                                                       \
    } while (0)

#endif
