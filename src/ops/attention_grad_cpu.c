/* attention_grad_cpu.c -- gradients of attention by tiles on the CPU.
 *
 * With p = exp(score - lse) and delta = rowsum(dy * y):
 *
 *      dv = p^T dy        ds = scale * p * (dy v^T - delta)        dq = ds k        dk = ds^T q
 *
 * Keys are lanes: a panel is TILE_NR keys, scores are s[query*TILE_NR + key]. Five products a tile;
 * only ds is packed (for dq).
 *
 *      for each group of panels of keys (up to BACKWARD_GROUP):
 *          for each block of queries: pack q and dy both ways
 *              for each panel:  s, p, ds;  dv^T += dy^T p;  dk^T += q^T ds;  pack ds
 *              dq += ds k                                       over all keys of the group
 *          write dk, dv
 *
 * Threads take equal runs of (head, panel). dk and dv of a panel belong to one thread. dq of a head
 * is a sum over its panels: a head within one run is summed in order by its thread; of a head cut
 * between runs, the thread that has its beginning sums into the usual place, each later one into a
 * buffer of its own, and these are added in thread order at the end.
 *
 * A temperature t (scale = exp t) has the gradient sum(ds * score) = sum(k * dk): one number a panel,
 * added in the order of panels.
 */
#include "device/convert.h"
#include "ops/attention_tile.h"
#include "ops/parallel.h"
#include "ops/vmath.h"

enum {
    BACKWARD_GROUP = 8, BACKWARD_QUERIES = 8 * TILE_MR,
    SLOPE_PAD = GEMM_LANES - TILE_MR,        /* floats a row: packing writes whole vectors */
};

typedef struct Backward {
    AttentionDims d;
    AttentionSide q, k, v, y, dy, dq, dk, dv;
    const float  *lse;
    float         scale;
    bool          mask_diagonal, want_q, want_k, want_v, want_t;
    bool          dq_direct;     /* dq is summed where it goes: fp32, whole vectors a row */
    bool          split;         /* some head is cut between threads */
    int           threads;
    int64_t       panels, group, queries;
    double       *heat;          /* [n_heads][panels]: parts of the temperature's gradient */
    float        *work;          /* [threads][thread_floats] */
    size_t        panel_floats, block_floats, score_floats, packed_floats, stage_floats, dense_floats;
    size_t        dq_floats, thread_floats, heat_bytes;
} Backward;

typedef struct BackwardWork {    /* of one thread */
    float *k, *v, *dk, *dv;      /* [group][width][32] */
    float *k_rows;               /* [group*32][wide] */
    float *q, *dy, *q_turned, *dy_turned;    /* packed panels of a block of queries */
    float *score, *slope;        /* [queries][32]: p, ds */
    float *packed;               /* ds of a block against a group, as panels of queries */
    float *delta;                /* [lq] */
    float *stage, *turn;
    float *dq, *dq_front;        /* [lq][wide]: unless direct; of a head begun by an earlier thread */
} BackwardWork;

