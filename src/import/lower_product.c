/* lower_product.c -- products and convolutions. */
#include "import/lower.h"

#include "ops/conv/conv.h"
#include "ops/elementwise/basic.h"
#include "ops/linear/linear.h"
#include "ops/matmul/matmul.h"

#include <ctype.h>
#include <string.h>

/* x W^T + b, the weight (out, in) or, transposed, (in, out). */
static Err linear_with(Lower *l, View x, View w, Tensor bias, bool in_out)
{
    int order[VIEW_RANK], worder[VIEW_RANK];
    if (x.rank < 1 || w.rank != 2)
        return refuse(l, "a weight with %d axes", w.rank);
    view_order_last(&x, x.rank - 1, order);
    bool dense = view_is_dense(&w, worder);
    if (dense && worder[0] == 1 && w.dim[0] > 1 && w.dim[1] > 1) { /* stored the other way round */
        in_out = !in_out;
        w = view_permuted(w, (int[]){ 1, 0 });
    }
    Tensor weight = view_tensor(w, NULL), rows = view_tensor(x, order);
    if (tensor_type(rows) != tensor_type(weight))
        rows = cast(rows, tensor_type(weight));
    return give_tensor(l, 0, linear_op(rows, weight, bias, (LinearAttr){ in_out }), order);
}

Err lower_linear(Lower *l, View x, View w, Dims dims)
{
    int  order[VIEW_RANK];
    View y;
    view_order_last(&x, x.rank - 1, order);
    Tensor rows = view_tensor(x, order), weight = view_tensor(w, NULL);
    if (tensor_type(rows) != tensor_type(weight))
        rows = cast(rows, tensor_type(weight));
    Tensor t = linear_op(rows, weight, tensor_none(l->graph), (LinearAttr){ true });
    TRY(graph_check(l->graph));
    Dims flat = view_dims(&x);
    flat.at[flat.rank - 1] = w.dim[1];
    y = view_copied_reshape(view_make(t, flat, order), dims);
    return give_view(l, 0, y);
}

static Err linear(Lower *l)
{
    View   x, w;
    Tensor bias;
    TRY(arg_view(l, "input", &x));
    TRY(arg_view(l, "weight", &w));
    TRY(arg_vector(l, "bias", &bias));
    return linear_with(l, x, w, bias, false);
}

/* ---- products of activations ---- */

/* Where the matrices of an operand lie; false: it must be copied first. */
static bool side_of(const View *v, bool *transposed, MatmulSide *side)
{
    int     row = v->rank - 2, column = v->rank - 1;
    int64_t m = v->dim[row], k = v->dim[column];
    *side = (MatmulSide){ .offset = v->offset };
    if (v->stride[column] == 1 || k == 1) {
        *transposed = false;
        side->row_stride = m == 1 ? k : v->stride[row];
        return side->row_stride >= k;
    }
    if (v->stride[row] == 1 || m == 1) {
        *transposed = true;
        side->row_stride = v->stride[column];
        return side->row_stride >= m;
    }
    return false;
}

/* An operand that covers its tensor, matrices with contiguous rows. */
static View matrix_operand(View v)
{
    int        order[VIEW_RANK];
    bool       transposed;
    MatmulSide side;
    if (view_is_whole(&v, order) && side_of(&v, &transposed, &side))
        return v;
    View kept = v;
    for (int a = 0; a < v.rank - 2; a++)
        if (!v.stride[a])
            kept.dim[a] = 1;
    return view_expanded(view_densed(kept, NULL), view_dims(&v));
}

