/* sort_cuda.cu -- sorting on CUDA: bitonic networks over keys of value and index, which are all
 * different, so that the order is that of a stable sort. Rows of up to SORT_SHARED keys are sorted
 * in shared memory by one block; longer ones in the workspace, where compares at a distance are
 * launches of their own. */
#include "ops/reduce/rows_cuda.h"

extern "C" {
#include "ops/index/sort.h"
}

enum { SORT_SHARED = 4096, SORT_THREADS = 512 };

typedef struct SortJob {
    const void *x;
    Type        type;
    void       *values;
    int32_t    *places;
    uint64_t   *keys;               /* [rows][padded], of long rows */
    int64_t     rows, n, padded, k; /* padded: a power of 2 */
    bool        descending;
} SortJob;

__device__ __forceinline__ uint64_t sort_key(const SortJob &job, int64_t row, int64_t i)
{
    uint32_t word;
    int64_t  place = row * job.n + i;
    if (i >= job.n)
        return UINT64_MAX;
    if (job.type == I32)
        word = ((const uint32_t *)job.x)[place] ^ 0x80000000u;
    else if (job.type == U8)
        word = ((const uint8_t *)job.x)[place];
    else {
        float value;
        any_get<1>({ job.x, job.type }, place, &value);
        word = value != value ? 0x7fc00000u : __float_as_uint(value + 0.0f);
        word ^= word >> 31 ? 0xffffffffu : 0x80000000u;
    }
    return (uint64_t)(job.descending ? ~word : word) << 32 | (uint32_t)i;
}

__device__ __forceinline__ void sort_put(const SortJob &job, int64_t row, int64_t i, uint64_t key)
{
    int64_t from = row * job.n + (uint32_t)key, to = row * job.k + i;
    if (job.places)
        job.places[to] = (int32_t)(uint32_t)key;
    if (!job.values)
        return;
    if (job.type == F32 || job.type == I32)
        ((uint32_t *)job.values)[to] = ((const uint32_t *)job.x)[from];
    else if (job.type == U8)
        ((uint8_t *)job.values)[to] = ((const uint8_t *)job.x)[from];
    else
        ((uint16_t *)job.values)[to] = ((const uint16_t *)job.x)[from];
}

/* Compares of keys `step` apart, in runs of `run` that rise and fall in turn. `base` is the place
 * of key 0 in its row. */
__device__ __forceinline__ void sort_compare(uint64_t *key, int64_t i, int64_t base, int64_t step,
                                             int64_t run)
{
    int64_t  at = 2 * i - (i & (step - 1)), to = at + step;
    bool     rises = ((base + at) & run) == 0;
    uint64_t a = key[at], b = key[to];
    if ((a > b) == rises) {
        key[at] = b;
        key[to] = a;
    }
}

__global__ void __launch_bounds__(SORT_THREADS) sort_rows(SortJob job)
{
    cuda_begin();
    __shared__ uint64_t key[SORT_SHARED];
    int64_t             row = blockIdx.x;
    for (int64_t i = threadIdx.x; i < job.padded; i += SORT_THREADS)
        key[i] = sort_key(job, row, i);
    for (int64_t run = 2; run <= job.padded; run *= 2)
        for (int64_t step = run / 2; step; step /= 2) {
            __syncthreads();
            for (int64_t i = threadIdx.x; i < job.padded / 2; i += SORT_THREADS)
                sort_compare(key, i, 0, step, run);
        }
    __syncthreads();
    for (int64_t i = threadIdx.x; i < job.k; i += SORT_THREADS)
        sort_put(job, row, i, key[i]);
}

/* All compares of a run whose keys lie within one block of SORT_SHARED; first: makes the keys and
 * sorts each block. */
