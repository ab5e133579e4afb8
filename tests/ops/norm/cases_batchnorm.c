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

static void two_rows(Case *c) /* the smallest batch that has a variance */
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

static void twice(Case *c) /* the first's gradient in place of the second's */
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

static void odd_pixels(Case *c) /* no vectors, an incomplete last round */
{
    Tensor none = tensor_none(case_graph(c));
    Tensor x = case_in(c, "x", SHAPE(1, 95, 89, 3), -2, 3);
    case_out(c, "y", batchnorm(x, none, none, 1e-5f, false, NULL));
}

static void line(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(4, 9, 6), -2, 3);
    Tensor w = case_in(c, "w", SHAPE(6), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(6), -1, 1);
    case_out(c, "y", batchnorm(x, w, b, 1e-5f, false, NULL));
}

static void volume(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(2, 3, 4, 5, 7), -2, 3);
    Tensor w = case_in(c, "w", SHAPE(7), 0.5f, 1.5f), b = case_in(c, "b", SHAPE(7), -1, 1);
    case_out(c, "y", batchnorm(x, w, b, 1e-3f, false, NULL));
}

static void weight_alone(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(3, 4, 5, 8), -2, 3);
    case_out(c, "y",
             batchnorm(x, case_in(c, "w", SHAPE(8), 0.5f, 1.5f), tensor_none(case_graph(c)), 1e-5f,
                       true, NULL));
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
    { "line", line, "y = " BN("x", "w, b", "1e-5") },
    { "volume", volume, "y = " BN("x", "w, b", "1e-3") },
    { "weight alone", weight_alone, "y = F.relu(" BN("x", "w, None", "1e-5") ")",
      CASE_NO_DIFFERENCES },
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

/* After one batch its own statistics, after two their mean: the third batch counts a third. */
static const char *track_cumulative(Case *c)
{
    Pool  *pool = pool_new(NULL, "track");
    Graph *g = graph_new(pool, F32);
    Tensor x = state_add(g, "x", F32, SHAPE(5, 1), CLASS_INPUTS, false);
    Tensor statistics = state_add(g, "statistics", F32, SHAPE(1, 2), CLASS_CONSTANTS, false);
    Tensor mean = state_add(g, "mean", F32, SHAPE(1), CLASS_CONSTANTS, true);
    Tensor var = state_add(g, "var", F32, SHAPE(1), CLASS_CONSTANTS, true);
    Tensor batches = state_add(g, "batches", I32, SHAPE(1), CLASS_CONSTANTS, true);
    batchnorm_track(x, statistics, mean, var, batches, 0.25f, BATCHNORM_CUMULATIVE);
    (void)c;

    float       means[] = { 2, -1, 5 }, vars[] = { 3, 1, 2 }, m = 7, v = 9; /* of the start: none */
    int32_t     count = 0;
    const char *wrong = graph_check(g) ? "it failed" : NULL;
    for (int i = 0; i < 3 && !wrong; i++) {
        float of_batch[] = { means[i], 1 / sqrtf(vars[i] + 0.25f) };
        Call  call = { .node = &g->nodes[0],
                       .in = (void *[]){ of_batch, &m, &v, &count },
                       .out = (void *[]){ &m, &v, &count } };
        if (batchnorm_track_cpu(&call))
            wrong = "it failed";
    }
    if (fabs((double)m - 2) > 1e-6 || fabs((double)v - 2 * 5.0 / 4) > 1e-5 || count != 3)
        wrong = "the cumulative average is off";
    pool_free(pool);
    return wrong;
}

/* Two updates with momentum 0.1 by hand: from mean 0, var 1 and from there. */
static const char *track_twice(Case *c)
{
    Pool  *pool = pool_new(NULL, "track");
    Graph *g = graph_new(pool, F32);
    Tensor x = state_add(g, "x", F32, SHAPE(5, 2), CLASS_INPUTS, false);
    Tensor statistics = state_add(g, "statistics", F32, SHAPE(2, 2), CLASS_CONSTANTS, false);
    Tensor mean = state_add(g, "mean", F32, SHAPE(2), CLASS_CONSTANTS, true);
    Tensor var = state_add(g, "var", F32, SHAPE(2), CLASS_CONSTANTS, true);
    Tensor batches = state_add(g, "batches", I32, SHAPE(1), CLASS_CONSTANTS, true);
    batchnorm_track(x, statistics, mean, var, batches, 0.25f, 0.1f);
    (void)c;

    float   of_batch[] = { 2, 1 / sqrtf(3 + 0.25f), -1, 1 / sqrtf(0 + 0.25f) }; /* var 3 and 0 */
    float   running_mean[] = { 0, 0 }, running_var[] = { 1, 1 };
    int32_t count = 0;
    Call    call = { .node = &g->nodes[0],
                     .in = (void *[]){ of_batch, running_mean, running_var, &count },
                     .out = (void *[]){ running_mean, running_var, &count } };
    const char *wrong = graph_check(g) || batchnorm_track_cpu(&call) || batchnorm_track_cpu(&call)
                            ? "it failed"
                            : NULL;
    double      m = 0, v = 1, v0 = 1;
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
    { "last batch", track_last,
      "p = x.reshape(-1, 4); running_mean = p.mean(0).detach(); "
      "running_var = p.var(0).detach(); y = " BN("x", "None, None", "1e-5"),
      CASE_NO_DIFFERENCES },
    { "cumulative", track_last, NULL, CASE_NO_TORCH | CASE_NO_DIFFERENCES, 0, 0, track_cumulative },
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

static void eval_volume(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(2, 3, 2, 4, 5), -2, 3), none = tensor_none(case_graph(c));
    Tensor w = case_in(c, "w", SHAPE(5), 0.5f, 1.5f);
    case_out(c, "y",
             batchnorm_eval(x, w, none, vector_f32(c, "m", 5, -1, 1),
                            vector_f32(c, "v", 5, 0.5f, 2), 1e-5f, false));
}

#define BN_EVAL(affine, eps)                                                                       \
    "F.batch_norm(x.movedim(-1, 1), m.detach(), v.detach(), " affine ", False, 0.1, " eps          \
    ").movedim(1, -1)"

const OpCase cases_batchnorm_eval[] = {
    { "volume", eval_volume, "y = " BN_EVAL("w, None", "1e-5"), CASE_NO_DIFFERENCES },
    { "plain", eval_plain, "y = " BN_EVAL("w, b", "1e-5"), CASE_NO_DIFFERENCES },
    { "relu", eval_relu, "y = F.relu(" BN_EVAL("None, None", "1e-3") ")", CASE_NO_DIFFERENCES },
    { 0 }
};