/* Batch axes that lie alike in both operands are merged. False: more than three are left. */
static bool batches(const View *a, const View *b, MatmulAttr *at)
{
    for (int i = 0; i < a->rank - 2; i++) {
        if (a->dim[i] == 1)
            continue;
        int n = at->batch_rank;
        if (n && at->a.batch_stride[n - 1] == a->stride[i] * a->dim[i] &&
            at->b.batch_stride[n - 1] == b->stride[i] * b->dim[i]) {
            at->batch[n - 1] *= a->dim[i];
        } else if (n == MATMUL_BATCH) {
            return false;
        } else {
            at->batch[at->batch_rank++] = a->dim[i];
            n++;
        }
        at->a.batch_stride[n - 1] = a->stride[i];
        at->b.batch_stride[n - 1] = b->stride[i];
    }
    return true;
}

/* a (..., m, k) times b (..., k, n) under broadcasting; natural order of axes. */
static Err product(Lower *l, View a, View b, double alpha, View *out)
{
    int  rank = a.rank > b.rank ? a.rank : b.rank;
    Dims batch = { .rank = rank };
    if (!tensor_ok(a.base) || !tensor_ok(b.base))
        return refuse(l, "a factor is missing");
    if (a.rank < 2 || b.rank < 2)
        return refuse(l, "a product of tensors with %d and %d axes", a.rank, b.rank);
    if (a.dim[a.rank - 1] != b.dim[b.rank - 2])
        return refuse(l, "%lld columns times %lld rows", (long long)a.dim[a.rank - 1],
                      (long long)b.dim[b.rank - 2]);
    for (int i = 0; i < rank - 2; i++) {
        int64_t x = i - (rank - a.rank) >= 0 ? a.dim[i - (rank - a.rank)] : 1;
        int64_t y = i - (rank - b.rank) >= 0 ? b.dim[i - (rank - b.rank)] : 1;
        batch.at[i] = x > y ? x : y;
    }
    Dims da = batch, db = batch;
    memcpy(&da.at[rank - 2], &a.dim[a.rank - 2], 2 * sizeof *da.at);
    memcpy(&db.at[rank - 2], &b.dim[b.rank - 2], 2 * sizeof *db.at);
    a = matrix_operand(view_expanded(a, da));
    b = matrix_operand(view_expanded(b, db));
    MatmulAttr at = {
        .m = a.dim[rank - 2], .n = b.dim[rank - 1], .k = a.dim[rank - 1], .alpha = (float)alpha
    };
    if (!batches(&a, &b, &at)) {
        at.batch_rank = 0;
        a = view_densed(a, NULL);
        b = view_densed(b, NULL);
        REQUIRE(batches(&a, &b, &at));
    }
    REQUIRE(side_of(&a, &at.a_transposed, &(MatmulSide){ 0 }));
    MatmulSide side;
    side_of(&a, &at.a_transposed, &side);
    at.a.row_stride = side.row_stride;
    side_of(&b, &at.b_transposed, &side);
    at.b.row_stride = side.row_stride;
    int64_t stride = at.m * at.n;
    at.out.row_stride = at.n;
    for (int i = at.batch_rank - 1; i >= 0; i--) {
        at.out.batch_stride[i] = stride;
        stride *= at.batch[i];
    }
    Dims dims = batch;
    dims.at[rank - 2] = at.m;
    dims.at[rank - 1] = at.n;
    at.shape = view_shape(dims, NULL);
    at.type = view_type(&a) == F32 ? view_type(&b) : view_type(&a);
    Tensor ta = cast(a.base, at.type), tb = cast(b.base, at.type);
    *out = view_make(matmul_op(ta, tb, at), dims, NULL);
    return graph_check(l->graph);
}

Err lower_matmul(Lower *l, View a, View b, View *out) { return product(l, a, b, 1, out); }

bool lower_is_param(const Lower *l, const View *v)
{
    return tensor_ok(v->base) && value_at(l->graph, v->base.id)->persistent &&
           param_of(l->graph, v->base.id);
}

static bool is_param(const Lower *l, const View *v) { return v->rank == 2 && lower_is_param(l, v); }

