/* known_attention.c -- attention that is written out.
 *
 *   softmax(scale q k^T + bias) v, as matmul, bmm or einsum, the scores scaled by numbers, with terms
 *   added, hidden by masked_fill or where, and the probabilities dropped out
 *
 * What is hidden must be minus infinity. A smaller number does as well if the mask is a constant
 * that leaves something in each row: its exponential is 0.
 */
#include "import/known_calls.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

enum { SCORE_RANK = 4, MAX_TERMS = 4 };

#define HIDES   (-1e9)  /* its exponential is 0 beside any score */
#define NO_KEYS (-1e30) /* what attention takes for minus infinity */

typedef struct Hidden {
    int32_t mask;
    bool    keeps; /* the mask says what stays */
    double  value;
} Hidden;

typedef struct Written {
    int32_t q, k, v;
    /* (..., queries, width), (..., keys, width), (..., keys, width of v): the axis of the value that
     * stands there; out: the same of the result, of which (..., queries, width of v) is known */
    int     q_axes[SCORE_RANK], k_axes[SCORE_RANK], v_axes[SCORE_RANK], out_axes[SCORE_RANK];
    int     rank, n_added, n_hidden;
    double  scale;
    int32_t added[MAX_TERMS];
    Hidden  hidden[MAX_TERMS];
    int32_t dropout; /* the call, or -1 */
    double  rate;
} Written;

/* ---- products ---- */

typedef struct LetterProduct { /* letters of the axes of both operands and of the result */
    int32_t in[2];
    Letters side[2], out;
} LetterProduct;

static int letter_place(const Letters *s, char c)
{
    for (int i = 0; i < s->n; i++)
        if (s->at[i] == c)
            return i;
    return -1;
}

/* Up to a comma, an arrow or the end, at most SCORE_RANK, none twice. */
static bool read_letters(const char **text, Letters *s)
{
    for (*s = (Letters){ 0 }; **text && **text != ',' && **text != '-'; (*text)++) {
        if (**text == ' ')
            continue;
        if (!isalpha((unsigned char)**text) || s->n == SCORE_RANK || letter_place(s, **text) >= 0)
            return false;
        s->at[s->n++] = **text;
    }
    return s->n > 0;
}

static bool read_einsum(const ExportedCall *call, LetterProduct *p)
{
    const ExportedArg *equation = call_arg(call, "equation"), *in = call_arg(call, "tensors");
    if (!equation || equation->kind != ARG_TEXT || !in || in->kind != ARG_VALUES || in->n != 2)
        return false;
    const char *text = equation->text;
    for (int i = 0; i < 2; i++) {
        p->in[i] = in->values[i];
        if (p->in[i] < 0 || !read_letters(&text, &p->side[i]))
            return false;
        text += *text == ',';
    }
    if (strncmp(text, "->", 2) != 0)
        return false;
    text += 2;
    return read_letters(&text, &p->out) && !*text;
}

static bool read_matmul(KnownSearch *k, const ExportedCall *call, LetterProduct *p)
{
    Dims dims[2];
    for (int i = 0; i < 2; i++) {
        p->in[i] = known_arg(call, i);
        if (!known_dims(k, p->in[i], &dims[i]))
            return false;
    }
    int n = dims[0].rank;
    if (call->n_args != 2 || n != dims[1].rank || n < 2 || n > SCORE_RANK)
        return false;
    p->side[0] = p->side[1] = p->out = (Letters){ .n = n, .at = "abcd" };
    p->side[0].at[n - 2] = p->out.at[n - 2] = 'i';
    p->side[0].at[n - 1] = p->side[1].at[n - 2] = 'k';
    p->side[1].at[n - 1] = p->out.at[n - 1] = 'j';
    return true;
}

