/* cases_inverse.c -- inverses and determinants of square matrices. */
#include "ops/cases.h"

#include "ops/elementwise/basic.h"
#include "ops/matmul/inverse.h"

#include <string.h>

/* Far from singular, and rows must be exchanged: of every other matrix the large elements lie on the
 * diagonal from the lower left. */
static Tensor matrices(Case *c, int64_t batch, int64_t n)
{
    static float large[9 * 40 * 40];
    memset(large, 0, sizeof large);
    for (int64_t b = 0; b < batch; b++)
        for (int64_t i = 0; i < n; i++)
            large[(b * n + (b % 2 ? n - 1 - i : i)) * n + i] = i % 3 ? 4 : -4;
    Tensor x = case_in_f32(c, "x", SHAPE(batch, n, n), -1, 1);
    return add(x, case_feed(c, "d", F32, SHAPE(batch, n, n), large));
}

static void all_results(Case *c, int64_t batch, int64_t n)
{
    Tensor log_abs, sign;
    case_out(c, "y", inverse(matrices(c, batch, n), &log_abs, &sign));
    case_out(c, "log_abs", log_abs);
    case_out(c, "sign", sign);
}

static void small(Case *c) { all_results(c, 5, 3); }

static void one_number(Case *c) { all_results(c, 4, 1); }

static void wide(Case *c) { all_results(c, 2, 33); }

static void many(Case *c) { all_results(c, 9, 40); }

static void determinant(Case *c)
{
    Tensor log_abs;
    inverse(matrices(c, 3, 4), &log_abs, NULL);
    case_out(c, "log_abs", log_abs);
}

#define LARGE                                                                                      \
    "e = torch.diag(torch.where(torch.arange(x.shape[-1]) % 3 > 0, 4.0, -4.0)).double(); "         \
    "z = x + torch.where((torch.arange(len(x)) % 2 > 0)[:, None, None], e.flip(0), e); "
#define ALL LARGE "y = torch.linalg.inv(z); sign, log_abs = torch.linalg.slogdet(z)"

const OpCase cases_inverse[] = { { "small", small, ALL, CASE_F32_ONLY },
                                 { "one number", one_number, ALL, CASE_F32_ONLY },
                                 { "wide", wide, ALL, CASE_F32_ONLY },
                                 { "many", many, ALL, CASE_F32_ONLY | CASE_LIVE_ONLY },
                                 { "determinant", determinant,
                                   LARGE "log_abs = torch.linalg.slogdet(z)[1]", CASE_F32_ONLY },
                                 { 0 } };
