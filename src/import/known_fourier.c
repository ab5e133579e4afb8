/* known_fourier.c -- groups around Fourier transforms: the kernel of a structured state space, and
 * causal convolution.
 *
 *   s4_kernel   irfft(front (S(BC) - S(BQ) S(PC) / (1 + S(PQ)))), its value at the Nyquist frequency
 *               joined behind where the length is even, with S(v) = sum over states of
 *               dt v / (z - dt A) + conj(dt v) / (z - conj(dt A)), Q = conj(P)
 *   fft_conv    irfft(rfft(k, n) rfft(u, n), n)[..., :length]
 *
 * z and front are constants: they are compared with 2 i tan(pi f / length) and 1 + z / 2.
 */
#include "import/known_calls.h"

#include "ops/elementwise/basic.h"
#include "ops/fft/fft_conv.h"
#include "ops/fft/rfft.h"
#include "ops/s4/s4_kernel.h"

#include <math.h>
#include <string.h>

/* In fp32, whatever the graph computes in. */
static Tensor in_fp32(View v, Shape shape)
{
    Tensor t = cast(view_tensor(v, NULL), F32);
    return shape_same(tensor_shape(t), shape) ? t : reshape(t, shape);
}

/* Along the last axis, without another norm. */
static bool is_plain_transform(const ExportedCall *call, int64_t rank, int64_t *n)
{
    const ExportedArg *length = call_arg(call, "n"), *axis = call_arg(call, "dim"),
                      *norm = call_arg(call, "norm");
    if (!length || length->kind != ARG_INT || length->values || length->ints[0].expr ||
        (axis && (axis->kind != ARG_INT || axis->values)) ||
        (norm && norm->kind != ARG_NONE &&
         !(norm->kind == ARG_TEXT && !strcmp(norm->text, "backward"))))
        return false;
    *n = length->ints[0].value;
    return !axis || axis->ints[0].value == -1 || axis->ints[0].value == rank - 1;
}

/* ---- the kernel ---- */

typedef struct CauchySum { /* over states, of weights / (z - poles), and of their conjugates */
    Factor  v[2], pole, step;
    int32_t z;
} CauchySum;

typedef struct Nplr { /* diagonal plus rank one */
    Factor  b, c, p, pole, step;
    int32_t z, front;
    int32_t before_step,
        before_pole; /* softplus or exp of it; the pole's real part is -exp of it */
    int32_t pole_imag;
    bool    step_is_exp;
    int64_t channels, states, freqs, length;
} Nplr;

static bool same_factor(const Factor *a, const Factor *b, bool conj)
{
    return a->value == b->value && a->conj == (b->conj ^ conj) && dims_same(a->dims, b->dims);
}

static bool same_pair(const Factor *a, const Factor *b, bool conj)
{
    return (same_factor(&a[0], &b[0], conj) && same_factor(&a[1], &b[1], conj)) ||
           (same_factor(&a[0], &b[1], conj) && same_factor(&a[1], &b[0], conj));
}

static bool is_complex(const KnownSearch *k, int32_t value)
{
    return type_complex(k->l->program->values[value].type);
}

/* z - step pole */
static bool find_pole(KnownSearch *k, const Factor *below, CauchySum *s)
{
    const ExportedCall *call = known_call(k, below->value, "sub.Tensor");
    Factors             p;
    if (!call || below->conj || call->n_args != 2 || !known_product(k, known_arg(call, 1), &p) ||
        p.n != 2 || p.scale != 1 || p.of[0].below || p.of[1].below)
        return false;
    int at = is_complex(k, p.of[1].value);
    s->z = known_arg(call, 0);
    s->pole = p.of[at];
    s->step = p.of[!at];
    return s->z >= 0 && k->constant[s->z] && is_complex(k, s->pole.value) &&
           !is_complex(k, s->step.value);
}

/* One of the two terms: step v0 v1 / (z - step pole). */
static bool find_term(KnownSearch *k, int32_t value, CauchySum *s)
{
    Factors p;
    Factor  step = { 0 };
    int     n = 0, steps = 0, poles = 0;
    if (!known_product(k, value, &p) || p.n != 4 || p.scale != 1 || p.dims.rank != 3)
        return false;
    for (int i = 0; i < p.n; i++) {
        const Factor *f = &p.of[i];
        if (f->below) {
            if (poles++ || !find_pole(k, f, s))
                return false;
        } else if (!is_complex(k, f->value)) {
            step = *f;
            steps++;
        } else if (n < 2) {
            s->v[n++] = *f;
        }
    }
    return n == 2 && steps == 1 && poles == 1 && same_factor(&step, &s->step, false);
}

