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
template <class T, bool STORED, bool FORM>
__device__ __forceinline__ float probability(const AttentionCuda &a, const FormHead &form,
                                             int64_t head, int64_t query, int64_t key, float score,
                                             float scale_log2)
{
    if (query >= a.lq || key >= a.lk)
        return 0;
    if (STORED)
        return get((const T *)a.p, (head * a.lq + query) * a.lk + key);
    if (FORM)
        return exp2f(form_logit(a, form, query, key, score * scale_log2) -
                     a.lse[head * a.lq + query] * LOG2_E);
    if (a.mask_diagonal && query == key)
        return 0;
    return exp2f(score * scale_log2 - a.lse[head * a.lq + query] * LOG2_E);
}

/* Adds dk and dv of one head of q to those of a block of keys. */
template <class T, int DC, bool STORED, bool FORM>
__device__ __forceinline__ void keys_tiles_head(const AttentionCuda &a, Tiles<DC> &s, int64_t head,
                                                int64_t key, int column, float scale_log2,
                                                float (&dk)[8][DC / 16], float (&dv)[8][DC / 16])
{
    int      tx = (int)threadIdx.x % 16, ty = (int)threadIdx.x / 16;
    const T *k = head_rows<T>(a, a.k, head) + key * a.k.ld,
            *v = head_rows<T>(a, a.v, head) + key * a.v.ld;
    const T *q = head_rows<T>(a, a.q, head), *dy = head_rows<T>(a, a.dy, head);
    FormHead form = FORM ? form_head(a, head) : FormHead();
    int64_t  query = FORM && a.causal ? key : 0; /* earlier ones see none of these keys */
    for (; query < a.lq; query += TILE) {
        const T *qt = q + query * a.q.ld, *dyt = dy + query * a.dy.ld;
        float    p[8][4], ds[8][4], kept[8][4];
        if (STORED)
            __syncthreads(); /* tile_dot begins with a barrier */
        else
            tile_dot(s, p, k, a.k.ld, a.lk - key, qt, a.q.ld, a.lq - query, a.width);
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                int64_t at = query + tx + 16 * j, of = key + ty * 8 + i;
                p[i][j] = probability<T, STORED, FORM>(a, form, head, at, of,
                                                       STORED ? 0.0f : p[i][j], scale_log2);
                if (FORM)
                    kept[i][j] = p[i][j] * form_keep(a, form, at, of);
            }
        if (a.dv.data) {
            if (FORM)
                tile_transpose(s, kept);
            else
                tile_transpose(s, p);
            chunk_load<T, DC>(s.c, dyt, a.dy.ld, a.lq - query, column, a.v_width);
            __syncthreads();
            tile_add<DC>(s, dv);
        }
        if (!a.dk.data && !a.temperature_sums)
            continue;
        tile_dot(s, ds, v, a.v.ld, a.lk - key, dyt, a.dy.ld, a.lq - query, a.v_width);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int64_t at = query + tx + 16 * j;
            float   delta = at < a.lq ? a.delta[head * a.lq + at] : 0.0f;
#pragma unroll
            for (int i = 0; i < 8; i++)
                ds[i][j] = FORM ? kept[i][j] * ds[i][j] - p[i][j] * delta
                                : p[i][j] * (ds[i][j] - delta);
        }
        tile_transpose(s, ds);
        chunk_load<T, DC>(s.c, qt, a.q.ld, a.lq - query, column, a.width);
        __syncthreads();
        tile_add<DC>(s, dk);
    }
}

template <class T, int DC, bool STORED, bool FORM>
__global__ void __launch_bounds__(TILE_THREADS) keys_tiles(AttentionCuda a, int64_t blocks)
{
    extern __shared__ __align__(16) char memory[];
    Tiles<DC>                           &s = *(Tiles<DC> *)memory;
    int64_t  head = blockIdx.x / blocks * a.share, key = blockIdx.x % blocks * TILE;
    int      tx = (int)threadIdx.x % 16, ty = (int)threadIdx.x / 16, column = (int)blockIdx.y * DC;
    const T *k = head_rows<T>(a, a.k, head) + key * a.k.ld;
    float    scale = attention_scale_of(a), scale_log2 = scale * LOG2_E;
    float    dk[8][DC / 16], dv[8][DC / 16];
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int e = 0; e < DC / 16; e++)
            dk[i][e] = dv[i][e] = 0;
    for (int64_t h = 0; h < a.share; h++)
        keys_tiles_head<T, DC, STORED, FORM>(a, s, head + h, key, column, scale_log2, dk, dv);
    float one[8], by[8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        one[i] = 1;
        by[i] = scale;
    }
    if (a.dv.data)
        tile_store<T, DC>(head_rows<T>(a, a.dv, head) + key * a.dv.ld, a.dv.ld, a.lk - key, column,
                          a.v_width, dv, one);
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

