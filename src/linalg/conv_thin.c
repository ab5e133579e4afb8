/* conv_thin.c -- convolutions to a few channels (a network's output image, the gradient of an input
 * image), fp32 and stride 1.
 *
 *   forward         y[p][c]  = sum over taps t   P[p + t - pad][t, c],   P = x  * w(taps, few)
 *   backward data   dx[p][c] = sum over taps t   P[p - t + pad][t, c],   P = dy * w(taps, few)
 *
 * With three columns a product of windows would leave max_rows lanes idle. Here all taps are
 * columns of one product with the deep side in place (27 of 32 lanes for 3 x 3 taps of 3 channels);
 * results are then gathered from it, tap after tap in a fixed order. Blocks of rows stay in L2; the
 * last rows of a block are kept for the next block, which needs them too. */
#include "linalg/builtin.h"

#include "linalg/gemm.h"

#include <string.h>

enum { THIN_CHANNELS = 4, THIN_DEEP = 16, THIN_POSITIONS = 2048 };

typedef struct ThinConv {
    BuiltinPrim prim;
    ConvDesc    desc;
    int         threads;
    bool        back;
    int64_t     images, rows, width;   /* of the result */
    int64_t     from_rows, from_width; /* of the deep side */
    int64_t     thin, deep;            /* channels */
    int64_t     columns, block;        /* of P, in whole vectors; rows of the result per block */
    size_t      w_floats, p_floats, gemm_bytes, job_bytes;
} ThinConv;

bool conv_thin_fits(const ConvDesc *d, int threads)
{
    bool    back = d->kind == CONV_BACKWARD_DATA;
    int64_t rows = conv_samples(d) * d->in[0] * (back ? d->in[1] : d->out[1]);
    if (!conv_is_plain(d) || d->kind == CONV_BACKWARD_WEIGHTS || d->type_x != F32 ||
        d->type_w != F32 || d->type_y != F32 || (d->bias && d->type_bias != F32))
        return false;
    return (back ? d->ci : d->co) <= THIN_CHANNELS && (back ? d->co : d->ci) >= THIN_DEEP &&
           d->kernel[0] == 1 && d->pad_lo[0] == 0 && d->pad_hi[0] == 0 && d->stride[0] == 1 &&
           d->stride[1] == 1 && d->stride[2] == 1 && d->kernel[1] * d->kernel[2] > 1 &&
           rows >= 4 * threads * d->kernel[1]; /* threads recompute their first rows */
}

/* Offset from a row of the result to the row of the deep side that a tap reads. */
static int64_t thin_shift(const ThinConv *t, int axis, int64_t tap)
{
    int64_t pad = t->desc.pad_lo[axis];
    return t->back ? pad - tap : tap - pad;
}

/* w, (taps, I, O), as rows (tap, few) of the deep channels; rows beyond the last are zero. */
static void thin_weights(const ThinConv *t, const float *w, float *to)
{
    const ConvDesc *d = &t->desc;
    int64_t         taps = d->kernel[1] * d->kernel[2];
    memset(to, 0, t->w_floats * sizeof *to);
    for (int64_t tap = 0; tap < taps; tap++)
        for (int64_t i = 0; i < d->ci; i++)
            for (int64_t o = 0; o < d->co; o++) {
                int64_t few = t->back ? i : o, many = t->back ? o : i;
                to[(tap * t->thin + few) * t->deep + many] = w[(tap * d->ci + i) * d->co + o];
            }
}

/* One row of the result from the rows of P, which begin at row `first` of the deep side. */
static void thin_gather(const ThinConv *t, const float *p, int64_t first, int64_t row,
                        const float *bias, float *out)
{
    const int64_t *kernel = t->desc.kernel;
    for (int64_t x = 0; x < t->width; x++)
        for (int64_t c = 0; c < t->thin; c++)
            out[x * t->thin + c] = bias ? bias[c] : 0.0f;
    for (int64_t th = 0; th < kernel[1]; th++) {
        int64_t from = row + thin_shift(t, 1, th);
        if (from < 0 || from >= t->from_rows)
            continue;
        const float *line = p + (from - first) * t->from_width * t->columns;
        for (int64_t tw = 0; tw < kernel[2]; tw++) {
            int64_t shift = thin_shift(t, 2, tw), column = (th * kernel[2] + tw) * t->thin;
            int64_t lo = int_max(0, -shift), hi = int_min(t->width, t->from_width - shift);
            for (int64_t x = lo; x < hi; x++)
                for (int64_t c = 0; c < t->thin; c++)
                    out[x * t->thin + c] += line[(x + shift) * t->columns + column + c];
        }
    }
}

