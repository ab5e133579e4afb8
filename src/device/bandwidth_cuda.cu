/* bandwidth_cuda.cu -- measures the GPU's memory bandwidth: read, write and copy by kernels as
 * plain as an operator's. */
#include <cuda_runtime.h>

extern "C" {
#include "device/bandwidth_cuda.h"
}

enum { THREADS = 256, TRIES = 6 };
typedef enum Pass { PASS_READ, PASS_WRITE, PASS_COPY, PASSES } Pass;

static __global__ void nothing_kernel(void) {}

/* 16 bytes per thread and iteration; the sum keeps the compiler from dropping the reads. */
static __global__ void pass_kernel(Pass pass, const float4 *from, float4 *to, int64_t n)
{
    float sum = 0;
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < n;
         i += gridDim.x * (int64_t)THREADS) {
        float4 x = pass == PASS_WRITE ? make_float4(1, 2, 3, 4) : from[i];
        if (pass == PASS_READ)
            sum += x.x + x.y + x.z + x.w;
        else
            to[i] = x;
    }
    if (sum == 0.12345f)
        to[0].x = sum;
}

extern "C" Err cuda_nothing(cudaStream_t stream)
{
    nothing_kernel<<<1, 32, 0, stream>>>();
    CUDA_TRY(cudaPeekAtLastError());
    return OK;
}

static Err pass_seconds(const CudaHandle *handle, Pass pass, float4 *a, float4 *b, int64_t n,
                        double *seconds)
{
    cudaEvent_t begin, end;
    float       ms, best = 0;
    CUDA_TRY(cudaEventCreate(&begin));
    CUDA_TRY(cudaEventCreate(&end));
    for (int i = 0; i < TRIES; i++) {
        CUDA_TRY(cudaEventRecord(begin, handle->stream));
        pass_kernel<<<(unsigned)handle->sms * 16, THREADS, 0, handle->stream>>>(pass, a, b, n);
        CUDA_TRY(cudaEventRecord(end, handle->stream));
        CUDA_TRY(cudaStreamSynchronize(handle->stream));
        CUDA_TRY(cudaEventElapsedTime(&ms, begin, end));
        best = i == 0 || ms < best ? ms : best;
    }
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    *seconds = best * 1e-3;
    return OK;
}

extern "C" Err cuda_bandwidth(const CudaHandle *handle, int64_t bytes, Bandwidth *bandwidth)
{
    float4 *a = NULL, *b = NULL;
    double  seconds[PASSES] = { 1, 1, 1 };
    CUDA_TRY(cudaMalloc(&a, (size_t)bytes));
    cudaError_t second = cudaMalloc(&b, (size_t)bytes);
    Err         err = second ? fail(E_DEVICE, "cannot measure the memory bandwidth: %s",
                                    cudaGetErrorString(second))
                             : OK;
    for (int pass = 0; pass < PASSES && !err; pass++)
        err = pass_seconds(handle, (Pass)pass, a, b, bytes / (int64_t)sizeof *a, &seconds[pass]);
    cudaFree(a);
    cudaFree(b);
    bandwidth->threads = 0;
    bandwidth->read = (double)bytes / seconds[PASS_READ];
    bandwidth->write = (double)bytes / seconds[PASS_WRITE];
    bandwidth->copy = 2 * (double)bytes / seconds[PASS_COPY];
    return err;
}
