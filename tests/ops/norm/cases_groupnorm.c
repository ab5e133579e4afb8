/* cases_groupnorm.c -- group norm, instance norm, SPADE. */
#include "ops/cases.h"

#include "ops/elementwise/basic.h"
#include "ops/norm/groupnorm.h"
#include "ops/elementwise/unary.h"

#include <string.h>

static void plain(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(2, 3, 5, 12), -2, 3);
    Tensor w = case_in(c, "w", SHAPE(12), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(12), -1, 1);
    case_out(c, "y", groupnorm(x, w, b, 4, 1e-5f, NORM_LINEAR));
}

static void with_silu(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(3, 7, 3, 10), -2, 3);
    Tensor w = case_in(c, "w", SHAPE(10), -1.5f, 1.5f), b = case_in(c, "b", SHAPE(10), -1, 1);
    case_out(c, "y", groupnorm(x, w, b, 5, 1e-6f, NORM_SILU));
}

static void with_relu(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(2, 9, 8), -2, 2);
    Tensor w = case_in(c, "w", SHAPE(8), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(8), -0.5f, 0.5f);
    case_out(c, "y", groupnorm(x, w, b, 2, 1e-5f, NORM_RELU));
}

static void with_gelu(Case *c) /* the thin channels of DiT3D's upsampler, in a volume */
{
    Tensor x = case_in(c, "x", SHAPE(2, 2, 5, 7, 6), -2, 2);
    Tensor w = case_in(c, "w", SHAPE(6), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(6), -0.5f, 0.5f);
    case_out(c, "y", groupnorm(x, w, b, 2, 1e-5f, NORM_GELU));
}

static void one_group(Case *c) /* three channels, one group, no affine */
{
    Tensor none = tensor_none(case_graph(c));
    case_out(
        c, "y",
        groupnorm(case_in(c, "x", SHAPE(1, 13, 17, 3), -1, 1), none, none, 1, 1e-5f, NORM_GELU));
}

static void one_channel(Case *c) /* folded rows with a remainder */
{
    Tensor none = tensor_none(case_graph(c));
    case_out(c, "y",
             groupnorm(case_in(c, "x", SHAPE(2, 701, 1), -1, 3), none, none, 1, 1e-5f, NORM_SILU));
}

static void one_pixel(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(4, 24), -2, 3);
    Tensor w = case_in(c, "w", SHAPE(24), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(24), -1, 1);
    case_out(c, "y", groupnorm(x, w, b, 3, 1e-5f, NORM_SILU));
}

static void far_mean(Case *c) /* deviation a thousandth of the mean: no sums of squares */
{
    Tensor none = tensor_none(case_graph(c));
    case_out(c, "y",
             groupnorm(case_in_f32(c, "x", SHAPE(1, 40, 8), 1000, 1016), none, none, 2, 1e-5f,
                       NORM_LINEAR));
}

static void frozen_affine(Case *c) /* only x wants a gradient */
{
    Tensor x = case_in(c, "x", SHAPE(2, 11, 6), -2, 3);
    Tensor w = case_const(c, "w", SHAPE(6), 0.5f, 1.5f), b = case_const(c, "b", SHAPE(6), -1, 1);
    case_out(c, "y", groupnorm(x, w, b, 3, 1e-5f, NORM_SILU));
}

static void frozen_input(Case *c) /* only weight and bias do */
{
    Tensor x = case_const(c, "x", SHAPE(2, 11, 6), -2, 3);
    Tensor w = case_in(c, "w", SHAPE(6), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(6), -1, 1);
    case_out(c, "y", groupnorm(x, w, b, 3, 1e-5f, NORM_GELU));
}

static void instance(Case *c)
{
    case_out(c, "y", instancenorm(case_in(c, "x", SHAPE(2, 4, 9, 21), -2, 5), 1e-5f));
}

static void twice(Case *c) /* the second may write over the first's output */
{
    Tensor none = tensor_none(case_graph(c)), x = case_in(c, "x", SHAPE(2, 5, 7, 8), -2, 2);
    case_out(
        c, "y",
        groupnorm(groupnorm(x, none, none, 2, 1e-5f, NORM_SILU), none, none, 4, 1e-5f, NORM_GELU));
}

