/* cases_pad_mode.c -- padding with a value, by reflection, edges, a circle; roll. */
#include "ops/cases.h"

#include "ops/arrange/pad_mode.h"
#include "ops/elementwise/unary.h"

static void pad_values(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(2, 3, 4, 2), -2, 2);
    case_out(c, "y", pad_mode(x, (PadAttr){ { 0, 1, 2, 0 }, { 0, 2, 0, 0 } }, PAD_CONSTANT, 1.5f));
    case_out(c, "batch", pad_mode(x, (PadAttr){ { 1 }, { 2 } }, PAD_CONSTANT, -3));
    case_out(c, "crop",
             pad_mode(x, (PadAttr){ { 0, -1, 1, 1 }, { 0, 1, -2 } }, PAD_CONSTANT, 0.25f));
    case_out(c, "zeros", pad_mode(x, (PadAttr){ { 0, 1 }, { 0, -1 } }, PAD_CONSTANT, 0));
}

static void pad_images(Case *c, PadMode mode)
{
    Tensor x = case_in(c, "x", SHAPE(2, 5, 4, 3), -2, 2),
           z = case_in(c, "z", SHAPE(3, 7, 6), -2, 2);
    case_out(c, "last", pad_mode(x, (PadAttr){ { 0, 2, 1, 0 }, { 0, 3, 2, 0 } }, mode, 0));
    case_out(c, "width", pad_mode(z, (PadAttr){ { 0, 3, 4 }, { 0, 0, 5 } }, mode, 0));
    case_out(c, "crop", pad_mode(z, (PadAttr){ { 0, -2, 2 }, { 0, 1, -1 } }, mode, 0));
    case_out(c, "none", affine(pad_mode(z, (PadAttr){ { 0 }, { 0 } }, mode, 0), 2, 0));
}

static void pad_reflect(Case *c) { pad_images(c, PAD_REFLECT); }
static void pad_replicate(Case *c) { pad_images(c, PAD_REPLICATE); }
static void pad_circular(Case *c) { pad_images(c, PAD_CIRCULAR); }

static void pad_long(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(2, 1500), -2, 2);
    case_out(c, "reflect", pad_mode(x, (PadAttr){ { 0, 700 }, { 0, 1499 } }, PAD_REFLECT, 0));
    case_out(c, "edge", pad_mode(x, (PadAttr){ { 0, 1 }, { 0, 2000 } }, PAD_REPLICATE, 0));
}

static void rolls(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(3, 4, 5), -2, 2);
    case_out(c, "one", roll(x, (int64_t[]){ 0, 1, 0 }));
    case_out(c, "two", roll(x, (int64_t[]){ -1, 0, 7 }));
    case_out(c, "batch", roll(x, (int64_t[]){ 1, 0, 0 }));
    case_out(c, "none", affine(roll(x, (int64_t[]){ 3, -4, 0 }), 2, 0));
}

#define IMAGES(mode)                                                                               \
    "p = lambda t, w: F.pad(t, w, mode='" mode "'); "                                              \
    "last = p(x.permute(0, 3, 1, 2), (1, 2, 2, 3)).permute(0, 2, 3, 1); "                          \
    "width = p(z[None], (4, 5, 3, 0))[0]; crop = p(z[None, :, 2:, :5], (2, 0, 0, 1))[0]; "         \
    "none = 2 * z"

const OpCase cases_pad_mode[] = {
    { "values", pad_values,
      "y = F.pad(x, (0, 0, 2, 0, 1, 2), value=1.5); batch = F.pad(x, (0, 0, 0, 0, 0, 0, 1, 2), "
      "value=-3); crop = F.pad(x, (1, 0, 1, -2, -1, 1), value=0.25); zeros = F.pad(x, (0, 0, 0, 0, "
      "1, -1))" },
    { "reflect", pad_reflect, IMAGES("reflect") },
    { "replicate", pad_replicate, IMAGES("replicate") },
    { "circular", pad_circular, IMAGES("circular") },
    { "long", pad_long,
      "reflect = F.pad(x, (700, 1499), mode='reflect'); edge = F.pad(x, (1, 2000), "
      "mode='replicate')",
      CASE_LIVE_ONLY },
    { "roll", rolls,
      "one = x.roll(1, 1); two = x.roll((-1, 7), (0, 2)); batch = x.roll(1, 0); none = 2 * x" },
    { 0 }
};