/* Extents of letters agree: nothing is repeated. */
static bool sizes_agree(KnownSearch *k, const LetterProduct *p)
{
    Dims a, b;
    if (!known_dims(k, p->in[0], &a) || !known_dims(k, p->in[1], &b) || a.rank != p->side[0].n ||
        b.rank != p->side[1].n)
        return false;
    for (int i = 0; i < a.rank; i++) {
        int at = letter_place(&p->side[1], p->side[0].at[i]);
        if (at >= 0 && a.at[i] != b.at[at])
            return false;
    }
    return true;
}

static bool read_product(KnownSearch *k, const ExportedCall *call, LetterProduct *p)
{
    bool einsum = !strcmp(call->target, "aten.einsum.default"),
         matmul = !strcmp(call->target, "aten.matmul.default") ||
                  !strcmp(call->target, "aten.bmm.default");
    return ((einsum && read_einsum(call, p)) || (matmul && read_matmul(k, call, p))) &&
           sizes_agree(k, p);
}

/* Places of these letters among those of an operand. */
static bool find_axes(const Letters *of, const char *letters, int n, int *axes)
{
    for (int i = 0; i < n; i++) {
        axes[i] = letter_place(of, letters[i]);
        if (axes[i] < 0)
            return false;
    }
    return of->n == n;
}

/* The letter of an operand that is not among others. */
static char other_letter(const Letters *of, const Letters *others)
{
    for (int i = 0; i < of->n; i++)
        if (letter_place(others, of->at[i]) < 0)
            return of->at[i];
    return 0;
}

/* (..., i, j) = sum over d of q (..., i, d) k (..., j, d) */
static bool find_scores(KnownSearch *k, int32_t value, Written *w)
{
    static const char *const targets[] = { "matmul.default", "bmm.default", "einsum.default" };
    const ExportedCall      *call = NULL;
    LetterProduct            p;
    for (int i = 0; i < 3 && !call; i++)
        call = known_call(k, value, targets[i]);
    if (!call || !read_product(k, call, &p) || p.out.n != w->rank || p.out.n < 2)
        return false;
    int  n = p.out.n, first = letter_place(&p.side[0], p.out.at[n - 2]) < 0;
    char letters[SCORE_RANK];
    memcpy(letters, p.out.at, (size_t)n);
    letters[n - 1] = other_letter(&p.side[0], &p.out);
    w->q = p.in[first];
    w->k = p.in[!first];
    if (!letters[n - 1] || !find_axes(&p.side[first], letters, n, w->q_axes))
        return false;
    letters[n - 2] = p.out.at[n - 1];
    return find_axes(&p.side[!first], letters, n, w->k_axes);
}

/* The product with the probabilities, which are operand `at`. */
static bool find_values(const LetterProduct *p, int at, Written *w)
{
    const Letters *mine = &p->side[at], *theirs = &p->side[!at];
    int            n = mine->n;
    char           letters[SCORE_RANK + 1], d = other_letter(theirs, mine);
    if (n < 2 || n > SCORE_RANK)
        return false;
    memcpy(letters, mine->at, (size_t)n);
    w->rank = n;
    w->v = p->in[!at];
    letters[n - 2] = mine->at[n - 1];
    letters[n - 1] = d;
    if (!d || !find_axes(theirs, letters, n, w->v_axes))
        return false;
    letters[n - 2] = mine->at[n - 2];
    letters[n] = 0;
    for (int i = 0; i < n; i++) { /* where the result's axis i stands */
        const char *c = i < p->out.n ? strchr(letters, p->out.at[i]) : NULL;
        if (!c)
            return false;
        w->out_axes[i] = (int)(c - letters);
    }
    return p->out.n == n;
}

/* ---- from the probabilities to the scores ---- */

static bool is_fp32(const KnownSearch *k, int32_t value)
{
    return value >= 0 && k->l->program->values[value].type == EX_F32;
}

/* The operand of a call that changes nothing; -1: another call. */
static int32_t under_same(KnownSearch *k, int32_t value)
{
    static const char *const targets[] = { "to.dtype", "contiguous.default", "clone.default",
                                           "alias.default" };
    for (int i = 0; i < 4; i++) {
        const ExportedCall *call = known_call(k, value, targets[i]);
        if (call)
            return is_fp32(k, known_arg(call, 0)) ? known_arg(call, 0) : -1;
    }
    return -1;
}

