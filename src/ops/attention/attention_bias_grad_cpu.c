/* attention_bias_grad_cpu.c -- gradient of attention's bias on the CPU.
 *
 * The bias is added to the logits, so its gradient is
 *
 *      ds = p * (dy v^T - delta)        delta = rowsum(dy * y)
 *
 * summed over the samples, heads and queries that share an entry. A thread has a block of entries
 * and adds up the scores that share it, in order. Where there are fewer blocks than threads, the
 * scores of a block are divided into parts, whose sums are added in order at the end.
 *
 * p is recomputed from the log-sum-exp, or read where attention_stored kept it.
 */
#include "device/convert.h"
#include "linalg/linalg.h"
#include "ops/attention/attention_tile.h"
#include "ops/elementwise/vmath.h"
#include "ops/parallel.h"

#include <string.h>

enum { BIAS_BLOCK = 128, BIAS_TASKS = 4 }; /* tasks per thread that are worth dividing for */

typedef struct BiasGrad {
    AttentionDims d;
    AttentionForm form;
    AttentionSide q, k, v, y, dy;
    const float  *lse;    /* or NULL: stored */
    const char   *stored; /* probabilities [n_heads][lq][lk] */
    float         scale;
    Shape         bias;
    int64_t       query_blocks, key_blocks; /* of the bias */
    int64_t       blocks;                   /* of entries */
    int64_t       shared;                   /* tiles of scores that share a block */
    int64_t       parts;
    float        *sums; /* [parts][entries], if there are several parts */
    void         *out;
    Type          type;
    size_t        sums_floats, tile_floats, side_floats, gemm_floats, thread_floats;
    float        *work;
} BiasGrad;

typedef struct BiasWork { /* buffers of one thread */
    float *score, *dp, *sum, *left, *right;
    void  *gemm;
} BiasWork;

typedef struct BiasTile { /* scores of one head */
    int64_t head, query, queries, key, keys;
} BiasTile;

static int64_t bias_blocks(int64_t n) { return ceil_div(n, BIAS_BLOCK); }

static void bias_plan(const Node *n, int threads, BiasGrad *g)
{
    *g = (BiasGrad){ .d = attention_dims(n), .bias = in_shape(n, ATTENTION_BIAS) };
    int64_t query_blocks = bias_blocks(g->d.lq), wider = int_max(g->d.width, g->d.v_width);
    bool    rows = g->bias.dim[2] > 1;
    g->query_blocks = rows ? query_blocks : 1;
    g->key_blocks = bias_blocks(g->d.lk);
    g->blocks = g->bias.dim[0] * g->bias.dim[1] * g->query_blocks * g->key_blocks;
    g->shared = g->d.n_heads / (g->bias.dim[0] * g->bias.dim[1]) * (rows ? 1 : query_blocks);
    g->parts = int_min(ceil_div(BIAS_TASKS * threads, g->blocks), g->shared);
    size_t bytes = gemm_tile_workspace(BIAS_BLOCK, BIAS_BLOCK, wider);
    g->gemm_floats = tile_round((int64_t)(bytes / sizeof(float)));
    g->tile_floats = tile_round(BIAS_BLOCK * BIAS_BLOCK);
    g->side_floats = tile_round(BIAS_BLOCK * wider);
    g->thread_floats = 3 * g->tile_floats + 2 * g->side_floats + g->gemm_floats;
    g->sums_floats = g->parts > 1 ? tile_round(g->parts * shape_count(g->bias)) : 0;
    g->type = out_type(n, 0);
}

static BiasWork bias_work(const BiasGrad *g, int thread)
{
    float   *at = g->work + (size_t)thread * g->thread_floats;
    BiasWork w;
    w.score = at, at += g->tile_floats;
    w.dp = at, at += g->tile_floats;
    w.sum = at, at += g->tile_floats;
    w.left = at, at += g->side_floats;
    w.right = at, at += g->side_floats;
    w.gemm = at;
    return w;
}

