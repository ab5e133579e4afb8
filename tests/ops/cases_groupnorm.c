/* cases_groupnorm.c -- group norm, instance norm, SPADE. */
#include "cases.h"

#include "ops/groupnorm.h"

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

static void with_gelu(Case *c)  /* the thin channels of DiT3D's upsampler, in a volume */
{
    Tensor x = case_in(c, "x", SHAPE(2, 2, 5, 7, 6), -2, 2);
    Tensor w = case_in(c, "w", SHAPE(6), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(6), -0.5f, 0.5f);
    case_out(c, "y", groupnorm(x, w, b, 2, 1e-5f, NORM_GELU));
}

static void one_group(Case *c)               /* three channels, one group, no affine */
{
    Tensor none = tensor_none(case_graph(c));
    case_out(
        c, "y",
        groupnorm(case_in(c, "x", SHAPE(1, 13, 17, 3), -1, 1), none, none, 1, 1e-5f, NORM_GELU));
}

static void one_channel(Case *c)             /* folded rows with a rest */
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

static void far_mean(Case *c)  /* deviation a thousandth of the mean: no sums of squares */
{
    Tensor none = tensor_none(case_graph(c));
    case_out(c, "y",
             groupnorm(case_in_f32(c, "x", SHAPE(1, 40, 8), 1000, 1016), none, none, 2, 1e-5f,
                       NORM_LINEAR));
}

static void frozen_affine(Case *c)           /* only x wants a gradient */
{
    Tensor x = case_in(c, "x", SHAPE(2, 11, 6), -2, 3);
    Tensor w = case_const(c, "w", SHAPE(6), 0.5f, 1.5f), b = case_const(c, "b", SHAPE(6), -1, 1);
    case_out(c, "y", groupnorm(x, w, b, 3, 1e-5f, NORM_SILU));
}

static void frozen_input(Case *c)            /* only weight and bias do */
{
    Tensor x = case_const(c, "x", SHAPE(2, 11, 6), -2, 3);
    Tensor w = case_in(c, "w", SHAPE(6), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(6), -1, 1);
    case_out(c, "y", groupnorm(x, w, b, 3, 1e-5f, NORM_GELU));
}

static void instance(Case *c)
{
    case_out(c, "y", instancenorm(case_in(c, "x", SHAPE(2, 4, 9, 21), -2, 5), 1e-5f));
}

static void twice(Case *c)                   /* the second may write over what the first made */
{
    Tensor none = tensor_none(case_graph(c)), x = case_in(c, "x", SHAPE(2, 5, 7, 8), -2, 2);
    case_out(
        c, "y",
        groupnorm(groupnorm(x, none, none, 2, 1e-5f, NORM_SILU), none, none, 4, 1e-5f, NORM_GELU));
}

static void large(Case *c)  /* several threads; cut inside a sample; rest of a block */
{
    Tensor x = case_in(c, "x", SHAPE(3, 13, 67, 96), -2, 3);
    Tensor w = case_in(c, "w", SHAPE(96), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(96), -1, 1);
    case_out(c, "y", groupnorm(x, w, b, 32, 1e-5f, NORM_SILU));
}

static void large_thin(Case *c)              /* folded rows over several threads */
{
    Tensor x = case_in(c, "x", SHAPE(3, 97, 131, 6), -2, 3);
    Tensor w = case_in(c, "w", SHAPE(6), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(6), -1, 1);
    case_out(c, "y", groupnorm(x, w, b, 2, 1e-5f, NORM_GELU));
}

static void large_instance(Case *c)
{
    case_out(c, "y", instancenorm(case_in(c, "x", SHAPE(1, 33, 70, 40), -2, 3), 1e-5f));
}

static void large_wide(Case *c)  /* more channels than a block is meant for, few pixels */
{
    Tensor x = case_in(c, "x", SHAPE(2, 3, 5, 2560), -2, 3);
    Tensor w = case_in(c, "w", SHAPE(2560), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(2560), -1, 1);
    case_out(c, "y", groupnorm(x, w, b, 32, 1e-5f, NORM_SILU));
}

/* Each misuse ends in a sentence with the numbers, not in a crash. */
static const char *misuse(Case *c)
{
    static const char *const said[] = {
        "30 channels do not divide into 32 groups",
        "do not divide into 0 groups",
        "given both or neither",
        "weight is f32 (7), the channels 30",
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
        case 2: groupnorm(x, flat, none, 3, 1e-5f, NORM_SILU); break;
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

#define GN(groups, affine, eps)                                                                    \
    "g = F.group_norm(x.movedim(-1, 1), " groups ", " affine ", " eps ").movedim(1, -1); "

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
    { "twice", twice, GN("2", "None, None", "1e-5") "h = F.silu(g); "
      "y = F.gelu(F.group_norm(h.movedim(-1, 1), 4, None, None, 1e-5).movedim(1, -1))" },
    { "misuse", one_pixel, NULL, CASE_NO_TORCH, 0, 0, misuse },
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

static void spade_frozen_norm(Case *c)       /* only the maps are trained */
{
    Tensor none = tensor_none(case_graph(c)), h = case_const(c, "h", SHAPE(1, 5, 3), -2, 3);
    Tensor map = case_in(c, "map", SHAPE(1, 5, 6), -1, 1);
    case_out(c, "y", spade(h, none, none, map, none, 3, 1e-5f));
}

static void spade_frozen_maps(Case *c)       /* only the norm is */
{
    Tensor h = case_in(c, "h", SHAPE(2, 7, 8), -2, 3);
    Tensor w = case_in(c, "w", SHAPE(8), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(8), -1, 1);
    Tensor gamma = case_const(c, "gamma", SHAPE(2, 7, 8), -1, 1),
           beta = case_in(c, "beta", SHAPE(2, 7, 8), -1, 1);
    case_out(c, "y", spade(h, w, b, gamma, beta, 8, 1e-5f));
}

static void spade_after_norm(Case *c)        /* dh over dy: spade's gradient feeds another's */
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