static Err matmul_any(Lower *l)
{
    View a, b, y;
    TRY(arg_view(l, "self", &a));
    TRY(arg_view(l,
                 arg_given(l, "other")    ? "other"
                 : arg_given(l, "mat2")   ? "mat2"
                 : arg_given(l, "tensor") ? "tensor"
                                          : "vec",
                 &b));
    if (is_param(l, &b) && a.rank >= 2)
        return linear_with(l, a, b, tensor_none(l->graph), true);
    bool row = a.rank == 1, column = b.rank == 1;
    if (row)
        a = view_inserted(a, 0, 1);
    if (column)
        b = view_inserted(b, 1, 1);
    TRY(product(l, a, b, 1, &y));
    if (column)
        y = view_dropped(y, y.rank - 1);
    if (row)
        y = view_dropped(y, y.rank - 1 - !column);
    return give_view(l, 0, y);
}

/* beta self + alpha mat1 mat2 */
static Err addmm(Lower *l)
{
    View   a, b, y, self;
    double alpha, beta;
    bool   batched = l->def->with;
    TRY(arg_view(l, "self", &self));
    TRY(arg_view(l, batched ? "batch1" : "mat1", &a));
    TRY(arg_view(l, batched ? "batch2" : "mat2", &b));
    TRY(arg_float(l, "alpha", 1, &alpha));
    TRY(arg_float(l, "beta", 1, &beta));
    if (is_param(l, &b) && self.rank == 1 && alpha == 1 && beta == 1)
        return linear_with(l, a, b, view_tensor(self, NULL), true);
    TRY(product(l, a, b, alpha, &y));
    Formula f = formula(l);
    int     x = formula_input(&f, item_of(l, self, EX_F32));
    if (beta != 1)
        x = F2(&f, MUL, x, formula_number(&f, beta));
    int sum = F2(&f, ADD, formula_input(&f, item_of(l, y, EX_F32)), x);
    return beta != 0 ? formula_give(&f, sum, 0) : give_view(l, 0, y);
}

static Err outer(Lower *l)
{
    Operand a, b;
    TRY(arg_item(l, "self", &a));
    TRY(arg_item(l, "vec2", &b));
    a.view = view_inserted(a.view, 1, 1);
    Formula f = formula(l);
    int     x = formula_input(&f, a), y = formula_input(&f, b);
    return formula_give(&f, F2(&f, MUL, x, y), 0);
}

/* ---- einsum ---- */

static int letter_at(const Letters *s, char c)
{
    for (int i = 0; i < s->n; i++)
        if (s->at[i] == c)
            return i;
    return -1;
}

/* The letters up to the next comma or arrow; "..." is so many from the character 1 on, aligned at
 * the last of `most`. `item`: a letter that stands twice in an operand leaves one axis, its diagonal;
 * NULL: the result. */
static Err letters_read(Lower *l, const char **text, Operand *item, int most, Letters *s)
{
    *s = (Letters){ 0 };
    int written = 0, rank = item ? item->view.rank : -1, axis = 0;
    for (const char *c = *text; *c && *c != ',' && *c != '-'; c++)
        written += *c != ' ' && *c != '.';
    int hidden = rank < 0 ? most : rank - written;
    for (; **text && **text != ',' && **text != '-'; (*text)++) {
        if (**text == ' ')
            continue;
        if (!strncmp(*text, "...", 3)) {
            *text += 2;
            for (int i = most - hidden; i < most && s->n < VIEW_RANK; i++)
                s->at[s->n++] = (char)(1 + i);
            axis += hidden > 0 ? hidden : 0;
            continue;
        }
        int twin = letter_at(s, **text);
        if (!isalpha((unsigned char)**text) || s->n == VIEW_RANK ||
            (twin >= 0 && (!item || !strchr(*text, '>'))))
            return refuse(l, "this form of equation is not supported");
        if (axis == rank)
            return refuse(l, "the equation does not fit its operands");
        if (twin < 0) {
            s->at[s->n++] = **text;
            axis++;
            continue;
        }
        View *v = &item->view;
        if (v->dim[twin] != v->dim[axis])
            return refuse(l, "the equation does not fit its operands");
        v->stride[twin] += v->stride[axis];
        v->dim[axis] = 1;
        *v = view_dropped(*v, axis);
        rank--;
    }
    return rank >= 0 && s->n != rank ? refuse(l, "the equation does not fit its operands") : OK;
}

