/* cases_conv.c -- convolutions of the five systems in small: 1, 3, 4, 5, 7 taps, strides,
 * volumes. */
#include "ops/cases.h"

#include "ops/conv/conv.h"

typedef struct ConvCase {
    int64_t n, h, w, ci, co;
    int     k, stride, pad;
    bool    bias;
} ConvCase;

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

static void conv3(Case *c) { conv_case(c, (ConvCase){ 2, 5, 6, 4, 3, 3, 1, 1, true }); }
static void conv1(Case *c) { conv_case(c, (ConvCase){ 1, 4, 3, 5, 7, 1, 1, 0, true }); }
static void thin_in(Case *c) { conv_case(c, (ConvCase){ 1, 9, 7, 1, 5, 5, 1, 2, true }); }
static void thin_out(Case *c) { conv_case(c, (ConvCase){ 1, 6, 5, 9, 1, 3, 1, 1, true }); }
static void seven(Case *c) { conv_case(c, (ConvCase){ 1, 8, 9, 2, 3, 7, 1, 3, true }); }
static void down3(Case *c) { conv_case(c, (ConvCase){ 2, 7, 8, 3, 4, 3, 2, 1, true }); }
static void down4(Case *c) { conv_case(c, (ConvCase){ 1, 8, 6, 3, 5, 4, 2, 1, false }); }
static void narrow4(Case *c) { conv_case(c, (ConvCase){ 2, 9, 11, 3, 40, 4, 2, 1, true }); }
static void narrow3(Case *c) { conv_case(c, (ConvCase){ 1, 7, 13, 2, 32, 3, 1, 1, true }); }
static void narrow5(Case *c) { conv_case(c, (ConvCase){ 2, 6, 9, 1, 8, 5, 1, 2, false }); }
static void narrow_tiles(Case *c) { conv_case(c, (ConvCase){ 2, 40, 37, 3, 72, 4, 2, 1, true }); }
static void patch2(Case *c) { conv_case(c, (ConvCase){ 2, 4, 6, 3, 5, 2, 2, 0, true }); }
static void large(Case *c) { conv_case(c, (ConvCase){ 2, 33, 31, 35, 67, 3, 1, 1, true }); }
static void large_down(Case *c) { conv_case(c, (ConvCase){ 2, 33, 30, 19, 40, 3, 2, 1, true }); }

static void eights(Case *c) { conv_case(c, (ConvCase){ 2, 5, 11, 32, 40, 3, 1, 1, true }); }
static void eights_down3(Case *c) { conv_case(c, (ConvCase){ 2, 9, 13, 32, 40, 3, 2, 1, true }); }
static void eights_down4(Case *c) { conv_case(c, (ConvCase){ 1, 10, 24, 64, 32, 4, 2, 1, true }); }
static void joined(Case *c) { conv_case(c, (ConvCase){ 2, 5, 19, 64, 40, 3, 1, 1, true }); }
static void eights_thin(Case *c) { conv_case(c, (ConvCase){ 1, 7, 9, 32, 3, 3, 1, 0, true }); }
static void tiles(Case *c) { conv_case(c, (ConvCase){ 3, 12, 21, 136, 72, 3, 1, 1, true }); }
static void slices(Case *c) { conv_case(c, (ConvCase){ 2, 24, 40, 64, 32, 5, 1, 2, false }); }

/* One weight and one bias for two maps: their gradients are sums. */
static void twice(Case *c, int64_t channels)
{
    Tensor x = case_in(c, "x", SHAPE(1, 4, 6, channels), -1, 1),
           w = case_in(c, "w", SHAPE(3, 3, channels, channels), -1, 1);
    Tensor b = case_in(c, "b", SHAPE(channels), -1, 1);
    Tensor y = conv_op(x, w, b, conv_attr(1, 1));
    case_out(c, "z", conv_op(y, w, b, conv_attr(1, 1)));
}

static void twice_few(Case *c) { twice(c, 3); }
static void twice_many(Case *c) { twice(c, 32); }

static void uneven_pad(Case *c) /* the VAE encoder pads right and bottom only */
{
    ConvAttr a = { .stride = { 1, 2, 2 }, .pad_hi = { 0, 1, 1 } };
    Tensor   x = case_in(c, "x", SHAPE(1, 6, 8, 3), -1, 1),
           w = case_in(c, "w", SHAPE(3, 3, 3, 2), -1, 1);
    case_out(c, "y", conv_op(x, w, case_in(c, "b", SHAPE(2), -1, 1), a));
}

