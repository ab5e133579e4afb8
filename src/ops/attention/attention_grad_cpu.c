/* attention_grad_cpu.c -- gradients of attention on the CPU, tile by tile.
 *
 * With p = exp(score - lse) and delta = rowsum(dy * y):
 *
 *      dv = p^T dy        ds = scale * p * (dy v^T - delta)        dq = ds k        dk = ds^T q
 *
 * Keys are the lanes: a panel is TILE_NR keys, scores are s[query*TILE_NR + key]. A tile takes five
 * products.
 *
 *      for each group of panels of keys (up to BACKWARD_GROUP):
 *          for each block of queries: pack q and dy, by rows and by columns
 *              for each panel:  s, p, ds;  dv^T += dy^T p;  dk^T += q^T ds;  pack ds
 *              dq += ds k                                       over all keys of the group
 *          write dk, dv
 *
 * Each thread takes an equal range of (head, panel). dk and dv of a panel belong to one thread. dq
 * of a head is a sum over its panels. If one thread has the whole head, it sums in order. If the
 * head is divided between threads, the first of them sums into dq itself, each later one into its
 * own buffer, and these buffers are added in thread order at the end.
 *
 * A temperature t (scale = exp t) has the gradient sum(ds * score) = sum(k * dk): one partial sum
 * per panel, added in the order of panels.
 */
#include "device/convert.h"
#include "ops/attention/attention_tile.h"
#include "ops/parallel.h"
#include "ops/elementwise/vmath.h"

enum { BACKWARD_GROUP = 8, BACKWARD_QUERIES = 112 };     /* 8 panels of floats, 7 tiles of AMX */

typedef struct Backward {
    AttentionDims d;
    AttentionSide q, k, v, y, dy, dq, dk, dv;
    const float  *lse;
    float         scale;
    bool          mask_diagonal, want_q, want_k, want_v, want_t;
    bool          dq_direct;     /* dq is summed in the output: fp32, rows of whole vectors */
    bool          amx;
    bool          split;         /* some head is divided between threads */
    int           threads;
    int64_t       panels, group, queries;
    double       *temperature_sums;          /* [n_heads][panels]: partial sums of its gradient */
    float        *work;          /* [threads][thread_floats] */
    size_t        b_floats, c_floats, rows_floats, columns_floats, score_floats, pair_floats;
    size_t slope_floats, staging_floats, keys_floats, dq_floats, thread_floats, temperature_bytes;
} Backward;

typedef struct BackwardWork {    /* buffers of one thread; A, B: left- and right-hand sides */
    float *k, *v;                /* B: [group], keys are lanes */
    float *dk, *dv;              /* [group][width][32] */
    float *k_columns;            /* B: columns are lanes */
    float *q, *dy;               /* A: rows are the queries of a block */
    float *q_columns, *dy_columns;   /* A: rows are the columns of a block */
    float *score, *slope;        /* [queries][32]: p, ds */
    float *pairs;                /* B: score or slope */
    float *slope_rows;           /* A: ds of a block of queries against a group of keys */
    float *delta;                /* [lq] */
    float *staging, *transposed;
    float *dq;                   /* [lq][wide], unless dq_direct */
    float *dq_front;             /* [lq][wide]: the head that an earlier thread begins */
    TileAhead ahead;             /* prefetches the next head */
} BackwardWork;