enum { MAX_EINSUM = 6 };

/* How many axes the longest "..." stands for. */
static int hidden_axes(const char *text, const Operand *items, int n)
{
    int most = 0;
    for (int i = 0; i < n; i++) {
        int  written = 0;
        bool dots = false;
        for (; *text && *text != ',' && *text != '-'; text++) {
            dots |= *text == '.';
            written += *text != ' ' && *text != '.';
        }
        text += *text == ',';
        if (dots && items[i].view.rank - written > most)
            most = items[i].view.rank - written;
    }
    return most;
}

/* No arrow: the letters that stand once, in the order of the alphabet. */
static void letters_implied(const Letters *in, int n, Letters *out)
{
    *out = (Letters){ 0 };
    for (int c = 1; c <= 'z'; c++) {
        int found = 0;
        for (int i = 0; i < n; i++)
            found += letter_at(&in[i], (char)c) >= 0;
        if (found && (found == 1 || c < 'A') && out->n < VIEW_RANK)
            out->at[out->n++] = (char)c;
    }
}

/* Axes of the operand in this order of letters; those it lacks are inserted. */
static View lettered(View v, const Letters *have, const char *want, int n)
{
    View out = { .base = v.base, .offset = v.offset, .rank = n };
    for (int i = 0; i < n; i++) {
        int a = letter_at(have, want[i]);
        out.dim[i] = a < 0 ? 1 : v.dim[a];
        out.stride[i] = a < 0 ? 0 : v.stride[a];
    }
    return out;
}

/* The letters in groups: batch (both, kept), rows (a only), columns (b only), summed (both). */
typedef struct Sorted {
    char batch[VIEW_RANK + 1], rows[VIEW_RANK + 1], columns[VIEW_RANK + 1], summed[VIEW_RANK + 1];
    int  n_batch, n_rows, n_columns, n_summed;
} Sorted;

static Err letters_sort(Lower *l, const Letters *a, const Letters *b, const Letters *y, Sorted *s)
{
    *s = (Sorted){ 0 };
    for (int i = 0; i < a->n; i++) {
        char c = a->at[i];
        bool other = letter_at(b, c) >= 0, kept = letter_at(y, c) >= 0;
        if (other && kept)
            s->batch[s->n_batch++] = c;
        else if (other)
            s->summed[s->n_summed++] = c;
        else if (kept)
            s->rows[s->n_rows++] = c;
        else
            return refuse(l, "a letter that stands in one operand only");
    }
    for (int i = 0; i < b->n; i++)
        if (letter_at(a, b->at[i]) < 0) {
            if (letter_at(y, b->at[i]) < 0)
                return refuse(l, "a letter that stands in one operand only");
            s->columns[s->n_columns++] = b->at[i];
        }
    return OK;
}

/* (batch..., first..., second...) with `first` and `second` merged into one axis each. */
static View matrices(View v, const Letters *have, const Sorted *s, const char *first, int n_first,
                     const char *second, int n_second)
{
    char want[2 * VIEW_RANK];
    int  n = 0;
    memcpy(want, s->batch, (size_t)s->n_batch);
    n = s->n_batch;
    memcpy(want + n, first, (size_t)n_first);
    memcpy(want + n + n_first, second, (size_t)n_second);
    View view = lettered(v, have, want, n + n_first + n_second);
    Dims dims = { .rank = n + 2 };
    for (int i = 0; i < n; i++)
        dims.at[i] = view.dim[i];
    dims.at[n] = dims.at[n + 1] = 1;
    for (int i = 0; i < n_first + n_second; i++)
        dims.at[i < n_first ? n : n + 1] *= view.dim[n + i];
    return view_copied_reshape(view, dims);
}

