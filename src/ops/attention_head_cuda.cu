/* attention_head_cuda.cu -- attention forward of short sequences on Hopper: a block has a whole head.
 *
 * As attention_wgmma_cuda.cu, without a ring: keys and values are all there when the first score is made.
 */
#include "ops/attention_head.h"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <int COPY, class T>
__device__ __forceinline__ void head_fetch(const AttentionCuda &a, int64_t head, const HeadTile &q, const HeadTile &k,
                                           const HeadTile &v, uint32_t flip)
{
    HeadFeed<COPY> fq(q, head_rows<T>(a, a.q, head), a.q.ld, a.lq, a.width, flip);
    HeadFeed<COPY> fk(k, head_rows<T>(a, a.k, head), a.k.ld, a.lk, a.width, 0);
    HeadFeed<COPY> fv(v, head_rows<T>(a, a.v, head), a.v.ld, a.lk, a.width, 0);
    while (fq.more() || fk.more()) {
        fq.load();
        fk.load();
        fv.load();
        fq.store();
        fk.store();
        fv.store();
    }
}
#endif

template <class T, int K, int N, int GROUPS>
__global__ void __launch_bounds__(GROUPS * 128, 1) head_forward(const __grid_constant__ AttentionCuda a)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(128) char memory[];
    uint32_t free = shared_at(memory);
    HeadTile q(free, K / 8, head_step(a.lq, 16)), k(free, K / 8, head_step(a.lk, HEAD_KEYS));
    HeadTile v(free, K / 8, head_step(a.lk, HEAD_KEYS));
    int64_t  head = blockIdx.x;
    int      first = (int)threadIdx.x / 128 * 64, row = (int)threadIdx.x / 32 * 16, lk = (int)a.lk;
    float    scale = attention_scale_of(a) * LOG2_E;

    /* Signs are turned where the scale is negative, so that the highest score is the highest product. */
    q.fill_up(K / 8, a.width);
    k.fill_up(K / 8, a.width);
    v.fill_up(K / 8, a.width);
    __syncthreads();
    WITH_COPY(a.copy, COPY, { head_fetch<COPY, T>(a, head, q, k, v, scale < 0 ? 0x80008000u : 0); });
    writes_visible();
    __syncthreads();
    scale = fabsf(scale);

    RowsSeen rows = { { -INFINITY, -INFINITY }, { 0, 0 } };
    float    y[N / 8][4], score[HEAD_KEYS / 8][4];
#pragma unroll
    for (int d = 0; d < N / 8; d++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            y[d][e] = 0;
    hold(y);
    wgmma_begin();
    head_scores<T, K>(score, q, first, k, 0);
    wgmma_commit();
    for (int key = 0;;) {
        wgmma_wait<0>();
        hold(score);
        hold(y);
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
        key += HEAD_KEYS;
        if (key >= lk)
            break;
        wgmma_begin();
        head_scores<T, K>(score, q, first, k, key);
        wgmma_commit();
    }
    wgmma_wait<0>();
    hold(y);
    softmax_end<T, N>(a, head, row, y, rows, scale);
#endif
}

/* ---- host ---- */

bool attention_head_fits(int64_t lq, int64_t lk, int64_t width, bool backward)
{
    int    k = width <= 32 ? 32 : 64;
    size_t most = 227 * 1024;                    /* of Hopper's shared memory, for one block */
    return width <= HEAD_WIDTH && lq <= HEAD_MOST && lk <= HEAD_MOST &&
           (backward ? head_backward_bytes(lq, lk, k) : head_forward_bytes(lq, lk, k)) <= most;
}

template <class T> static Err forward_with(const Call *call, const AttentionCuda &a)
{
    WITH_HEAD_WIDTHS(a.width, K, N, {
        size_t bytes = head_forward_bytes(a.lq, a.lk, K);
        if (a.lq <= 256)
            return head_launch(call, head_forward<T, K, N, 4>, a, bytes);
        return head_launch(call, head_forward<T, K, N, HEAD_GROUPS>, a, bytes);
    });
}

Err attention_head_forward(const Call *call, const AttentionCuda &a)
{
    return a.type == BF16 ? forward_with<bf16>(call, a) : forward_with<f16>(call, a);
}
