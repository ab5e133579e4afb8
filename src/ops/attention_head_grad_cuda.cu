/* attention_head_grad_cuda.cu -- gradients of short sequences on Hopper: a block has a whole head, so that
 * one kernel makes dq, dk and dv, each in a fixed order, by 5 products where two kernels make 7.
 *
 * Warpgroups have 64 queries each and walk over the keys. p and ds of 64 keys go to shared memory, for all
 * queries; two warpgroups, others each time, then make those keys' dv = p^T dy and dk = ds^T q, complete at
 * once, while the rest go on to the next scores.
 */
#include "ops/attention_head.h"

enum { KEYS = 64 };              /* of p and ds in shared memory */

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <int COPY, class T>
__device__ __forceinline__ void inputs_fetch(const AttentionCuda &a, int64_t head,
                                             const HeadTile &q, const HeadTile &k,
                                             const HeadTile &v)
{
    HeadFeed<COPY> fq(q, head_rows<T>(a, a.q, head), a.q.ld, a.lq, a.width);
    HeadFeed<COPY> fk(k, head_rows<T>(a, a.k, head), a.k.ld, a.lk, a.width);
    HeadFeed<COPY> fv(v, head_rows<T>(a, a.v, head), a.v.ld, a.lk, a.width);
    while (fq.more() || fk.more()) {
        fq.load();
        fk.load();
        fv.load();
        fq.store();
        fk.store();
        fv.store();
    }
}

/* dy, and delta = rowsum(dy * y): each piece's part goes to `scratch`, [rows][pieces]. */
template <int COPY, class T>
__device__ __forceinline__ void outputs_fetch(const AttentionCuda &a, int64_t head,
                                              const HeadTile &dy, uint32_t scratch)
{
    HeadFeed<COPY> fd(dy, head_rows<T>(a, a.dy, head), a.dy.ld, a.lq, a.width);
    HeadFeed<COPY> fy(dy, head_rows<T>(a, a.y, head), a.y.ld, a.lq, a.width);
    int            rows = fd.rows * (a.width * 2 / COPY) * 4;            /* bytes to the next part */
    uint32_t       at = scratch + threadIdx.x * 4;
    while (fd.more()) {
        fd.load();
        fy.load();
#pragma unroll
        for (int i = 0; i < fd.AHEAD; i++, at += (uint32_t)rows) {
            float sum = 0;
#pragma unroll
            for (int w = 0; w < fd.WORDS; w++) {
                const T *u = (const T *)&fd.x[i][w], *v = (const T *)&fy.x[i][w];
                sum += get(u, 0) * get(v, 0) + get(u, 1) * get(v, 1);
            }
            const uint32_t part[1] = { __float_as_uint(sum) };
            piece_store<1>(at, part, fd.row + i * fd.rows < a.lq);
        }
        fd.store();
        fy.row = fd.row;
    }
}

/* A query's log-sum-exp and delta; beyond the end such that p and ds are 0. */
__device__ __forceinline__ float2 query_line(const AttentionCuda &a, int64_t head, int row,
                                             uint32_t scratch)
{
    int   pieces = a.width * 2 / (a.copy < 4 ? 4 : a.copy);
    float delta = 0, part;
    if (row >= a.lq)
        return make_float2(INFINITY, 0);
    for (int i = 0; i < pieces; i++) {
        uint32_t at = scratch + (uint32_t)(row * pieces + i) * 4;
        asm volatile("ld.shared.f32 %0, [%1];" : "=f"(part) : "r"(at) : "memory");
        delta += part;
    }
    return make_float2(a.lse[head * a.lq + row] * LOG2_E, delta);
}

/* 16 rows by HEAD_KEYS of a warp, from column on; rows that the tile does not have are left out. */
template <class T>
__device__ __forceinline__ void scores_put(const HeadTile &to, int row, int column,
                                           const float (&x)[HEAD_KEYS / 8][4])
{
    uint32_t at = to.pair_at(row + (int)threadIdx.x % 32 / 4, column + 2 * ((int)threadIdx.x % 4));
    if (row >= to.rows())                        /* they come in sixteens */
        return;
#pragma unroll
    for (int n = 0; n < HEAD_KEYS / 8; n++, at += (uint32_t)to.step)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const uint32_t two[1] = { pair(x[n][2 * h], x[n][2 * h + 1], T()) };
            piece_store<1>(at + 128u * (uint32_t)h, two, true);              /* eight rows on */
        }
}

