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

enum { STORED_BLOCK = 128 };     /* queries or keys; fits in one block of gemm_tile */

typedef struct Stored {
    AttentionDims d;
    AttentionSide q, k, v, y, dq, dk, dv;    /* y: dy in backward */
    char         *p;             /* [n_heads][lq][lk] in d.type */
    float        *delta;         /* [n_heads][lq] */
    double       *temperature_sums;  /* [n_heads][key blocks]: partial sums of its gradient */
    float         scale;
    bool          mask_diagonal, want_t;
    size_t        row_floats, side_floats, gemm_floats, thread_floats, delta_floats;
    float        *work;
} Stored;

typedef struct StoredWork {      /* buffers of one thread */
    float *row, *more;           /* [STORED_BLOCK][lk] */
    float *a, *b, *sum, *sum_2;  /* [STORED_BLOCK][width] */
    void  *gemm;
} StoredWork;

static void stored_plan(const Node *n, Stored *s)
{
    const AttentionAttr *a = ATTR(n, AttentionAttr);
    *s = (Stored){ .d = attention_dims(n), .mask_diagonal = a->mask_diagonal,
                   .want_t = a->wants[ATTENTION_TEMPERATURE] };
    size_t bytes = gemm_tile_workspace(STORED_BLOCK, STORED_BLOCK, s->d.width);
    size_t other = gemm_tile_workspace(STORED_BLOCK, s->d.width, STORED_BLOCK);
    s->gemm_floats = tile_round((int64_t)((bytes > other ? bytes : other) / sizeof(float)));
    s->row_floats = tile_round(STORED_BLOCK * s->d.lk);
    s->side_floats = tile_round(STORED_BLOCK * s->d.width);
    s->thread_floats = 2 * s->row_floats + 4 * s->side_floats + s->gemm_floats;
    s->delta_floats = tile_round(s->d.n_heads * s->d.lq);
}

