/* cases_unary.c -- functions of one number. */
#include "ops/cases.h"

#include "ops/linear/linear.h"
#include "ops/elementwise/unary.h"

/* Odd sizes, far values, and enough for two threads. */
#define UNARY_CASES(name, builder, low, high)                                                      \
    static void name##_odd(Case *c)                                                                \
    {                                                                                              \
        case_out(c, "y", builder(case_in(c, "x", SHAPE(3, 7, 5), low, high)));                     \
    }                                                                                              \
    static void name##_one(Case *c)                                                                \
    {                                                                                              \
        case_out(c, "y", builder(case_in(c, "x", SHAPE(1), -1, 1)));                               \
    }                                                                                              \
    static void name##_large(Case *c)                                                              \
    {                                                                                              \
        case_out(c, "y", builder(case_in(c, "x", SHAPE(257, 259), low, high)));                    \
    }

UNARY_CASES(silu, silu, -9, 9)
UNARY_CASES(relu, relu, -2, 2)
UNARY_CASES(tanh, tanh_of, -4, 4)
UNARY_CASES(sigmoid, sigmoid, -6, 6)
UNARY_CASES(gelu, gelu, -5, 5)
UNARY_CASES(gelu_tanh, gelu_tanh, -5, 5)
UNARY_CASES(softplus, softplus, -9, 9)
UNARY_CASES(exp, exp_of, -3, 3)

static void silu_far(Case *c) /* where exp overflows and underflows */
{
    case_out(c, "y", silu(case_in(c, "x", SHAPE(40), -300, 300)));
}

static void softplus_far(Case *c)
{
    case_out(c, "y", softplus(case_in(c, "x", SHAPE(40), -300, 300)));
}

static void tanh_tiny(Case *c)
{
    case_out(c, "y", tanh_of(case_in(c, "x", SHAPE(33), -1e-3f, 1e-3f)));
}

/* Between two layers, with so many rows that the gradient gives partial column sums for the first
 * one's bias (ops/linear/column_sums.h); the last one covers fewer rows. */
static Tensor between_layers(Case *c, Tensor (*fn)(Tensor), const char *name, Tensor w, Tensor b,
                             Tensor v, int64_t rows)
{
    Tensor none = { case_graph(c), TENSOR_NONE };
    Tensor x = case_in(c, name, SHAPE(rows, dim(tensor_shape(w), 0)), -1, 2);
    return linear_op(fn(linear_op(x, w, b, (LinearAttr){ .in_out = true })), v, none,
                     (LinearAttr){ .in_out = true });
}

static void one_layer_case(Case *c, Tensor (*fn)(Tensor), int64_t rows, int64_t in, int64_t width)
{
    Tensor w = case_const(c, "w", SHAPE(in, width), -1, 1);
    Tensor b = case_in(c, "b", SHAPE(width), -1, 1);
    case_out(c, "y",
             between_layers(c, fn, "x", w, b, case_in(c, "v", SHAPE(width, 1), -1, 1), rows));
}

static void gelu_tanh_layer(Case *c) { one_layer_case(c, gelu_tanh, 1030, 1, 40); }
static void silu_layer(Case *c) { one_layer_case(c, silu, 1027, 1, 33); }
static void gelu_tanh_wide(Case *c) { one_layer_case(c, gelu_tanh, 9001, 3, 1404); }
static void gelu_tanh_deep(Case *c) { one_layer_case(c, gelu_tanh, 40000, 3, 64); }

static void gelu_two_layers(Case *c) /* one bias, two layers: the second sum is added */
{
    Tensor w = case_const(c, "w", SHAPE(1, 36), -1, 1), b = case_in(c, "b", SHAPE(36), -1, 1);
    Tensor v = case_in(c, "v", SHAPE(36, 1), -1, 1);
    case_out(c, "y", between_layers(c, gelu, "x", w, b, v, 1100));
    case_out(c, "z", between_layers(c, gelu, "u", w, b, v, 1025));
}

const OpCase cases_silu[] = { { "odd", silu_odd, "y = F.silu(x)" },
                              { "one", silu_one, "y = F.silu(x)" },
                              { "far", silu_far, "y = F.silu(x)", CASE_NO_DIFFERENCES },
                              { "between layers", silu_layer, "y = F.silu(x @ w + b) @ v" },
                              { "large", silu_large, "y = F.silu(x)", CASE_LIVE_ONLY },
                              { 0 } };