static void backward_plan(const Node *n, int threads, bool amx, Backward *b)
{
    const AttentionAttr *a = ATTR(n, AttentionAttr);
    *b = (Backward){ .d = attention_dims(n), .amx = amx, .mask_diagonal = a->mask_diagonal,
                     .want_q = a->wants[a->q.source], .want_k = a->wants[a->k.source],
                     .want_v = a->wants[a->v.source], .want_t = a->wants[ATTENTION_TEMPERATURE] };
    const AttentionDims *d = &b->d;
    b->panels = (d->lk + TILE_NR - 1) / TILE_NR;
    b->threads = (int)gemm_min(threads, d->n_heads * b->panels);
    b->split = d->n_heads % b->threads != 0;
    b->dq_direct = d->type == F32 && d->wide == d->width;
    int64_t max_group = gemm_min(gemm_max(512 / d->width, 1), BACKWARD_GROUP);   /* fits in L2 */
    int64_t groups = (b->panels + max_group - 1) / max_group;
    b->group = (b->panels + groups - 1) / groups;
    b->queries = gemm_min(BACKWARD_QUERIES, d->lq);

    int64_t keys = b->group * TILE_NR;
    b->b_floats = tile_b_floats(amx, d->width);
    b->c_floats = (size_t)(tile_c_rows(amx, d->width) * TILE_NR);
    b->keys_floats = (size_t)((d->width + TILE_NR - 1) / TILE_NR) * tile_b_floats(amx, keys);
    b->rows_floats = tile_a_floats(amx, b->queries, d->width);
    b->columns_floats = tile_a_floats(amx, d->width, b->queries);
    b->score_floats = (size_t)(tile_c_rows(amx, b->queries) * TILE_NR);
    b->pair_floats = amx ? tile_b_floats(amx, b->queries) : 0;
    b->slope_floats = b->want_q ? tile_a_floats(amx, b->queries, keys) : 0;
    b->staging_floats = tile_staging_floats(amx, d->type, b->queries, d->width);
    b->dq_floats = b->want_q ? (size_t)(tile_c_rows(amx, d->lq) * d->wide) : 0;
    b->thread_floats = (size_t)b->group * 2 * (b->b_floats + b->c_floats) + b->keys_floats +
                       2 * (b->rows_floats + b->columns_floats + b->score_floats) + b->pair_floats +
                       b->slope_floats + tile_round(d->lq) + b->staging_floats +
                       tile_transpose_floats(d->width) +
                       (b->dq_direct ? 0 : b->dq_floats) + (b->split ? b->dq_floats : 0);
    b->temperature_bytes = b->want_t ? (size_t)gemm_round_up(d->n_heads * b->panels * 8, 64) : 0;
}

static BackwardWork backward_work(const Backward *b, int thread)
{
    float *at = b->work + (size_t)thread * b->thread_floats;
    size_t group = (size_t)b->group;
    BackwardWork w = { .ahead = { .n = 0 } };
    w.k = at, at += group * b->b_floats;
    w.v = at, at += group * b->b_floats;
    w.dk = at, at += group * b->c_floats;
    w.dv = at, at += group * b->c_floats;
    w.k_columns = at, at += b->keys_floats;
    w.q = at, at += b->rows_floats;
    w.dy = at, at += b->rows_floats;
    w.q_columns = at, at += b->columns_floats;
    w.dy_columns = at, at += b->columns_floats;
    w.score = at, at += b->score_floats;
    w.slope = at, at += b->score_floats;
    w.pairs = at, at += b->pair_floats;
    w.slope_rows = at, at += b->slope_floats;
    w.delta = at, at += tile_round(b->d.lq);
    w.staging = at, at += b->staging_floats;
    w.transposed = at, at += tile_transpose_floats(b->d.width);
    w.dq = at, at += b->dq_direct ? 0 : b->dq_floats;
    w.dq_front = at;
    return w;
}

/* scale * rowsum(dy * y) for all queries of a head. */
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

/* Masks the diagonal: the scale turns these scores into minus infinity. */
static void backward_mask(float *score, float scale, int64_t query, int64_t queries, int64_t key,
                          int64_t n)
{
    for (int64_t x = 0; x < n; x++)
        if (key + x >= query && key + x < query + queries)
            score[(key + x - query) * TILE_NR + x] = scale > 0 ? -INFINITY : INFINITY;
}

/* score goes from q k^T to p, slope from dy v^T to ds. */
static void backward_softmax(float *restrict score, float *restrict slope, float scale,
                             const float *restrict lse, const float *restrict delta,
                             int64_t queries)
{
    for (int64_t i = 0; i < queries; i++)
        for (int x = 0; x < TILE_NR; x++) {
            float p = vexp_weight(scale * score[i * TILE_NR + x] - lse[i]);
            score[i * TILE_NR + x] = p;
            slope[i * TILE_NR + x] = p * (scale * slope[i * TILE_NR + x] - delta[i]);
        }
}

/* One block of queries against one panel of keys. */
static void backward_panel(const Backward *b, BackwardWork *w, int64_t panel, int64_t query,
                           int64_t queries, int64_t key, const float *lse, bool add)
{
    int64_t width = b->d.width, n = gemm_min(TILE_NR, b->d.lk - key);
    size_t  from = (size_t)panel * b->b_floats, to = (size_t)panel * b->c_floats;
    TileProduct rows = { .m = queries, .n = n, .k = width, .ldc = TILE_NR,
                         .ahead = &w->ahead };
    TileProduct columns = { .m = width, .n = n, .k = queries, .ldc = TILE_NR, .add = add,
                            .ahead = &w->ahead };
    rows.a = w->q, rows.b = w->k + from, rows.c = w->score;
    tile_product(b->amx, &rows);
    if (b->mask_diagonal)
        backward_mask(w->score, b->scale, query, queries, key, n);
    rows.a = w->dy, rows.b = w->v + from, rows.c = w->slope;
    tile_product(b->amx, &rows);
    backward_softmax(w->score, w->slope, b->scale, lse + query, w->delta + query, queries);
    if (b->want_v) {
        columns.a = w->dy_columns, columns.b = tile_b_score(b->amx, w->score, queries, w->pairs);
        columns.c = w->dv + to;
        tile_product(b->amx, &columns);
    }
    if (b->want_k || b->want_t) {
        columns.a = w->q_columns, columns.b = tile_b_score(b->amx, w->slope, queries, w->pairs);
        columns.c = w->dk + to;
        tile_product(b->amx, &columns);
    }
}

