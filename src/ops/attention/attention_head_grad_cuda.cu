/* attention_head_grad_cuda.cu -- gradients of attention over short sequences on Hopper.
 *
 * A block has a whole head, so that one kernel computes dq, dk and dv, each in a fixed order, with
 * 5 products where two kernels need 7.
 *
 * Each warpgroup has 64 queries and iterates over the keys. p and ds of 64 keys and all queries go
 * to shared memory. Two warpgroups, different ones each time, then compute the complete dv = p^T dy
 * and dk = ds^T q of those keys while the others continue with the next scores.
 */
#include "ops/attention/attention_head.h"

enum { TILE_KEYS = 64 }; /* keys of p and ds in shared memory */

template <int K, int R> struct HeadBackward {
    WideTile<R, K>         q, dy, k, v;
    WideTile<R, TILE_KEYS> ds, p;                 /* p first holds the partial sums of delta */
    float2 row_stats[(R + 63) / 64 * 64];         /* log-sum-exp (base 2) and delta of a query */
    float  temperature_sums[(R + 63) / 64][2][4]; /* partial sums of its gradient */
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

/* Fetches dy, and computes partial sums of delta = rowsum(dy * y), one per copy: [rows][copies]. */
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

/* Log-sum-exp and delta of a query. Beyond the end they make p and ds 0. */
template <int K, int R>
__device__ __forceinline__ float2 query_stats(const AttentionCuda &a, const HeadBackward<K, R> &s,
                                              int head, int row)
{
    int          copies = a.width * 2 / (a.copy < 4 ? 4 : a.copy);
    const float *part = (const float *)s.p.at + row * copies;
    float        delta = 0;
    if (row >= a.lq)
        return make_float2(INFINITY, 0);
    for (int i = 0; i < copies; i++)
        delta += part[i];
    return make_float2(a.lse[head * a.lq + row] * LOG2_E, delta);
}

/* Stores a warp's 16 rows by N columns, from `column` on, without rows beyond the tile. */
template <class T, int N, int R>
__device__ __forceinline__ void scores_put(WideTile<R, TILE_KEYS> &to, int row, int column,
                                           const float (&x)[N / 8][4])
{
    int   r = row + (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    char *at = to.at + column / 8 * WideTile<R, TILE_KEYS>::STEP + r * 16 + t * 4;
    if (row >= R) /* rows come in multiples of 16 */
        return;
#pragma unroll
    for (int n = 0; n < N / 8; n++)
#pragma unroll
        for (int h = 0; h < 2; h++)
            *(uint32_t *)(at + n * WideTile<R, TILE_KEYS>::STEP +
                          h * 128) = pair(x[n][2 * h], x[n][2 * h + 1], T());
}

/* A warp's part of the temperature's gradient: its 16 rows of dk, N columns from `column` on, times
 * the keys. */
template <class T, int N, int K, int R>
__device__ __forceinline__ float temperature_part(const WideTile<R, K> &k, int row, int column,
                                                  int lk, const float (&dk)[N / 8][4])
{
    int         g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    const char *at = k.at + column / 8 * WideTile<R, K>::STEP + (row + g) * 16 + t * 4;
    float       temperature_sum = 0;
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int d = 0; d < N / 8; d++)
            if (row + g + 8 * h < lk) { /* columns beyond the width are zeros */
                const T *two = (const T *)(at + d * WideTile<R, K>::STEP + h * 128);
                temperature_sum += dk[d][2 * h] * get(two, 0) + dk[d][2 * h + 1] * get(two, 1);
            }
    return warp_sum(temperature_sum);
}

/* dq += ds k: 64 queries from `row` on, the tile's keys from `key` to lk. Queued, not waited
 * for. */
template <class T, int N, int K, int R>
__device__ __forceinline__ void queries_add(float (&dq)[N / 8][4], const WideTile<R, TILE_KEYS> &ds,
                                            int row, const WideTile<R, K> &k, int key, int lk)
{
    constexpr int step = 2 * WideTile<R, TILE_KEYS>::STEP / 16; /* 16 keys further */
    uint64_t      xs = along(ds, row), ys = down(k) + (uint64_t)key;
    products_begin();
    wgmma<N, true, false, true>(dq, xs, ys, T());
    wgmma<N, true, false, true>(dq, xs + step, ys + 16, T());
    if (key + 32 < lk) { /* else that half of ds was not computed */
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

/* KEYS: keys of scores at a time; PART: columns of dk or dv at a time. Registers limit both. */
template <class T, int K, int N, int R, int GROUPS, int KEYS, int PART>
__global__ void __launch_bounds__(GROUPS * 128, R <= 128 ? 2 : 1)
    head_backward(const __grid_constant__ AttentionCuda a)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(128) char memory[];
    HeadBackward<K, R>                   &s = *(HeadBackward<K, R> *)memory;
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
        s.row_stats[threadIdx.x] = query_stats(a, s, head, (int)threadIdx.x);
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
            const float2 stats[2] = { s.row_stats[row + g], s.row_stats[row + g + 8] };
            const float  scale_log2 = scale * LOG2_E;
            products_wait<1>(); /* for the scores and the last dq, not dp */
            hold(score);
            hold(dq);
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    score[n][e] = fast_exp2(fmaf(score[n][e], scale_log2, -stats[e / 2].x));
            bool mask = a.mask_diagonal && key < row + 16 && row < key + KEYS;
            if (mask || key + KEYS > lk)
                scores_mask<KEYS>(score, 0, lk - key, mask, row - key);
            if (half == 0)
                __syncthreads(); /* p and ds of the last tile have been read */
            scores_put<T, KEYS>(s.p, row, half * KEYS, score);
            products_wait<0>();
            hold(dp);
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    dp[n][e] = score[n][e] * (dp[n][e] - stats[e / 2].y);
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
            bool            keys = unit % 2; /* gradient of the keys, or of the values? */
            int             own = tile + row % 64, column = unit / 2 * PART;
            const SideCuda &side = keys ? a.dk : a.dv;
            float           sum[PART / 8][4], factor = keys ? scale : 1;
            keys_sum<T, PART>(sum, keys ? s.ds : s.p, keys ? s.q : s.dy, column);
            if (side.data)
                quad_store<T, PART>(at.rows<T>(side) + own * side.ld + column, side.ld, lk - own,
                                    a.width - column, a.copy, sum, factor, factor);
            if (keys && a.temperature_sums) {
                float temperature_sum = temperature_part<T, PART>(s.k, own, column, lk, sum);
                if (threadIdx.x % 32 == 0)
                    s.temperature_sums[tile / TILE_KEYS][column / PART][threadIdx.x / 32 % 4] =
                        temperature_sum;
            }
        }
    }
    products_wait<0>();
    hold(dq);
    if (a.dq.data)
        quad_store<T, N>(at.rows<T>(a.dq) + row * a.dq.ld, a.dq.ld, (int)a.lq - row, a.width,
                         a.copy, dq, scale, scale);
    if (a.temperature_sums) {
        __syncthreads();
        float temperature_sum = 0;
        for (int i = 0; i < (lk + TILE_KEYS - 1) / TILE_KEYS && threadIdx.x == 0; i++)
            for (int j = 0; j < N / PART * 4; j++)
                temperature_sum += s.temperature_sums[i][j / 4][j % 4];
        if (threadIdx.x == 0)
            a.temperature_sums[head] = (double)scale * (double)temperature_sum;
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
