/* attention_grad_mma_keys_cuda.cu -- gradients of keys and values on CUDA, by tensor cores.
 *
 * A block has 64 keys and iterates over the queries. All tiles are transposed, keys being the rows:
 * then p and ds are left-hand sides of the next products as they lie in registers.
 */
#include "ops/attention/attention_mma.h"

template <class T, int D, int QUERIES> struct MmaKeysShared {
    T     k[64][ROW<T, D>], v[64][ROW<T, D>];
    T     q[2][QUERIES][ROW<T, D>], dy[2][QUERIES][ROW<T, D>];
    float lse[2][QUERIES], delta[2][QUERIES];
    float partial[32];
};

/* lse in powers of two, and delta; a query beyond the end gets p = 0. */
template <int N>
__device__ __forceinline__ void stats_load(const AttentionCuda &a, float *lse, float *delta,
                                           int64_t head, int64_t query)
{
    for (int i = (int)threadIdx.x; i < N; i += MMA_THREADS) {
        bool there = query + i < a.lq;
        lse[i] = there ? a.lse[head * a.lq + query + i] * LOG2_E : INFINITY;
        delta[i] = there ? a.delta[head * a.lq + query + i] : 0.0f;
    }
}

/* p of 16 keys from `key` on, for QUERIES queries; and what dropout leaves of it. */
template <int QUERIES>
__device__ __forceinline__ void keys_form(const AttentionCuda &a, const FormHead &f,
                                          float (&p)[QUERIES / 8][4], float (&kept)[QUERIES / 8][4],
                                          int64_t query, int64_t key, float scale_log2,
                                          const float *lse)
{
    int g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
#pragma unroll
    for (int n = 0; n < QUERIES / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int     at = n * 8 + 2 * t + (e & 1);
            int64_t row = key + g + e / 2 * 8;
            p[n][e] = fast_exp2(form_logit(a, f, query + at, row, p[n][e] * scale_log2) - lse[at]);
            kept[n][e] = p[n][e];
        }
    if (a.dropout > 0)
        form_drop<QUERIES>(a, kept, form_kept_queries<QUERIES>(a, f, query, key));
}

