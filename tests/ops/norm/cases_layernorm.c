/* cases_layernorm.c -- layer norm, layer norm with adaptive scale and shift, SaShiMi's scalar
 * norm. */
#include "ops/cases.h"

#include "ops/arrange/arrange.h"
#include "ops/elementwise/basic.h"
#include "ops/elementwise/binary.h"
#include "ops/norm/layernorm.h"
#include "ops/elementwise/unary.h"

#include <math.h>
#include <string.h>

static void with_affine(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(2, 7, 37), -2, 3);
    Tensor w = case_in(c, "w", SHAPE(37), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(37), -1, 1);
    case_out(c, "y", layernorm(x, w, b, 1e-5f));
}

static void bare(Case *c)
{
    Tensor none = tensor_none(case_graph(c));
    case_out(c, "y", layernorm(case_in(c, "x", SHAPE(5, 100), -2, 3), none, none, 1e-6f));
}

static void three_wide(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(11, 3), -2, 3);
    Tensor w = case_in(c, "w", SHAPE(3), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(3), -1, 1);
    case_out(c, "y", layernorm(x, w, b, 1e-2f));
}

static void one_wide(Case *c) /* the output is always the bias */
{
    Tensor x = case_in(c, "x", SHAPE(6, 1), -2, 3);
    Tensor w = case_in(c, "w", SHAPE(1), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(1), -1, 1);
    case_out(c, "y", layernorm(x, w, b, 1e-5f));
}

static void one_row(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(33), -2, 3);
    Tensor w = case_in(c, "w", SHAPE(33), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(33), -1, 1);
    case_out(c, "y", layernorm(x, w, b, 1e-5f));
}

static void far_mean(Case *c)
{
    Tensor none = tensor_none(case_graph(c));
    case_out(c, "y", layernorm(case_in_f32(c, "x", SHAPE(3, 48), 1000, 1016), none, none, 1e-5f));
}

static void frozen_affine(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(4, 24), -2, 3);
    Tensor w = case_const(c, "w", SHAPE(24), 0.5f, 1.5f), b = case_const(c, "b", SHAPE(24), -1, 1);
    case_out(c, "y", layernorm(x, w, b, 1e-5f));
}

static void frozen_input(Case *c)
{
    Tensor x = case_const(c, "x", SHAPE(4, 24), -2, 3);
    Tensor w = case_in(c, "w", SHAPE(24), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(24), -1, 1);
    case_out(c, "y", layernorm(x, w, b, 1e-5f));
}

static void twice(Case *c) /* the second may write over the first's output */
{
    Tensor none = tensor_none(case_graph(c)), x = case_in(c, "x", SHAPE(3, 5, 18), -2, 3);
    Tensor w = case_in(c, "w", SHAPE(18), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(18), -1, 1);
    case_out(c, "y", layernorm(layernorm(x, w, b, 1e-5f), none, none, 1e-6f));
}

static void large(Case *c) /* several threads, float sums saved more than once */
{
    Tensor x = case_in(c, "x", SHAPE(3, 97, 203), -2, 3);
    Tensor w = case_in(c, "w", SHAPE(203), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(203), -1, 1);
    case_out(c, "y", layernorm(x, w, b, 1e-5f));
}

/* The norm's gradient node adds the gradient of the skip connection. */
static void residual(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(3, 4, 24), -2, 3);
    Tensor w = case_in(c, "w", SHAPE(24), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(24), -1, 1);
    case_out(c, "y", add(x, silu(layernorm(x, w, b, 1e-5f))));
}

static void residual_same(Case *c) /* both gradients are the same tensor */
{
    Tensor none = tensor_none(case_graph(c)), x = case_in(c, "x", SHAPE(3, 4, 24), -2, 3);
    case_out(c, "y", add(x, layernorm(x, none, none, 1e-5f)));
}

static void residual_thrice(Case *c) /* three branches from one value, one of them fp32 */
{
    Tensor x = case_in(c, "x", SHAPE(5, 40), -2, 3);
    Tensor w = case_in(c, "w", SHAPE(40), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(40), -1, 1);
    Tensor y = add(silu(layernorm(x, w, b, 1e-5f)), silu(layernorm(x, b, w, 1e-5f)));
    case_out(c, "z", silu(cast(x, F32)));
    case_out(c, "y", add(x, y));
}