static bool same_size(KnownSearch *k, int32_t a, int32_t b)
{
    Dims x, y;
    return known_dims(k, a, &x) && known_dims(k, b, &y) && dims_same(x, y);
}

static bool mixes(const ExportedCall *call) /* its results are no sums with a mask */
{
    static const char *const targets[] = { "linear", "matmul",    "bmm",  "einsum", "conv",
                                           "index",  "embedding", "norm", "softmax" };
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (strstr(call->target, targets[i]))
            return true;
    return false;
}

/* Does the value depend on data by way of a finite number that attention takes for minus infinity?
 * Where such numbers fill a row, what they were added to would count. */
static bool computed_with_minimum(const KnownSearch *k, int32_t value, int *steps)
{
    int32_t at = value >= 0 ? k->l->program->values[value].producer : -1;
    double  number;
    if (at < 0 || k->constant[value] || mixes(&k->l->program->calls[at]))
        return false;
    if (--*steps < 0)
        return true;
    const ExportedCall *call = &k->l->program->calls[at];
    for (int i = 0; i < call->n_args; i++) {
        const ExportedArg *a = &call->args[i];
        if (known_number_at(call, i, &number) && number < NO_KEYS && !isinf(number))
            return true;
        for (int32_t j = 0; a->values && j < a->n; j++)
            if (computed_with_minimum(k, a->values[j], steps))
                return true;
    }
    return false;
}

static bool find_logits(KnownSearch *k, int32_t value, Written *w);

/* x + bias, in either order: k and w as they were where the first is not the scores. */
static bool find_sum(KnownSearch *k, const ExportedCall *add, Written *w)
{
    if (add->n_args != 2)
        return false;
    for (int i = 0; i < 2; i++) {
        Written before = *w;
        int     n = k->n, steps = 64;
        int32_t bias = known_arg(add, !i);
        if (is_fp32(k, bias) && same_size(k, add->out[0], known_arg(add, i)) &&
            find_logits(k, known_arg(add, i), w) && w->n_added < MAX_TERMS &&
            !computed_with_minimum(k, bias, &steps)) {
            w->added[w->n_added++] = bias;
            return true;
        }
        *w = before;
        k->n = n;
    }
    return false;
}

/* What is added is not scaled; minus infinity stays what it is. */
static bool find_scaled(KnownSearch *k, const ExportedCall *call, bool divided, Written *w)
{
    double number;
    if (!known_number_at(call, 1, &number) || call->n_args != 2 || !(number > 0) ||
        !find_logits(k, known_arg(call, 0), w) || w->n_added)
        return false;
    for (int i = 0; i < w->n_hidden; i++)
        if (!isinf(w->hidden[i].value))
            return false;
    w->scale = divided ? w->scale / number : w->scale * number;
    return true;
}

static bool find_hidden(KnownSearch *k, const ExportedCall *call, bool keeps, int mask, int scores,
                        Written *w)
{
    Hidden h = { .mask = known_arg(call, mask), .keeps = keeps };
    if (call->n_args != 3 || h.mask < 0 || k->l->program->values[h.mask].type != EX_BOOL ||
        !known_number_at(call, 3 - mask - scores, &h.value) || !(h.value <= HIDES) ||
        !same_size(k, call->out[0], known_arg(call, scores)) ||
        !find_logits(k, known_arg(call, scores), w) || w->n_hidden == MAX_TERMS)
        return false;
    w->hidden[w->n_hidden++] = h;
    return true;
}

