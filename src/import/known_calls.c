/* known_calls.c -- products as sets of factors, and which calls a group leaves out. */
#include "import/known_calls.h"

#include <stdlib.h>
#include <string.h>

/* ---- calls ---- */

static const ExportedCall *producer(const KnownSearch *k, int32_t value)
{
    int32_t at = value >= 0 ? k->l->program->values[value].producer : -1;
    return at >= 0 ? &k->l->program->calls[at] : NULL;
}

static bool add_call(KnownSearch *k, const ExportedCall *call)
{
    int32_t at = (int32_t)(call - k->l->program->calls);
    for (int i = 0; i < k->n; i++)
        if (k->calls[i] == at)
            return true;
    if (k->n == KNOWN_CALLS)
        return false;
    k->calls[k->n++] = at;
    return true;
}

static bool is_target(const ExportedCall *call, const char *target)
{
    return !strncmp(call->target, "aten.", 5) && !strcmp(call->target + 5, target);
}

bool known_made_by(const KnownSearch *k, int32_t value, const char *target)
{
    const ExportedCall *call = producer(k, value);
    return call && is_target(call, target);
}

const ExportedCall *known_call(KnownSearch *k, int32_t value, const char *target)
{
    const ExportedCall *call = producer(k, value);
    return call && is_target(call, target) && add_call(k, call) ? call : NULL;
}

int32_t known_arg(const ExportedCall *call, int i)
{
    return i < call->n_args && call->args[i].kind == ARG_VALUE ? call->args[i].values[0] : -1;
}

bool known_number_at(const ExportedCall *call, int i, double *number)
{
    const ExportedArg *a = i < call->n_args ? &call->args[i] : NULL;
    if (!a || a->values || (a->kind != ARG_INT && a->kind != ARG_FLOAT))
        return false;
    if (a->ints && a->ints[0].expr)
        return false;
    *number = a->kind == ARG_INT ? (double)a->ints[0].value : a->floats[0];
    return true;
}

bool known_number(const ExportedCall *call, int i, double is)
{
    double number;
    return known_number_at(call, i, &number) && number == is;
}

bool known_dims(KnownSearch *k, int32_t value, Dims *dims)
{
    return value >= 0 && k->l->program->values[value].rank >= 0 &&
           dims_eval(k->l, &k->l->program->values[value], dims) == OK;
}

/* ---- products ---- */

static Dims with_rank(Dims dims, int rank) /* further axes of extent 1 in front */
{
    Dims out = { .rank = rank };
    for (int i = 0; i < rank; i++)
        out.at[i] = i < rank - dims.rank ? 1 : dims.at[i - (rank - dims.rank)];
    return out;
}

/* p times x, or divided by it. */
static bool multiply(Factors *p, const Factors *x, bool below)
{
    p->scale = below ? p->scale / x->scale : p->scale * x->scale;
    for (int i = 0; i < x->n; i++) {
        if (p->n == KNOWN_FACTORS || x->of[i].dims.rank > p->dims.rank)
            return false;
        Factor *f = &p->of[p->n++];
        *f = x->of[i];
        f->below ^= below;
        f->dims = with_rank(f->dims, p->dims.rank);
    }
    return true;
}

static bool multiply_arg(KnownSearch *k, const ExportedCall *call, int i, bool below, Factors *p)
{
    Factors x = { .scale = 1 };
    double  number;
    if (known_number_at(call, i, &number)) {
        x.scale = number;
        return number != 0 && multiply(p, &x, below);
    }
    return known_product(k, known_arg(call, i), &x) && multiply(p, &x, below);
}

/* As its operand, but for a new axis of extent 1. */
static bool with_axis(KnownSearch *k, const ExportedCall *call, Factors *p)
{
    Factors            x;
    const ExportedArg *at = call->n_args > 1 ? &call->args[1] : NULL;
    if (!at || at->kind != ARG_INT || at->values || !known_product(k, known_arg(call, 0), &x))
        return false;
    int64_t axis = at->ints[0].value + (at->ints[0].value < 0 ? p->dims.rank : 0);
    if (axis < 0 || axis > x.dims.rank || x.dims.rank == VIEW_RANK)
        return false;
    for (int i = 0; i < x.n; i++) {
        Dims *d = &x.of[i].dims;
        *d = with_rank(*d, x.dims.rank);
        memmove(d->at + axis + 1, d->at + axis, (size_t)(d->rank - axis) * sizeof *d->at);
        d->at[axis] = 1;
        d->rank++;
    }
    return multiply(p, &x, false);
}

static bool conjugate_of(KnownSearch *k, const ExportedCall *call, Factors *p)
{
    if (!multiply_arg(k, call, 0, false, p))
        return false;
    for (int i = 0; i < p->n; i++)
        p->of[i].conj ^= type_complex(k->l->program->values[p->of[i].value].type);
    return true;
}