/* A permutation, and sums over the letters that are left out. */
static Err letters_only(Lower *l, Operand item, const Letters *in, const Letters *out, Operand *y)
{
    char     all[VIEW_RANK + 1];
    uint32_t axes = 0;
    int      n = out->n;
    memcpy(all, out->at, (size_t)out->n);
    for (int i = 0; i < in->n; i++)
        if (letter_at(out, in->at[i]) < 0) {
            axes |= 1u << n;
            all[n++] = in->at[i];
        }
    item.view = lettered(item.view, in, all, n);
    *y = item;
    if (!axes)
        return OK;
    Formula f = formula(l);
    return formula_reduce(&f, formula_input(&f, item), POINT_SUM, axes, 1, out_type_of(l, 0), y);
}

static int64_t letter_extent(const View *a, const Letters *la, const View *b, const Letters *lb,
                             char c)
{
    int     i = letter_at(la, c), k = letter_at(lb, c);
    int64_t x = i < 0 ? 1 : a->dim[i], y = k < 0 ? 1 : b->dim[k];
    return x > y ? x : y;
}

/* Two operands; every letter of one alone is in the result. */
Err einsum_pair(Lower *l, const Operand *items, const Letters *in, const Letters *out, Operand *sum)
{
    View   a, b, y;
    Sorted s;
    TRY(letters_sort(l, &in[0], &in[1], out, &s));
    if (items[0].host && items[1].host) { /* a table: as a sum of products */
        char all[VIEW_RANK + 1];
        int  k = 0;
        memcpy(all, out->at, (size_t)out->n);
        memcpy(all + out->n, s.summed, (size_t)s.n_summed);
        k = out->n + s.n_summed;
        Formula f = formula(l);
        int     x = formula_input(&f, item_with(items[0], lettered(items[0].view, &in[0], all, k)));
        int     z = formula_input(&f, item_with(items[1], lettered(items[1].view, &in[1], all, k)));
        return formula_reduce(&f, F2(&f, MUL, x, z), POINT_SUM, ((1u << s.n_summed) - 1) << out->n,
                              1, out_type_of(l, 0), sum);
    }
    TRY(item_view(l, &items[0], &a));
    TRY(item_view(l, &items[1], &b));
    Dims split = { 0 };
    char letters[2 * VIEW_RANK];
    int  m = 0, axis[VIEW_RANK];
    for (int i = 0; i < s.n_batch; i++)
        letters[m++] = s.batch[i];
    for (int i = 0; i < s.n_rows; i++)
        letters[m++] = s.rows[i];
    for (int i = 0; i < s.n_columns; i++)
        letters[m++] = s.columns[i];
    for (int i = 0; i < m; i++)
        split.at[split.rank++] = letter_extent(&a, &in[0], &b, &in[1], letters[i]);
    TRY(product(l, matrices(a, &in[0], &s, s.rows, s.n_rows, s.summed, s.n_summed),
                matrices(b, &in[1], &s, s.summed, s.n_summed, s.columns, s.n_columns), 1, &y));
    y = view_copied_reshape(y, split);
    for (int i = 0; i < out->n; i++)
        for (int k = 0; k < m; k++)
            if (letters[k] == out->at[i])
                axis[i] = k;
    *sum = item_of(l, view_permuted(y, axis), out_type_of(l, 0));
    return graph_check(l->graph);
}

/* Those letters of `s` that the result or an operand from `from` on needs. */
static Letters letters_needed(const Letters *s, const Letters *in, int from, int n,
                              const Letters *out, const Letters *other)
{
    Letters kept = { 0 };
    for (int i = 0; i < s->n; i++) {
        bool need = letter_at(out, s->at[i]) >= 0 || (other && letter_at(other, s->at[i]) >= 0);
        for (int k = from; k < n; k++)
            need |= letter_at(&in[k], s->at[i]) >= 0;
        if (need)
            kept.at[kept.n++] = s->at[i];
    }
    return kept;
}