static void backward_plan(const Node *n, int threads, Backward *b)
{
    const AttentionAttr *a = ATTR(n, AttentionAttr);
    *b = (Backward){ .d = attention_dims(n), .mask_diagonal = a->mask_diagonal,
                     .want_q = a->wants[a->q.source], .want_k = a->wants[a->k.source],
                     .want_v = a->wants[a->v.source], .want_t = a->wants[ATTENTION_TEMPERATURE] };
    const AttentionDims *d = &b->d;
    b->panels = (d->lk + TILE_NR - 1) / TILE_NR;
    b->threads = (int)gemm_min(threads, d->n_heads * b->panels);
    b->split = d->n_heads % b->threads != 0;
    b->dq_direct = d->type == F32 && d->wide == d->width;
    int64_t most = gemm_min(gemm_max(512 / d->width, 1), BACKWARD_GROUP);      /* stays in L2 */
    int64_t groups = (b->panels + most - 1) / most;
    b->group = (b->panels + groups - 1) / groups;
    b->queries = gemm_min(BACKWARD_QUERIES, d->lq);

    b->panel_floats = (size_t)(d->width * TILE_NR);
    b->block_floats = tile_panel_floats(b->queries, d->width);
    b->score_floats = (size_t)(b->queries * TILE_NR);
    b->packed_floats = tile_panel_floats(b->queries, b->group * TILE_NR + SLOPE_PAD);
    b->stage_floats = d->type == F32 ? 0 : tile_round(gemm_max(b->queries, TILE_NR) * d->width);
    b->dense_floats = (size_t)(b->group * TILE_NR * d->wide);
    b->dq_floats = b->want_q ? (size_t)(d->lq * d->wide) : 0;
    b->thread_floats = (size_t)b->group * 4 * b->panel_floats + 2 * GEMM_LANES + b->dense_floats +
                       4 * b->block_floats + 2 * b->score_floats + b->packed_floats +
                       tile_round(d->lq) + b->stage_floats + tile_turn_floats(d->width) +
                       (b->dq_direct ? 0 : b->dq_floats) + (b->split ? b->dq_floats : 0);
    b->heat_bytes = b->want_t ? (size_t)gemm_round_up(d->n_heads * b->panels * 8, 64) : 0;
}

static BackwardWork backward_work(const Backward *b, int thread)
{
    float *at = b->work + (size_t)thread * b->thread_floats;
    size_t panels = (size_t)b->group * b->panel_floats;
    BackwardWork w;
    w.k = at, at += panels + GEMM_LANES;     /* packing may run over by one vector */
    w.v = at, at += panels + GEMM_LANES;
    w.dk = at, at += panels;
    w.dv = at, at += panels;
    w.k_rows = at, at += b->dense_floats;
    w.q = at, at += b->block_floats;
    w.dy = at, at += b->block_floats;
    w.q_turned = at, at += b->block_floats;
    w.dy_turned = at, at += b->block_floats;
    w.score = at, at += b->score_floats;
    w.slope = at, at += b->score_floats;
    w.packed = at, at += b->packed_floats;
    w.delta = at, at += tile_round(b->d.lq);
    w.stage = at, at += b->stage_floats;
    w.turn = at, at += tile_turn_floats(b->d.width);
    w.dq = at, at += b->dq_direct ? 0 : b->dq_floats;
    w.dq_front = at;
    return w;
}

/* scale * rowsum(dy * y), for all queries of a head. */
static void backward_delta(const Backward *b, const BackwardWork *w, int64_t head)
{
    HeadRows y = attention_rows(&b->y, &b->d, head), dy = attention_rows(&b->dy, &b->d, head);
    float    part_y[256], part_dy[256];
    for (int64_t i = 0; i < b->d.lq; i++) {
        float sum = 0;
        for (int64_t c = 0; c < b->d.width; c += 256) {
            int64_t      n = gemm_min(256, b->d.width - c);
            const float *py = row_load(y.type, y.data, i * y.ld + c, n, part_y);
            const float *pd = row_load(dy.type, dy.data, i * dy.ld + c, n, part_dy);
#pragma omp simd reduction(+ : sum)
            for (int64_t x = 0; x < n; x++)
                sum += py[x] * pd[x];
        }
        w->delta[i] = b->scale * sum;
    }
}

/* The score of a query and of its own key. */
static void backward_mask(float *score, int64_t query, int64_t queries, int64_t key, int64_t n)
{
    for (int64_t x = 0; x < n; x++)
        if (key + x >= query && key + x < query + queries)
            score[(key + x - query) * TILE_NR + x] = -INFINITY;
}

