/* fft_conv_cpu.c -- causal convolution on the CPU, 16 channels at a time.
 *
 * Note [Right angle]. A linear convolution of two real signals of n samples has 2n - 1 samples; the
 * usual method pads both to 2n. Instead, multiply sample j by a^j, a = exp(i pi / 2n), and convolve
 * cyclically at length n, in complex numbers. A product that wraps around gains the factor a^n = i,
 * so that, after division by a^j, the real part is the first half of the linear convolution and the
 * imaginary part the second (Nussbaumer 1982, section 3.3). The work is that of a real transform of
 * length 2n, without the reordering of frequencies that one needs. One factor of a^j is in the
 * table between columns and rows, the other in f.split (fft.c).
 *
 * Gradients are convolutions backwards in time: with ' for reversal, du' = dy' * K, dK' = dy' * u.
 */
#include "ops/fft/fft_conv.h"

#include "device/convert.h"
#include "ops/parallel.h"
#include "ops/fft/rfft.h"

#include <string.h>

/* The signals that a slot holds: u forward or dy backward; K; u backward; the sum of spectra over a
 * batch. */
enum { CONV_U, CONV_DY = CONV_U, CONV_K, CONV_U_BACK, CONV_SUM };

typedef struct Conv { /* tasks are (group of channels, chunk of the batch) */
    Fft     f;
    int64_t batch, length, channels, groups, chunks;
    int     slots;   /* concurrent tasks, each with its own buffers */
    int     signals; /* per slot */
} Conv;

/* Channels are divided first; the batch only if there are more threads than groups of channels. */
static Conv conv_of(const Node *n, const float *table, int threads, int signals)
{
    Shape u = in_shape(n, 0);
    Conv  c = { .f = fft_open(FFT_ANGLE, fft_next(u.dim[1]), table),
                .signals = signals,
                .batch = u.dim[0],
                .length = u.dim[1],
                .channels = u.dim[2],
                .groups = ceil_div(u.dim[2], FFT_LANES) };
    c.chunks = threads / c.groups > 1 ? threads / c.groups : 1;
    c.chunks = c.batch < c.chunks ? c.batch : c.chunks;
    c.slots = parallel_threads(threads, c.groups * c.chunks);
    return c;
}

static int64_t slot_vecs(const Conv *c)
{
    return c->signals * fft_signal_vecs(&c->f) + fft_workspace_vecs(&c->f);
}

static FftVec *slot_signal(const Conv *c, void *workspace, int64_t slot, int i)
{
    return (FftVec *)workspace + slot * slot_vecs(c) + i * fft_signal_vecs(&c->f);
}

static FftVec *slot_workspace(const Conv *c, void *workspace, int64_t slot)
{
    return slot_signal(c, workspace, slot, c->signals);
}

typedef struct ConvLanes { /* 16 channels of one sample of the batch, of any type, maybe reversed */
    Type    type;
    char   *p;
    int64_t first, step; /* time l is at first + l * step, in elements */
    int     n;
} ConvLanes;

static ConvLanes conv_lanes(const Conv *c, Type type, void *p, int64_t b, int64_t group,
                            bool backwards)
{
    int64_t left = c->channels - group * FFT_LANES,
            first = b * c->length * c->channels + group * FFT_LANES;
    return (ConvLanes){ .type = type,
                        .p = p,
                        .n = left < FFT_LANES ? (int)left : FFT_LANES,
                        .first = backwards ? first + (c->length - 1) * c->channels : first,
                        .step = backwards ? -c->channels : c->channels };
}

static inline void lanes_load(const ConvLanes *x, int64_t l, FftVec *v)
{
    const char *p = x->p + (x->first + l * x->step) * type_bytes(x->type);
    if (x->type == F32) {
        fft_load(v, (const float *)p, x->n);
        return;
    }
    float row[FFT_LANES] = { 0 };
    convert_rows(F32, row, x->type, p, (size_t)x->n);
    fft_load(v, row, FFT_LANES);
}

static inline void lanes_store(const ConvLanes *y, int64_t l, const FftVec *v)
{
    char *p = y->p + (y->first + l * y->step) * type_bytes(y->type);
    if (y->type == F32) {
        fft_store((float *)p, v, y->n);
        return;
    }
    float row[FFT_LANES];
    fft_store(row, v, FFT_LANES);
    convert_rows(y->type, p, F32, row, (size_t)y->n);
}

