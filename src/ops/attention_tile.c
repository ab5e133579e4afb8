/* attention_tile.c -- see attention_tile.h. */
#include "ops/attention_tile.h"

#include "device/convert.h"

#include <math.h>

AttentionDims attention_dims(const Node *n)
{
    const AttentionAttr *a = ATTR(n, AttentionAttr);
    Shape         q = in_shape(n, a->q.source), k = in_shape(n, a->k.source);
    AttentionDims d = { .batch = dim(q, 0), .heads = a->heads, .lq = attention_length(q),
                        .lk = attention_length(k), .width = a->width, .type = in_type(n, a->q.source) };
    d.wide = gemm_round_up(d.width, GEMM_LANES);
    d.n_heads = d.batch * d.heads;
    return d;
}

AttentionSide attention_side(const Node *n, AttentionSlice slice, void *const *pointers)
{
    Shape s = in_shape(n, slice.source);
    return (AttentionSide){ .data = pointers[slice.source], .type = in_type(n, slice.source), .ld = dim(s, -1),
                            .batch_stride = shape_count(s) / dim(s, 0), .column = slice.column,
                            .head_stride = slice.head_stride };
}

AttentionSide attention_side_y(const Node *n, void *data)
{
    AttentionDims d = attention_dims(n);
    return (AttentionSide){ .data = data, .type = d.type, .ld = d.heads * d.width,
                            .batch_stride = d.lq * d.heads * d.width, .head_stride = d.width };
}

HeadRows attention_rows(const AttentionSide *side, const AttentionDims *d, int64_t head)
{
    int64_t first = head / d->heads * side->batch_stride + side->column + head % d->heads * side->head_stride;
    return (HeadRows){ side->data ? side->data + first * type_bytes(side->type) : NULL, side->type, side->ld };
}

float attention_scale(const Node *n, void *const *in)
{
    float value;
    if (!in_given(n, ATTENTION_TEMPERATURE))
        return ATTR(n, AttentionAttr)->scale;
    return expf(*row_load(in_type(n, ATTENTION_TEMPERATURE), in[ATTENTION_TEMPERATURE], 0, 1, &value));
}

const float *tile_load(const HeadRows *x, int64_t first, int64_t n, int64_t width, float *buffer, int64_t *ld)
{
    if (x->type == F32) {
        *ld = x->ld;
        return (const float *)x->data + first * x->ld;
    }
    *ld = width;
    tile_dense(x, first, n, width, buffer, width);
    return buffer;
}

void tile_dense(const HeadRows *x, int64_t first, int64_t n, int64_t width, float *dst, int64_t wide)
{
    for (int64_t i = 0; i < n; i++) {
        convert_rows(F32, dst + i * wide, x->type,
                     x->data + (first + i) * x->ld * type_bytes(x->type), (size_t)width);
        for (int64_t c = width; c < wide; c++)
            dst[i * wide + c] = 0.0f;
    }
}

void tile_pack_rows(const float *x, int64_t ld, int64_t rows, int64_t width, int64_t panel, float *dst)
{
    GemmSide side = { .data = x, .type = F32, .ld = ld };
    for (int64_t i = 0; i < rows; i += panel) {
        int64_t count = gemm_min(panel, rows - i), filled = panel == TILE_NR ? panel : count;
        gemm_pack_along_k(&side, i, count, filled, 0, width, dst);
        dst += filled * width;
    }
}

void tile_pack_columns(const float *x, int64_t ld, int64_t rows, int64_t width, float *dst)
{
    GemmSide side = { .data = x, .type = F32, .ld = ld };
    for (int64_t c = 0; c < width; c += TILE_MR) {
        int64_t count = gemm_min(TILE_MR, width - c);
        gemm_pack_along_i(&side, c, count, count, 0, rows, dst);
        dst += count * rows;
    }
}

size_t tile_panel_floats(int64_t rows, int64_t width)
{
    return tile_round(rows * width + GEMM_LANES);
}

void tile_product(const TileProduct *p)
{
    static const float zeros[TILE_NR];
    GemmTile tile = { .k = p->k, .a = p->a, .b = p->b, .b_step = p->b_step, .init = zeros, .c = p->c,
                      .ldc = p->ldc, .alpha = p->alpha, .add = p->add };
    for (int64_t i = 0; i < p->m; i += TILE_MR) {
        int64_t rows = gemm_min(TILE_MR, p->m - i);
        gemm_kernel(rows, p->n > GEMM_LANES ? 2 : 1, &tile);
        tile.a += rows * p->k;
        tile.c += rows * p->ldc;
    }
}

size_t tile_turn_floats(int64_t width)
{
    return (size_t)(TILE_NR * gemm_round_up(width, TILE_NR));
}

void tile_store_turned(const float *x, int64_t n, int64_t width, const HeadRows *dst, int64_t first, float *turn)
{
    int64_t wide = gemm_round_up(width, TILE_NR), lanes = gemm_round_up(n, GEMM_LANES);
    for (int64_t c = 0; c < width; c += TILE_NR) {
        const float *rows[TILE_NR];
        int64_t      count = gemm_min(TILE_NR, width - c);
        for (int64_t r = 0; r < count; r++)
            rows[r] = x + (c + r) * TILE_NR;
        gemm_interleave(turn + c, wide, rows, count, lanes);
    }
    for (int64_t i = 0; i < n; i++)
        convert_rows(dst->type, dst->data + (first + i) * dst->ld * type_bytes(dst->type), F32,
                     turn + i * wide, (size_t)width);
}
