/* counts_cuda.cu -- counts transfers in host memory, so that the host sees whether one is under way:
 * it cannot ask a CUDA graph. */
#include <cuda_runtime.h>

extern "C" {
#include "comm/plugin_cuda_queue.h"
}

__global__ void queue_count(volatile unsigned *count)
{
    *count = *count + 1;
    __threadfence_system();
}

/* A plain launch: it begins when all that was queued before it is done. */
extern "C" Err cuda_queue_count(cudaStream_t stream, unsigned *count)
{
    queue_count<<<1, 1, 0, stream>>>(count);
    CUDA_TRY(cudaPeekAtLastError());
    return OK;
}