/* On a GPU a row lies in 16 lanes by three packs, in a warp by five, in a block, or in none. */
static void wide_rows(Case *c, int64_t rows, int64_t width)
{
    Tensor x = case_in(c, "x", SHAPE(rows, width), -2, 3);
    Tensor w = case_in(c, "w", SHAPE(width), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(width), -1, 1);
    case_out(c, "y", add(x, silu(layernorm(x, w, b, 1e-5f))));
}
static void wide_384(Case *c) { wide_rows(c, 301, 384); }
static void wide_1152(Case *c) { wide_rows(c, 37, 1152); }
static void wide_468(Case *c) { wide_rows(c, 259, 468); }
static void wide_1304(Case *c) { wide_rows(c, 19, 1304); }
static void wide_4104(Case *c) { wide_rows(c, 7, 4104); }
static void wide_12(Case *c) { wide_rows(c, 1003, 12); }

static void weight_alone(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(5, 48), -2, 3);
    case_out(
        c, "y",
        layernorm(x, case_in(c, "w", SHAPE(48), 0.5f, 1.5f), tensor_none(case_graph(c)), 1e-5f));
}

static void bias_alone(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(3, 4, 21), -2, 3);
    case_out(c, "y",
             layernorm(x, tensor_none(case_graph(c)), case_in(c, "b", SHAPE(21), -1, 1), 1e-5f));
}

static void two_axes(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(4, 5, 6), -2, 3);
    Tensor w = case_in(c, "w", SHAPE(5, 6), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(5, 6), -1, 1);
    case_out(c, "y", layernorm_axes(x, w, b, 2, 1e-5f));
}

static void all_axes(Case *c)
{
    Tensor none = tensor_none(case_graph(c));
    case_out(c, "y", layernorm_axes(case_in(c, "x", SHAPE(3, 5, 7), -2, 3), none, none, 3, 1e-3f));
}

static void maps(Case *c) /* rows longer than a block of threads keeps */
{
    Tensor x = case_in(c, "x", SHAPE(3, 17, 19, 40), -2, 3);
    Tensor w = case_in(c, "w", SHAPE(17, 19, 40), 0.5f, 1.5f);
    case_out(c, "y", layernorm_axes(x, w, tensor_none(case_graph(c)), 3, 1e-5f));
}

#define LN(eps, affine) "y = F.layer_norm(x, (x.shape[-1],), " affine ", " eps ")"

#define AROUND "y = x + F.silu(F.layer_norm(x, (x.shape[-1],), w, b, 1e-5))"

const OpCase cases_layernorm[] = {
    { "affine", with_affine, LN("1e-5", "w, b") },
    { "bare", bare, LN("1e-6", "None, None") },
    { "three wide", three_wide, LN("1e-2", "w, b") },
    { "one wide", one_wide, LN("1e-5", "w, b") },
    { "one row", one_row, LN("1e-5", "w, b") },
    { "far mean", far_mean, LN("1e-5", "None, None"), CASE_NO_DIFFERENCES },
    { "frozen affine", frozen_affine, LN("1e-5", "w, b") },
    { "frozen input", frozen_input, LN("1e-5", "w, b") },
    { "twice", twice,
      "y = F.layer_norm(F.layer_norm(x, (18,), w, b, 1e-5), (18,), None, None, 1e-6)", 0, 0, 2e-2 },
    { "weight alone", weight_alone, LN("1e-5", "w, None") },
    { "bias alone", bias_alone, LN("1e-5", "None, b") },
    { "two axes", two_axes, "y = F.layer_norm(x, (5, 6), w, b)" },
    { "all axes", all_axes, "y = F.layer_norm(x, (3, 5, 7), None, None, 1e-3)" },
    { "maps", maps, "y = F.layer_norm(x, (17, 19, 40), w)", CASE_LIVE_ONLY },
    { "large", large, LN("1e-5", "w, b"), CASE_LIVE_ONLY },
    { "residual", residual, AROUND },
    { "residual, same gradient", residual_same,
      "y = x + F.layer_norm(x, (24,), None, None, 1e-5)" },
    { "residual, three branches", residual_thrice,
      "z = F.silu(x); y = x + F.silu(F.layer_norm(x, (40,), w, b, 1e-5)) + "
      "F.silu(F.layer_norm(x, (40,), b, w, 1e-5))",
      0, 0, 2e-2 },
    { "384 wide", wide_384, AROUND, CASE_LIVE_ONLY },
    { "1152 wide", wide_1152, AROUND, CASE_LIVE_ONLY },
    { "468 wide", wide_468, AROUND, CASE_LIVE_ONLY },
    { "1304 wide", wide_1304, AROUND, CASE_LIVE_ONLY },
    { "4104 wide", wide_4104, AROUND, CASE_LIVE_ONLY },
    { "12 wide", wide_12, AROUND, CASE_LIVE_ONLY },
    { 0 }
};

