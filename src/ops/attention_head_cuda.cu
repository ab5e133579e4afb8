/* attention_head_cuda.cu -- attention forward of short sequences on Hopper: all keys of a head in
 * shared memory.
 *
 * As attention_wgmma_cuda.cu, without a ring: keys and values are all there when the first score is
 * made. A block has up to 192 queries, so that two fit on a multiprocessor: one is fetched while the
 * other is worked on.
 */
#include "ops/attention_head.h"

enum { MOST_GROUPS = 3 };

static int forward_groups(int64_t lq)            /* of a block */
{
    int64_t groups = ceil_div(lq, 64);
    return (int)ceil_div(groups, ceil_div(groups, MOST_GROUPS));
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <int COPY, class T>
__device__ __forceinline__ void forward_fetch(const AttentionCuda &a, int64_t head, int64_t query,
                                              const HeadTile &q, const HeadTile &k,
                                              const HeadTile &v, uint32_t flip)
{
    const T       *x = head_rows<T>(a, a.q, head) + query * a.q.ld;
    HeadFeed<COPY> fq(q, x, a.q.ld, a.lq - query, a.width);
    HeadFeed<COPY> fk(k, head_rows<T>(a, a.k, head), a.k.ld, a.lk, a.width);
    HeadFeed<COPY> fv(v, head_rows<T>(a, a.v, head), a.v.ld, a.lk, a.width);
    while (fq.more() || fk.more()) {
        fq.load();
        fk.load();
        fv.load();
        fq.store(flip);
        fk.store();
        fv.store();
    }
}
#endif

template <class T, int K, int N>
__global__ void __launch_bounds__(MOST_GROUPS * 128, 2)
    head_forward(const __grid_constant__ AttentionCuda a)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(128) char memory[];
    int      block = (int)blockDim.x / 2, blocks = ((int)a.lq + block - 1) / block;
    int      first = (int)threadIdx.x / 128 * 64, lk = (int)a.lk;
    int      head = (int)blockIdx.x / blocks, query = (int)blockIdx.x % blocks * block;
    int      row = query + (int)threadIdx.x / 32 * 16;
    uint32_t free = shared_at(memory);
    HeadTile q(free, K / 8, head_step(block, 16)), k(free, K / 8, head_step(lk, HEAD_KEYS));
    HeadTile v(free, K / 8, head_step(lk, HEAD_KEYS));
    float    scale = attention_scale_of(a) * LOG2_E;

    /* Signs are turned where the scale is negative, so that the highest score is the highest
     * product. */
    q.fill_up(K / 8, a.width);
    k.fill_up(K / 8, a.width);
    v.fill_up(K / 8, a.width);
    __syncthreads();
    WITH_COPY(a.copy, COPY, {
        forward_fetch<COPY, T>(a, head, query, q, k, v, scale < 0 ? 0x80008000u : 0);
    });
    int64_t after = head_after(blockIdx.x, 2) / blocks;
    if (query == 0 && after < a.n_heads) {
        rows_ask<T>(a, a.q, after, a.lq);
        rows_ask<T>(a, a.k, after, a.lk);
        rows_ask<T>(a, a.v, after, a.lk);
    }
    writes_visible();
    __syncthreads();
    if (query + first >= a.lq)                   /* a warpgroup without queries */
        return;
    scale = fabsf(scale);

    RowsSeen rows = { { -INFINITY, -INFINITY }, { 0, 0 } };
    float    y[N / 8][4], score[HEAD_KEYS / 8][4];
#pragma unroll
    for (int d = 0; d < N / 8; d++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            y[d][e] = 0;
    hold(y);
    for (int key = 0; key < lk; key += HEAD_KEYS) {
        wgmma_begin();
        head_scores<T, K>(score, q, first, k, key);
        wgmma_commit();
        wgmma_wait<0>();
        hold(score);
        bool mask = a.mask_diagonal && key < row + 16 && row < key + HEAD_KEYS;
        if (mask || key + HEAD_KEYS > lk)
            scores_mask<HEAD_KEYS>(score, -INFINITY, lk - key, mask, row - key);
        softmax_step<HEAD_KEYS, N>(score, y, rows, scale);
        uint32_t p[HEAD_KEYS / 16][4];
        fragments_of<T, HEAD_KEYS>(p, score);
        hold(y);
        wgmma_begin();
        head_sums<T, N>(y, p, v, key);
        wgmma_commit();
        wgmma_wait<0>();
        hold(y);
    }
    softmax_end<T, N>(a, head, row, y, rows, scale);
#endif
}

/* ---- host ---- */

bool attention_head_fits(int64_t lq, int64_t lk, int64_t width, bool backward)
{
    int    k = width <= 32 ? 32 : 64;
    size_t most = 227 * 1024;                    /* of Hopper's shared memory, for one block */
    return width <= HEAD_WIDTH && lq <= HEAD_MOST && lk <= HEAD_MOST &&
           (backward ? head_backward_bytes(lq, lk, k) : head_forward_bytes(64 * MOST_GROUPS, lk, k)) <= most;
}

template <class T> static Err forward_with(const Call *call, const AttentionCuda &a)
{
    int groups = forward_groups(a.lq);
    WITH_HEAD_WIDTHS(a.width, K, N, {
        size_t bytes = head_forward_bytes(64 * groups, a.lk, K);
        return head_launch(call, head_forward<T, K, N>, a, groups, bytes);
    });
}

Err attention_head_forward(const Call *call, const AttentionCuda &a)
{
    return a.type == BF16 ? forward_with<bf16>(call, a) : forward_with<f16>(call, a);
}
