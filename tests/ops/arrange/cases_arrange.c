/* cases_arrange.c -- concat, split, slice, pad, shift. */
#include "ops/cases.h"

#include "ops/arrange/arrange.h"
#include "ops/elementwise/binary.h"
#include "ops/elementwise/unary.h"

static void concat_axes(Case *c)
{
    Tensor a = case_in(c, "a", SHAPE(2, 3, 5), -2, 2), b = case_in(c, "b", SHAPE(2, 3, 1), -2, 2);
    Tensor d = case_in(c, "d", SHAPE(2, 4, 5), -2, 2),
           e = case_const(c, "e", SHAPE(2, 3, 4), -2, 2);
    case_out(c, "last", concat(TENSORS(a, b, e, a), -1));
    case_out(c, "middle", concat(TENSORS(d, a), 1));
    case_out(c, "first", concat(TENSORS(a, a, a), 0));
    case_out(c, "alone", concat(TENSORS(b), 2));
}

static void concat_thin(Case *c) /* single elements side by side */
{
    case_out(c, "y",
             concat(TENSORS(case_in(c, "a", SHAPE(3, 7, 1), -2, 2),
                            case_in(c, "b", SHAPE(3, 7, 1), -2, 2)),
                    2));
}

static void concat_large(Case *c)
{
    Tensor a = case_in(c, "a", SHAPE(3, 900, 17), -2, 2),
           b = case_in(c, "b", SHAPE(3, 900, 9), -2, 2);
    case_out(c, "y", concat(TENSORS(a, b), 2));
    case_out(c, "z", concat(TENSORS(a, a), 0));
}

const OpCase cases_concat[] = {
    { "each axis", concat_axes,
      "last = torch.cat([a, b, e, a], -1); middle = torch.cat([d, a], 1); "
      "first = torch.cat([a, a, a]); alone = b * 1" },
    { "thin", concat_thin, "y = torch.cat([a, b], 2)" },
    { "large", concat_large, "y = torch.cat([a, b], 2); z = torch.cat([a, a])", CASE_LIVE_ONLY },
    { 0 }
};

static void split_parts(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(3, 4, 6), -2, 2), p[3], q[2], r[4];
    split(p, 3, x, -1);
    split_at(q, (int64_t[]){ 1, 3 }, 2, x, 1);
    split(r, 1, x, 0);
    case_out(c, "gate", mul(p[0], p[2])); /* slice 1 gets no gradient */
    case_out(c, "head", q[0]);
    case_out(c, "tail", q[1]);
    case_out(c, "all", r[0]);
}

static void split_large(Case *c)
{
    Tensor p[2];
    split(p, 2, case_in(c, "x", SHAPE(1000, 66), -2, 2), 1);
    case_out(c, "y", mul(p[0], p[1]));
}

const OpCase cases_split[] = {
    { "parts", split_parts,
      "p = x.chunk(3, -1); gate = p[0] * p[2]; head = x[:, :1]; tail = x[:, 1:]; all = x * 1" },
    { "large", split_large, "p = x.chunk(2, 1); y = p[0] * p[1]", CASE_LIVE_ONLY },
    { 0 }
};

static void slice_copies(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(3, 5, 4), -2, 2);
    case_out(c, "middle", slice(x, 1, 1, 4));
    case_out(c, "last", slice(x, -1, 3, 4));
    case_out(c, "whole", slice(x, 0, 0, 3));
}

const OpCase cases_slice[] = {
    { "copies", slice_copies, "middle = x[:, 1:4]; last = x[:, :, 3:]; whole = x * 1" }, { 0 }
};

static void slice_views(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(5, 3, 7), -2, 2), z = case_in(c, "z", SHAPE(1, 5, 3), -2, 2);
    case_out(c, "y", mul(slice(x, 0, 1, 3), slice(x, 0, 3, 5)));
    case_out(c, "again", slice(slice(x, 0, 1, 5), 0, 2, 3));
    case_out(c, "under", affine(slice(z, 1, 1, 4), 2, 0)); /* the axes before are ones */
}

const OpCase cases_slice_view[] = {
    { "views", slice_views, "y = x[1:3] * x[3:5]; again = x[3:4]; under = 2 * z[:, 1:4]" }, { 0 }
};

