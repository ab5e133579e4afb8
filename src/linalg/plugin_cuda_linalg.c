/* plugin_cuda_linalg.c -- the CUDA backend: chooses a method for every product and convolution.
 *
 *   1x1, stride 1             one product over all positions, or one for each group
 *   depthwise                 built-in kernels (depth_conv.h)
 *   2-byte types on Hopper    built-in kernels (direct_conv.h), if the stride is 1 or 2 and the
 *                             numbers of channels are multiples of 8
 *   2-byte, few in channels   built-in kernels (narrow_conv.h)
 *   cuDNN has an engine       weights are transposed to (O,taps,I) in workspace, one call
 *   else                      im2col (Chellapilla et al. 2006): windows of a chunk of positions are
 *                             unfolded, then multiplied, group by group. This covers every remaining
 *                             shape.
 */
#include "linalg/plugin_cuda_linalg.h"

#include "base/int_math.h"
#include "linalg/depth_conv.h"
#include "linalg/direct_conv.h"
#include "linalg/narrow_conv.h"

#include <string.h>

enum {
    WORKSPACE_ALIGN = 256,
    WINDOW_BYTES = 64 << 20, /* of unfolded windows at once: enough to fill a GPU */
    MIN_CHUNK = 128,         /* positions */
    PITCH_UNIT = 8,          /* elements: tensor cores need widths that are multiples */
};

typedef enum Method {
    METHOD_MATMUL,    /* a product, not a convolution */
    METHOD_POINTWISE, /* a 1x1 convolution: one product */
    METHOD_DIRECT,
    METHOD_NARROW,
    METHOD_DEPTH,
    METHOD_CUDNN,
    METHOD_IM2COL,
} Method;

typedef struct CudaPrim {
    Prim              head;
    const CudaHandle *handle;
    Method            method;
    ConvDesc          conv;
    DirectConv        direct;
    NarrowConv        narrow;
    DepthGpuConv      depth;
    CudnnConv        *cudnn;
    /* POINTWISE and IM2COL */
    Im2colDesc        im2col;
    int64_t           rows;   /* of windows in all: output positions */
    int64_t           chunk;  /* rows at once; backward data: of the largest band */
    int               axis;   /* backward data: dx is divided into bands along D or H */
    int64_t           band;   /* extent of a band along that axis */
    bool              of_dy;  /* backward weights: unfolds dy instead of x */
    bool              padded; /* backward weights: products are as wide as the pitch */
    size_t            window_bytes;
    size_t            transposed_bytes; /* workspace of weights or gradient in another layout */
    CudaMatmul       *matmul, *last;    /* of a chunk, and of the last one if that is shorter */
    CudaMatmul       *first;            /* backward weights: of the first chunk, which overwrites */
} CudaPrim;

static int64_t product3(const int64_t *x) { return x[0] * x[1] * x[2]; }

static int64_t clamp(int64_t n, int64_t low, int64_t high)
{
    n = n < low ? low : n;
    return n > high ? high : n;
}

/* Also raises the workspace to what the product needs; windows are placed behind it afterwards. */
static Err prim_matmul(Pool *pool, CudaPrim *p, MatmulDesc d, CudaMatmul **matmul)
{
    size_t bytes = cuda_matmul_workspace(&d);
    if (bytes > p->head.workspace_bytes)
        p->head.workspace_bytes = bytes;
    return cuda_matmul_new(pool, p->handle, &d, matmul);
}

/* --- im2col and products --- */

/* Bytes from one group's channels to the next's. */
static int64_t group_bytes(int64_t channels, int64_t groups, Type type)
{
    return channels / groups * type_bytes(type);
}

/* The product of `rows` positions: y = windows w, windows = y w', or w += windows' y; of one group,
 * or by 1x1 of all of them. */
