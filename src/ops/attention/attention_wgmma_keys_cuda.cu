/* attention_wgmma_keys_cuda.cu -- gradients of keys and values on Hopper: the algorithm of
 * attention_grad_mma_keys_cuda.cu with warpgroup products.
 *
 * Each warpgroup has 64 keys and iterates over the queries. v dy^T runs while exponentials are
 * computed, dv += p dy while ds is computed. dk and dv are both computed even if only one is
 * wanted. */
#include "ops/attention/attention_ring.h"

enum { GROUPS = 2, STAGES = 3 };

template <int K, int QUERIES> struct WgmmaKeysShared {
    RingShared<K, 2, 64 * GROUPS, QUERIES, STAGES> ring;
    alignas(16) float stats[STAGES][2][QUERIES]; /* lse, delta */
    float parts[GROUPS][4];
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Fetches lse and delta of a tile's queries. A query beyond the end has q = dy = lse = delta = 0
 * and adds nothing. */
template <int K, int QUERIES> struct StatsFetch {
    WgmmaKeysShared<K, QUERIES>    &s;
    const AttentionCuda            &a;
    __device__ __forceinline__ void ask(int stage, int64_t head, int64_t tile, uint64_t *full) const
    {
        bulk_ask(s.stats[stage], stats_of(a, head, tile), (int)sizeof s.stats[0], full);
    }
};

/* Scores of 16 keys from `key` on become probabilities of QUERIES queries. */
template <int QUERIES>
__device__ __forceinline__ void keys_form(const AttentionCuda &a, float (&score)[QUERIES / 8][4],
                                          int64_t head, int64_t query, int64_t key,
                                          float scale_log2, const float *lse)
{
    int      g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    FormHead f = form_head(a, head);
    bool     sees_all = !a.mask_diagonal && !(a.causal && query < key + 16);
#pragma unroll
    for (int n = 0; n < QUERIES / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int     c = n * 8 + 2 * t + (e & 1);
            int64_t at = query + c, row = key + g + e / 2 * 8;
            float   x = fmaf(score[n][e], scale_log2, -lse[c]);
            if (a.bias && at < a.lq && row < a.lk)
                x += form_bias(a, f, at, row) * LOG2_E;
            score[n][e] = sees_all || form_sees(a, at, row) ? fast_exp2(x) : 0.0f;
        }
}

/* `walk` says which tiles of queries there are; its first head is that of k and v. */
template <class T, int N, bool FORM, int K, int QUERIES, class Walk>
__device__ __forceinline__ void keys_walk(const AttentionCuda &a, WgmmaKeysShared<K, QUERIES> &s,
                                          Walk walk, int64_t key, int group, int64_t tiles)
{
    int64_t        head = walk.head(0);
    constexpr bool held = N <= 64; /* k and v in registers, if they fit */
    auto          &ring = s.ring;
    float          scale = attention_scale_of(a), scale_log2 = scale * LOG2_E;
    int            g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    int64_t        row = key + (int)threadIdx.x % 128 / 32 * 16; /* of the warp */
    float          dk[N / 8][4], dv[N / 8][4], score[QUERIES / 8][4], ds[QUERIES / 8][4];
    uint32_t       pf[QUERIES / 16][4], dsf[QUERIES / 16][4], kf[held ? K / 16 : 1][4],
        vf[held ? K / 16 : 1][4];
    RingPosition at = { 0, 0 };
    const bool   drop = FORM && a.dropout > 0;
    uint32_t     kept = 0;                 /* of the tile: see Note [Dropout by blocks of four] */
    auto         scores = [&](int stage) { /* k q^T */
                                   products_begin();
                                   if constexpr (held)
                                       scores_queue<T, K>(score, kf, ring.one[stage]);
                                   else
                                       scores_queue<T, K>(score, ring.own[0], group * 64,
                                                          ring.one[stage]);
                                   products_commit();
    };
    auto products = [&](int stage) { /* v dy^T */
                                     products_begin();
                                     if constexpr (held)
                                         scores_queue<T, K>(ds, vf, ring.two[stage]);
                                     else
                                         scores_queue<T, K>(ds, ring.own[1], group * 64,
                                                            ring.two[stage]);
                                     products_commit();
    };
    auto exponentials = [&](int64_t tile, int stage) {
        int64_t query = walk.tile(tile) * QUERIES;
        if constexpr (FORM)
            keys_form<QUERIES>(a, score, walk.head(tile), query, row, scale_log2,
                               s.stats[stage][0]);
#pragma unroll
        for (int n = 0; n < QUERIES / 8 && !FORM; n++) {
            float2 l = *(const float2 *)&s.stats[stage][0][n * 8 + 2 * t];
#pragma unroll
            for (int e = 0; e < 4; e++)
                score[n][e] = fast_exp2(fmaf(score[n][e], scale_log2, -(e & 1 ? l.y : l.x)));
        }
        if (!FORM && a.mask_diagonal && query < row + 16 && row < query + QUERIES)
            scores_mask<QUERIES>(score, 0, QUERIES, true, (int)(row - query));
        if (drop) {
            FormHead form = form_head(a, walk.head(tile));
            kept = form_kept_queries<QUERIES>(a, form, query, row);
            fragments_kept<T, QUERIES>(a, pf, score, kept);
        } else {
            fragments_of<T, QUERIES>(pf, score);
        }
        products_begin();
        sums_queue<T, N>(dv, pf, ring.two[stage]);
        products_commit();
    };
    auto differences = [&](int stage) {
        if (drop)
            form_drop<QUERIES>(a, ds, kept);
#pragma unroll
        for (int n = 0; n < QUERIES / 8; n++) {
            float2 d = *(const float2 *)&s.stats[stage][1][n * 8 + 2 * t];
#pragma unroll
            for (int e = 0; e < 4; e++)
                ds[n][e] = score[n][e] * (ds[n][e] - (e & 1 ? d.y : d.x));
        }
        fragments_of<T, QUERIES>(dsf, ds);
    };
    auto sums = [&](int stage) {
        products_begin();
        sums_queue<T, N>(dk, dsf, ring.one[stage]);
        products_commit();
    };
    clear(dk);
    clear(dv);
    bar_wait(&ring.ready, 0);
    if constexpr (held) {
        rows_get<K>(kf, ring.own[0], group * 64);
        rows_get<K>(vf, ring.own[1], group * 64);
    }
    bar_wait(&ring.full[0], 0);
    Turns<GROUPS> turns(group);
    turns.take();
    scores(0);
    products(0);
    turns.pass();
    for (int64_t tile = 0;; tile++) { /* pending: dk of the previous tile, scores, v dy^T */
        products_wait<1>();
        hold(score);
        hold(dk);
        hold(dv);
        if (tile)
            bar_arrive(&ring.empty[at.stage ? at.stage - 1 : STAGES - 1]);
        exponentials(tile, at.stage);
        products_wait<1>();
        hold(ds);
        differences(at.stage);
        turns.take();
        sums(at.stage);
        at.next<STAGES>();
        if (tile + 1 == tiles) {
            turns.pass();
            break;
        }
        bar_wait(&ring.full[at.stage], at.parity);
        scores(at.stage);
        products(at.stage);
        turns.pass();
    }
    products_wait<0>();
    hold(dk);
    hold(dv);

    if (a.dv.data)
        quad_store<T, N>(head_rows<T>(a, a.dv, head) + row * a.dv.ld, a.dv.ld, a.lk - row,
                         a.v_width, a.copy, dv, 1, 1);
    if (a.dk.data)
        quad_store<T, N>(head_rows<T>(a, a.dk, head) + row * a.dk.ld, a.dk.ld, a.lk - row, a.width,
                         a.copy, dk, scale, scale);
    if (a.temperature_sums && key < a.lk) {
        const T *k = head_rows<T>(a, a.k, head) + row * a.k.ld;
        float    temperature_sum = 0;
#pragma unroll
        for (int d = 0; d < N / 8; d++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int r = g + e / 2 * 8, c = d * 8 + 2 * t + (e & 1);
                if (row + r < a.lk && c < a.width)
                    temperature_sum += dk[d][e] * get(k, (int64_t)r * a.k.ld + c);
            }
        temperature_sum = warp_sum(temperature_sum);
        if (threadIdx.x % 32 == 0)
            s.parts[group][threadIdx.x % 128 / 32] = temperature_sum;
        group_sync(group);
        const float *part = s.parts[group];
        if (threadIdx.x % 128 == 0)
            a.temperature_sums[head / a.share * ((a.lk + 63) / 64) + key / 64] =
                (double)scale * (double)(part[0] + part[1] + part[2] + part[3]);
    }
}
#endif

/* FORM: also for heads that share keys. */
template <class T, int K, int N, int QUERIES, bool FORM>
__global__ void __launch_bounds__(GROUPS * 128 + 128, 1)
    keys_wgmma(const __grid_constant__ AttentionCuda a, const __grid_constant__ RingArgs r)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) char memory[];
    WgmmaKeysShared<K, QUERIES>           &s = *(WgmmaKeysShared<K, QUERIES> *)memory;
    int64_t head = blockIdx.x / r.blocks, tiles = ceil_div(a.lq, QUERIES);
    int     group = __shfl_sync(0xffffffffu, (int)threadIdx.x / 128, 0);
    int64_t key = blockIdx.x % r.blocks * 64 * GROUPS;
    auto    run = [&](auto walk) {
        ring_begin(s.ring, a);
        if (group == GROUPS) {
            registers_give<registers_fetching(GROUPS)>();
            ring_fetch(s.ring, a, r, walk, key, tiles, StatsFetch<K, QUERIES>{ s, a });
        } else {
            registers_take<registers_reading(GROUPS)>();
            keys_walk<T, N, FORM>(a, s, walk, key + group * 64, group, tiles);
        }
    };
    if constexpr (FORM) {
        /* If causal, earlier queries see none of these keys. At least one tile is fetched. */
        int64_t first = a.causal ? min(key / QUERIES, tiles - 1) : 0, of_head = tiles - first;
        tiles = a.share * of_head;
        run(SharedHeads{ head * a.share, of_head, first });
    } else {
        run(OneHead{ head });
    }