/* A warp's 16 rows of dk, N columns from `column` on, times the keys: its part of the temperature's gradient. */
template <class T, int N>
__device__ __forceinline__ float heat_of(const HeadTile &k, int row, int column, int lk, const float (&dk)[N / 8][4])
{
    int   g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    float heat = 0;
#pragma unroll
    for (int d = 0; d < N / 8; d++)
#pragma unroll
        for (int h = 0; h < 2; h++)
            if (row + g + 8 * h < lk) {          /* columns beyond the width are zeros */
                uint32_t two, at = k.pair_at(row + g + 8 * h, column + d * 8 + 2 * t);
                asm volatile("ld.shared.b32 %0, [%1];" : "=r"(two) : "r"(at));
                heat += dk[d][2 * h] * get((const T *)&two, 0) + dk[d][2 * h + 1] * get((const T *)&two, 1);
            }
    return warp_sum(heat);
}

/* dq += ds k: 64 queries from `row` on, `steps` times 16 keys from `key` on. Only queued. */
template <class T, int N>
__device__ __forceinline__ void queries_add(float (&dq)[N / 8][4], const HeadTile &ds, int row, const HeadTile &k,
                                            int key, int steps)
{
    uint64_t xs = ds.along(row), ys = k.down(key);
#pragma unroll 1
    for (int i = 0; i < steps; i++) {
        wgmma_begin();
        wgmma<N, true, false, true>(dq, xs + (uint64_t)(i * (ds.step / 8)), ys + (uint64_t)(i * 16), T());
    }
    wgmma_commit();
}

/* acc = p^T y over all queries: 64 keys by N columns, from `column` on. */
template <class T, int N>
__device__ __forceinline__ void keys_sum(float (&acc)[N / 8][4], const HeadTile &p, const HeadTile &y, int column)
{
    uint64_t ps = p.down(0), ys = y.down(0) + (uint64_t)(column / 8 * (y.step / 16));
    int      steps = y.rows() / 16;
    wgmma_begin();
    wgmma<N, false, true, true>(acc, ps, ys, T());
#pragma unroll 1
    for (int i = 1; i < steps; i++) {
        wgmma_begin();
        wgmma<N, true, true, true>(acc, ps + (uint64_t)(i * 16), ys + (uint64_t)(i * 16), T());
    }
    wgmma_commit();
    wgmma_wait<0>();
    hold(acc);
}
#endif

template <class T, int K, int N, int GROUPS>
__global__ void __launch_bounds__(GROUPS * 128, 1) head_backward(const __grid_constant__ AttentionCuda a)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    constexpr int PART = GROUPS > 4 ? 32 : N;         /* columns of dk or dv: what the registers hold */
    extern __shared__ __align__(128) char memory[];
    HeadLines &s = *(HeadLines *)memory;
    uint32_t free = shared_at(memory) + (uint32_t)sizeof s;
    HeadTile q(free, K / 8, head_step(a.lq, 16)), dy(free, K / 8, head_step(a.lq, 16));
    HeadTile k(free, K / 8, head_step(a.lk, HEAD_KEYS)), v(free, K / 8, head_step(a.lk, HEAD_KEYS));
    HeadTile ds(free, KEYS / 8, head_step(a.lq, 16)), p(free, KEYS / 8, head_step(a.lq, 16));
    int64_t  head = blockIdx.x;
    int      group = __shfl_sync(0xffffffffu, (int)threadIdx.x / 128, 0), groups = (int)blockDim.x / 128, g = (int)threadIdx.x % 32 / 4;
    int      row = (int)threadIdx.x / 32 * 16, lk = (int)a.lk;
    float    scale = attention_scale_of(a);

    q.fill_up(K / 8, a.width);
    dy.fill_up(K / 8, a.width);
    k.fill_up(K / 8, a.width);
    v.fill_up(K / 8, a.width);
    __syncthreads();
    WITH_COPY(a.copy, COPY, {
        inputs_fetch<COPY, T>(a, head, q, k, v);
        outputs_fetch<COPY, T>(a, head, dy, p.at);
    });
    int64_t after = head_after(head, 1);
    if (after < a.n_heads) {
        rows_ask<T>(a, a.q, after, a.lq);
        rows_ask<T>(a, a.k, after, a.lk);
        rows_ask<T>(a, a.v, after, a.lk);
        rows_ask<T>(a, a.dy, after, a.lq);
        rows_ask<T>(a, a.y, after, a.lq);
    }
    writes_visible();
    __syncthreads();
    if (threadIdx.x < 64 * groups)
        s.lines[threadIdx.x] = query_line(a, head, (int)threadIdx.x, p.at);
    __syncthreads();

    float dq[N / 8][4];