/* sum(a + b) or sum(a) + sum(b): the values a and b. */
static bool find_terms(KnownSearch *k, int32_t value, int32_t *term)
{
    const ExportedCall *add = known_call(k, value, "add.Tensor"), *sum[2];
    for (int i = 0; i < (add ? 2 : 1); i++) {
        sum[i] = known_call(k, add ? known_arg(add, i) : value, "sum.dim_IntList");
        const ExportedArg *axis = sum[i] && sum[i]->n_args == 2 ? &sum[i]->args[1] : NULL;
        if (!axis || axis->kind != ARG_INTS || axis->n != 1 || axis->values ||
            (axis->ints[0].value != 1 && axis->ints[0].value != -2))
            return false;
        term[i] = known_arg(sum[i], 0);
    }
    if (add && add->n_args != 2)
        return false;
    if (add)
        return true;
    add = known_call(k, term[0], "add.Tensor");
    if (!add || add->n_args != 2)
        return false;
    term[0] = known_arg(add, 0);
    term[1] = known_arg(add, 1);
    return true;
}

/* The term whose poles are conjugated as `like` (NULL: any) comes first. */
static bool find_sum(KnownSearch *k, int32_t value, const CauchySum *like, CauchySum *s)
{
    int32_t   term[2];
    CauchySum other;
    Dims      dims[2];
    if (!find_terms(k, value, term) || !known_dims(k, term[0], &dims[0]) ||
        !known_dims(k, term[1], &dims[1]) || !dims_same(dims[0], dims[1]) ||
        !find_term(k, term[0], s) || !find_term(k, term[1], &other))
        return false;
    if (like && s->pole.conj != like->pole.conj) {
        CauchySum swap = *s;
        *s = other;
        other = swap;
    }
    return s->z == other.z && same_factor(&s->step, &other.step, false) &&
           same_factor(&s->pole, &other.pole, true) && same_pair(s->v, other.v, true) &&
           (!like || (s->z == like->z && same_factor(&s->step, &like->step, false) &&
                      same_factor(&s->pole, &like->pole, false)));
}

/* bc = {b, c}, bq = {b, q}, pc = {p, c}, pq = {p, q} with q = conj(p)? */
static bool find_vectors(const CauchySum *bc, const CauchySum *bq, const CauchySum *pc,
                         const CauchySum *pq, Nplr *s)
{
    for (int i = 0; i < 4; i++) {
        const Factor *b = &bc->v[i & 1], *c = &bc->v[!(i & 1)], *q = &bq->v[!(i >> 1)];
        for (int j = 0; j < 2; j++) {
            const Factor *p = &pc->v[j], both[] = { *p, *q };
            if (same_factor(b, &bq->v[i >> 1], false) && same_factor(c, &pc->v[!j], false) &&
                same_factor(p, q, true) && same_pair(both, pq->v, false)) {
                s->b = *b;
                s->c = *c;
                s->p = *p;
                return true;
            }
        }
    }
    return false;
}

/* sum(bc) - sum(bq) sum(pc) / (1 + sum(pq)) */
static bool find_woodbury(KnownSearch *k, int32_t value, Nplr *s)
{
    const ExportedCall *sub = known_call(k, value, "sub.Tensor"), *one;
    CauchySum           bc, pq, x[2];
    Factors             p;
    int                 n = 0;
    int32_t             below = -1;
    if (!sub || sub->n_args != 2 || !find_sum(k, known_arg(sub, 0), NULL, &bc) ||
        !known_product(k, known_arg(sub, 1), &p) || p.n != 3 || p.scale != 1)
        return false;
    for (int i = 0; i < p.n; i++) {
        if (p.of[i].conj)
            return false;
        if (p.of[i].below)
            below = p.of[i].value;
        else if (n == 2 || !find_sum(k, p.of[i].value, &bc, &x[n++]))
            return false;
    }
    one = known_call(k, below, "add.Tensor");
    if (n != 2 || !one || one->n_args != 2 || !known_number(one, 1, 1) ||
        !find_sum(k, known_arg(one, 0), &bc, &pq))
        return false;
    s->pole = bc.pole;
    s->step = bc.step;
    s->z = bc.z;
    return find_vectors(&bc, &x[0], &x[1], &pq, s) || find_vectors(&bc, &x[1], &x[0], &pq, s);
}

