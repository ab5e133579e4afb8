/* extreme_cuda.cu -- the largest or smallest along axes on CUDA.
 *
 * A key orders values as unsigned numbers, so that the largest key is the most extreme value; its
 * low half is the complement of the index, so that the first of equals wins. A column of few
 * elements, or one of many neighbours, is walked by a thread; others by a block. */
#include "ops/reduce/rows_cuda.h"

extern "C" {
#include "ops/index/extreme.h"
}

enum { EXTREME_THREADS = 256 };

typedef struct ExtremeJob {
    const void *x;
    Type        type;
    ExtremeAttr at;
    int32_t    *which; /* or NULL: the value is written */
    void       *y;
} ExtremeJob;

__device__ __forceinline__ uint64_t extreme_key(const ExtremeJob &job, int64_t place, int64_t m)
{
    uint32_t word;
    bool     nan = false;
    if (job.type == I32)
        word = ((const uint32_t *)job.x)[place] ^ 0x80000000u;
    else if (job.type == U8)
        word = ((const uint8_t *)job.x)[place];
    else {
        float value;
        any_get<1>({ job.x, job.type }, place, &value);
        nan = value != value;
        word = __float_as_uint(value + 0.0f); /* -0 is 0 */
        word ^= word >> 31 ? 0xffffffffu : 0x80000000u;
    }
    word = nan ? 0xffffffffu : job.at.min ? ~word : word;
    return (uint64_t)word << 32 | (uint32_t) ~(uint32_t)m;
}

/* The value is copied from where it was found. */
__device__ __forceinline__ void extreme_put(const ExtremeJob &job, int64_t column, int64_t first,
                                            uint64_t best)
{
    int64_t m = (uint32_t) ~(uint32_t)best, place = first + m * job.at.k;
    if (job.which)
        job.which[column] = (int32_t)m;
    else if (job.type == F32 || job.type == I32)
        ((uint32_t *)job.y)[column] = ((const uint32_t *)job.x)[place];
    else if (job.type == U8)
        ((uint8_t *)job.y)[column] = ((const uint8_t *)job.x)[place];
    else
        ((uint16_t *)job.y)[column] = ((const uint16_t *)job.x)[place];
}

__global__ void __launch_bounds__(ROW_THREADS) extreme_columns(ExtremeJob job)
{
    cuda_begin();
    int64_t c = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x, k;
    if (c >= job.at.a * job.at.k)
        return;
    int64_t  first = divided(c, job.at.k, &k) * job.at.m * job.at.k + k;
    uint64_t best = 0;
    for (int64_t m = 0; m < job.at.m; m++) {
        uint64_t key = extreme_key(job, first + m * job.at.k, m);
        best = key > best ? key : best;
    }
    extreme_put(job, c, first, best);
}

__global__ void __launch_bounds__(EXTREME_THREADS) extreme_blocks(ExtremeJob job)
{
    cuda_begin();
    __shared__ uint64_t warps[EXTREME_THREADS / 32];
    int64_t             k, first = divided(blockIdx.x, job.at.k, &k) * job.at.m * job.at.k + k;
    uint64_t            best = 0;
    for (int64_t m = threadIdx.x; m < job.at.m; m += EXTREME_THREADS) {
        uint64_t key = extreme_key(job, first + m * job.at.k, m);
        best = key > best ? key : best;
    }
#pragma unroll
    for (int d = 16; d; d >>= 1) {
        uint64_t other = __shfl_xor_sync(0xffffffffu, best, d);
        best = other > best ? other : best;
    }
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = best;
    __syncthreads();
    if (threadIdx.x)
        return;
    for (int w = 1; w < EXTREME_THREADS / 32; w++)
        best = warps[w] > best ? warps[w] : best;
    extreme_put(job, blockIdx.x, first, best);
}

/* A thread per column: for short columns, and for neighbours that share sectors. */
static bool by_columns(const ExtremeAttr *at)
{
    return at->m <= 16 || (at->k >= 32 && at->a * at->k >= 8192);
}