#pragma unroll
    for (int d = 0; d < N / 8; d++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            dq[d][e] = 0;
    hold(dq);
    for (int tile = 0; tile * KEYS < lk; tile++) {
        for (int key = tile * KEYS; key < tile * KEYS + KEYS && key < lk; key += HEAD_KEYS) {
            float score[HEAD_KEYS / 8][4], dp[HEAD_KEYS / 8][4];
            wgmma_begin();
            head_scores<T, K>(score, q, group * 64, k, key);
            wgmma_commit();
            head_scores<T, K>(dp, dy, group * 64, v, key);
            wgmma_commit();
            const float2 line[2] = { s.lines[row + g], s.lines[row + g + 8] };
            const float  steep = scale * LOG2_E;
            wgmma_wait<1>();                     /* all but dp: the scores, and dq of the keys before */
            hold(score);
            hold(dq);
#pragma unroll
            for (int n = 0; n < HEAD_KEYS / 8; n++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    score[n][e] = fast_exp2(fmaf(score[n][e], steep, -line[e / 2].x));
            bool mask = a.mask_diagonal && key < row + 16 && row < key + HEAD_KEYS;
            if (mask || key + HEAD_KEYS > lk)
                scores_mask<HEAD_KEYS>(score, 0, lk - key, mask, row - key);
            if (key == tile * KEYS)
                __syncthreads();                 /* p and ds of the keys before have been read */
            scores_put<T>(p, row, key - tile * KEYS, score);
            wgmma_wait<0>();
            hold(dp);
#pragma unroll
            for (int n = 0; n < HEAD_KEYS / 8; n++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    dp[n][e] = score[n][e] * (dp[n][e] - line[e / 2].y);
            scores_put<T>(ds, row, key - tile * KEYS, dp);
        }
        writes_visible();
        __syncthreads();
        queries_add<T, N>(dq, ds, group * 64, k, tile * KEYS, lk - tile * KEYS > HEAD_KEYS ? 4 : 2);
        for (int unit = 0; unit < 2 * N / PART; unit++) {
            if ((2 * N / PART * tile + unit) % groups != group)
                continue;
            bool            keys = unit % 2;     /* their gradient, or the values'? */
            int             own = tile * KEYS + row % 64, column = unit / 2 * PART;
            const SideCuda &side = keys ? a.dk : a.dv;
            float           sum[PART / 8][4], factor = keys ? scale : 1;
            keys_sum<T, PART>(sum, keys ? ds : p, keys ? q : dy, column);
            if (side.data)
                fragment_store<T, PART>(head_rows<T>(a, side, head) + own * side.ld + column, side.ld, lk - own,
                                        a.width - column, true, sum, factor, factor);
            if (keys && a.heat) {
                float heat = heat_of<T, PART>(k, own, column, lk, sum);
                if (threadIdx.x % 32 == 0)
                    s.heat[tile][column / PART][threadIdx.x / 32 % 4] = heat;
            }
        }
    }
    wgmma_wait<0>();
    hold(dq);
    if (a.dq.data)
        fragment_store<T, N>(head_rows<T>(a, a.dq, head) + row * a.dq.ld, a.dq.ld, a.lq - row, a.width, true, dq,
                             scale, scale);
    if (a.heat) {
        __syncthreads();
        float heat = 0;
        for (int i = 0; i < (lk + KEYS - 1) / KEYS; i++)
            for (int j = 0; j < N / PART * 4; j++)
                heat += s.heat[i][j / 4][j % 4];
        if (threadIdx.x == 0)
            a.heat[head] = (double)scale * (double)heat;
    }
#endif
}

/* ---- host ---- */

template <class T> static Err backward_with(const Call *call, const AttentionCuda &a)
{
    WITH_HEAD_WIDTHS(a.width, K, N, {
        size_t bytes = head_backward_bytes(a.lq, a.lk, K);
        int    groups = (int)ceil_div(a.lq, 64);
        if (groups <= 4)
            return head_launch(call, head_backward<T, K, N, 4>, a, groups, bytes);
        return head_launch(call, head_backward<T, K, K, HEAD_GROUPS>, a, groups, bytes);
    });
}

Err attention_head_backward(const Call *call, const AttentionCuda &a)
{
    return a.type == BF16 ? backward_with<bf16>(call, a) : backward_with<f16>(call, a);
}
