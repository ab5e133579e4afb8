/* s4_cauchy.c -- buffers and poles of the S4 kernel on the CPU. */
#include "ops/s4/s4_cauchy.h"

#include "ops/parallel.h"

#include <math.h>

S4 s4_of(const Call *call, const Node *n, int threads, bool grad)
{
    Shape c = in_shape(n, S4_C);
    S4    s = { .channels = c.dim[1],
                .poles = c.dim[2],
                .length = ATTR(n, S4KernelAttr)->length,
                .grad = grad,
                .b_per_channel = shape_same(in_shape(n, S4_B), c),
                .groups = ceil_div(c.dim[1], FFT_LANES) };
    s.f = fft_open(FFT_REAL, s.length, call ? call->in[S4_PARAMS] : NULL);
    s.n_freq = s.length / 2 + 1;
    s.threads = threads;
    s.wave = parallel_threads(threads, s.groups);
    for (int i = 0; call && i < S4_PARAMS; i++)
        s.param[i] = call->in[i];
    s.tangents = call ? call->in[S4_PARAMS + 1] : NULL;
    return s;
}

int s4_freq_chunks(const S4 *s, int64_t groups) { return (int)ceil_div(s->threads, groups); }

/* Workspace: poles, slots, sums of tasks, sums over all channels; each a multiple of 64 bytes. */
static size_t poles_bytes(const S4 *s)
{
    return align_bytes((size_t)s->poles * sizeof(S4Pole), 64);
}

static size_t slot_bytes(const S4 *s)
{
    int64_t vecs = fft_spectrum_vecs(&s->f) + fft_workspace_vecs(&s->f) +
                   (s->grad ? fft_signal_vecs(&s->f) : 0);
    vecs += s->b_per_channel ? 2 * s->poles : 0;
    return (size_t)s->poles * sizeof(PoleLanes) + (size_t)vecs * sizeof(Vec);
}

static size_t task_bytes(const S4 *s)
{
    return s->grad ? (size_t)(s->poles * POLE_SUMS + 2) * FFT_LANES * sizeof(double) : 0;
}

/* The last wave may have fewer groups, and then more chunks per group. */
static int64_t max_tasks(const S4 *s)
{
    int64_t last = s->groups % s->wave, full = s->wave * s4_freq_chunks(s, s->wave);
    int64_t rest = last ? last * s4_freq_chunks(s, last) : 0;
    return int_max(full, rest);
}

size_t s4_bytes(const S4 *s)
{
    size_t shared = s->grad ? (size_t)(s->poles * 6) * sizeof(double) : 0;
    return poles_bytes(s) + (size_t)s->wave * slot_bytes(s) + (size_t)max_tasks(s) * task_bytes(s) +
           shared;
}

S4Pole *s4_poles(const S4 *s, void *workspace)
{
    (void)s;
    return workspace;
}

S4Slot s4_slot(const S4 *s, void *workspace, int64_t i)
{
    S4Slot slot = { .lanes = (PoleLanes *)(void *)((char *)workspace + poles_bytes(s) +
                                                   (size_t)i * slot_bytes(s)) };
    slot.spectrum = (Vec *)(slot.lanes + s->poles);
    if (s->b_per_channel) {
        slot.bq = slot.spectrum;
        slot.spectrum += 2 * s->poles;
    }
    slot.workspace = slot.spectrum + fft_spectrum_vecs(&s->f);
    slot.big = slot.workspace + fft_workspace_vecs(&s->f);
    return slot;
}

double *s4_sums(const S4 *s, void *workspace, int64_t task)
{
    return (double *)(void *)((char *)workspace + poles_bytes(s) + (size_t)s->wave * slot_bytes(s) +
                              (size_t)task * task_bytes(s));
}

double *s4_shared_sums(const S4 *s, void *workspace) { return s4_sums(s, workspace, max_tasks(s)); }

FftRows s4_rows(const S4 *s, float *k, int64_t group)
{
    int64_t left = s->channels - group * FFT_LANES;
    return (FftRows){ .p = k + group * FFT_LANES,
                      .stride = s->channels,
                      .lanes = left < FFT_LANES ? (int)left : FFT_LANES };
}

static double complex pair_at(const float *x, int64_t i)
{
    return (double)x[2 * i] + I * (double)x[2 * i + 1];
}

S4PoleParams s4_pole_params(const S4 *s, int64_t n)
{
    return (S4PoleParams){ .a = -exp((double)s->param[S4_A_REAL][n]) -
                                I * (double)s->param[S4_A_IMAG][n],
                           .b = pair_at(s->param[S4_B], n),
                           .p = pair_at(s->param[S4_P], n) };
}

double complex s4_c(const S4 *s, int64_t h, int64_t n)
{
    return pair_at(s->param[S4_C], h * s->poles + n);
}

double complex s4_b(const S4 *s, int64_t h, int64_t n)
{
    return pair_at(s->param[S4_B], s->b_per_channel ? h * s->poles + n : n);
}

double s4_dt(const S4 *s, int64_t h)
{
    double x = (double)s->param[S4_INV_DT][h];
    return x > 30 ? x : log1p(exp(x));
}

/* Lanes beyond the last channel have C = 0 and dt = 1: their kernel is 0. */
void s4_inverse_dt(const S4 *s, int64_t group, double *inverse_dt)
{
    for (int64_t i = 0, h = group * FFT_LANES; i < FFT_LANES; i++, h++)
        inverse_dt[i] = h < s->channels ? 1 / s4_dt(s, h) : 1;
}

static float weight_p(double complex v) { return (float)creal(v); }
static float weight_q(double complex v, double complex a) { return (float)creal(v * conj(a)); }

void s4_fill_poles(const S4 *s, S4Pole *poles)
{
    for (int64_t n = 0; n < s->poles; n++) {
        S4PoleParams   at = s4_pole_params(s, n);
        double         size = cabs(at.a);
        double complex bq = at.b * conj(at.p), pq = at.p * conj(at.p);
        poles[n] = (S4Pole){ .hi = (float)size,
                             .lo = (float)(size - (double)(float)size),
                             .damp = (float)(-2 * creal(at.a)),
                             .bq = { weight_p(bq), weight_q(bq, at.a) },
                             .pq = { weight_p(pq), weight_q(pq, at.a) } };
    }
}

void s4_fill_lanes(const S4 *s, int64_t group, const S4Slot *slot)
{
    PoleLanes *lanes = slot->lanes;
    for (int64_t n = 0; n < s->poles; n++) {
        S4PoleParams at = s4_pole_params(s, n);
        for (int64_t i = 0, h = group * FFT_LANES; i < FFT_LANES; i++, h++) {
            bool           there = h < s->channels;
            double complex c = there ? s4_c(s, h, n) : 0, b = there ? s4_b(s, h, n) : 0;
            lanes[n].bc[0][i] = weight_p(b * c);
            lanes[n].bc[1][i] = weight_q(b * c, at.a);
            if (slot->bq) {
                slot->bq[2 * n][i] = weight_p(b * conj(at.p));
                slot->bq[2 * n + 1][i] = weight_q(b * conj(at.p), at.a);
            }
            lanes[n].pc[0][i] = weight_p(at.p * c);
            lanes[n].pc[1][i] = weight_q(at.p * c, at.a);
        }
    }
}