static void modulate_residual(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(2, 5, 24), -2, 3), p = case_in(c, "p", SHAPE(2, 72), -1, 1);
    Tensor h = silu(layernorm_modulate(x, p, 0, 24, 1e-6f));
    case_out(c, "y", gated_add(x, reshape(slice(p, -1, 48, 72), SHAPE(2, 1, 24)), h));
}

static void modulate_six(Case *c) /* as in DiT: two readers of one packed tensor */
{
    Tensor x = case_in(c, "x", SHAPE(2, 5, 20), -2, 3), p = case_in(c, "p", SHAPE(2, 120), -1, 1);
    Tensor h = layernorm_modulate(x, p, 0, 20, 1e-6f);
    case_out(c, "h", h);
    case_out(c, "y", layernorm_modulate(h, p, 60, 80, 1e-6f));
}

static void modulate_frames(Case *c) /* three frames share a row; scale before shift */
{
    Tensor x = case_in(c, "x", SHAPE(6, 2, 3, 9), -2, 3), p = case_in(c, "p", SHAPE(2, 21), -1, 1);
    case_out(c, "y", layernorm_modulate(x, p, 12, 1, 1e-5f));
}

static void modulate_vectors(Case *c) /* no tokens: one row per sample */
{
    Tensor x = case_in(c, "x", SHAPE(4, 16), -2, 3), p = case_in(c, "p", SHAPE(4, 32), -1, 1);
    case_out(c, "y", layernorm_modulate(x, p, 0, 16, 1e-5f));
}

static void modulate_frozen(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(2, 3, 16), -2, 3), p = case_const(c, "p", SHAPE(2, 32), -1, 1);
    case_out(c, "y", layernorm_modulate(x, p, 0, 16, 1e-5f));
}

static void modulate_frozen_input(Case *c)
{
    Tensor x = case_const(c, "x", SHAPE(2, 3, 16), -2, 3), p = case_in(c, "p", SHAPE(1, 32), -1, 1);
    case_out(c, "y", layernorm_modulate(x, p, 0, 16, 1e-5f));
}

static void modulate_large(Case *c) /* a boundary between threads inside a sample */
{
    Tensor x = case_in(c, "x", SHAPE(3, 131, 156), -2, 3),
           p = case_in(c, "p", SHAPE(3, 936), -1, 1);
    case_out(c, "y", layernorm_modulate(x, p, 468, 624, 1e-6f));
}

static void modulate_many(Case *c) /* a block of a GPU has three rows for every lane */
{
    Tensor x = case_in(c, "x", SHAPE(400, 20, 36), -2, 3),
           p = case_in(c, "p", SHAPE(400, 72), -1, 1);
    Tensor h = layernorm_modulate(x, p, 0, 36, 1e-6f);
    case_out(c, "y", add(x, h));
}

static const char *modulate_misuse(Case *c)
{
    static const char *const said[] = {
        "cannot be shared among the samples",
        "are not all in (2,24)",
        "are not all in (2,24)",
        "overlap at 4 and 8",
        "eps nan",
        "m must be one number",
        "weight is f32 (24)",
    };
    (void)c;
    for (int i = 0; i < (int)(sizeof said / sizeof *said); i++) {
        Pool  *pool = pool_new(NULL, "misuse");
        Graph *g = graph_new(pool, F32);
        Tensor x = state_add(g, "x", F32, SHAPE(3, 4, 8), CLASS_INPUTS, false);
        Tensor pair = state_add(g, "pair", F32, SHAPE(2, 4, 8), CLASS_INPUTS, false);
        Tensor p = state_add(g, "p", F32, SHAPE(2, 24), CLASS_INPUTS, false);
        Tensor w = state_add(g, "w", F32, SHAPE(24), CLASS_INPUTS, false);
        switch (i) {
        case 0: layernorm_modulate(x, p, 0, 8, 1e-5f); break;
        case 1: layernorm_modulate(pair, p, 0, 17, 1e-5f); break;
        case 2: layernorm_modulate(pair, p, -1, 8, 1e-5f); break;
        case 3: layernorm_modulate(pair, p, 4, 8, 1e-5f); break;
        case 4: layernorm_modulate(pair, p, 0, 8, NAN); break;
        case 5: scalar_norm(x, w, w); break;
        case 6: layernorm(x, w, w, 1e-5f); break;
        }
        bool right = graph_check(g) == E_SHAPE && strstr(err_text(), said[i]);
        pool_free(pool);
        if (!right)
            return said[i];
    }
    return NULL;
}