static void large(Case *c) /* several threads, a boundary inside a sample, an incomplete block */
{
    Tensor x = case_in(c, "x", SHAPE(3, 13, 67, 96), -2, 3);
    Tensor w = case_in(c, "w", SHAPE(96), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(96), -1, 1);
    case_out(c, "y", groupnorm(x, w, b, 32, 1e-5f, NORM_SILU));
}

static void large_thin(Case *c) /* folded rows over several threads */
{
    Tensor x = case_in(c, "x", SHAPE(3, 97, 131, 6), -2, 3);
    Tensor w = case_in(c, "w", SHAPE(6), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(6), -1, 1);
    case_out(c, "y", groupnorm(x, w, b, 2, 1e-5f, NORM_GELU));
}

static void large_instance(Case *c)
{
    case_out(c, "y", instancenorm(case_in(c, "x", SHAPE(1, 33, 70, 40), -2, 3), 1e-5f));
}

static void large_wide(Case *c) /* more channels than a block is meant for, few pixels */
{
    Tensor x = case_in(c, "x", SHAPE(2, 3, 5, 2560), -2, 3);
    Tensor w = case_in(c, "w", SHAPE(2560), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(2560), -1, 1);
    case_out(c, "y", groupnorm(x, w, b, 32, 1e-5f, NORM_SILU));
}

/* The norm's gradient node adds the gradient of the skip connection. h is no parameter, because
 * those are summed in fp32; it is 2 x, which is exact in every type. */
typedef enum Affine { NO_AFFINE, FROZEN, TRAINED } Affine;

static void around(Case *c, Shape shape, int64_t groups, NormAct act, Affine affine_is)
{
    Tensor h = affine(case_in(c, "x", shape, -1, 1.5f), 2, 0);
    Tensor w = tensor_none(case_graph(c)), b = w;
    if (affine_is != NO_AFFINE) {
        Tensor (*make)(Case *, const char *, Shape, float,
                       float) = affine_is == TRAINED ? case_in : case_const;
        w = make(c, "w", SHAPE(dim(shape, -1)), 0.5f, 1.5f);
        b = make(c, "b", SHAPE(dim(shape, -1)), -1, 1);
    }
    case_out(c, "y", add(h, affine(groupnorm(h, w, b, groups, 1e-5f, act), 0.5f, 0)));
}

static void residual(Case *c) { around(c, SHAPE(2, 3, 5, 12), 4, NORM_LINEAR, TRAINED); }
static void residual_silu(Case *c) { around(c, SHAPE(3, 7, 3, 16), 4, NORM_SILU, TRAINED); }
static void residual_relu(Case *c) { around(c, SHAPE(2, 9, 8), 2, NORM_RELU, TRAINED); }
static void residual_gelu(Case *c) { around(c, SHAPE(2, 13, 6), 2, NORM_GELU, TRAINED); }
static void residual_thin(Case *c) { around(c, SHAPE(2, 701, 1), 1, NORM_SILU, NO_AFFINE); }
static void residual_each(Case *c) { around(c, SHAPE(2, 4, 9, 21), 21, NORM_LINEAR, NO_AFFINE); }

/* On a GPU a block holds a group; vectors of 8, 4, 2 numbers or 1 lie between its edges. */
static void frozen_8(Case *c) { around(c, SHAPE(2, 5, 7, 32), 4, NORM_SILU, FROZEN); }
static void frozen_12(Case *c) { around(c, SHAPE(2, 5, 7, 24), 2, NORM_RELU, FROZEN); }
static void frozen_10(Case *c) { around(c, SHAPE(2, 5, 7, 20), 2, NORM_LINEAR, NO_AFFINE); }
static void frozen_9(Case *c) { around(c, SHAPE(2, 5, 7, 27), 3, NORM_GELU, NO_AFFINE); }

static void residual_same(Case *c) /* both gradients are the same tensor */
{
    Tensor none = tensor_none(case_graph(c));
    Tensor h = affine(case_in(c, "x", SHAPE(2, 5, 7, 8), -1, 1.5f), 2, 0);
    case_out(c, "y", add(h, groupnorm(h, none, none, 2, 1e-5f, NORM_SILU)));
}

