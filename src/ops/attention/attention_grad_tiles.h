/* attention_grad_tiles.h -- gradients of attention on CUDA by fp32 tiles, for attention and for
 * attention_stored (STORED: p is read instead of recomputed).
 *
 * keys_tiles has a block of keys, iterates over the queries and computes dk and dv; queries_tiles
 * has a block of queries, iterates over the keys and computes dq.
 */
#ifndef OPS_ATTENTION_ATTENTION_GRAD_TILES_H
#define OPS_ATTENTION_ATTENTION_GRAD_TILES_H

#include "ops/attention/attention_cuda.h"

/* p of a query and a key: recomputed from the score, or read if it is stored. */
template <class T, bool STORED>
__device__ __forceinline__ float probability(const AttentionCuda &a, int64_t head, int64_t query,
                                             int64_t key, float score, float scale_log2)
{
    if (query >= a.lq || key >= a.lk)
        return 0;
    if (STORED)
        return get((const T *)a.p, (head * a.lq + query) * a.lk + key);
    if (a.mask_diagonal && query == key)
        return 0;
    return exp2f(score * scale_log2 - a.lse[head * a.lq + query] * LOG2_E);
}

template <class T, int DC, bool STORED>
__global__ void __launch_bounds__(TILE_THREADS) keys_tiles(AttentionCuda a, int64_t blocks)
{
    extern __shared__ __align__(16) char memory[];
    Tiles<DC> &s = *(Tiles<DC> *)memory;
    int64_t head = blockIdx.x / blocks, key = blockIdx.x % blocks * TILE;
    int     tx = (int)threadIdx.x % 16, ty = (int)threadIdx.x / 16, column = (int)blockIdx.y * DC;
    const T *k = head_rows<T>(a, a.k, head) + key * a.k.ld,
            *v = head_rows<T>(a, a.v, head) + key * a.v.ld;
    const T *q = head_rows<T>(a, a.q, head), *dy = head_rows<T>(a, a.dy, head);
    float   scale = attention_scale_of(a), scale_log2 = scale * LOG2_E;
    float   dk[8][DC / 16], dv[8][DC / 16];
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int e = 0; e < DC / 16; e++)
            dk[i][e] = dv[i][e] = 0;
    for (int64_t query = 0; query < a.lq; query += TILE) {
        const T *qt = q + query * a.q.ld, *dyt = dy + query * a.dy.ld;
        float    p[8][4], ds[8][4];
        if (STORED)
            __syncthreads();                     /* tile_dot begins with a barrier */
        else
            tile_dot(s, p, k, a.k.ld, a.lk - key, qt, a.q.ld, a.lq - query, a.width);
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                p[i][j] = probability<T, STORED>(a, head, query + tx + 16 * j, key + ty * 8 + i,
                                                 STORED ? 0.0f : p[i][j], scale_log2);
        if (a.dv.data) {
            tile_transpose(s, p);
            chunk_load<T, DC>(s.c, dyt, a.dy.ld, a.lq - query, column, a.width);
            __syncthreads();
            tile_add<DC>(s, dv);
        }
        if (!a.dk.data && !a.temperature_sums)
            continue;
        tile_dot(s, ds, v, a.v.ld, a.lk - key, dyt, a.dy.ld, a.lq - query, a.width);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int64_t at = query + tx + 16 * j;
            float   delta = at < a.lq ? a.delta[head * a.lq + at] : 0.0f;
#pragma unroll
            for (int i = 0; i < 8; i++)
                ds[i][j] = p[i][j] * (ds[i][j] - delta);
        }
        tile_transpose(s, ds);
        chunk_load<T, DC>(s.c, qt, a.q.ld, a.lq - query, column, a.width);
        __syncthreads();
        tile_add<DC>(s, dk);
    }
    float one[8], by[8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        one[i] = 1;
        by[i] = scale;
    }
    if (a.dv.data)
        tile_store<T, DC>(head_rows<T>(a, a.dv, head) + key * a.dv.ld, a.dv.ld, a.lk - key, column,
                          a.width, dv, one);
    if (a.dk.data)
        tile_store<T, DC>(head_rows<T>(a, a.dk, head) + key * a.dk.ld, a.dk.ld, a.lk - key, column,
                          a.width, dk, by);
    if (a.temperature_sums) {
        float temperature_sum = 0;
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int e = 0; e < DC / 16; e++) {
                int c = column + 64 * (e / 4) + 4 * tx + e % 4;
                if (key + ty * 8 + i < a.lk && c < a.width)
                    temperature_sum += dk[i][e] * get(k, (int64_t)(ty * 8 + i) * a.k.ld + c);
            }
        __syncthreads();
        temperature_sum = block_sum(temperature_sum, &s.p[0][0]);
        if (threadIdx.x == 0)
            a.temperature_sums[blockIdx.x * (int64_t)gridDim.y + blockIdx.y] =
                (double)scale * (double)temperature_sum;
    }
}

