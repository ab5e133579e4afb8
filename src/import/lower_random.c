/* lower_random.c -- random numbers and dropout. The stream is the call's place in the file, so that
 * the numbers do not depend on what is fused, split or recomputed. */
#include "import/lower.h"

#include "base/random.h"
#include "ops/elementwise/basic.h"
#include "ops/index/extreme.h"
#include "ops/index/sort.h"
#include "ops/optimizer/optim.h"
#include "ops/random/noise.h"

#include <math.h>

uint32_t random_stream_of(const Lower *l)
{
    return random_stream(pool_print(l->pool, "import.%d", l->call->ordinal));
}

void note_drawn(Lower *l, Drawn drawn, Dims dims, const int *order)
{
    Exported *p = l->program;
    if (!drawn.name) {
        drawn.name = p->values[l->call->out[0]].name;
        drawn.stream = random_stream_of(l);
    }
    drawn.rank = dims.rank;
    for (int a = 0; a < dims.rank; a++) {
        drawn.dim[a] = dims.at[a];
        drawn.order[a] = order ? order[a] : a;
    }
    for (int32_t i = 0; i < p->n_drawn; i++) /* a view of what was written to is lowered again */
        if (p->drawn[i].stream == drawn.stream)
            return;
    VEC_ADD(p->pool, p->drawn, p->n_drawn, p->cap_drawn, drawn);
}

/* Where inputs are given, so are random numbers, by the name of the value. */
static Err drawn_of(Lower *l, char kind, int64_t low, int64_t high, Dims dims, Tensor *t)
{
    Shape  shape = view_shape(dims, NULL);
    Type   type = kind == 'i' ? I32 : F32;
    Graph *graph = l->graph;
    note_drawn(l,
               (Drawn){ .kind = kind == 'n'   ? DRAWN_NORMAL
                                : kind == 'u' ? DRAWN_UNIFORM
                                              : DRAWN_INTS,
                        .low = low,
                        .below = (uint32_t)(high - low) },
               dims, NULL);
    if (graph->build->given_noise)
        *t = feed(graph, l->program->values[l->call->out[0]].name, type, shape);
    else if (kind == 'n')
        *t = random_normal(graph_counters(graph), random_stream_of(l), type, shape);
    else if (kind == 'u')
        *t = random_uniform(graph_counters(graph), random_stream_of(l), type, shape);
    else if (high - low < 1 || high - low > INT32_MAX)
        return refuse(l, "random integers from %lld to %lld", (long long)low, (long long)high);
    else
        *t = random_ints(graph_counters(graph), random_stream_of(l), (int32_t)(high - low), shape);
    return graph_check(graph);
}

static Err drawn_numbers(Lower *l, char kind, int64_t low, int64_t high, Tensor *t)
{
    Err  err;
    Dims dims = out_dims(l, 0, &err);
    TRY(err);
    return drawn_of(l, kind, low, high, dims, t);
}

/* Uniform numbers of the result's size, in a formula. */
static Err drawn_uniform(Lower *l, char kind, Formula *f, int *u)
{
    Err    err;
    Dims   dims = out_dims(l, 0, &err);
    Tensor t;
    TRY(err);
    TRY(drawn_of(l, kind, 0, 0, dims, &t));
    *f = formula(l);
    *u = formula_input(f, item_of(l, view_make(t, dims, NULL), EX_F32));
    return OK;
}

static Err noise(Lower *l)
{
    Tensor t;
    TRY(drawn_numbers(l, (char)l->def->with, 0, 0, &t));
    return give_tensor(l, 0, t, NULL);
}

