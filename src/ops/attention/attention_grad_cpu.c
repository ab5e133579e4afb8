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
 * Heads of q that share a head of k and v follow each other as if they were one long sequence of
 * queries; "head" above is then that of k and v. With a causal mask, tiles whose keys all come after
 * their queries are left out.
 *
 * A temperature t (scale = exp t) has the gradient sum(ds * score) = sum(k * dk): one partial sum
 * per panel, added in the order of panels.
 */
#include "device/convert.h"
#include "ops/attention/attention_tile.h"
#include "ops/parallel.h"
#include "ops/elementwise/vmath.h"

#include <string.h>

enum { BACKWARD_GROUP = 8, BACKWARD_QUERIES = 112 }; /* 8 panels of floats, 7 tiles of AMX */

typedef struct Backward {
    AttentionDims d;
    AttentionSide q, k, v, y, dy, dq, dk, dv;
    AttentionForm form;
    const float  *lse;
    float         scale;
    bool          want_q, want_k, want_v, want_t;
    bool          dq_direct; /* dq is summed in the output: fp32, rows of whole vectors */
    bool          amx;
    bool          split; /* some head is divided between threads */
    int           threads;
    int64_t       kv_heads; /* of all samples */
    int64_t       panels, group, queries;
    double       *temperature_sums; /* [kv_heads][panels]: partial sums of its gradient */
    float        *work;             /* [threads][thread_floats] */
    size_t        k_floats, v_floats, dk_floats, dv_floats, q_floats, dy_floats;
    size_t        q_columns_floats, dy_columns_floats, score_floats, pair_floats;
    size_t slope_floats, staging_floats, keys_floats, dq_floats, thread_floats, temperature_bytes;
} Backward;

typedef struct BackwardWork {         /* buffers of one thread; A, B: left- and right-hand sides */
    float    *k, *v;                  /* B: [group], keys are lanes */
    float    *dk, *dv;                /* [group][width][32] */
    bool      begun[BACKWARD_GROUP];  /* dk and dv hold sums already */
    float    *k_columns;              /* B: columns are lanes */
    float    *q, *dy;                 /* A: rows are the queries of a block */
    float    *q_columns, *dy_columns; /* A: rows are the columns of a block */
    float    *score, *slope;          /* [queries][32]: p, ds */
    float    *pairs;                  /* B: score or slope */
    float    *slope_rows;             /* A: ds of a block of queries against a group of keys */
    float    *delta;                  /* [share][lq] */
    float    *staging, *transposed;
    float    *dq;       /* [share][lq][wide], unless dq_direct */
    float    *dq_front; /* [share][lq][wide]: the head that an earlier thread begins */
    TileAhead ahead;    /* prefetches the next head */
} BackwardWork;