/* Weights the signal and transforms its columns, not its rows. Samples are first copied in memory
 * order: only big, which is in the cache, is read with a stride. */
static void conv_enter(const Conv *c, ConvLanes x, FftVec *big, FftVec *workspace)
{
    const Fft *f = &c->f;
    for (int64_t j1 = 0, l = 0; j1 < f->n1; j1++)
        for (int64_t j2 = 0; j2 < f->n2; j2++, l++) {
            FftVec v = { 0 };
            if (l < c->length)
                lanes_load(&x, l, &v);
            big[2 * (j1 * f->pitch + j2)] = v;
        }
    for (int64_t j2 = 0; j2 < f->n2; j2++) {
        for (int64_t j1 = 0; j1 < f->n1; j1++) {
            FftVec v = big[2 * (j1 * f->pitch + j2)];
            workspace[2 * j1] = v * f->split[2 * j1];
            workspace[2 * j1 + 1] = v * f->split[2 * j1 + 1];
        }
        fft_column(f, j2, workspace, big, 0);
    }
}

/* Transforms the columns back and stores y = conv + d * x; x is read in the order of y. */
static void conv_leave(const Conv *c, FftVec *big, ConvLanes y, const FftVec *d, const ConvLanes *x,
                       FftVec *workspace)
{
    const Fft *f = &c->f;
    float      scale = 1 / (float)f->n;
    for (int64_t j2 = 0; j2 < f->n2; j2++) {
        const FftVec *col = fft_column_back(f, j2, big, workspace);
        for (int64_t j1 = 0; j1 < f->n1; j1++)
            big[2 * (j1 * f->pitch + j2)] =
                (col[2 * j1] * f->split[2 * j1] + col[2 * j1 + 1] * f->split[2 * j1 + 1]) * scale;
    }
    for (int64_t j1 = 0, l = 0; j1 < f->n1; j1++)
        for (int64_t j2 = 0; j2 < f->n2 && l < c->length; j2++, l++) {
            FftVec v = big[2 * (j1 * f->pitch + j2)];
            if (d) {
                FftVec at;
                lanes_load(x, l, &at);
                v += *d * at;
            }
            lanes_store(&y, l, &v);
        }
}

static void multiply(FftVec *to, const FftVec *a, const FftVec *b, int64_t n, bool add)
{
    for (int64_t i = 0; i < 2 * n; i += 2) {
        FftVec re = a[i] * b[i] - a[i + 1] * b[i + 1], im = a[i] * b[i + 1] + a[i + 1] * b[i];
        to[i] = add ? to[i] + re : re;
        to[i + 1] = add ? to[i + 1] + im : im;
    }
}

/* Row by row: transform, multiply by a spectrum, transform back. The number of passes is even, so
 * the result ends in big again. */
static void conv_rows(const Conv *c, FftVec *big, const FftVec *spectrum, FftVec *workspace)
{
    int64_t n2 = c->f.n2;
    for (int64_t k1 = 0; k1 < c->f.n1; k1++) {
        FftVec *row = big + 2 * c->f.pitch * k1, *done = fft_row(&c->f, row, workspace, 0);
        multiply(done, done, spectrum + 2 * c->f.pitch * k1, n2, false);
        fft_row(&c->f, done, done == row ? workspace : row, 1);
    }
}

static void load_d(const Conv *c, const Node *n, int input, const void *p, int64_t group, FftVec *d)
{
    ConvLanes x = conv_lanes(c, in_type(n, input), (void *)(uintptr_t)p, 0, group, false);
    lanes_load(&x, 0, d);
}

/* ---- forward ---- */

enum { FORWARD_SIGNALS = 2 };

Err fft_conv_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    Conv c = conv_of(n, NULL, device->threads, FORWARD_SIGNALS);
    choice->workspace_bytes = (size_t)(c.slots * slot_vecs(&c)) * sizeof(FftVec);
    choice->name = "builtin";
    return OK;
}