static MatmulDesc chunk_desc(const CudaPrim *p, int64_t rows, bool first)
{
    const ConvDesc *c = &p->conv;
    int64_t         pitch = p->im2col.pitch, ci = c->ci / c->groups, co = c->co / c->groups;
    int64_t         deep = p->padded ? pitch : product3(c->kernel) * ci;
    MatmulDesc      d = { .batch = p->method == METHOD_POINTWISE ? c->groups : 1 };
    if (c->kind == CONV_FORWARD) {
        d.m = rows, d.n = co, d.k = deep, d.lda = pitch, d.ldb = c->co, d.ldc = c->co;
        d.type_a = c->type_x, d.type_b = c->type_w, d.type_c = c->type_y;
        d.bias = c->bias && d.batch == 1, d.type_bias = c->type_bias;
        d.stride_a = ci, d.stride_b = co, d.stride_c = co;
    } else if (c->kind == CONV_BACKWARD_DATA) {
        d.m = rows, d.n = deep, d.k = co, d.lda = c->co, d.ldb = c->co, d.ldc = pitch;
        d.trans_b = true;
        d.type_a = c->type_y, d.type_b = c->type_w;
        d.type_c = p->method == METHOD_POINTWISE ? c->type_x : F32;
        d.stride_a = co, d.stride_b = co, d.stride_c = ci;
    } else if (p->of_dy) { /* (tap, o) by i, transposed afterwards */
        d.m = p->padded ? pitch : product3(c->kernel) * c->co;
        d.n = c->ci, d.k = rows, d.lda = pitch, d.ldb = c->ci, d.ldc = c->ci;
        d.trans_a = true;
        d.type_a = c->type_y, d.type_b = c->type_x, d.type_c = F32;
        d.accumulate = !first;
    } else {
        d.m = deep, d.n = co, d.k = rows, d.lda = pitch, d.ldb = c->co, d.ldc = c->co;
        d.trans_a = true;
        d.type_a = c->type_x, d.type_b = c->type_y, d.type_c = c->type_w;
        d.accumulate = !first;
        d.stride_a = ci, d.stride_b = co, d.stride_c = co;
    }
    if (d.batch == 1)
        d.stride_a = d.stride_b = d.stride_c = 0;
    return d;
}

/* The output range along the band axis that the input range [from, to) contributes to. */
static void band_outputs(const CudaPrim *p, int64_t from, int64_t to, int64_t *first, int64_t *last)
{
    const ConvDesc *c = &p->conv;
    int             a = p->axis;
    int64_t         low = from + c->pad_lo[a] - conv_reach(c->kernel[a], c->dilation[a]) + 1;
    int64_t         high = to - 1 + c->pad_lo[a];
    *first = low <= 0 ? 0 : ceil_div(low, c->stride[a]);
    *last = high / c->stride[a] + 1;
    *last = *last > c->out[a] ? c->out[a] : *last;
    *first = *first > *last ? *last : *first;
}

static int64_t band_end(const CudaPrim *p, int64_t from)
{
    int64_t extent = p->conv.in[p->axis];
    return from + p->band < extent ? from + p->band : extent;
}

/* Output positions for each output index along the band axis. */
static int64_t band_positions(const CudaPrim *p)
{
    const ConvDesc *c = &p->conv;
    return p->axis == 0 ? c->out[1] * c->out[2] : c->out[2];
}

/* dw[tap, i, o] is also a sum over x's positions q of x[q, i] dy[q - tap, o]: with few output
 * channels the windows of dy, its taps in reverse order, are far smaller than those of x. */
static bool im2col_pays_of_dy(const ConvDesc *c)
{
    for (int i = 0; i < 3; i++)
        if (c->stride[i] != 1 || c->pad_lo[i] >= c->kernel[i])
            return false;
    return conv_is_plain(c) && c->kind == CONV_BACKWARD_WEIGHTS && 2 * c->co <= c->ci;
}