static void backward_plan(const Node *n, int threads, bool amx, Backward *b)
{
    const AttentionAttr *a = ATTR(n, AttentionAttr);
    *b = (Backward){ .d = attention_dims(n),
                     .amx = amx,
                     .want_q = a->wants[a->q.source],
                     .want_k = a->wants[a->k.source],
                     .want_v = a->wants[a->v.source],
                     .want_t = a->wants[ATTENTION_TEMPERATURE] };
    const AttentionDims *d = &b->d;
    b->panels = (d->lk + TILE_NR - 1) / TILE_NR;
    b->kv_heads = d->n_heads / d->share;
    b->threads = (int)int_min(threads, b->kv_heads * b->panels);
    b->split = b->kv_heads % b->threads != 0;
    b->dq_direct = d->type == F32 && d->wide == d->width;
    int64_t max_group = int_min(int_max(512 / d->width, 1), BACKWARD_GROUP); /* fits in L2 */
    int64_t groups = ceil_div(b->panels, max_group);
    b->group = ceil_div(b->panels, groups);
    b->queries = int_min(BACKWARD_QUERIES, d->lq);

    int64_t keys = b->group * TILE_NR;
    int64_t wider = int_max(d->width, d->v_width);
    b->k_floats = tile_b_floats(amx, d->width);
    b->v_floats = tile_b_floats(amx, d->v_width);
    b->dk_floats = (size_t)(tile_c_rows(amx, d->width) * TILE_NR);
    b->dv_floats = (size_t)(tile_c_rows(amx, d->v_width) * TILE_NR);
    b->keys_floats = (size_t)((d->width + TILE_NR - 1) / TILE_NR) * tile_b_floats(amx, keys);
    b->q_floats = tile_a_floats(amx, b->queries, d->width);
    b->dy_floats = tile_a_floats(amx, b->queries, d->v_width);
    b->q_columns_floats = tile_a_floats(amx, d->width, b->queries);
    b->dy_columns_floats = tile_a_floats(amx, d->v_width, b->queries);
    b->score_floats = (size_t)(tile_c_rows(amx, b->queries) * TILE_NR);
    b->pair_floats = amx ? tile_b_floats(amx, b->queries) : 0;
    b->slope_floats = b->want_q ? tile_a_floats(amx, b->queries, keys) : 0;
    b->staging_floats = tile_staging_floats(amx, d->type, b->queries, wider);
    b->dq_floats = b->want_q ? (size_t)(tile_c_rows(amx, d->lq) * d->wide) : 0;
    size_t dq = (size_t)d->share * b->dq_floats;
    b->thread_floats = (size_t)b->group *
                           (b->k_floats + b->v_floats + b->dk_floats + b->dv_floats) +
                       b->keys_floats + b->q_floats + b->dy_floats + b->q_columns_floats +
                       b->dy_columns_floats + 2 * b->score_floats + b->pair_floats +
                       b->slope_floats + tile_round(d->share * d->lq) + b->staging_floats +
                       tile_transpose_floats(wider) + (b->dq_direct ? 0 : dq) + (b->split ? dq : 0);
    b->temperature_bytes = b->want_t ? (size_t)align_up(b->kv_heads * b->panels * 8, 64) : 0;
}

static BackwardWork backward_work(const Backward *b, int thread)
{
    float       *at = b->work + (size_t)thread * b->thread_floats;
    size_t       group = (size_t)b->group, dq = (size_t)b->d.share * b->dq_floats;
    BackwardWork w = { .ahead = { .n = 0 } };
    w.k = at, at += group * b->k_floats;
    w.v = at, at += group * b->v_floats;
    w.dk = at, at += group * b->dk_floats;
    w.dv = at, at += group * b->dv_floats;
    w.k_columns = at, at += b->keys_floats;
    w.q = at, at += b->q_floats;
    w.dy = at, at += b->dy_floats;
    w.q_columns = at, at += b->q_columns_floats;
    w.dy_columns = at, at += b->dy_columns_floats;
    w.score = at, at += b->score_floats;
    w.slope = at, at += b->score_floats;
    w.pairs = at, at += b->pair_floats;
    w.slope_rows = at, at += b->slope_floats;
    w.delta = at, at += tile_round(b->d.share * b->d.lq);
    w.staging = at, at += b->staging_floats;
    w.transposed = at, at += tile_transpose_floats(int_max(b->d.width, b->d.v_width));
    w.dq = at, at += b->dq_direct ? 0 : dq;
    w.dq_front = at;
    return w;
}