/* score: from scores to p; slope: from scale * dy v^T to ds. */
static void backward_softmax(float *restrict score, float *restrict slope, const float *restrict lse,
                             const float *restrict delta, int64_t queries)
{
    for (int64_t i = 0; i < queries; i++)
        for (int x = 0; x < TILE_NR; x++) {
            float p = vexp(score[i * TILE_NR + x] - lse[i]);
            score[i * TILE_NR + x] = p;
            slope[i * TILE_NR + x] = p * (slope[i * TILE_NR + x] - delta[i]);
        }
}

/* Rows i.. of ds become columns [32*panel, 32*panel + n) of the packed left side of dq = ds k. */
static void backward_pack_slope(const float *slope, int64_t queries, int64_t keys, int64_t first, int64_t n,
                                float *packed)
{
    for (int64_t i = 0; i < queries; i += TILE_MR) {
        const float *rows[GEMM_NR];
        int64_t      count = gemm_min(TILE_MR, queries - i);
        for (int64_t r = 0; r < count; r++)
            rows[r] = slope + (i + r) * TILE_NR;
        gemm_interleave(packed + i * (keys + SLOPE_PAD) + first * count, count, rows, count, n);
    }
}

/* One block of queries against one panel of keys. */
static void backward_panel(const Backward *b, const BackwardWork *w, int64_t panel, int64_t query,
                           int64_t queries, int64_t key, const float *lse, bool add)
{
    int64_t width = b->d.width, n = gemm_min(TILE_NR, b->d.lk - key);
    size_t  at = (size_t)panel * b->panel_floats;
    TileProduct rows = { .m = queries, .n = n, .k = width, .b_step = TILE_NR, .ldc = TILE_NR };
    TileProduct columns = { .m = width, .n = n, .k = queries, .b_step = TILE_NR, .ldc = TILE_NR,
                            .alpha = 1, .add = add };
    rows.alpha = b->scale;
    rows.a = w->q, rows.b = w->k + at, rows.c = w->score;
    tile_product(&rows);
    if (b->mask_diagonal)
        backward_mask(w->score, query, queries, key, n);
    rows.a = w->dy, rows.b = w->v + at, rows.c = w->slope;
    tile_product(&rows);
    backward_softmax(w->score, w->slope, lse + query, w->delta + query, queries);
    if (b->want_v) {
        columns.a = w->dy_turned, columns.b = w->score, columns.c = w->dv + at;
        tile_product(&columns);
    }
    if (b->want_k || b->want_t) {
        columns.a = w->q_turned, columns.b = w->slope, columns.c = w->dk + at;
        tile_product(&columns);
    }
}

/* dq[query..] (+)= ds k over the keys of the group. */
static void backward_dq(const Backward *b, const BackwardWork *w, int64_t queries, int64_t keys,
                        float *dq, int64_t ld, bool add)
{
    for (int64_t i = 0; i < queries; i += TILE_MR)
        for (int64_t c = 0; c < b->d.wide; c += TILE_NR)
            tile_product(&(TileProduct){
                .a = w->packed + i * (keys + SLOPE_PAD), .b = w->k_rows + c, .c = dq + i * ld + c,
                .m = gemm_min(TILE_MR, queries - i), .n = gemm_min(TILE_NR, b->d.wide - c), .k = keys,
                .b_step = b->d.wide, .ldc = ld, .alpha = 1, .add = add });
}

/* The keys of a group, packed for scores, dy v^T and dq. */
static void backward_load_keys(const Backward *b, const BackwardWork *w, int64_t head, int64_t key, int64_t keys)
{
    HeadRows k = attention_rows(&b->k, &b->d, head), v = attention_rows(&b->v, &b->d, head);
    int64_t  width = b->d.width, ld;
    tile_dense(&k, key, keys, width, w->k_rows, b->d.wide);
    tile_pack_rows(w->k_rows, b->d.wide, keys, width, TILE_NR, w->k);
    for (int64_t i = 0; i < keys; i += TILE_NR) {
        int64_t      n = gemm_min(TILE_NR, keys - i);
        const float *x = tile_load(&v, key + i, n, width, w->stage, &ld);
        tile_pack_rows(x, ld, n, width, TILE_NR, w->v + i / TILE_NR * (int64_t)b->panel_floats);
    }
}