static void residual_twice(Case *c) /* two norms of one value: the sum of a sum */
{
    Tensor h = affine(case_in(c, "x", SHAPE(2, 5, 7, 8), -1, 1.5f), 2, 0);
    Tensor w = case_in(c, "w", SHAPE(8), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(8), -1, 1);
    Tensor one = groupnorm(h, w, b, 2, 1e-5f, NORM_SILU),
           two = groupnorm(h, b, w, 4, 1e-5f, NORM_LINEAR);
    case_out(c, "y", add(h, add(silu(one), tanh_of(two))));
}

static void residual_fp32(Case *c) /* the skip connection is fp32 and a second output */
{
    Tensor none = tensor_none(case_graph(c));
    Tensor h = affine(case_in(c, "x", SHAPE(2, 5, 7, 8), -1, 1.5f), 2, 0);
    Tensor y = groupnorm(h, none, none, 2, 1e-5f, NORM_SILU);
    case_out(c, "z", silu(cast(h, F32)));
    case_out(c, "y", silu(y));
}

static void residual_param(Case *c) /* a parameter, whose gradient is fp32 */
{
    Tensor none = tensor_none(case_graph(c)), x = case_in(c, "x", SHAPE(2, 11, 8), -2, 3);
    case_out(c, "y", add(x, silu(groupnorm(x, none, none, 2, 1e-5f, NORM_LINEAR))));
}

static void residual_frozen(Case *c) /* h wants no gradient, weight and bias do */
{
    Tensor x = case_const(c, "x", SHAPE(2, 11, 6), -1, 1.5f), h = affine(x, 2, 0);
    Tensor w = case_in(c, "w", SHAPE(6), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(6), -1, 1);
    case_out(c, "y", add(h, groupnorm(h, w, b, 3, 1e-5f, NORM_SILU)));
}

/* Several rounds of a chunk, folded rows, single elements, tiles of channels, a group that just
 * fits into a block. */
static void around_silu(Case *c) { around(c, SHAPE(3, 13, 67, 96), 32, NORM_SILU, TRAINED); }
static void around_relu(Case *c) { around(c, SHAPE(2, 41, 67, 64), 8, NORM_RELU, TRAINED); }
static void around_thin(Case *c) { around(c, SHAPE(3, 97, 131, 6), 2, NORM_GELU, TRAINED); }
static void around_odd(Case *c) { around(c, SHAPE(1, 57, 61, 37), 37, NORM_SILU, TRAINED); }
static void around_each(Case *c) { around(c, SHAPE(1, 33, 70, 40), 40, NORM_LINEAR, NO_AFFINE); }
static void around_wide(Case *c) { around(c, SHAPE(2, 3, 5, 2560), 32, NORM_SILU, TRAINED); }
static void around_group(Case *c) { around(c, SHAPE(2, 24, 32, 64), 4, NORM_SILU, FROZEN); }

/* Each misuse gives a message with the numbers, not a crash. */
static const char *misuse(Case *c)
{
    static const char *const said[] = {
        "30 channels do not divide into 32 groups",
        "do not divide into 0 groups",
        "give both weight and bias, or neither",
        "weight is f32 (7), but the input has 30 channels",
        "must be floats (N,...,C)",
        "eps -1",
        "the map (2,5,30) does not fit",
        "the map (none) does not fit",
    };
    (void)c;
    for (int i = 0; i < (int)(sizeof said / sizeof *said); i++) {
        Pool  *pool = pool_new(NULL, "misuse");
        Graph *g = graph_new(pool, F32);
        Tensor none = tensor_none(g),
               x = state_add(g, "x", F32, SHAPE(2, 4, 30), CLASS_INPUTS, false);
        Tensor flat = state_add(g, "flat", F32, SHAPE(30), CLASS_INPUTS, false);
        Tensor seven = state_add(g, "seven", F32, SHAPE(7), CLASS_INPUTS, false);
        Tensor map = state_add(g, "map", F32, SHAPE(2, 5, 30), CLASS_INPUTS, false);
        switch (i) {
        case 0: groupnorm(x, none, none, 32, 1e-5f, NORM_SILU); break;
        case 1: groupnorm(x, none, none, 0, 1e-5f, NORM_SILU); break;
        case 2: spade(x, flat, none, x, x, 30, 1e-5f); break;
        case 3: groupnorm(x, seven, seven, 3, 1e-5f, NORM_SILU); break;
        case 4: groupnorm(flat, none, none, 3, 1e-5f, NORM_SILU); break;
        case 5: groupnorm(x, none, none, 3, -1, NORM_SILU); break;
        case 6: spade(x, none, none, map, map, 30, 1e-5f); break;
        case 7: spade(x, none, none, none, none, 30, 1e-5f); break;
        }
        bool right = graph_check(g) == E_SHAPE && strstr(err_text(), said[i]);
        pool_free(pool);
        if (!right)
            return said[i];
    }
    return NULL;
}

