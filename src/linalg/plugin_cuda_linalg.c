/* plugin_cuda_linalg.c -- convolutions out of cuDNN's, or out of columns and products.
 *
 *   1x1, stride 1             one product over all positions
 *   2-byte types on Hopper    own kernels (direct_conv.h), if the stride is 1 or 2 and channels
 *                             come in eights
 *   2-byte, few in channels   own kernels too (narrow_conv.h)
 *   cuDNN has an engine       weights are turned (taps,I,O) -> (O,taps,I) in workspace, one call
 *   else                      pieces: columns of some positions, then a product (im2col;
 *                             Chellapilla et al. 2006). Thin and odd shapes land here, so it must
 *                             be complete.
 */
#include "linalg/plugin_cuda_linalg.h"

#include "linalg/direct_conv.h"
#include "linalg/narrow_conv.h"

#include <string.h>

enum { PIECE_BYTES = 64 << 20 };         /* of columns at once: enough to fill a GPU */

typedef struct CudaPrim {
    Prim              head;
    const CudaHandle *handle;
    bool              is_conv, direct;
    ConvDesc          conv;
    ColumnsDesc       columns;
    /* output positions in all, and at once (backward data: a band's) */
    int64_t           rows, piece;
    int               axis;              /* backward data: bands along D or H */
    int64_t           band;              /* input lines in a band */
    size_t            columns_bytes, transposed_bytes;
    bool              thin;  /* backward weights of few output channels: columns of dy, not of x */
    bool              padded;            /* products take a row's whole pitch, a multiple of 8 */
    CudaMatmul       *matmul, *last;     /* of a piece, and of the last piece if that is shorter */
    CudaMatmul       *first;  /* backward weights: of the first piece, which overwrites */
    CudnnConv        *cudnn;
    bool              straight;          /* by own kernels from x, w and y */
    DirectConv        tiled;
    bool              narrow;            /* the same from few channels */
    NarrowConv        slim;
} CudaPrim;

static int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

static int64_t product3(const int64_t *x) { return x[0] * x[1] * x[2]; }

static Err prim_matmul(Pool *pool, const CudaPrim *p, MatmulDesc d, CudaMatmul **matmul)
{
    size_t room = cuda_matmul_workspace(&d), *have = &((CudaPrim *)(uintptr_t)p)->head.workspace_bytes;
    /* columns are added behind it when all products are known */
    *have = room > *have ? room : *have;
    return cuda_matmul_new(pool, p->handle, &d, matmul);
}

/* --- columns and products --- */

/* The product of `rows` positions: y = columns w, columns = y w', or w += columns' y. */
static MatmulDesc piece_desc(const CudaPrim *p, int64_t rows, bool first)
{
    const ConvDesc *c = &p->conv;
    int64_t    pitch = p->columns.pitch;
    int64_t    deep = p->padded ? pitch : product3(c->kernel) * c->ci;
    MatmulDesc d = { .batch = 1 };
    if (c->kind == CONV_FORWARD) {
        d.m = rows, d.n = c->co, d.k = deep, d.lda = pitch, d.ldb = c->co, d.ldc = c->co;
        d.type_a = c->type_x, d.type_b = c->type_w, d.type_c = c->type_y;
        d.bias = c->bias, d.type_bias = c->type_bias;
    } else if (c->kind == CONV_BACKWARD_DATA) {
        d.m = rows, d.n = deep, d.k = c->co, d.lda = c->co, d.ldb = c->co, d.ldc = pitch;
        d.trans_b = true;
        d.type_a = c->type_y, d.type_b = c->type_w, d.type_c = p->direct ? c->type_x : F32;
    } else if (p->thin) {                /* (tap, o) by i, turned afterwards */
        d.m = p->padded ? pitch : product3(c->kernel) * c->co;
        d.n = c->ci, d.k = rows, d.lda = pitch, d.ldb = c->ci, d.ldc = c->ci;
        d.trans_a = true;
        d.type_a = c->type_y, d.type_b = c->type_x, d.type_c = F32;
        d.accumulate = !first;
    } else {
        d.m = deep, d.n = c->co, d.k = rows, d.lda = pitch, d.ldb = c->co, d.ldc = c->co;
        d.trans_a = true;
        d.type_a = c->type_x, d.type_b = c->type_y, d.type_c = c->type_w;
        d.accumulate = !first;
    }
    return d;
}

/* Output lines along the band axis that input lines [from, to) take part in. */
static void band_outputs(const CudaPrim *p, int64_t from, int64_t to, int64_t *first, int64_t *last)
{
    const ConvDesc *c = &p->conv;
    int     a = p->axis;
    int64_t low = from + c->pad_lo[a] - c->kernel[a] + 1, high = to - 1 + c->pad_lo[a];
    *first = low <= 0 ? 0 : (low + c->stride[a] - 1) / c->stride[a];
    *last = high / c->stride[a] + 1;
    *last = *last > c->out[a] ? c->out[a] : *last;
    *first = *first > *last ? *last : *first;
}