static void backward_load_queries(const Backward *b, const BackwardWork *w, int64_t head, int64_t query,
                                  int64_t queries)
{
    HeadRows q = attention_rows(&b->q, &b->d, head), dy = attention_rows(&b->dy, &b->d, head);
    int64_t  ld;
    const float *x = tile_load(&q, query, queries, b->d.width, w->stage, &ld);
    tile_pack_rows(x, ld, queries, b->d.width, TILE_MR, w->q);
    tile_pack_columns(x, ld, queries, b->d.width, w->q_turned);
    x = tile_load(&dy, query, queries, b->d.width, w->stage, &ld);
    tile_pack_rows(x, ld, queries, b->d.width, TILE_MR, w->dy);
    tile_pack_columns(x, ld, queries, b->d.width, w->dy_turned);
}

static void backward_finish_keys(const Backward *b, const BackwardWork *w, int64_t head, int64_t from, int64_t to)
{
    HeadRows dk = attention_rows(&b->dk, &b->d, head), dv = attention_rows(&b->dv, &b->d, head);
    for (int64_t p = from; p < to; p++) {
        size_t       at = (size_t)(p - from) * b->panel_floats;
        int64_t      n = gemm_min(TILE_NR, b->d.lk - p * TILE_NR);
        double       heat = 0;
        for (int64_t c = 0; b->want_t && c < b->d.width; c++) {
            float sum = 0;
            for (int64_t x = 0; x < n; x++)
                sum += w->k[at + (size_t)(c * TILE_NR + x)] * w->dk[at + (size_t)(c * TILE_NR + x)];
            heat += (double)sum;
        }
        if (b->want_t)
            b->heat[head * b->panels + p] = heat;
        if (b->want_k)
            tile_store_turned(w->dk + at, n, b->d.width, &dk, p * TILE_NR, w->turn);
        if (b->want_v)
            tile_store_turned(w->dv + at, n, b->d.width, &dv, p * TILE_NR, w->turn);
    }
}

/* Panels [from, to) of one head against all its queries, dq summed at the given place. */
static void backward_group(const Backward *b, const BackwardWork *w, int64_t head, int64_t from, int64_t to,
                           float *dq, int64_t ld, bool add)
{
    int64_t key = from * TILE_NR, keys = gemm_min(to * TILE_NR, b->d.lk) - key;
    backward_load_keys(b, w, head, key, keys);
    for (int64_t query = 0; query < b->d.lq; query += b->queries) {
        int64_t queries = gemm_min(b->queries, b->d.lq - query);
        backward_load_queries(b, w, head, query, queries);
        for (int64_t p = from; p < to; p++) {
            backward_panel(b, w, p - from, query, queries, p * TILE_NR, b->lse + head * b->d.lq, query > 0);
            if (b->want_q)
                backward_pack_slope(w->slope, queries, keys, (p - from) * TILE_NR,
                                    gemm_min(TILE_NR, b->d.lk - p * TILE_NR), w->packed);
        }
        if (b->want_q)
            backward_dq(b, w, queries, keys, dq + query * ld, ld, add);
    }
    backward_finish_keys(b, w, head, from, to);
}

