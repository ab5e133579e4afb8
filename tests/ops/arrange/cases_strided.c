/* cases_strided.c -- views through strides, flips, expansions. */
#include "ops/cases.h"

#include "ops/arrange/strided.h"
#include "ops/elementwise/binary.h"

static void strided_steps(Case *c) /* x[:, ::2, 1::3] and x[1, ::-1] */
{
    Tensor x = case_in(c, "x", SHAPE(4, 5, 7), -2, 2);
    case_out(c, "steps",
             strided(x, (StridedAttr){ .rank = 3,
                                       .dim = { 4, 3, 2 },
                                       .stride = { 35, 14, 3 },
                                       .offset = 1,
                                       .shape = SHAPE(4, 3, 2) }));
    case_out(c, "back",
             strided(x, (StridedAttr){ .rank = 2,
                                       .dim = { 5, 7 },
                                       .stride = { -7, 1 },
                                       .offset = 35 + 28,
                                       .shape = SHAPE(5, 7) }));
    case_out(
        c, "diagonal",
        strided(x, (StridedAttr){
                       .rank = 2, .dim = { 4, 5 }, .stride = { 35, 8 }, .shape = SHAPE(4, 5) }));
    case_out(c, "one", strided(x, (StridedAttr){ .rank = 0, .offset = 41, .shape = SHAPE(1) }));
}

static void strided_transposes(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(3, 19, 37), -2, 2);
    case_out(c, "y", /* x[:, 1:18, ::2] transposed */
             strided(x, (StridedAttr){ .rank = 3,
                                       .dim = { 3, 19, 17 },
                                       .stride = { 703, 2, 37 },
                                       .offset = 37,
                                       .shape = SHAPE(3, 19, 17) }));
    case_out(c, "flipped",
             strided(x, (StridedAttr){ .rank = 3,
                                       .dim = { 37, 3, 19 },
                                       .stride = { -1, 703, 37 },
                                       .offset = 36,
                                       .shape = SHAPE(37, 57) }));
    case_out(c, "permuted",
             strided(x, (StridedAttr){ .rank = 3,
                                       .dim = { 37, 3, 19 },
                                       .stride = { 1, 703, 37 },
                                       .shape = SHAPE(37, 3, 19) }));
    case_out(c, "range",
             strided(x, (StridedAttr){ .rank = 2,
                                       .dim = { 2, 37 },
                                       .stride = { 37, 1 },
                                       .offset = 74,
                                       .shape = SHAPE(74) }));
}

static void strided_windows(Case *c) /* unfold: windows that overlap */
{
    Tensor x = case_in(c, "x", SHAPE(2, 3, 9), -2, 2), z = case_in(c, "z", SHAPE(2, 6, 7), -2, 2);
    case_out(c, "windows",
             strided(x, (StridedAttr){ .rank = 4,
                                       .dim = { 2, 3, 4, 3 },
                                       .stride = { 27, 9, 2, 1 },
                                       .shape = SHAPE(2, 3, 4, 3) }));
    case_out(c, "patches", /* B, 3x3 windows, 4x5 places */
             strided(z, (StridedAttr){ .rank = 5,
                                       .dim = { 2, 3, 3, 4, 5 },
                                       .stride = { 42, 7, 1, 7, 1 },
                                       .shape = SHAPE(2, 9, 20) }));
    case_out(c, "backwards",
             strided(x, (StridedAttr){ .rank = 3,
                                       .dim = { 2, 5, 20 },
                                       .stride = { 27, -1, 1 },
                                       .offset = 5,
                                       .shape = SHAPE(2, 100) }));
}

static void strided_repeats(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(2, 1, 5), -2, 2), b = case_in(c, "b", SHAPE(1), -2, 2);
    Tensor v = case_in(c, "v", SHAPE(3, 1, 4, 1), -2, 2);
    case_out(c, "y", expand_to(x, SHAPE(2, 3, 5)));
    case_out(c, "four", expand_to(x, SHAPE(4, 2, 3, 5)));
    case_out(c, "all", expand_to(b, SHAPE(3, 7)));
    case_out(c, "two", expand_to(v, SHAPE(3, 6, 4, 5)));
    case_out(c, "same", expand_to(x, SHAPE(2, 1, 5)));
    case_out(c, "stepped", /* v[::2, :, ::3] repeated */
             strided(v, (StridedAttr){ .rank = 4,
                                       .dim = { 2, 3, 2, 2 },
                                       .stride = { 8, 0, 3, 0 },
                                       .shape = SHAPE(2, 3, 4) }));
}

static void strided_flips(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(3, 4, 5), -2, 2);
    case_out(c, "last", flip(x, 4));
    case_out(c, "first", flip(x, 1));
    case_out(c, "all", flip(x, 7));
    case_out(c, "none", mul(flip(x, 0), x));
}

static void strided_large(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(2, 70, 301), -2, 2);
    case_out(c, "y",
             strided(x, (StridedAttr){ .rank = 3,
                                       .dim = { 2, 151, 70 },
                                       .stride = { 70 * 301, 2, 301 },
                                       .shape = SHAPE(2, 151, 70) }));
    case_out(c, "windows",
             strided(x, (StridedAttr){ .rank = 3,
                                       .dim = { 140, 60, 16 },
                                       .stride = { 301, 4, 1 },
                                       .shape = SHAPE(140, 60, 16) }));
    case_out(c, "frames", /* of one long signal */
             strided(x, (StridedAttr){ .rank = 2,
                                       .dim = { 400, 250 },
                                       .stride = { 100, 1 },
                                       .shape = SHAPE(400, 250) }));
}

const OpCase cases_strided[] = {
    { "steps", strided_steps,
      "steps = x[:, ::2, 1:6:3]; back = x[1].flip(0); diagonal = torch.stack([x[:, i, i] for i in "
      "range(5)], 1); one = x[1, 0, 6].view(1)" },
    { "transposed", strided_transposes,
      "y = x[:, 1:18, ::2].transpose(1, 2); flipped = x.flip(2).permute(2, 0, 1).reshape(37, 57); "
      "permuted = x.permute(2, 0, 1); range = x[0, 2:4].reshape(74)" },
    { "windows", strided_windows,
      "windows = x.unfold(2, 3, 2); patches = F.unfold(z[:, None], (3, 3)).view(2, 9, 20); "
      "i = torch.arange(20) - torch.arange(5)[:, None] + 5; "
      "backwards = x.reshape(2, 27)[:, i].reshape(2, 100)" },
    { "repeated", strided_repeats,
      "y = x.expand(2, 3, 5); four = x.expand(4, 2, 3, 5); all = b.expand(3, 7); "
      "two = v.expand(3, 6, 4, 5); same = x * 1; "
      "stepped = v[::2, :, ::3].expand(2, 3, 2, 2).reshape(2, 3, 4)" },
    { "flips", strided_flips,
      "last = x.flip(2); first = x.flip(0); all = x.flip(0, 1, 2); none = x * x" },
    { "large", strided_large,
      "y = x[:, :, ::2].transpose(1, 2); windows = x.view(140, 301).unfold(1, 16, 4)[:, :60]; "
      "frames = x.reshape(-1).unfold(0, 250, 100)[:400]",
      CASE_LIVE_ONLY },
    { 0 }
};
