/* lower_sample.c -- pooling and other sizes of maps. */
#include "import/lower.h"

#include "ops/resample/grid_sample.h"
#include "ops/resample/pooling.h"
#include "ops/resample/resize.h"

#include <string.h>

/* (N, C, ...) with the channels innermost. */
static Err map_of(Lower *l, const char *name, int n, int *order, Tensor *t)
{
    View x;
    TRY(arg_view(l, name, &x));
    bool lone = x.rank == n + 1; /* no batch axis */
    if (lone)
        x = view_inserted(x, 0, 1);
    if (x.rank != n + 2)
        return refuse(l, "an input with %d axes", x.rank);
    order_channels_last(n + 2, order);
    *t = view_tensor(x, order);
    for (int i = 0; lone && i <= n; i++) /* of the result */
        order[i] = order[i + 1] - 1;
    return graph_check(l->graph);
}

static Err pool_of(Lower *l)
{
    int      n = l->def->with & 3, order[VIEW_RANK];
    Tensor   x;
    int64_t  pad[3];
    PoolAttr at = { .kind = l->def->with & 4 ? POOL_AVG : POOL_MAX };
    TRY(map_of(l, "self", n, order, &x));
    TRY(arg_fill(l, "kernel_size", n, 1, at.kernel));
    memcpy(at.stride, at.kernel, sizeof at.stride);
    if (arg_given(l, "stride") && arg(l, "stride")->n)
        TRY(arg_fill(l, "stride", n, 1, at.stride));
    TRY(arg_fill(l, "padding", n, 0, pad));
    TRY(arg_fill(l, "dilation", n, 1, at.dilation));
    memcpy(at.pad_lo, pad, sizeof pad);
    memcpy(at.pad_hi, pad, sizeof pad);
    at.ceil_mode = arg_bool(l, "ceil_mode", false);
    at.count_padding = arg_bool(l, "count_include_pad", true);
    TRY(arg_int(l, "divisor_override", 0, &at.divisor));
    return give_tensor(l, 0, pool_op(x, at), order);
}

static Err adaptive(Lower *l)
{
    int     n = l->def->with & 3, order[VIEW_RANK];
    Tensor  x;
    int64_t size[3];
    Err     err;
    TRY(map_of(l, "self", n, order, &x));
    Dims dims = out_dims(l, 0, &err);
    TRY(err);
    if (dims.rank < n)
        return refuse(l, "a result of %d axes", dims.rank);
    for (int i = 0; i < n; i++)
        size[i] = dims.at[dims.rank - n + i];
    Tensor y = adaptive_pool(x, size, l->def->with & 4 ? POOL_AVG : POOL_MAX);
    return give_tensor(l, 0, y, order);
}

static Err resize_of(Lower *l)
{
    static const ResizeMode modes[] = { RESIZE_NEAREST, RESIZE_NEAREST_EXACT, RESIZE_BILINEAR,
                                        RESIZE_BICUBIC };
    int                     order[VIEW_RANK], n = l->def->with & 3;
    Tensor                  x;
    Err                     err;
    const ExportedArg      *scales = arg(l, "scale_factors");
    ResizeAttr              at = { .mode = modes[l->def->with >> 2 & 3],
                                   .align_corners = arg_bool(l, "align_corners", false),
                                   .antialias = l->def->with >> 4 };
    TRY(map_of(l, arg_given(l, "input") ? "input" : "self", n, order, &x));
    Dims dims = out_dims(l, 0, &err);
    TRY(err);
    if (dims.rank < n)
        return refuse(l, "a result of %d axes", dims.rank);
    for (int i = 0; i < n; i++) {
        at.size[i] = dims.at[dims.rank - n + i];
        if (scales && scales->kind == ARG_FLOATS && i < scales->n)
            at.scale[i] = scales->floats[i];
    }
    static const char *const alone[] = { "scales_d", "scales_h", "scales_w" };
    for (int i = 0; i < n; i++) /* of a program that was decomposed */
        TRY(arg_float(l, n == 1 ? "scales" : alone[3 - n + i], at.scale[i], &at.scale[i]));
    return give_tensor(l, 0, resize_op(x, at), order);
}

static Err grid_sampled(Lower *l)
{
    int     order[VIEW_RANK];
    Tensor  x;
    View    grid;
    int64_t mode, padding;
    TRY(arg_view(l, "grid", &grid));
    if (grid.rank == 5)
        return lower_volume_sampled(l);
    TRY(map_of(l, "input", 2, order, &x));
    TRY(arg_int(l, "interpolation_mode", 0, &mode));
    TRY(arg_int(l, "padding_mode", 0, &padding));
    GridSampleAttr at = { .mode = (GridMode)mode,
                          .padding = (GridPadding)padding,
                          .align_corners = arg_bool(l, "align_corners", false) };
    return give_tensor(l, 0, grid_sample(x, view_tensor(grid, NULL), at), order);
}

