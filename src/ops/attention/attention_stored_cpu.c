/* attention_stored_cpu.c -- attention that stores its probabilities, on the CPU.
 *
 * The plain form: scores, softmax, product, by blocks of queries; gradients from the stored
 * probabilities. attention_cpu.c is checked against it, in results and in memory. Backward takes
 * six products here; the tiled form takes five and recomputes the exponentials.
 *
 * Backward passes over the scores twice, so that one thread computes each result: by blocks of
 * queries for delta = rowsum(p * dp) and dq, then by blocks of keys for dk and dv.
 */
#include "device/convert.h"
#include "linalg/linalg.h"
#include "ops/attention/attention_tile.h"
#include "ops/parallel.h"
#include "ops/elementwise/vmath.h"

#include <string.h>

enum { STORED_BLOCK = 128 }; /* queries or keys; fits in one block of gemm_tile */

typedef struct Stored {
    AttentionDims d;
    AttentionSide q, k, v, y, dq, dk, dv; /* y: dy in backward */
    char         *p;                      /* [n_heads][lq][lk] in d.type */
    float        *delta;                  /* [n_heads][lq] */
    double       *temperature_sums;       /* [kv_heads][key blocks]: partial sums of its gradient */
    AttentionForm form;
    float         scale;
    bool          want_t;
    int64_t       kv_heads; /* of all samples */
    size_t        row_floats, side_floats, gemm_floats, thread_floats, delta_floats;
    float        *work;
} Stored;

typedef struct StoredWork {     /* buffers of one thread */
    float *row, *more;          /* [STORED_BLOCK][lk] */
    float *a, *b, *sum, *sum_2; /* [STORED_BLOCK][the wider width] */
    void  *gemm;
} StoredWork;

static void stored_plan(const Node *n, Stored *s)
{
    const AttentionAttr *a = ATTR(n, AttentionAttr);
    *s = (Stored){ .d = attention_dims(n), .want_t = a->wants[ATTENTION_TEMPERATURE] };
    int64_t wider = int_max(s->d.width, s->d.v_width);
    size_t  bytes = gemm_tile_workspace(STORED_BLOCK, STORED_BLOCK, wider);
    size_t  other = gemm_tile_workspace(STORED_BLOCK, wider, STORED_BLOCK);
    s->kv_heads = s->d.n_heads / s->d.share;
    s->gemm_floats = tile_round((int64_t)((bytes > other ? bytes : other) / sizeof(float)));
    s->row_floats = tile_round(STORED_BLOCK * s->d.lk);
    s->side_floats = tile_round(STORED_BLOCK * wider);
    s->thread_floats = 2 * s->row_floats + 4 * s->side_floats + s->gemm_floats;
    s->delta_floats = tile_round(s->d.n_heads * s->d.lq);
}

static StoredWork stored_work(const Stored *s, int thread)
{
    float     *at = s->work + (size_t)thread * s->thread_floats;
    StoredWork w;
    w.row = at, at += s->row_floats;
    w.more = at, at += s->row_floats;
    w.a = at, at += s->side_floats;
    w.b = at, at += s->side_floats;
    w.sum = at, at += s->side_floats;
    w.sum_2 = at, at += s->side_floats;
    w.gemm = at;
    return w;
}

static int64_t stored_blocks(int64_t length) { return ceil_div(length, STORED_BLOCK); }

static int64_t stored_count(int64_t length, int64_t first)
{
    return int_min(STORED_BLOCK, length - first);
}

static void stored_write(const HeadRows *dst, int64_t first, int64_t n, int64_t width,
                         const float *src)
{
    for (int64_t i = 0; i < n; i++)
        convert_rows(dst->type, dst->data + (first + i) * dst->ld * type_bytes(dst->type), F32,
                     src + i * width, (size_t)width);
}

static HeadRows stored_p(const Stored *s, int64_t head)
{
    return (HeadRows){ s->p + head * s->d.lq * s->d.lk * type_bytes(s->d.type), s->d.type,
                       s->d.lk };
}

static void stored_softmax(float *restrict row, int64_t n)
{
    float top = -INFINITY, sum = 0;
#pragma omp simd reduction(max : top)
    for (int64_t j = 0; j < n; j++)
        top = row[j] > top ? row[j] : top;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++) {
        row[j] = vexp(row[j] - top);
        sum += row[j];
    }
    for (int64_t j = 0; j < n; j++)
        row[j] /= sum;
}