/* One operand after another is multiplied to what there is. */
static Err einsum(Lower *l)
{
    const char *text = arg_text(l, "equation", "");
    Letters     in[MAX_EINSUM], out;
    Operand     items[MAX_EINSUM], y;
    int         n;
    TRY(arg_items(l, "tensors", items, MAX_EINSUM, &n));
    int most = hidden_axes(text, items, n);
    for (int i = 0; i < n; i++) {
        TRY(letters_read(l, &text, &items[i], most, &in[i]));
        text += *text == ',';
    }
    letters_implied(in, n, &out);
    if (*text) {
        text += strspn(text, "-> ");
        TRY(letters_read(l, &text, NULL, most, &out));
    }
    for (int i = 1; i < n; i++) {
        Letters kept[2], mid = { 0 };
        Operand pair[2];
        kept[0] = letters_needed(&in[0], in, i, n, &out, NULL);
        kept[1] = letters_needed(&in[i], in, i + 1, n, &out, &in[0]);
        TRY(letters_only(l, items[0], &in[0], &kept[0], &pair[0]));
        TRY(letters_only(l, items[i], &in[i], &kept[1], &pair[1]));
        for (int side = 0; side < 2; side++)
            for (int k = 0; k < kept[side].n; k++) {
                char c = kept[side].at[k];
                bool need = letter_at(&out, c) >= 0;
                for (int j = i + 1; j < n; j++)
                    need |= letter_at(&in[j], c) >= 0;
                if (need && letter_at(&mid, c) < 0 && mid.n < VIEW_RANK)
                    mid.at[mid.n++] = c;
            }
        if (i == n - 1)
            mid = out;
        TRY(einsum_pair(l, pair, kept, &mid, &items[0]));
        in[0] = mid;
    }
    TRY(letters_only(l, items[0], &in[0], &out, &y));
    return give(l, 0, y);
}

/* (sum |a - b|^p)^(1/p) of every pair of rows */
static Err cdist(Lower *l)
{
    Operand a, b, sum;
    double  p;
    TRY(arg_item(l, "x1", &a));
    TRY(arg_item(l, "x2", &b));
    TRY(arg_float(l, "p", 2, &p));
    if (!(p > 0) || isinf(p))
        return refuse(l, "the norm %g is not supported", p);
    if (a.view.rank < 2 || b.view.rank < 2)
        return refuse(l, "tensors with %d and %d axes", a.view.rank, b.view.rank);
    int rank = a.view.rank;
    a.view = view_inserted(a.view, rank - 1, 1);
    b.view = view_inserted(b.view, b.view.rank - 2, 1);
    Formula f = formula(l);
    int     d = F2(&f, SUB, formula_input(&f, a), formula_input(&f, b));
    d = formula_power(&f, d, p);
    TRY(formula_reduce(&f, d, POINT_SUM, 1u << rank, 1, out_type_of(l, 0), &sum));
    Formula g = formula(l);
    return formula_give(&g, formula_norm(&g, formula_input(&g, sum), p), 0);
}

/* ---- convolutions ---- */

static Err conv_padding(Lower *l, int n, const View *w, const ConvAttr *at, int64_t *pad,
                        int64_t *extra)
{
    const char *mode = arg_text(l, "padding", NULL);
    memset(extra, 0, (size_t)n * sizeof *extra);
    if (!mode)
        return arg_fill(l, "padding", n, 0, pad);
    for (int i = 0; i < n; i++) {
        int64_t all = strcmp(mode, "same") ? 0 : at->dilation[3 - n + i] * (w->dim[2 + i] - 1);
        pad[i] = all / 2;
        extra[i] = all - 2 * pad[i]; /* an odd one goes to the end */
    }
    return OK;
}