/* Which windows are unfolded, and how many. */
static void im2col_describe(CudaPrim *p)
{
    const ConvDesc *c = &p->conv;
    Im2colDesc     *d = &p->im2col;
    const int64_t  *from = p->of_dy ? c->out : c->in, *to = p->of_dy ? c->in : c->out;
    d->pixel = p->of_dy ? c->co : c->ci;
    d->ci = d->pixel / c->groups;
    for (int i = 0; i < 3; i++) {
        d->in[i] = from[i], d->out[i] = to[i], d->kernel[i] = c->kernel[i];
        d->stride[i] = c->stride[i];
        d->dilation[i] = c->kernel[i] > 1 ? c->dilation[i] : 1;
        d->pad_lo[i] = p->of_dy ? c->kernel[i] - 1 - c->pad_lo[i] : c->pad_lo[i];
    }
    d->pitch = p->method == METHOD_POINTWISE ? c->ci
                                             : align_up(product3(c->kernel) * d->ci, PITCH_UNIT);
    p->rows = c->n * product3(to);
}

/* A weight gradient whose layout differs from dw's is computed in workspace first. */
static void im2col_place_gradient(CudaPrim *p)
{
    const ConvDesc *c = &p->conv;
    p->padded = p->method == METHOD_IM2COL && c->kind == CONV_BACKWARD_WEIGHTS && c->groups == 1 &&
                type_bytes(c->type_x) == 2 && p->im2col.pitch != product3(c->kernel) * p->im2col.ci;
    if (p->of_dy || p->padded) {
        int64_t count = p->im2col.pitch * (p->of_dy ? c->ci : c->co);
        p->transposed_bytes = (size_t)align_up(count * (int64_t)sizeof(float), WORKSPACE_ALIGN);
    }
}

/* Bytes of a row of windows; those of dx are sums, in fp32. */
static int64_t im2col_row_bytes(const CudaPrim *p)
{
    const ConvDesc *c = &p->conv;
    int64_t         element = c->kind == CONV_BACKWARD_DATA ? (int64_t)sizeof(float)
                                                            : type_bytes(p->of_dy ? c->type_y : c->type_x);
    return p->im2col.pitch * element;
}

/* Forward and backward weights: as many positions at once as WINDOW_BYTES hold. */
static void im2col_choose_chunk(CudaPrim *p)
{
    p->chunk = clamp(WINDOW_BYTES / im2col_row_bytes(p), MIN_CHUNK, p->rows);
    p->window_bytes = (size_t)(p->chunk * im2col_row_bytes(p));
}

/* Backward data: dx is computed band by band; a chunk has the positions that the largest band
 * needs. */
static void im2col_choose_band(CudaPrim *p)
{
    const ConvDesc *c = &p->conv;
    p->axis = c->in[0] > 1 ? 0 : 1;
    int64_t stride = c->stride[p->axis], extent = c->in[p->axis];
    int64_t outputs = WINDOW_BYTES / (im2col_row_bytes(p) * band_positions(p));
    int64_t reach = conv_reach(c->kernel[p->axis], c->dilation[p->axis]);
    p->band = clamp((outputs - reach) * stride, stride, extent);
    for (int64_t from = 0; from < extent; from += p->band) {
        int64_t first, last;
        band_outputs(p, from, band_end(p, from), &first, &last);
        int64_t positions = (last - first) * band_positions(p);
        p->chunk = positions > p->chunk ? positions : p->chunk;
    }
    p->window_bytes = (size_t)align_up(p->chunk * im2col_row_bytes(p), WORKSPACE_ALIGN);
}

static Err im2col_make_products(Pool *pool, CudaPrim *p)
{
    if (p->conv.kind == CONV_BACKWARD_DATA) {
        /* One product of the largest band's rows serves all bands; what it computes too much for a
         * smaller one is not read. */
        return p->chunk > 0 ? prim_matmul(pool, p, chunk_desc(p, p->chunk, false), &p->matmul) : OK;
    }
    int64_t rest = p->rows % p->chunk;
    TRY(prim_matmul(pool, p, chunk_desc(p, p->chunk, false), &p->matmul));
    if (p->conv.kind == CONV_BACKWARD_WEIGHTS)
        TRY(prim_matmul(pool, p, chunk_desc(p, p->chunk, true), &p->first));
    return rest ? prim_matmul(pool, p, chunk_desc(p, rest, false), &p->last) : OK;
}

