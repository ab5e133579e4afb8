/* attention_tile.c -- packing and multiplying the tiles of CPU attention: see attention_tile.h. */
#include "ops/attention/attention_tile.h"

#include "device/convert.h"

#include <float.h>
#include <math.h>

AttentionDims attention_dims(const Node *n)
{
    const AttentionAttr *a = ATTR(n, AttentionAttr);
    Shape                q = in_shape(n, a->q.source), k = in_shape(n, a->k.source);
    AttentionDims        d = { .batch = dim(q, 0),
                               .heads = a->heads,
                               .lq = attention_length(q),
                               .lk = attention_length(k),
                               .width = a->width,
                               .v_width = a->v_width,
                               .share = a->heads / a->kv_heads,
                               .type = in_type(n, a->q.source) };
    d.wide = align_up(d.width, GEMM_LANES);
    d.n_heads = d.batch * d.heads;
    return d;
}

AttentionSide attention_side(const Node *n, AttentionSlice slice, void *const *pointers)
{
    const AttentionAttr *a = ATTR(n, AttentionAttr);
    Shape                s = in_shape(n, slice.source);
    bool                 query = slice.source == a->q.source && slice.column == a->q.column;
    return (AttentionSide){ .data = pointers[slice.source],
                            .type = in_type(n, slice.source),
                            .ld = dim(s, -1),
                            .batch_stride = shape_count(s) / dim(s, 0),
                            .column = slice.column,
                            .head_stride = slice.head_stride,
                            .share = query ? 1 : a->heads / a->kv_heads };
}

AttentionSide attention_side_y(const Node *n, void *data)
{
    AttentionDims d = attention_dims(n);
    return (AttentionSide){ .data = data,
                            .type = d.type,
                            .ld = d.heads * d.v_width,
                            .batch_stride = d.lq * d.heads * d.v_width,
                            .head_stride = d.v_width,
                            .share = 1 };
}

HeadRows attention_rows(const AttentionSide *side, const AttentionDims *d, int64_t head)
{
    int64_t inner = head % d->heads / side->share;
    int64_t first = head / d->heads * side->batch_stride + inner * side->head_stride;
    int64_t bytes = (first + side->column) * type_bytes(side->type);
    return (HeadRows){ side->data ? side->data + bytes : NULL, side->type, side->ld };
}

float attention_scale(const Node *n, void *const *in)
{
    float value;
    if (!in_given(n, ATTENTION_TEMPERATURE))
        return ATTR(n, AttentionAttr)->scale;
    const float *t = row_load(in_type(n, ATTENTION_TEMPERATURE), in[ATTENTION_TEMPERATURE], 0, 1,
                              &value);
    return fmaxf(expf(*t), FLT_MIN); /* never 0: scaling a masked score must give infinity */
}

const float *tile_load(const HeadRows *x, int64_t first, int64_t n, int64_t width, float *buffer,
                       int64_t *ld)
{
    if (x->type == F32) {
        *ld = x->ld;
        return (const float *)x->data + first * x->ld;
    }
    *ld = width;
    for (int64_t i = 0; i < n; i++)
        row_load(x->type, x->data, (first + i) * x->ld, width, buffer + i * width);
    return buffer;
}

/* An AMX tile has 16 rows and 32 columns of the summed index. */
static int64_t tile_16(int64_t n) { return align_up(n, 16); }
static int64_t tile_32(int64_t n) { return align_up(n, 32); }

size_t tile_a_floats(bool amx, int64_t m, int64_t k)
{
    if (amx)
        return (size_t)(tile_16(m) * tile_32(k) / 2);
    int64_t over = (GEMM_LANES - TILE_MR) * m + GEMM_LANES; /* packing writes whole vectors */
    return tile_round(m * k + over);
}

size_t tile_b_floats(bool amx, int64_t k)
{
    return (size_t)(amx ? tile_32(k) / 2 * TILE_NR : k * TILE_NR);
}