Err fft_conv_cpu(const Call *call)
{
    const Node *n = call->node;
    Conv        c = conv_of(n, call->in[3], call->device->threads, FORWARD_SIGNALS);
#pragma omp parallel for schedule(static) num_threads(c.slots)
    for (int64_t task = 0; task < c.groups * c.chunks; task++) {
        int64_t group = task / c.chunks, from, to;
        int     slot = omp_get_thread_num();
        FftVec *u = slot_signal(&c, call->workspace, slot, CONV_U), d = { 0 };
        FftVec *k = slot_signal(&c, call->workspace, slot, CONV_K),
               *workspace = slot_workspace(&c, call->workspace, slot);
        parallel_range(c.batch, 1, (int)(task % c.chunks), (int)c.chunks, &from, &to);
        if (call->in[2])
            load_d(&c, n, 2, call->in[2], group, &d);
        conv_enter(&c, conv_lanes(&c, F32, call->in[1], 0, group, false), k, workspace);
        fft_rows(&c.f, k, workspace, 0);
        for (int64_t b = from; b < to; b++) {
            ConvLanes x = conv_lanes(&c, in_type(n, 0), call->in[0], b, group, false);
            conv_enter(&c, x, u, workspace);
            conv_rows(&c, u, k, workspace);
            conv_leave(&c, u, conv_lanes(&c, out_type(n, 0), call->out[0], b, group, false),
                       call->in[2] ? &d : NULL, &x, workspace);
        }
    }
    return OK;
}

/* ---- backward ---- */

static Conv grad_of(const Node *n, const float *table, int threads)
{
    const bool *wants = ATTR(n, FftConvAttr)->wants;
    bool        many = in_shape(n, 0).dim[0] > 1;
    int         signals = !wants[1] ? CONV_K + 1 : many ? CONV_SUM + 1 : CONV_U_BACK + 1;
    return conv_of(n, table, threads, signals);
}

Err fft_conv_grad_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    Conv   c = grad_of(n, NULL, device->threads);
    size_t sums = (size_t)(c.groups * c.chunks * FFT_LANES) * sizeof(double);
    choice->workspace_bytes = (size_t)(c.slots * slot_vecs(&c)) * sizeof(FftVec) +
                              (ATTR(n, FftConvAttr)->wants[2] ? sums : 0);
    choice->name = "builtin";
    return OK;
}

/* The sum of u dy over all samples: fp32 within short runs, double across them. */
static void grad_d(const Conv *c, const ConvLanes *u, const ConvLanes *dy, double *sum)
{
    enum { RUN = 64 };
    for (int64_t l = 0; l < c->length; l += RUN) {
        FftVec part = { 0 }, a, b;
        for (int64_t i = l; i < l + RUN && i < c->length; i++) {
            lanes_load(u, i, &a);
            lanes_load(dy, i, &b);
            part += a * b;
        }
        for (int i = 0; i < FFT_LANES; i++)
            sum[i] += (double)part[i];
    }
}

/* After their columns, transforms the rows of dy and u. dy becomes (spectrum of dy) * (spectrum of
 * K), transformed back to columns; the product of the spectra of dy and u is stored in or added to
 * sum, which may be u. */
static void grad_rows(const Conv *c, FftVec *dy, FftVec *u, const FftVec *k, FftVec *sum, bool add,
                      FftVec *workspace)
{
    int64_t n2 = c->f.n2;
    for (int64_t k1 = 0; k1 < c->f.n1; k1++) {
        int64_t at = 2 * c->f.pitch * k1;
        FftVec *row_u = fft_row(&c->f, u + at, workspace, 0);
        if (row_u != u + at)
            memcpy(u + at, row_u, (size_t)(2 * n2) * sizeof *u);
        FftVec *row = fft_row(&c->f, dy + at, workspace, 0);
        multiply(sum + at, row, u + at, n2, add);
        if (k) {
            multiply(row, row, k + at, n2, false);
            fft_row(&c->f, row, row == workspace ? dy + at : workspace, 1);
        }
    }
}