/* A sequence is an image of one row; as one of one column it can be divided into bands. */
static void im2col_turn(ConvDesc *c)
{
    if (c->in[1] != 1 || c->out[1] != 1 || c->kernel[1] != 1)
        return;
    int64_t *axes[] = { c->in, c->out, c->kernel, c->stride, c->pad_lo, c->pad_hi, c->dilation };
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) {
        int64_t tall = axes[i][1];
        axes[i][1] = axes[i][2];
        axes[i][2] = tall;
    }
}

/* For POINTWISE as well: one chunk whose windows are x itself. */
static Err im2col_new(Pool *pool, CudaPrim *p)
{
    if (p->method == METHOD_IM2COL && p->conv.kind == CONV_BACKWARD_DATA)
        im2col_turn(&p->conv);
    p->of_dy = p->method == METHOD_IM2COL && im2col_pays_of_dy(&p->conv);
    im2col_describe(p);
    im2col_place_gradient(p);
    if (p->method == METHOD_POINTWISE)
        p->chunk = p->rows;
    else if (p->conv.kind == CONV_BACKWARD_DATA)
        im2col_choose_band(p);
    else
        im2col_choose_chunk(p);
    return p->rows == 0 ? OK : im2col_make_products(pool, p);
}

static Err pointwise_run(const CudaPrim *p, const PrimArgs *args)
{
    void           *x = args->a, *w = args->b, *y = args->c, *workspace = args->workspace;
    const ConvDesc *c = &p->conv;
    if (c->kind == CONV_FORWARD) {
        TRY(cuda_matmul_run(p->matmul, x, w, args->bias, NULL, y, workspace));
        if (c->groups == 1 || !c->bias)
            return OK;
        return cuda_add_bias(p->handle->stream, c->type_y, y, c->co, c->type_bias, args->bias,
                             p->rows, c->co);
    }
    if (c->kind == CONV_BACKWARD_DATA)
        return cuda_matmul_run(p->matmul, y, w, NULL, NULL, x, workspace);
    return cuda_matmul_run(args->before ? p->matmul : p->first, x, y, NULL, args->before, w,
                           workspace);
}

/* Forward and backward weights of one group, chunk by chunk. */
static Err im2col_run_group(const CudaPrim *p, const PrimArgs *args, int64_t group)
{
    const ConvDesc *c = &p->conv;
    char           *x = (char *)args->a + group * group_bytes(c->ci, c->groups, c->type_x);
    char           *w = (char *)args->b + group * group_bytes(c->co, c->groups, c->type_w);
    char           *y = (char *)args->c + group * group_bytes(c->co, c->groups, c->type_y);
    const char     *bias = !args->bias ? NULL
                                       : (const char *)args->bias +
                                         group * group_bytes(c->co, c->groups, c->type_bias);
    const float    *before = args->before;
    char           *workspace = args->workspace;
    char           *windows = workspace + p->head.workspace_bytes - p->window_bytes;
    char           *transposed = windows - p->transposed_bytes;
    int64_t         row = p->of_dy ? c->ci * type_bytes(c->type_x) : c->co * type_bytes(c->type_y);
    int64_t         numbers = product3(c->kernel) * c->ci * c->co;
    cudaStream_t    stream = p->handle->stream;
    bool            weights = c->kind == CONV_BACKWARD_WEIGHTS, aside = p->of_dy || p->padded;
    before = before ? before + group * (c->co / c->groups) : NULL;
    for (int64_t r = 0; r < p->rows; r += p->chunk) {
        int64_t           rows = p->rows - r < p->chunk ? p->rows - r : p->chunk;
        const CudaMatmul *m = rows < p->chunk                           ? p->last
                              : weights && r == 0 && (!before || aside) ? p->first
                                                                        : p->matmul;
        TRY(cuda_im2col(stream, &p->im2col, p->of_dy ? c->type_y : c->type_x, p->of_dy ? y : x, r,
                        rows, windows));
        if (c->kind == CONV_FORWARD)
            TRY(cuda_matmul_run(m, windows, w, bias, NULL, y + r * row, workspace));
        else if (p->of_dy)
            TRY(cuda_matmul_run(m, windows, x + r * row, NULL, NULL, transposed, workspace));
        else
            TRY(cuda_matmul_run(m, windows, y + r * row, NULL, r == 0 && !aside ? before : NULL,
                                aside ? transposed : w, workspace));
    }
    if (p->of_dy)
        return cuda_transpose_taps(stream, (const float *)transposed, product3(c->kernel), c->ci,
                                   c->co, before, (float *)w);
    if (aside) /* the same layout, without the padding at its end */
        return cuda_transpose_taps(stream, (const float *)transposed, 1, numbers, 1, before,
                                   (float *)w);
    return OK;
}

