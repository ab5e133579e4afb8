/* cases_dml.c -- discretised mixture of logistics, against the formula in fp64. */
#include "ops/cases.h"

#include "ops/arrange/arrange.h"
#include "ops/loss/dml.h"

/* x (N,3K), t (N), Q levels -> the sum over counted rows */
#define DML(Q, K)                                                                                  \
    "\nQ, K = " #Q ", " #K "\n"                                                                    \
    "x2, t2 = x.reshape(-1, 3 * K), t.reshape(-1)\n"                                               \
    "keep = t2 != -100\n"                                                                          \
    "x2, t2 = x2[keep], t2[keep]\n"                                                                \
    "h = 1 / Q; v = (2 * t2.double() / Q - 1)[:, None]\n"                                          \
    "lg, mu, ls = x2[:, :K], x2[:, K:2*K], x2[:, 2*K:].clamp(min=-7)\n"                            \
    "i = torch.exp(-ls); c = v - mu; plus = i * (c + h); minus = i * (c - h); mid = i * c\n"       \
    "p = torch.sigmoid(plus) - torch.sigmoid(minus)\n"                                             \
    "lp = torch.where(p > 1e-5, p.clamp(min=1e-12).log(), mid - ls - 2 * F.softplus(mid) + "       \
    "math.log(2 * h))\n"                                                                           \
    "lp = torch.where(t2[:, None] == Q - 1, -F.softplus(minus), lp)\n"                             \
    "lp = torch.where(t2[:, None] == 0, plus - F.softplus(plus), lp)\n"                            \
    "nll = -(lp + lg.log_softmax(-1)).logsumexp(-1).sum().reshape(1)\n"

/* logits, means inside the range, log scales from below the floor to wide */
static Tensor mixture(Case *c, int64_t rows, int64_t k, float low, float high)
{
    Tensor parts[] = { case_in(c, "lg0", SHAPE(rows, k), -2, 2),
                       case_in(c, "mu0", SHAPE(rows, k), -1, 1),
                       case_in(c, "ls0", SHAPE(rows, k), low, high) };
    return concat(parts, 3, -1);
}
#define MIXTURE "x = torch.cat([lg0, mu0, ls0], -1)\n"

static void dml_bytes(Case *c)
{
    Tensor x = mixture(c, 21, 6, -5, 1);
    case_out(c, "y",
             dml_loss(x, case_ints(c, "t", SHAPE(21), 0, 256), tensor_none(x.graph), 256, 0.5f));
}

static void dml_fine(Case *c) /* 16 bits: bins far narrower than the scales */
{
    Tensor x = mixture(c, 17, 2, -4, 1);
    case_out(c, "y",
             dml_loss(x, case_ints(c, "t", SHAPE(17), 0, 65536), tensor_none(x.graph), 65536, 1));
}

static void dml_floor(Case *c) /* log scales on both sides of -7; one component */
{
    Tensor x = mixture(c, 9, 1, -9, -6);
    case_out(c, "y",
             dml_loss(x, case_ints(c, "t", SHAPE(9), 0, 256), tensor_none(x.graph), 256, 1));
}

static void dml_edges(Case *c) /* first and last bins, ignored rows, a given denominator */
{
    static const int32_t targets[8] = { 0, 7, -100, 3, 7, 0, -100, 4 };
    static const float   ten = 10;
    Tensor               x = mixture(c, 8, 3, -3, 1);
    Tensor               t = constant_add(x.graph, "targets", I32, SHAPE(8), targets, CLASS_INPUTS);
    Tensor               d = constant_add(x.graph, "ten", F32, SHAPE(1), &ten, CLASS_INPUTS);
    case_out(c, "y", dml_loss(x, t, tensor_none(x.graph), 8, 1));
    case_out(c, "z", dml_loss(x, t, d, 8, 1));
}

static void dml_long(Case *c)
{
    Tensor x = mixture(c, 3001, 6, -5, 1);
    case_out(c, "y",
             dml_loss(x, case_ints(c, "t", SHAPE(3001), 0, 256), tensor_none(x.graph), 256, 1));
}

const OpCase cases_dml_loss[] = {
    { "eight bits", dml_bytes, MIXTURE DML(256, 6) "y = 0.5 * nll / 21", CASE_NO_DIFFERENCES },
    { "sixteen bits", dml_fine, MIXTURE DML(65536, 2) "y = nll / 17", CASE_NO_DIFFERENCES },
    { "scale floor", dml_floor, MIXTURE DML(256, 1) "y = nll / 9", CASE_NO_DIFFERENCES },
    { "edges", dml_edges,
      MIXTURE
      "t = torch.tensor([0, 7, -100, 3, 7, 0, -100, 4])\n" DML(8, 3) "y = nll / 6; z = nll / 10" },
    { "long", dml_long, MIXTURE DML(256, 6) "y = nll / 3001",
      CASE_LIVE_ONLY | CASE_NO_DIFFERENCES },
    { 0 }
};
