/* lower_attention.c -- scaled_dot_product_attention. */
#include "import/lower.h"

#include "base/random.h"
#include "ops/optimizer/optim.h"
#include "ops/attention/attention.h"
#include "ops/elementwise/basic.h"

#include <math.h>

/* Heads of (B, L, H, D) tensors, seen as (B, H, L, D). */
static const int by_length[4] = { 0, 2, 1, 3 };

/* Missing leading axes are added; more than one batch axis becomes one. */
static Err four_axes(Lower *l, View v, View *out)
{
    while (v.rank < 4)
        v = view_inserted(v, v.rank == 3 ? 1 : 0, 1);
    if (v.rank > 4) {
        Dims dims = { .rank = 4, .at = { 1 } };
        for (int i = 0; i < v.rank - 3; i++)
            dims.at[0] *= v.dim[i];
        for (int i = 1; i < 4; i++)
            dims.at[i] = v.dim[v.rank - 4 + i];
        v = view_copied_reshape(v, dims);
    }
    *out = v;
    return graph_check(l->graph);
}

static bool rows_within(const View *v, int64_t *row, int64_t *column, int64_t *head)
{
    *row = v->dim[2] > 1 ? v->stride[2] : dim(tensor_shape(v->base), -1);
    *head = v->dim[1] > 1 ? v->stride[1] : v->dim[3];
    *column = v->offset;
    return (v->stride[3] == 1 || v->dim[3] == 1) && *column >= 0 && *column < *row &&
           (v->dim[0] == 1 || v->stride[0] == *row * v->dim[2]) &&
           *column + (v->dim[1] - 1) * *head + v->dim[3] <= *row &&
           shape_count(tensor_shape(v->base)) == *row * v->dim[2] * v->dim[0];
}

/* Are q, k and v columns of one tensor, as attention_qkv packs them? */
static bool packed(const View *q, const View *k, const View *v, bool *by_head)
{
    int64_t rq, cq, hq, rk, ck, hk, rv, cv, hv, d = q->dim[3], n = q->dim[1] * d;
    if (q->base.id != k->base.id || q->base.id != v->base.id || q->dim[1] != k->dim[1] ||
        q->dim[3] != v->dim[3] || q->dim[2] != k->dim[2] || !rows_within(q, &rq, &cq, &hq) ||
        !rows_within(k, &rk, &ck, &hk) || !rows_within(v, &rv, &cv, &hv) || rq != 3 * n)
        return false;
    *by_head = false;
    if (cq == 0 && ck == n && cv == 2 * n && hq == d && hk == d && hv == d)
        return true;
    *by_head = true;
    return cq == 0 && ck == d && cv == 2 * d && hq == 3 * d && hk == 3 * d && hv == 3 * d;
}

static Tensor heads_tensor(View v)
{
    return view_tensor_as(v, by_length, SHAPE(v.dim[0], v.dim[2], v.dim[1] * v.dim[3]));
}

/* Is it the mask of a causal model: nothing for keys up to the query, minus infinity after it? */
static bool mask_is_causal(const Operand *mask)
{
    const View *v = &mask->view;
    if (!mask->host || v->rank < 2)
        return false;
    int rows = v->rank - 2, columns = v->rank - 1;
    for (int a = 0; a < rows; a++)
        if (v->dim[a] > 1 && v->stride[a])
            return false;
    for (int64_t i = 0; i < v->dim[rows]; i++)
        for (int64_t j = 0; j < v->dim[columns]; j++) {
            double x = host_f(mask, v->offset + i * v->stride[rows] + j * v->stride[columns]);
            if (j <= i ? x != 0 : x > -1e30)
                return false;
        }
    return true;
}

/* The mask as numbers to add, axes that repeat of extent 1; none where it masks nothing. rank: of the
 * queries. */
static Err mask_of(Lower *l, int rank, Operand mask, Tensor *bias, bool *causal)
{
    *bias = tensor_none(l->graph);
    if (!mask.set)
        return OK;
    if (!type_floats(mask.type)) {
        Formula f = formula(l);
        int     keep = F1(&f, TO_TRUTH, formula_input(&f, mask));
        TRY(formula_item(&f,
                         F3(&f, SELECT, keep, formula_number(&f, 0), formula_number(&f, -INFINITY)),
                         EX_F32, &mask));
    }
    if (mask.host) {
        bool    nothing = true;
        int64_t at;
        for (HostWalk w = host_walk(&mask.view); nothing && host_step(&w, &at);)
            nothing = host_f(&mask, at) == 0;
        *causal |= !nothing && mask_is_causal(&mask);
        if (nothing || mask_is_causal(&mask))
            return OK;
    }
    View v;
    TRY(item_view(l, &mask, &v));
    if (rank == 3 && v.rank == 3) /* no axis of heads */
        v = view_inserted(v, 1, 1);
    while (v.rank < 4)
        v = view_inserted(v, 0, 1);
    if (v.rank > 4 || rank > 4)
        return refuse(l, "a mask with %d axes for queries with %d", v.rank, rank);
    for (int i = 0; i < 3; i++)
        if (!v.stride[i])
            v.dim[i] = 1;
    *bias = view_tensor(v, NULL);
    return graph_check(l->graph);
}