static int64_t line_rows(const CudaPrim *p)  /* positions of one output line along the band axis */
{
    const ConvDesc *c = &p->conv;
    return p->axis == 0 ? c->out[1] * c->out[2] : c->out[2];
}

/* dw[tap, i, o] is also a sum over x's positions q of x[q, i] dy[q - tap, o]: with few output
 * channels the columns of dy, its taps in the opposite order, are far fewer than those of x. */
static bool conv_is_thin(const ConvDesc *c)
{
    for (int i = 0; i < 3; i++)
        if (c->stride[i] != 1 || c->pad_lo[i] >= c->kernel[i])
            return false;
    return c->kind == CONV_BACKWARD_WEIGHTS && 2 * c->co <= c->ci;
}

static Err columns_new(Pool *pool, CudaPrim *p)
{
    const ConvDesc *c = &p->conv;
    bool    data = c->kind == CONV_BACKWARD_DATA;
    p->thin = !p->direct && conv_is_thin(c);
    int64_t element = data ? 4 : type_bytes(p->thin ? c->type_y : c->type_x);
    const int64_t *from = p->thin ? c->out : c->in, *to = p->thin ? c->in : c->out;
    p->columns.ci = p->thin ? c->co : c->ci;
    for (int i = 0; i < 3; i++) {
        p->columns.in[i] = from[i], p->columns.out[i] = to[i], p->columns.kernel[i] = c->kernel[i];
        p->columns.stride[i] = c->stride[i];
        p->columns.pad_lo[i] = p->thin ? c->kernel[i] - 1 - c->pad_lo[i] : c->pad_lo[i];
    }
    p->columns.pitch = p->direct ? c->ci : up(product3(c->kernel) * p->columns.ci, 8);
    p->rows = c->n * product3(to);
    /* The tensor cores want widths in eights: a weight's gradient is then made in workspace. */
    p->padded = !p->direct && c->kind == CONV_BACKWARD_WEIGHTS && type_bytes(c->type_x) == 2 &&
                p->columns.pitch != product3(c->kernel) * p->columns.ci;
    if (p->thin || p->padded)
        p->transposed_bytes = (size_t)up(p->columns.pitch * (p->thin ? c->ci : c->co) *
                                         (int64_t)sizeof(float),
                                     256);
    if (p->direct) {
        p->piece = p->rows;
    } else if (!data) {
        int64_t fits = PIECE_BYTES / (p->columns.pitch * element);
        p->piece = fits < 128 ? 128 : fits;
        p->piece = p->piece > p->rows ? p->rows : p->piece;
        p->columns_bytes = (size_t)(p->piece * p->columns.pitch * element);
    } else {
        p->axis = c->in[0] > 1 ? 0 : 1;
        int64_t lines = PIECE_BYTES / (p->columns.pitch * element * line_rows(p));
        p->band = (lines - c->kernel[p->axis]) * c->stride[p->axis];
        p->band = p->band < c->stride[p->axis] ? c->stride[p->axis] : p->band;
        p->band = p->band > c->in[p->axis] ? c->in[p->axis] : p->band;
        for (int64_t from = 0; from < c->in[p->axis]; from += p->band) {
            int64_t first, last,
                to = from + p->band < c->in[p->axis] ? from + p->band : c->in[p->axis];
            band_outputs(p, from, to, &first, &last);
            p->piece = (last - first) * line_rows(p) > p->piece ? (last - first) * line_rows(p)
                                                                : p->piece;
        }
        p->columns_bytes = (size_t)up(p->piece * p->columns.pitch * element, 256);
    }
    if (p->rows == 0)
        return OK;
    if (!data) {
        int64_t rest = p->rows % p->piece;
        TRY(prim_matmul(pool, p, piece_desc(p, p->piece, false), &p->matmul));
        if (c->kind == CONV_BACKWARD_WEIGHTS)
            TRY(prim_matmul(pool, p, piece_desc(p, p->piece, true), &p->first));
        if (rest)
            TRY(prim_matmul(pool, p, piece_desc(p, rest, false), &p->last));
    } else if (p->direct || p->piece > 0) {
        /* All bands take one product of the largest band's rows: the rest of a shorter one is not
         * read. */
        TRY(prim_matmul(pool, p, piece_desc(p, p->direct ? p->rows : p->piece, false), &p->matmul));
    }
    return OK;
}