template <class T, int D, int QUERIES, bool FORM>
__global__ void __launch_bounds__(MMA_THREADS) keys_mma(AttentionCuda a, int64_t blocks)
{
    extern __shared__ __align__(16) char memory[];
    MmaKeysShared<T, D, QUERIES>        &s = *(MmaKeysShared<T, D, QUERIES> *)memory;
    int64_t head = blockIdx.x / blocks * a.share, key = blockIdx.x % blocks * 64; /* first head */
    int     warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    float   scale = attention_scale_of(a), scale_log2 = scale * LOG2_E;
    bool    want_v = a.dv.data, want_k = a.dk.data || a.temperature_sums;
    /* of each head that shares these keys: earlier queries see none of them if causal */
    int64_t first = FORM && a.causal ? key / QUERIES : 0;
    int64_t of_head = (a.lq + QUERIES - 1) / QUERIES - first;
    int64_t tiles = of_head > 0 ? a.share * of_head : 0;
    auto    load = [&](int stage, int64_t tile) {
        int64_t at = head + tile / of_head, query = (first + tile % of_head) * QUERIES;
        rows_load<T, D, QUERIES>(s.q[stage], head_rows<T>(a, a.q, at) + query * a.q.ld, a.q.ld,
                                 a.lq - query, a.width, a.copy);
        rows_load<T, D, QUERIES>(s.dy[stage], head_rows<T>(a, a.dy, at) + query * a.dy.ld, a.dy.ld,
                                 a.lq - query, a.v_width, a.copy);
        copy_commit();
        stats_load<QUERIES>(a, s.lse[stage], s.delta[stage], at, query);
    };

    shared_clear(memory, (int)(sizeof s / 16 * 16));
    __syncthreads();
    rows_load<T, D, 64>(s.k, head_rows<T>(a, a.k, head) + key * a.k.ld, a.k.ld, a.lk - key, a.width,
                        a.copy);
    rows_load<T, D, 64>(s.v, head_rows<T>(a, a.v, head) + key * a.v.ld, a.v.ld, a.lk - key,
                        a.v_width, a.copy);
    if (tiles)
        load(0, 0);
    else
        copy_commit();

    float dk[D / 8][4], dv[D / 8][4];
#pragma unroll
    for (int d = 0; d < D / 8; d++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            dk[d][e] = dv[d][e] = 0;
    for (int64_t tile = 0; tile < tiles; tile++) {
        int     stage = (int)(tile & 1);
        int64_t query = (first + tile % of_head) * QUERIES, next = query + QUERIES;
        if (tile + 1 < tiles) {
            load(stage ^ 1, tile + 1);
            copy_wait<1>();
        } else {
            copy_wait<0>();
        }
        __syncthreads();

        float   p[QUERIES / 8][4], ds[QUERIES / 8][4], kept[FORM ? QUERIES / 8 : 1][4];
        int64_t row = key + warp * 16; /* of the keys */
        product_rows<T, D, QUERIES>(p, s.k, warp * 16, s.q[stage]);
        if constexpr (FORM) {
            FormHead form = form_head(a, head + tile / of_head);
            keys_form<QUERIES>(a, form, p, kept, query, row, scale_log2, s.lse[stage]);
        } else {
#pragma unroll
            for (int n = 0; n < QUERIES / 8; n++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    int at = n * 8 + 2 * t + (e & 1);
                    p[n][e] = fast_exp2(p[n][e] * scale_log2 - s.lse[stage][at]);
                }
            if (a.mask_diagonal && query < row + 16 && row < next)
                scores_mask<QUERIES>(p, 0, QUERIES, true, (int)(row - query));
        }
        if (want_v) {
            if constexpr (FORM)
                product_columns<T, D, QUERIES>(dv, kept, s.dy[stage]);
            else
                product_columns<T, D, QUERIES>(dv, p, s.dy[stage]);
        }
        if (want_k) {
            product_rows<T, D, QUERIES>(ds, s.v, warp * 16, s.dy[stage]);
#pragma unroll
            for (int n = 0; n < QUERIES / 8; n++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    float delta = s.delta[stage][n * 8 + 2 * t + (e & 1)];
                    if constexpr (FORM)
                        ds[n][e] = kept[n][e] * ds[n][e] - p[n][e] * delta;
                    else
                        ds[n][e] = p[n][e] * (ds[n][e] - delta);
                }
            product_columns<T, D, QUERIES>(dk, ds, s.q[stage]);
        }
        __syncthreads();
    }

    int64_t row = key + warp * 16;
    bool    pairs = a.copy > (int)sizeof(T);
    if (want_v)
        fragment_store<T, D>(head_rows<T>(a, a.dv, head) + row * a.dv.ld, a.dv.ld, a.lk - row,
                             a.v_width, pairs, dv, 1, 1);
    if (a.dk.data)
        fragment_store<T, D>(head_rows<T>(a, a.dk, head) + row * a.dk.ld, a.dk.ld, a.lk - row,
                             a.width, pairs, dk, scale, scale);
    if (a.temperature_sums) {
        float temperature_sum = 0;
#pragma unroll
        for (int d = 0; d < D / 8; d++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (row + g + e / 2 * 8 < a.lk)
                    temperature_sum += dk[d][e] *
                                       get(s.k[warp * 16 + g + e / 2 * 8], d * 8 + 2 * t + (e & 1));
        temperature_sum = block_sum(temperature_sum, s.partial);
        if (threadIdx.x == 0)
            a.temperature_sums[blockIdx.x] = (double)scale * (double)temperature_sum;
    }
}

/* ---- host ---- */

template <class T, int D, bool FORM> static Err launch(const Call *call, const AttentionCuda &a)
{
    constexpr int queries = D <= 64 ? 64 : 32; /* per tile: limited by registers */
    int64_t       blocks = ceil_div(a.lk, 64);
    size_t        bytes = sizeof(MmaKeysShared<T, D, queries>);
    CUDA_TRY(cudaFuncSetAttribute(keys_mma<T, D, queries, FORM>,
                                  cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    keys_mma<T, D, queries, FORM>
        <<<(unsigned)(a.n_heads / a.share * blocks), MMA_THREADS, bytes, cuda_stream(call)>>>(
            a, blocks);
    CUDA_LAUNCHED();
    return OK;
}

template <class T> static Err keys_with(const Call *call, const AttentionCuda &a)
{
    int wider = a.width > a.v_width ? a.width : a.v_width;
    WITH_WIDTH(wider, D,
               { return a.form ? launch<T, D, true>(call, a) : launch<T, D, false>(call, a); });
}

Err attention_mma_keys(const Call *call, const AttentionCuda &a)
{
    return a.type == BF16  ? keys_with<bf16>(call, a)
           : a.type == F16 ? keys_with<f16>(call, a)
                           : keys_with<float>(call, a);
}