static void volume(Case *c)
{
    ConvAttr a = { .stride = { 1, 1, 1 }, .pad_lo = { 1, 1, 1 }, .pad_hi = { 1, 1, 1 } };
    Tensor   x = case_in(c, "x", SHAPE(1, 4, 5, 3, 3), -1, 1),
           w = case_in(c, "w", SHAPE(3, 3, 3, 3, 6), -1, 1);
    case_out(c, "y", conv_op(x, w, case_in(c, "b", SHAPE(6), -1, 1), a));
}

static void volume_patch_to(Case *c, int64_t channels)
{
    ConvAttr a = { .stride = { 2, 3, 3 } };
    Tensor   x = case_in(c, "x", SHAPE(2, 4, 6, 3, 3), -1, 1),
           w = case_in(c, "w", SHAPE(2, 3, 3, 3, channels), -1, 1);
    case_out(c, "y", conv_op(x, w, case_in(c, "b", SHAPE(channels), -1, 1), a));
}
static void volume_patch(Case *c) { volume_patch_to(c, 5); }
static void volume_patch_narrow(Case *c) { volume_patch_to(c, 8); }

/* --- groups, dilation, sequences --- */

/* A convolution over `axes` axes, the same along each: 1 is a sequence. */
typedef struct GroupCase {
    int     axes;
    int64_t n, extent[3], ci, co, groups; /* extent: of the last `axes` axes */
    int64_t k, stride, dilation, pad_lo, pad_hi;
    bool    transposed, no_bias;
} GroupCase;

static void group_case(Case *c, GroupCase s)
{
    ConvAttr a = { .stride = { 1, 1, 1 }, .groups = s.groups };
    Shape    x = SHAPE(s.n), w = { 0 };
    for (int i = 0; i < s.axes; i++) {
        int axis = 3 - s.axes + i;
        a.stride[axis] = s.stride, a.dilation[axis] = s.dilation;
        a.pad_lo[axis] = s.pad_lo, a.pad_hi[axis] = s.pad_hi;
        x.dim[x.rank++] = s.extent[i];
        w.dim[w.rank++] = s.k;
    }
    x.dim[x.rank++] = s.ci;
    w.dim[w.rank++] = (s.transposed ? s.co : s.ci) / s.groups;
    w.dim[w.rank++] = s.transposed ? s.ci : s.co;
    Tensor tx = case_in(c, "x", x, -1, 1), tw = case_in(c, "w", w, -1, 1);
    Tensor b = s.no_bias ? (Tensor){ case_graph(c), TENSOR_NONE }
                         : case_in(c, "b", SHAPE(s.co), -1, 1);
    case_out(c, "y",
             s.transposed ? (s.axes == 1 ? conv_transpose1d_op : conv_transpose_op)(tx, tw, b, a)
                          : (s.axes == 1 ? conv1d_op : conv_op)(tx, tw, b, a));
}

#define SEQ(name, args)                                                                            \
    "y = F." name "(x.permute(0,2,1).contiguous(), w.permute(2,1,0).contiguous(), " args           \
    ").permute(0,2,1)"
#define IMG(name, args)                                                                            \
    "y = F." name "(x.permute(0,3,1,2).contiguous(), w.permute(3,2,0,1).contiguous(), " args       \
    ").permute(0,2,3,1)"
#define VOL(name, args)                                                                            \
    "y = F." name "(x.permute(0,4,1,2,3).contiguous(), w.permute(4,3,0,1,2).contiguous(), " args   \
    ").permute(0,2,3,4,1)"

#define GROUP(name, ...)                                                                           \
    static void name(Case *c) { group_case(c, (GroupCase){ __VA_ARGS__ }); }
