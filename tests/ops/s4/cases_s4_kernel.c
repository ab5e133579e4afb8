/* cases_s4_kernel.c -- the S4 convolution kernel, against its formulas with stored Cauchy
 * matrices. */
#include "ops/cases.h"

#include "ops/s4/s4_kernel.h"

/* Poles with imaginary parts up to `spread`, step sizes between softplus(slow) and softplus(fast).
 */
static void kernel(Case *c, int64_t h, int64_t n, int64_t length, float spread, float slow,
                   float fast)
{
    Tensor inv_dt = case_in_f32(c, "inv_dt", SHAPE(h, 1), slow, fast);
    Tensor cc = case_in_f32(c, "c", SHAPE(1, h, n, 2), -1, 1);
    Tensor b = case_in_f32(c, "b", SHAPE(1, 1, n, 2), -1, 1),
           ar = case_in_f32(c, "ar", SHAPE(1, n), -1, 0.5f);
    Tensor ai = case_in_f32(c, "ai", SHAPE(1, n), 0, spread),
           p = case_in_f32(c, "p", SHAPE(1, 1, n, 2), -1, 1);
    case_out(c, "y", s4_kernel(inv_dt, cc, b, ar, ai, p, length));
}

static void small(Case *c) { kernel(c, 3, 4, 16, 3, -2, 1); }
static void one_pole(Case *c) { kernel(c, 1, 1, 10, 2, -1, 1); }
static void odd(Case *c) { kernel(c, 2, 3, 15, 3, -2, 0); }
static void tiny(Case *c) { kernel(c, 2, 2, 2, 1, -1, 0); }
static void wide(Case *c) { kernel(c, 17, 5, 20, 5, -3, 0); }
static void slow(Case *c) { kernel(c, 4, 6, 64, 40, -7, -4); }
static void fast(Case *c) { kernel(c, 3, 4, 36, 200, 2, 6); }
static void large(Case *c) { kernel(c, 40, 32, 3000, 300, -7, -2); }
static void narrow(Case *c)
{
    kernel(c, 9, 32, 4096, 1300, -7, -2); /* one group: its frequencies are divided */
}

static void halves(Case *c) { kernel(c, 17, 33, 1536, 50, -7, -2); } /* half of it is 32 x 24 */

/* Every channel has its own B. */
static void b_per_channel(Case *c, int64_t h, int64_t n, int64_t length)
{
    Tensor inv_dt = case_in_f32(c, "inv_dt", SHAPE(h, 1), -2, 1);
    Tensor cc = case_in_f32(c, "c", SHAPE(1, h, n, 2), -1, 1),
           b = case_in_f32(c, "b", SHAPE(1, h, n, 2), -1, 1);
    Tensor ar = case_in_f32(c, "ar", SHAPE(1, n), -1, 0.5f),
           ai = case_in_f32(c, "ai", SHAPE(1, n), 0, 3);
    Tensor p = case_in_f32(c, "p", SHAPE(1, 1, n, 2), -1, 1);
    case_out(c, "y", s4_kernel(inv_dt, cc, b, ar, ai, p, length));
}

static void per_channel_small(Case *c) { b_per_channel(c, 3, 4, 16); }
static void per_channel_odd(Case *c) { b_per_channel(c, 18, 3, 15); }
static void per_channel_large(Case *c) { b_per_channel(c, 40, 32, 3000); }

static void some_fixed(Case *c) /* only C and P are trained */
{
    kernel(c, 2, 3, 12, 3, -2, 0);
    for (int32_t i = 0; i < case_graph(c)->n_params; i++)
        case_graph(c)->params[i].frozen = i != 1 && i != 5;
}

#define KERNEL(L, fixed) KERNEL_OF(L, fixed, "b[0, 0]")
#define KERNEL_OF(L, fixed, b)                                                                     \
    "L = " #L "\n"                                                                                 \
    "if " #fixed ": inv_dt, b, ar, ai = (t.detach() for t in (inv_dt, b, ar, ai))\n"               \
    "C, B, P = (torch.view_as_complex(t) for t in (c[0], " b ", p[0, 0]))\n"                       \
    "dt, A = F.softplus(inv_dt), torch.complex(-ar.exp(), -ai)[0]\n"                               \
    "w = torch.polar(torch.ones((L + 1) // 2).double(), -2 * math.pi * torch.arange((L + 1) // "   \
    "2).double() / L)\n"                                                                           \
    "z, dA = 2 * (1 - w) / (1 + w), (dt * A)[..., None]\n"                                         \
    "r = lambda v: ((dt * v)[..., None] / (z - dA) + (dt * v).conj()[..., None] / (z - "           \
    "dA.conj())).sum(1)\n"                                                                         \
    "hat = 2 / (1 + w) * (r(B * C) - r(B * P.conj()) * r(P * C) / (1 + r(P * P.conj())))\n"        \
    "top = (dt * (B * C)).real.sum(1, keepdim=True)\n"                                             \
    "y = torch.fft.irfft(torch.cat([hat, top.to(hat.dtype)], 1) if L % 2 == 0 else hat, n=L).T"

const OpCase cases_s4_kernel[] = {
    { "small", small, KERNEL(16, False), CASE_F32_ONLY },
    { "one pole", one_pole, KERNEL(10, False), CASE_F32_ONLY, 1e-4 },
    { "odd length", odd, KERNEL(15, False), CASE_F32_ONLY },
    { "two samples", tiny, KERNEL(2, False), CASE_F32_ONLY },
    { "two groups of channels", wide, KERNEL(20, False), CASE_F32_ONLY },
    { "slow steps", slow, KERNEL(64, False), CASE_F32_ONLY | CASE_NO_DIFFERENCES },
    { "steps beyond the poles", fast, KERNEL(36, False), CASE_F32_ONLY | CASE_NO_DIFFERENCES },
    { "C and P alone", some_fixed, KERNEL(12, True), CASE_F32_ONLY | CASE_NO_DIFFERENCES },
    { "each channel's own B", per_channel_small, KERNEL_OF(16, False, "b[0]"), CASE_F32_ONLY },
    { "each channel's own B, odd", per_channel_odd, KERNEL_OF(15, False, "b[0]"), CASE_F32_ONLY },
    { "each channel's own B, large", per_channel_large, KERNEL_OF(3000, False, "b[0]"),
      CASE_F32_ONLY | CASE_LIVE_ONLY | CASE_NO_DIFFERENCES },
    { "large", large, KERNEL(3000, False), CASE_F32_ONLY | CASE_LIVE_ONLY | CASE_NO_DIFFERENCES },
    { "one group, narrow resonances", narrow, KERNEL(4096, False),
      CASE_F32_ONLY | CASE_LIVE_ONLY | CASE_NO_DIFFERENCES },
    { "33 poles, half the length 32 x 24", halves, KERNEL(1536, False),
      CASE_F32_ONLY | CASE_LIVE_ONLY | CASE_NO_DIFFERENCES },
    { 0 }
};
