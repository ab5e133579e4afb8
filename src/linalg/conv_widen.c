/* conv_widen.c -- bf16 convolutions between few channels, computed in fp32 by another backend.
 *
 * AMX multiplies blocks that must first be gathered. With few channels the gathering is nearly all
 * of the work, and a backend that reads the fp32 image in place is several times as fast. So images
 * are converted to fp32 in workspace, some at a time, and results are rounded back.
 *
 * Workspace:  x [images] | w | y [images] | bias | workspace of the inner primitive
 * A weight gradient sums its groups of images in order, so results repeat bit for bit.
 */
#include "linalg/builtin.h"

#include "base/int_math.h"
#include "device/convert.h"

enum { WIDEN_CHANNELS = 16, WIDEN_BYTES = 1 << 20, WIDEN_RUN = 4096 };

typedef struct WidenConv {
    Prim        head;
    ConvDesc    desc;
    const Prim *inner; /* the same convolution of `images` images in fp32 */
    int64_t     images;
    int64_t     x_count, y_count, w_count; /* elements: of one image; of all weights */
    int         threads;
    size_t      w_at, y_at, bias_at, inner_at;
} WidenConv;

static int64_t widen_places(const int64_t axes[3]) { return axes[0] * axes[1] * axes[2]; }

bool conv_widen_fits(const ConvDesc *d)
{
    return conv_is_plain(d) && d->type_x == BF16 && d->type_y == BF16 &&
           (d->type_w == BF16 || d->type_w == F32) && d->ci <= WIDEN_CHANNELS &&
           d->co <= WIDEN_CHANNELS && d->n > 0;
}

ConvDesc conv_widened(const ConvDesc *d)
{
    int64_t  image = 4 * (widen_places(d->in) * d->ci + widen_places(d->out) * d->co);
    int64_t  images = d->n;
    ConvDesc wide = *d;
    while (images > 1 && (d->n % images != 0 || images * image > WIDEN_BYTES))
        images--;
    wide.n = images;
    wide.type_x = wide.type_w = wide.type_y = wide.type_bias = F32;
    return wide;
}

static void widen_convert(const WidenConv *c, Type to, void *dst, Type from, const void *src,
                          int64_t n)
{
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t i = 0; i < n; i += WIDEN_RUN)
        convert_rows(to, (char *)dst + i * type_bytes(to), from,
                     (const char *)src + i * type_bytes(from),
                     (size_t)(n - i < WIDEN_RUN ? n - i : WIDEN_RUN));
}

static Err widen_run(const Prim *prim, const PrimArgs *args)
{
    const WidenConv *c = (const WidenConv *)prim;
    const ConvDesc  *d = &c->desc;
    char            *workspace = args->workspace;
    float           *w = (float *)(workspace + c->w_at), *y = (float *)(workspace + c->y_at);
    float           *x = (float *)workspace, *bias = (float *)(workspace + c->bias_at);
    bool             weights = d->kind == CONV_BACKWARD_WEIGHTS;
    int64_t          nx = c->images * c->x_count, ny = c->images * c->y_count;
    PrimArgs         inner = {
                .a = x, .b = w, .c = y, .bias = d->bias ? bias : NULL, .workspace = workspace + c->inner_at
    };
    float *sum = w + (d->n > c->images ? c->w_count : 0); /* of all images, if in groups */
    if (!weights)
        widen_convert(c, F32, w, d->type_w, args->b, c->w_count);
    if (d->bias)
        convert_rows(F32, bias, d->type_bias, args->bias, (size_t)d->co);
    for (int64_t i = 0; i < d->n; i += c->images) {
        char *px = (char *)args->a + i * c->x_count * type_bytes(d->type_x);
        char *py = (char *)args->c + i * c->y_count * type_bytes(d->type_y);
        if (d->kind != CONV_BACKWARD_DATA)
            widen_convert(c, F32, x, d->type_x, px, nx);
        if (d->kind != CONV_FORWARD)
            widen_convert(c, F32, y, d->type_y, py, ny);
        TRY(c->inner->backend->run(c->inner, &inner));
        if (d->kind == CONV_FORWARD)
            widen_convert(c, d->type_y, py, F32, y, ny);
        if (d->kind == CONV_BACKWARD_DATA)
            widen_convert(c, d->type_x, px, F32, x, nx);
        for (int64_t k = 0; weights && sum != w && k < c->w_count; k++)
            sum[k] = i ? sum[k] + w[k] : w[k];
    }
    if (weights)
        widen_convert(c, d->type_w, args->b, F32, sum, c->w_count);
    return OK;
}

const Backend *conv_widen_backend(void)
{
    static const Backend widen = {
        .name = "builtin", .version = "1", .bf16_pays = true, .run = widen_run
    };
    return &widen;
}

Prim *conv_widen(Pool *pool, const ConvDesc *d, const Prim *inner, int threads)
{
    WidenConv *c = NEW(pool, WidenConv);
    *c = (WidenConv){ .desc = *d,
                      .inner = inner,
                      .images = conv_widened(d).n,
                      .threads = threads,
                      .x_count = widen_places(d->in) * d->ci,
                      .y_count = widen_places(d->out) * d->co,
                      .w_count = widen_places(d->kernel) * d->ci * d->co };
    size_t  sums = d->kind == CONV_BACKWARD_WEIGHTS && d->n > c->images ? 2 : 1;
    size_t  parts[] = { (size_t)(c->images * c->x_count), sums * (size_t)c->w_count,
                        (size_t)(c->images * c->y_count), (size_t)d->co };
    size_t *ends[] = { &c->w_at, &c->y_at, &c->bias_at, &c->inner_at }, at = 0;
    for (int i = 0; i < 4; i++)
        *ends[i] = at += align_bytes(4 * parts[i], 64);
    c->head = (Prim){ .backend = conv_widen_backend(),
                      .workspace_bytes = at + inner->workspace_bytes,
                      .impl = pool_print(pool, "%s as f32", inner->impl) };
    return &c->head;
}
