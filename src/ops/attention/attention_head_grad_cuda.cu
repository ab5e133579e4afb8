/* attention_head_grad_cuda.cu -- gradients of short sequences on Hopper: a block has a whole head,
 * so that one kernel makes dq, dk and dv, each in a fixed order, by 5 products where two kernels
 * make 7.
 *
 * Warpgroups have 64 queries each and walk over the keys. p and ds of 64 keys go to shared memory,
 * for all queries; two warpgroups, others each time, then make those keys' dv = p^T dy and
 * dk = ds^T q, complete at once, while the rest go on to the next scores.
 */
#include "ops/attention/attention_head.h"

enum { TILE_KEYS = 64 };         /* of p and ds in shared memory */

template <int K, int R> struct HeadBackward {
    WideTile<R, K>         q, dy, k, v;
    WideTile<R, TILE_KEYS> ds, p;        /* p's place first has the parts of delta */
    float2 lines[(R + 63) / 64 * 64];    /* log-sum-exp (of powers of two) and delta of a query */
    float  heat[(R + 63) / 64][2][4];    /* parts of the temperature's gradient */
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <int COPY, class T, int K, int R>
__device__ __forceinline__ void inputs_fetch(const AttentionCuda &a, HeadBackward<K, R> &s,
                                             HeadPlace at)
{
    HeadFeed<COPY, R, K> q(s.q, at.rows<T>(a.q), a.q.ld, a.lq, a.width);
    HeadFeed<COPY, R, K> k(s.k, at.rows<T>(a.k), a.k.ld, a.lk, a.width);
    HeadFeed<COPY, R, K> v(s.v, at.rows<T>(a.v), a.v.ld, a.lk, a.width);
    while (q.more()) {
        q.load();
        k.load();
        v.load();
        q.store();
        k.store();
        v.store();
    }
}

/* dy, and delta = rowsum(dy * y): each piece's part, [rows][pieces]. */
template <int COPY, class T, int K, int R>
__device__ __forceinline__ void outputs_fetch(const AttentionCuda &a, HeadBackward<K, R> &s,
                                              HeadPlace at)
{
    HeadFeed<COPY, R, K> dy(s.dy, at.rows<T>(a.dy), a.dy.ld, a.lq, a.width);
    HeadFeed<COPY, R, K> y(s.dy, at.rows<T>(a.y), a.y.ld, a.lq, a.width);
    float               *part = (float *)s.p.at + threadIdx.x;
    int                  step = dy.rows * (a.width * 2 / COPY);
    while (dy.more()) {
        dy.load();
        y.load();
#pragma unroll
        for (int i = 0; i < dy.AHEAD; i++, part += step) {
            float sum = 0;
#pragma unroll
            for (int w = 0; w < dy.WORDS; w++) {
                const T *u = (const T *)&dy.x[i][w], *v = (const T *)&y.x[i][w];
                sum += get(u, 0) * get(v, 0) + get(u, 1) * get(v, 1);
            }
            if (dy.row + i * dy.rows < a.lq)
                *part = sum;
        }
        dy.store();
        y.row = dy.row;
    }
}

/* A query's log-sum-exp and delta; beyond the end such that p and ds are 0. */
template <int K, int R>
__device__ __forceinline__ float2 query_line(const AttentionCuda &a, const HeadBackward<K, R> &s,
                                             int head, int row)
{
    int          pieces = a.width * 2 / (a.copy < 4 ? 4 : a.copy);
    const float *part = (const float *)s.p.at + row * pieces;
    float        delta = 0;
    if (row >= a.lq)
        return make_float2(INFINITY, 0);
    for (int i = 0; i < pieces; i++)
        delta += part[i];
    return make_float2(a.lse[head * a.lq + row] * LOG2_E, delta);
}

/* 16 rows by N of a warp, from `column` on; rows that the tile does not have are left out. */
template <class T, int N, int R>
__device__ __forceinline__ void scores_put(WideTile<R, TILE_KEYS> &to, int row, int column,
                                           const float (&x)[N / 8][4])
{
    int   r = row + (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    char *at = to.at + column / 8 * WideTile<R, TILE_KEYS>::STEP + r * 16 + t * 4;
    if (row >= R)                                /* they come in sixteens */
        return;
#pragma unroll
    for (int n = 0; n < N / 8; n++)
#pragma unroll
        for (int h = 0; h < 2; h++)
            *(uint32_t *)(at + n * WideTile<R, TILE_KEYS>::STEP + h * 128) =
                pair(x[n][2 * h], x[n][2 * h + 1], T());
}

/* A warp's 16 rows of dk, N columns from `column` on, times the keys: its part of the temperature's
 * gradient. */
template <class T, int N, int K, int R>
__device__ __forceinline__ float heat_of(const WideTile<R, K> &k, int row, int column, int lk,
                                         const float (&dk)[N / 8][4])
{
    int         g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    const char *at = k.at + column / 8 * WideTile<R, K>::STEP + (row + g) * 16 + t * 4;
    float       heat = 0;
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int d = 0; d < N / 8; d++)
            if (row + g + 8 * h < lk) {          /* columns beyond the width are zeros */
                const T *two = (const T *)(at + d * WideTile<R, K>::STEP + h * 128);
                heat += dk[d][2 * h] * get(two, 0) + dk[d][2 * h + 1] * get(two, 1);
            }
    return warp_sum(heat);
}

/* dq += ds k: 64 queries from `row` on, the tile's keys from `key` to lk. Only queued. */
template <class T, int N, int K, int R>
__device__ __forceinline__ void queries_add(float (&dq)[N / 8][4], const WideTile<R, TILE_KEYS> &ds,
                                            int row, const WideTile<R, K> &k, int key, int lk)
{
    constexpr int step = 2 * WideTile<R, TILE_KEYS>::STEP / 16;          /* 16 keys on */
    uint64_t      xs = along(ds, row), ys = down(k) + (uint64_t)key;
    products_begin();
    wgmma<N, true, false, true>(dq, xs, ys, T());
    wgmma<N, true, false, true>(dq, xs + step, ys + 16, T());
    if (key + 32 < lk) {                         /* else that half of ds was not made */
        wgmma<N, true, false, true>(dq, xs + 2 * step, ys + 32, T());
        wgmma<N, true, false, true>(dq, xs + 3 * step, ys + 48, T());
    }
    products_commit();
}

/* acc = p^T y over all queries: 64 keys by N columns, from `column` on. */
template <class T, int N, int K, int R>
__device__ __forceinline__ void keys_sum(float (&acc)[N / 8][4], const WideTile<R, TILE_KEYS> &p,
                                         const WideTile<R, K> &y, int column)
{
    uint64_t ps = down(p), ys = down(y) + (uint64_t)(column / 8 * (WideTile<R, K>::STEP / 16));
    products_begin();
    wgmma<N, false, true, true>(acc, ps, ys, T());
#pragma unroll
    for (int i = 1; i < R / 16; i++)
        wgmma<N, true, true, true>(acc, ps + (uint64_t)(i * 16), ys + (uint64_t)(i * 16), T());
    products_commit();
    products_wait<0>();
    hold(acc);
}
#endif

/* KEYS: scores at a time, PART: columns of dk or dv at a time, both as the registers allow. */
template <class T, int K, int N, int R, int GROUPS, int KEYS, int PART>
__global__ void __launch_bounds__(GROUPS * 128, R <= 128 ? 2 : 1)
    head_backward(const __grid_constant__ AttentionCuda a)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(128) char memory[];
    HeadBackward<K, R> &s = *(HeadBackward<K, R> *)memory;
    int       head = (int)blockIdx.x, lk = (int)a.lk, g = (int)threadIdx.x % 32 / 4, owner = 0;
    int       group = __shfl_sync(0xffffffffu, (int)threadIdx.x / 128, 0);
    int       row = (int)threadIdx.x / 32 * 16;
    HeadPlace at(a, head);
    float     scale = attention_scale_of(a);

    tile_fill_up(s.q, a.width);
    tile_fill_up(s.dy, a.width);
    tile_fill_up(s.k, a.width);
    tile_fill_up(s.v, a.width);
    __syncthreads();
    WITH_COPY(a.copy, COPY, {
        inputs_fetch<COPY, T>(a, s, at);
        outputs_fetch<COPY, T>(a, s, at);
    });
    smem_writes_visible();
    __syncthreads();
    if (threadIdx.x < 64 * GROUPS)
        s.lines[threadIdx.x] = query_line(a, s, head, (int)threadIdx.x);
    __syncthreads();

    float dq[N / 8][4];
#pragma unroll
    for (int d = 0; d < N / 8; d++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            dq[d][e] = 0;
    hold(dq);
    for (int tile = 0; tile < lk; tile += TILE_KEYS) {
#pragma unroll
        for (int half = 0; half < TILE_KEYS / KEYS; half++) {
            int key = tile + half * KEYS;
            if (half && key >= lk)
                break;
            float score[KEYS / 8][4], dp[KEYS / 8][4];
            products_begin();
            head_scores<T, K, KEYS>(score, s.q, group * 64, s.k, key);
            products_commit();
            head_scores<T, K, KEYS>(dp, s.dy, group * 64, s.v, key);
            products_commit();
            const float2 line[2] = { s.lines[row + g], s.lines[row + g + 8] };
            const float  steep = scale * LOG2_E;
            products_wait<1>();                     /* all but dp: the scores, and the last dq */
            hold(score);
            hold(dq);
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    score[n][e] = fast_exp2(fmaf(score[n][e], steep, -line[e / 2].x));
            bool mask = a.mask_diagonal && key < row + 16 && row < key + KEYS;
            if (mask || key + KEYS > lk)
                scores_mask<KEYS>(score, 0, lk - key, mask, row - key);
            if (half == 0)
                __syncthreads();                 /* p and ds of the last tile have been read */
            scores_put<T, KEYS>(s.p, row, half * KEYS, score);
            products_wait<0>();
            hold(dp);
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    dp[n][e] = score[n][e] * (dp[n][e] - line[e / 2].y);
            scores_put<T, KEYS>(s.ds, row, half * KEYS, dp);
        }
        smem_writes_visible();
        __syncthreads();
        queries_add<T, N>(dq, s.ds, group * 64, s.k, tile, lk);
        for (int unit = 0; unit < 2 * N / PART; unit++) {
            bool mine = owner == group;
            owner = owner + 1 == GROUPS ? 0 : owner + 1;
            if (!mine)
                continue;
            bool            keys = unit % 2;     /* their gradient, or the values'? */
            int             own = tile + row % 64, column = unit / 2 * PART;
            const SideCuda &side = keys ? a.dk : a.dv;
            float           sum[PART / 8][4], factor = keys ? scale : 1;
            keys_sum<T, PART>(sum, keys ? s.ds : s.p, keys ? s.q : s.dy, column);
            if (side.data)
                quad_store<T, PART>(at.rows<T>(side) + own * side.ld + column, side.ld, lk - own,
                                    a.width - column, a.copy, sum, factor, factor);
            if (keys && a.heat) {
                float heat = heat_of<T, PART>(s.k, own, column, lk, sum);
                if (threadIdx.x % 32 == 0)
                    s.heat[tile / TILE_KEYS][column / PART][threadIdx.x / 32 % 4] = heat;
            }
        }
    }
    products_wait<0>();
    hold(dq);
    if (a.dq.data)
        quad_store<T, N>(at.rows<T>(a.dq) + row * a.dq.ld, a.dq.ld, (int)a.lq - row, a.width,
                         a.copy, dq, scale, scale);
    if (a.heat) {
        __syncthreads();
        float heat = 0;
        for (int i = 0; i < (lk + TILE_KEYS - 1) / TILE_KEYS && threadIdx.x == 0; i++)
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
        WITH_HEAD_ROWS(a.lq > a.lk ? a.lq : a.lk, R, {
            constexpr int groups = (R + 63) / 64, keys = R <= 256 ? 64 : 32;
            constexpr int n = R <= 256 ? N : K, part = R <= 256 ? N : 32;
            return head_launch(call, head_backward<T, K, n, R, groups, keys, part>, a, groups,
                               sizeof(HeadBackward<K, R>));
        });
    });
}

Err attention_head_backward(const Call *call, const AttentionCuda &a)
{
    return a.type == BF16 ? backward_with<bf16>(call, a) : backward_with<f16>(call, a);
}