/* Rows [lo, hi) of one image. */
static void thin_rows(const ThinConv *t, const float *from, const float *w, const float *bias,
                      float *to, GemmRange rows, float *p, void *workspace)
{
    int64_t kernel = t->desc.kernel[1], line = t->from_width * t->columns, first = 0, done = 0;
    int64_t min_shift = int_min(thin_shift(t, 1, 0), thin_shift(t, 1, kernel - 1));
    for (int64_t r = rows.lo; r < rows.hi; r += t->block) {
        int64_t end = int_min(r + t->block, rows.hi);
        int64_t lo = int_min(int_max(r + min_shift, 0), t->from_rows);
        int64_t hi = int_min(int_max(end + min_shift + kernel - 1, lo), t->from_rows);
        int64_t kept = r > rows.lo ? int_max(done - lo, 0) : 0; /* from the block before */
        if (kept > 0)
            memmove(p, p + (lo - first) * line, (size_t)(kept * line) * sizeof *p);
        if (hi > lo + kept)
            gemm_tile(false, true, (hi - lo - kept) * t->from_width, t->columns, t->deep, 1.0f,
                      from + (lo + kept) * t->from_width * t->deep, t->deep, w, t->deep, 0.0f,
                      p + kept * line, t->columns, workspace);
        first = lo, done = hi;
        for (int64_t y = r; y < end; y++)
            thin_gather(t, p, lo, y, bias, to + y * t->width * t->thin);
    }
}

static void thin_job(const BuiltinPrim *prim, const PrimArgs *args, int job)
{
    const ThinConv *t = (const ThinConv *)prim;
    const float    *from = t->back ? args->c : args->a, *bias = t->desc.bias ? args->bias : NULL;
    float          *to = t->back ? args->a : args->c;
    float          *w = (float *)((char *)args->workspace + (size_t)job * t->job_bytes);
    float          *p = w + t->w_floats;
    int64_t         all = t->images * t->rows, lo = all * job / t->threads;
    int64_t         hi = all * (job + 1) / t->threads;
    thin_weights(t, args->b, w);
    while (lo < hi) {
        int64_t   image = lo / t->rows, end = int_min(hi, (image + 1) * t->rows);
        GemmRange rows = { lo - image * t->rows, end - image * t->rows };
        thin_rows(t, from + image * t->from_rows * t->from_width * t->deep, w, bias,
                  to + image * t->rows * t->width * t->thin, rows, p, p + t->p_floats);
        lo = end;
    }
}

static void thin_run(const BuiltinPrim *prim, const PrimArgs *args)
{
    builtin_jobs(prim, args, ((const ThinConv *)prim)->threads, thin_job);
}

Prim *conv_thin(Pool *pool, const ConvDesc *d, int threads)
{
    ThinConv      *t = NEW(pool, ThinConv);
    bool           back = d->kind == CONV_BACKWARD_DATA;
    const int64_t *to = back ? d->in : d->out, *from = back ? d->out : d->in;
    t->desc = *d;
    t->threads = threads;
    t->back = back;
    t->images = d->n * d->in[0];
    t->rows = to[1], t->width = to[2], t->from_rows = from[1], t->from_width = from[2];
    t->thin = back ? d->ci : d->co, t->deep = back ? d->co : d->ci;
    t->columns = align_up(d->kernel[1] * d->kernel[2] * t->thin, GEMM_LANES);
    t->block = int_min(int_max(THIN_POSITIONS / t->from_width, d->kernel[1]), t->rows);
    int64_t max_rows = int_min(t->block + d->kernel[1] - 1, t->from_rows);
    t->w_floats = (size_t)align_up(t->columns * t->deep, 16);
    t->p_floats = (size_t)align_up(max_rows * t->from_width * t->columns, 16);
    for (int64_t rows = 1; rows <= max_rows; rows++) {
        size_t bytes = gemm_tile_workspace(rows * t->from_width, t->columns, t->deep);
        t->gemm_bytes = bytes > t->gemm_bytes ? bytes : t->gemm_bytes;
    }
    t->job_bytes = align_bytes(4 * (t->w_floats + t->p_floats) + t->gemm_bytes, 64);
    t->prim = (BuiltinPrim){ .head = { .backend = backend_builtin(),
                                       .impl = "builtin:thin",
                                       .workspace_bytes = (size_t)threads * t->job_bytes },
                             .run = thin_run };
    return &t->prim.head;
}