static bool is_fp32(const KnownSearch *k, int32_t value)
{
    ExportedType type = k->l->program->values[value].type;
    return type == EX_F32 || type == EX_C64;
}

typedef enum FactorCall {
    FACTOR_TIMES,
    FACTOR_OVER,
    FACTOR_BELOW,
    FACTOR_SAME,
    FACTOR_CONJ,
    FACTOR_AXIS
} FactorCall;

static const struct {
    const char *target;
    FactorCall  how;
} factor_calls[] = {
    { "mul.Tensor", FACTOR_TIMES },          { "div.Tensor", FACTOR_OVER },
    { "reciprocal.default", FACTOR_BELOW },  { "conj.default", FACTOR_CONJ },
    { "_conj.default", FACTOR_CONJ },        { "conj_physical.default", FACTOR_CONJ },
    { "unsqueeze.default", FACTOR_AXIS },    { "to.dtype", FACTOR_SAME },
    { "contiguous.default", FACTOR_SAME },   { "clone.default", FACTOR_SAME },
    { "resolve_conj.default", FACTOR_SAME }, { "alias.default", FACTOR_SAME },
};

static bool factor_call(const ExportedCall *call, FactorCall *how)
{
    for (size_t i = 0; call && i < sizeof factor_calls / sizeof *factor_calls; i++)
        if (is_target(call, factor_calls[i].target)) {
            *how = factor_calls[i].how;
            return true;
        }
    return false;
}

bool known_product(KnownSearch *k, int32_t value, Factors *p)
{
    FactorCall          how;
    const ExportedCall *call = producer(k, value);
    *p = (Factors){ .scale = 1 };
    if (!known_dims(k, value, &p->dims))
        return false;
    if (k->constant[value] || !factor_call(call, &how)) {
        p->of[p->n++] = (Factor){ .value = value, .dims = p->dims };
        return k->constant[value] || is_fp32(k, value);
    }
    if (!is_fp32(k, value) || !add_call(k, call))
        return false;
    switch (how) {
    case FACTOR_TIMES:
        return multiply_arg(k, call, 0, false, p) && multiply_arg(k, call, 1, false, p);
    case FACTOR_OVER:
        return multiply_arg(k, call, 0, false, p) && multiply_arg(k, call, 1, true, p);
    case FACTOR_BELOW: return multiply_arg(k, call, 0, true, p);
    case FACTOR_CONJ: return conjugate_of(k, call, p);
    case FACTOR_AXIS: return with_axis(k, call, p);
    default: /* a complex number is no real one */
        return known_arg(call, 0) >= 0 &&
               (type_complex(k->l->program->values[value].type) ||
                !type_complex(k->l->program->values[known_arg(call, 0)].type)) &&
               multiply_arg(k, call, 0, false, p);
    }
}

bool known_product_at(KnownSearch *k, const ExportedCall *call, Factors *p)
{
    bool over = is_target(call, "div.Tensor");
    *p = (Factors){ .scale = 1 };
    return (over || is_target(call, "mul.Tensor")) && call->n_out == 1 &&
           known_dims(k, call->out[0], &p->dims) && is_fp32(k, call->out[0]) &&
           multiply_arg(k, call, 0, false, p) && multiply_arg(k, call, 1, over, p);
}

/* ---- groups ---- */

static bool in_group(const KnownSearch *k, int32_t call, const ExportedCall *root)
{
    if (&k->l->program->calls[call] == root)
        return true;
    for (int i = 0; i < k->n; i++)
        if (k->calls[i] == call)
            return true;
    return false;
}

static bool is_output(const Exported *p, int32_t value)
{
    for (int32_t o = 0; o < p->n_outputs; o++)
        if (p->outputs[o].arg.kind == ARG_VALUE && p->outputs[o].arg.values[0] == value)
            return true;
    return false;
}

/* Nothing outside of the group reads the call's results, but for idle calls, which join it. */
static bool for_group_alone(KnownSearch *k, const ExportedCall *call, const ExportedCall *root)
{
    const Lower *l = k->l;
    for (int32_t i = 0; i < call->n_out; i++) {
        int32_t value = call->out[i];
        if (value < 0)
            continue;
        for (int32_t u = l->first_use[value]; u < l->first_use[value + 1]; u++)
            if (!in_group(k, l->uses[u], root) &&
                !(k->idle[l->uses[u]] && add_call(k, &l->program->calls[l->uses[u]])))
                return false;
        if (is_output(l->program, value))
            return false;
    }
    return !l->program->regions[call->region].no_grad;
}

/* Calls that are left out would be lowered, if at all, where the root is: nothing may be written
 * before that. */
