/* attention_cpu.c -- attention on the CPU, forward, tile by tile.
 *
 * Queries are the lanes: a panel is TILE_NR queries. Scores are stored transposed,
 * s[key*TILE_NR + query], so that the running maximum and sum of the softmax are plain vectors and
 * the result of one product is the right-hand side of the next (attention_tile.h).
 *
 *      for each block of keys:  pack k and v              (for up to FORWARD_GROUP panels)
 *          for each panel of queries:
 *              s  = k q^T                                              [keys][32]
 *              online softmax: scale, update the maximum, exp, sum, rescale y
 *              y += v^T s                                              [width][32]
 *      y /= sum
 *
 * Each thread takes a range of panels. The arithmetic of a panel does not depend on the range, so
 * results are the same for any number of threads.
 */
#include "ops/attention/attention_tile.h"
#include "ops/parallel.h"
#include "ops/elementwise/vmath.h"

enum { FORWARD_GROUP = 16 };

typedef struct Forward {
    AttentionDims d;
    AttentionSide q, k, v, y;
    AttentionForm form;
    float        *lse; /* [n_heads][lq] */
    float         scale;
    bool          amx;
    int64_t       keys; /* per block */
    size_t        q_floats, y_floats, k_floats, v_floats, score_floats, pair_floats, staging_floats;
    size_t        form_floats, thread_floats;
} Forward;

typedef struct ForwardWork { /* buffers of one thread */
    float    *q, *y;         /* [FORWARD_GROUP]: right-hand sides; results [width][32] */
    float    *top, *sum;     /* [FORWARD_GROUP][32] */
    float    *k, *v;         /* left-hand sides of one block of keys */
    float    *score;         /* [keys][32] */
    float    *pairs;         /* score as the right-hand side of the next product */
    float    *staging, *transposed;
    float    *form;  /* bias or dropout of a panel */
    TileAhead ahead; /* prefetches the next head */
} ForwardWork;

static void forward_plan(const Node *n, bool amx, Forward *f)
{
    *f = (Forward){ .d = attention_dims(n), .amx = amx };
    f->form.plain = attention_form_plain(ATTR(n, AttentionAttr), n);
    int64_t unit = amx ? 32 : TILE_MR, max_keys = amx ? 128 : 9 * TILE_MR;
    int64_t blocks = ceil_div(f->d.lk, max_keys);
    int64_t width = f->d.width, v_width = f->d.v_width, wider = int_max(width, v_width);
    f->keys = int_min(align_up(ceil_div(f->d.lk, blocks), unit), f->d.lk);
    f->q_floats = tile_b_floats(amx, width);
    f->y_floats = (size_t)(tile_c_rows(amx, v_width) * TILE_NR);
    f->k_floats = tile_a_floats(amx, f->keys, width);
    f->v_floats = tile_a_floats(amx, v_width, f->keys);
    f->score_floats = (size_t)(tile_c_rows(amx, f->keys) * TILE_NR);
    f->pair_floats = amx ? tile_b_floats(amx, f->keys) : 0;
    f->staging_floats = tile_staging_floats(amx, f->d.type, f->keys, wider);
    f->form_floats = form_panel_floats(&f->form, f->keys);
    f->thread_floats = FORWARD_GROUP * (f->q_floats + f->y_floats + 2 * TILE_NR) + f->k_floats +
                       f->v_floats + f->score_floats + f->pair_floats + f->staging_floats +
                       tile_transpose_floats(v_width) + f->form_floats;
}

static ForwardWork forward_work(const Forward *f, float *at)
{
    ForwardWork w = { .ahead = { .n = 0 } };
    w.q = at, at += FORWARD_GROUP * f->q_floats;
    w.y = at, at += FORWARD_GROUP * f->y_floats;
    w.top = at, at += FORWARD_GROUP * TILE_NR;
    w.sum = at, at += FORWARD_GROUP * TILE_NR;
    w.k = at, at += f->k_floats;
    w.v = at, at += f->v_floats;
    w.score = at, at += f->score_floats;
    w.pairs = at, at += f->pair_floats;
    w.transposed = at, at += tile_transpose_floats(f->d.v_width);
    w.form = at, at += f->form_floats;
    w.staging = at;
    return w;
}

/* Masks the diagonal: the scale turns these scores into minus infinity. */
static void forward_mask(float *score, float scale, int64_t query, int64_t n, int64_t key,
                         int64_t keys)
{
    for (int64_t x = 0; x < n; x++)
        if (query + x >= key && query + x < key + keys)
            score[(query + x - key) * TILE_NR + x] = scale > 0 ? -INFINITY : INFINITY;
}

