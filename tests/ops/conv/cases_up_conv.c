/* cases_up_conv.c -- convolutions of maps upsampled two, three and four times, with few channels
 * and multiples of eight, and edges that no tile divides. */
#include "ops/cases.h"

#include "ops/conv/up_conv.h"

typedef struct UpCase {
    int64_t n, h, w, ci, co, up;
    bool    bias;
} UpCase;

static void up_case(Case *c, UpCase s)
{
    Tensor x = case_in(c, "x", SHAPE(s.n, s.h, s.w, s.ci), -1, 1);
    Tensor w = case_in(c, "w", SHAPE(3, 3, s.ci, s.co), -1, 1);
    Tensor b = s.bias ? case_in(c, "b", SHAPE(s.co), -1, 1)
                      : (Tensor){ case_graph(c), TENSOR_NONE };
    case_out(c, "y", up_conv(x, w, b, s.up));
}

static void twice(Case *c) { up_case(c, (UpCase){ 2, 3, 5, 4, 3, 2, true }); }
static void three(Case *c) { up_case(c, (UpCase){ 1, 2, 3, 3, 2, 3, true }); }
static void four(Case *c) { up_case(c, (UpCase){ 1, 3, 2, 2, 5, 4, false }); }
static void one_pixel(Case *c) { up_case(c, (UpCase){ 2, 1, 1, 3, 4, 2, true }); }
static void eights(Case *c) { up_case(c, (UpCase){ 2, 3, 5, 32, 40, 2, true }); }
static void eights4(Case *c) { up_case(c, (UpCase){ 1, 3, 2, 40, 32, 4, true }); }
static void tiles(Case *c) { up_case(c, (UpCase){ 3, 12, 21, 136, 72, 2, true }); }
static void tiles3(Case *c) { up_case(c, (UpCase){ 2, 11, 9, 64, 200, 3, false }); }
static void tiles4(Case *c) { up_case(c, (UpCase){ 2, 10, 23, 72, 96, 4, true }); }

/* One weight for two maps of one size: its gradients are sums. */
static void shared(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(1, 2, 3, 32), -1, 1),
           z = case_in(c, "z", SHAPE(1, 2, 3, 32), -1, 1);
    Tensor w = case_in(c, "w", SHAPE(3, 3, 32, 32), -1, 1), b = case_in(c, "b", SHAPE(32), -1, 1);
    case_out(c, "y", up_conv(x, w, b, 2));
    case_out(c, "v", up_conv(z, w, b, 2));
}

#define UP(x, up, bias)                                                                            \
    "F.conv2d(F.interpolate(" x ".permute(0,3,1,2), scale_factor=" up ", mode='nearest'), "        \
    "w.permute(3,2,0,1).contiguous(), " bias ", padding=1).permute(0,2,3,1)"

const OpCase cases_up_conv[] = {
    { "twice", twice, "y = " UP("x", "2", "b") },
    { "three times", three, "y = " UP("x", "3", "b") },
    { "four times", four, "y = " UP("x", "4", "None") },
    { "one pixel", one_pixel, "y = " UP("x", "2", "b") },
    { "channels in eights", eights, "y = " UP("x", "2", "b") },
    { "channels in eights, four times", eights4, "y = " UP("x", "4", "b") },
    { "a weight used twice", shared, "y = " UP("x", "2", "b") "\nv = " UP("z", "2", "b") },
    { "several tiles", tiles, "y = " UP("x", "2", "b"), CASE_LIVE_ONLY },
    { "several tiles, three times", tiles3, "y = " UP("x", "3", "None"), CASE_LIVE_ONLY },
    { "several tiles, four times", tiles4, "y = " UP("x", "4", "b"), CASE_LIVE_ONLY },
    { 0 }
};