template <class T, int DC, bool STORED, bool FORM>
__global__ void __launch_bounds__(TILE_THREADS) queries_tiles(AttentionCuda a, int64_t blocks)
{
    extern __shared__ __align__(16) char memory[];
    Tiles<DC>                           &s = *(Tiles<DC> *)memory;
    int64_t  head = blockIdx.x / blocks, query = blockIdx.x % blocks * TILE;
    int      tx = (int)threadIdx.x % 16, ty = (int)threadIdx.x / 16, column = (int)blockIdx.y * DC;
    const T *q = head_rows<T>(a, a.q, head) + query * a.q.ld,
            *dy = head_rows<T>(a, a.dy, head) + query * a.dy.ld;
    const T *k = head_rows<T>(a, a.k, head), *v = head_rows<T>(a, a.v, head);
    int64_t  end = FORM ? form_keys(a, query + TILE) : a.lk;
    FormHead form = FORM ? form_head(a, head) : FormHead();
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
    for (int64_t key = 0; key < end; key += TILE) {
        const T *kt = k + key * a.k.ld;
        float    p[8][4], ds[8][4];
        if (!STORED)
            tile_dot(s, p, q, a.q.ld, a.lq - query, kt, a.k.ld, a.lk - key, a.width);
        tile_dot(s, ds, dy, a.dy.ld, a.lq - query, v + key * a.v.ld, a.v.ld, a.lk - key, a.v_width);
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                int64_t row = query + ty * 8 + i, at = key + tx + 16 * j;
                float   x = probability<T, STORED, FORM>(a, form, head, row, at,
                                                       STORED ? 0.0f : p[i][j], scale_log2);
                if (FORM)
                    ds[i][j] *= form_keep(a, form, row, at);
                ds[i][j] = x * (ds[i][j] - delta[i]);
            }
        tile_transpose(s, ds);
        chunk_load<T, DC>(s.c, kt, a.k.ld, a.lk - key, column, a.width);
        __syncthreads();
        tile_add<DC>(s, dq);
    }
    tile_store<T, DC>(head_rows<T>(a, a.dq, head) + query * a.dq.ld, a.dq.ld, a.lq - query, column,
                      a.width, dq, by);
}

/* ---- host ---- */

template <class T, int DC, bool STORED, bool FORM>
static Err tiles_launch(const Call *call, const AttentionCuda &a)
{
    cudaStream_t stream = cuda_stream(call);
    size_t       bytes = sizeof(Tiles<DC>);
    if (a.dk.data || a.dv.data || a.temperature_sums) {
        int64_t blocks = ceil_div(a.lk, TILE);
        dim3    grid((unsigned)(a.n_heads / a.share * blocks), (unsigned)a.chunks);
        CUDA_TRY(cudaFuncSetAttribute(keys_tiles<T, DC, STORED, FORM>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
        keys_tiles<T, DC, STORED, FORM><<<grid, TILE_THREADS, bytes, stream>>>(a, blocks);
        CUDA_LAUNCHED();
    }
    if (a.dq.data) {
        int64_t blocks = ceil_div(a.lq, TILE);
        dim3    grid((unsigned)(a.n_heads * blocks), (unsigned)a.chunks);
        CUDA_TRY(cudaFuncSetAttribute(queries_tiles<T, DC, STORED, FORM>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
        queries_tiles<T, DC, STORED, FORM><<<grid, TILE_THREADS, bytes, stream>>>(a, blocks);
        CUDA_LAUNCHED();
    }
    return OK;
}

/* dk, dv, the temperature's partial sums, dq: those that are wanted. */
template <bool STORED> static Err tiles_backward(const Call *call, const AttentionCuda &a)
{
    WITH_FLOAT(a.type, T, {
        bool narrow = a.width <= 64 && a.v_width <= 64;
        if (a.form)
            return narrow ? tiles_launch<T, 64, STORED, true>(call, a)
                          : tiles_launch<T, 128, STORED, true>(call, a);
        return narrow ? tiles_launch<T, 64, STORED, false>(call, a)
                      : tiles_launch<T, 128, STORED, false>(call, a);
    });
    return OK;
}

#endif