/* (N, C r r, H, W) <-> (N, C, H r, W r): views, then one copy at most. */
static Err pixel_shuffle(Lower *l)
{
    View    x;
    int64_t r;
    bool    down = l->def->with;
    TRY(arg_view(l, "self", &x));
    TRY(arg_int(l, down ? "downscale_factor" : "upscale_factor", 1, &r));
    if (x.rank != 4)
        return refuse(l, "an input with %d axes", x.rank);
    if (r < 1 || r > 1 << 20)
        return refuse(l, "a factor of %lld", (long long)r);
    int64_t n = x.dim[0], c = x.dim[1], h = x.dim[2], w = x.dim[3];
    Dims    six = down ? (Dims){ 6, { n, c, h / r, r, w / r, r } }
                       : (Dims){ 6, { n, c / r / r, r, r, h, w } };
    View    v = view_copied_reshape(x, six);
    v = view_permuted(v, down ? (int[]){ 0, 1, 3, 5, 2, 4 } : (int[]){ 0, 1, 4, 2, 5, 3 });
    Err  err;
    Dims dims = out_dims(l, 0, &err);
    TRY(err);
    View out;
    if (view_reshaped(v, dims, &out))
        return give_view(l, 0, out);
    /* The copy leaves the channels innermost, as the next convolution wants them. */
    int    order[6] = { 0, 4, 5, 1, 2, 3 }, up[6] = { 0, 2, 3, 4, 5, 1 };
    int    last[4] = { 0, 2, 3, 1 };
    Tensor t = view_tensor(v, down ? order : up);
    return give_tensor(l, 0, t, last);
}

/* clang-format off */
const LowerDef lower_samples[] = {
    { "aten.max_pool1d.default", pool_of, 1, false }, { "aten.max_pool2d.default", pool_of, 2, false },
    { "aten.max_pool2d_with_indices.default", pool_of, 2, false },
    { "aten.max_pool3d_with_indices.default", pool_of, 3, false },
    { "aten._adaptive_avg_pool2d.default", adaptive, 4 | 2, false },
    { "aten._adaptive_avg_pool3d.default", adaptive, 4 | 3, false },
    { "aten.upsample_nearest1d.default", resize_of, 1, false },
    { "aten.upsample_nearest2d.default", resize_of, 2, false },
    { "aten.upsample_nearest3d.default", resize_of, 3, false },
    { "aten.upsample_linear1d.default", resize_of, 2 << 2 | 1, false },
    { "aten.upsample_bilinear2d.default", resize_of, 2 << 2 | 2, false },
    { "aten.upsample_trilinear3d.default", resize_of, 2 << 2 | 3, false },
    { "aten.upsample_bicubic2d.default", resize_of, 3 << 2 | 2, false },
    { "aten.max_pool3d.default", pool_of, 3, false }, { "aten.avg_pool1d.default", pool_of, 4 | 1, false },
    { "aten.avg_pool2d.default", pool_of, 4 | 2, false }, { "aten.avg_pool3d.default", pool_of, 4 | 3, false },
    { "aten.adaptive_avg_pool1d.default", adaptive, 4 | 1, false },
    { "aten.adaptive_avg_pool2d.default", adaptive, 4 | 2, false },
    { "aten.adaptive_avg_pool3d.default", adaptive, 4 | 3, false },
    { "aten.adaptive_max_pool1d.default", adaptive, 1, false },
    { "aten.adaptive_max_pool2d.default", adaptive, 2, false },
    { "aten.adaptive_max_pool3d.default", adaptive, 3, false },
    { "aten.upsample_nearest1d.vec", resize_of, 1, false },
    { "aten.upsample_nearest2d.vec", resize_of, 2, false },
    { "aten.upsample_nearest3d.vec", resize_of, 3, false },
    { "aten._upsample_nearest_exact1d.vec", resize_of, 1 << 2 | 1, false },
    { "aten._upsample_nearest_exact2d.vec", resize_of, 1 << 2 | 2, false },
    { "aten._upsample_nearest_exact3d.vec", resize_of, 1 << 2 | 3, false },
    { "aten.upsample_linear1d.vec", resize_of, 2 << 2 | 1, false },
    { "aten.upsample_bilinear2d.vec", resize_of, 2 << 2 | 2, false },
    { "aten.upsample_trilinear3d.vec", resize_of, 2 << 2 | 3, false },
    { "aten.upsample_bicubic2d.vec", resize_of, 3 << 2 | 2, false },
    { "aten._upsample_bilinear2d_aa.vec", resize_of, 1 << 4 | 2 << 2 | 2, false },
    { "aten._upsample_bicubic2d_aa.vec", resize_of, 1 << 4 | 3 << 2 | 2, false },
    { "aten.grid_sampler.default", grid_sampled, 0, false },
    { "aten.grid_sampler_2d.default", grid_sampled, 0, false },
    { "aten.grid_sampler_3d.default", lower_volume_sampled, 0, false },
    { "aten.pixel_shuffle.default", pixel_shuffle, 0, false },
    { "aten.pixel_unshuffle.default", pixel_shuffle, 1, false },
    { 0 }
};
/* clang-format on */
