/* cases_batchnorm.c -- batch norm in training, its running statistics, its form for inference. */
#include "ops/cases.h"

#include "ops/norm/batchnorm.h"
#include "ops/ops.h"

#include <math.h>

static void plain(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(3, 4, 5, 9), -2, 3);
    Tensor w = case_in(c, "w", SHAPE(9), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(9), -1, 1);
    case_out(c, "y", batchnorm(x, w, b, 1e-5f, false, NULL));
}

static void with_relu(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(2, 7, 5, 4), -2, 2);
    Tensor w = case_in(c, "w", SHAPE(4), -1.5f, 1.5f), b = case_in(c, "b", SHAPE(4), -0.5f, 0.5f);
    case_out(c, "y", batchnorm(x, w, b, 1e-5f, true, NULL));
}

static void one_channel(Case *c)
{
    Tensor none = tensor_none(case_graph(c));
    case_out(
        c, "y",
        batchnorm(case_in(c, "x", SHAPE(1, 37, 19, 1), -2, 2), none, none, 1e-5f, false, NULL));
}

static void two_rows(Case *c)                /* the smallest batch that has a variance */
{
    Tensor none = tensor_none(case_graph(c));
    case_out(c, "y",
             batchnorm(case_in(c, "x", SHAPE(2, 70), -2, 2), none, none, 0.5f, false, NULL));
}

static void frozen_input(Case *c)
{
    Tensor x = case_const(c, "x", SHAPE(2, 3, 4), -2, 2);
    Tensor w = case_in(c, "w", SHAPE(4), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(4), -0.5f, 0.5f);
    case_out(c, "y", batchnorm(x, w, b, 1e-5f, true, NULL));
}

static void twice(Case *c)                   /* the first's gradient in place of the second's */
{
    Tensor x = case_in(c, "x", SHAPE(2, 5, 3, 6), -2, 2);
    Tensor w = case_in(c, "w", SHAPE(6), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(6), 0.25f, 0.5f);
    case_out(c, "y", batchnorm(batchnorm(x, w, b, 1e-5f, true, NULL), w, b, 1e-5f, false, NULL));
}

static void large(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(3, 33, 41, 16), -2, 3);
    Tensor w = case_in(c, "w", SHAPE(16), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(16), -1, 1);
    case_out(c, "y", batchnorm(x, w, b, 1e-5f, true, NULL));
}

static void many_pixels(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(1, 91, 93, 8), -2, 3);
    Tensor w = case_in(c, "w", SHAPE(8), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(8), -1, 1);
    case_out(c, "y", batchnorm(x, w, b, 1e-5f, true, NULL));
}

static void odd_pixels(Case *c)              /* no vectors, an incomplete last round */
{
    Tensor none = tensor_none(case_graph(c));
    Tensor x = case_in(c, "x", SHAPE(1, 95, 89, 3), -2, 3);
    case_out(c, "y", batchnorm(x, none, none, 1e-5f, false, NULL));
}

#define BN(x, affine, eps)                                                                         \
    "F.batch_norm(" x ".movedim(-1, 1), None, None, " affine ", True, 0.1, " eps ").movedim(1, "   \
                                                                                 "-1)"

const OpCase cases_batchnorm[] = {
    { "plain", plain, "y = " BN("x", "w, b", "1e-5") },
    { "relu", with_relu, "y = F.relu(" BN("x", "w, b", "1e-5") ")", CASE_NO_DIFFERENCES },
    { "one channel", one_channel, "y = " BN("x", "None, None", "1e-5") },
    { "two rows", two_rows, "y = F.batch_norm(x, None, None, None, None, True, 0.1, 0.5)",
      CASE_NO_DIFFERENCES },
    { "frozen input", frozen_input, "y = F.relu(" BN("x", "w, b", "1e-5") ")",
      CASE_NO_DIFFERENCES },
    { "twice", twice, "h = F.relu(" BN("x", "w, b", "1e-5") "); y = " BN("h", "w, b", "1e-5"),
      CASE_NO_DIFFERENCES, 0, 2e-2 },
    { "large", large, "y = F.relu(" BN("x", "w, b", "1e-5") ")",
      CASE_LIVE_ONLY | CASE_NO_DIFFERENCES },
    { "many pixels", many_pixels, "y = F.relu(" BN("x", "w, b", "1e-5") ")",
      CASE_LIVE_ONLY | CASE_NO_DIFFERENCES },
    { "odd pixels", odd_pixels, "y = " BN("x", "None, None", "1e-5"),
      CASE_LIVE_ONLY | CASE_NO_DIFFERENCES },
    { 0 }
};

