/* cases_rfft.c -- rfft, irfft. */
#include "ops/cases.h"

#include "ops/fft/rfft.h"

static void forward(Case *c, int64_t b, int64_t l, int64_t ch)
{
    case_out(c, "y", rfft(case_in_f32(c, "x", SHAPE(b, l, ch), -2, 2)));
}

static void rfft_even(Case *c) { forward(c, 2, 12, 3); }
static void rfft_odd(Case *c) { forward(c, 3, 15, 1); }
static void rfft_one(Case *c) { forward(c, 2, 1, 5); }
static void rfft_two(Case *c) { forward(c, 1, 2, 2); }
static void rfft_twofold(Case *c) { forward(c, 1, 90, 17); }
static void rfft_long(Case *c) { forward(c, 1, 600, 1); } /* columns and rows, odd row count */
static void rfft_large(Case *c) { forward(c, 2, 6144, 37); }

#define RFFT "y = torch.view_as_real(torch.fft.rfft(x, dim=1))"

const OpCase cases_rfft[] = { { "even", rfft_even, RFFT, CASE_F32_ONLY },
                              { "odd", rfft_odd, RFFT, CASE_F32_ONLY },
                              { "one sample", rfft_one, RFFT, CASE_F32_ONLY },
                              { "two samples", rfft_two, RFFT, CASE_F32_ONLY },
                              { "more than one group", rfft_twofold, RFFT, CASE_F32_ONLY },
                              { "long", rfft_long, RFFT, CASE_F32_ONLY },
                              { "large", rfft_large, RFFT, CASE_F32_ONLY | CASE_LIVE_ONLY },
                              { 0 } };

static void back(Case *c, int64_t b, int64_t l, int64_t ch)
{
    case_out(c, "y", irfft(case_in_f32(c, "x", SHAPE(b, l / 2 + 1, ch, 2), -2, 2), l));
}

static void irfft_even(Case *c) { back(c, 2, 12, 3); }
static void irfft_odd(Case *c) { back(c, 2, 45, 2); }
static void irfft_one(Case *c) { back(c, 1, 1, 3); }
static void irfft_two(Case *c) { back(c, 1, 2, 1); }
static void irfft_wide(Case *c) { back(c, 1, 20, 33); }
static void irfft_large(Case *c) { back(c, 3, 3125, 18); }

static void there_and_back(Case *c)
{
    Tensor x = case_in_f32(c, "x", SHAPE(2, 18, 4), -1, 1);
    case_out(c, "y", irfft(rfft(x), 18));
}

#define IRFFT(n) "y = torch.fft.irfft(torch.view_as_complex(x), n=" #n ", dim=1)"

const OpCase cases_irfft[] = { { "even", irfft_even, IRFFT(12), CASE_F32_ONLY },
                               { "odd", irfft_odd, IRFFT(45), CASE_F32_ONLY },
                               { "one sample", irfft_one, IRFFT(1), CASE_F32_ONLY },
                               { "two samples", irfft_two, IRFFT(2), CASE_F32_ONLY },
                               { "three groups", irfft_wide, IRFFT(20), CASE_F32_ONLY },
                               { "there and back", there_and_back, "y = x * 1", CASE_F32_ONLY },
                               { "large", irfft_large, IRFFT(3125),
                                 CASE_F32_ONLY | CASE_LIVE_ONLY },
                               { 0 } };
