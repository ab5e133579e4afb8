/* cases_s4_carry.c -- S4 states between chunks, against dense matrices: the response to a state,
 * and the state after a chunk. */
#include "ops/cases.h"

#include "ops/elementwise/basic.h"
#include "ops/s4/s4_carry.h"
#include "ops/elementwise/unary.h"

typedef struct Layer {
    Tensor inv_dt, ar, ai, p;
} Layer;

static Layer layer(Case *c, int64_t h, int64_t n)
{
    return (Layer){ case_in_f32(c, "inv_dt", SHAPE(h, 1), -2, 1),
                    case_in_f32(c, "ar", SHAPE(1, n), -1, 0.5f),
                    case_in_f32(c, "ai", SHAPE(1, n), 0, 3),
                    case_in_f32(c, "p", SHAPE(1, 1, n, 2), -1, 1) };
}

/* The last of several samples begins a clip. */
static Tensor keep_of(Case *c, int64_t batch)
{
    float keep[8];
    for (int64_t i = 0; i < batch; i++)
        keep[i] = i == 0 || i + 1 < batch;
    return constant_add(case_graph(c), "keep", F32, SHAPE(batch, 1), keep, CLASS_CONSTANTS);
}

static void begin(Case *c, int64_t batch, int64_t h, int64_t n)
{
    Tensor x = case_const(c, "x", SHAPE(batch, h, n, 2), -1, 1);
    Layer  l = layer(c, h, n);
    case_out(c, "y", s4_begin(x, keep_of(c, batch), l.inv_dt, l.ar, l.ai, l.p));
}

static void begin_one(Case *c) { begin(c, 1, 1, 1); }
static void begin_three(Case *c) { begin(c, 3, 5, 4); }
static void begin_some(Case *c) /* only A_imag is trained */
{
    begin(c, 2, 17, 3);
    for (int32_t i = 0; i < case_graph(c)->n_params; i++)
        case_graph(c)->params[i].frozen = i != 2;
}

#define KEEP "keep = torch.ones(x.shape[0], 1, 1).double()\nif len(keep) > 1: keep[-1] = 0\n"
#define PARTS                                                                                      \
    "dt, A = F.softplus(inv_dt), torch.complex(-ar.exp(), -ai)[0]\n"                               \
    "X, P = torch.view_as_complex(x) * keep, torch.view_as_complex(p)[0, 0]\n"
#define BEGIN                                                                                      \
    KEEP PARTS                                                                                     \
        "r = 2 * (P.conj() * X).real.sum(-1, keepdim=True)\n"                                      \
        "y = torch.view_as_real(X / dt + (A * X - P * r) / 2).reshape(1, -1, x.shape[2], 2)"

const OpCase cases_s4_begin[] = {
    { "one of everything", begin_one, BEGIN, CASE_F32_ONLY },
    { "three samples, the last fresh", begin_three, BEGIN, CASE_F32_ONLY },
    { "A_imag alone", begin_some, "inv_dt, ar, p = (t.detach() for t in (inv_dt, ar, p))\n" BEGIN,
      CASE_F32_ONLY | CASE_NO_DIFFERENCES },
    { 0 }
};

static void end(Case *c, int64_t batch, int64_t length, int64_t h, int64_t n)
{
    Tensor x = case_const(c, "x", SHAPE(batch, h, n, 2), -1, 1),
           u = case_in(c, "u", SHAPE(batch, length, h), -1, 1);
    Tensor b = case_in_f32(c, "b", SHAPE(1, 1, n, 2), -1, 1);
    Tensor state = state_add(case_graph(c), "state", F32, SHAPE(batch, h, n, 2), CLASS_CONSTANTS,
                             true);
    Layer  l = layer(c, h, n);
    assign(state, cast(x, F32));
    s4_end(state, keep_of(c, batch), u, l.inv_dt, b, l.ar, l.ai, l.p);
    case_out(c, "y", state);
    case_out(c, "twice", affine(u, 2, 0)); /* something with a gradient */
}

static void end_one(Case *c) { end(c, 1, 1, 1, 1); }
static void end_three(Case *c) { end(c, 3, 20, 5, 4); }
static void end_wide(Case *c) { end(c, 2, 7, 35, 3); }

#define END                                                                                        \
    KEEP PARTS "both = lambda v: torch.cat([v, v.conj()], -1)\n"                                   \
               "q = both(P)\n"                                                                     \
               "half = dt[:, :, None] / 2 * (torch.diag(both(A)) - q[:, None] * q.conj()[None])\n" \
               "inverse = torch.linalg.inv(torch.eye(len(q)).to(half) - half)\n"                   \
               "Abar, Bbar = inverse @ (torch.eye(len(q)).to(half) + half), (inverse @ "           \
               "both(torch.view_as_complex(b)[0, 0])[:, None])[..., 0] * dt\n"                     \
               "X = both(X)\n"                                                                     \
               "for t in range(u.shape[1]): X = torch.einsum('hij,bhj->bhi', Abar, X) + Bbar * "   \
               "u[:, t, :, None]\n"                                                                \
               "y = torch.view_as_real(X[..., : x.shape[2]].contiguous()).detach()\n"              \
               "twice = 2 * u"

const OpCase cases_s4_end[] = {
    { "one step", end_one, END, CASE_NO_DIFFERENCES },
    { "three samples, the last fresh", end_three, END, CASE_NO_DIFFERENCES },
    { "more than sixteen channels", end_wide, END, CASE_NO_DIFFERENCES },
    { 0 }
};