static Err conv_with(Lower *l, int n, bool transposed)
{
    View     x, w;
    Tensor   bias;
    ConvAttr at = { .stride = { 1, 1, 1 }, .dilation = { 1, 1, 1 } };
    int64_t  pad[3], extra[3], more[3];
    TRY(arg_view(l, "input", &x));
    TRY(arg_view(l, "weight", &w));
    TRY(arg_vector(l, "bias", &bias));
    bool lone = x.rank == n + 1; /* no batch axis */
    if (lone)
        x = view_inserted(x, 0, 1);
    if (x.rank != n + 2)
        return refuse(l, "an input with %d axes", x.rank);
    if (w.rank != n + 2)
        return refuse(l, "a weight with %d axes", w.rank);
    TRY(arg_fill(l, "stride", n, 1, &at.stride[3 - n]));
    TRY(arg_fill(l, "dilation", n, 1, &at.dilation[3 - n]));
    TRY(conv_padding(l, n, &w, &at, pad, extra));
    TRY(arg_fill(l, "output_padding", n, 0, more));
    TRY(arg_int(l, "groups", 1, &at.groups));
    for (int i = 0; i < n; i++) {
        at.pad_lo[3 - n + i] = pad[i];
        at.pad_hi[3 - n + i] = pad[i] + extra[i] - (transposed ? more[i] : 0);
    }
    int order[VIEW_RANK], worder[VIEW_RANK];
    order_channels_last(n + 2, order);
    for (int i = 0; i < n; i++)
        worder[i] = i + 2;
    worder[n] = 1;
    worder[n + 1] = 0;
    Tensor tw = view_tensor(w, worder), tx = cast(view_tensor(x, order), tensor_type(tw));
    Tensor y = n == 1       ? (transposed ? conv_transpose1d_op(tx, tw, bias, at)
                                          : conv1d_op(tx, tw, bias, at))
               : transposed ? conv_transpose_op(tx, tw, bias, at)
                            : conv_op(tx, tw, bias, at);
    if (lone) {
        for (int i = 0; i <= n; i++)
            order[i] = order[i + 1] - 1;
    }
    return give_tensor(l, 0, y, order);
}

static Err conv_n(Lower *l) { return conv_with(l, l->def->with, false); }
static Err conv_transpose_n(Lower *l) { return conv_with(l, l->def->with, true); }

static Err convolution(Lower *l)
{
    View x;
    TRY(arg_view(l, "input", &x));
    if (x.rank < 3 || x.rank > 5)
        return refuse(l, "an input with %d axes", x.rank);
    return conv_with(l, x.rank - 2, arg_bool(l, "transposed", false));
}

/* clang-format off */
const LowerDef lower_products[] = {
    { "aten.linear.default", linear, 0, false },
    { "aten.matmul.default", matmul_any, 0, false }, { "aten.mm.default", matmul_any, 0, false },
    { "aten.bmm.default", matmul_any, 0, false }, { "aten.mv.default", matmul_any, 0, false },
    { "aten.dot.default", matmul_any, 0, false },
    { "aten.addmm.default", addmm, 0, false }, { "aten.baddbmm.default", addmm, 1, false },
    { "aten.outer.default", outer, 0, false }, { "aten.einsum.default", einsum, 0, false },
    { "aten.cdist.default", cdist, 0, false },
    { "aten.conv1d.default", conv_n, 1, false }, { "aten.conv2d.default", conv_n, 2, false },
    { "aten.conv3d.default", conv_n, 3, false }, { "aten.conv1d.padding", conv_n, 1, false },
    { "aten.conv2d.padding", conv_n, 2, false }, { "aten.conv3d.padding", conv_n, 3, false },
    { "aten.conv_transpose1d.default", conv_transpose_n, 1, false },
    { "aten.conv_transpose2d.input", conv_transpose_n, 2, false },
    { "aten.conv_transpose3d.input", conv_transpose_n, 3, false },
    { "aten.convolution.default", convolution, 0, false },
    { 0 }
};
/* clang-format on */