/* dx band by band: the windows of all outputs that reach into it, then their sums. */
static Err im2col_run_data(const CudaPrim *p, const PrimArgs *args, int64_t group)
{
    const ConvDesc *c = &p->conv;
    char           *dx = (char *)args->a + group * group_bytes(c->ci, c->groups, c->type_x);
    char           *w = (char *)args->b + group * group_bytes(c->co, c->groups, c->type_w);
    char           *dy = (char *)args->c + group * group_bytes(c->co, c->groups, c->type_y);
    char           *workspace = args->workspace;
    char           *windows = workspace + p->head.workspace_bytes - p->window_bytes;
    int64_t         spatial = product3(c->out), row_bytes = c->co * type_bytes(c->type_y);
    for (int64_t image = 0; image < c->n; image++)
        for (int64_t from = 0; from < c->in[p->axis]; from += p->band) {
            int64_t first, last, to = band_end(p, from);
            band_outputs(p, from, to, &first, &last);
            /* The product has one size: a band at the end starts earlier instead of reading past
             * dy. */
            int64_t start = first * band_positions(p);
            start = start + p->chunk > spatial ? spatial - p->chunk : start;
            if (p->chunk > 0)
                TRY(cuda_matmul_run(p->matmul, dy + (image * spatial + start) * row_bytes, w, NULL,
                                    NULL, windows, workspace));
            TRY(cuda_col2im(p->handle->stream, &p->im2col, c->type_x, dx, image, p->axis, from, to,
                            (const float *)windows, start, p->chunk));
        }
    return OK;
}

static Err im2col_run(const CudaPrim *p, const PrimArgs *args)
{
    for (int64_t group = 0; group < p->conv.groups; group++)
        TRY(p->conv.kind == CONV_BACKWARD_DATA ? im2col_run_data(p, args, group)
                                               : im2col_run_group(p, args, group));
    return OK;
}

/* --- cuDNN --- */

static Err cudnn_run(const CudaPrim *p, const PrimArgs *args)
{
    const ConvDesc *c = &p->conv;
    void           *x = args->a, *w = args->b, *y = args->c;
    char           *workspace = args->workspace;
    int64_t         deep = product3(c->kernel) * (c->ci / c->groups);
    char           *transposed = workspace + p->head.workspace_bytes - p->transposed_bytes;
    cudaStream_t    stream = p->handle->stream;
    if (c->kind != CONV_BACKWARD_WEIGHTS)
        TRY(cuda_transpose(stream, c->type_w, w, deep, c->co, NULL, transposed));
    TRY(cudnn_conv_run(p->cudnn, x, transposed, y, workspace));
    if (c->kind == CONV_BACKWARD_WEIGHTS)
        return cuda_transpose(stream, c->type_w, transposed, c->co, deep, args->before, w);
    if (c->bias)
        return cuda_add_bias(stream, c->type_y, y, c->co, c->type_bias, args->bias,
                             c->n * product3(c->out), c->co);
    return OK;
}

