/* attention_head_cuda.cu -- attention over short sequences on Hopper, forward.
 *
 * Like attention_wgmma_cuda.cu, but without a ring: all keys and values are loaded before the first
 * score is computed. Two blocks fit on a multiprocessor: one loads while the other computes.
 */
#include "ops/attention/attention_head.h"

template <int K, int R, int GROUPS> struct HeadForward {
    WideTile<64 * GROUPS, K> q;
    WideTile<R, K>           k, v;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <int COPY, class T, int K, int R, int GROUPS>
__device__ __forceinline__ void forward_fetch(const AttentionCuda &a, HeadForward<K, R, GROUPS> &s,
                                              HeadPlace at, int query, uint32_t flip)
{
    const T                       *x = at.rows<T>(a.q) + query * a.q.ld;
    HeadFeed<COPY, 64 * GROUPS, K> q(s.q, x, a.q.ld, a.lq - query, a.width);
    HeadFeed<COPY, R, K>           k(s.k, at.rows<T>(a.k), a.k.ld, a.lk, a.width);
    HeadFeed<COPY, R, K>           v(s.v, at.rows<T>(a.v), a.v.ld, a.lk, a.width);
    while (k.more() || q.more()) {
        q.load();
        k.load();
        v.load();
        q.store(flip);
        k.store();
        v.store();
    }
}
#endif

template <class T, int K, int N, int R, int GROUPS, int KEYS, int AT_ONCE>
__global__ void __launch_bounds__(GROUPS * 128, AT_ONCE)
    head_forward(const __grid_constant__ AttentionCuda a)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(128) char memory[];
    HeadForward<K, R, GROUPS>            &s = *(HeadForward<K, R, GROUPS> *)memory;
    int       lq = (int)a.lq, lk = (int)a.lk, blocks = (lq + 64 * GROUPS - 1) / (64 * GROUPS);
    int       head = (int)blockIdx.x / blocks, query = (int)blockIdx.x % blocks * 64 * GROUPS;
    int       first = __shfl_sync(0xffffffffu, (int)threadIdx.x / 128 * 64, 0);
    int       row = query + (int)threadIdx.x / 32 * 16;
    HeadPlace at(a, head);
    float     scale = attention_scale_of(a) * LOG2_E;

    /* With a negative scale the queries are negated, so that the maximum score is the maximum
     * product. */
    tile_fill_up(s.q, a.width);
    tile_fill_up(s.k, a.width);
    tile_fill_up(s.v, a.width);
    __syncthreads();
    WITH_COPY(a.copy, COPY,
              { forward_fetch<COPY, T>(a, s, at, query, scale < 0 ? 0x80008000u : 0); });
    smem_writes_visible();
    __syncthreads();
    if (query + first >= lq) /* a warpgroup without queries */
        return;
    scale = fabsf(scale);

    SoftmaxRows rows = { { -INFINITY, -INFINITY }, { 0, 0 } };
    float       y[N / 8][4], score[KEYS / 8][4];
#pragma unroll
    for (int d = 0; d < N / 8; d++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            y[d][e] = 0;
    hold(y);
    for (int key = 0; key < lk; key += KEYS) {
        products_begin();
        head_scores<T, K, KEYS>(score, s.q, first, s.k, key);
        products_commit();
        products_wait<0>();
        hold(score);
        bool mask = a.mask_diagonal && key < row + 16 && row < key + KEYS;
        if (mask || key + KEYS > lk)
            scores_mask<KEYS>(score, -INFINITY, lk - key, mask, row - key);
        float factor[2];
        if (softmax_step<KEYS>(score, rows, scale, factor))
            rows_scale<N>(y, factor);
        uint32_t p[KEYS / 16][4];
        fragments_of<T, KEYS>(p, score);
        hold(y);
        uint64_t ys = down(s.v) + (uint64_t)key;
        products_begin();
#pragma unroll
        for (int i = 0; i < KEYS / 16; i++)
            wgmma<N>(y, p[i], ys + (uint64_t)(i * 16), T());
        products_commit();
        products_wait<0>();
        hold(y);
    }
    softmax_end(a, head, row, rows, scale);
    quad_store<T, N>(at.rows<T>(a.y) + row * a.y.ld, a.y.ld, lq - row, a.width, a.copy, y,
                     rows.sum[0], rows.sum[1]);
#endif
}

/* ---- host ---- */

bool attention_head_fits(int64_t lq, int64_t lk, int64_t width)
{
    return width <= HEAD_WIDTH && lq <= HEAD_MAX && lk <= HEAD_MAX;
}

template <class T> static Err forward_with(const Call *call, const AttentionCuda &a)
{
    WITH_HEAD_WIDTHS(a.width, K, N, {
        WITH_HEAD_ROWS(a.lq > a.lk ? a.lq : a.lk, R, {
            constexpr int groups = R <= 256 ? 2 : 3, keys = R <= 256 ? 64 : 32;
            return head_launch(call, head_forward<T, K, N, R, groups, keys, 2>, a, groups,
                               sizeof(HeadForward<K, R, groups>));
        });
    });
}

Err attention_head_forward(const Call *call, const AttentionCuda &a)
{
    return a.type == BF16 ? forward_with<bf16>(call, a) : forward_with<f16>(call, a);
}
