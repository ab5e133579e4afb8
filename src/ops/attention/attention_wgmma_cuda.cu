/* attention_wgmma_cuda.cu -- attention on Hopper, forward: the algorithm of attention_cuda.cu with
 * warpgroup products.
 *
 * Each warpgroup has 64 queries. While it computes the exponentials of one tile, y += p v of the
 * previous tile and the products of other warpgroups run. The running maximum is replaced, and y
 * rescaled, only where exponentials would grow by more than 2^8. Any reference that keeps them from
 * overflowing or vanishing will do: the final division cancels it. */
#include "ops/attention/attention_ring.h"

template <int K, int GROUPS, int KEYS, int STAGES>
using WgmmaForwardShared = RingShared<K, 1, 64 * GROUPS, KEYS, STAGES>;

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Negates a warpgroup's queries. */
template <int OWN, int K>
__device__ __forceinline__ void queries_negate(Panels<OWN, K> &q, int group)
{
    for (int i = (int)threadIdx.x % 128; i < 64 * K / 2; i += 128)
        *(uint32_t *)(q.at +
                      byte_at<OWN, K>(group * 64 + i / (K / 2), i % (K / 2) * 4)) ^= 0x80008000u;
    smem_writes_visible();
    group_sync(group);
}

/* Iterates over all keys for one warpgroup's queries. */
template <class T, int N, int K, int GROUPS, int KEYS, int STAGES, bool FORM>
__device__ __forceinline__ void forward_walk(const AttentionCuda                         &a,
                                             WgmmaForwardShared<K, GROUPS, KEYS, STAGES> &s,
                                             int64_t head, int64_t query, int group, int64_t tiles)
{
    float         scale = attention_scale_of(a) * LOG2_E;
    int64_t       row = query + (int)threadIdx.x % 128 / 32 * 16; /* of the warp */
    const float   low = FORM ? FORM_LOW : -INFINITY;
    SoftmaxRows   rows = { { low, low }, { 0, 0 } };
    FormHead      form = FORM ? form_head(a, head) : FormHead();
    float         y[N / 8][4], score[KEYS / 8][4], factor[2] = { 1, 1 };
    uint32_t      p[KEYS / 16][4];
    RingPosition  at = { 0, 0 };
    Turns<GROUPS> turns(group);
    auto          softmax = [&](int64_t tile) {
        int64_t key = tile * KEYS;
        bool    mask = a.mask_diagonal && key < row + 16 && row < key + KEYS;
        if (FORM)
            scores_form<KEYS>(a, form, score, row, key, scale);
        else if (mask || key + KEYS > a.lk)
            scores_mask<KEYS>(score, -INFINITY, a.lk - key, mask, (int)(row - key));
        bool grown = softmax_step<KEYS>(score, rows, scale, factor);
        if constexpr (FORM)
            if (a.dropout > 0)
                scores_drop<KEYS>(a, form, score, row, key);
        return grown;
    };
    clear(y);
    bar_wait(&s.ready, 0);
    if (scale < 0) /* so that the maximum score is the maximum product */
        queries_negate(s.own[0], group);
    scale = fabsf(scale);

    bar_wait(&s.full[0], 0);
    turns.take();
    products_begin();
    scores_queue<T, K>(score, s.own[0], group * 64, s.one[0]);
    products_commit();
    turns.pass();
    products_wait<0>();
    hold(score);
    softmax(0);
    fragments_of<T, KEYS>(p, score);
    for (int64_t tile = 1; tile < tiles; tile++) {
        int stage = at.stage;
        at.next<STAGES>();
        bar_wait(&s.full[at.stage], at.parity);
        turns.take();
        products_begin();
        scores_queue<T, K>(score, s.own[0], group * 64, s.one[at.stage]);
        products_commit();
        sums_queue<T, N>(y, p, s.two[stage]);
        products_commit();
        turns.pass();
        products_wait<1>();
        hold(score);
        bool grown = softmax(tile);
        products_wait<0>();
        hold(y);
        bar_arrive(&s.empty[stage]); /* the previous tile has been read */
        if (grown)
            rows_scale<N>(y, factor);
        fragments_of<T, KEYS>(p, score);
        hold(y);
    }
    products_begin();
    sums_queue<T, N>(y, p, s.two[at.stage]);
    products_commit();
    products_wait<0>();
    hold(y);

    softmax_end<FORM>(a, head, row, rows, scale);
    quad_store<T, N>(head_rows<T>(a, a.y, head) + row * a.y.ld, a.y.ld, a.lq - row, a.v_width,
                     a.copy, y, rows.sum[0], rows.sum[1]);
}
#endif