/* --- the backend --- */

typedef struct CudaBackend {
    Backend           face;
    const CudaHandle *handle;
} CudaBackend;

static CudaBackend backends[2]; /* without and with tf32 */

static Err cuda_prim_run(const Prim *prim, const PrimArgs *args)
{
    const CudaPrim *p = (const CudaPrim *)prim;
    if (p->method == METHOD_MATMUL)
        return cuda_matmul_run(p->matmul, args->a, args->b, args->bias, args->before, args->c,
                               args->workspace);
    if (p->rows == 0)
        return OK;
    switch (p->method) {
    case METHOD_DIRECT:
        return direct_conv_run(p->handle, &p->direct,
                               &(DirectArgs){ .x = args->a,
                                              .w = args->b,
                                              .y = args->c,
                                              .bias = args->bias,
                                              .before = args->before,
                                              .sums = args->sums,
                                              .sums_before = args->sums_before,
                                              .workspace = args->workspace });
    case METHOD_NARROW:
        return narrow_conv_run(p->handle, &p->narrow, args->a, args->b, args->c, args->bias,
                               args->before, args->workspace);
    case METHOD_CUDNN: return cudnn_run(p, args);
    case METHOD_POINTWISE: return pointwise_run(p, args);
    case METHOD_DEPTH:
        return depth_conv_run(p->handle, &p->depth, args->a, args->b, args->c, args->bias,
                              args->before, args->workspace);
    default: return im2col_run(p, args);
    }
}

static Err linalg_new_matmul(const CudaBackend *backend, Pool *pool, const MatmulDesc *desc,
                             Prim **out)
{
    CudaPrim *p = NEW(pool, CudaPrim);
    p->head.backend = &backend->face;
    p->head.impl = "cublaslt";
    p->handle = backend->handle;
    TRY(prim_matmul(pool, p, *desc, &p->matmul));
    *out = &p->head;
    return OK;
}

static bool conv_is_pointwise(const ConvDesc *c)
{
    for (int i = 0; i < 3; i++)
        if (c->kernel[i] != 1 || c->stride[i] != 1 || c->pad_lo[i] || c->pad_hi[i])
            return false;
    return true;
}

/* Groups as one batched product: if every group begins at a multiple of 16 bytes, as the library's
 * algorithms for aligned pointers need. */
static bool groups_aligned(const ConvDesc *c)
{
    enum { ALIGNED = 16 };
    return c->groups == 1 || (group_bytes(c->ci, c->groups, c->type_x) % ALIGNED == 0 &&
                              group_bytes(c->co, c->groups, c->type_y) % ALIGNED == 0 &&
                              group_bytes(c->co, c->groups, c->type_w) % ALIGNED == 0);
}

/* fp32 weight gradients of a 5x5 window by cuDNN 9.19 (H200, 64 to 32 channels) were off by 6.8e-4
 * of their norm, which is what factors rounded to tf32 give, though the engines report no such
 * rounding. Windows of up to 4x4 were right wherever they were tried. */
static bool cudnn_would_round(const CudaHandle *handle, const ConvDesc *d)
{
    return d->kind == CONV_BACKWARD_WEIGHTS && d->type_x == F32 && d->type_y == F32 &&
           !handle->tf32 && product3(d->kernel) > 16;
}

/* The first method that can do it. The built-in kernels and cuDNN cannot do an empty
 * convolution. */