static Err integers(Lower *l)
{
    int64_t low, high;
    Tensor  t;
    Err     err;
    TRY(arg_int(l, "low", 0, &low));
    TRY(arg_int(l, "high", 1, &high));
    TRY(drawn_numbers(l, 'i', low, high, &t));
    Dims dims = out_dims(l, 0, &err);
    TRY(err);
    Operand drawn = item_of(l, view_make(t, dims, NULL), EX_I64);
    if (!low || l->graph->build->given_noise)
        return give(l, 0, drawn);
    Formula f = formula(l);
    int     x = formula_input(&f, drawn);
    return formula_give(&f, F2(&f, ADD, x, formula_integer(&f, low)), 0);
}

/* mean + std n */
static Err normal_of(Lower *l)
{
    Operand self;
    double  mean, std;
    Tensor  t;
    Err     err;
    TRY(arg_item(l, "self", &self));
    TRY(arg_float(l, l->def->with ? "from" : "mean", 0, &mean));
    TRY(arg_float(l, l->def->with ? "to" : "std", 1, &std));
    TRY(drawn_numbers(l, l->def->with ? 'u' : 'n', 0, 0, &t));
    Dims dims = out_dims(l, 0, &err);
    TRY(err);
    Formula f = formula(l);
    int     x = formula_input(&f, item_of(l, view_make(t, dims, NULL), EX_F32));
    double  scale = l->def->with ? std - mean : std;
    x = F2(&f, MUL, x, formula_number(&f, scale));
    return formula_give(&f, F2(&f, ADD, x, formula_number(&f, mean)), 0);
}

/* -log(u) / lambda */
static Err exponential(Lower *l)
{
    Formula f;
    int     u;
    double  lambda;
    TRY(arg_float(l, "lambd", 1, &lambda));
    TRY(drawn_uniform(l, 'u', &f, &u));
    return formula_give(&f, F2(&f, MUL, F1(&f, LOG, u), formula_number(&f, -1 / lambda)), 0);
}

/* exp(mean + std n) */
static Err log_normal(Lower *l)
{
    Formula f;
    int     n;
    double  mean, std;
    TRY(arg_float(l, "mean", 1, &mean));
    TRY(arg_float(l, "std", 2, &std));
    TRY(drawn_uniform(l, 'n', &f, &n));
    n = F2(&f, ADD, F2(&f, MUL, n, formula_number(&f, std)), formula_number(&f, mean));
    return formula_give(&f, F1(&f, EXP, n), 0);
}

/* median + sigma tan(pi (u - 1/2)) */
static Err cauchy(Lower *l)
{
    Formula f;
    int     u;
    double  median, sigma;
    TRY(arg_float(l, "median", 0, &median));
    TRY(arg_float(l, "sigma", 1, &sigma));
    TRY(drawn_uniform(l, 'u', &f, &u));
    u = F2(&f, MUL, F2(&f, SUB, u, formula_number(&f, 0.5)), formula_number(&f, acos(-1)));
    u = F2(&f, MUL, F1(&f, TAN, u), formula_number(&f, sigma));
    return formula_give(&f, F2(&f, ADD, u, formula_number(&f, median)), 0);
}

/* How often to try until it succeeds, which it does with probability p: ceil(log u / log(1 - p)) */
static Err geometric(Lower *l)
{
    Formula f;
    int     u;
    double  p;
    TRY(arg_float(l, "p", 0.5, &p));
    if (!(p > 0 && p < 1))
        return refuse(l, "a probability of %g", p);
    TRY(drawn_uniform(l, 'u', &f, &u));
    return formula_give(
        &f, F1(&f, CEIL, F2(&f, MUL, F1(&f, LOG, u), formula_number(&f, 1 / log1p(-p)))), 0);
}

/* The order of uniform numbers. */
static Err permutation(Lower *l)
{
    Tensor t, out[2];
    if (l->graph->build->given_noise) {
        TRY(drawn_numbers(l, 'i', 0, 1, &t));
        return give_tensor(l, 0, t, NULL);
    }
    TRY(drawn_numbers(l, 'u', 0, 0, &t));
    sort(out, t, 0, false);
    return give_tensor(l, 0, out[1], NULL);
}