static bool find_logits(KnownSearch *k, int32_t value, Written *w)
{
    const ExportedCall *call;
    if (!is_fp32(k, value) || ++k->steps > KNOWN_STEPS)
        return false;
    if ((call = known_call(k, value, "add.Tensor")))
        return find_sum(k, call, w);
    if ((call = known_call(k, value, "mul.Tensor")) || (call = known_call(k, value, "mul.Scalar")))
        return find_scaled(k, call, false, w);
    if ((call = known_call(k, value, "div.Tensor")) || (call = known_call(k, value, "div.Scalar")))
        return find_scaled(k, call, true, w);
    if ((call = known_call(k, value, "masked_fill.Scalar")))
        return find_hidden(k, call, false, 1, 0, w);
    if ((call = known_call(k, value, "where.ScalarOther")))
        return find_hidden(k, call, true, 0, 1, w);
    if ((call = known_call(k, value, "where.ScalarSelf")))
        return find_hidden(k, call, false, 0, 2, w);
    int32_t same = under_same(k, value);
    return same >= 0 ? find_logits(k, same, w) : find_scores(k, value, w);
}

/* The call's rate, 0 where it drops nothing; false: it drops everything. */
static bool dropout_rate(const ExportedCall *call, double *rate)
{
    const ExportedArg *train = call_arg(call, "train");
    *rate = 0.5;
    if (call->n_args > 1 && !known_number_at(call, 1, rate))
        return false;
    if (train && (train->kind != ARG_BOOL || train->values))
        return false;
    if (train && !train->ints[0].value)
        *rate = 0;
    return *rate >= 0 && *rate < 1;
}

static bool is_along_keys(const ExportedCall *call, int rank)
{
    const ExportedArg *axis = call->n_args > 1 ? &call->args[1] : NULL;
    return axis && axis->kind == ARG_INT && !axis->values &&
           (axis->ints[0].value == -1 || axis->ints[0].value == rank - 1);
}

static bool find_probabilities(KnownSearch *k, int32_t value, Written *w)
{
    const ExportedCall *call;
    while (is_fp32(k, value)) {
        if (w->dropout < 0 && (call = known_call(k, value, "dropout.default"))) {
            if (!dropout_rate(call, &w->rate))
                return false;
            w->dropout = (int32_t)(call - k->l->program->calls);
            value = known_arg(call, 0);
            continue;
        }
        if ((call = known_call(k, value, "softmax.int")) ||
            (call = known_call(k, value, "_softmax.default")))
            return is_along_keys(call, w->rank) && find_logits(k, known_arg(call, 0), w);
        value = under_same(k, value);
    }
    return false;
}

/* ---- building ---- */

/* Does a constant mask leave a score in every row? */
static bool rows_remain(const Operand *mask, bool keeps)
{
    if (!mask->host)
        return false;
    int64_t at, n = 0, width = mask->view.rank ? mask->view.dim[mask->view.rank - 1] : 1;
    bool    some = false;
    for (HostWalk walk = host_walk(&mask->view); host_step(&walk, &at);) {
        some |= (host_i(mask, at) != 0) == keeps;
        if (++n % width)
            continue;
        if (!some)
            return false;
        some = false;
    }
    return true;
}

/* Does a constant that is added leave each row something, or hide it by minus infinity? */
static bool scores_remain(const Operand *mask)
{
    int64_t at, n = 0, width = mask->view.rank ? mask->view.dim[mask->view.rank - 1] : 1;
    bool    some = false, below = false;
    for (HostWalk walk = host_walk(&mask->view); host_step(&walk, &at);) {
        double x = host_f(mask, at);
        some |= x > NO_KEYS;
        below |= x <= NO_KEYS && !isinf(x);
        if (++n % width)
            continue;
        if (below && !some)
            return false;
        some = below = false;
    }
    return true;
}

/* With the last axis as long as there are keys. */
static Err along_keys(Lower *l, Operand *mask, int64_t keys)
{
    View v;
    int  last = mask->view.rank - 1;
    if (last >= 0 && mask->view.dim[last] == keys)
        return OK;
    TRY(item_view(l, mask, &v));
    if (last < 0)
        v = view_inserted(v, 0, keys);
    else
        v = view_inserted(view_dropped(v, last), last, keys);
    *mask = item_of(l, v, mask->type);
    return OK;
}