static Err extreme_go(const Call *call, bool which)
{
    ExtremeJob job = { call->in[0], in_type(call->node, 0), *ATTR(call->node, ExtremeAttr),
                       which ? (int32_t *)call->out[0] : NULL, call->out[0] };
    int64_t    columns = job.at.a * job.at.k;
    if (by_columns(&job.at))
        cuda_launch(cuda_stream(call), extreme_columns, (unsigned)ceil_div(columns, ROW_THREADS),
                    ROW_THREADS, 0, job);
    else
        cuda_launch(cuda_stream(call), extreme_blocks, (unsigned)columns, EXTREME_THREADS, 0, job);
    CUDA_LAUNCHED();
    return OK;
}

extern "C" Err arg_extreme_cuda(const Call *call) { return extreme_go(call, true); }
extern "C" Err extreme_cuda(const Call *call) { return extreme_go(call, false); }

/* ---- gradient ---- */

typedef struct ExtremeGrad {
    AnyIn       x, y, dy;
    AnyOut      dx;
    ExtremeAttr at;
} ExtremeGrad;

__device__ __forceinline__ bool is_extreme(const ExtremeGrad &job, int64_t place, float y)
{
    float x;
    any_get<1>(job.x, place, &x);
    return x == y;
}

/* A column is shared by `step` threads, of which this is number `thread`; count: of its equals. */
__device__ __forceinline__ void share_out(const ExtremeGrad &job, int64_t first, int64_t thread,
                                          int64_t step, float y, float dy, float count)
{
    for (int64_t m = thread; m < job.at.m; m += step) {
        int64_t place = first + m * job.at.k;
        float   d = is_extreme(job, place, y) ? dy / count : 0;
        any_put<1>(job.dx, place, &d);
    }
}

__global__ void __launch_bounds__(ROW_THREADS) extreme_grad_columns(ExtremeGrad job)
{
    cuda_begin();
    int64_t c = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x, k;
    if (c >= job.at.a * job.at.k)
        return;
    int64_t first = divided(c, job.at.k, &k) * job.at.m * job.at.k + k;
    float   y, dy, count = 0;
    any_get<1>(job.y, c, &y);
    any_get<1>(job.dy, c, &dy);
    for (int64_t m = 0; m < job.at.m; m++)
        count += is_extreme(job, first + m * job.at.k, y) ? 1 : 0;
    share_out(job, first, 0, 1, y, dy, count);
}

__global__ void __launch_bounds__(EXTREME_THREADS) extreme_grad_blocks(ExtremeGrad job)
{
    cuda_begin();
    __shared__ float shared[32];
    int64_t          k, first = divided(blockIdx.x, job.at.k, &k) * job.at.m * job.at.k + k;
    float            y, dy, count = 0;
    any_get<1>(job.y, blockIdx.x, &y);
    any_get<1>(job.dy, blockIdx.x, &dy);
    for (int64_t m = threadIdx.x; m < job.at.m; m += EXTREME_THREADS)
        count += is_extreme(job, first + m * job.at.k, y) ? 1 : 0;
    count = block_sum(count, shared);
    share_out(job, first, threadIdx.x, EXTREME_THREADS, y, dy, count);
}

extern "C" Err extreme_grad_cuda(const Call *call)
{
    ExtremeGrad job = { any_in(call, 0), any_in(call, 1), any_in(call, 2), any_out(call, 0),
                        *ATTR(call->node, ExtremeAttr) };
    int64_t     columns = job.at.a * job.at.k;
    if (by_columns(&job.at))
        cuda_launch(cuda_stream(call), extreme_grad_columns,
                    (unsigned)ceil_div(columns, ROW_THREADS), ROW_THREADS, 0, job);
    else
        cuda_launch(cuda_stream(call), extreme_grad_blocks, (unsigned)columns, EXTREME_THREADS, 0,
                    job);
    CUDA_LAUNCHED();
    return OK;
}

CUDA_KERNEL(arg_extreme, .run = arg_extreme_cuda)
CUDA_KERNEL(extreme, .run = extreme_cuda)
CUDA_KERNEL(extreme_grad, .run = extreme_grad_cuda)
