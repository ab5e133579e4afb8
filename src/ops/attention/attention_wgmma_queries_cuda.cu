/* attention_wgmma_queries_cuda.cu -- gradient of the queries on Hopper: the algorithm of
 * attention_grad_mma_queries_cuda.cu with warpgroup products.
 *
 * Each warpgroup has 64 queries and iterates over the keys. dq += ds k of the previous tile and
 * dy v^T run while exponentials are computed. */
#include "ops/attention/attention_ring.h"

enum { KEYS = 64, STAGES = 4 };

template <int K, int GROUPS> using WgmmaQueriesShared = RingShared<K, 2, 64 * GROUPS, KEYS, STAGES>;

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Scores of 16 queries from `query` on become probabilities. */
__device__ __forceinline__ void queries_form(const AttentionCuda &a, const FormHead &f,
                                             float (&score)[KEYS / 8][4], int64_t    query,
                                             int64_t key, float scale_log2, const float (&lse)[2])
{
    int  g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    bool sees_all = !a.mask_diagonal && key + KEYS <= a.lk && !(a.causal && key + KEYS > query + 1);
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int64_t row = query + g + e / 2 * 8, at = key + n * 8 + 2 * t + (e & 1);
            float   x = fmaf(score[n][e], scale_log2, -lse[e / 2]);
            if (a.bias && row < a.lq && at < a.lk)
                x += form_bias(a, f, row, at) * LOG2_E;
            score[n][e] = sees_all || form_sees(a, row, at) ? fast_exp2(x) : 0.0f;
        }
}

template <class T, int N, bool FORM, int K, int GROUPS>
__device__ __forceinline__ void queries_walk(const AttentionCuda           &a,
                                             WgmmaQueriesShared<K, GROUPS> &s, int64_t head,
                                             int64_t query, int group, int64_t tiles)
{
    float        scale = attention_scale_of(a), scale_log2 = scale * LOG2_E, lse[2], delta[2];
    int          g = (int)threadIdx.x % 32 / 4;
    int64_t      row = query + (int)threadIdx.x % 128 / 32 * 16; /* of the warp */
    float        dq[N / 8][4], score[KEYS / 8][4], ds[KEYS / 8][4];
    uint32_t     dsf[KEYS / 16][4];
    RingPosition at = { 0, 0 };
    FormHead     form = FORM ? form_head(a, head) : FormHead();
    const bool   drop = FORM && a.dropout > 0;
    uint32_t     kept = 0;                 /* of the tile: see Note [Dropout by blocks of four] */
    auto         scores = [&](int stage) { /* q k^T */
                                   products_begin();
                                   scores_queue<T, K>(score, s.own[0], group * 64, s.one[stage]);
                                   products_commit();
    };
    auto products = [&](int stage) { /* dy v^T */
                                     products_begin();
                                     scores_queue<T, K>(ds, s.own[1], group * 64, s.two[stage]);
                                     products_commit();
    };
    auto exponentials = [&](int64_t tile) {
        int64_t key = tile * KEYS;
        bool    mask = a.mask_diagonal && key < row + 16 && row < key + KEYS;
        hold(score);
        if constexpr (FORM)
            queries_form(a, form, score, row, key, scale_log2, lse);
#pragma unroll
        for (int n = 0; n < KEYS / 8 && !FORM; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                score[n][e] = fast_exp2(fmaf(score[n][e], scale_log2, -lse[e / 2]));
        if (!FORM && (mask || key + KEYS > a.lk))
            scores_mask<KEYS>(score, 0, a.lk - key, mask, (int)(row - key));
        if (drop)
            kept = form_kept_keys<KEYS>(a, form, row, key);
    };
    auto differences = [&]() {
        hold(ds);
        hold(dq);
        if (drop)
            form_drop<KEYS>(a, ds, kept);
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                ds[n][e] = score[n][e] * (ds[n][e] - delta[e / 2]);
        fragments_of<T, KEYS>(dsf, ds);
    };
    auto sums = [&](int stage) {
        products_begin();
        sums_queue<T, N>(dq, dsf, s.one[stage]);
        products_commit();
    };
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int64_t      query = row + g + 8 * h;
        bool         there = query < a.lq;
        const float *stats = stats_of(a, head, there ? query / a.tile : 0);
        lse[h] = there ? stats[query % a.tile] : INFINITY;
        delta[h] = there ? stats[a.tile + query % a.tile] : 0.0f;
    }
    clear(dq);
    bar_wait(&s.ready, 0);
    bar_wait(&s.full[0], 0);
    Turns<GROUPS> turns(group);
    turns.take();
    scores(0);
    products_commit(); /* an empty group, where dq will be later */
    products(0);
    turns.pass();
    for (int64_t tile = 0;; tile++) { /* pending: scores, dq of the previous tile, dy v^T */
        int stage = at.stage;
        products_wait<2>();
        exponentials(tile);
        if (tile + 1 == tiles)
            break;
        at.next<STAGES>();
        products_wait<0>();
        if (tile)
            bar_arrive(&s.empty[stage ? stage - 1 : STAGES - 1]);
        differences();
        bar_wait(&s.full[at.stage], at.parity);
        turns.take();
        scores(at.stage);
        sums(stage);
        products(at.stage);
        turns.pass();
    }
    products_wait<0>();
    differences();
    sums(at.stage);
    products_wait<0>();
    hold(dq);
    quad_store<T, N>(head_rows<T>(a, a.dq, head) + row * a.dq.ld, a.dq.ld, a.lq - row, a.width,
                     a.copy, dq, scale, scale);
}
#endif

template <class T, int K, int N, int GROUPS, bool FORM>
__global__ void __launch_bounds__(GROUPS * 128 + 128, 1)
    queries_wgmma(const __grid_constant__ AttentionCuda a, const __grid_constant__ RingArgs r)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) char memory[];
    WgmmaQueriesShared<K, GROUPS>         &s = *(WgmmaQueriesShared<K, GROUPS> *)memory;
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
        queries_walk<T, N, FORM, K, GROUPS>(a, s, head, query + group * 64, group, tiles);
    }
#endif
}

/* ---- host ---- */

template <class T, int K, int N, int GROUPS, bool FORM = false>
static Err launch(const Call *call, const AttentionCuda &a)
{
    RingArgs r = {};
    r.own[0] = a.q;
    r.own[1] = a.dy;
    r.walk[0] = a.k;
    r.walk[1] = a.v;
    r.own_rows = a.lq;
    r.walk_rows = a.lk;
    r.heads = a.n_heads;
    return ring_launch<K, 2, 64 * GROUPS, KEYS>(call, queries_wgmma<T, K, N, GROUPS, FORM>, a, r,
                                                sizeof(WgmmaQueriesShared<K, GROUPS>));
}

template <class T> static Err queries_with(const Call *call, const AttentionCuda &a)
{
    int wider = a.width > a.v_width ? a.width : a.v_width;
    WITH_WIDTHS(wider, K, N, {
        if (a.form)
            return launch<T, K, N, 2, true>(call, a);
        constexpr int max_groups = N <= 80 ? 3 : 2; /* limited by registers */
        if (groups_pay(a.lq, max_groups))
            return launch<T, K, N, max_groups>(call, a);
        return launch<T, K, N, 2>(call, a);
    });
}

Err attention_wgmma_queries(const Call *call, const AttentionCuda &a)
{
    return a.type == BF16 ? queries_with<bf16>(call, a) : queries_with<f16>(call, a);
}