static void grad_task(const Conv *c, const Call *call, int64_t task, int64_t slot, double *sums)
{
    const Node *n = call->node;
    const bool *wants = ATTR(n, FftConvAttr)->wants;
    int64_t     group = task / c->chunks, from, to;
    FftVec     *dy = slot_signal(c, call->workspace, slot, CONV_DY);
    FftVec     *k = slot_signal(c, call->workspace, slot, CONV_K);
    FftVec     *u = wants[1] ? slot_signal(c, call->workspace, slot, CONV_U_BACK) : NULL;
    bool        many = c->batch > 1 && wants[1];
    FftVec     *sum = many ? slot_signal(c, call->workspace, slot, CONV_SUM) : u;
    FftVec     *workspace = slot_workspace(c, call->workspace, slot), d = { 0 };
    parallel_range(c->batch, 1, (int)(task % c->chunks), (int)c->chunks, &from, &to);
    if (wants[0]) {
        conv_enter(c, conv_lanes(c, F32, call->in[2], 0, group, false), k, workspace);
        fft_rows(&c->f, k, workspace, 0);
        if (call->in[3])
            load_d(c, n, 3, call->in[3], group, &d);
    }
    if (wants[2])
        memset(sums + task * FFT_LANES, 0, FFT_LANES * sizeof *sums);
    for (int64_t b = from; b < to; b++) {
        ConvLanes x = conv_lanes(c, in_type(n, 0), call->in[0], b, group, true), back = x;
        if (wants[0] || wants[1])
            conv_enter(c, x, dy, workspace);
        if (wants[1]) {
            conv_enter(c, conv_lanes(c, in_type(n, 1), call->in[1], b, group, false), u, workspace);
            grad_rows(c, dy, u, wants[0] ? k : NULL, sum, b > from, workspace);
        } else if (wants[0]) {
            conv_rows(c, dy, k, workspace);
        }
        if (wants[0]) {
            back.p = call->out[0];
            back.type = out_type(n, 0);
            conv_leave(c, dy, back, call->in[3] ? &d : NULL, &x, workspace);
        }
        if (wants[2]) {
            ConvLanes signal = conv_lanes(c, in_type(n, 1), call->in[1], b, group, true);
            grad_d(c, &signal, &x, sums + task * FFT_LANES);
        }
    }
}

/* The kernel's gradient of one group: the sum of its chunks' spectra, in order, transformed
 * back. */
static void grad_kernel(const Conv *c, const Call *call, int64_t group, int64_t slot)
{
    int     which = c->batch > 1 ? CONV_SUM : CONV_U_BACK;
    FftVec *sum = slot_signal(c, call->workspace, slot, which),
           *workspace = slot_workspace(c, call->workspace, slot);
    for (int64_t chunk = 1; chunk < c->chunks; chunk++) {
        const FftVec *more = slot_signal(c, call->workspace, slot + chunk, which);
        for (int64_t i = 0; i < fft_signal_vecs(&c->f); i++)
            sum[i] += more[i];
    }
    fft_rows(&c->f, sum, workspace, 1);
    conv_leave(c, sum, conv_lanes(c, F32, call->out[1], 0, group, true), NULL, NULL, workspace);
}

Err fft_conv_grad_cpu(const Call *call)
{
    const bool *wants = ATTR(call->node, FftConvAttr)->wants;
    Conv        c = grad_of(call->node, call->in[4], call->device->threads);
    double     *sums = (double *)((FftVec *)call->workspace + c.slots * slot_vecs(&c));
    float      *dd = call->out[2];
#pragma omp parallel num_threads(c.slots)
    {
        /* With several chunks per group every task has its own slot; otherwise a slot finishes
         * whole groups. */
#pragma omp for schedule(static)
        for (int64_t task = 0; task < c.groups * c.chunks; task++) {
            int64_t slot = c.chunks > 1 ? task : omp_get_thread_num();
            grad_task(&c, call, task, slot, sums);
            if (wants[1] && c.chunks == 1)
                grad_kernel(&c, call, task, slot);
        }
#pragma omp for schedule(static)
        for (int64_t group = 0; group < (wants[1] && c.chunks > 1 ? c.groups : 0); group++)
            grad_kernel(&c, call, group, group * c.chunks);
    }
    for (int64_t h = 0; wants[2] && h < c.channels; h++) {
        double sum = 0;
        for (int64_t chunk = 0; chunk < c.chunks; chunk++)
            sum += sums[(h / FFT_LANES * c.chunks + chunk) * FFT_LANES + h % FFT_LANES];
        dd[h] = (float)sum;
    }
    return OK;
}