#define NORM(x, n, eps) "F.layer_norm(" x ", (" n ",), None, None, " eps ")"

const OpCase cases_layernorm_modulate[] = {
    { "six vectors", modulate_six,
      "s = p[:, None].chunk(6, -1); "
      "h = " NORM("x", "20", "1e-6") " * (1 + s[1]) + s[0]; y = " NORM(
          "h", "20", "1e-6") " * (1 + s[4]) + s[3]" },
    { "shared by frames", modulate_frames,
      "q = p.repeat_interleave(3, 0)[:, None, None]; "
      "y = " NORM("x", "9", "1e-5") " * (1 + q[..., 1:10]) + q[..., 12:21]" },
    { "vectors", modulate_vectors,
      "y = " NORM("x", "16", "1e-5") " * (1 + p[:, 16:]) + p[:, :16]" },
    { "frozen condition", modulate_frozen,
      "y = " NORM("x", "16", "1e-5") " * (1 + p[:, None, 16:]) + p[:, None, :16]" },
    { "frozen input", modulate_frozen_input,
      "y = " NORM("x", "16", "1e-5") " * (1 + p[:, None, 16:]) + p[:, None, :16]" },
    { "residual", modulate_residual,
      "s = p[:, None].chunk(3, -1); "
      "y = x + s[2] * F.silu(" NORM("x", "24", "1e-6") " * (1 + s[1]) + s[0])" },
    { "misuse", modulate_vectors, NULL, CASE_NO_TORCH, 0, 0, modulate_misuse },
    { "large", modulate_large,
      "y = " NORM("x", "156", "1e-6") " * (1 + p[:, None, 624:780]) + p[:, None, 468:624]",
      CASE_LIVE_ONLY },
    { "many rows", modulate_many,
      "y = x + " NORM("x", "36", "1e-6") " * (1 + p[:, None, 36:]) + p[:, None, :36]",
      CASE_LIVE_ONLY | CASE_NO_DIFFERENCES },
    { 0 }
};

static void scalar_plain(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(2, 9, 8), -2, 3);
    case_out(c, "y",
             scalar_norm(x, case_in(c, "m", SHAPE(1), -1, 1), case_in(c, "s", SHAPE(1), 0.5f, 2)));
}

static void scalar_odd(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(13, 43), -2, 3);
    case_out(c, "y",
             scalar_norm(x, case_in(c, "m", SHAPE(1), -1, 1), case_in(c, "s", SHAPE(1), 0.5f, 2)));
}

static void scalar_frozen(Case *c)
{
    Tensor x = case_const(c, "x", SHAPE(5, 6), -2, 3);
    case_out(
        c, "y",
        scalar_norm(x, case_const(c, "m", SHAPE(1), -1, 1), case_in(c, "s", SHAPE(1), 0.5f, 2)));
}

static void scalar_large(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(1, 1003, 64), -2, 3);
    case_out(c, "y",
             scalar_norm(x, case_in(c, "m", SHAPE(1), -1, 1), case_in(c, "s", SHAPE(1), 0.5f, 2)));
}

static void scalar_residual(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(7, 24), -2, 3), m = case_in(c, "m", SHAPE(1), -1, 1);
    case_out(c, "y", add(x, silu(scalar_norm(x, m, case_in(c, "s", SHAPE(1), 0.5f, 2)))));
}

#define SCALAR                                                                                     \
    "d, a = torch.std_mean(x, -1, unbiased=False, keepdim=True); y = (s / d) * (x - a + m)"

const OpCase cases_scalar_norm[] = { { "plain", scalar_plain, SCALAR },
                                     { "odd width", scalar_odd, SCALAR },
                                     { "only s trained", scalar_frozen, SCALAR },
                                     { "residual", scalar_residual, SCALAR "; y = x + F.silu(y)" },
                                     { "large", scalar_large, SCALAR, CASE_LIVE_ONLY },
                                     { 0 } };
