/* attention_form.c -- masks, bias and dropout of attention on the CPU: see attention_tile.h. */
#include "ops/attention/attention_tile.h"

#include "device/convert.h"
#include "ops/optimizer/optim.h"

#include <math.h>

bool attention_form_plain(const AttentionAttr *a, const Node *n)
{
    return !a->causal && !attention_given(n, ATTENTION_BIAS) && a->dropout == 0;
}

AttentionForm attention_form(const Node *n, void *const *in)
{
    const AttentionAttr *a = ATTR(n, AttentionAttr);
    AttentionDims        d = attention_dims(n);
    AttentionForm        f = { .plain = attention_form_plain(a, n),
                               .causal = a->causal,
                               .mask_diagonal = a->mask_diagonal,
                               .dropout = a->dropout,
                               .heads = d.heads,
                               .lq = d.lq,
                               .lk = d.lk };
    if (attention_given(n, ATTENTION_BIAS)) {
        Shape   s = in_shape(n, ATTENTION_BIAS);
        int64_t stride = s.dim[3];
        f.bias = in[ATTENTION_BIAS];
        f.bias_type = in_type(n, ATTENTION_BIAS);
        for (int axis = 2; axis >= 0; axis--) {
            f.bias_stride[axis] = s.dim[axis] > 1 ? stride : 0;
            stride *= s.dim[axis];
        }
    }
    if (f.dropout > 0) {
        const int32_t *c = in[ATTENTION_COUNTERS];
        f.key = (RandomKey){ .seed = (uint64_t)(uint32_t)c[COUNTER_SEED_HIGH] << 32 |
                                     (uint32_t)c[COUNTER_SEED_LOW],
                             .stream = a->stream,
                             .step = (uint32_t)c[COUNTER_STEP] };
        f.first = (uint64_t)(uint32_t)c[COUNTER_MICRO] * (uint64_t)(d.n_heads * d.lq * d.lk);
    }
    return f;
}

/* The bias of keys [key, key+n) for a query, as fp32. */
static const float *form_bias(const AttentionForm *f, int64_t head, int64_t query, int64_t key,
                              int64_t n, float *buffer)
{
    int64_t at = head / f->heads * f->bias_stride[0] + head % f->heads * f->bias_stride[1] +
                 query * f->bias_stride[2] + key;
    return row_load(f->bias_type, f->bias, at, n, buffer);
}

/* How many of the keys [key, key+n) a query sees by position; the diagonal aside. */
static int64_t form_seen(const AttentionForm *f, int64_t query, int64_t key, int64_t n)
{
    return f->causal ? int_min(int_max(query + 1 - key, 0), n) : n;
}

void form_row(const AttentionForm *f, int64_t head, int64_t query, int64_t key, int64_t n,
              float scale, float *restrict row)
{
    float   buffer[FORM_KEYS];
    int64_t seen = form_seen(f, query, key, n);
    for (int64_t c = 0; c < seen; c += FORM_KEYS) {
        int64_t m = int_min(FORM_KEYS, seen - c);
        float  *x = row + c;
        if (f->bias) {
            const float *bias = form_bias(f, head, query, key + c, m, buffer);
            for (int64_t j = 0; j < m; j++)
                x[j] = scale * x[j] + bias[j];
        } else {
            for (int64_t j = 0; j < m; j++)
                x[j] *= scale;
        }
    }
    for (int64_t j = seen; j < n; j++)
        row[j] = -INFINITY;
    if (f->mask_diagonal && query >= key && query < key + n)
        row[query - key] = -INFINITY;
}

void form_keep(const AttentionForm *f, int64_t head, int64_t query, int64_t key, int64_t n,
               float *restrict keep)
{
    float    factor = 1 / (1 - f->dropout);
    uint64_t at = (uint64_t)((head * f->lq + query) * f->lk + key);
    random_uniforms(f->key, f->first + at, n, keep);
    for (int64_t j = 0; j < n; j++)
        keep[j] = keep[j] < f->dropout ? 0.0f : factor;
}

size_t form_panel_floats(const AttentionForm *f, int64_t keys)
{
    return f->plain ? 0 : (size_t)(2 * TILE_NR * align_up(keys, 16));
}

/* rows[x] is the bias of query x for these keys; the same row for all if it is repeated. */
static void form_bias_panel(const AttentionForm *f, int64_t head, int64_t query, int64_t n,
                            int64_t key, int64_t keys, float *work, float *restrict panel)
{
    const float *rows[TILE_NR];
    for (int64_t x = 0; x < n; x++)
        rows[x] = x && !f->bias_stride[2]
                      ? rows[0]
                      : form_bias(f, head, query + x, key, keys, work + x * keys);
    gemm_interleave(panel, TILE_NR, rows, n, keys);
}

void form_panel(const AttentionForm *f, int64_t head, int64_t query, int64_t n, int64_t key,
                int64_t keys, float scale, float *restrict score, float *work)
{
    float *restrict panel = work + TILE_NR * align_up(keys, 16);
    if (f->bias) {
        form_bias_panel(f, head, query, n, key, keys, work, panel);
        for (int64_t j = 0; j < keys * TILE_NR; j++)
            score[j] = scale * score[j] + panel[j];
    } else {
        for (int64_t j = 0; j < keys * TILE_NR; j++)
            score[j] *= scale;
    }
    if (f->causal)
        for (int64_t j = int_max(query - key, 0); j < keys; j++)
            for (int64_t x = 0; x < int_min(key + j - query, TILE_NR); x++)
                score[j * TILE_NR + x] = -INFINITY;
    if (f->mask_diagonal)
        for (int64_t x = 0; x < n; x++)
            if (query + x >= key && query + x < key + keys)
                score[(query + x - key) * TILE_NR + x] = -INFINITY;
}

void form_drop_panel(const AttentionForm *f, int64_t head, int64_t query, int64_t n, int64_t key,
                     int64_t keys, float *restrict score, float *work)
{
    const float *rows[TILE_NR];
    float *restrict panel = work + TILE_NR * align_up(keys, 16);
    for (int64_t x = 0; x < n; x++) {
        form_keep(f, head, query + x, key, keys, work + x * keys);
        rows[x] = work + x * keys;
    }
    gemm_interleave(panel, TILE_NR, rows, n, keys);
    for (int64_t j = 0; j < keys * TILE_NR; j++)
        score[j] *= panel[j];
}