static bool find_spectrum(KnownSearch *k, int32_t value, Nplr *s)
{
    Factors p;
    if (!known_product(k, value, &p) || p.n != 2 || p.scale != 1 || p.of[0].below || p.of[1].below)
        return false;
    int at = k->constant[p.of[1].value];
    s->front = p.of[at].value;
    return !p.of[0].conj && !p.of[1].conj && k->constant[s->front] &&
           find_woodbury(k, p.of[!at].value, s);
}

/* The real part of sum(step b c), as (H, 1). */
static bool find_nyquist(KnownSearch *k, int32_t value, const Nplr *s)
{
    Factors             p;
    Dims                dims;
    const ExportedCall *call = known_call(k, value, "to.dtype"), *sum = NULL;
    if (call)
        sum = known_call(k, known_arg(call, 0), "sum.dim_IntList");
    if (!sum || sum->n_args != 3 || sum->args[1].kind != ARG_INTS || sum->args[1].n != 1 ||
        sum->args[1].values ||
        (sum->args[1].ints[0].value != 1 && sum->args[1].ints[0].value != -1) ||
        sum->args[2].kind != ARG_BOOL || !sum->args[2].ints[0].value)
        return false;
    call = known_call(k, known_arg(sum, 0), "real.default");
    if (!call || !known_product(k, known_arg(call, 0), &p) || p.n != 3 || p.scale != 1 ||
        p.dims.rank != 2 || !known_dims(k, value, &dims) || dims.rank != 2)
        return false;
    const Factor *want[] = { &s->step, &s->b, &s->c };
    int found[2] = { 0, 0 }; /* as they are, or all conjugated: the real part is the same */
    for (int i = 0; i < 3; i++) {
        Factor f = p.of[i];
        f.dims.at[f.dims.rank++] = 1;
        for (int j = 0; j < 3; j++)
            for (int conj = 0; conj < 2; conj++)
                found[conj] |= !f.below && same_factor(&f, want[j], j && conj) ? 1 << j : 0;
    }
    return found[0] == 7 || found[1] == 7;
}

/* (H or 1, N or 1, 1) */
static bool lies(const Factor *f, int64_t h, int64_t n)
{
    return f->dims.rank == 3 && f->dims.at[0] == h && f->dims.at[1] == n && f->dims.at[2] == 1;
}

/* What the parameter's transformations are of. */
static bool find_transforms(KnownSearch *k, Nplr *s)
{
    int32_t             pole = s->pole.value, step = s->step.value;
    const ExportedCall *call = known_call(k, step, "softplus.default"), *exp, *parts;
    s->step_is_exp = !call && known_made_by(k, step, "exp.default"); /* it is read itself */
    s->before_step = call && call->n_args == 1 ? known_arg(call, 0) : s->step_is_exp ? step : -1;
    if (s->before_step < 0)
        return false;
    const ExportedCall *select = known_call(k, pole, "select.int");
    Dims                dims;
    if (select) {
        if (!known_dims(k, known_arg(select, 0), &dims) || dims_count(dims) != s->states)
            return false;
        pole = known_arg(select, 0);
    }
    parts = known_call(k, pole, "complex.default");
    call = parts ? known_call(k, known_arg(parts, 0), "neg.default") : NULL;
    exp = call ? known_call(k, known_arg(call, 0), "exp.default") : NULL;
    s->before_pole = exp ? known_arg(exp, 0) : -1;
    s->pole_imag = exp ? known_arg(parts, 1) : -1;
    Dims real, imag;
    return known_dims(k, s->before_pole, &real) && known_dims(k, s->pole_imag, &imag) &&
           dims_count(real) == s->states && dims_count(imag) == s->states;
}

static bool find_sizes(KnownSearch *k, int32_t spectrum, Nplr *s)
{
    Dims dims, z;
    if (!known_dims(k, spectrum, &dims) || dims.rank != 2 || !known_dims(k, s->z, &z) ||
        s->b.dims.rank != 3 || s->c.dims.rank != 3)
        return false;
    s->channels = dims.at[0];
    s->freqs = dims.at[1];
    s->states = s->b.dims.at[1] > s->c.dims.at[1] ? s->b.dims.at[1] : s->c.dims.at[1];
    if (!lies(&s->c, s->channels, s->states)) { /* b and c with p and conj(p) change places */
        Factor swap = s->b;
        s->b = s->c;
        s->c = swap;
        s->p.conj ^= true;
    }
    bool per_channel = lies(&s->b, s->channels, s->states);
    return lies(&s->c, s->channels, s->states) && (per_channel || lies(&s->b, 1, s->states)) &&
           lies(&s->p, 1, s->states) && lies(&s->pole, 1, s->states) &&
           lies(&s->step, s->channels, 1) && z.rank > 0 && z.at[z.rank - 1] == s->freqs &&
           dims_count(z) == s->freqs;
}