static Err columns_run(const CudaPrim *p, void *x, void *w, void *y, const void *bias,
                       const float *before, char *workspace)
{
    const ConvDesc *c = &p->conv;
    char *columns = workspace + p->head.workspace_bytes - p->columns_bytes,
         *turned = columns - p->transposed_bytes;
    int64_t row = p->thin ? c->ci * type_bytes(c->type_x) : c->co * type_bytes(c->type_y);
    cudaStream_t stream = p->handle->stream;
    bool         weights = c->kind == CONV_BACKWARD_WEIGHTS, aside = p->thin || p->padded;
    int64_t      numbers = product3(c->kernel) * c->ci * c->co;
    if (p->direct)
        return c->kind == CONV_FORWARD ? cuda_matmul_run(p->matmul, x, w, bias, NULL, y, workspace)
               : c->kind == CONV_BACKWARD_DATA
                   ? cuda_matmul_run(p->matmul, y, w, NULL, NULL, x, workspace)
                   : cuda_matmul_run(before ? p->matmul : p->first, x, y, NULL, before, w, workspace);
    for (int64_t r = 0; r < p->rows; r += p->piece) {
        int64_t rows = p->rows - r < p->piece ? p->rows - r : p->piece;
        const CudaMatmul *m = rows < p->piece ? p->last
                              : weights && r == 0 && (!before || aside) ? p->first
                                                                        : p->matmul;
        TRY(cuda_columns(stream, &p->columns, p->thin ? c->type_y : c->type_x, p->thin ? y : x, r,
                         rows, columns));
        if (c->kind == CONV_FORWARD)
            TRY(cuda_matmul_run(m, columns, w, bias, NULL, (char *)y + r * row, workspace));
        else if (p->thin)
            TRY(cuda_matmul_run(m, columns, (char *)x + r * row, NULL, NULL, turned, workspace));
        else
            TRY(cuda_matmul_run(m, columns, (char *)y + r * row, NULL,
                                r == 0 && !aside ? before : NULL, aside ? turned : w,
                                workspace));
    }
    return p->thin ? cuda_turn_taps(stream, (const float *)turned, product3(c->kernel), c->ci,
                                    c->co, before, w)
           : aside ? cuda_turn_taps(stream, (const float *)turned, 1, numbers, 1, before, w)
                   : OK;
}

/* dx band by band: the columns of every output line that reaches into it, then their sums. */
static Err columns_run_data(const CudaPrim *p, void *dx, void *w, void *dy, char *workspace)
{
    const ConvDesc *c = &p->conv;
    char   *columns = workspace + p->head.workspace_bytes - p->columns_bytes;
    int64_t spatial = product3(c->out), row_bytes = c->co * type_bytes(c->type_y);
    for (int64_t image = 0; image < c->n; image++)
        for (int64_t from = 0; from < c->in[p->axis]; from += p->band) {
            int64_t first, last,
                to = from + p->band < c->in[p->axis] ? from + p->band : c->in[p->axis];
            band_outputs(p, from, to, &first, &last);
            /* The product is of one size: a band at the end begins earlier instead of reading past
             * y. */
            int64_t start = first * line_rows(p);
            start = start + p->piece > spatial ? spatial - p->piece : start;
            if (p->piece > 0)
                TRY(cuda_matmul_run(p->matmul, (char *)dy + (image * spatial + start) * row_bytes,
                                    w, NULL, NULL, columns, workspace));
            TRY(cuda_columns_sum(p->handle->stream, &p->columns, c->type_x, dx, image, p->axis,
                                 from, to, (const float *)columns, start, p->piece));
        }
    return OK;
}

/* --- cuDNN --- */

static Err transposed_run(const CudaPrim *p, void *x, void *w, void *y, const void *bias,
                      const float *before, char *workspace)
{
    const ConvDesc *c = &p->conv;
    int64_t deep = product3(c->kernel) * c->ci;
    char   *turned = workspace + p->head.workspace_bytes - p->transposed_bytes;
    cudaStream_t stream = p->handle->stream;
    if (c->kind != CONV_BACKWARD_WEIGHTS)
        TRY(cuda_transpose(stream, c->type_w, w, deep, c->co, NULL, turned));
    TRY(cudnn_conv_run(p->cudnn, x, turned, y, workspace));
    if (c->kind == CONV_BACKWARD_WEIGHTS)
        return cuda_transpose(stream, c->type_w, turned, c->co, deep, before, w);
    if (c->bias)
        return cuda_add_bias(stream, c->type_y, y, c->co, c->type_bias, bias,
                             c->n * product3(c->out), c->co);
    return OK;
}

/* --- the face --- */

typedef struct CudaBackend {
    Backend              face;
    const CudaHandle *handle;
} CudaBackend;

static CudaBackend backends[2];                   /* without and with tf32 */