/* Slices with several readers, assembled in another order, and slices of what was assembled. */
static void part_puts(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(6, 3, 5), -2, 2), z = case_in(c, "z", SHAPE(1, 4, 3), -2, 2);
    Tensor all = whole_view(x), whole = tensor_none(x.graph), sides = tensor_none(x.graph),
           ends = whole_view(z);
    for (int i = 2; i >= 0; i--) {
        Tensor p = part(all, 0, 2 * i, 2 * i + 2);
        whole = put(mul(p, affine(p, 2, (float)i)), whole, SHAPE(6, 3, 5), 0, 2 * i);
    }
    sides = put(affine(part(ends, 1, 0, 3), -1, 0), sides, SHAPE(1, 4, 3), 1, 0);
    sides = put(part(ends, 1, 3, 4), sides, SHAPE(1, 4, 3), 1, 3);
    case_out(c, "y", mul(whole, x)); /* x has a reader besides its slices */
    case_out(c, "sides", sides);
}

const OpCase cases_part[] = { { "puts", part_puts,
                                "i = torch.tensor([0, 0, 1, 1, 2, 2], dtype=x.dtype).view(6, 1, "
                                "1); y = x * (2 * x + i) * x; "
                                "sides = torch.cat((-z[:, :3], z[:, 3:]), 1)" },
                              { 0 } };

const OpCase cases_put[] = { { "puts", part_puts,
                               "i = torch.tensor([0, 0, 1, 1, 2, 2], dtype=x.dtype).view(6, 1, 1); "
                               "y = x * (2 * x + i) * x; "
                               "sides = torch.cat((-z[:, :3], z[:, 3:]), 1)" },
                             { 0 } };

static void pad_axes(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(2, 3, 4, 2), -2, 2);
    case_out(c, "y", pad(x, (PadAttr){ { 0, 1, 2, 0 }, { 0, 2, 0, 0 } }));
    case_out(c, "channels", pad_axis(x, -1, 1, 3));
    case_out(c, "batch", pad_axis(x, 0, 1, 1));
    case_out(c, "none", pad_axis(x, 1, 0, 0));
}

static void pad_large(Case *c)
{
    case_out(
        c, "y",
        pad(case_in(c, "x", SHAPE(2, 99, 51, 5), -2, 2), (PadAttr){ { 0, 1, 1 }, { 0, 1, 1 } }));
}

const OpCase cases_pad[] = { { "axes", pad_axes,
                               "y = F.pad(x, (0, 0, 2, 0, 1, 2)); channels = F.pad(x, (1, 3)); "
                               "batch = F.pad(x, (0, 0, 0, 0, 0, 0, 1, 1)); none = x * 1" },
                             { "large", pad_large, "y = F.pad(x, (0, 0, 1, 1, 1, 1))",
                               CASE_LIVE_ONLY },
                             { 0 } };

static void shift_ways(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(2, 5, 3), -2, 2);
    case_out(c, "right", shift(x, 1, 1));
    case_out(c, "left", shift(x, 1, -2));
    case_out(c, "channels", shift(x, -1, 2));
    case_out(c, "gone", shift(x, 1, 9));
    case_out(c, "stays", shift(x, 1, 0));
}

static void shift_large(Case *c)
{
    case_out(c, "y", shift(case_in(c, "x", SHAPE(1, 3001, 33), -2, 2), 1, 1));
}

static void shift_rows(Case *c) /* along the axis that chunks slice: never in chunks */
{
    case_out(c, "y", shift(case_in(c, "x", SHAPE(6, 4), -2, 2), 0, 1));
}

const OpCase cases_shift[] = {
    { "ways", shift_ways,
      "right = F.pad(x, (0, 0, 1, 0))[:, :5]; left = F.pad(x, (0, 0, 0, 2))[:, 2:]; "
      "channels = F.pad(x, (2, 0))[:, :, :3]; gone = x * 0; stays = x * 1" },
    { "large", shift_large, "y = F.pad(x, (0, 0, 1, 0))[:, :3001]", CASE_LIVE_ONLY },
    { "along the rows", shift_rows, "y = F.pad(x, (0, 0, 1, 0))[:6]", CASE_LIVE_ONLY },
    { 0 }
};