static void weight_alone(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(2, 5, 12), -2, 3);
    case_out(c, "y",
             groupnorm(x, case_in(c, "w", SHAPE(12), 0.5f, 1.5f), tensor_none(case_graph(c)), 3,
                       1e-3f, NORM_SILU));
}

static void bias_alone(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(2, 3, 4, 10), -2, 3);
    case_out(c, "y",
             groupnorm(x, tensor_none(case_graph(c)), case_in(c, "b", SHAPE(10), -1, 1), 5, 1e-5f,
                       NORM_SILU));
}

static void line(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(3, 29, 16), -2, 3);
    Tensor w = case_in(c, "w", SHAPE(16), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(16), -1, 1);
    case_out(c, "y", groupnorm(x, w, b, 4, 1e-6f, NORM_LINEAR));
}

static void volume(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(2, 3, 4, 5, 12), -2, 3);
    Tensor w = case_in(c, "w", SHAPE(12), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(12), -1, 1);
    case_out(c, "y", groupnorm(x, w, b, 3, 1e-5f, NORM_LINEAR));
}

static void instance_affine(Case *c) /* a group per channel, with weight and bias */
{
    Tensor x = case_in(c, "x", SHAPE(2, 6, 7, 9), -2, 3);
    Tensor w = case_in(c, "w", SHAPE(9), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(9), -1, 1);
    case_out(c, "y", groupnorm(x, w, b, 9, 1e-5f, NORM_LINEAR));
}

static void instance_volume(Case *c)
{
    case_out(c, "y", instancenorm(case_in(c, "x", SHAPE(2, 3, 4, 5, 6), -2, 3), 1e-5f));
}

#define GN(groups, affine, eps)                                                                    \
    "g = F.group_norm(x.movedim(-1, 1), " groups ", " affine ", " eps ").movedim(1, -1); "

#define TWICE                       "x = 2 * x; "
#define AROUND(groups, affine, act) TWICE GN(groups, affine, "1e-5") "y = x + 0.5 * " act