/* Updates the maximum scaled score of each query. A negative scale reverses the order. Four keys
 * are taken at a time to shorten the chain of dependent maxima. */
static void forward_top(const float *restrict score, float scale, int64_t keys,
                        float *restrict high)
{
    float   best[TILE_NR], sign = scale < 0 ? -1.0f : 1.0f;
    int64_t j = 0;
    for (int x = 0; x < TILE_NR; x++)
        best[x] = -INFINITY;
    for (; j + 4 <= keys; j += 4)
        for (int x = 0; x < TILE_NR; x++) {
            const float *s = score + j * TILE_NR + x;
            float        a = sign * s[0], b = sign * s[TILE_NR];
            float        c = sign * s[2 * TILE_NR], d = sign * s[3 * TILE_NR];
            a = a > b ? a : b;
            c = c > d ? c : d;
            a = a > c ? a : c;
            best[x] = a > best[x] ? a : best[x];
        }
    for (; j < keys; j++)
        for (int x = 0; x < TILE_NR; x++) {
            float a = sign * score[j * TILE_NR + x];
            best[x] = a > best[x] ? a : best[x];
        }
    for (int x = 0; x < TILE_NR; x++) {
        float a = fabsf(scale) * best[x];
        high[x] = a > high[x] ? a : high[x];
    }
}

/* Online softmax (Milakov and Gimelshein 2018): the result so far is rescaled block by block. The
 * maximum is at least `low`, which is finite where a query may see no key: its exponentials are then
 * 0, not undefined. */
static void forward_softmax(float *restrict score, float scale, float low, int64_t keys, bool first,
                            float *restrict top, float *restrict sum, float *restrict y,
                            int64_t width)
{
    float high[TILE_NR], factor[TILE_NR], part[TILE_NR];
    for (int x = 0; x < TILE_NR; x++)
        high[x] = first ? low : top[x];
    forward_top(score, scale, keys, high);
    for (int x = 0; x < TILE_NR; x++) {
        factor[x] = first ? 0.0f : vexp_weight(top[x] - high[x]);
        top[x] = high[x];
        part[x] = 0;
    }
    for (int64_t j = 0; j < keys; j++)
        for (int x = 0; x < TILE_NR; x++) {
            float e = vexp_weight(scale * score[j * TILE_NR + x] - high[x]);
            score[j * TILE_NR + x] = e;
            part[x] += e;
        }
    for (int x = 0; x < TILE_NR; x++)
        sum[x] = first ? part[x] : sum[x] * factor[x] + part[x];
    for (int64_t c = 0; c < width && !first; c++)
        for (int x = 0; x < TILE_NR; x++)
            y[c * TILE_NR + x] *= factor[x];
}

/* Scores to exponentials, as the form of attention asks. */
static void forward_scores(const Forward *f, const ForwardWork *w, int64_t head, int64_t i,
                           int64_t query, int64_t n, int64_t key, int64_t keys)
{
    float *y = w->y + (size_t)i * f->y_floats, *top = w->top + i * TILE_NR;
    float *sum = w->sum + i * TILE_NR;
    if (f->form.plain) {
        if (f->form.mask_diagonal)
            forward_mask(w->score, f->scale, query, n, key, keys);
        forward_softmax(w->score, f->scale, -INFINITY, keys, key == 0, top, sum, y, f->d.v_width);
        return;
    }
    form_panel(&f->form, head, query, n, key, keys, f->scale, w->score, w->form);
    forward_softmax(w->score, 1, FORM_LOW, keys, key == 0, top, sum, y, f->d.v_width);
    if (f->form.dropout > 0)
        form_drop_panel(&f->form, head, query, n, key, keys, w->score, w->form);
}

static void forward_panel(const Forward *f, ForwardWork *w, int64_t head, int64_t i, int64_t query,
                          int64_t key, int64_t keys)
{
    int64_t n = int_min(TILE_NR, f->d.lq - query);
    tile_product(f->amx, &(TileProduct){ .a = w->k,
                                         .b = w->q + (size_t)i * f->q_floats,
                                         .c = w->score,
                                         .m = keys,
                                         .n = n,
                                         .k = f->d.width,
                                         .ldc = TILE_NR,
                                         .ahead = &w->ahead });
    forward_scores(f, w, head, i, query, n, key, keys);
    tile_product(f->amx, &(TileProduct){ .a = w->v,
                                         .b = tile_b_score(f->amx, w->score, keys, w->pairs),
                                         .c = w->y + (size_t)i * f->y_floats,
                                         .m = f->d.v_width,
                                         .n = n,
                                         .k = keys,
                                         .ldc = TILE_NR,
                                         .add = key > 0,
                                         .ahead = &w->ahead });
}