__global__ void __launch_bounds__(SORT_THREADS) sort_inside(SortJob job, int64_t run, bool first)
{
    cuda_begin();
    __shared__ uint64_t key[SORT_SHARED];
    int64_t             block, row = divided(blockIdx.x, job.padded / SORT_SHARED, &block);
    int64_t             base = block * SORT_SHARED;
    uint64_t           *keys = job.keys + row * job.padded + base;
    for (int i = threadIdx.x; i < SORT_SHARED; i += SORT_THREADS)
        key[i] = first ? sort_key(job, row, base + i) : keys[i];
    for (int64_t r = first ? 2 : run; r <= run; r *= 2)
        for (int64_t step = r / 2 < SORT_SHARED / 2 ? r / 2 : SORT_SHARED / 2; step; step /= 2) {
            __syncthreads();
            for (int i = threadIdx.x; i < SORT_SHARED / 2; i += SORT_THREADS)
                sort_compare(key, i, base, step, r);
        }
    __syncthreads();
    for (int i = threadIdx.x; i < SORT_SHARED; i += SORT_THREADS)
        keys[i] = key[i];
}

__global__ void __launch_bounds__(ROW_THREADS) sort_apart(SortJob job, int64_t step, int64_t run)
{
    cuda_begin();
    for (int64_t i = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x;
         i < job.rows * (job.padded / 2); i += (int64_t)gridDim.x * ROW_THREADS) {
        int64_t at, row = divided(i, job.padded / 2, &at);
        sort_compare(job.keys + row * job.padded, at, 0, step, run);
    }
}

__global__ void __launch_bounds__(ROW_THREADS) sort_out(SortJob job)
{
    cuda_begin();
    for (int64_t i = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; i < job.rows * job.k;
         i += (int64_t)gridDim.x * ROW_THREADS) {
        int64_t at, row = divided(i, job.k, &at);
        sort_put(job, row, at, job.keys[row * job.padded + at]);
    }
}

static int64_t sort_padded(int64_t n)
{
    int64_t padded = 2;
    while (padded < n)
        padded *= 2;
    return padded;
}

extern "C" Err sort_choose_cuda(const Node *n, const Device *, Choice *choice)
{
    Shape   s = in_shape(n, 0);
    int64_t padded = sort_padded(dim(s, -1));
    if (padded > SORT_SHARED)
        choice->workspace_bytes = (size_t)(shape_rows(s) * padded) * sizeof(uint64_t);
    return OK;
}

extern "C" Err sort_cuda(const Call *call)
{
    const SortAttr *at = ATTR(call->node, SortAttr);
    Shape           s = in_shape(call->node, 0);
    int64_t         n = dim(s, -1), padded = sort_padded(n);
    cudaStream_t    stream = cuda_stream(call);
    SortJob         job = { call->in[0],
                            in_type(call->node, 0),
                            call->out[0],
                            (int32_t *)call->out[1],
                            (uint64_t *)call->workspace,
                            shape_rows(s),
                            n,
                            padded,
                            at->k,
                            at->descending };
    if (padded <= SORT_SHARED) {
        cuda_launch(stream, sort_rows, (unsigned)job.rows, SORT_THREADS, 0, job);
        CUDA_LAUNCHED();
        return OK;
    }
    unsigned blocks = (unsigned)(job.rows * (padded / SORT_SHARED)),
             pairs = cuda_blocks(call, job.rows * (padded / 2), ROW_THREADS);
    cuda_launch(stream, sort_inside, blocks, SORT_THREADS, 0, job, (int64_t)SORT_SHARED, true);
    for (int64_t run = 2 * SORT_SHARED; run <= padded; run *= 2) {
        for (int64_t step = run / 2; step >= SORT_SHARED; step /= 2)
            cuda_launch(stream, sort_apart, pairs, ROW_THREADS, 0, job, step, run);
        cuda_launch(stream, sort_inside, blocks, SORT_THREADS, 0, job, run, false);
    }
    cuda_launch(stream, sort_out, cuda_blocks(call, job.rows * job.k, ROW_THREADS), ROW_THREADS, 0,
                job);
    CUDA_LAUNCHED();
    return OK;
}

CUDA_KERNEL(sort, .choose = sort_choose_cuda, .run = sort_cuda)