const OpCase cases_groupnorm[] = {
    { "plain", plain, GN("4", "w, b", "1e-5") "y = g" },
    { "silu", with_silu, GN("5", "w, b", "1e-6") "y = F.silu(g)" },
    { "relu", with_relu, GN("2", "w, b", "1e-5") "y = F.relu(g)", CASE_NO_DIFFERENCES },
    { "gelu", with_gelu, GN("2", "w, b", "1e-5") "y = F.gelu(g)" },
    { "one group", one_group, GN("1", "None, None", "1e-5") "y = F.gelu(g)" },
    { "one channel", one_channel, GN("1", "None, None", "1e-5") "y = F.silu(g)" },
    { "one pixel", one_pixel, GN("3", "w, b", "1e-5") "y = F.silu(g)" },
    { "far mean", far_mean, GN("2", "None, None", "1e-5") "y = g", CASE_NO_DIFFERENCES },
    { "frozen affine", frozen_affine, GN("3", "w, b", "1e-5") "y = F.silu(g)" },
    { "frozen input", frozen_input, GN("3", "w, b", "1e-5") "y = F.gelu(g)" },
    { "instance", instance, GN("21", "None, None", "1e-5") "y = g" },
    { "twice", twice,
      GN("2", "None, None",
         "1e-5") "h = F.silu(g); "
                 "y = F.gelu(F.group_norm(h.movedim(-1, 1), 4, None, None, 1e-5).movedim(1, -1))" },
    { "residual", residual, AROUND("4", "w, b", "g") },
    { "residual silu", residual_silu, AROUND("4", "w, b", "F.silu(g)") },
    { "residual relu", residual_relu, AROUND("2", "w, b", "F.relu(g)"), CASE_NO_DIFFERENCES },
    { "residual gelu", residual_gelu, AROUND("2", "w, b", "F.gelu(g)") },
    { "residual one channel", residual_thin, AROUND("1", "None, None", "F.silu(g)") },
    { "residual instance", residual_each, AROUND("21", "None, None", "g") },
    { "residual frozen 8", frozen_8, AROUND("4", "w, b", "F.silu(g)") },
    { "residual frozen 12", frozen_12, AROUND("2", "w, b", "F.relu(g)"), CASE_NO_DIFFERENCES },
    { "residual frozen 10", frozen_10, AROUND("2", "None, None", "g") },
    { "residual frozen 9", frozen_9, AROUND("3", "None, None", "F.gelu(g)") },
    { "residual, same gradient", residual_same,
      TWICE GN("2", "None, None", "1e-5") "y = x + F.silu(g)" },
    { "residual, two norms", residual_twice,
      TWICE GN("2", "w, b", "1e-5") "y = x + F.silu(F.silu(g)); " GN(
          "4", "b, w", "1e-5") "y = y + torch.tanh(g)" },
    { "residual, fp32 branch", residual_fp32,
      TWICE GN("2", "None, None", "1e-5") "z = F.silu(x); y = F.silu(F.silu(g))" },
    { "residual of a parameter", residual_param,
      GN("2", "None, None", "1e-5") "y = x + F.silu(g)" },
    { "residual, frozen input", residual_frozen,
      TWICE GN("3", "w, b", "1e-5") "y = x + F.silu(g)" },
    { "weight alone", weight_alone, GN("3", "w, None", "1e-3") "y = F.silu(g)" },
    { "bias alone", bias_alone, GN("5", "None, None", "1e-5") "y = F.silu(g + b)" },
    { "line", line, GN("4", "w, b", "1e-6") "y = g" },
    { "volume", volume, GN("3", "w, b", "1e-5") "y = g" },
    { "instance affine", instance_affine,
      "y = F.instance_norm(x.movedim(-1, 1), None, None, w, b).movedim(1, -1)" },
    { "instance volume", instance_volume, "y = F.instance_norm(x.movedim(-1, 1)).movedim(1, -1)" },
    { "misuse", one_pixel, NULL, CASE_NO_TORCH, 0, 0, misuse },
    { "large residual", around_silu, AROUND("32", "w, b", "F.silu(g)"), CASE_LIVE_ONLY },
    { "large residual relu", around_relu, AROUND("8", "w, b", "F.relu(g)"),
      CASE_LIVE_ONLY | CASE_NO_DIFFERENCES },
    { "large residual thin", around_thin, AROUND("2", "w, b", "F.gelu(g)"), CASE_LIVE_ONLY },
    { "large residual odd", around_odd, AROUND("37", "w, b", "F.silu(g)"), CASE_LIVE_ONLY },
    { "large residual instance", around_each, AROUND("40", "None, None", "g"), CASE_LIVE_ONLY },
    { "large residual wide", around_wide, AROUND("32", "w, b", "F.silu(g)"), CASE_LIVE_ONLY },
    { "large residual group", around_group, AROUND("4", "w, b", "F.silu(g)"), CASE_LIVE_ONLY },
    { "large", large, GN("32", "w, b", "1e-5") "y = F.silu(g)", CASE_LIVE_ONLY },
    { "large thin", large_thin, GN("2", "w, b", "1e-5") "y = F.gelu(g)", CASE_LIVE_ONLY },
    { "large instance", large_instance, GN("40", "None, None", "1e-5") "y = g", CASE_LIVE_ONLY },
    { "large wide", large_wide, GN("32", "w, b", "1e-5") "y = F.silu(g)", CASE_LIVE_ONLY },
    { 0 }
};

static void spade_instance(Case *c)
{
    Tensor none = tensor_none(case_graph(c)), h = case_in(c, "h", SHAPE(2, 3, 5, 9), -2, 3);
    Tensor gamma = case_in(c, "gamma", SHAPE(2, 3, 5, 9), -1, 1),
           beta = case_in(c, "beta", SHAPE(2, 3, 5, 9), -1, 1);
    case_out(c, "y", spade(h, none, none, gamma, beta, 9, 1e-5f));
}

