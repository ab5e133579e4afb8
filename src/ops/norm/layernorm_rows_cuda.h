/* layernorm_rows_cuda.h -- what the forward and backward kernels of norms over the last axis share:
 * rows in registers, their moments, weights, the ring of rows on their way, and the choice of a
 * kernel (layernorm_cuda.h). */
#ifndef OPS_NORM_LAYERNORM_ROWS_CUDA_H
#define OPS_NORM_LAYERNORM_ROWS_CUDA_H

#include "ops/norm/layernorm_cuda.h"

/* What weight and bias are: anything; present, of x's type and aligned, so that packs of them are
 * loaded with the row; or the two numbers of scalar_norm. */
typedef enum Affine { AFFINE_ANY, AFFINE_SAME, AFFINE_SCALAR } Affine;

template <int V>
__device__ __forceinline__ void affine_get(const RowsCuda &job, const void *p, int64_t i,
                                           float absent, float *w)
{
    constexpr int wide = V < 4 ? V : 4;
    if (!p) {
#pragma unroll
        for (int j = 0; j < V; j++)
            w[j] = absent;
    } else if (job.type_w == F32) {
        if (job.vectors_w)
#pragma unroll
            for (int j = 0; j < V; j += wide)
                get_pack<wide>((const float *)p, i + j, w + j);
        else
#pragma unroll
            for (int j = 0; j < V; j++)
                w[j] = get((const float *)p, i + j);
    } else if (job.type_w == BF16) {
        if (job.vectors_w)
            get_pack<V>((const bf16 *)p, i, w);
        else
#pragma unroll
            for (int j = 0; j < V; j++)
                w[j] = get((const bf16 *)p, i + j);
    } else {
        if (job.vectors_w)
            get_pack<V>((const f16 *)p, i, w);
        else
#pragma unroll
            for (int j = 0; j < V; j++)
                w[j] = get((const f16 *)p, i + j);
    }
}

__device__ __forceinline__ float number(Type type, const void *p)
{
    return type == F32    ? *(const float *)p
           : type == BF16 ? get((const bf16 *)p, 0)
                          : get((const f16 *)p, 0);
}

/* The sum over the lanes of a row; every lane gets it. */
template <bool BLOCK> __device__ __forceinline__ float row_sum(float x, int lanes, float *shared)
{
    if constexpr (BLOCK) {
        return block_sum(x, shared);
    } else {
        for (int d = lanes / 2; d; d >>= 1)
            x += __shfl_xor_sync(0xffffffffu, x, d);
        return x;
    }
}

/* Two sums at once, so that neither waits for the other. */
template <bool BLOCK>
__device__ __forceinline__ void row_sums(float *x, float *y, int lanes, float *shared)
{
    if constexpr (BLOCK) {
        *x = block_sum(*x, shared);
        *y = block_sum(*y, shared);
    } else {
        for (int d = lanes / 2; d; d >>= 1) {
            float other = __shfl_xor_sync(0xffffffffu, *x, d);
            *y += __shfl_xor_sync(0xffffffffu, *y, d);
            *x += other;
        }
    }
}

/* A row as it is stored: lane l holds packs l, l + lanes, ... of `count`, zeros beyond the end. */
template <class T, int V, int K>
__device__ __forceinline__ void row_get(const T *p, int64_t at, int lane, int lanes, int count,
                                        bool live, Pack<T, V> (&x)[K])
{
#pragma unroll
    for (int k = 0; k < K; k++) {
        int v = lane + k * lanes;
        if (live && v < count)
            x[k] = *(const Pack<T, V> *)(p + at + (int64_t)v * V);
        else
#pragma unroll
            for (int j = 0; j < V; j++)
                put(x[k].at, j, 0.0f);
    }
}

/* Mean and 1 / std. */
template <class T, int V, int K, bool BLOCK>
__device__ __forceinline__ void row_moments(const RowsCuda &job, const Pack<T, V> (&x)[K], int lane,
                                            int count, float *shared, float *mean, float *rstd)
{
    float sum = 0, squares = 0;
#pragma unroll
    for (int k = 0; k < K; k++) { /* each pack by itself: no long chain of additions */
        float part = 0;
#pragma unroll
        for (int j = 0; j < V; j++)
            part += get(x[k].at, j);
        sum += part;
    }
    *mean = row_sum<BLOCK>(sum, job.lanes, shared) / (float)job.width;
#pragma unroll
    for (int k = 0; k < K; k++) {
        float part = 0;
#pragma unroll
        for (int j = 0; j < V; j++) {
            float away = get(x[k].at, j) - *mean;
            part += away * away;
        }
        squares += lane + k * job.lanes < count ? part : 0;
    }
    squares = row_sum<BLOCK>(squares, job.lanes, shared);
    *rstd = 1.0f / sqrtf(squares / (float)job.width + job.eps);
}

/* Pack k of weight or bias as fp32: from what was loaded with the row, else from memory; `absent`
 * where there is none. */