/* With momentum 1 the running values are those of the last batch, so runs can be compared. */
static void track_last(Case *c)
{
    Graph *g = case_graph(c);
    Tensor x = case_in(c, "x", SHAPE(2, 3, 5, 4), -2, 3), none = tensor_none(g), statistics;
    Tensor mean = state_add(g, "mean", F32, SHAPE(4), CLASS_CONSTANTS, true);
    Tensor var = state_add(g, "var", F32, SHAPE(4), CLASS_CONSTANTS, true);
    Tensor batches = state_add(g, "batches", I32, SHAPE(1), CLASS_CONSTANTS, true);
    case_out(c, "y", batchnorm(x, none, none, 1e-5f, false, &statistics));
    batchnorm_track(x, statistics, mean, var, batches, 1e-5f, 1);
    case_out(c, "running_mean", mean);
    case_out(c, "running_var", var);
}

/* Two updates with momentum 0.1 by hand: from mean 0, var 1 and from there. */
static const char *track_twice(Case *c)
{
    Pool   *pool = pool_new(NULL, "track");
    Graph  *g = graph_new(pool, F32);
    Tensor  x = state_add(g, "x", F32, SHAPE(5, 2), CLASS_INPUTS, false);
    Tensor  statistics = state_add(g, "statistics", F32, SHAPE(2, 2), CLASS_CONSTANTS, false);
    Tensor  mean = state_add(g, "mean", F32, SHAPE(2), CLASS_CONSTANTS, true);
    Tensor  var = state_add(g, "var", F32, SHAPE(2), CLASS_CONSTANTS, true);
    Tensor  batches = state_add(g, "batches", I32, SHAPE(1), CLASS_CONSTANTS, true);
    batchnorm_track(x, statistics, mean, var, batches, 0.25f, 0.1f);
    (void)c;

    float   of_batch[] = { 2, 1 / sqrtf(3 + 0.25f), -1, 1 / sqrtf(0 + 0.25f) };  /* var 3 and 0 */
    float   running_mean[] = { 0, 0 }, running_var[] = { 1, 1 };
    int32_t count = 0;
    Call call = { .node = &g->nodes[0],
                  .in = (void *[]){ of_batch, running_mean, running_var, &count },
                  .out = (void *[]){ running_mean, running_var, &count } };
    const char *wrong = graph_check(g) || batchnorm_track_cpu(&call) || batchnorm_track_cpu(&call)
                            ? "it failed"
                            : NULL;
    double  m = 0, v = 1, v0 = 1;
    for (int i = 0; i < 2; i++) {
        m = 0.9 * m + 0.1 * 2;
        v = 0.9 * v + 0.1 * 3 * 5 / 4;
        v0 = 0.9 * v0;
    }
    if (fabs((double)running_mean[0] - m) > 1e-6 || fabs((double)running_mean[1] + m / 2) > 1e-6)
        wrong = "the running mean is off";
    if (fabs((double)running_var[0] - v) > 1e-6 || fabs((double)running_var[1] - v0) > 1e-6)
        wrong = "the running variance is off";
    if (count != 2)
        wrong = "the batches were not counted";
    pool_free(pool);
    return wrong;
}

const OpCase cases_batchnorm_track[] = {
    { "last batch", track_last, "p = x.reshape(-1, 4); running_mean = p.mean(0).detach(); "
      "running_var = p.var(0).detach(); y = " BN("x", "None, None", "1e-5"), CASE_NO_DIFFERENCES },
    { "two batches", track_last, NULL, CASE_NO_TORCH | CASE_NO_DIFFERENCES, 0, 0, track_twice },
    { 0 }
};

static Tensor vector_f32(Case *c, const char *name, int64_t n, float low, float high)
{
    Tensor v = case_in_f32(c, name, SHAPE(n), low, high);
    param_of(case_graph(c), v.id)->frozen = true;
    return v;
}

static void eval_plain(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(2, 3, 5, 9), -2, 3);
    Tensor w = case_in(c, "w", SHAPE(9), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(9), -1, 1);
    case_out(c, "y",
             batchnorm_eval(x, w, b, vector_f32(c, "m", 9, -1, 1), vector_f32(c, "v", 9, 0.5f, 2),
                            1e-5f, false));
}

static void eval_relu(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(4, 6), -2, 3), none = tensor_none(case_graph(c));
    case_out(c, "y",
             batchnorm_eval(x, none, none, vector_f32(c, "m", 6, -1, 1),
                            vector_f32(c, "v", 6, 0.5f, 2), 1e-3f, true));
}

#define BN_EVAL(affine, eps)                                                                       \
    "F.batch_norm(x.movedim(-1, 1), m.detach(), v.detach(), " affine ", False, 0.1, " eps          \
    ").movedim(1, -1)"

const OpCase cases_batchnorm_eval[] = {
    { "plain", eval_plain, "y = " BN_EVAL("w, b", "1e-5") , CASE_NO_DIFFERENCES },
    { "relu", eval_relu, "y = F.relu(" BN_EVAL("None, None", "1e-3") ")", CASE_NO_DIFFERENCES },
    { 0 }
};