static void spade_affine(Case *c)
{
    Tensor h = case_in(c, "h", SHAPE(2, 7, 8), -2, 3);
    Tensor w = case_in(c, "w", SHAPE(8), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(8), -1, 1);
    Tensor gamma = case_in(c, "gamma", SHAPE(2, 7, 8), -1, 1),
           beta = case_in(c, "beta", SHAPE(2, 7, 8), -1, 1);
    case_out(c, "y", spade(h, w, b, gamma, beta, 4, 1e-5f));
}

static void spade_packed(Case *c)
{
    Tensor h = case_in(c, "h", SHAPE(2, 3, 4, 6), -2, 3);
    Tensor w = case_in(c, "w", SHAPE(6), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(6), -1, 1);
    Tensor map = case_in(c, "map", SHAPE(2, 3, 4, 12), -1, 1);
    case_out(c, "y", spade(h, w, b, map, tensor_none(case_graph(c)), 3, 1e-5f));
}

static void spade_frozen_norm(Case *c) /* only the maps are trained */
{
    Tensor none = tensor_none(case_graph(c)), h = case_const(c, "h", SHAPE(1, 5, 3), -2, 3);
    Tensor map = case_in(c, "map", SHAPE(1, 5, 6), -1, 1);
    case_out(c, "y", spade(h, none, none, map, none, 3, 1e-5f));
}

static void spade_frozen_maps(Case *c) /* only the norm is */
{
    Tensor h = case_in(c, "h", SHAPE(2, 7, 8), -2, 3);
    Tensor w = case_in(c, "w", SHAPE(8), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(8), -1, 1);
    Tensor gamma = case_const(c, "gamma", SHAPE(2, 7, 8), -1, 1),
           beta = case_in(c, "beta", SHAPE(2, 7, 8), -1, 1);
    case_out(c, "y", spade(h, w, b, gamma, beta, 8, 1e-5f));
}

static void spade_after_norm(Case *c) /* dh over dy: spade's gradient feeds another's */
{
    Tensor none = tensor_none(case_graph(c)), x = case_in(c, "x", SHAPE(2, 3, 4, 6), -2, 3);
    Tensor map = case_in(c, "map", SHAPE(2, 3, 4, 12), -1, 1);
    Tensor h = spade(instancenorm(x, 1e-5f), none, none, map, none, 2, 1e-5f);
    case_out(c, "y", groupnorm(h, none, none, 3, 1e-5f, NORM_SILU));
}

static void spade_large(Case *c)
{
    Tensor none = tensor_none(case_graph(c)), h = case_in(c, "h", SHAPE(3, 19, 23, 72), -2, 3);
    Tensor map = case_in(c, "map", SHAPE(3, 19, 23, 144), -1, 1);
    case_out(c, "y", spade(h, none, none, map, none, 72, 1e-5f));
}

#define SPADE(groups, affine)                                                                      \
    "n = F.group_norm(h.movedim(-1, 1), " groups ", " affine ", 1e-5).movedim(1, -1); "
#define HALVES "gamma, beta = map.chunk(2, -1); "

const OpCase cases_spade[] = {
    { "instance", spade_instance, SPADE("9", "None, None") "y = n * (1 + gamma) + beta" },
    { "affine", spade_affine, SPADE("4", "w, b") "y = n * (1 + gamma) + beta" },
    { "packed", spade_packed, HALVES SPADE("3", "w, b") "y = n * (1 + gamma) + beta" },
    { "frozen norm", spade_frozen_norm,
      HALVES SPADE("3", "None, None") "y = n * (1 + gamma) + beta" },
    { "frozen maps", spade_frozen_maps, SPADE("8", "w, b") "y = n * (1 + gamma) + beta" },
    { "after norm", spade_after_norm,
      "h = F.group_norm(x.movedim(-1, 1), 6, None, None, 1e-5).movedim(1, -1); " HALVES SPADE(
          "2", "None, None") "h = n * (1 + gamma) + beta; "
                             "y = F.silu(F.group_norm(h.movedim(-1, 1), 3, None, None, "
                             "1e-5).movedim(1, -1))" },
    { "large", spade_large, HALVES SPADE("72", "None, None") "y = n * (1 + gamma) + beta",
      CASE_LIVE_ONLY },
    { 0 }
};