/* Applies dropout to some keys of one query: to probabilities, or to gradients of dropped ones. */
static void stored_drop(const Stored *s, int64_t head, int64_t query, int64_t key, int64_t n,
                        float *row)
{
    float keep[FORM_KEYS];
    for (int64_t c = 0; c < n && s->form.dropout > 0; c += FORM_KEYS) {
        int64_t m = int_min(FORM_KEYS, n - c);
        form_keep(&s->form, head, query, key + c, m, keep);
        for (int64_t j = 0; j < m; j++)
            row[c + j] *= keep[j];
    }
}

/* One query: scaled scores to logits, probabilities, and those that multiply v. */
static void stored_softmax_form(const Stored *s, int64_t head, int64_t query, float *row, char *p)
{
    int64_t lk = s->d.lk;
    bool    sees = false;
    form_row(&s->form, head, query, 0, lk, 1, row);
    for (int64_t j = 0; j < lk; j++)
        sees |= row[j] > FORM_LOW;
    if (sees)
        stored_softmax(row, lk);
    else
        memset(row, 0, (size_t)lk * sizeof(float));
    convert_rows(s->d.type, p, F32, row, (size_t)lk);
    stored_drop(s, head, query, 0, lk, row);
}

static void stored_forward_block(const Stored *s, const StoredWork *w, int64_t head, int64_t query)
{
    HeadRows     q = attention_rows(&s->q, &s->d, head), k = attention_rows(&s->k, &s->d, head);
    HeadRows     v = attention_rows(&s->v, &s->d, head), y = attention_rows(&s->y, &s->d, head);
    HeadRows     p = stored_p(s, head);
    int64_t      width = s->d.width, v_width = s->d.v_width, lk = s->d.lk, lda, ldb;
    int64_t      queries = stored_count(s->d.lq, query);
    const float *a = tile_load(&q, query, queries, width, w->a, &lda);
    for (int64_t key = 0; key < lk; key += STORED_BLOCK) {
        int64_t      keys = stored_count(lk, key);
        const float *b = tile_load(&k, key, keys, width, w->b, &ldb);
        gemm_tile(false, true, queries, keys, width, s->scale, a, lda, b, ldb, 0, w->row + key, lk,
                  w->gemm);
    }
    for (int64_t i = 0; i < queries; i++) {
        if (!s->form.plain) {
            stored_softmax_form(s, head, query + i, w->row + i * lk,
                                p.data + (query + i) * lk * type_bytes(p.type));
            continue;
        }
        if (s->form.mask_diagonal)
            w->row[i * lk + query + i] = -INFINITY;
        stored_softmax(w->row + i * lk, lk);
    }
    if (s->form.plain)
        stored_write(&p, query, queries, lk, w->row);
    for (int64_t key = 0; key < lk; key += STORED_BLOCK) {
        int64_t      keys = stored_count(lk, key);
        const float *b = tile_load(&v, key, keys, v_width, w->b, &ldb);
        gemm_tile(false, false, queries, v_width, keys, 1, w->row + key, lk, b, ldb, key > 0,
                  w->sum, v_width, w->gemm);
    }
    stored_write(&y, query, queries, v_width, w->sum);
}

/* dp = dy v^T of a block of queries and keys [key, key+keys). */
static void stored_dp(const Stored *s, const StoredWork *w, const float *dy, int64_t ld_dy,
                      int64_t queries, const HeadRows *v, int64_t key, int64_t keys, float *dp,
                      int64_t ld)
{
    int64_t      ldb;
    const float *b = tile_load(v, key, keys, s->d.v_width, w->b, &ldb);
    gemm_tile(false, true, queries, keys, s->d.v_width, 1, dy, ld_dy, b, ldb, 0, dp, ld, w->gemm);
}