/* Of exponential times with rates p, the first ones: drawn without putting back. */
static Err multinomial(Lower *l)
{
    Operand self, keys;
    View    v;
    Tensor  t, out[2];
    int64_t n;
    TRY(arg_item(l, "self", &self));
    TRY(arg_int(l, "num_samples", 1, &n));
    if (n > 1 && arg_bool(l, "replacement", false))
        return refuse(l, "several samples with replacement are not supported");
    TRY(drawn_of(l, 'u', 0, 0, view_dims(&self.view), &t));
    Formula f = formula(l);
    int     u = formula_input(&f, item_of(l, view_make(t, view_dims(&self.view), NULL), EX_F32));
    int     p = F1(&f, DETACH, formula_float(&f, formula_input(&f, self)));
    TRY(formula_item(&f, F2(&f, DIV, F1(&f, LOG, u), p), EX_F32, &keys)); /* minus the times */
    TRY(item_view(l, &keys, &v));
    topk(out, view_tensor(v, NULL), n, v.rank - 1, true);
    return give_tensor(l, 0, out[1], NULL);
}

/* 1 with the probability that the tensor says, or p. */
static Err bernoulli(Lower *l)
{
    Operand self, p;
    Tensor  t;
    Err     err;
    TRY(arg_item(l, "self", &self));
    TRY(arg_item(l, "p", &p));
    TRY(drawn_numbers(l, 'u', 0, 0, &t));
    Dims dims = out_dims(l, 0, &err);
    TRY(err);
    Formula f = formula(l);
    int     u = formula_input(&f, item_of(l, view_make(t, dims, NULL), EX_F32));
    int     limit = formula_float(&f, formula_input(&f, p.set ? p : self));
    return formula_give(&f, F2(&f, LT, u, limit), 0);
}

/* The mask, scaled, is given. */
static Err dropped_by(Lower *l, Operand item, const char *name, Operand *out)
{
    Dims    dims = view_dims(&item.view);
    Tensor  mask = feed(l->graph, name, F32, view_shape(dims, NULL));
    Formula f = formula(l);
    int     x = formula_input(&f, item);
    int     m = formula_input(&f, item_of(l, view_make(mask, dims, NULL), EX_F32));
    return formula_item(&f, F2(&f, MUL, x, m), item.type, out);
}

Err lower_dropped(Lower *l, Operand item, double p, int layer, Operand *out)
{
    View        v;
    int         order[VIEW_RANK];
    const char *name = l->program->values[l->call->out[0]].name;
    uint32_t    stream = random_stream_of(l);
    *out = item;
    if (p == 0)
        return OK;
    if (p >= 1)
        return refuse(l, "a dropout of everything");
    if (layer) {
        name = pool_print(l->pool, "%s.%d", name, layer);
        stream = random_stream(pool_print(l->pool, "import.%d.%d", l->call->ordinal, layer));
    }
    TRY(item_view(l, &item, &v));
    v = view_own_order(v, order);
    note_drawn(l, (Drawn){ .kind = DRAWN_MASK, .rate = (float)p, .name = name, .stream = stream },
               view_dims(&v), order);
    if (l->graph->build->given_noise)
        return dropped_by(l, item_with(item, v), name, out);
    Tensor y = dropout(view_tensor(v, order), graph_counters(l->graph), stream, (float)p);
    TRY(graph_check(l->graph));
    *out = item_of(l, view_make(y, view_dims(&v), order), item.type);
    return OK;
}

static Err dropout_of(Lower *l)
{
    Operand item;
    double  p;
    TRY(arg_item(l, arg_given(l, "input") ? "input" : "self", &item));
    TRY(arg_float(l, "p", 0.5, &p));
    if (arg_bool(l, "train", true))
        TRY(lower_dropped(l, item, p, 0, &item));
    return give(l, 0, item);
}

/* What is dropped, by uniform numbers below p: elements, or whole maps (N, C). */
enum { DROP_MAPS = 1, DROP_ALPHA = 2 };