static StoredWork stored_work(const Stored *s, int thread)
{
    float *at = s->work + (size_t)thread * s->thread_floats;
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

static int64_t stored_blocks(int64_t length) { return (length + STORED_BLOCK - 1) / STORED_BLOCK; }

static int64_t stored_count(int64_t length, int64_t first)
{
    return gemm_min(STORED_BLOCK, length - first);
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

static void stored_forward_block(const Stored *s, const StoredWork *w, int64_t head, int64_t query)
{
    HeadRows q = attention_rows(&s->q, &s->d, head), k = attention_rows(&s->k, &s->d, head);
    HeadRows v = attention_rows(&s->v, &s->d, head), y = attention_rows(&s->y, &s->d, head);
    HeadRows p = stored_p(s, head);
    int64_t  width = s->d.width, lk = s->d.lk, queries = stored_count(s->d.lq, query), lda, ldb;
    const float *a = tile_load(&q, query, queries, width, w->a, &lda);
    for (int64_t key = 0; key < lk; key += STORED_BLOCK) {
        int64_t      keys = stored_count(lk, key);
        const float *b = tile_load(&k, key, keys, width, w->b, &ldb);
        gemm_tile(false, true, queries, keys, width, s->scale, a, lda, b, ldb, 0, w->row + key, lk,
                  w->gemm);
    }
    for (int64_t i = 0; i < queries; i++) {
        if (s->mask_diagonal)
            w->row[i * lk + query + i] = -INFINITY;
        stored_softmax(w->row + i * lk, lk);
    }
    stored_write(&p, query, queries, lk, w->row);
    for (int64_t key = 0; key < lk; key += STORED_BLOCK) {
        int64_t      keys = stored_count(lk, key);
        const float *b = tile_load(&v, key, keys, width, w->b, &ldb);
        gemm_tile(false, false, queries, width, keys, 1, w->row + key, lk, b, ldb, key > 0, w->sum,
                  width, w->gemm);
    }
    stored_write(&y, query, queries, width, w->sum);
}

/* dp = dy v^T of a block of queries and keys [key, key+keys). */
static void stored_dp(const Stored *s, const StoredWork *w, const float *dy, int64_t ld_dy,
                      int64_t queries,
                      const HeadRows *v, int64_t key, int64_t keys, float *dp, int64_t ld)
{
    int64_t      ldb;
    const float *b = tile_load(v, key, keys, s->d.width, w->b, &ldb);
    gemm_tile(false, true, queries, keys, s->d.width, 1, dy, ld_dy, b, ldb, 0, dp, ld, w->gemm);
}

/* delta and dq of a block of queries. */
static void stored_backward_queries(const Stored *s, const StoredWork *w, int64_t head,
                                    int64_t query)
{
    HeadRows k = attention_rows(&s->k, &s->d, head), v = attention_rows(&s->v, &s->d, head);
    HeadRows dy = attention_rows(&s->y, &s->d, head), dq = attention_rows(&s->dq, &s->d, head);
    HeadRows p = stored_p(s, head);
    int64_t  width = s->d.width, lk = s->d.lk, queries = stored_count(s->d.lq, query), lda, ldb;
    float   *delta = s->delta + head * s->d.lq + query;
    const float *a = tile_load(&dy, query, queries, width, w->a, &lda);
    for (int64_t key = 0; key < lk; key += STORED_BLOCK)
        stored_dp(s, w, a, lda, queries, &v, key, stored_count(lk, key), w->row + key, lk);
    for (int64_t i = 0; i < queries; i++) {
        float       *restrict dp = w->row + i * lk, sum = 0;
        const float *restrict pi = row_load(p.type, p.data, (query + i) * lk, lk, w->more);
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

/* dk and dv of a block of keys. */
static void stored_backward_keys(const Stored *s, const StoredWork *w, int64_t head, int64_t key)
{
    HeadRows q = attention_rows(&s->q, &s->d, head), k = attention_rows(&s->k, &s->d, head);
    HeadRows v = attention_rows(&s->v, &s->d, head), dy = attention_rows(&s->y, &s->d, head);
    HeadRows dk = attention_rows(&s->dk, &s->d, head), dv = attention_rows(&s->dv, &s->d, head);
    HeadRows p = stored_p(s, head);
    int64_t  width = s->d.width, lk = s->d.lk, keys = stored_count(lk, key), lda, ldb;
    for (int64_t query = 0; query < s->d.lq; query += STORED_BLOCK) {
        int64_t      queries = stored_count(s->d.lq, query);
        const float *delta = s->delta + head * s->d.lq + query;
        const float *a = tile_load(&dy, query, queries, width, w->a, &lda);
        stored_dp(s, w, a, lda, queries, &v, key, keys, w->row, keys);
        for (int64_t i = 0; i < queries; i++) {
            float *restrict dp = w->row + i * keys, *restrict pi = w->more + i * keys;
            convert_rows(F32, pi, p.type, p.data + ((query + i) * lk + key) * type_bytes(p.type),
                         (size_t)keys);
            for (int64_t j = 0; j < keys; j++)
                dp[j] = s->scale * pi[j] * (dp[j] - delta[i]);
        }
        gemm_tile(true, false, keys, width, queries, 1, w->more, keys, a, lda, query > 0, w->sum_2,
                  width, w->gemm);
        const float *b = tile_load(&q, query, queries, width, w->b, &ldb);
        gemm_tile(true, false, keys, width, queries, 1, w->row, keys, b, ldb, query > 0, w->sum,
                  width, w->gemm);
    }
    if (dv.data)
        stored_write(&dv, key, keys, width, w->sum_2);
    if (dk.data)
        stored_write(&dk, key, keys, width, w->sum);
    if (s->want_t) {
        const float *b = tile_load(&k, key, keys, width, w->b, &ldb);
        double       temperature_sum = 0;
        for (int64_t j = 0; j < keys; j++)
            for (int64_t c = 0; c < width; c++)
                temperature_sum += (double)(b[j * ldb + c] * w->sum[j * width + c]);
        s->temperature_sums[head * stored_blocks(lk) + key / STORED_BLOCK] = temperature_sum;
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
}

typedef void StoredBlock(const Stored *s, const StoredWork *w, int64_t head, int64_t first);

/* Runs `block` for the blocks of all heads, divided among the threads. */
static void stored_each(const Stored *s, StoredBlock *block, int64_t length, int threads)
{
    int64_t blocks = stored_blocks(length);
#pragma omp parallel num_threads(threads)
    {
        StoredWork w = stored_work(s, omp_get_thread_num());
        int64_t    from, to;
        parallel_range(s->d.n_heads * blocks, 1, omp_get_thread_num(), threads, &from, &to);
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
    stored_each(&s, stored_forward_block, s.d.lq, call->device->threads);
    return OK;
}

static size_t stored_temperature_bytes(const Stored *s)
{
    return s->want_t ? (size_t)gemm_round_up(s->d.n_heads * stored_blocks(s->d.lk) * 8, 64) : 0;
}

Err attention_stored_grad_choose(const Node *n, const Device *device, Choice *choice)
{
    Stored s;
    stored_plan(n, &s);
    choice->workspace_bytes = stored_temperature_bytes(&s) +
        ((size_t)device->threads * s.thread_floats + s.delta_floats) * sizeof(float);
    choice->name = "builtin";
    return OK;
}

Err attention_stored_grad_cpu(const Call *call)
{
    const Node          *n = call->node;
    const AttentionAttr *a = ATTR(n, AttentionAttr);
    Stored s;
    stored_plan(n, &s);
    stored_sides(call, &s, call->in[ATTENTION_INPUTS + 1], call->in[ATTENTION_INPUTS]);
    s.y.type = in_type(n, ATTENTION_INPUTS + 1);
    s.dq = attention_side(n, a->q, call->out);
    s.dk = attention_side(n, a->k, call->out);
    s.dv = attention_side(n, a->v, call->out);
    s.temperature_sums = call->workspace;
    s.delta = (float *)((char *)call->workspace + stored_temperature_bytes(&s));
    s.work = s.delta + s.delta_floats;
    stored_each(&s, stored_backward_queries, s.d.lq, call->device->threads);
    stored_each(&s, stored_backward_keys, s.d.lk, call->device->threads);
    if (s.want_t) {
        double sum = 0;
        for (int64_t i = 0; i < s.d.n_heads * stored_blocks(s.d.lk); i++)
            sum += s.temperature_sums[i];
        *(float *)call->out[ATTENTION_TEMPERATURE] = (float)sum;
    }
    return OK;
}