size_t tile_staging_floats(bool amx, Type type, int64_t rows, int64_t width)
{
    if (amx) /* a transposed block, or a padded panel of rows */
        return (size_t)int_max(tile_16(width) * 16, TILE_NR * tile_32(width) / 2);
    return type == F32 ? 0 : tile_round(int_max(rows, TILE_NR) * width);
}

int64_t tile_c_rows(bool amx, int64_t m) { return amx ? tile_16(m) : m; }

static void tile_pack_rows(const float *x, int64_t ld, int64_t n, int64_t width, int64_t panel,
                           float *dst)
{
    GemmSide side = { .data = x, .type = F32, .ld = ld };
    for (int64_t c = 0; c < width; c += GEMM_KC)
        gemm_pack_along_k(&side, 0, n, panel, c, int_min(GEMM_KC, width - c), dst + c * panel);
}

void tile_a_rows(bool amx, const HeadRows *x, int64_t first, int64_t n, int64_t width,
                 float *staging, float *a)
{
    int64_t ld;
    if (amx) {
        amx_a_rows(x, first, n, width, (uint16_t *)a);
        return;
    }
    const float *rows = tile_load(x, first, n, width, staging, &ld);
    for (int64_t i = 0; i < n; i += TILE_MR) {
        int64_t count = int_min(TILE_MR, n - i);
        tile_pack_rows(rows + i * ld, ld, count, width, count, a + i * width);
    }
}

void tile_a_columns(bool amx, const HeadRows *x, int64_t first, int64_t n, int64_t width,
                    float *staging, float *a)
{
    int64_t ld;
    if (amx) {
        amx_a_columns(x, first, n, width, (uint32_t *)staging, (uint32_t *)a);
        return;
    }
    GemmSide side = { .data = tile_load(x, first, n, width, staging, &ld), .type = F32 };
    side.ld = ld;
    for (int64_t c = 0; c < width; c += TILE_MR) {
        int64_t count = int_min(TILE_MR, width - c);
        gemm_pack_along_i(&side, c, count, count, 0, n, a + c * n);
    }
}

void tile_b_rows(bool amx, const HeadRows *x, int64_t first, int64_t n, int64_t width,
                 float *staging, float *b)
{
    int64_t ld;
    if (amx) {
        amx_b_rows(x, first, n, width, (uint16_t *)staging, (uint32_t *)b);
        return;
    }
    const float *rows = tile_load(x, first, n, width, staging, &ld);
    tile_pack_rows(rows, ld, n, width, TILE_NR, b);
}

void tile_b_columns(bool amx, const HeadRows *x, int64_t first, int64_t n, int64_t width,
                    float *staging, float *b)
{
    int64_t ld;
    if (amx) {
        amx_b_columns(x, first, n, width, (uint32_t *)b);
        return;
    }
    GemmSide side = { .type = F32 };
    for (int64_t i = 0; i < n; i += TILE_NR) { /* staging holds at least that many rows */
        int64_t rows = int_min(TILE_NR, n - i);
        side.data = tile_load(x, first + i, rows, width, staging, &ld);
        side.ld = ld;
        for (int64_t c = 0; c < width; c += TILE_NR)
            gemm_pack_along_i(&side, c, int_min(TILE_NR, width - c), TILE_NR, 0, rows,
                              b + c * n + i * TILE_NR);
    }
}

const float *tile_b_score(bool amx, const float *score, int64_t rows, float *pairs)
{
    if (!amx)
        return score;
    amx_b_score(score, rows, (uint32_t *)pairs);
    return pairs;
}

/* Offset of the panel of A that begins with row i, packed chunk by chunk along k. Packing writes
 * whole vectors, so each panel has room for one vector beyond its end. */
static int64_t tile_score_at(int64_t i, int64_t depth)
{
    return i * (depth + GEMM_LANES - TILE_MR);
}