/* Divides y by the sum, computes the log-sum-exp and stores one panel. A query that saw no key has
 * the sum 0; its log-sum-exp is infinite, so that its probabilities are 0 in the backward pass. */
static void forward_finish(const Forward *f, const ForwardWork *w, int64_t head, int64_t i,
                           int64_t query)
{
    int64_t  n = int_min(TILE_NR, f->d.lq - query);
    HeadRows rows = attention_rows(&f->y, &f->d, head);
    float   *y = w->y + (size_t)i * f->y_floats, *sum = w->sum + i * TILE_NR;
    float   *lse = f->lse + head * f->d.lq + query, part[TILE_NR];
    for (int64_t x = 0; x < TILE_NR; x++)
        part[x] = f->form.plain || sum[x] > 0 ? 1.0f / sum[x] : 0.0f;
    for (int64_t c = 0; c < f->d.v_width; c++)
        for (int64_t x = 0; x < TILE_NR; x++)
            y[c * TILE_NR + x] *= part[x];
    for (int64_t x = 0; x < n; x++)
        lse[x] = f->form.plain || sum[x] > 0 ? w->top[i * TILE_NR + x] + vlog(sum[x]) : INFINITY;
    tile_store_transposed(y, n, f->d.v_width, &rows, query, w->transposed);
}

/* Panels [from, to) of one head, at most FORWARD_GROUP of them. */
static void forward_group(const Forward *f, ForwardWork *w, int64_t head, int64_t from, int64_t to)
{
    HeadRows q = attention_rows(&f->q, &f->d, head), k = attention_rows(&f->k, &f->d, head);
    HeadRows v = attention_rows(&f->v, &f->d, head);
    int64_t  width = f->d.width, end = f->d.lk;
    if (f->form.causal) /* no query of the group sees a later key */
        end = int_min(end, to * TILE_NR);
    for (int64_t p = from; p < to; p++)
        tile_b_rows(f->amx, &q, p * TILE_NR, int_min(TILE_NR, f->d.lq - p * TILE_NR), width,
                    w->staging, w->q + (size_t)(p - from) * f->q_floats);
    for (int64_t key = 0; key < end; key += f->keys) {
        int64_t keys = int_min(f->keys, f->d.lk - key);
        tile_a_rows(f->amx, &k, key, keys, width, w->staging, w->k);
        tile_a_columns(f->amx, &v, key, keys, f->d.v_width, w->staging, w->v);
        for (int64_t p = from; p < to; p++)
            if (!f->form.causal || key < (p + 1) * TILE_NR)
                forward_panel(f, w, head, p - from, p * TILE_NR, key, keys);
    }
    for (int64_t p = from; p < to; p++)
        forward_finish(f, w, head, p - from, p * TILE_NR);
}

Err attention_choose(const Node *n, const Device *device, Choice *choice)
{
    Forward f;
    choice->algo[0] = attention_dims(n).type == BF16 && amx_ready();
    forward_plan(n, choice->algo[0], &f);
    choice->workspace_bytes = (size_t)device->threads * f.thread_floats * sizeof(float);
    choice->name = choice->algo[0] ? amx_word("bf16", "amx") : "builtin";
    return OK;
}

Err attention_cpu(const Call *call)
{
    const Node          *n = call->node;
    const AttentionAttr *a = ATTR(n, AttentionAttr);
    Forward              f;
    forward_plan(n, call->choice->algo[0], &f);
    f.q = attention_side(n, a->q, call->in);
    f.k = attention_side(n, a->k, call->in);
    f.v = attention_side(n, a->v, call->in);
    f.y = attention_side_y(n, call->out[0]);
    f.lse = call->out[1];
    f.scale = attention_scale(n, call->in);
    f.form = attention_form(n, call->in);
    int     threads = call->device->threads;
    int64_t panels = ceil_div(f.d.lq, TILE_NR);

#pragma omp parallel num_threads(threads)
    {
        int         thread = omp_get_thread_num();
        float      *mine = (float *)call->workspace + (size_t)thread * f.thread_floats;
        ForwardWork w = forward_work(&f, mine);
        int64_t     from, to;
        if (f.amx)
            amx_begin();
        parallel_range(f.d.n_heads * panels, 1, thread, threads, &from, &to);
        while (from < to) {
            int64_t head = from / panels, first = from % panels;
            int64_t count = int_min(int_min(panels - first, to - from), FORWARD_GROUP);
            if (first == 0)
                tile_ahead_start(&w.ahead, &f.d, head + 1,
                                 (const AttentionSide *[]){ &f.q, &f.k, &f.v }, 3);
            forward_group(&f, &w, head, first, first + count);
            from += count;
        }
        if (f.amx)
            amx_end();
    }
    return OK;
}
