/* attention_wgmma_cuda.cu -- attention forward on Hopper: as attention_cuda.cu, by warpgroups.
 *
 * Each warpgroup has 64 queries. While it takes exponentials of one tile's scores, y += p v of the
 * tile before runs, and other warpgroups' products. The highest score so far is replaced, and y
 * scaled anew, only where it grew by more than 2^8: what matters is that exponentials neither
 * overflow nor vanish, and the last division makes up for the rest. */
#include "ops/attention_ring.h"

template <int K, int GROUPS, int KEYS, int STAGES>
using ForwardShared = RingShared<K, 1, 64 * GROUPS, KEYS, STAGES>;

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* One warpgroup's queries, from first to last key. Signs are turned where the scale is negative, so
 * that the highest score is the highest product. */
template <class T, int N, int K, int GROUPS, int KEYS, int STAGES>
__device__ __forceinline__ void forward_walk(const AttentionCuda &a,
                                             ForwardShared<K, GROUPS, KEYS, STAGES> &s,
                                             int64_t head, int64_t query, int group, int64_t tiles)
{
    float    scale = attention_scale_of(a) * LOG2_E;
    uint32_t flip = scale < 0 ? 0x80008000u : 0;
    int64_t  row = query + (int)threadIdx.x % 128 / 32 * 16;     /* of the warp */
    scale = fabsf(scale);

    uint32_t q[K / 16][4], p[KEYS / 16][4];
    RowsSeen rows = { { -INFINITY, -INFINITY }, { 0, 0 } };
    float    y[N / 8][4], score[KEYS / 8][4], factor[2] = { 1, 1 };
    Place    at = { 0, 0 };
    auto     softmax = [&](int64_t tile) {
        int64_t key = tile * KEYS;
        bool    mask = a.mask_diagonal && key < row + 16 && row < key + KEYS;
        if (mask || key + KEYS > a.lk)
            scores_mask<KEYS>(score, -INFINITY, a.lk - key, mask, (int)(row - key));
        return softmax_step<KEYS>(score, rows, scale, factor);
    };
    clear(y);
    barrier_wait(&s.ready, 0);
    rows_get<K>(q, s.own[0], group * 64);
#pragma unroll
    for (int k = 0; k < K / 16; k++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            q[k][e] ^= flip;

    barrier_wait(&s.full[0], 0);
    wgmma_begin();
    scores_queue<T, K>(score, q, s.one[0]);
    wgmma_commit();
    wgmma_wait<0>();
    hold(score);
    softmax(0);
    fragments_of<T, KEYS>(p, score);
    for (int64_t tile = 1; tile < tiles; tile++) {
        int stage = at.stage;
        at.next<STAGES>();
        barrier_wait(&s.full[at.stage], at.phase);
        wgmma_begin();
        scores_queue<T, K>(score, q, s.one[at.stage]);
        wgmma_commit();
        sums_queue<T, N>(y, p, s.two[stage]);
        wgmma_commit();
        wgmma_wait<1>();
        hold(score);
        bool grown = softmax(tile);
        wgmma_wait<0>();
        hold(y);
        if (threadIdx.x % 32 == 0)               /* the tile before has been read */
            barrier_arrive(&s.empty[stage]);
        if (grown)
            rows_scale<N>(y, factor);
        fragments_of<T, KEYS>(p, score);
        hold(y);
    }
    wgmma_begin();
    sums_queue<T, N>(y, p, s.two[at.stage]);
    wgmma_commit();
    wgmma_wait<0>();
    hold(y);

    softmax_end(a, head, row, rows, scale);
    quad_store<T, N>(head_rows<T>(a, a.y, head) + row * a.y.ld, a.y.ld, (int)(a.lq - row), a.width,
                     a.copy, y, rows.sum[0], rows.sum[1]);
}
#endif

template <class T, int K, int N, int GROUPS, int KEYS, int STAGES>
__global__ void __launch_bounds__(GROUPS * 128 + 128, 1)
    forward_wgmma(const __grid_constant__ AttentionCuda a, const __grid_constant__ RingArgs r)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) char memory[];
    ForwardShared<K, GROUPS, KEYS, STAGES> &s = *(ForwardShared<K, GROUPS, KEYS, STAGES> *)memory;
    int64_t head = blockIdx.x / r.blocks, tiles = (a.lk + KEYS - 1) / KEYS;
    int     group = __shfl_sync(0xffffffffu, (int)threadIdx.x / 128, 0);
    int64_t query = blockIdx.x % r.blocks * 64 * GROUPS;

    ring_begin(s, a);
    if (group == GROUPS) {
        registers_give<(GROUPS == 3 ? 32 : 40)>();
        ring_fetch(s, a, r, head, query, tiles, NoMore());
    } else {
        registers_take<(GROUPS == 3 ? 160 : 232)>();
        forward_walk<T, N, K, GROUPS, KEYS, STAGES>(a, s, head, query + group * 64, group, tiles);
    }
#endif
}

/* ---- host ---- */

template <class T, int K, int N, int GROUPS, int KEYS>
static Err launch(const Call *call, const AttentionCuda &a)
{
    constexpr int stages = K > 80 || KEYS * K > 128 * 64 ? 3 : 4;
    RingArgs      r = {};
    r.own[0] = a.q;
    r.walk[0] = a.k;
    r.walk[1] = a.v;
    r.own_rows = a.lq;
    r.walk_rows = a.lk;
    return ring_launch<K, 1, 64 * GROUPS, KEYS>(call, forward_wgmma<T, K, N, GROUPS, KEYS, stages>,
                                                a, r,
                                                sizeof(ForwardShared<K, GROUPS, KEYS, stages>));
}

#ifndef V_GROUPS
#define V_GROUPS 2
#define V_KEYS 128
#endif
template <class T> static Err forward_with(const Call *call, const AttentionCuda &a)
{
    WITH_WIDTHS(a.width, K, N, {
        constexpr int groups = N <= 80 ? V_GROUPS : 2, keys = N <= 80 ? V_KEYS : 128;
        return launch<T, K, N, groups, keys>(call, a);
    });
}

Err attention_wgmma_forward(const Call *call, const AttentionCuda &a)
{
    return a.type == BF16 ? forward_with<bf16>(call, a) : forward_with<f16>(call, a);
}