template <class T, int K, int N, int GROUPS, int KEYS, int STAGES, bool FORM>
__global__ void __launch_bounds__(GROUPS * 128 + 128, 1)
    forward_wgmma(const __grid_constant__ AttentionCuda a, const __grid_constant__ RingArgs r)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) char       memory[];
    WgmmaForwardShared<K, GROUPS, KEYS, STAGES> &s = *(
        WgmmaForwardShared<K, GROUPS, KEYS, STAGES> *)memory;
    int64_t head = blockIdx.x / r.blocks, block = blockIdx.x % r.blocks;
    if (FORM && a.causal) /* the longest first */
        block = r.blocks - 1 - block;
    int64_t query = block * 64 * GROUPS;
    int     group = __shfl_sync(0xffffffffu, (int)threadIdx.x / 128, 0);
    int64_t end = FORM ? form_keys(a, query + 64 * GROUPS) : a.lk, tiles = (end + KEYS - 1) / KEYS;

    ring_begin(s, a);
    if (group == GROUPS) {
        registers_give<registers_fetching(GROUPS)>();
        ring_fetch(s, a, r, OneHead{ head }, query, tiles, NoMore());
    } else {
        registers_take<registers_reading(GROUPS)>();
        forward_walk<T, N, K, GROUPS, KEYS, STAGES, FORM>(a, s, head, query + group * 64, group,
                                                          tiles);
    }
#endif
}

/* ---- host ---- */

template <class T, int K, int N, int GROUPS, int KEYS, bool FORM = false>
static Err launch(const Call *call, const AttentionCuda &a)
{
    constexpr int stages = K * KEYS > 80 * 96 ? 3 : 4; /* limited by shared memory */
    RingArgs      r = {};
    r.own[0] = a.q;
    r.walk[0] = a.k;
    r.walk[1] = a.v;
    r.own_rows = a.lq;
    r.walk_rows = a.lk;
    r.heads = a.n_heads;
    return ring_launch<K, 1, 64 * GROUPS, KEYS>(
        call, forward_wgmma<T, K, N, GROUPS, KEYS, stages, FORM>, a, r,
        sizeof(WgmmaForwardShared<K, GROUPS, KEYS, stages>));
}

/* The more warpgroups take turns, the less the tensor cores idle: as many as the registers
 * allow. */
template <class T> static Err forward_with(const Call *call, const AttentionCuda &a)
{
    int wider = a.width > a.v_width ? a.width : a.v_width;
    WITH_WIDTHS(wider, K, N, {
        if (a.form)
            return launch<T, K, N, 2, 128, true>(call, a);
        constexpr int max_groups = N <= 72 ? 4 : N <= 80 ? 3 : 2;
        if constexpr (max_groups > 2)
            if (groups_pay(a.lq, max_groups))
                return launch<T, K, N, max_groups, (max_groups == 4 ? 64 : 96)>(call, a);
        return launch<T, K, N, 2, 128>(call, a);
    });
}

Err attention_wgmma_forward(const Call *call, const AttentionCuda &a)
{
    return a.type == BF16 ? forward_with<bf16>(call, a) : forward_with<f16>(call, a);
}
