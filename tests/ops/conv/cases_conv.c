/* cases_conv.c -- convolutions of the five systems in small: 1, 3, 4, 5, 7 taps, strides,
 * volumes. */
#include "ops/cases.h"

#include "ops/conv/conv.h"

typedef struct ConvCase { int64_t n, h, w, ci, co; int k, stride, pad; bool bias; } ConvCase;

static void conv_case(Case *c, ConvCase s)
{
    Tensor x = case_in(c, "x", SHAPE(s.n, s.h, s.w, s.ci), -1, 1);
    Tensor w = case_in(c, "w", SHAPE(s.k, s.k, s.ci, s.co), -1, 1);
    Tensor b = s.bias ? case_in(c, "b", SHAPE(s.co), -1, 1)
                      : (Tensor){ case_graph(c), TENSOR_NONE };
    case_out(c, "y", conv_op(x, w, b, conv_attr(s.stride, s.pad)));
}

#define CONV2(args)                                                                                \
    "y = F.conv2d(x.permute(0,3,1,2).contiguous(), w.permute(3,2,0,1).contiguous(), " args         \
    ").permute(0,2,3,1)"

#define TWICE                                                                                      \
    "v = w.permute(3,2,0,1).contiguous()\n"                                                        \
    "y = F.conv2d(x.permute(0,3,1,2).contiguous(), v, b, padding=1)\n"                             \
    "z = F.conv2d(y, v, b, padding=1).permute(0,2,3,1)"

static void conv3(Case *c)        { conv_case(c, (ConvCase){ 2, 5, 6, 4, 3, 3, 1, 1, true }); }
static void conv1(Case *c)        { conv_case(c, (ConvCase){ 1, 4, 3, 5, 7, 1, 1, 0, true }); }
static void thin_in(Case *c)      { conv_case(c, (ConvCase){ 1, 9, 7, 1, 5, 5, 1, 2, true }); }
static void thin_out(Case *c)     { conv_case(c, (ConvCase){ 1, 6, 5, 9, 1, 3, 1, 1, true }); }
static void seven(Case *c)        { conv_case(c, (ConvCase){ 1, 8, 9, 2, 3, 7, 1, 3, true }); }
static void down3(Case *c)        { conv_case(c, (ConvCase){ 2, 7, 8, 3, 4, 3, 2, 1, true }); }
static void down4(Case *c)        { conv_case(c, (ConvCase){ 1, 8, 6, 3, 5, 4, 2, 1, false }); }
static void narrow4(Case *c)      { conv_case(c, (ConvCase){ 2, 9, 11, 3, 40, 4, 2, 1, true }); }
static void narrow3(Case *c)      { conv_case(c, (ConvCase){ 1, 7, 13, 2, 32, 3, 1, 1, true }); }
static void narrow5(Case *c)      { conv_case(c, (ConvCase){ 2, 6, 9, 1, 8, 5, 1, 2, false }); }
static void narrow_tiles(Case *c) { conv_case(c, (ConvCase){ 2, 40, 37, 3, 72, 4, 2, 1, true }); }
static void patch2(Case *c)       { conv_case(c, (ConvCase){ 2, 4, 6, 3, 5, 2, 2, 0, true }); }
static void large(Case *c)        { conv_case(c, (ConvCase){ 2, 33, 31, 35, 67, 3, 1, 1, true }); }
static void large_down(Case *c)   { conv_case(c, (ConvCase){ 2, 33, 30, 19, 40, 3, 2, 1, true }); }

static void eights(Case *c)       { conv_case(c, (ConvCase){ 2, 5, 11, 32, 40, 3, 1, 1, true }); }
static void eights_down3(Case *c) { conv_case(c, (ConvCase){ 2, 9, 13, 32, 40, 3, 2, 1, true }); }
static void eights_down4(Case *c) { conv_case(c, (ConvCase){ 1, 10, 24, 64, 32, 4, 2, 1, true }); }
static void joined(Case *c)       { conv_case(c, (ConvCase){ 2, 5, 19, 64, 40, 3, 1, 1, true }); }
static void eights_thin(Case *c)  { conv_case(c, (ConvCase){ 1, 7, 9, 32, 3, 3, 1, 0, true }); }
static void tiles(Case *c)        { conv_case(c, (ConvCase){ 3, 12, 21, 136, 72, 3, 1, 1, true }); }
static void slices(Case *c)       { conv_case(c, (ConvCase){ 2, 24, 40, 64, 32, 5, 1, 2, false }); }

/* One weight and one bias for two maps: their gradients are sums. */
static void twice(Case *c, int64_t channels)
{
    Tensor x = case_in(c, "x", SHAPE(1, 4, 6, channels), -1, 1),
           w = case_in(c, "w", SHAPE(3, 3, channels, channels), -1, 1);
    Tensor b = case_in(c, "b", SHAPE(channels), -1, 1);
    Tensor y = conv_op(x, w, b, conv_attr(1, 1));
    case_out(c, "z", conv_op(y, w, b, conv_attr(1, 1)));
}

static void twice_few(Case *c)  { twice(c, 3); }
static void twice_many(Case *c) { twice(c, 32); }

static void uneven_pad(Case *c)              /* the VAE encoder pads right and bottom only */
{
    ConvAttr a = { .stride = { 1, 2, 2 }, .pad_hi = { 0, 1, 1 } };
    Tensor x = case_in(c, "x", SHAPE(1, 6, 8, 3), -1, 1),
           w = case_in(c, "w", SHAPE(3, 3, 3, 2), -1, 1);
    case_out(c, "y", conv_op(x, w, case_in(c, "b", SHAPE(2), -1, 1), a));
}

