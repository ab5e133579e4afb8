/* attention_grad_mma_queries_cuda.cu -- gradient of the queries on CUDA, by tensor cores: a block
 * has 64 queries and iterates over the keys. */
#include "ops/attention/attention_mma.h"

template <class T, int D, int KEYS> struct MmaQueriesShared {
    T q[64][ROW<T, D>], dy[64][ROW<T, D>];
    T k[2][KEYS][ROW<T, D>], v[2][KEYS][ROW<T, D>];
};

/* ds of 16 queries from `query` on, from products and dy v^T. */
template <int KEYS>
__device__ __forceinline__ void
queries_form(const AttentionCuda &a, const FormHead &f, const float (&p)[KEYS / 8][4],
             float (&ds)[KEYS / 8][4], int64_t query, int64_t key, float scale_log2,
             const float (&lse)[2], const float (&delta)[2])
{
    int g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    if (a.dropout > 0)
        form_drop<KEYS>(a, ds, form_kept_keys<KEYS>(a, f, query, key));
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int64_t row = query + g + e / 2 * 8, at = key + n * 8 + 2 * t + (e & 1);
            float   x = fast_exp2(form_logit(a, f, row, at, p[n][e] * scale_log2) - lse[e / 2]);
            ds[n][e] = x * (ds[n][e] - delta[e / 2]);
        }
}

template <class T, int D, int KEYS, bool FORM>
__global__ void __launch_bounds__(MMA_THREADS) queries_mma(AttentionCuda a, int64_t blocks)
{
    extern __shared__ __align__(16) char memory[];
    MmaQueriesShared<T, D, KEYS>        &s = *(MmaQueriesShared<T, D, KEYS> *)memory;
    int64_t  head = blockIdx.x / blocks, query = blockIdx.x % blocks * 64;
    int      warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4;
    const T *k = head_rows<T>(a, a.k, head), *v = head_rows<T>(a, a.v, head);
    float    scale = attention_scale_of(a), scale_log2 = scale * LOG2_E, lse[2], delta[2];
    int64_t  end = FORM ? form_keys(a, query + 64) : a.lk;
    int64_t  tiles = (end + KEYS - 1) / KEYS, row = query + warp * 16 + g;
    FormHead form = FORM ? form_head(a, head) : FormHead();

    shared_clear(memory, (int)sizeof s);
    __syncthreads();
    rows_load<T, D, 64>(s.q, head_rows<T>(a, a.q, head) + query * a.q.ld, a.q.ld, a.lq - query,
                        a.width, a.copy);
    rows_load<T, D, 64>(s.dy, head_rows<T>(a, a.dy, head) + query * a.dy.ld, a.dy.ld, a.lq - query,
                        a.v_width, a.copy);
    rows_load<T, D, KEYS>(s.k[0], k, a.k.ld, a.lk, a.width, a.copy);
    rows_load<T, D, KEYS>(s.v[0], v, a.v.ld, a.lk, a.v_width, a.copy);
    copy_commit();
#pragma unroll
    for (int h = 0; h < 2; h++) {
        bool there = row + 8 * h < a.lq;
        lse[h] = there ? a.lse[head * a.lq + row + 8 * h] * LOG2_E : INFINITY;
        delta[h] = there ? a.delta[head * a.lq + row + 8 * h] : 0.0f;
    }
    float dq[D / 8][4];
#pragma unroll
    for (int d = 0; d < D / 8; d++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            dq[d][e] = 0;
    for (int64_t tile = 0; tile < tiles; tile++) {
        int     stage = (int)(tile & 1);
        int64_t key = tile * KEYS, next = key + KEYS;
        if (tile + 1 < tiles) {
            rows_load<T, D, KEYS>(s.k[stage ^ 1], k + next * a.k.ld, a.k.ld, a.lk - next, a.width,
                                  a.copy);
            rows_load<T, D, KEYS>(s.v[stage ^ 1], v + next * a.v.ld, a.v.ld, a.lk - next, a.v_width,
                                  a.copy);
            copy_commit();
            copy_wait<1>();
        } else {
            copy_wait<0>();
        }
        __syncthreads();

        float   p[KEYS / 8][4], ds[KEYS / 8][4];
        int64_t own = query + warp * 16;
        bool    mask = a.mask_diagonal && key < own + 16 && own < next;
        product_rows<T, D, KEYS>(p, s.q, warp * 16, s.k[stage]);
        product_rows<T, D, KEYS>(ds, s.dy, warp * 16, s.v[stage]);
        if constexpr (FORM) {
            queries_form<KEYS>(a, form, p, ds, own, key, scale_log2, lse, delta);
        } else {
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    float x = fast_exp2(p[n][e] * scale_log2 - lse[e / 2]);
                    ds[n][e] = x * (ds[n][e] - delta[e / 2]);
                }
            if (mask || next > a.lk)
                scores_mask<KEYS>(ds, 0, a.lk - key, mask, (int)(own - key));
        }
        product_columns<T, D, KEYS>(dq, ds, s.k[stage]);
        __syncthreads();
    }
    row = query + warp * 16;
    fragment_store<T, D>(head_rows<T>(a, a.dq, head) + row * a.dq.ld, a.dq.ld, a.lq - row, a.width,
                         a.copy > (int)sizeof(T), dq, scale, scale);
}

/* ---- host ---- */

template <class T, int D, bool FORM> static Err launch(const Call *call, const AttentionCuda &a)
{
    constexpr int keys = D <= 64 ? 64 : 32; /* per tile: limited by registers */
    int64_t       blocks = ceil_div(a.lq, 64);
    size_t        bytes = sizeof(MmaQueriesShared<T, D, keys>);
    CUDA_TRY(cudaFuncSetAttribute(queries_mma<T, D, keys, FORM>,
                                  cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    queries_mma<T, D, keys, FORM>
        <<<(unsigned)(a.n_heads * blocks), MMA_THREADS, bytes, cuda_stream(call)>>>(a, blocks);
    CUDA_LAUNCHED();
    return OK;
}

template <class T> static Err queries_with(const Call *call, const AttentionCuda &a)
{
    int wider = a.width > a.v_width ? a.width : a.v_width;
    WITH_WIDTH(wider, D,
               { return a.form ? launch<T, D, true>(call, a) : launch<T, D, false>(call, a); });
}

Err attention_mma_queries(const Call *call, const AttentionCuda &a)
{
    return a.type == BF16  ? queries_with<bf16>(call, a)
           : a.type == F16 ? queries_with<f16>(call, a)
                           : queries_with<float>(call, a);
}