static bool written_between(const Lower *l, int32_t from, int32_t to)
{
    for (int32_t i = from; i < to; i++) {
        const char *target = l->program->calls[i].target;
        if (!strstr(target, "_assert") && !lower_find(target) && !complex_find(target))
            return true;
    }
    return false;
}

static int by_place(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

KnownCalls *known_group(KnownSearch *k, const ExportedCall *root, void *with,
                        Err (*build)(Lower *l, void *with, bool *fits))
{
    Lower *l = k->l;
    if (l->program->regions[root->region].no_grad)
        return NULL;
    for (int i = 0; i < k->n; i++)
        if (!for_group_alone(k, &l->program->calls[k->calls[i]], root))
            return NULL;
    KnownCalls *g = NEW(l->pool, KnownCalls);
    *g = (KnownCalls){ .root = (int32_t)(root - l->program->calls),
                       .calls = NEWN(l->pool, int32_t, k->n + 1),
                       .n = k->n,
                       .with = with,
                       .build = build };
    memcpy(g->calls, k->calls, (size_t)k->n * sizeof *k->calls);
    qsort(g->calls, (size_t)g->n, sizeof *g->calls, by_place);
    return g->n && !written_between(l, g->calls[0], g->root) ? g : NULL;
}

bool known_parts(Lower *l, int32_t value, ComplexParts *parts)
{
    const Alias *a = &l->alias[value];
    *parts = (ComplexParts){ .re = l->items[value], .im = l->imag[value] };
    parts->real = !type_complex(l->program->values[value].type);
    return a->same < 0 && !l->alias[a->root].written && parts->re.set &&
           (parts->real || parts->im.set);
}

/* Calls that only compute what nothing reads; assertions. */
static bool *find_idle(const Lower *l)
{
    const Exported *p = l->program;
    bool           *idle = NEWN(l->pool, bool, p->n_calls + 1);
    for (int32_t i = p->n_calls - 1; i >= 0; i--) {
        const ExportedCall *c = &p->calls[i];
        bool                none = strstr(c->target, "_assert") || lower_find(c->target) ||
                    complex_find(c->target);
        for (int32_t j = 0; none && j < c->n_out; j++) {
            int32_t v = c->out[j];
            for (int32_t u = v < 0 ? 0 : l->first_use[v]; v >= 0 && u < l->first_use[v + 1]; u++)
                none &= idle[l->uses[u]];
            none &= v < 0 || !is_output(p, v);
        }
        idle[i] = none;
    }
    return idle;
}

/* What the host computes: calls of constants alone. Values that are written to are not looked at. */
static bool *find_constants(const Lower *l)
{
    const Exported *p = l->program;
    bool           *constant = NEWN(l->pool, bool, p->n_values + 1);
    for (int32_t v = 0; v < p->n_values; v++)
        constant[v] = p->values[v].producer < 0 && l->items[v].set && l->items[v].host;
    for (int32_t i = 0; i < p->n_calls; i++) {
        const ExportedCall *c = &p->calls[i];
        bool                all = strstr(c->target, "rand") == NULL;
        for (int32_t j = 0; j < c->n_args; j++)
            for (int32_t v = 0; c->args[j].values && v < c->args[j].n; v++)
                all &= c->args[j].values[v] < 0 || constant[c->args[j].values[v]];
        for (int32_t j = 0; j < c->n_out; j++)
            if (c->out[j] >= 0)
                constant[c->out[j]] = all;
    }
    return constant;
}

static const struct {
    const char *root;
    KnownCalls *(*find)(KnownSearch *k, const ExportedCall *root);
} finders[] = {
    { "fft_irfft.default", known_s4_kernel }, { "slice.Tensor", known_fft_conv },
    { "mul.Tensor", known_scalar_norm },      { "div.Tensor", known_scalar_norm },
    { "matmul.default", known_attention },    { "bmm.default", known_attention },
    { "einsum.default", known_attention },    { "sum.default", known_dml_loss },
    { "mean.default", known_dml_loss },
};

static KnownCalls *find_at(KnownSearch *k, const ExportedCall *root)
{
    KnownCalls *g = NULL;
    for (size_t i = 0; !g && i < sizeof finders / sizeof *finders; i++) {
        k->n = k->steps = 0;
        if (is_target(root, finders[i].root))
            g = finders[i].find(k, root);
    }
    return g;
}

KnownCalls **known_find(Lower *l)
{
    const Exported *p = l->program;
    KnownCalls    **of = NEWN(l->pool, KnownCalls *, p->n_calls + 1);
    KnownSearch     k = { .l = l, .constant = find_constants(l), .idle = find_idle(l) };
    for (int32_t i = p->n_calls - 1; i >= 0; i--) {
        KnownCalls *g = of[i] ? NULL : find_at(&k, &p->calls[i]);
        if (g)
            of[i] = g;
        for (int j = 0; g && j < g->n; j++)
            of[g->calls[j]] = g;
    }
    return of;
}