static Err cuda_prim_run(const Prim *prim, const PrimArgs *args)
{
    const CudaPrim *p = (const CudaPrim *)prim;
    if (!p->is_conv)
        return cuda_matmul_run(p->matmul, args->a, args->b, args->bias, args->before, args->c,
                               args->workspace);
    if (p->rows == 0)
        return OK;
    if (p->straight)
        return direct_conv_run(p->handle, &p->tiled,
                               &(DirectArgs){ .x = args->a,
                                              .w = args->b,
                                              .y = args->c,
                                              .bias = args->bias,
                                              .before = args->before,
                                              .sums = args->sums,
                                              .sums_before = args->sums_before,
                                              .workspace = args->workspace });
    if (p->narrow)
        return narrow_conv_run(p->handle, &p->slim, args->a, args->b, args->c, args->bias,
                               args->before, args->workspace);
    if (p->cudnn)
        return transposed_run(p, args->a, args->b, args->c, args->bias, args->before, args->workspace);
    if (p->conv.kind == CONV_BACKWARD_DATA && !p->direct)
        return columns_run_data(p, args->a, args->b, args->c, args->workspace);
    return columns_run(p, args->a, args->b, args->c, args->bias, args->before, args->workspace);
}

static Err linalg_new_matmul(const CudaBackend *backend, Pool *pool, const MatmulDesc *desc, Prim **out)
{
    CudaPrim *p = NEW(pool, CudaPrim);
    p->head.backend = &backend->face;
    p->head.impl = "cublaslt";
    p->handle = backend->handle;
    TRY(prim_matmul(pool, p, *desc, &p->matmul));
    *out = &p->head;
    return OK;
}

static bool conv_is_product(const ConvDesc *c)
{
    for (int i = 0; i < 3; i++)
        if (c->kernel[i] != 1 || c->stride[i] != 1 || c->pad_lo[i] || c->pad_hi[i])
            return false;
    return true;
}

/* Weight gradients of a 5x5 window in fp32 came from cuDNN 9.19 (H200, 64 to 32 channels) off by
 * 6.8e-4 of their norm, which is what factors cut to tf32 give, from engines that note nothing of
 * the kind. Windows of up to 4x4 were right wherever they were tried. */
static bool cudnn_would_round(const CudaHandle *handle, const ConvDesc *d)
{
    return d->kind == CONV_BACKWARD_WEIGHTS && d->type_x == F32 && d->type_y == F32 &&
           !handle->tf32 && product3(d->kernel) > 16;
}

static Err linalg_new_conv(const CudaBackend *backend, Pool *pool, const ConvDesc *desc, Prim **out)
{
    CudaPrim *p = NEW(pool, CudaPrim);
    p->head.backend = &backend->face;
    p->handle = backend->handle;
    p->is_conv = true;
    p->conv = *desc;
    p->direct = conv_is_product(desc);
    p->rows = desc->n * product3(desc->out);
    if (!p->direct && p->rows && direct_conv_plan(p->handle, desc, &p->tiled)) {
        p->straight = true;
        p->head.sums = desc->kind == CONV_BACKWARD_WEIGHTS;
        p->head.workspace_bytes = direct_conv_workspace(&p->tiled);
        p->head.impl = "wgmma";
    } else if (!p->direct && p->rows && narrow_conv_plan(p->handle, desc, &p->slim)) {
        p->narrow = true;
        p->head.workspace_bytes = narrow_conv_workspace(&p->slim);
        p->head.impl = "narrow";
    } else if (!p->direct && p->rows && !cudnn_would_round(p->handle, desc) &&
               cudnn_conv_new(pool, p->handle, desc, &p->cudnn) == OK) {
        p->transposed_bytes = (size_t)(product3(desc->kernel) * desc->ci * desc->co *
                                   type_bytes(desc->type_w));
        p->head.workspace_bytes = (size_t)up((int64_t)cudnn_conv_workspace(p->cudnn), 256) +
                                p->transposed_bytes;
        p->head.impl = cudnn_conv_name(p->cudnn);
    } else {
        p->cudnn = NULL;
        TRY(columns_new(pool, p));
        p->head.workspace_bytes = (size_t)up((int64_t)p->head.workspace_bytes, 256) + p->transposed_bytes +
                                p->columns_bytes;
        p->head.impl = p->direct ? "cublaslt" : "columns";
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
#ifdef PLIMSOLL_SM90A
    bool subpixel = handle->capability == 90;
#else
    bool subpixel = false;
#endif
    static CudaHandle kept[2];               /* primitives are cached for the life of the process */
    int i = handle->tf32;
    kept[i] = *handle;
    backends[i] = (CudaBackend){ { .name = i ? "cuda-tf32" : "cuda",
                              .version = "",
                              .bf16_pays = true, .subpixel = subpixel,
                              .alone = true,
                              .matmul = i ? matmul_tf32 : matmul_ieee,
                              .conv = i ? conv_tf32 : conv_ieee,
                              .run = cuda_prim_run },
                            &kept[i] };
    return &backends[i].face;
}