GROUP(seq3, 1, 2, { 9 }, 4, 6, 1, 3, 1, 1, 1, 1)
GROUP(seq1, 1, 2, { 5 }, 4, 3, 1, 1, 1, 1, 0, 0)
GROUP(seq_down, 1, 1, { 12 }, 3, 4, 1, 4, 2, 1, 1, 1, .no_bias = true)
GROUP(seq_dilated, 1, 2, { 13 }, 3, 5, 1, 3, 1, 3, 3, 3)
GROUP(seq_groups, 1, 2, { 10 }, 6, 4, 2, 3, 2, 2, 2, 2)
GROUP(seq_causal, 1, 2, { 11 }, 5, 5, 5, 4, 1, 1, 3, 0)
GROUP(seq_causal_wide, 1, 2, { 37 }, 24, 24, 24, 4, 1, 1, 3, 0)
GROUP(seq_causal_large, 1, 2, { 300 }, 96, 96, 96, 4, 1, 1, 3, 0)
GROUP(seq_depth_dilated, 1, 1, { 21 }, 20, 20, 20, 3, 1, 4, 4, 4)
GROUP(seq_one, 1, 3, { 1 }, 8, 8, 8, 3, 1, 1, 1, 1)
GROUP(groups2, 2, 2, { 5, 6 }, 4, 6, 2, 3, 1, 1, 1, 1)
GROUP(groups4, 2, 1, { 6, 5 }, 8, 12, 4, 3, 1, 1, 1, 1)
GROUP(groups_down, 2, 2, { 7, 6 }, 6, 4, 2, 3, 2, 1, 1, 1, .no_bias = true)
GROUP(groups1x1, 2, 2, { 3, 4 }, 8, 4, 4, 1, 1, 1, 0, 0)
GROUP(groups_many, 2, 2, { 9, 11 }, 64, 128, 4, 3, 1, 1, 1, 1)
GROUP(dilated2, 2, 2, { 7, 8 }, 3, 4, 1, 3, 1, 2, 2, 2)
GROUP(dilated3, 2, 1, { 9, 7 }, 2, 3, 1, 3, 2, 3, 3, 3)
GROUP(dilated_groups, 2, 1, { 8, 7 }, 4, 4, 2, 3, 1, 2, 2, 2)
GROUP(dilated_even, 2, 1, { 9, 8 }, 4, 3, 1, 3, 2, 2, 2, 2)
GROUP(dilated_large, 2, 2, { 17, 19 }, 32, 40, 1, 3, 1, 2, 2, 2)
GROUP(depth3, 2, 2, { 5, 6 }, 5, 5, 5, 3, 1, 1, 1, 1)
GROUP(depth3_wide, 2, 1, { 6, 9 }, 40, 40, 40, 3, 1, 1, 1, 1)
GROUP(depth3_down, 2, 1, { 9, 8 }, 17, 17, 17, 3, 2, 1, 1, 1)
GROUP(depth7, 2, 1, { 9, 8 }, 12, 12, 12, 7, 1, 1, 3, 3)
GROUP(depth7_large, 2, 2, { 23, 21 }, 100, 100, 100, 7, 1, 1, 3, 3)
GROUP(depth3_large, 2, 3, { 33, 31 }, 72, 72, 72, 3, 1, 1, 1, 1)
GROUP(depth5_down_large, 2, 2, { 30, 27 }, 136, 136, 136, 5, 2, 1, 2, 2)
GROUP(depth_times, 2, 1, { 5, 4 }, 6, 18, 6, 3, 1, 1, 1, 1)
GROUP(depth_times_wide, 2, 1, { 7, 6 }, 24, 48, 24, 3, 2, 1, 1, 1)
GROUP(depth_dilated, 2, 1, { 9, 8 }, 18, 18, 18, 3, 1, 2, 2, 2)
GROUP(depth_uneven, 2, 1, { 6, 7 }, 9, 9, 9, 3, 2, 1, 0, 1)
GROUP(depth_volume, 3, 1, { 4, 5, 3 }, 9, 9, 9, 3, 1, 1, 1, 1)
GROUP(depth_volume_down, 3, 2, { 5, 4, 6 }, 16, 16, 16, 3, 2, 1, 1, 1)
GROUP(groups_volume, 3, 1, { 4, 3, 5 }, 4, 6, 2, 3, 1, 1, 1, 1)
GROUP(dilated_volume, 3, 1, { 5, 6, 5 }, 2, 3, 1, 3, 1, 2, 2, 2)
GROUP(cropped, 2, 1, { 6, 7 }, 3, 4, 1, 3, 1, 1, 1, -1)