/* The scores of a tile from the rows of two sides. */
static void bias_product(const BiasGrad *g, const BiasWork *w, const AttentionSide *left,
                         const AttentionSide *right, const BiasTile *t, int64_t width, float *out)
{
    HeadRows     rows = attention_rows(left, &g->d, t->head);
    HeadRows     columns = attention_rows(right, &g->d, t->head);
    int64_t      lda, ldb;
    const float *a = tile_load(&rows, t->query, t->queries, width, w->left, &lda);
    const float *b = tile_load(&columns, t->key, t->keys, width, w->right, &ldb);
    gemm_tile(false, true, t->queries, t->keys, width, 1, a, lda, b, ldb, 0, out, t->keys, w->gemm);
}

/* rowsum(dy * y) of one query. */
static float bias_delta(const BiasGrad *g, int64_t head, int64_t query)
{
    HeadRows y = attention_rows(&g->y, &g->d, head), dy = attention_rows(&g->dy, &g->d, head);
    float    part_y[FORM_KEYS], part_dy[FORM_KEYS], sum = 0;
    for (int64_t c = 0; c < g->d.v_width; c += FORM_KEYS) {
        int64_t      n = int_min(FORM_KEYS, g->d.v_width - c);
        const float *py = row_load(y.type, y.data, query * y.ld + c, n, part_y);
        const float *pd = row_load(dy.type, dy.data, query * dy.ld + c, n, part_dy);
#pragma omp simd reduction(+ : sum)
        for (int64_t x = 0; x < n; x++)
            sum += py[x] * pd[x];
    }
    return sum;
}

/* The probabilities of one query. */
static void bias_probabilities(const BiasGrad *g, const BiasTile *t, int64_t i, float *restrict p)
{
    int64_t row = t->head * g->d.lq + t->query + i;
    if (g->stored) {
        convert_rows(F32, p, g->d.type,
                     g->stored + (row * g->d.lk + t->key) * type_bytes(g->d.type), (size_t)t->keys);
        return;
    }
    form_row(&g->form, t->head, t->query + i, t->key, t->keys, g->scale, p);
    for (int64_t j = 0; j < t->keys; j++)
        p[j] = vexp_weight(p[j] - g->lse[row]);
}

/* Adds ds of a tile to the sums: row by row, or, where the bias has one row, all to that. */
static void bias_tile(const BiasGrad *g, const BiasWork *w, const BiasTile *t)
{
    float keep[BIAS_BLOCK];
    if (g->form.causal && t->key >= t->query + t->queries)
        return;
    if (!g->stored)
        bias_product(g, w, &g->q, &g->k, t, g->d.width, w->score);
    bias_product(g, w, &g->dy, &g->v, t, g->d.v_width, w->dp);
    for (int64_t i = 0; i < t->queries; i++) {
        float *restrict p = w->score + i * t->keys, *restrict dp = w->dp + i * t->keys;
        float *restrict sum = w->sum + (g->bias.dim[2] > 1 ? i * t->keys : 0);
        float delta = bias_delta(g, t->head, t->query + i);
        bias_probabilities(g, t, i, p);
        if (g->form.dropout > 0) {
            form_keep(&g->form, t->head, t->query + i, t->key, t->keys, keep);
            for (int64_t j = 0; j < t->keys; j++)
                dp[j] *= keep[j];
        }
        for (int64_t j = 0; j < t->keys; j++)
            sum[j] += p[j] * (dp[j] - delta);
    }
}