/* dq[query..] (+)= ds k over the keys of the group. */
static void backward_dq(const Backward *b, BackwardWork *w, int64_t queries, int64_t keys,
                        float *dq, int64_t ld, bool add)
{
    const float *k = w->k_columns;
    for (int64_t c = 0; c < b->d.width; c += TILE_NR, k += tile_b_floats(b->amx, keys))
        tile_product(b->amx, &(TileProduct){
            .a = w->slope_rows, .b = k, .c = dq + c, .m = queries,
            .n = gemm_min(TILE_NR, b->d.width - c), .k = keys, .ldc = ld, .add = add,
            .from_score = true });
}

/* Packs the keys and values of a group, for q k^T, dy v^T and ds k. */
static void backward_load_keys(const Backward *b, const BackwardWork *w, int64_t head, int64_t key,
                               int64_t keys)
{
    HeadRows k = attention_rows(&b->k, &b->d, head), v = attention_rows(&b->v, &b->d, head);
    int64_t  width = b->d.width;
    for (int64_t i = 0; i < keys; i += TILE_NR) {
        int64_t n = gemm_min(TILE_NR, keys - i);
        size_t  at = (size_t)(i / TILE_NR) * b->b_floats;
        tile_b_rows(b->amx, &k, key + i, n, width, w->staging, w->k + at);
        tile_b_rows(b->amx, &v, key + i, n, width, w->staging, w->v + at);
    }
    tile_b_columns(b->amx, &k, key, keys, width, w->staging, w->k_columns);
}

static void backward_load_queries(const Backward *b, const BackwardWork *w, int64_t head,
                                  int64_t query, int64_t queries)
{
    HeadRows q = attention_rows(&b->q, &b->d, head), dy = attention_rows(&b->dy, &b->d, head);
    int64_t  width = b->d.width;
    tile_a_rows(b->amx, &q, query, queries, width, w->staging, w->q);
    tile_a_columns(b->amx, &q, query, queries, width, w->staging, w->q_columns);
    tile_a_rows(b->amx, &dy, query, queries, width, w->staging, w->dy);
    tile_a_columns(b->amx, &dy, query, queries, width, w->staging, w->dy_columns);
}

/* The sum of k * dk over a panel: its part of the temperature's gradient. */
static double backward_temperature(const Backward *b, const HeadRows *k, const float *dk,
                                   int64_t key, int64_t n)
{
    double temperature_sum = 0;
    for (int64_t x = 0; x < n; x++)
        for (int64_t c = 0; c < b->d.width; c++) {
            float one;
            temperature_sum += (double)*row_load(k->type, k->data, (key + x) * k->ld + c, 1, &one) *
                    (double)dk[c * TILE_NR + x];
        }
    return temperature_sum;
}

static void backward_finish_keys(const Backward *b, const BackwardWork *w, int64_t head,
                                 int64_t from, int64_t to)
{
    HeadRows dk = attention_rows(&b->dk, &b->d, head), dv = attention_rows(&b->dv, &b->d, head);
    HeadRows k = attention_rows(&b->k, &b->d, head);
    for (int64_t p = from; p < to; p++) {
        size_t  at = (size_t)(p - from) * b->c_floats;
        int64_t key = p * TILE_NR, n = gemm_min(TILE_NR, b->d.lk - key);
        if (b->want_t)
            b->temperature_sums[head * b->panels + p] = backward_temperature(b, &k, w->dk + at, key,
                                                                             n);
        if (b->want_k)
            tile_store_transposed(w->dk + at, n, b->d.width, &dk, key, w->transposed);
        if (b->want_v)
            tile_store_transposed(w->dv + at, n, b->d.width, &dv, key, w->transposed);
    }
}

