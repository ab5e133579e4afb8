/* cases_loss.c -- squared, absolute, masked and categorical losses. */
#include "ops/cases.h"

#include "ops/loss/loss.h"
#include "ops/elementwise/unary.h"

static void mse_odd(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(3, 5, 7), -2, 2),
           t = case_const(c, "t", SHAPE(3, 5, 7), -2, 2);
    case_out(c, "y", mse_loss(x, t, 1));
    case_out(c, "z", mse_loss(affine(x, 2, 0), t, 0.25f));
}

static void mse_large(Case *c)
{
    case_out(c, "y",
             mse_loss(case_in(c, "x", SHAPE(2, 33, 801), -2, 2),
                      case_const(c, "t", SHAPE(2, 33, 801), -2, 2), 1));
}

const OpCase cases_mse_loss[] = {
    { "odd", mse_odd,
      "y = F.mse_loss(x, t).reshape(1); z = 0.25 * F.mse_loss(2 * x, t).reshape(1)" },
    { "large", mse_large, "y = F.mse_loss(x, t).reshape(1)", CASE_LIVE_ONLY | CASE_NO_DIFFERENCES },
    { 0 }
};

static void l1_odd(Case *c)
{
    case_out(c, "y",
             l1_loss(case_in(c, "x", SHAPE(3, 5, 7), -2, 2),
                     case_const(c, "t", SHAPE(3, 5, 7), -2, 2), 0.5f));
}

static void l1_equal(Case *c) /* no slope where nothing differs */
{
    Tensor x = case_in(c, "x", SHAPE(9), -2, 2);
    case_out(c, "y", l1_loss(x, x, 1));
}

const OpCase cases_l1_loss[] = {
    { "odd", l1_odd, "y = 0.5 * F.l1_loss(x, t).reshape(1)", CASE_NO_DIFFERENCES },
    { "equal", l1_equal, "y = F.l1_loss(x, x.detach()).reshape(1)", CASE_NO_DIFFERENCES },
    { 0 }
};

static void masked_own(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(2, 5, 7, 3), -2, 2),
           t = case_const(c, "t", SHAPE(2, 5, 7, 3), -2, 2);
    Tensor m = case_bytes(c, "m", SHAPE(2, 5, 7, 1), 0, 2),
           flat = case_bytes(c, "flat", SHAPE(2, 5, 7), 0, 2);
    case_out(c, "y", masked_l1_loss(x, t, m, tensor_none(x.graph), 1));
    case_out(c, "z", masked_l1_loss(x, t, flat, tensor_none(x.graph), 0.5f));
}

static void masked_given(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(2, 5, 1), -2, 2),
           t = case_const(c, "t", SHAPE(2, 5, 1), -2, 2);
    static const float seven = 7;
    Tensor             d = constant_add(x.graph, "seven", F32, SHAPE(1), &seven, CLASS_INPUTS);
    case_out(c, "y", masked_l1_loss(x, t, case_bytes(c, "m", SHAPE(2, 5), 0, 2), d, 1));
}

static void masked_nothing(Case *c) /* an empty mask divides by 1, not by 0 */
{
    Tensor x = case_in(c, "x", SHAPE(4, 3), -2, 2), t = case_const(c, "t", SHAPE(4, 3), -2, 2);
    case_out(c, "y",
             masked_l1_loss(x, t, case_bytes(c, "m", SHAPE(4), 0, 1), tensor_none(x.graph), 1));
}

static void masked_large(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(2, 91, 211, 1), -2, 2),
           t = case_const(c, "t", SHAPE(2, 91, 211, 1), -2, 2);
    case_out(c, "y",
             masked_l1_loss(x, t, case_bytes(c, "m", SHAPE(2, 91, 211, 1), 0, 2),
                            tensor_none(x.graph), 1));
}

const OpCase cases_masked_l1_loss[] = {
    { "own denominator", masked_own,
      "d = (x - t).abs(); y = ((m * d).sum() / m.sum()).reshape(1); "
      "z = (0.5 * (flat[..., None] * d).sum() / flat.sum()).reshape(1)",
      CASE_NO_DIFFERENCES },
    { "given denominator", masked_given,
      "y = ((m[..., None] * (x - t).abs()).sum() / 7).reshape(1)", CASE_NO_DIFFERENCES },
    { "nothing counts", masked_nothing, "y = (x * 0).sum().reshape(1)" },
    { "large", masked_large, "y = ((m * (x - t).abs()).sum() / m.sum()).reshape(1)",
      CASE_LIVE_ONLY | CASE_NO_DIFFERENCES },
    { 0 }
};

static void entropy_rows(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(3, 5, 7), -4, 4);
    case_out(c, "y",
             cross_entropy(x, case_ints(c, "t", SHAPE(3, 5), 0, 7), tensor_none(x.graph), 0.5f));
}

static void entropy_ignored(Case *c)
{
    static const int32_t targets[6] = { 2, -100, 0, 3, -100, 1 };
    static const float   eight = 8;
    Tensor               x = case_in(c, "x", SHAPE(6, 4), -4, 4);
    Tensor               t = constant_add(x.graph, "targets", I32, SHAPE(6), targets, CLASS_INPUTS);
    Tensor               d = constant_add(x.graph, "eight", F32, SHAPE(1), &eight, CLASS_INPUTS);
    case_out(c, "y", cross_entropy(x, t, tensor_none(x.graph), 1));
    case_out(c, "z", cross_entropy(x, t, d, 1));
}

static void entropy_large(Case *c) /* rows wider than a block */
{
    Tensor x = case_in(c, "x", SHAPE(90, 1300), -4, 4);
    case_out(c, "y",
             cross_entropy(x, case_ints(c, "t", SHAPE(90), 0, 1300), tensor_none(x.graph), 1));
}

#define IGNORED "t = torch.tensor([2, -100, 0, 3, -100, 1]); "
const OpCase cases_cross_entropy[] = {
    { "rows", entropy_rows,
      "y = 0.5 * F.cross_entropy(x.reshape(15, 7), t.reshape(15)).reshape(1)" },
    { "ignored", entropy_ignored,
      IGNORED "y = F.cross_entropy(x, t).reshape(1); "
              "z = F.cross_entropy(x, t, reduction='sum').reshape(1) / 8" },
    { "large", entropy_large, "y = F.cross_entropy(x, t).reshape(1)",
      CASE_LIVE_ONLY | CASE_NO_DIFFERENCES },
    { 0 }
};