template <class T, int V, Affine FORM>
__device__ __forceinline__ void affine_pack(const RowsCuda &job, const Pack<T, V> &fetched,
                                            const void *p, int64_t at, bool inside, float absent,
                                            float *w)
{
    if constexpr (FORM == AFFINE_SAME) {
#pragma unroll
        for (int j = 0; j < V; j++)
            w[j] = get(fetched.at, j);
    } else if constexpr (FORM == AFFINE_SCALAR) {
#pragma unroll
        for (int j = 0; j < V; j++)
            w[j] = absent;
    } else {
#pragma unroll
        for (int j = 0; j < V; j++)
            w[j] = 0;
        if (inside)
            affine_get<V>(job, p, at, absent, w);
    }
}

/* Starts copying a pack, or zeros, to shared memory; it has arrived when ring_wait() returns. */
template <class T, int V>
__device__ __forceinline__ void ring_ask(Pack<T, V> *to, const T *from, bool inside)
{
    constexpr int bytes = (int)sizeof(Pack<T, V>);
    static_assert(bytes == 16 || bytes == 8, "sizes that cp.async copies");
    unsigned at = (unsigned)__cvta_generic_to_shared(to), take = inside ? bytes : 0;
    if constexpr (bytes == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(take)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(at), "l"(from), "r"(take)
                     : "memory");
}

__device__ __forceinline__ void ring_asked()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until all but the last LEFT groups have arrived. */
template <int LEFT> __device__ __forceinline__ void ring_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

/* ---- host ---- */

/* To packs of v elements, or to 16 bytes where that is less. */
static inline bool aligned(const void *p, Type type, int v)
{
    int64_t bytes = v * type_bytes(type);
    return (intptr_t)p % (bytes < 16 ? bytes : 16) == 0;
}

static inline bool vectors_fit(RowsCuda *job, int v)
{
    const void *rows[] = { job->x, job->dy, job->y, job->before };
    if (v > 1 && job->width % v)
        return false;
    for (const void *p : rows)
        if (v > 1 && !aligned(p, job->type, v))
            return false;
    job->vectors_w = v > 1 && aligned(job->weight, job->type_w, v) &&
                     aligned(job->bias, job->type_w, v) && job->pitch % v == 0;
    return true;
}

/* Runs the statements with K, a constant: the packs of a lane. */
#define WITH_PACKS(packs, K, ...)                                                                  \
    switch (packs) {                                                                               \
    case 1: {                                                                                      \
        constexpr int K = 1;                                                                       \
        __VA_ARGS__                                                                                \
    } break;                                                                                       \
    case 2: {                                                                                      \
        constexpr int K = 2;                                                                       \
        __VA_ARGS__                                                                                \
    } break;                                                                                       \
    case 3: {                                                                                      \
        constexpr int K = 3;                                                                       \
        __VA_ARGS__                                                                                \
    } break;                                                                                       \
    case 4: {                                                                                      \
        constexpr int K = 4;                                                                       \
        __VA_ARGS__                                                                                \
    } break;                                                                                       \
    default: {                                                                                     \
        constexpr int K = 5;                                                                       \
        __VA_ARGS__                                                                                \
    } break;                                                                                       \
    }

/* Runs the statements with FORM, a constant. Single elements (V == 1) need no special forms. */
#define WITH_AFFINE(form, FORM, ...)                                                               \
    switch (V > 1 ? (form) : AFFINE_ANY) {                                                         \
    case AFFINE_SAME: {                                                                            \
        constexpr Affine FORM = V > 1 ? AFFINE_SAME : AFFINE_ANY;                                  \
        __VA_ARGS__                                                                                \
    } break;                                                                                       \
    case AFFINE_SCALAR: {                                                                          \
        constexpr Affine FORM = V > 1 ? AFFINE_SCALAR : AFFINE_ANY;                                \
        __VA_ARGS__                                                                                \
    } break;                                                                                       \
    default: {                                                                                     \
        constexpr Affine FORM = AFFINE_ANY;                                                        \
        __VA_ARGS__                                                                                \
    } break;                                                                                       \
    }

static inline Affine affine_of(const RowsCuda *job, bool both)
{
    bool given = job->weight && (!both || job->bias);
    return job->scalar                                           ? AFFINE_SCALAR
           : given && job->vectors_w && job->type_w == job->type ? AFFINE_SAME
                                                                 : AFFINE_ANY;
}

/* Ring kernels count a sample's rows in int. */
static inline bool ring_takes(const RowsCuda *job, int v)
{
    return v > 1 && !job->scalar && job->rows < 1 << 30;
}

static inline void ring_launch(const Call *call, void (*kernel)(RowsCuda), unsigned blocks,
                               unsigned threads, int shared, const RowsCuda &job)
{
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    cuda_launch(cuda_stream(call), kernel, blocks, threads, (size_t)shared, job);
}

#endif
