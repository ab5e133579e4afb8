/* count_cuda.cu -- one-hot rows and counts on CUDA. Counts are added by atomics on integers, whose
 * order does not matter. An id outside is a row of zeros and is not counted. */
#include "ops/reduce/rows_cuda.h"

extern "C" {
#include "ops/index/count.h"
}

template <class T>
__global__ void __launch_bounds__(ROW_THREADS)
    one_hot_rows(T *y, const int32_t *ids, T one, int64_t classes, int64_t count)
{
    cuda_begin();
    for (int64_t i = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * ROW_THREADS) {
        int64_t c, row = divided(i, classes, &c);
        y[i] = ids[row] == c ? one : T(0);
    }
}

extern "C" Err one_hot_cuda(const Call *call)
{
    const OneHotAttr *at = ATTR(call->node, OneHotAttr);
    int64_t           count = shape_count(out_shape(call->node, 0));
    unsigned          blocks = cuda_blocks(call, count, ROW_THREADS);
    cudaStream_t      stream = cuda_stream(call);
    const int32_t    *ids = (const int32_t *)call->in[0];
    void             *y = call->out[0];
    enum { ONE_F32 = 0x3f800000, ONE_BF16 = 0x3f80, ONE_F16 = 0x3c00 }; /* the bits of 1 */
    if (at->type == F32 || at->type == I32)
        cuda_launch(stream, one_hot_rows<uint32_t>, blocks, ROW_THREADS, 0, (uint32_t *)y, ids,
                    (uint32_t)(at->type == F32 ? ONE_F32 : 1), at->classes, count);
    else if (at->type == U8)
        cuda_launch(stream, one_hot_rows<uint8_t>, blocks, ROW_THREADS, 0, (uint8_t *)y, ids,
                    (uint8_t)1, at->classes, count);
    else
        cuda_launch(stream, one_hot_rows<uint16_t>, blocks, ROW_THREADS, 0, (uint16_t *)y, ids,
                    (uint16_t)(at->type == BF16 ? ONE_BF16 : ONE_F16), at->classes, count);
    CUDA_LAUNCHED();
    return OK;
}

__global__ void __launch_bounds__(ROW_THREADS)
    count_bins(int32_t *counts, AnyIn x, CountAttr at, int64_t count)
{
    cuda_begin();
    for (int64_t i = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * ROW_THREADS) {
        int64_t bin;
        if (x.type == I32)
            bin = ((const int32_t *)x.p)[i];
        else {
            float v;
            any_get<1>(x, i, &v);
            if (!(v >= at.low && v <= at.high))
                continue;
            bin = (int64_t)((v - at.low) / (at.high - at.low) * (float)at.bins);
            bin = bin < at.bins ? bin : at.bins - 1;
        }
        if (bin >= 0 && bin < at.bins)
            atomicAdd(&counts[bin], 1);
    }
}

__global__ void __launch_bounds__(ROW_THREADS) counts_as_floats(float *y, int64_t count)
{
    cuda_begin();
    int64_t i = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x;
    if (i < count)
        y[i] = (float)((const int32_t *)y)[i];
}

extern "C" Err count_cuda(const Call *call)
{
    CountAttr    at = *ATTR(call->node, CountAttr);
    int64_t      count = shape_count(in_shape(call->node, 0));
    cudaStream_t stream = cuda_stream(call);
    CUDA_TRY(cudaMemsetAsync(call->out[0], 0, (size_t)at.bins * sizeof(int32_t), stream));
    cuda_launch(stream, count_bins, cuda_blocks(call, count, ROW_THREADS), ROW_THREADS, 0,
                (int32_t *)call->out[0], any_in(call, 0), at, count);
    if (at.type == F32) /* in place: both have 4 bytes */
        cuda_launch(stream, counts_as_floats, (unsigned)ceil_div(at.bins, ROW_THREADS), ROW_THREADS,
                    0, (float *)call->out[0], at.bins);
    CUDA_LAUNCHED();
    return OK;
}

CUDA_KERNEL(one_hot, .run = one_hot_cuda)
CUDA_KERNEL(count, .run = count_cuda)
