/* attention_wgmma_keys_cuda.cu -- gradients of keys and values on Hopper: attention_grad_cuda.cu's,
 * by warpgroups. Each has 64 keys and walks over the queries. Products are queued two ahead: dv +=
 * p dy runs while ds is made, dk += ds q and the next tile's scores while all wait for them. dk and
 * dv are both made even if only one is wanted. */
#include "ops/attention_wgmma.h"

enum { GROUPS = 2 };

template <int K, int QUERIES> struct WideKeys {
    WideTile<64 * GROUPS, K> k, v;
    WideTile<QUERIES, K>     q[STAGES], dy[STAGES];
    float                    lse[STAGES][QUERIES], delta[STAGES][QUERIES];
    uint64_t                 ring[2 * STAGES];
    float                    parts[GROUPS][4];
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* A query beyond the end has q, dy and delta 0, so that it adds nothing. */
template <int K, int QUERIES> struct Lines {     /* lse and delta of a tile */
    WideKeys<K, QUERIES> &s;
    const float *lse, *delta;
    int64_t      n;              /* queries from this thread's on */
    uint32_t     x[1], y[1];
    __device__ __forceinline__ void load()
    {
        piece_load<1>(x, (const char *)lse, n > 0);
        piece_load<1>(y, (const char *)delta, n > 0);
        lse += QUERIES;
        delta += QUERIES;
        n -= QUERIES;
    }
    __device__ __forceinline__ void store(int stage) const
    {
        int i = (int)threadIdx.x % 128;
        piece_store<1>(shared_at(&s.lse[stage][i]), x, i < QUERIES);
        piece_store<1>(shared_at(&s.delta[stage][i]), y, i < QUERIES);
    }
};

template <int COPY, class T, int N, int K, int QUERIES>
__device__ __forceinline__ void keys_fetch(const AttentionCuda &a, WideKeys<K, QUERIES> &s,
                                           int64_t head, int64_t tiles)
{
    Feed<COPY, QUERIES, K, N, (N > 80 ? 8 : 20)> q(s.q, head_rows<T>(a, a.q, head), a.q.ld, a.lq,
                                                   a.width);
    Feed<COPY, QUERIES, K, N, (N > 80 ? 8 : 20)> dy(s.dy, head_rows<T>(a, a.dy, head), a.dy.ld,
                                                    a.lq, a.width);
    int64_t            i = (int64_t)threadIdx.x % 128, at = head * a.lq + i;
    Lines<K, QUERIES> lines = { s,     a.lse + at, a.delta + at, i < QUERIES ? a.lq - i : 0,
                                { 0 }, { 0 } };
    ring_fill(*(Ring *)s.ring, tiles, q, dy, lines);
}

template <int COPY, class T, int K, int QUERIES>
__device__ __forceinline__ void own_keys_fetch(const AttentionCuda &a, WideKeys<K, QUERIES> &s,
                                               int64_t head, int64_t key, int group)
{
    tile_fetch<COPY>(s.k, group * 64, 64, head_rows<T>(a, a.k, head) + key * a.k.ld, a.k.ld,
                     a.lk - key, a.width);
    tile_fetch<COPY>(s.v, group * 64, 64, head_rows<T>(a, a.v, head) + key * a.v.ld, a.v.ld,
                     a.lk - key, a.width);
    copy_commit();
    copy_wait<0>();
    writes_visible();
    group_sync(group);
}

template <class T, int N, int K, int QUERIES>
__device__ __forceinline__ void keys_walk(const AttentionCuda &a, WideKeys<K, QUERIES> &s,
                                          int64_t head, int64_t key, int group, int64_t tiles)
{
    Ring   &ring = *(Ring *)s.ring;
    float   scale = attention_scale_of(a), steep = scale * LOG2_E;
    int     g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    int64_t row = key + (int)threadIdx.x % 128 / 32 * 16;        /* of the warp */
    float   dk[N / 8][4], dv[N / 8][4], score[QUERIES / 8][4], ds[QUERIES / 8][4];
#pragma unroll
    for (int d = 0; d < N / 8; d++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            dk[d][e] = dv[d][e] = 0;
    hold(dk);
    hold(dv);
    Place at = { 0, 0 };
    barrier_wait(&ring.full[0], 0);
    wgmma_begin();
    scores_queue<T, K>(score, s.k, group * 64, s.q[0]);
    wgmma_commit();
    scores_queue<T, K>(ds, s.v, group * 64, s.dy[0]);
    wgmma_commit();
    for (int64_t tile = 0;; tile++) {
        int64_t      query = tile * QUERIES;
        const float *lse = s.lse[at.stage], *delta = s.delta[at.stage];
        wgmma_wait<1>();                         /* all but ds: the scores, and the tile before */
        hold(score);
        hold(dk);
        hold(dv);
        if (tile && threadIdx.x % 32 == 0)
            barrier_arrive(&ring.empty[at.stage ? at.stage - 1 : STAGES - 1]);
#pragma unroll
        for (int n = 0; n < QUERIES / 8; n++) {
            float2 l = *(const float2 *)&lse[n * 8 + 2 * t];
#pragma unroll
            for (int e = 0; e < 4; e++)
                score[n][e] = fast_exp2(fmaf(score[n][e], steep, -(e & 1 ? l.y : l.x) * LOG2_E));
        }
        if (a.mask_diagonal && query < row + 16 && row < query + QUERIES)
            scores_mask<QUERIES>(score, 0, QUERIES, true, (int)(row - query));
        uint32_t p[QUERIES / 16][4];
        fragments_of<T, QUERIES>(p, score);
        wgmma_begin();
        sums_queue<T, N>(dv, p, s.dy[at.stage]);
        wgmma_commit();

        wgmma_wait<1>();
        hold(ds);
#pragma unroll
        for (int n = 0; n < QUERIES / 8; n++) {
            float2 d = *(const float2 *)&delta[n * 8 + 2 * t];
#pragma unroll
            for (int e = 0; e < 4; e++)
                ds[n][e] = score[n][e] * (ds[n][e] - (e & 1 ? d.y : d.x));
        }
        uint32_t dsf[QUERIES / 16][4];
        fragments_of<T, QUERIES>(dsf, ds);
        wgmma_begin();
        sums_queue<T, N>(dk, dsf, s.q[at.stage]);
        wgmma_commit();
        at.next();
        if (tile + 1 == tiles)
            break;
        barrier_wait(&ring.full[at.stage], at.phase);
        wgmma_begin();
        scores_queue<T, K>(score, s.k, group * 64, s.q[at.stage]);
        wgmma_commit();
        scores_queue<T, K>(ds, s.v, group * 64, s.dy[at.stage]);
        wgmma_commit();
    }
    wgmma_wait<0>();
    hold(dk);
    hold(dv);

    if (a.dv.data)
        fragment_store<T, N>(head_rows<T>(a, a.dv, head) + row * a.dv.ld, a.dv.ld, a.lk - row,
                             a.width, true, dv, 1, 1);
    if (a.dk.data)
        fragment_store<T, N>(head_rows<T>(a, a.dk, head) + row * a.dk.ld, a.dk.ld, a.lk - row,
                             a.width, true, dk, scale, scale);
    if (a.heat && key < a.lk) {
        const T *k = head_rows<T>(a, a.k, head) + row * a.k.ld;
        float    heat = 0;
#pragma unroll
        for (int d = 0; d < N / 8; d++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int r = g + e / 2 * 8, c = d * 8 + 2 * t + (e & 1);
                if (row + r < a.lk && c < a.width)
                    heat += dk[d][e] * get(k, (int64_t)r * a.k.ld + c);
            }
        heat = warp_sum(heat);
        if (threadIdx.x % 32 == 0)
            s.parts[group][threadIdx.x % 128 / 32] = heat;
        group_sync(group);
        const float *part = s.parts[group];
        if (threadIdx.x % 128 == 0)
            a.heat[head * ((a.lk + 63) / 64) + key / 64] =
                (double)scale * (double)(part[0] + part[1] + part[2] + part[3]);
    }
}
#endif

template <class T, int K, int N, int QUERIES>
__global__ void __launch_bounds__(GROUPS * 128 + 128, 1)
    keys_wgmma(const __grid_constant__ AttentionCuda a, int64_t blocks)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(128) char memory[];
    WideKeys<K, QUERIES> &s = *(WideKeys<K, QUERIES> *)memory;
    int64_t head = blockIdx.x / blocks, tiles = (a.lq + QUERIES - 1) / QUERIES;
    int     group = (int)threadIdx.x / 128;
    int64_t key = blockIdx.x % blocks * 64 * GROUPS + group * 64;

    if (threadIdx.x == 0)
        ring_init(*(Ring *)s.ring, 4 * GROUPS);
    tile_fill_up(s.k, a.width);
    tile_fill_up(s.v, a.width);
#pragma unroll
    for (int i = 0; i < STAGES; i++) {
        tile_fill_up(s.q[i], a.width);
        tile_fill_up(s.dy[i], a.width);
    }
    writes_visible();
    __syncthreads();
    if (group == GROUPS) {
        registers_give<(N > 80 ? 40 : 72)>();
        WITH_COPY(a.copy, COPY, { keys_fetch<COPY, T, N>(a, s, head, tiles); });
    } else {
        registers_take<(N > 80 ? 232 : 216)>();
        WITH_COPY(a.copy, COPY, { own_keys_fetch<COPY, T>(a, s, head, key, group); });
        keys_walk<T, N>(a, s, head, key, group, tiles);
    }
#endif
}

/* ---- host ---- */

template <class T, int K, int N> static Err launch(const Call *call, const AttentionCuda &a)
{
    constexpr int queries = N <= 80 ? 64 : 48;   /* what the registers hold */
    return wgmma_launch(call, keys_wgmma<T, K, N, queries>, a, a.lk, GROUPS,
                        sizeof(WideKeys<K, queries>));
}

template <class T> static Err keys_with(const Call *call, const AttentionCuda &a)
{
    WITH_WIDTHS(a.width, K, N, { return launch<T, K, N>(call, a); });
}

Err attention_wgmma_keys(const Call *call, const AttentionCuda &a)
{
    return a.type == BF16 ? keys_with<bf16>(call, a) : keys_with<f16>(call, a);
}