const OpCase cases_relu[] = { { "odd", relu_odd, "y = F.relu(x)", CASE_NO_DIFFERENCES },
                              { "one", relu_one, "y = F.relu(x)" },
                              { "large", relu_large, "y = F.relu(x)",
                                CASE_LIVE_ONLY | CASE_NO_DIFFERENCES },
                              { 0 } };

const OpCase cases_tanh[] = { { "odd", tanh_odd, "y = torch.tanh(x)" },
                              { "one", tanh_one, "y = torch.tanh(x)" },
                              { "tiny", tanh_tiny, "y = torch.tanh(x)" },
                              { "large", tanh_large, "y = torch.tanh(x)", CASE_LIVE_ONLY },
                              { 0 } };

const OpCase cases_sigmoid[] = { { "odd", sigmoid_odd, "y = torch.sigmoid(x)" },
                                 { "one", sigmoid_one, "y = torch.sigmoid(x)" },
                                 { "large", sigmoid_large, "y = torch.sigmoid(x)", CASE_LIVE_ONLY },
                                 { 0 } };

const OpCase cases_gelu[] = { { "odd", gelu_odd, "y = F.gelu(x)" },
                              { "one", gelu_one, "y = F.gelu(x)" },
                              { "between layers", gelu_two_layers,
                                "y = F.gelu(x @ w + b) @ v; z = F.gelu(u @ w + b) @ v" },
                              { "large", gelu_large, "y = F.gelu(x)", CASE_LIVE_ONLY },
                              { 0 } };

const OpCase cases_gelu_tanh[] = {
    { "odd", gelu_tanh_odd, "y = F.gelu(x, approximate='tanh')" },
    { "one", gelu_tanh_one, "y = F.gelu(x, approximate='tanh')" },
    { "between layers", gelu_tanh_layer, "y = F.gelu(x @ w + b, approximate='tanh') @ v" },
    { "between wide layers", gelu_tanh_wide, "y = F.gelu(x @ w + b, approximate='tanh') @ v",
      CASE_LIVE_ONLY | CASE_NO_DIFFERENCES },
    { "many rows between layers", gelu_tanh_deep, "y = F.gelu(x @ w + b, approximate='tanh') @ v",
      CASE_LIVE_ONLY | CASE_NO_DIFFERENCES },
    { "large", gelu_tanh_large, "y = F.gelu(x, approximate='tanh')", CASE_LIVE_ONLY },
    { 0 }
};

const OpCase cases_softplus[] = { { "odd", softplus_odd, "y = F.softplus(x)" },
                                  { "one", softplus_one, "y = F.softplus(x)" },
                                  { "far", softplus_far, "y = F.softplus(x)", CASE_NO_DIFFERENCES },
                                  { "large", softplus_large, "y = F.softplus(x)", CASE_LIVE_ONLY },
                                  { 0 } };

const OpCase cases_exp[] = { { "odd", exp_odd, "y = torch.exp(x)" },
                             { "one", exp_one, "y = torch.exp(x)" },
                             { "large", exp_large, "y = torch.exp(x)", CASE_LIVE_ONLY },
                             { 0 } };

static void affine_twice(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(5, 3, 11), -2, 2);
    case_out(c, "y", affine(x, -2.5f, 0.75f));
    case_out(c, "negated", affine(x, -1, 0));
    case_out(c, "same", affine(x, 1, 0));
}

static void chain_in_place(Case *c) /* each may take over the bytes of the one before */
{
    Tensor x = case_in(c, "x", SHAPE(6, 7), -2, 2);
    case_out(c, "y", relu(affine(tanh_of(affine(x, 1.5f, 0.1f)), 2, -0.25f)));
}

const OpCase cases_affine[] = {
    { "twice", affine_twice, "y = -2.5 * x + 0.75; negated = -x; same = x * 1" },
    { "chain in place", chain_in_place, "y = F.relu(2 * torch.tanh(1.5 * x + 0.1) - 0.25)",
      CASE_NO_DIFFERENCES },
    { 0 }
};
