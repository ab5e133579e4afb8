/* cuda.h -- shared by the files of the CUDA plugin: the handles behind a CUDA Device, error checks.
 *
 * For files of the plugin only (plugin_cuda_*.c, *_cuda.cu): no other file sees a CUDA header.
 * Kernels are queued on one stream, host transfers on one stream per direction. Only reads and the
 * end of a step wait for the GPU. */
#ifndef DEVICE_CUDA_H
#define DEVICE_CUDA_H

#include "base/err.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct CudaHandle { /* Device.handle; without a stream when planning for a described GPU */
    cudaStream_t stream;
    cudaStream_t copies[2]; /* by CopyDirection: host transfers beside the kernels */
    /* multiprocessors: grids of reductions depend on their number, so a plan holds for one */
    int          sms;
    int          capability;     /* 90 for sm_90 */
    bool         tf32;           /* fp32 products may round their factors to tf32 */
    void        *blaslt, *cudnn; /* library handles, made before the first step */
    void        *described;      /* cuDNN's description of a GPU that is not here, or NULL */
} CudaHandle;

/* Can operators use the sm_90a kernels? A GPU that is here needs them in this
 * build. For a described GPU the answer depends on that GPU alone, so that every build makes the
 * same plan. */
static inline bool cuda_has_sm90a(const CudaHandle *handle)
{
#ifdef PLIMSOLL_SM90A
    const bool built = true;
#else
    const bool built = false;
#endif
    return handle->capability == 90 && (built || handle->described);
}

/* The sentence has the text of the failed call and the runtime's message. */
#define CUDA_TRY(call)                                                                             \
    do {                                                                                           \
        cudaError_t cuda_err_ = (call);                                                            \
        if (cuda_err_ != cudaSuccess)                                                              \
            return fail(E_DEVICE, "%s: %s (%s:%d)", #call, cudaGetErrorString(cuda_err_),          \
                        __FILE__, __LINE__);                                                       \
    } while (0)

#endif