GROUP(up_seq, 1, 2, { 5 }, 4, 3, 1, 4, 2, 1, 1, 1, .transposed = true)
GROUP(up_seq_groups, 1, 2, { 6 }, 6, 4, 2, 3, 2, 2, 1, 0, .transposed = true)
GROUP(up_groups, 2, 1, { 4, 3 }, 6, 4, 2, 3, 2, 1, 1, 1, .transposed = true)
GROUP(up_output, 2, 1, { 4, 3 }, 3, 5, 1, 3, 2, 1, 1, 0, .transposed = true)
GROUP(up_output_bare, 2, 1, { 3, 4 }, 2, 3, 1, 2, 3, 1, 0, -2, .transposed = true)
GROUP(up_output_dilated, 2, 1, { 4, 5 }, 3, 2, 1, 3, 1, 3, 0, -2, .transposed = true)
GROUP(up_dilated, 2, 1, { 4, 3 }, 4, 4, 2, 3, 2, 2, 2, 1, .transposed = true)
GROUP(up_dilated3, 2, 1, { 5, 4 }, 2, 3, 1, 3, 2, 3, 1, 1, .transposed = true, .no_bias = true)
GROUP(up_depth, 2, 1, { 4, 5 }, 18, 18, 18, 4, 2, 1, 1, 1, .transposed = true)
GROUP(up_volume, 3, 1, { 3, 2, 3 }, 4, 2, 2, 3, 2, 1, 1, 0, .transposed = true)

/* A depthwise weight and bias used twice: their gradients are sums. */
static void depth_twice(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(1, 4, 6, 20), -1, 1),
           w = case_in(c, "w", SHAPE(3, 3, 1, 20), -1, 1);
    Tensor   b = case_in(c, "b", SHAPE(20), -1, 1);
    ConvAttr a = conv_attr(1, 1);
    a.groups = 20;
    case_out(c, "z", conv_op(conv_op(x, w, b, a), w, b, a));
}

static void groups_twice(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(1, 4, 6, 8), -1, 1),
           w = case_in(c, "w", SHAPE(3, 3, 4, 8), -1, 1);
    Tensor   b = case_in(c, "b", SHAPE(8), -1, 1);
    ConvAttr a = conv_attr(1, 1);
    a.groups = 2;
    case_out(c, "z", conv_op(conv_op(x, w, b, a), w, b, a));
}