#endif
}

/* ---- host ---- */

int attention_wgmma_tile(int64_t width) { return width <= 80 ? 64 : 48; } /* limited by registers */

template <class T> static Err keys_with(const Call *call, const AttentionCuda &a)
{
    int      wider = a.width > a.v_width ? a.width : a.v_width;
    RingArgs r = {};
    r.own[0] = a.k;
    r.own[1] = a.v;
    r.walk[0] = a.q;
    r.walk[1] = a.dy;
    r.own_rows = a.lk;
    r.walk_rows = a.lq;
    r.heads = a.n_heads / a.share;
    WITH_WIDTHS(wider, K, N, {
        constexpr int queries = N <= 80 ? 64 : 48;
        size_t        bytes = sizeof(WgmmaKeysShared<K, queries>);
        REQUIRE(a.tile == queries);
        if (a.form || a.share > 1)
            return ring_launch<K, 2, 64 * GROUPS, queries>(call, keys_wgmma<T, K, N, queries, true>,
                                                           a, r, bytes);
        return ring_launch<K, 2, 64 * GROUPS, queries>(call, keys_wgmma<T, K, N, queries, false>, a,
                                                       r, bytes);
    });
}

Err attention_wgmma_keys(const Call *call, const AttentionCuda &a)
{
    return a.type == BF16 ? keys_with<bf16>(call, a) : keys_with<f16>(call, a);
}