/* z and front, within what fp32 leaves of them. */
static bool right_constants(Lower *l, const Nplr *s)
{
    ComplexParts z, front;
    if (!known_parts(l, s->z, &z) || !known_parts(l, s->front, &front) || !z.re.host ||
        !z.im.host || !front.re.host || !front.im.host)
        return false;
    const struct {
        const Operand *x;
        double         base, turn; /* base + turn tan(pi f / length) */
    } want[] = { { &z.re, 0, 0 }, { &z.im, 0, 2 }, { &front.re, 1, 0 }, { &front.im, 0, 1 } };
    for (int i = 0; i < 4; i++) {
        const View *v = &want[i].x->view;
        if (v->rank < 1 || v->dim[v->rank - 1] != s->freqs || view_count(v) != s->freqs)
            return false;
        for (int64_t f = 0; f < s->freqs; f++) {
            double turn = tan(M_PI * (double)f / (double)s->length);
            double is = host_f(want[i].x, v->offset + f * v->stride[v->rank - 1]);
            if (!(fabs(is - want[i].base - want[i].turn * turn) < 1e-5 * (1 + turn)))
                return false;
        }
    }
    return true;
}

static Err pairs_of(Lower *l, const Factor *of, const ComplexParts *x, Shape shape, Tensor *t)
{
    ComplexParts own = *x;
    Operand      pairs;
    View         v;
    if (of->conj) {
        Formula f = formula(l);
        TRY(formula_item(&f, F1(&f, NEG, formula_input(&f, own.im)), own.im.type, &own.im));
    }
    TRY(complex_pairs(l, &own, &pairs));
    TRY(item_view(l, &pairs, &v));
    *t = in_fp32(v, shape);
    return OK;
}

/* The x with softplus(x) = y: y + log(1 - e^-y). */
static Err before_softplus(Lower *l, Operand *y)
{
    Formula f = formula(l);
    int     a = formula_input(&f, *y);
    int     rest = F1(&f, LOG, F1(&f, NEG, F1(&f, EXPM1, F1(&f, NEG, a))));
    return formula_item(&f, F2(&f, ADD, a, rest), y->type, y);
}

static Err build_kernel(Lower *l, void *with, bool *fits)
{
    const Nplr  *s = with;
    int64_t      h = s->channels, n = s->states;
    ComplexParts step, real, imag, b, c, p;
    Tensor       tb, tc, tp;
    View         vs, vr, vi;
    *fits = fft_valid(s->length) && known_parts(l, s->before_step, &step) &&
            known_parts(l, s->before_pole, &real) && known_parts(l, s->pole_imag, &imag) &&
            known_parts(l, s->b.value, &b) && known_parts(l, s->c.value, &c) &&
            known_parts(l, s->p.value, &p) && right_constants(l, s);
    if (!*fits)
        return OK;
    if (s->step_is_exp)
        TRY(before_softplus(l, &step.re));
    if (!s->pole.conj) { /* the operator's parameter is that of the conjugate */
        Formula f = formula(l);
        TRY(formula_item(&f, F1(&f, NEG, formula_input(&f, imag.re)), imag.re.type, &imag.re));
    }
    TRY(pairs_of(l, &s->b, &b, lies(&s->b, h, n) ? SHAPE(1, h, n, 2) : SHAPE(1, 1, n, 2), &tb));
    TRY(pairs_of(l, &s->c, &c, SHAPE(1, h, n, 2), &tc));
    TRY(pairs_of(l, &s->p, &p, SHAPE(1, 1, n, 2), &tp));
    TRY(item_view(l, &step.re, &vs));
    TRY(item_view(l, &real.re, &vr));
    TRY(item_view(l, &imag.re, &vi));
    Tensor kernel = s4_kernel(in_fp32(vs, SHAPE(h, 1)), tc, tb, in_fp32(vr, SHAPE(1, n)),
                              in_fp32(vi, SHAPE(1, n)), tp, s->length);
    return give_tensor(l, 0, kernel, (const int[]){ 1, 0 });
}