static void volume(Case *c)
{
    ConvAttr a = { .stride = { 1, 1, 1 }, .pad_lo = { 1, 1, 1 }, .pad_hi = { 1, 1, 1 } };
    Tensor x = case_in(c, "x", SHAPE(1, 4, 5, 3, 3), -1, 1),
           w = case_in(c, "w", SHAPE(3, 3, 3, 3, 6), -1, 1);
    case_out(c, "y", conv_op(x, w, case_in(c, "b", SHAPE(6), -1, 1), a));
}

static void volume_patch_to(Case *c, int64_t channels)
{
    ConvAttr a = { .stride = { 2, 3, 3 } };
    Tensor x = case_in(c, "x", SHAPE(2, 4, 6, 3, 3), -1, 1),
           w = case_in(c, "w", SHAPE(2, 3, 3, 3, channels), -1, 1);
    case_out(c, "y", conv_op(x, w, case_in(c, "b", SHAPE(channels), -1, 1), a));
}
static void volume_patch(Case *c)        { volume_patch_to(c, 5); }
static void volume_patch_narrow(Case *c) { volume_patch_to(c, 8); }

const OpCase cases_conv[] = {
    { "3x3", conv3, CONV2("b, padding=1") },
    { "1x1", conv1, CONV2("b") },
    { "5x5 from one channel", thin_in, CONV2("b, padding=2") },
    { "3x3 to one channel", thin_out, CONV2("b, padding=1") },
    { "7x7", seven, CONV2("b, padding=3") },
    { "3x3 stride 2", down3, CONV2("b, stride=2, padding=1") },
    { "4x4 stride 2", down4, CONV2("None, stride=2, padding=1") },
    { "4x4 stride 2 from three channels", narrow4, CONV2("b, stride=2, padding=1") },
    { "3x3 from two channels", narrow3, CONV2("b, padding=1") },
    { "5x5 from one channel to eight", narrow5, CONV2("None, padding=2") },
    { "2x2 patches", patch2, CONV2("b, stride=2") },
    { "channels in eights", eights, CONV2("b, padding=1") },
    { "channels in eights, 3x3 stride 2", eights_down3, CONV2("b, stride=2, padding=1") },
    { "channels in eights, 4x4 stride 2", eights_down4, CONV2("b, stride=2, padding=1"),
      CASE_LIVE_ONLY },
    { "taps side by side", joined, CONV2("b, padding=1"), CASE_LIVE_ONLY },
    { "channels in eights to three", eights_thin, CONV2("b") },
    { "a weight used twice", twice_few, TWICE },
    { "a weight used twice, 32 channels", twice_many, TWICE },
    { "several tiles", tiles, CONV2("b, padding=1"), CASE_LIVE_ONLY },
    { "several pieces", slices, CONV2("None, padding=2"), CASE_LIVE_ONLY },
    { "uneven padding", uneven_pad,
      "y = F.conv2d(F.pad(x.permute(0,3,1,2), (0,1,0,1)).contiguous(), "
      "w.permute(3,2,0,1).contiguous(), b, stride=2).permute(0,2,3,1)" },
    { "3x3x3", volume,
      "y = F.conv3d(x.permute(0,4,1,2,3).contiguous(), w.permute(4,3,0,1,2).contiguous(), b, "
      "padding=1).permute(0,2,3,4,1)" },
    { "2x3x3 patches", volume_patch,
      "y = F.conv3d(x.permute(0,4,1,2,3).contiguous(), w.permute(4,3,0,1,2).contiguous(), b, "
      "stride=(2,3,3)).permute(0,2,3,4,1)" },
    { "2x3x3 patches to eight channels", volume_patch_narrow,
      "y = F.conv3d(x.permute(0,4,1,2,3).contiguous(), w.permute(4,3,0,1,2).contiguous(), b, "
      "stride=(2,3,3)).permute(0,2,3,4,1)" },
    { "large", large, CONV2("b, padding=1"), CASE_LIVE_ONLY },
    { "from three channels, several tiles", narrow_tiles, CONV2("b, stride=2, padding=1"),
      CASE_LIVE_ONLY },
    { "large stride 2", large_down, CONV2("b, stride=2, padding=1"), CASE_LIVE_ONLY },
    { 0 }
};

static void up4(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(2, 3, 4, 5), -1, 1),
           w = case_in(c, "w", SHAPE(4, 4, 3, 5), -1, 1);
    case_out(c, "y", conv_transpose_op(x, w, case_in(c, "b", SHAPE(3), -1, 1), conv_attr(2, 1)));
}

static void up_thin(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(1, 5, 3, 1), -1, 1),
           w = case_in(c, "w", SHAPE(4, 4, 2, 1), -1, 1);
    case_out(c, "y",
             conv_transpose_op(x, w, (Tensor){ case_graph(c), TENSOR_NONE }, conv_attr(2, 1)));
}

const OpCase cases_conv_transpose[] = {
    { "4x4 stride 2", up4,
      "y = F.conv_transpose2d(x.permute(0,3,1,2).contiguous(), w.permute(3,2,0,1).contiguous(), b, "
      "stride=2, padding=1).permute(0,2,3,1)" },
    { "thin, no bias", up_thin,
      "y = F.conv_transpose2d(x.permute(0,3,1,2).contiguous(), w.permute(3,2,0,1).contiguous(), "
      "None, stride=2, padding=1).permute(0,2,3,1)" },
    { 0 }
};
