/* cases_rmsnorm.c -- root mean square norm: widths around packs and warps, no weight, long rows. */
#include "ops/cases.h"

#include "ops/elementwise/basic.h"
#include "ops/norm/rmsnorm.h"

static void weighted(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(2, 7, 37), -2, 3);
    case_out(c, "y", rmsnorm(x, case_in(c, "w", SHAPE(37), 0.5f, 1.5f), 1e-5f));
}

static void bare(Case *c)
{
    case_out(c, "y",
             rmsnorm(case_in(c, "x", SHAPE(5, 96), -2, 3), tensor_none(case_graph(c)), 1e-6f));
}

static void one_wide(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(6, 1), 1, 3);
    case_out(c, "y", rmsnorm(x, case_in(c, "w", SHAPE(1), 0.5f, 1.5f), 1e-2f));
}

static void one_row(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(33), -2, 3);
    case_out(c, "y", rmsnorm(x, case_in(c, "w", SHAPE(33), 0.5f, 1.5f), 1e-5f));
}

static void frozen_weight(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(4, 24), -2, 3);
    case_out(c, "y", rmsnorm(x, case_const(c, "w", SHAPE(24), 0.5f, 1.5f), 1e-5f));
}

static void trained_weight_alone(Case *c)
{
    Tensor x = case_const(c, "x", SHAPE(70, 40), -2, 3);
    case_out(c, "y", rmsnorm(x, case_in(c, "w", SHAPE(40), 0.5f, 1.5f), 1e-5f));
}

static void residual_around(Case *c) /* dx is added to what the way around gave */
{
    Tensor x = case_in(c, "x", SHAPE(3, 8, 64), -2, 3);
    Tensor y = rmsnorm(x, case_in(c, "w", SHAPE(64), 0.5f, 1.5f), 1e-5f);
    case_out(c, "y", add(x, y));
}

static void fp32_weight(Case *c) /* beside activations of two bytes */
{
    Tensor x = case_in(c, "x", SHAPE(9, 48), -2, 3);
    case_out(c, "y", rmsnorm(x, case_in_f32(c, "w", SHAPE(48), 0.5f, 1.5f), 1e-5f));
}

static void many_rows(Case *c) /* several blocks of rows, and float sums flushed */
{
    Tensor x = case_in(c, "x", SHAPE(300, 24), -2, 3);
    case_out(c, "y", rmsnorm(x, case_in(c, "w", SHAPE(24), 0.5f, 1.5f), 1e-5f));
}

static void long_rows(Case *c) /* a block of threads per row */
{
    Tensor x = case_in(c, "x", SHAPE(12, 4104), -2, 3);
    case_out(c, "y", rmsnorm(x, case_in(c, "w", SHAPE(4104), 0.5f, 1.5f), 1e-5f));
}

static void transformer(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(4, 512, 768), -2, 3);
    case_out(c, "y", rmsnorm(x, case_in(c, "w", SHAPE(768), 0.5f, 1.5f), 1e-6f));
}

const OpCase cases_rmsnorm[] = {
    { "weighted", weighted, "y = F.rms_norm(x, (37,), w, 1e-5)" },
    { "no weight", bare, "y = F.rms_norm(x, (96,), None, 1e-6)" },
    { "one wide", one_wide, "y = F.rms_norm(x, (1,), w, 1e-2)" },
    { "one row", one_row, "y = F.rms_norm(x, (33,), w, 1e-5)" },
    { "frozen weight", frozen_weight, "y = F.rms_norm(x, (24,), w, 1e-5)" },
    { "only the weight trained", trained_weight_alone, "y = F.rms_norm(x, (40,), w, 1e-5)" },
    { "residual around it", residual_around, "y = x + F.rms_norm(x, (64,), w, 1e-5)" },
    { "fp32 weight", fp32_weight, "y = F.rms_norm(x, (48,), w, 1e-5)" },
    { "many rows", many_rows, "y = F.rms_norm(x, (24,), w, 1e-5)" },
    { "long rows", long_rows, "y = F.rms_norm(x, (4104,), w, 1e-5)", CASE_LIVE_ONLY },
    { "a transformer's", transformer, "y = F.rms_norm(x, (768,), w, 1e-6)", CASE_LIVE_ONLY },
    { 0 }
};