/* The run of one thread over (head, panel). */
static void backward_run(const Backward *b, int thread)
{
    BackwardWork w = backward_work(b, thread);
    int64_t      from, to;
    parallel_piece(b->d.n_heads * b->panels, 1, thread, b->threads, &from, &to);
    while (from < to) {
        int64_t  head = from / b->panels, first = from % b->panels;
        int64_t  last = gemm_min(first + to - from, b->panels), ld = b->d.wide;
        HeadRows rows = attention_rows(&b->dq, &b->d, head);
        float   *dq = first > 0 ? w.dq_front : w.dq;
        if (first == 0 && b->dq_direct) {
            dq = (float *)rows.data;
            ld = rows.ld;
        }
        backward_delta(b, &w, head);
        for (int64_t p = first; p < last; p += b->group)
            backward_group(b, &w, head, p, gemm_min(p + b->group, last), dq, ld, p > first);
        if (b->want_q && !b->dq_direct && first == 0 && last == b->panels)
            for (int64_t i = 0; i < b->d.lq; i++)
                convert_rows(rows.type, rows.data + i * rows.ld * type_bytes(rows.type), F32,
                             w.dq + i * b->d.wide, (size_t)b->d.width);
        from += last - first;
    }
}

/* dq of the heads that were cut, rows shared among the threads. */
static void backward_join(const Backward *b, int thread)
{
    int64_t from, to, row, row_end, owner = 0;
    parallel_piece(b->d.lq, 1, thread, b->threads, &row, &row_end);
    for (int t = 1; t < b->threads; t++) {
        parallel_piece(b->d.n_heads * b->panels, 1, t, b->threads, &from, &to);
        int64_t head = from / b->panels;
        if (from % b->panels == 0 || to == from) {
            owner = t;
            continue;
        }
        bool     ends = to >= (head + 1) * b->panels;
        HeadRows rows = attention_rows(&b->dq, &b->d, head);
        float   *more = backward_work(b, t).dq_front, *dq = backward_work(b, (int)owner).dq;
        int64_t  ld = b->dq_direct ? rows.ld : b->d.wide;
        dq = b->dq_direct ? (float *)rows.data : dq;
        for (int64_t i = row; i < row_end; i++) {
            for (int64_t c = 0; c < b->d.width; c++)
                dq[i * ld + c] += more[i * b->d.wide + c];
            if (ends && !b->dq_direct)
                convert_rows(rows.type, rows.data + i * rows.ld * type_bytes(rows.type), F32, dq + i * ld,
                             (size_t)b->d.width);
        }
        owner = ends ? t : owner;            /* the next head that is cut begins in this run */
    }
}

Err attention_grad_choose(const Node *n, const Device *device, Choice *choice)
{
    Backward b;
    backward_plan(n, device->threads, &b);
    choice->workspace_bytes = b.heat_bytes + (size_t)b.threads * b.thread_floats * sizeof(float);
    choice->name = "own";
    return OK;
}

Err attention_grad_cpu(const Call *call)
{
    const Node          *n = call->node;
    const AttentionAttr *a = ATTR(n, AttentionAttr);
    Backward b;
    backward_plan(n, call->device->threads, &b);
    b.q = attention_side(n, a->q, call->in), b.dq = attention_side(n, a->q, call->out);
    b.k = attention_side(n, a->k, call->in), b.dk = attention_side(n, a->k, call->out);
    b.v = attention_side(n, a->v, call->in), b.dv = attention_side(n, a->v, call->out);
    b.y = attention_side_y(n, call->in[ATTENTION_INPUTS]);
    b.lse = call->in[ATTENTION_INPUTS + 1];
    b.dy = attention_side_y(n, call->in[ATTENTION_INPUTS + 2]);
    b.dy.type = in_type(n, ATTENTION_INPUTS + 2);
    b.scale = attention_scale(n, call->in);
    b.heat = call->workspace;
    b.work = (float *)((char *)call->workspace + b.heat_bytes);

#pragma omp parallel num_threads(b.threads)
    {
        backward_run(&b, omp_get_thread_num());
        if (b.split && b.want_q) {
#pragma omp barrier
            backward_join(&b, omp_get_thread_num());
        }
    }
    if (b.want_t) {
        double sum = 0;
        for (int64_t i = 0; i < b.d.n_heads * b.panels; i++)
            sum += b.heat[i];
        *(float *)call->out[ATTENTION_TEMPERATURE] = (float)sum;
    }
    return OK;
}