KnownCalls *known_s4_kernel(KnownSearch *k, const ExportedCall *root)
{
    Nplr    found = { 0 }, *s;
    int32_t spectrum = known_arg(root, 0), nyquist = -1;
    if (strcmp(root->target, "aten.fft_irfft.default") != 0 ||
        !is_plain_transform(root, 2, &found.length))
        return NULL;
    const ExportedCall *join = known_call(k, spectrum, "cat.default");
    if (join) {
        if (join->n_args != 2 || join->args[0].kind != ARG_VALUES || join->args[0].n != 2 ||
            !(known_number(join, 1, 1) || known_number(join, 1, -1)))
            return NULL;
        nyquist = join->args[0].values[1];
        spectrum = join->args[0].values[0];
    }
    if (!find_spectrum(k, spectrum, &found) || !find_sizes(k, spectrum, &found) ||
        (join != NULL) != (found.length % 2 == 0) || found.freqs != (found.length + 1) / 2 ||
        (join && !find_nyquist(k, nyquist, &found)) || !find_transforms(k, &found))
        return NULL;
    s = NEW(k->l->pool, Nplr);
    *s = found;
    return known_group(k, root, s, build_kernel);
}

/* ---- convolution ---- */

typedef struct Causal {
    int32_t kernel, signal;
    Dims    dims; /* of the signal */
} Causal;

static Err build_conv(Lower *l, void *with, bool *fits)
{
    const Causal *c = with;
    ComplexParts  kernel, signal;
    View          vk, vu;
    *fits = known_parts(l, c->kernel, &kernel) && known_parts(l, c->signal, &signal);
    if (!*fits)
        return OK;
    int64_t b = c->dims.at[0], h = c->dims.at[1], n = c->dims.at[2];
    TRY(item_view(l, &kernel.re, &vk));
    TRY(item_view(l, &signal.re, &vu));
    Tensor u = in_fp32(view_permuted(vu, (const int[]){ 0, 2, 1 }), SHAPE(b, n, h));
    Tensor w = in_fp32(view_permuted(vk, (const int[]){ 1, 0 }), SHAPE(n, h));
    return give_tensor(l, 0, fft_conv(u, w, tensor_none(l->graph)), (const int[]){ 0, 2, 1 });
}

/* rfft(x, n) of a real fp32 value of this rank, by which nothing is divided. */
static bool find_transform(KnownSearch *k, const Factor *f, int64_t n, int32_t *value, Dims *dims)
{
    const ExportedCall *call = known_call(k, f->value, "fft_rfft.default");
    int64_t             points;
    if (!call || f->below || f->conj || !known_dims(k, known_arg(call, 0), dims))
        return false;
    *value = known_arg(call, 0);
    return k->l->program->values[*value].type == EX_F32 &&
           is_plain_transform(call, dims->rank, &points) && points == n;
}

KnownCalls *known_fft_conv(KnownSearch *k, const ExportedCall *root)
{
    Factors p;
    Causal  found, *c;
    Dims    dims[2], all;
    int32_t value[2];
    int64_t n;
    if (strcmp(root->target, "aten.slice.Tensor") != 0 ||
        !known_dims(k, known_arg(root, 0), &all) || all.rank != 3 || root->n_args > 4 ||
        root->n_out != 1 || !(known_number(root, 1, 2) || known_number(root, 1, -1)))
        return NULL;
    const ExportedArg  *from = call_arg(root, "start");
    const ExportedCall *back = known_call(k, known_arg(root, 0), "fft_irfft.default");
    if (!back || (from && !(from->kind == ARG_NONE || known_number(root, 2, 0))) ||
        !is_plain_transform(back, 3, &n) || !known_product(k, known_arg(back, 0), &p) || p.n != 2 ||
        p.scale != 1 || !find_transform(k, &p.of[0], n, &value[0], &dims[0]) ||
        !find_transform(k, &p.of[1], n, &value[1], &dims[1]))
        return NULL;
    int at = dims[1].rank == 2;
    found = (Causal){ value[at], value[!at], dims[!at] };
    const Dims *w = &dims[at], *u = &dims[!at];
    if (w->rank != 2 || u->rank != 3 || w->at[0] != u->at[1] || w->at[1] != u->at[2] ||
        n < 2 * u->at[2] - 1 || !known_dims(k, root->out[0], &all) || all.at[2] != u->at[2])
        return NULL;
    c = NEW(k->l->pool, Causal);
    *c = found;
    return known_group(k, root, c, build_conv);
}