/* Panels [from, to) of one head against all its queries; sums into the given dq. */
static void backward_group(const Backward *b, BackwardWork *w, int64_t head, int64_t from,
                           int64_t to, float *dq, int64_t ld, bool add)
{
    int64_t key = from * TILE_NR, keys = gemm_min(to * TILE_NR, b->d.lk) - key;
    backward_load_keys(b, w, head, key, keys);
    for (int64_t query = 0; query < b->d.lq; query += b->queries) {
        int64_t queries = gemm_min(b->queries, b->d.lq - query);
        backward_load_queries(b, w, head, query, queries);
        for (int64_t p = from; p < to; p++) {
            backward_panel(b, w, p - from, query, queries, p * TILE_NR, b->lse + head * b->d.lq,
                           query > 0);
            if (b->want_q)
                tile_a_score(b->amx, w->slope, queries, (p - from) * TILE_NR,
                             gemm_min(TILE_NR, b->d.lk - p * TILE_NR), keys, w->slope_rows);
        }
        if (b->want_q)
            backward_dq(b, w, queries, keys, dq + query * ld, ld, add);
    }
    backward_finish_keys(b, w, head, from, to);
}

/* The range of (head, panel) of one thread. */
static void backward_run(const Backward *b, int thread)
{
    BackwardWork w = backward_work(b, thread);
    int64_t      from, to;
    parallel_range(b->d.n_heads * b->panels, 1, thread, b->threads, &from, &to);
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
        tile_ahead_start(&w.ahead, &b->d, head + 1,
                         (const AttentionSide *[]){ &b->q, &b->k, &b->v, &b->y, &b->dy }, 5);
        for (int64_t p = first; p < last; p += b->group)
            backward_group(b, &w, head, p, gemm_min(p + b->group, last), dq, ld, p > first);
        if (b->want_q && !b->dq_direct && first == 0 && last == b->panels)
            for (int64_t i = 0; i < b->d.lq; i++)
                convert_rows(rows.type, rows.data + i * rows.ld * type_bytes(rows.type), F32,
                             w.dq + i * b->d.wide, (size_t)b->d.width);
        from += last - first;
    }
}

/* Adds up dq of the heads that are divided between threads; each thread takes some rows. */
static void backward_join(const Backward *b, int thread)
{
    int64_t from, to, row, row_end, owner = 0;
    parallel_range(b->d.lq, 1, thread, b->threads, &row, &row_end);
    for (int t = 1; t < b->threads; t++) {
        parallel_range(b->d.n_heads * b->panels, 1, t, b->threads, &from, &to);
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
                convert_rows(rows.type, rows.data + i * rows.ld * type_bytes(rows.type), F32,
                             dq + i * ld, (size_t)b->d.width);
        }
        owner = ends ? t : owner;            /* the next divided head begins in this thread */
    }
}

Err attention_grad_choose(const Node *n, const Device *device, Choice *choice)
{
    Backward b;
    choice->algo[0] = attention_dims(n).type == BF16 && amx_ready() &&
                      in_type(n, ATTENTION_INPUTS + 2) == BF16;
    backward_plan(n, device->threads, choice->algo[0], &b);
    choice->workspace_bytes = b.temperature_bytes +
                              (size_t)b.threads * b.thread_floats * sizeof(float);
    choice->name = choice->algo[0] ? amx_word("bf16", "amx") : "builtin";
    return OK;
}

Err attention_grad_cpu(const Call *call)
{
    const Node          *n = call->node;
    const AttentionAttr *a = ATTR(n, AttentionAttr);
    Backward b;
    backward_plan(n, call->device->threads, call->choice->algo[0], &b);
    b.q = attention_side(n, a->q, call->in), b.dq = attention_side(n, a->q, call->out);
    b.k = attention_side(n, a->k, call->in), b.dk = attention_side(n, a->k, call->out);
    b.v = attention_side(n, a->v, call->in), b.dv = attention_side(n, a->v, call->out);
    b.y = attention_side_y(n, call->in[ATTENTION_INPUTS]);
    b.lse = call->in[ATTENTION_INPUTS + 1];
    b.dy = attention_side_y(n, call->in[ATTENTION_INPUTS + 2]);
    b.dy.type = in_type(n, ATTENTION_INPUTS + 2);
    b.scale = attention_scale(n, call->in);
    b.temperature_sums = call->workspace;
    b.work = (float *)((char *)call->workspace + b.temperature_bytes);

#pragma omp parallel num_threads(b.threads)
    {
        if (b.amx)
            amx_begin();
        backward_run(&b, omp_get_thread_num());
        if (b.amx)
            amx_end();
        if (b.split && b.want_q) {
#pragma omp barrier
            backward_join(&b, omp_get_thread_num());
        }
    }
    if (b.want_t) {
        double sum = 0;
        for (int64_t i = 0; i < b.d.n_heads * b.panels; i++)
            sum += b.temperature_sums[i];
        *(float *)call->out[ATTENTION_TEMPERATURE] = (float)sum;
    }
    return OK;
}