/* scale * rowsum(dy * y) for all queries of a head. */
static void backward_delta(const Backward *b, int64_t head, float *delta)
{
    HeadRows y = attention_rows(&b->y, &b->d, head), dy = attention_rows(&b->dy, &b->d, head);
    float    part_y[256], part_dy[256];
    for (int64_t i = 0; i < b->d.lq; i++) {
        float sum = 0;
        for (int64_t c = 0; c < b->d.v_width; c += 256) {
            int64_t      n = int_min(256, b->d.v_width - c);
            const float *py = row_load(y.type, y.data, i * y.ld + c, n, part_y);
            const float *pd = row_load(dy.type, dy.data, i * dy.ld + c, n, part_dy);
#pragma omp simd reduction(+ : sum)
            for (int64_t x = 0; x < n; x++)
                sum += py[x] * pd[x];
        }
        delta[i] = b->scale * sum;
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

/* The same with masks, bias and dropout: p becomes the probability that multiplied v. */
static void backward_softmax_form(const Backward *b, const BackwardWork *w, int64_t head,
                                  int64_t query, int64_t queries, int64_t key, int64_t n,
                                  const float *restrict lse, const float *restrict delta)
{
    float keep[TILE_NR], scale = b->scale;
    for (int x = 0; x < TILE_NR; x++)
        keep[x] = 1;
    for (int64_t i = 0; i < queries; i++) {
        float *restrict score = w->score + i * TILE_NR, *restrict slope = w->slope + i * TILE_NR;
        form_row(&b->form, head, query + i, key, n, scale, score);
        if (b->form.dropout > 0)
            form_keep(&b->form, head, query + i, key, n, keep);
        for (int x = 0; x < TILE_NR; x++) {
            float p = vexp_weight(score[x] - lse[i]);
            score[x] = p * keep[x];
            slope[x] = p * (scale * slope[x] * keep[x] - delta[i]);
        }
    }
}

/* One block of queries against one panel of keys. */
static void backward_panel(const Backward *b, BackwardWork *w, int64_t panel, int64_t head,
                           int64_t query, int64_t queries, int64_t key)
{
    int64_t      n = int_min(TILE_NR, b->d.lk - key);
    const float *lse = b->lse + head * b->d.lq + query;
    const float *delta = w->delta + head % b->d.share * b->d.lq + query;
    TileProduct  rows = { .m = queries, .n = n, .ldc = TILE_NR, .ahead = &w->ahead };
    TileProduct  columns = {
         .n = n, .k = queries, .ldc = TILE_NR, .add = w->begun[panel], .ahead = &w->ahead
    };
    rows.a = w->q, rows.b = w->k + (size_t)panel * b->k_floats, rows.c = w->score;
    rows.k = b->d.width;
    tile_product(b->amx, &rows);
    if (b->form.plain && b->form.mask_diagonal)
        backward_mask(w->score, b->scale, query, queries, key, n);
    rows.a = w->dy, rows.b = w->v + (size_t)panel * b->v_floats, rows.c = w->slope;
    rows.k = b->d.v_width;
    tile_product(b->amx, &rows);
    if (b->form.plain)
        backward_softmax(w->score, w->slope, b->scale, lse, delta, queries);
    else
        backward_softmax_form(b, w, head, query, queries, key, n, lse, delta);
    if (b->want_v) {
        columns.a = w->dy_columns, columns.b = tile_b_score(b->amx, w->score, queries, w->pairs);
        columns.c = w->dv + (size_t)panel * b->dv_floats, columns.m = b->d.v_width;
        tile_product(b->amx, &columns);
    }
    if (b->want_k || b->want_t) {
        columns.a = w->q_columns, columns.b = tile_b_score(b->amx, w->slope, queries, w->pairs);
        columns.c = w->dk + (size_t)panel * b->dk_floats, columns.m = b->d.width;
        tile_product(b->amx, &columns);
    }
    w->begun[panel] = true;
}

/* dq[query..] (+)= ds k over the keys of the group. */
static void backward_dq(const Backward *b, BackwardWork *w, int64_t queries, int64_t keys,
                        float *dq, int64_t ld, bool add)
{
    const float *k = w->k_columns;
    for (int64_t c = 0; c < b->d.width; c += TILE_NR, k += tile_b_floats(b->amx, keys))
        tile_product(b->amx, &(TileProduct){ .a = w->slope_rows,
                                             .b = k,
                                             .c = dq + c,
                                             .m = queries,
                                             .n = int_min(TILE_NR, b->d.width - c),
                                             .k = keys,
                                             .ldc = ld,
                                             .add = add,
                                             .from_score = true });
}

/* Packs the keys and values of a group, for q k^T, dy v^T and ds k. */
static void backward_load_keys(const Backward *b, const BackwardWork *w, int64_t head, int64_t key,
                               int64_t keys)
{
    HeadRows k = attention_rows(&b->k, &b->d, head), v = attention_rows(&b->v, &b->d, head);
    int64_t  width = b->d.width;
    for (int64_t i = 0; i < keys; i += TILE_NR) {
        int64_t n = int_min(TILE_NR, keys - i);
        size_t  panel = (size_t)(i / TILE_NR);
        tile_b_rows(b->amx, &k, key + i, n, width, w->staging, w->k + panel * b->k_floats);
        tile_b_rows(b->amx, &v, key + i, n, b->d.v_width, w->staging, w->v + panel * b->v_floats);
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
    tile_a_rows(b->amx, &dy, query, queries, b->d.v_width, w->staging, w->dy);
    tile_a_columns(b->amx, &dy, query, queries, b->d.v_width, w->staging, w->dy_columns);
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
        float  *pk = w->dk + (size_t)(p - from) * b->dk_floats;
        float  *pv = w->dv + (size_t)(p - from) * b->dv_floats;
        int64_t key = p * TILE_NR, n = int_min(TILE_NR, b->d.lk - key);
        if (!w->begun[p - from]) { /* no query sees these keys */
            memset(pk, 0, b->dk_floats * sizeof(float));
            memset(pv, 0, b->dv_floats * sizeof(float));
        }
        if (b->want_t)
            b->temperature_sums[head / b->d.share * b->panels + p] = backward_temperature(b, &k, pk,
                                                                                          key, n);
        if (b->want_k)
            tile_store_transposed(pk, n, b->d.width, &dk, key, w->transposed);
        if (b->want_v)
            tile_store_transposed(pv, n, b->d.v_width, &dv, key, w->transposed);
    }
}

typedef struct BackwardSums { /* where dq of a head of k and v is summed */
    float  *dq;
    int64_t ld;
    size_t  step; /* floats between heads of q */
} BackwardSums;

static BackwardSums backward_sums(const Backward *b, const BackwardWork *w, int64_t head,
                                  bool front)
{
    if (front || !b->dq_direct)
        return (BackwardSums){ front ? w->dq_front : w->dq, b->d.wide, b->dq_floats };
    HeadRows rows = attention_rows(&b->dq, &b->d, head);
    return (BackwardSums){ (float *)rows.data, rows.ld, (size_t)b->dq.head_stride };
}

/* A panel without scores, as part of the left-hand side of ds k. */
static void backward_no_slope(const Backward *b, const BackwardWork *w, int64_t queries, int64_t k,
                              int64_t n, int64_t keys)
{
    memset(w->slope, 0, b->score_floats * sizeof(float));
    tile_a_score(b->amx, w->slope, queries, k, n, keys, w->slope_rows);
}

/* One block of queries against the panels [from, to). */
static void backward_block(const Backward *b, BackwardWork *w, int64_t head, int64_t query,
                           int64_t from, int64_t to, const BackwardSums *sums, bool add)
{
    int64_t key = from * TILE_NR, keys = int_min(to * TILE_NR, b->d.lk) - key;
    int64_t queries = int_min(b->queries, b->d.lq - query);
    float  *dq = sums->dq + (size_t)(head % b->d.share) * sums->step + query * sums->ld;
    if (b->form.causal && key >= query + queries) { /* all masked */
        for (int64_t i = 0; i < queries && b->want_q && !add; i++)
            memset(dq + i * sums->ld, 0, (size_t)b->d.width * sizeof(float));
        return;
    }
    backward_load_queries(b, w, head, query, queries);
    for (int64_t p = from; p < to; p++) {
        int64_t n = int_min(TILE_NR, b->d.lk - p * TILE_NR);
        if (b->form.causal && p * TILE_NR >= query + queries) {
            if (b->want_q)
                backward_no_slope(b, w, queries, (p - from) * TILE_NR, n, keys);
            continue;
        }
        backward_panel(b, w, p - from, head, query, queries, p * TILE_NR);
        if (b->want_q)
            tile_a_score(b->amx, w->slope, queries, (p - from) * TILE_NR, n, keys, w->slope_rows);
    }
    if (b->want_q)
        backward_dq(b, w, queries, keys, dq, sums->ld, add);
}

/* Panels [from, to) of a head of k and v against all its queries. `head` is its first head of q. */
static void backward_group(const Backward *b, BackwardWork *w, int64_t head, int64_t from,
                           int64_t to, const BackwardSums *sums, bool add)
{
    int64_t key = from * TILE_NR, keys = int_min(to * TILE_NR, b->d.lk) - key;
    for (int64_t p = from; p < to; p++)
        w->begun[p - from] = false;
    backward_load_keys(b, w, head, key, keys);
    for (int64_t i = 0; i < b->d.share; i++)
        for (int64_t query = 0; query < b->d.lq; query += b->queries)
            backward_block(b, w, head + i, query, from, to, sums, add);
    backward_finish_keys(b, w, head, from, to);
}

static void backward_store_row(const HeadRows *rows, int64_t i, const float *dq, int64_t width)
{
    convert_rows(rows->type, rows->data + i * rows->ld * type_bytes(rows->type), F32, dq,
                 (size_t)width);
}

/* The range of (head of k and v, panel) of one thread. */
static void backward_run(const Backward *b, int thread)
{
    BackwardWork w = backward_work(b, thread);
    int64_t      from, to, share = b->d.share;
    parallel_range(b->kv_heads * b->panels, 1, thread, b->threads, &from, &to);
    while (from < to) {
        int64_t      first = from % b->panels, last = int_min(first + to - from, b->panels);
        int64_t      head = from / b->panels * share;
        BackwardSums sums = backward_sums(b, &w, head, first > 0);
        for (int64_t i = 0; i < share; i++)
            backward_delta(b, head + i, w.delta + i * b->d.lq);
        tile_ahead_start(&w.ahead, &b->d, head + share,
                         (const AttentionSide *[]){ &b->q, &b->k, &b->v, &b->y, &b->dy }, 5);
        for (int64_t p = first; p < last; p += b->group)
            backward_group(b, &w, head, p, int_min(p + b->group, last), &sums, p > first);
        for (int64_t i = 0; i < share && b->want_q && !b->dq_direct; i++) {
            HeadRows rows = attention_rows(&b->dq, &b->d, head + i);
            if (first == 0 && last == b->panels)
                for (int64_t row = 0; row < b->d.lq; row++)
                    backward_store_row(
                        &rows, row, w.dq + (size_t)i * b->dq_floats + row * b->d.wide, b->d.width);
        }
        from += last - first;
    }
}

/* Adds up dq of the heads that are divided between threads; each thread takes some rows. */
static void backward_join(const Backward *b, int thread)
{
    int64_t from, to, row, row_end, owner = 0, share = b->d.share;
    parallel_range(b->d.lq, 1, thread, b->threads, &row, &row_end);
    for (int t = 1; t < b->threads; t++) {
        parallel_range(b->kv_heads * b->panels, 1, t, b->threads, &from, &to);
        int64_t head = from / b->panels * share;
        if (from % b->panels == 0 || to == from) {
            owner = t;
            continue;
        }
        bool         ends = to >= (head / share + 1) * b->panels;
        BackwardWork mine = backward_work(b, (int)owner), other = backward_work(b, t);
        BackwardSums sums = backward_sums(b, &mine, head, false);
        for (int64_t h = 0; h < share; h++) {
            HeadRows rows = attention_rows(&b->dq, &b->d, head + h);
            float   *dq = sums.dq + (size_t)h * sums.step;
            float   *more = other.dq_front + (size_t)h * b->dq_floats;
            for (int64_t i = row; i < row_end; i++) {
                for (int64_t c = 0; c < b->d.width; c++)
                    dq[i * sums.ld + c] += more[i * b->d.wide + c];
                if (ends && !b->dq_direct)
                    backward_store_row(&rows, i, dq + i * sums.ld, b->d.width);
            }
        }
        owner = ends ? t : owner; /* the next divided head begins in this thread */
    }
}

Err attention_grad_choose(const Node *n, const Device *device, Choice *choice)
{
    Backward b;
    choice->algo[0] = attention_dims(n).type == BF16 && amx_ready() &&
                      in_type(n, attention_kept(n) + 2) == BF16;
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
    Backward             b;
    backward_plan(n, call->device->threads, call->choice->algo[0], &b);
    b.q = attention_side(n, a->q, call->in), b.dq = attention_side(n, a->q, call->out);
    b.k = attention_side(n, a->k, call->in), b.dk = attention_side(n, a->k, call->out);
    b.v = attention_side(n, a->v, call->in), b.dv = attention_side(n, a->v, call->out);
    b.y = attention_side_y(n, call->in[attention_kept(n)]);
    b.lse = call->in[attention_kept(n) + 1];
    b.dy = attention_side_y(n, call->in[attention_kept(n) + 2]);
    b.dy.type = in_type(n, attention_kept(n) + 2);
    b.scale = attention_scale(n, call->in);
    b.form = attention_form(n, call->in);
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
        for (int64_t i = 0; i < b.kv_heads * b.panels; i++)
            sum += b.temperature_sums[i];
        *(float *)call->out[ATTENTION_TEMPERATURE] = (float)sum;
    }
    return OK;
}