/* The sum of what is added, minus infinity where something is hidden; not set: nothing. */
static Err written_mask(Lower *l, const Written *w, int64_t keys, Operand *mask, bool *fits)
{
    Formula f = formula(l);
    int     sum = -1;
    *mask = item_none(l);
    for (int i = 0; i < w->n_added; i++) {
        ComplexParts x;
        *fits = *fits && known_parts(l, w->added[i], &x);
        if (!*fits)
            return OK;
        int y = formula_input(&f, x.re);
        sum = sum < 0 ? y : F2(&f, ADD, sum, y);
    }
    for (int i = 0; i < w->n_hidden; i++) {
        const Hidden *h = &w->hidden[i];
        ComplexParts  x;
        *fits = *fits && known_parts(l, h->mask, &x) &&
                (isinf(h->value) || (w->n_hidden == 1 && rows_remain(&x.re, h->keeps)));
        if (!*fits)
            return OK;
        int y = formula_input(&f, x.re), none = formula_number(&f, -INFINITY),
            rest = sum < 0 ? formula_number(&f, 0) : sum;
        sum = h->keeps ? F3(&f, SELECT, y, rest, none) : F3(&f, SELECT, y, none, rest);
    }
    if (sum < 0)
        return OK;
    if (w->n_added == 1 && !w->n_hidden)
        *mask = f.in[0];
    else
        TRY(formula_item(&f, sum, EX_F32, mask));
    if (mask->host && !scores_remain(mask)) {
        *fits = false;
        return OK;
    }
    return along_keys(l, mask, keys);
}

static View axes_of(const Operand *x, const int *axes, int rank)
{
    int all[VIEW_RANK];
    for (int i = 0; i < rank; i++)
        all[i] = axes[i];
    return view_permuted(x->view, all);
}

static Err build_attention(Lower *l, void *with, bool *fits)
{
    const Written      *w = with;
    const ExportedCall *root = l->call;
    ComplexParts        parts[3];
    int32_t             value[] = { w->q, w->k, w->v };
    const int          *axes[] = { w->q_axes, w->k_axes, w->v_axes };
    Attend              a = { .scale = w->scale, .dropout = w->rate };
    View               *view[] = { &a.q, &a.k, &a.v }, out;
    for (int i = 0; i < 3; i++) {
        *fits = known_parts(l, value[i], &parts[i]);
        if (!*fits)
            return OK;
    }
    TRY(written_mask(l, w, parts[1].re.view.dim[w->k_axes[w->rank - 2]], &a.mask, fits));
    *fits = *fits && (w->rank == SCORE_RANK || w->rate == 0) &&
            !(w->rate > 0 && l->graph->build->given_noise);
    if (!*fits)
        return OK;
    for (int i = 0; i < 3; i++) {
        TRY(item_view(l, &parts[i].re, view[i]));
        Operand item = item_of(l, *view[i], EX_F32);
        *view[i] = axes_of(&item, axes[i], w->rank);
    }
    if (w->rate > 0) /* the numbers belong to the call that drew them */
        l->call = &l->program->calls[w->dropout];
    Err err = lower_attend(l, &a, &out);
    l->call = root;
    TRY(err);
    Operand item = item_of(l, out, EX_F32);
    return give_view(l, 0, axes_of(&item, w->out_axes, w->rank));
}

KnownCalls *known_attention(KnownSearch *k, const ExportedCall *root)
{
    LetterProduct p;
    if (root->n_out != 1 || !is_fp32(k, root->out[0]) || !read_product(k, root, &p))
        return NULL;
    for (int at = 0; at < 2; at++) {
        Written w = { .scale = 1, .dropout = -1 };
        k->n = 0;
        if (!find_values(&p, at, &w) || !find_probabilities(k, p.in[at], &w) || !is_fp32(k, w.q) ||
            !is_fp32(k, w.k) || !is_fp32(k, w.v))
            continue;
        Written *found = NEW(k->l->pool, Written);
        *found = w;
        return known_group(k, root, found, build_attention);
    }
    return NULL;
}