template <class T, int DC, bool STORED>
__global__ void __launch_bounds__(TILE_THREADS) queries_tiles(AttentionCuda a, int64_t blocks)
{
    extern __shared__ __align__(16) char memory[];
    Tiles<DC> &s = *(Tiles<DC> *)memory;
    int64_t head = blockIdx.x / blocks, query = blockIdx.x % blocks * TILE;
    int     tx = (int)threadIdx.x % 16, ty = (int)threadIdx.x / 16, column = (int)blockIdx.y * DC;
    const T *q = head_rows<T>(a, a.q, head) + query * a.q.ld,
            *dy = head_rows<T>(a, a.dy, head) + query * a.dy.ld;
    const T *k = head_rows<T>(a, a.k, head), *v = head_rows<T>(a, a.v, head);
    float    scale = attention_scale_of(a), scale_log2 = scale * LOG2_E, delta[8], by[8],
          dq[8][DC / 16];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        delta[i] = query + ty * 8 + i < a.lq ? a.delta[head * a.lq + query + ty * 8 + i] : 0.0f;
        by[i] = scale;
#pragma unroll
        for (int e = 0; e < DC / 16; e++)
            dq[i][e] = 0;
    }
    for (int64_t key = 0; key < a.lk; key += TILE) {
        const T *kt = k + key * a.k.ld;
        float    p[8][4], ds[8][4];
        if (!STORED)
            tile_dot(s, p, q, a.q.ld, a.lq - query, kt, a.k.ld, a.lk - key, a.width);
        tile_dot(s, ds, dy, a.dy.ld, a.lq - query, v + key * a.v.ld, a.v.ld, a.lk - key, a.width);
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                ds[i][j] = probability<T, STORED>(a, head, query + ty * 8 + i, key + tx + 16 * j,
                                                  STORED ? 0.0f : p[i][j], scale_log2) *
                           (ds[i][j] - delta[i]);
        tile_transpose(s, ds);
        chunk_load<T, DC>(s.c, kt, a.k.ld, a.lk - key, column, a.width);
        __syncthreads();
        tile_add<DC>(s, dq);
    }
    tile_store<T, DC>(head_rows<T>(a, a.dq, head) + query * a.dq.ld, a.dq.ld, a.lq - query, column,
                      a.width, dq, by);
}

/* ---- host ---- */

template <class T, int DC, bool STORED>
static Err tiles_launch(const Call *call, const AttentionCuda &a)
{
    cudaStream_t stream = cuda_stream(call);
    size_t       bytes = sizeof(Tiles<DC>);
    if (a.dk.data || a.dv.data || a.temperature_sums) {
        int64_t blocks = ceil_div(a.lk, TILE);
        dim3    grid((unsigned)(a.n_heads * blocks), (unsigned)a.chunks);
        CUDA_TRY(cudaFuncSetAttribute(keys_tiles<T, DC, STORED>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
        keys_tiles<T, DC, STORED><<<grid, TILE_THREADS, bytes, stream>>>(a, blocks);
        CUDA_LAUNCHED();
    }
    if (a.dq.data) {
        int64_t blocks = ceil_div(a.lq, TILE);
        dim3    grid((unsigned)(a.n_heads * blocks), (unsigned)a.chunks);
        CUDA_TRY(cudaFuncSetAttribute(queries_tiles<T, DC, STORED>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
        queries_tiles<T, DC, STORED><<<grid, TILE_THREADS, bytes, stream>>>(a, blocks);
        CUDA_LAUNCHED();
    }
    return OK;
}

/* dk, dv, the temperature's partial sums, dq: those that are wanted. */
template <bool STORED> static Err tiles_backward(const Call *call, const AttentionCuda &a)
{
    WITH_FLOAT(a.type, T, {
        if (a.width <= 64)
            return tiles_launch<T, 64, STORED>(call, a);
        return tiles_launch<T, 128, STORED>(call, a);
    });
    return OK;
}

#endif