/* One part of one block of entries. */
static void bias_task(const BiasGrad *g, const BiasWork *w, int64_t block, int64_t part)
{
    int64_t  b = g->bias.dim[0], h = g->bias.dim[1], from, to, index = block;
    BiasTile t = { .key = index % g->key_blocks * BIAS_BLOCK };
    index /= g->key_blocks;
    int64_t first = index % g->query_blocks * BIAS_BLOCK, of_bias = index / g->query_blocks;
    int64_t sample = of_bias / h, head = of_bias % h; /* of the bias */
    t.keys = int_min(BIAS_BLOCK, g->d.lk - t.key);
    int64_t rows = g->bias.dim[2] > 1 ? int_min(BIAS_BLOCK, g->d.lq - first) : 1;
    int64_t per_head = g->bias.dim[2] > 1 ? 1 : bias_blocks(g->d.lq);
    int64_t heads = g->d.heads / h;
    memset(w->sum, 0, (size_t)(rows * t.keys) * sizeof(float));
    parallel_range(g->shared, 1, (int)part, (int)g->parts, &from, &to);
    for (; from < to; from++) {
        int64_t other = from / per_head; /* (sample, head) that share the block, in order */
        t.query = g->bias.dim[2] > 1 ? first : from % per_head * BIAS_BLOCK;
        t.queries = int_min(BIAS_BLOCK, g->d.lq - t.query);
        t.head = ((b > 1 ? sample : other / heads)) * g->d.heads + (h > 1 ? head : other % heads);
        bias_tile(g, w, &t);
    }
    for (int64_t i = 0; i < rows; i++) {
        int64_t at = (of_bias * g->bias.dim[2] + first + i) * g->d.lk + t.key;
        if (g->parts > 1)
            memcpy(g->sums + part * shape_count(g->bias) + at, w->sum + i * t.keys,
                   (size_t)t.keys * sizeof(float));
        else
            convert_rows(g->type, (char *)g->out + at * type_bytes(g->type), F32,
                         w->sum + i * t.keys, (size_t)t.keys);
    }
}

/* Adds up the parts of some entries. */
static void bias_join(const BiasGrad *g, int thread, int threads)
{
    int64_t from, to, count = shape_count(g->bias);
    float   buffer[FORM_KEYS];
    parallel_range(count, FORM_KEYS, thread, threads, &from, &to);
    for (int64_t c = from; c < to; c += FORM_KEYS) {
        int64_t n = int_min(FORM_KEYS, to - c);
        memcpy(buffer, g->sums + c, (size_t)n * sizeof(float));
        for (int64_t part = 1; part < g->parts; part++)
            for (int64_t j = 0; j < n; j++)
                buffer[j] += g->sums[part * count + c + j];
        convert_rows(g->type, (char *)g->out + c * type_bytes(g->type), F32, buffer, (size_t)n);
    }
}

Err attention_bias_grad_choose(const Node *n, const Device *device, Choice *choice)
{
    BiasGrad g;
    bias_plan(n, device->threads, &g);
    choice->workspace_bytes = ((size_t)device->threads * g.thread_floats + g.sums_floats) *
                              sizeof(float);
    choice->name = "builtin";
    return OK;
}

Err attention_bias_grad_cpu(const Call *call)
{
    const Node          *n = call->node;
    const AttentionAttr *a = ATTR(n, AttentionAttr);
    int                  kept = attention_kept(n), threads = call->device->threads;
    BiasGrad             g;
    bias_plan(n, threads, &g);
    g.form = attention_form(n, call->in);
    g.q = attention_side(n, a->q, call->in);
    g.k = attention_side(n, a->k, call->in);
    g.v = attention_side(n, a->v, call->in);
    g.y = attention_side_y(n, call->in[kept]);
    g.dy = attention_side_y(n, call->in[kept + 2]);
    g.dy.type = in_type(n, kept + 2);
    if (in_shape(n, kept + 1).rank == 4)
        g.stored = call->in[kept + 1];
    else
        g.lse = call->in[kept + 1];
    g.scale = attention_scale(n, call->in);
    g.out = call->out[0];
    g.sums = call->workspace;
    g.work = g.sums + g.sums_floats;

#pragma omp parallel num_threads(threads)
    {
        BiasWork w = bias_work(&g, omp_get_thread_num());
        int64_t  from, to;
        parallel_range(g.blocks * g.parts, 1, omp_get_thread_num(), threads, &from, &to);
        for (; from < to; from++)
            bias_task(&g, &w, from / g.parts, from % g.parts);
        if (g.parts > 1) {
#pragma omp barrier
            bias_join(&g, omp_get_thread_num(), threads);
        }
    }
    return OK;
}
