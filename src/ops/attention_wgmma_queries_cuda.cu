/* attention_wgmma_queries_cuda.cu -- the queries' gradient on Hopper: attention_grad_cuda.cu's, by
 * warpgroups. Each has 64 queries and walks over the keys; the next tile's products are queued
 * behind dq += ds k. */
#include "ops/attention_wgmma.h"

enum { KEYS = 64 };

template <int K, int GROUPS> struct WideQueries {
    WideTile<64 * GROUPS, K> q, dy;
    WideTile<KEYS, K>        k[STAGES], v[STAGES];
    uint64_t                 ring[2 * STAGES];
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Registers of the fetching warpgroup and of the others, and how many the fetching one keeps a
 * tile's part in. */
constexpr int queries_gives(int n, int groups) { return n > 80 || groups == 3 ? 56 : 88; }
constexpr int queries_takes(int n, int groups) { return groups == 3 ? 152 : n > 80 ? 224 : 208; }
constexpr int queries_share(int n) { return n > 72 ? 16 : 20; }

template <int COPY, class T, int N, int K, int GROUPS>
__device__ __forceinline__ void queries_fetch(const AttentionCuda &a, WideQueries<K, GROUPS> &s,
                                              int64_t head, int64_t tiles)
{
    Feed<COPY, KEYS, K, N, queries_share(N)> k(s.k, head_rows<T>(a, a.k, head), a.k.ld, a.lk,
                                               a.width);
    Feed<COPY, KEYS, K, N, queries_share(N)> v(s.v, head_rows<T>(a, a.v, head), a.v.ld, a.lk,
                                               a.width);
    ring_fill(*(Ring *)s.ring, tiles, k, v, NoMore());
}

template <int COPY, class T, int K, int GROUPS>
__device__ __forceinline__ void own_queries_fetch(const AttentionCuda &a, WideQueries<K, GROUPS> &s,
                                                  int64_t head, int64_t query, int group)
{
    int64_t n = a.lq - query;
    tile_fetch<COPY>(s.q, group * 64, 64, head_rows<T>(a, a.q, head) + query * a.q.ld, a.q.ld, n,
                     a.width);
    tile_fetch<COPY>(s.dy, group * 64, 64, head_rows<T>(a, a.dy, head) + query * a.dy.ld, a.dy.ld,
                     n, a.width);
    copy_commit();
    copy_wait<0>();
    writes_visible();
    group_sync(group);
}

template <class T, int N, int K, int GROUPS>
__device__ __forceinline__ void queries_walk(const AttentionCuda &a, WideQueries<K, GROUPS> &s,
                                             int64_t head, int64_t query, int group, int64_t tiles)
{
    Ring   &ring = *(Ring *)s.ring;
    float   scale = attention_scale_of(a), steep = scale * LOG2_E, lse[2], delta[2];
    int     g = (int)threadIdx.x % 32 / 4;
    int64_t row = query + (int)threadIdx.x % 128 / 32 * 16;      /* of the warp */
    float   dq[N / 8][4], score[KEYS / 8][4], ds[KEYS / 8][4];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        bool there = row + g + 8 * h < a.lq;
        lse[h] = there ? a.lse[head * a.lq + row + g + 8 * h] * LOG2_E : INFINITY;
        delta[h] = there ? a.delta[head * a.lq + row + g + 8 * h] : 0.0f;
    }
#pragma unroll
    for (int d = 0; d < N / 8; d++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            dq[d][e] = 0;
    hold(dq);
    Place at = { 0, 0 };
    barrier_wait(&ring.full[0], 0);
    wgmma_begin();
    scores_queue<T, K>(score, s.q, group * 64, s.k[0]);
    wgmma_commit();
    scores_queue<T, K>(ds, s.dy, group * 64, s.v[0]);
    wgmma_commit();
    for (int64_t tile = 0;; tile++) {
        int64_t key = tile * KEYS;
        wgmma_wait<1>();
        hold(score);
        hold(dq);
        if (tile && threadIdx.x % 32 == 0)
            barrier_arrive(&ring.empty[at.stage ? at.stage - 1 : STAGES - 1]);
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                score[n][e] = fast_exp2(fmaf(score[n][e], steep, -lse[e / 2]));
        bool mask = a.mask_diagonal && key < row + 16 && row < key + KEYS;
        if (mask || key + KEYS > a.lk)
            scores_mask<KEYS>(score, 0, a.lk - key, mask, (int)(row - key));
        wgmma_wait<0>();
        hold(ds);
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                ds[n][e] = score[n][e] * (ds[n][e] - delta[e / 2]);
        uint32_t dsf[KEYS / 16][4];
        fragments_of<T, KEYS>(dsf, ds);
        wgmma_begin();
        sums_queue<T, N>(dq, dsf, s.k[at.stage]);
        wgmma_commit();
        at.next();
        if (tile + 1 == tiles)
            break;
        barrier_wait(&ring.full[at.stage], at.phase);
        wgmma_begin();
        scores_queue<T, K>(score, s.q, group * 64, s.k[at.stage]);
        wgmma_commit();
        scores_queue<T, K>(ds, s.dy, group * 64, s.v[at.stage]);
        wgmma_commit();
    }
    wgmma_wait<0>();
    hold(dq);
    fragment_store<T, N>(head_rows<T>(a, a.dq, head) + row * a.dq.ld, a.dq.ld, a.lq - row, a.width,
                         true, dq, scale, scale);
}
#endif

template <class T, int K, int N, int GROUPS>
__global__ void __launch_bounds__(GROUPS * 128 + 128, 1)
    queries_wgmma(const __grid_constant__ AttentionCuda a, int64_t blocks)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(128) char memory[];
    WideQueries<K, GROUPS> &s = *(WideQueries<K, GROUPS> *)memory;
    int64_t head = blockIdx.x / blocks, tiles = (a.lk + KEYS - 1) / KEYS;
    int     group = (int)threadIdx.x / 128;
    int64_t query = blockIdx.x % blocks * 64 * GROUPS + group * 64;

    if (threadIdx.x == 0)
        ring_init(*(Ring *)s.ring, 4 * GROUPS);
    tile_fill_up(s.q, a.width);
    tile_fill_up(s.dy, a.width);
#pragma unroll
    for (int i = 0; i < STAGES; i++) {
        tile_fill_up(s.k[i], a.width);
        tile_fill_up(s.v[i], a.width);
    }
    writes_visible();
    __syncthreads();
    if (group == GROUPS) {
        registers_give<queries_gives(N, GROUPS)>();
        WITH_COPY(a.copy, COPY, { queries_fetch<COPY, T, N>(a, s, head, tiles); });
    } else {
        registers_take<queries_takes(N, GROUPS)>();
        WITH_COPY(a.copy, COPY, { own_queries_fetch<COPY, T>(a, s, head, query, group); });
        queries_walk<T, N>(a, s, head, query, group, tiles);
    }
#endif
}

/* ---- host ---- */

template <class T, int K, int N, int GROUPS>
static Err launch(const Call *call, const AttentionCuda &a)
{
    return wgmma_launch(call, queries_wgmma<T, K, N, GROUPS>, a, a.lq, GROUPS,
                        sizeof(WideQueries<K, GROUPS>));
}

template <class T> static Err queries_with(const Call *call, const AttentionCuda &a)
{
    WITH_WIDTHS(a.width, K, N, {
        constexpr int most = N <= 80 ? 3 : 2;        /* what the registers hold */
        if (three_pay(a.lq))
            return launch<T, K, N, most>(call, a);
        return launch<T, K, N, 2>(call, a);
    });
}

Err attention_wgmma_queries(const Call *call, const AttentionCuda &a)
{
    return a.type == BF16 ? queries_with<bf16>(call, a) : queries_with<f16>(call, a);
}