/* delta and dq of a block of queries. */
static void stored_backward_queries(const Stored *s, const StoredWork *w, int64_t head,
                                    int64_t query)
{
    HeadRows     k = attention_rows(&s->k, &s->d, head), v = attention_rows(&s->v, &s->d, head);
    HeadRows     dy = attention_rows(&s->y, &s->d, head), dq = attention_rows(&s->dq, &s->d, head);
    HeadRows     p = stored_p(s, head);
    int64_t      width = s->d.width, lk = s->d.lk, queries = stored_count(s->d.lq, query), lda, ldb;
    float       *delta = s->delta + head * s->d.lq + query;
    const float *a = tile_load(&dy, query, queries, s->d.v_width, w->a, &lda);
    for (int64_t key = 0; key < lk; key += STORED_BLOCK)
        stored_dp(s, w, a, lda, queries, &v, key, stored_count(lk, key), w->row + key, lk);
    for (int64_t i = 0; i < queries; i++) {
        float *restrict dp = w->row + i * lk, sum = 0;
        const float *restrict pi = row_load(p.type, p.data, (query + i) * lk, lk, w->more);
        stored_drop(s, head, query + i, 0, lk, dp);
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < lk; j++)
            sum += pi[j] * dp[j];
        delta[i] = sum;
        for (int64_t j = 0; j < lk; j++)
            dp[j] = s->scale * pi[j] * (dp[j] - sum);
    }
    if (!dq.data)
        return;
    for (int64_t key = 0; key < lk; key += STORED_BLOCK) {
        int64_t      keys = stored_count(lk, key);
        const float *b = tile_load(&k, key, keys, width, w->b, &ldb);
        gemm_tile(false, false, queries, width, keys, 1, w->row + key, lk, b, ldb, key > 0, w->sum,
                  width, w->gemm);
    }
    stored_write(&dq, query, queries, width, w->sum);
}

/* Adds one block of queries to dk (w->sum) and dv (w->sum_2) of a block of keys. */
static void stored_backward_pair(const Stored *s, const StoredWork *w, int64_t head, int64_t query,
                                 int64_t key, bool add)
{
    HeadRows     q = attention_rows(&s->q, &s->d, head), v = attention_rows(&s->v, &s->d, head);
    HeadRows     dy = attention_rows(&s->y, &s->d, head), p = stored_p(s, head);
    int64_t      width = s->d.width, v_width = s->d.v_width, lk = s->d.lk;
    int64_t      keys = stored_count(lk, key), queries = stored_count(s->d.lq, query), lda, ldb;
    const float *delta = s->delta + head * s->d.lq + query;
    const float *a = tile_load(&dy, query, queries, v_width, w->a, &lda);
    stored_dp(s, w, a, lda, queries, &v, key, keys, w->row, keys);
    for (int64_t i = 0; i < queries; i++) {
        float *restrict dp = w->row + i * keys, *restrict pi = w->more + i * keys;
        convert_rows(F32, pi, p.type, p.data + ((query + i) * lk + key) * type_bytes(p.type),
                     (size_t)keys);
        stored_drop(s, head, query + i, key, keys, dp);
        for (int64_t j = 0; j < keys; j++)
            dp[j] = s->scale * pi[j] * (dp[j] - delta[i]);
        stored_drop(s, head, query + i, key, keys, pi);
    }
    gemm_tile(true, false, keys, v_width, queries, 1, w->more, keys, a, lda, add, w->sum_2, v_width,
              w->gemm);
    const float *b = tile_load(&q, query, queries, width, w->b, &ldb);
    gemm_tile(true, false, keys, width, queries, 1, w->row, keys, b, ldb, add, w->sum, width,
              w->gemm);
}

/* dk and dv of a block of keys. */
static void stored_backward_keys(const Stored *s, const StoredWork *w, int64_t kv_head, int64_t key)
{
    int64_t  head = kv_head * s->d.share; /* its first head of q */
    HeadRows k = attention_rows(&s->k, &s->d, head);
    HeadRows dk = attention_rows(&s->dk, &s->d, head), dv = attention_rows(&s->dv, &s->d, head);
    int64_t  width = s->d.width, keys = stored_count(s->d.lk, key), ldb;
    for (int64_t i = 0; i < s->d.share; i++)
        for (int64_t query = 0; query < s->d.lq; query += STORED_BLOCK)
            stored_backward_pair(s, w, head + i, query, key, i > 0 || query > 0);
    if (dv.data)
        stored_write(&dv, key, keys, s->d.v_width, w->sum_2);
    if (dk.data)
        stored_write(&dk, key, keys, width, w->sum);
    if (s->want_t) {
        const float *b = tile_load(&k, key, keys, width, w->b, &ldb);
        double       temperature_sum = 0;
        for (int64_t j = 0; j < keys; j++)
            for (int64_t c = 0; c < width; c++)
                temperature_sum += (double)(b[j * ldb + c] * w->sum[j * width + c]);
        s->temperature_sums[kv_head * stored_blocks(s->d.lk) + key / STORED_BLOCK] =
            temperature_sum;
    }
}