void tile_a_score(bool amx, const float *score, int64_t rows, int64_t k, int64_t n, int64_t depth,
                  float *a)
{
    if (amx) {
        amx_a_score(score, rows, k, n, depth, (uint16_t *)a);
        return;
    }
    for (int64_t i = 0; i < rows; i += TILE_MR) {
        const float *row[TILE_NR];
        int64_t      count = int_min(TILE_MR, rows - i);
        for (int64_t r = 0; r < count; r++)
            row[r] = score + (i + r) * TILE_NR;
        gemm_interleave(a + tile_score_at(i, depth) + k * count, count, row, count, n);
    }
}

void tile_ahead_start(TileAhead *ahead, const AttentionDims *d, int64_t head,
                      const AttentionSide *const *sides, int n)
{
    int64_t rows = int_min(d->lq, d->lk), max_bytes = 1 << 20; /* half of an L2 cache */
    *ahead = (TileAhead){ .bytes = d->width * type_bytes(d->type) };
    if (head >= d->n_heads || rows * n * ahead->bytes > max_bytes)
        return;
    ahead->end = rows;
    for (int i = 0; i < n; i++)
        ahead->rows[ahead->n++] = attention_rows(sides[i], d, head);
}

static void tile_fetch(TileAhead *ahead)
{
    if (!ahead || ahead->at == ahead->end)
        return;
    for (int i = 0; i < ahead->n; i++) {
        const HeadRows *x = &ahead->rows[i];
        const char     *row = x->data + ahead->at * x->ld * type_bytes(x->type);
        for (int64_t byte = 0; byte < ahead->bytes; byte += 64)
            __builtin_prefetch(row + byte, 0, 2);
    }
    ahead->at++;
}

void tile_product(bool amx, const TileProduct *p)
{
    static const float zeros[TILE_NR];
    if (amx) {
        for (int64_t i = 0; i < p->m; i += 16)
            tile_fetch(p->ahead);
        amx_product(&(AmxProduct){ .a = (const uint16_t *)(const void *)p->a,
                                   .b = (const uint32_t *)(const void *)p->b,
                                   .c = p->c,
                                   .m = p->m,
                                   .n = p->n,
                                   .k = p->k,
                                   .ldc = p->ldc,
                                   .add = p->add });
        return;
    }
    GemmTile tile = { .k = p->k,
                      .b = p->b,
                      .b_step = TILE_NR,
                      .init = zeros,
                      .ldc = p->ldc,
                      .alpha = 1,
                      .add = p->add };
    for (int64_t i = 0; i < p->m; i += TILE_MR) {
        tile.a = p->a + (p->from_score ? tile_score_at(i, p->k) : i * p->k);
        tile.c = p->c + i * p->ldc;
        tile_fetch(p->ahead);
        gemm_kernel(int_min(TILE_MR, p->m - i), p->n > GEMM_LANES ? 2 : 1, &tile);
    }
}

size_t tile_transpose_floats(int64_t width) { return (size_t)(TILE_NR * align_up(width, TILE_NR)); }

void tile_store_transposed(const float *x, int64_t n, int64_t width, const HeadRows *dst,
                           int64_t first, float *transposed)
{
    int64_t wide = align_up(width, TILE_NR), lanes = align_up(n, GEMM_LANES);
    for (int64_t c = 0; c < width; c += TILE_NR) {
        const float *rows[TILE_NR];
        int64_t      count = int_min(TILE_NR, width - c);
        for (int64_t r = 0; r < count; r++)
            rows[r] = x + (c + r) * TILE_NR;
        gemm_interleave(transposed + c, wide, rows, count, lanes);
    }
    for (int64_t i = 0; i < n; i++)
        convert_rows(dst->type, dst->data + (first + i) * dst->ld * type_bytes(dst->type), F32,
                     transposed + i * wide, (size_t)width);
}
