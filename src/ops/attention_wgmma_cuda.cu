/* attention_wgmma_cuda.cu -- attention forward on Hopper: as attention_cuda.cu, by warpgroups.
 *
 * Each warpgroup has 64 queries. The scores of the next tile are queued behind y += p v of this
 * one, so that the tensor cores find work while another warpgroup takes exponentials. The highest
 * score so far is replaced, and y scaled anew, only where it grew by more than 2^8: what matters is
 * that exponentials neither overflow nor vanish, and the last division makes up for the rest. */
#include "ops/attention_wgmma.h"

template <int K, int GROUPS, int KEYS> struct WideForward {
    WideTile<64 * GROUPS, K> q;
    WideTile<KEYS, K>        k[STAGES], v[STAGES];
    uint64_t                 ring[2 * STAGES];
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Registers of the fetching warpgroup and of the others, and how many the fetching one keeps a
 * tile's part in. */
constexpr int forward_gives(int n, int groups) { return n > 80 ? 56 : groups == 3 ? 80 : 88; }
constexpr int forward_takes(int n, int groups)
{
    return groups == 3 ? (n > 80 ? 152 : 144) : n > 80 ? 224 : 208;
}
constexpr int forward_share(int n) { return n > 80 ? 16 : 24; }

template <int COPY, class T, int N, int K, int GROUPS, int KEYS>
__device__ __forceinline__ void forward_fetch(const AttentionCuda &a,
                                              WideForward<K, GROUPS, KEYS> &s, int64_t head,
                                              int64_t tiles)
{
    Feed<COPY, KEYS, K, N, forward_share(N)> k(s.k, head_rows<T>(a, a.k, head), a.k.ld, a.lk,
                                               a.width);
    Feed<COPY, KEYS, K, N, forward_share(N)> v(s.v, head_rows<T>(a, a.v, head), a.v.ld, a.lk,
                                               a.width);
    ring_fill(*(Ring *)s.ring, tiles, k, v, NoMore());
}

/* This warpgroup's queries; their signs turned where the scale is negative, so that the highest
 * score is the highest product. */
template <class T, int K, int GROUPS, int KEYS>
__device__ __forceinline__ void queries_fetch(const AttentionCuda &a,
                                              WideForward<K, GROUPS, KEYS> &s, int64_t head,
                                              int64_t query, int group, bool turn)
{
    const T *q = head_rows<T>(a, a.q, head) + query * a.q.ld;
    int      lane = (int)threadIdx.x % 128;
    WITH_COPY(a.copy, COPY,
              { tile_fetch<COPY>(s.q, group * 64, 64, q, a.q.ld, a.lq - query, a.width); });
    copy_commit();
    copy_wait<0>();
    if (turn) {
        group_sync(group);
        for (int i = lane; i < K / 8 * 64 * 4; i += 128)
            *(uint32_t *)(s.q.at + i / 256 * WideTile<64 * GROUPS, K>::STEP + group * 1024 +
                          i % 256 * 4) ^= 0x80008000u;
    }
    writes_visible();
    group_sync(group);
}

/* One warpgroup's queries, from first to last key. */
template <class T, int N, int K, int GROUPS, int KEYS>
__device__ __forceinline__ void forward_walk(const AttentionCuda &a,
                                             WideForward<K, GROUPS, KEYS> &s, int64_t head,
                                             int64_t query, int group, int64_t tiles)
{
    Ring   &ring = *(Ring *)s.ring;
    float   scale = attention_scale_of(a) * LOG2_E;
    int64_t row = query + (int)threadIdx.x % 128 / 32 * 16;      /* of the warp */
    queries_fetch<T>(a, s, head, query, group, scale < 0);
    scale = fabsf(scale);

    RowsSeen rows = { { -INFINITY, -INFINITY }, { 0, 0 } };
    float    y[N / 8][4], score[KEYS / 8][4];
#pragma unroll
    for (int d = 0; d < N / 8; d++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            y[d][e] = 0;
    hold(y);
    Place at = { 0, 0 };
    barrier_wait(&ring.full[0], 0);
    wgmma_begin();
    scores_queue<T, K>(score, s.q, group * 64, s.k[0]);
    wgmma_commit();
    for (int64_t tile = 0;; tile++) {
        int64_t key = tile * KEYS;
        wgmma_wait<0>();
        hold(score);
        hold(y);
        if (tile && threadIdx.x % 32 == 0)       /* the tile before has been read */
            barrier_arrive(&ring.empty[at.stage ? at.stage - 1 : STAGES - 1]);

        bool mask = a.mask_diagonal && key < row + 16 && row < key + KEYS;
        if (mask || key + KEYS > a.lk)
            scores_mask<KEYS>(score, -INFINITY, a.lk - key, mask, (int)(row - key));
        softmax_step<KEYS, N>(score, y, rows, scale);
        uint32_t p[KEYS / 16][4];
        fragments_of<T, KEYS>(p, score);

        hold(y);
        wgmma_begin();
        sums_queue<T, N>(y, p, s.v[at.stage]);
        wgmma_commit();
        at.next();
        if (tile + 1 == tiles)
            break;
        barrier_wait(&ring.full[at.stage], at.phase);
        wgmma_begin();
        scores_queue<T, K>(score, s.q, group * 64, s.k[at.stage]);
        wgmma_commit();
    }
    wgmma_wait<0>();
    hold(y);

    softmax_end(a, head, row, rows, scale);
    fragment_store<T, N>(head_rows<T>(a, a.y, head) + row * a.y.ld, a.y.ld, a.lq - row, a.width,
                         true, y, rows.sum[0], rows.sum[1]);
}
#endif

template <class T, int K, int N, int GROUPS, int KEYS>
__global__ void __launch_bounds__(GROUPS * 128 + 128, 1)
    forward_wgmma(const __grid_constant__ AttentionCuda a, int64_t blocks)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(128) char memory[];
    WideForward<K, GROUPS, KEYS> &s = *(WideForward<K, GROUPS, KEYS> *)memory;
    int64_t head = blockIdx.x / blocks, tiles = (a.lk + KEYS - 1) / KEYS;
    int     group = (int)threadIdx.x / 128;
    int64_t query = blockIdx.x % blocks * 64 * GROUPS + group * 64;

    if (threadIdx.x == 0)
        ring_init(*(Ring *)s.ring, 4 * GROUPS);
    tile_fill_up(s.q, a.width);
#pragma unroll
    for (int i = 0; i < STAGES; i++) {
        tile_fill_up(s.k[i], a.width);
        tile_fill_up(s.v[i], a.width);
    }
    writes_visible();
    __syncthreads();
    if (group == GROUPS) {
        registers_give<forward_gives(N, GROUPS)>();
        WITH_COPY(a.copy, COPY, { forward_fetch<COPY, T, N>(a, s, head, tiles); });
    } else {
        registers_take<forward_takes(N, GROUPS)>();
        forward_walk<T, N>(a, s, head, query, group, tiles);
    }
#endif
}

/* ---- host ---- */

template <class T, int K, int N, int GROUPS, int KEYS>
static Err launch(const Call *call, const AttentionCuda &a)
{
    return wgmma_launch(call, forward_wgmma<T, K, N, GROUPS, KEYS>, a, a.lq, GROUPS,
                        sizeof(WideForward<K, GROUPS, KEYS>));
}

template <class T> static Err forward_with(const Call *call, const AttentionCuda &a)
{
    WITH_WIDTHS(a.width, K, N, {
        if (three_pay(a.lq))
            return launch<T, K, N, 3, 64>(call, a);
        return launch<T, K, N, 2, (N <= 80 ? 128 : 64)>(call, a);    /* what the registers hold */
    });
}

Err attention_wgmma_forward(const Call *call, const AttentionCuda &a)
{
    return a.type == BF16 ? forward_with<bf16>(call, a) : forward_with<f16>(call, a);
}