/* y (B, L, H D) as the file's result: with as many axes as q had. */
static Err attended_view(Lower *l, Tensor y, const View *q, Dims dims, View *out)
{
    *out = view_make(y, dims, by_length);
    if (q->rank == 3)
        *out = view_dropped(*out, 1);
    else if (q->rank == 2)
        *out = view_dropped(view_dropped(*out, 0), 0);
    else if (q->rank > 4) {
        Dims whole = view_dims(q);
        whole.at[q->rank - 1] = dims.at[3];
        *out = view_copied_reshape(*out, whole);
    }
    return graph_check(l->graph);
}

Err lower_attend(Lower *l, const Attend *a, View *out)
{
    View q, k, v;
    TRY(four_axes(l, a->q, &q));
    TRY(four_axes(l, a->k, &k));
    TRY(four_axes(l, a->v, &v));
    AttentionOptions options = { .scale = (float)a->scale,
                                 .temperature = tensor_none(l->graph),
                                 .kv_heads = (int)k.dim[1],
                                 .v_width = (int)v.dim[3],
                                 .causal = a->causal,
                                 .dropout = (float)a->dropout,
                                 .stream = random_stream_of(l),
                                 .counters = a->dropout > 0 ? graph_counters(l->graph)
                                                            : tensor_none(l->graph),
                                 .stored = l->graph->build->stored_attention };
    if (a->dropout > 0)
        note_drawn(l, (Drawn){ .kind = DRAWN_MASK, .rate = (float)a->dropout },
                   (Dims){ 4, { q.dim[0], q.dim[1], q.dim[2], k.dim[2] } }, NULL);
    TRY(mask_of(l, a->q.rank, a->mask, &options.bias, &options.causal));
    Type   type = view_type(&q);
    bool   by_head, same = view_type(&k) == type && view_type(&v) == type;
    Tensor y;
    int    heads = (int)q.dim[1];
    if (same && packed(&q, &k, &v, &by_head)) {
        options.by_head = by_head;
        y = attention_qkv(reshape(q.base, SHAPE(q.dim[0], q.dim[2], 3 * q.dim[1] * q.dim[3])),
                          heads, &options);
    } else {
        type = type == F32 ? view_type(&v) : type;
        y = attention(cast(heads_tensor(q), type), cast(heads_tensor(k), type),
                      cast(heads_tensor(v), type), heads, &options);
    }
    TRY(graph_check(l->graph));
    return attended_view(l, y, &a->q, (Dims){ 4, { q.dim[0], q.dim[1], q.dim[2], v.dim[3] } }, out);
}

static Err attention_of(Lower *l)
{
    Attend a = { .causal = arg_bool(l, "is_causal", false) };
    View   out;
    TRY(arg_view(l, "query", &a.q));
    TRY(arg_view(l, "key", &a.k));
    TRY(arg_view(l, "value", &a.v));
    TRY(arg_item(l, "attn_mask", &a.mask));
    TRY(arg_float(l, "scale", 0, &a.scale));
    TRY(arg_float(l, "dropout_p", 0, &a.dropout));
    int64_t heads = a.q.rank == 4 ? a.q.dim[1] : 1, others = a.k.rank == 4 ? a.k.dim[1] : 1;
    if (heads != others && !arg_bool(l, "enable_gqa", false) && others != 1)
        return refuse(l, "%lld heads of queries, %lld of keys", (long long)heads,
                      (long long)others);
    TRY(lower_attend(l, &a, &out));
    return give_view(l, 0, out);
}

const LowerDef lower_attention[] = {
    { "aten.scaled_dot_product_attention.default", attention_of, 0, false },
    /* of a program that was decomposed */
    { "aten._scaled_dot_product_flash_attention_for_cpu.default", attention_of, 0, false },
    { "aten._scaled_dot_product_flash_attention.default", attention_of, 0, false },
    { 0 },
};