/* Alpha dropout sets to the value that SELU saturates at, and keeps mean and variance:
 * a x + b where kept, a (-alpha) + b elsewhere. */
static int alpha_dropped(Formula *f, int x, int dropped, double p)
{
    const double alpha = 1.7580993408473766, a = 1 / sqrt((alpha * alpha * p + 1) * (1 - p));
    int          y = F3(f, SELECT, dropped, formula_number(f, -alpha), x);
    return F2(f, ADD, F2(f, MUL, y, formula_number(f, a)), formula_number(f, alpha * a * p));
}

static Err dropout_otherwise(Lower *l)
{
    Operand item;
    double  p;
    Tensor  t;
    int     how = l->def->with;
    TRY(arg_item(l, arg_given(l, "input") ? "input" : "self", &item));
    TRY(arg_float(l, "p", 0.5, &p));
    if (p == 0 || !arg_bool(l, "train", true))
        return give(l, 0, item);
    if (p >= 1)
        return refuse(l, "a dropout of everything");
    Dims dims = view_dims(&item.view);
    if (how & DROP_MAPS && dims.rank < 2)
        return refuse(l, "an input with %d axes", dims.rank);
    for (int i = 2; how & DROP_MAPS && i < dims.rank; i++)
        dims.at[i] = 1;
    TRY(drawn_of(l, 'u', 0, 0, dims, &t));
    Formula f = formula(l);
    int     x = formula_input(&f, item);
    int     u = formula_input(&f, item_of(l, view_make(t, dims, NULL), EX_F32));
    int     dropped = F2(&f, LT, u, formula_number(&f, p));
    int     scale = F3(&f, SELECT, dropped, formula_number(&f, 0), formula_number(&f, 1 / (1 - p)));
    return formula_give(
        &f, how & DROP_ALPHA ? alpha_dropped(&f, x, dropped, p) : F2(&f, MUL, x, scale), 0);
}

/* clang-format off */
const LowerDef lower_randoms[] = {
    { "aten.rand.default", noise, 'u', false }, { "aten.rand_like.default", noise, 'u', false },
    { "aten.randn.default", noise, 'n', false }, { "aten.randn_like.default", noise, 'n', false },
    { "aten.rand.generator", noise, 'u', false }, { "aten.randn.generator", noise, 'n', false },
    { "aten.randint.generator", integers, 0, false }, { "aten.randint.low_generator", integers, 0, false },
    { "aten.randint.default", integers, 0, false }, { "aten.randint.low", integers, 0, false },
    { "aten.randint_like.default", integers, 0, false },
    { "aten.randint_like.low_dtype", integers, 0, false },
    { "aten.normal.default", normal_of, 0, false }, { "aten.normal_functional.default", normal_of, 0, false },
    { "aten.uniform.default", normal_of, 1, false },
    { "aten.bernoulli.default", bernoulli, 0, false }, { "aten.bernoulli.p", bernoulli, 0, false },
    { "aten.bernoulli.float", bernoulli, 0, false },
    { "aten.exponential.default", exponential, 0, false }, { "aten.log_normal.default", log_normal, 0, false },
    { "aten.cauchy.default", cauchy, 0, false }, { "aten.geometric.default", geometric, 0, false },
    { "aten.randperm.default", permutation, 0, false }, { "aten.randperm.generator", permutation, 0, false },
    { "aten.multinomial.default", multinomial, 0, false },
    { "aten.feature_dropout.default", dropout_otherwise, DROP_MAPS, false },
    { "aten.alpha_dropout.default", dropout_otherwise, DROP_ALPHA, false },
    { "aten.feature_alpha_dropout.default", dropout_otherwise, DROP_MAPS | DROP_ALPHA, false },
    { "aten.dropout.default", dropout_of, 0, false }, { "aten.native_dropout.default", dropout_of, 0, false },
    { 0 }
};
/* clang-format on */