static Method conv_choose(Pool *pool, CudaPrim *p)
{
    bool plain = conv_is_plain(&p->conv);
    if (p->rows && depth_conv_plan(&p->conv, &p->depth))
        return METHOD_DEPTH;
    if (conv_is_pointwise(&p->conv) && groups_aligned(&p->conv))
        return METHOD_POINTWISE;
    if (plain && p->rows && direct_conv_plan(p->handle, &p->conv, &p->direct))
        return METHOD_DIRECT;
    if (plain && p->rows && narrow_conv_plan(p->handle, &p->conv, &p->narrow))
        return METHOD_NARROW;
    if (p->rows && !cudnn_would_round(p->handle, &p->conv) &&
        cudnn_conv_new(pool, p->handle, &p->conv, &p->cudnn) == OK)
        return METHOD_CUDNN;
    return METHOD_IM2COL;
}

static Err linalg_new_conv(const CudaBackend *backend, Pool *pool, const ConvDesc *desc, Prim **out)
{
    CudaPrim *p = NEW(pool, CudaPrim);
    p->head.backend = &backend->face;
    p->handle = backend->handle;
    p->conv = conv_filled(desc);
    p->rows = desc->n * product3(desc->out);
    p->method = conv_choose(pool, p);
    switch (p->method) {
    case METHOD_DIRECT:
        p->head.sums = desc->kind == CONV_BACKWARD_WEIGHTS;
        p->head.workspace_bytes = direct_conv_workspace(&p->direct);
        p->head.impl = "wgmma";
        break;
    case METHOD_NARROW:
        p->head.workspace_bytes = narrow_conv_workspace(&p->narrow);
        p->head.impl = "narrow";
        break;
    case METHOD_DEPTH:
        p->head.workspace_bytes = depth_conv_workspace(&p->depth);
        p->head.impl = "depth";
        break;
    case METHOD_CUDNN:
        p->transposed_bytes = (size_t)(product3(desc->kernel) * (desc->ci / p->conv.groups) *
                                       desc->co * type_bytes(desc->type_w));
        p->head.workspace_bytes = align_bytes(cudnn_conv_workspace(p->cudnn), WORKSPACE_ALIGN) +
                                  p->transposed_bytes;
        p->head.impl = cudnn_conv_name(p->cudnn);
        break;
    default:
        TRY(im2col_new(pool, p));
        p->head.workspace_bytes = align_bytes(p->head.workspace_bytes, WORKSPACE_ALIGN) +
                                  p->transposed_bytes + p->window_bytes;
        p->head.impl = p->method == METHOD_POINTWISE ? "cublaslt" : "im2col";
        break;
    }
    *out = &p->head;
    return OK;
}

static Err matmul_ieee(Pool *pool, const MatmulDesc *d, int threads, Prim **prim)
{
    (void)threads;
    return linalg_new_matmul(&backends[0], pool, d, prim);
}
static Err matmul_tf32(Pool *pool, const MatmulDesc *d, int threads, Prim **prim)
{
    (void)threads;
    return linalg_new_matmul(&backends[1], pool, d, prim);
}
static Err conv_ieee(Pool *pool, const ConvDesc *d, int threads, Prim **prim)
{
    (void)threads;
    return linalg_new_conv(&backends[0], pool, d, prim);
}
static Err conv_tf32(Pool *pool, const ConvDesc *d, int threads, Prim **prim)
{
    (void)threads;
    return linalg_new_conv(&backends[1], pool, d, prim);
}

const Backend *cuda_backend(const CudaHandle *handle)
{
    static CudaHandle kept[2]; /* primitives are cached for the life of the process */
    int               i = handle->tf32;
    kept[i] = *handle;
    backends[i] = (CudaBackend){ { .name = i ? "cuda-tf32" : "cuda",
                                   .version = "",
                                   .bf16_pays = true,
                                   .subpixel = cuda_has_sm90a(handle),
                                   .alone = true,
                                   .matmul = i ? matmul_tf32 : matmul_ieee,
                                   .conv = i ? conv_tf32 : conv_ieee,
                                   .run = cuda_prim_run },
                                 &kept[i] };
    return &backends[i].face;
}
