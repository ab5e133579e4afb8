/* plugin_cuda_libraries.c -- starts cuBLASLt and cuDNN, with a GPU or from its description. */
#include "linalg/plugin_cuda_linalg.h"

#include <cublasLt.h>
#include <cudnn.h>
#include <stdio.h>

Err cuda_libraries_open(CudaHandle *handle)
{
    cublasLtHandle_t blaslt;
    cudnnHandle_t    cudnn;
    if (cublasLtCreate(&blaslt) != CUBLAS_STATUS_SUCCESS)
        return fail(E_DEVICE, "cuBLASLt %zu cannot start on this GPU; update the driver",
                    cublasLtGetVersion());
    if (cudnnCreate(&cudnn) != CUDNN_STATUS_SUCCESS || cudnnSetStream(cudnn, handle->stream))
        return fail(E_DEVICE, "cuDNN %zu cannot start on this GPU; update the driver",
                    cudnnGetVersion());
    handle->blaslt = blaslt;
    handle->cudnn = cudnn;
    return OK;
}

Err cuda_libraries_describe(CudaHandle *handle, const char *json)
{
    return cudnn_describe(json, &handle->described);
}

const char *cuda_libraries_versions(void)
{
    static char text[128];
    snprintf(text, sizeof text, "CUDA %d.%d, cuDNN %zu, cuBLASLt %zu", CUDART_VERSION / 1000,
             CUDART_VERSION % 1000 / 10, cudnnGetVersion(), cublasLtGetVersion());
    return text;
}