#define TWICE_IN(groups)                                                                           \
    "v = w.permute(3,2,0,1).contiguous()\n"                                                        \
    "y = F.conv2d(x.permute(0,3,1,2).contiguous(), v, b, padding=1, groups=" groups ")\n"          \
    "z = F.conv2d(y, v, b, padding=1, groups=" groups ").permute(0,2,3,1)"

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
    { "sequence, 3", seq3, SEQ("conv1d", "b, padding=1") },
    { "sequence, 1", seq1, SEQ("conv1d", "b") },
    { "sequence, 4 stride 2", seq_down, SEQ("conv1d", "None, stride=2, padding=1") },
    { "sequence, 3 dilated 3", seq_dilated, SEQ("conv1d", "b, padding=3, dilation=3") },
    { "sequence, 2 groups, stride and dilation 2", seq_groups,
      SEQ("conv1d", "b, stride=2, padding=2, dilation=2, groups=2") },
    { "causal depthwise sequence", seq_causal, SEQ("conv1d", "b, padding=3, groups=5") "[:,:11]" },
    { "causal depthwise sequence, 24 channels", seq_causal_wide,
      SEQ("conv1d", "b, padding=3, groups=24") "[:,:37]" },
    { "causal depthwise sequence, large", seq_causal_large,
      SEQ("conv1d", "b, padding=3, groups=96") "[:,:300]", CASE_LIVE_ONLY },
    { "depthwise sequence dilated 4", seq_depth_dilated,
      SEQ("conv1d", "b, padding=4, dilation=4, groups=20") },
    { "depthwise sequence of one", seq_one, SEQ("conv1d", "b, padding=1, groups=8") },
    { "2 groups", groups2, IMG("conv2d", "b, padding=1, groups=2") },
    { "4 groups", groups4, IMG("conv2d", "b, padding=1, groups=4") },
    { "2 groups stride 2", groups_down, IMG("conv2d", "None, stride=2, padding=1, groups=2") },
    { "1x1 in 4 groups", groups1x1, IMG("conv2d", "b, groups=4") },
    { "4 groups of 16 to 32", groups_many, IMG("conv2d", "b, padding=1, groups=4"),
      CASE_LIVE_ONLY },
    { "dilated 2", dilated2, IMG("conv2d", "b, padding=2, dilation=2") },
    { "dilated 3 stride 2", dilated3, IMG("conv2d", "b, stride=2, padding=3, dilation=3") },
    { "dilated 2 in 2 groups", dilated_groups,
      IMG("conv2d", "b, padding=2, dilation=2, groups=2") },
    { "dilated 2 stride 2", dilated_even, IMG("conv2d", "b, stride=2, padding=2, dilation=2") },
    { "dilated 2, large", dilated_large, IMG("conv2d", "b, padding=2, dilation=2"),
      CASE_LIVE_ONLY },
    { "depthwise 3x3", depth3, IMG("conv2d", "b, padding=1, groups=5") },
    { "depthwise 3x3, 40 channels", depth3_wide, IMG("conv2d", "b, padding=1, groups=40") },
    { "depthwise 3x3 stride 2", depth3_down, IMG("conv2d", "b, stride=2, padding=1, groups=17") },
    { "depthwise 7x7", depth7, IMG("conv2d", "b, padding=3, groups=12") },
    { "depthwise 7x7, large", depth7_large, IMG("conv2d", "b, padding=3, groups=100"),
      CASE_LIVE_ONLY },
    { "depthwise 3x3, large", depth3_large, IMG("conv2d", "b, padding=1, groups=72"),
      CASE_LIVE_ONLY },
    { "depthwise 5x5 stride 2, large", depth5_down_large,
      IMG("conv2d", "b, stride=2, padding=2, groups=136"), CASE_LIVE_ONLY },
    { "depthwise 3x3, three of each", depth_times, IMG("conv2d", "b, padding=1, groups=6") },
    { "depthwise 3x3 stride 2, two of each", depth_times_wide,
      IMG("conv2d", "b, stride=2, padding=1, groups=24") },
    { "depthwise 3x3 dilated 2", depth_dilated,
      IMG("conv2d", "b, padding=2, dilation=2, groups=18") },
    { "depthwise, uneven padding", depth_uneven,
      "y = F.conv2d(F.pad(x.permute(0,3,1,2), (0,1,0,1)).contiguous(), "
      "w.permute(3,2,0,1).contiguous(), b, stride=2, groups=9).permute(0,2,3,1)" },
    { "depthwise 3x3x3", depth_volume, VOL("conv3d", "b, padding=1, groups=9") },
    { "depthwise 3x3x3 stride 2", depth_volume_down,
      VOL("conv3d", "b, stride=2, padding=1, groups=16") },
    { "3x3x3 in 2 groups", groups_volume, VOL("conv3d", "b, padding=1, groups=2") },
    { "3x3x3 dilated 2", dilated_volume, VOL("conv3d", "b, padding=2, dilation=2") },
    { "without the last row and column", cropped,
      "y = F.conv2d(F.pad(x.permute(0,3,1,2), (1,-1,1,-1)).contiguous(), "
      "w.permute(3,2,0,1).contiguous(), b).permute(0,2,3,1)" },
    { "a depthwise weight used twice", depth_twice, TWICE_IN("20") },
    { "a weight in 2 groups used twice", groups_twice, TWICE_IN("2") },
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
    { "sequence, 4 stride 2", up_seq, SEQ("conv_transpose1d", "b, stride=2, padding=1") },
    { "sequence, 2 groups, dilated 2, longer by 1", up_seq_groups,
      SEQ("conv_transpose1d", "b, stride=2, padding=1, output_padding=1, groups=2, dilation=2") },
    { "2 groups", up_groups, IMG("conv_transpose2d", "b, stride=2, padding=1, groups=2") },
    { "longer by 1", up_output,
      IMG("conv_transpose2d", "b, stride=2, padding=1, output_padding=1") },
    { "longer by 2, no padding", up_output_bare,
      IMG("conv_transpose2d", "b, stride=3, output_padding=2") },
    { "longer by 2, stride 1, dilated 3", up_output_dilated,
      IMG("conv_transpose2d", "b, output_padding=2, dilation=3") },
    { "2 groups, dilated 2, longer by 1", up_dilated,
      IMG("conv_transpose2d", "b, stride=2, padding=2, output_padding=1, groups=2, dilation=2") },
    { "dilated 3, no bias", up_dilated3,
      IMG("conv_transpose2d", "None, stride=2, padding=1, dilation=3") },
    { "depthwise 4x4 stride 2", up_depth,
      IMG("conv_transpose2d", "b, stride=2, padding=1, groups=18") },
    { "3x3x3 in 2 groups, longer by 1", up_volume,
      VOL("conv_transpose3d", "b, stride=2, padding=1, output_padding=1, groups=2") },
    { 0 }
};
