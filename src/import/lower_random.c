/* lower_random.c -- random numbers and dropout. The stream is the call's place in the file, so that
 * the numbers do not depend on what is fused, split or recomputed. */
#include "import/lower.h"

#include "base/random.h"
#include "ops/elementwise/basic.h"
#include "ops/optimizer/optim.h"
#include "ops/random/noise.h"

uint32_t random_stream_of(const Lower *l)
{
    return random_stream(pool_print(l->pool, "import.%d", l->call->ordinal));
}

void note_drawn(Lower *l, Drawn drawn, Dims dims, const int *order)
{
    Exported *p = l->program;
    drawn.name = p->values[l->call->out[0]].name;
    drawn.stream = random_stream_of(l);
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
static Err drawn_numbers(Lower *l, char kind, int64_t low, int64_t high, Tensor *t)
{
    Err  err;
    Dims dims = out_dims(l, 0, &err);
    TRY(err);
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

static Err dropout_of(Lower *l)
{
    Operand item;
    double  p;
    TRY(arg_item(l, arg_given(l, "input") ? "input" : "self", &item));
    TRY(arg_float(l, "p", 0.5, &p));
    if (p == 0 || !arg_bool(l, "train", true))
        return give(l, 0, item);
    if (p >= 1)
        return refuse(l, "a dropout of everything");
    View v;
    int  order[VIEW_RANK];
    TRY(item_view(l, &item, &v));
    v = view_own_order(v, order);
    Graph *graph = l->graph;
    note_drawn(l, (Drawn){ .kind = DRAWN_MASK, .rate = (float)p }, view_dims(&v), order);
    if (graph->build->given_noise) { /* the mask, scaled, is given */
        Err  err;
        Dims dims = out_dims(l, 0, &err);
        TRY(err);
        Tensor  mask = feed(graph, l->program->values[l->call->out[0]].name, F32,
                            view_shape(dims, NULL));
        Formula f = formula(l);
        int     x = formula_input(&f, item_of(l, v, item.type));
        int     m = formula_input(&f, item_of(l, view_make(mask, dims, NULL), EX_F32));
        return formula_give(&f, F2(&f, MUL, x, m), 0);
    }
    Tensor y = dropout(view_tensor(v, order), graph_counters(graph), random_stream_of(l), (float)p);
    return give_tensor(l, 0, y, order);
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
    { "aten.dropout.default", dropout_of, 0, false }, { "aten.native_dropout.default", dropout_of, 0, false },
    { 0 }
};
/* clang-format on */
