/* cases_fft_conv.c -- causal convolution with long kernels. */
#include "ops/cases.h"

#include "ops/elementwise/basic.h"
#include "ops/fft/fft_conv.h"

static void conv(Case *c, int64_t b, int64_t l, int64_t h)
{
    Tensor u = case_in(c, "u", SHAPE(b, l, h), -1, 1), k = case_in_f32(c, "k", SHAPE(l, h), -1, 1);
    case_out(c, "y", fft_conv(u, k, case_in(c, "d", SHAPE(1, h), -2, 2)));
}

static void plain(Case *c) { conv(c, 2, 12, 5); }
static void bad_length(Case *c) { conv(c, 3, 7, 3); } /* padded to 8 */
static void one_sample(Case *c) { conv(c, 4, 1, 2); }
static void two_groups(Case *c) { conv(c, 1, 20, 19); }
static void rows(Case *c) { conv(c, 1, 331, 1); }     /* padded to 360 = 20 x 18 */
static void odd_rows(Case *c) { conv(c, 2, 270, 1); } /* 18 x 15 */
static void large(Case *c) { conv(c, 2, 4096, 40); }
/* On a GPU the transforms of these lengths have both factors known at compile time: 32 x 24, 48 x
 * 32, 96 x 64, 192 x 128. */
static void two_factors(Case *c) { conv(c, 2, 768, 9); }
static void two_short(Case *c) { conv(c, 3, 1536, 17); }
static void two_middle(Case *c) { conv(c, 1, 6144, 20); }
static void two_long(Case *c) { conv(c, 1, 24576, 16); }
static void large_batch(Case *c)
{
    conv(c, 5, 3001, 9); /* one group of channels: the batch is divided */
}

static void without_d(Case *c)
{
    Tensor u = case_in(c, "u", SHAPE(2, 9, 4), -1, 1), k = case_in_f32(c, "k", SHAPE(9, 4), -1, 1);
    case_out(c, "y", fft_conv(u, k, tensor_none(case_graph(c))));
}

static void only_kernel(Case *c) /* gradients that are not wanted are not computed */
{
    Tensor u = case_const(c, "u", SHAPE(3, 10, 3), -1, 1),
           k = case_in_f32(c, "k", SHAPE(10, 3), -1, 1);
    case_out(c, "y", fft_conv(u, k, case_const(c, "d", SHAPE(3), -1, 1)));
}

static void only_signal(Case *c)
{
    Tensor u = case_in(c, "u", SHAPE(3, 10, 3), -1, 1);
    Tensor k = cast(case_const(c, "k", SHAPE(10, 3), -1, 1), F32);
    case_out(c, "y", fft_conv(u, k, case_const(c, "d", SHAPE(3), -1, 1)));
}

static void only_d(Case *c)
{
    Tensor u = case_const(c, "u", SHAPE(2, 70, 3), -1, 1),
           k = cast(case_const(c, "k", SHAPE(70, 3), -1, 1), F32);
    case_out(c, "y", fft_conv(u, k, case_in(c, "d", SHAPE(3), -1, 1)));
}

#define FIRST                                                                                      \
    "n = 2 * u.shape[1]; y = torch.fft.irfft(torch.fft.rfft(u, n=n, dim=1) * torch.fft.rfft(k, "   \
    "n=n, dim=0), "                                                                                \
    "n=n, dim=1)[:, :u.shape[1]]"
#define CONV FIRST " + d * u"

const OpCase cases_fft_conv[] = { { "plain", plain,
                                    "y = torch.stack([sum(k[l - j] * u[:, j] for j in range(l + "
                                    "1)) for l in range(12)], 1) + d * u" },
                                  { "length with a factor of 7", bad_length, CONV },
                                  { "one sample", one_sample, CONV },
                                  { "two groups of channels", two_groups, CONV },
                                  { "columns and rows", rows, CONV },
                                  { "odd number of passes", odd_rows, CONV },
                                  { "without D", without_d, FIRST },
                                  { "gradient of the kernel alone", only_kernel, CONV },
                                  { "gradient of the signal alone", only_signal, CONV },
                                  { "gradient of D alone", only_d, CONV },
                                  { "large", large, CONV, CASE_LIVE_ONLY },
                                  { "factors of 32 and 24", two_factors, CONV, CASE_LIVE_ONLY },
                                  { "factors of 48 and 32", two_short, CONV, CASE_LIVE_ONLY },
                                  { "factors of 96 and 64", two_middle, CONV, CASE_LIVE_ONLY },
                                  { "factors of 192 and 128", two_long, CONV, CASE_LIVE_ONLY },
                                  { "large batch", large_batch, CONV, CASE_LIVE_ONLY },
                                  { 0 } };