static void stored_sides(const Call *call, Stored *s, void *y, void *p)
{
    const AttentionAttr *a = ATTR(call->node, AttentionAttr);
    s->q = attention_side(call->node, a->q, call->in);
    s->k = attention_side(call->node, a->k, call->in);
    s->v = attention_side(call->node, a->v, call->in);
    s->y = attention_side_y(call->node, y);
    s->p = p;
    s->scale = attention_scale(call->node, call->in);
    s->form = attention_form(call->node, call->in);
}

typedef void StoredBlock(const Stored *s, const StoredWork *w, int64_t head, int64_t first);

/* Runs `block` for the blocks of all heads, divided among the threads. */
static void stored_each(const Stored *s, StoredBlock *block, int64_t heads, int64_t length,
                        int threads)
{
    int64_t blocks = stored_blocks(length);
#pragma omp parallel num_threads(threads)
    {
        StoredWork w = stored_work(s, omp_get_thread_num());
        int64_t    from, to;
        parallel_range(heads * blocks, 1, omp_get_thread_num(), threads, &from, &to);
        for (; from < to; from++)
            block(s, &w, from / blocks, from % blocks * STORED_BLOCK);
    }
}

Err attention_stored_choose(const Node *n, const Device *device, Choice *choice)
{
    Stored s;
    stored_plan(n, &s);
    choice->workspace_bytes = (size_t)device->threads * s.thread_floats * sizeof(float);
    choice->name = "builtin";
    return OK;
}

Err attention_stored_cpu(const Call *call)
{
    Stored s;
    stored_plan(call->node, &s);
    stored_sides(call, &s, call->out[0], call->out[1]);
    s.work = call->workspace;
    stored_each(&s, stored_forward_block, s.d.n_heads, s.d.lq, call->device->threads);
    return OK;
}

static size_t stored_temperature_bytes(const Stored *s)
{
    return s->want_t ? (size_t)align_up(s->kv_heads * stored_blocks(s->d.lk) * 8, 64) : 0;
}

Err attention_stored_grad_choose(const Node *n, const Device *device, Choice *choice)
{
    Stored s;
    stored_plan(n, &s);
    choice->workspace_bytes = stored_temperature_bytes(&s) +
                              ((size_t)device->threads * s.thread_floats + s.delta_floats) *
                                  sizeof(float);
    choice->name = "builtin";
    return OK;
}

Err attention_stored_grad_cpu(const Call *call)
{
    const Node          *n = call->node;
    const AttentionAttr *a = ATTR(n, AttentionAttr);
    Stored               s;
    stored_plan(n, &s);
    stored_sides(call, &s, call->in[attention_kept(n) + 1], call->in[attention_kept(n)]);
    s.y.type = in_type(n, attention_kept(n) + 1);
    s.dq = attention_side(n, a->q, call->out);
    s.dk = attention_side(n, a->k, call->out);
    s.dv = attention_side(n, a->v, call->out);
    s.temperature_sums = call->workspace;
    s.delta = (float *)((char *)call->workspace + stored_temperature_bytes(&s));
    s.work = s.delta + s.delta_floats;
    stored_each(&s, stored_backward_queries, s.d.n_heads, s.d.lq, call->device->threads);
    stored_each(&s, stored_backward_keys, s.kv_heads, s.d.lk, call->device->threads);
    if (s.want_t) {
        double sum = 0;
        for (int64_t i = 0; i < s.kv_heads * stored_blocks(s.d.lk); i++)
            sum += s.temperature_sums[i];
        *(float *)call->out[ATTENTION_TEMPERATURE] = (float)sum;
    }
    return OK;
}
