/* s4_carry_cpu.c -- S4 states between chunks on the CPU. */
#include "ops/s4/s4_carry.h"

#include "device/convert.h"
#include "ops/parallel.h"
#include "ops/s4/s4_step.h"

#include <complex.h>
#include <math.h>
#include <string.h>

enum { LANES = 16 }; /* channels per vector */

typedef struct S4Begin {
    int64_t      batch, channels, pairs;
    const float *state, *keep, *inv_dt, *a_real, *a_imag, *p;
} S4Begin;

static S4Begin begin_of(const Call *call)
{
    Shape x = in_shape(call->node, S4_BEGIN_STATE);
    return (S4Begin){ x.dim[0],
                      x.dim[1],
                      x.dim[2],
                      call->in[S4_BEGIN_STATE],
                      call->in[S4_BEGIN_KEEP],
                      call->in[S4_BEGIN_INV_DT],
                      call->in[S4_BEGIN_A_REAL],
                      call->in[S4_BEGIN_A_IMAG],
                      call->in[S4_BEGIN_P] };
}

static double complex pair_at(const float *x, int64_t i)
{
    return (double)x[2 * i] + I * (double)x[2 * i + 1];
}

static double step_of(float inv_dt)
{
    return inv_dt > 30 ? (double)inv_dt : log1p(exp((double)inv_dt));
}

static double complex pole_of(const S4Begin *s, int64_t n)
{
    return -exp((double)s->a_real[n]) - I * (double)s->a_imag[n];
}

/* P* x for row `at` of the states, over the poles and their conjugates. */
static double projected(const S4Begin *s, int64_t at)
{
    double sum = 0;
    for (int64_t n = 0; n < s->pairs; n++)
        sum += 2 * creal(conj(pair_at(s->p, n)) * pair_at(s->state, at * s->pairs + n));
    return sum;
}

Err s4_begin_cpu(const Call *call)
{
    S4Begin s = begin_of(call);
    float  *y = call->out[0], *used = call->out[1];
    int64_t rows = s.batch * s.channels;
#pragma omp parallel for schedule(static) num_threads(call->device->threads)
    for (int64_t at = 0; at < rows; at++) {
        float *to = y + 2 * at * s.pairs;
        size_t bytes = (size_t)(2 * s.pairs) * sizeof *to;
        if (s.keep[at / s.channels] == 0) {
            memset(to, 0, bytes);
            memset(used + 2 * at * s.pairs, 0, bytes);
            continue;
        }
        memcpy(used + 2 * at * s.pairs, s.state + 2 * at * s.pairs, bytes);
        double dt = step_of(s.inv_dt[at % s.channels]), r = projected(&s, at);
        for (int64_t n = 0; n < s.pairs; n++) {
            double complex x = pair_at(s.state, at * s.pairs + n);
            double complex b = x / dt + (pole_of(&s, n) * x - pair_at(s.p, n) * r) / 2;
            to[2 * n] = (float)creal(b);
            to[2 * n + 1] = (float)cimag(b);
        }
    }
    return OK;
}

enum { OF_RE, OF_IM, OF_P_RE, OF_P_IM, POLE_NUMBERS };

/* Workspace: sums over all rows, per pole, for the gradients of A and P. */
Err s4_begin_grad_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    (void)device;
    choice->workspace_bytes = (size_t)in_shape(n, 0).dim[2] * POLE_NUMBERS * sizeof(double);
    return OK;
}

/* See Note [Gradient] in s4_kernel_grad_cpu.c for the convention. One thread: there is little
 * work. */
Err s4_begin_grad_cpu(const Call *call)
{
    S4Begin      s = begin_of(call);
    const float *dy = call->in[S4_BEGIN_INPUTS];
    float       *d_inv_dt = call->out[S4_BEGIN_INV_DT], *d_p = call->out[S4_BEGIN_P];
    float       *d_re = call->out[S4_BEGIN_A_REAL], *d_im = call->out[S4_BEGIN_A_IMAG];
    double      *sums = call->workspace;
    memset(sums, 0, (size_t)(s.pairs * POLE_NUMBERS) * sizeof *sums);
    for (int64_t h = 0; h < s.channels; h++) {
        double dt = step_of(s.inv_dt[h]), d_inverse = 0;
        for (int64_t b = 0; b < s.batch; b++) {
            int64_t at = b * s.channels + h;
            double  r = projected(&s, at), d_r = 0;
            for (int64_t n = 0; n < s.pairs; n++)
                d_r -= 0.5 * creal(conj(pair_at(s.p, n)) * pair_at(dy, at * s.pairs + n));
            for (int64_t n = 0; n < s.pairs; n++) {
                double complex x = pair_at(s.state, at * s.pairs + n),
                               g = pair_at(dy, at * s.pairs + n);
                double complex d_a = conj(x) * g / 2, d_pole = 2 * d_r * x - r / 2 * g;
                double        *to = sums + n * POLE_NUMBERS;
                d_inverse += creal(conj(x) * g);
                to[OF_RE] += creal(d_a);
                to[OF_IM] += cimag(d_a);
                to[OF_P_RE] += creal(d_pole);
                to[OF_P_IM] += cimag(d_pole);
            }
        }
        if (d_inv_dt) /* derivative of 1 / softplus */
            d_inv_dt[h] = (float)(-d_inverse / (dt * dt) / (1 + exp(-(double)s.inv_dt[h])));
    }
    for (int64_t n = 0; n < s.pairs; n++) {
        const double *from = sums + n * POLE_NUMBERS;
        if (d_re)
            d_re[n] = (float)(creal(pole_of(&s, n)) * from[OF_RE]);
        if (d_im)
            d_im[n] = (float)-from[OF_IM];
        for (int i = 0; d_p && i < 2; i++)
            d_p[2 * n + i] = (float)from[OF_P_RE + i];
    }
    return OK;
}

/* ---- the recurrence ---- */

typedef struct CarryLanes {        /* 16 channels of one sample; a pair of poles is [2][LANES] */
    double         *e, *f, *b, *x; /* [pairs][2][LANES] */
    double complex *one;           /* [4][pairs]: coefficients of one channel */
    float          *row;
} CarryLanes;

static size_t lanes_doubles(int64_t pairs)
{
    return (size_t)pairs * (4 * 2 * LANES + 2 * 4) + LANES / 2;
}

static CarryLanes lanes_of(double *room, int64_t pairs)
{
    int64_t n = pairs * 2 * LANES;
    return (CarryLanes){ .e = room,
                         .f = room + n,
                         .b = room + 2 * n,
                         .x = room + 3 * n,
                         .one = (double complex *)(void *)(room + 4 * n),
                         .row = (float *)(void *)(room + 4 * n + 8 * pairs) };
}

Err s4_end_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    choice->workspace_bytes = (size_t)device->threads * lanes_doubles(in_shape(n, 0).dim[2]) *
                              sizeof(double);
    return OK;
}

static void put(double *to, int64_t n, int64_t lane, double complex x)
{
    to[2 * n * LANES + lane] = creal(x);
    to[(2 * n + 1) * LANES + lane] = cimag(x);
}

/* Lanes beyond the last channel have zero coefficients, so their state stays 0. */
static void lanes_fill(const CarryLanes *l, const S4Params *params, int64_t first, int64_t count,
                       const float *state)
{
    int64_t pairs = params->pairs;
    S4Coefs one = { l->one, l->one + pairs, l->one + 2 * pairs, l->one + 3 * pairs };
    memset(l->e, 0, (size_t)(4 * pairs * 2 * LANES) * sizeof *l->e);
    for (int64_t i = 0; i < count; i++) {
        s4_coefs(params, first + i, &one);
        for (int64_t n = 0; n < pairs; n++) {
            put(l->e, n, i, one.e[n]);
            put(l->f, n, i, one.f[n]);
            put(l->b, n, i, one.b[n]);
            if (state)
                put(l->x, n, i, pair_at(state, i * pairs + n));
        }
    }
}

/* One step of the recurrence in s4_step.h. */
static void lanes_step(const CarryLanes *l, const float *p, int64_t pairs, const float *u)
{
    double sums[LANES] = { 0 };
    for (int64_t n = 0; n < pairs; n++) {
        const double *e = l->e + 2 * n * LANES, *b = l->b + 2 * n * LANES;
        double *x = l->x + 2 * n * LANES, p_re = (double)p[2 * n], p_im = (double)p[2 * n + 1];
#pragma omp simd
        for (int i = 0; i < LANES; i++) {
            double w_re = 2 * x[i] + b[i] * (double)u[i],
                   w_im = 2 * x[LANES + i] + b[LANES + i] * (double)u[i];
            double e_re = e[i] * w_re - e[LANES + i] * w_im,
                   e_im = e[i] * w_im + e[LANES + i] * w_re;
            sums[i] += p_re * e_re + p_im * e_im;
            x[i] = e_re - x[i];
            x[LANES + i] = e_im - x[LANES + i];
        }
    }
    for (int64_t n = 0; n < pairs; n++) {
        const double *f = l->f + 2 * n * LANES;
        double       *x = l->x + 2 * n * LANES;
#pragma omp simd
        for (int i = 0; i < LANES; i++) {
            x[i] -= f[i] * sums[i];
            x[LANES + i] -= f[LANES + i] * sums[i];
        }
    }
}

Err s4_end_cpu(const Call *call)
{
    Shape        x = in_shape(call->node, S4_END_STATE);
    Type         type = in_type(call->node, S4_END_U);
    const float *keep = call->in[S4_END_KEEP];
    float       *state = call->out[0];
    int64_t  length = in_shape(call->node, S4_END_U).dim[1], channels = x.dim[1], pairs = x.dim[2];
    int64_t  groups = ceil_div(channels, LANES);
    S4Params params = { .channels = channels,
                        .pairs = pairs,
                        .inv_dt = call->in[S4_END_INV_DT],
                        .b = call->in[S4_END_B],
                        .p = call->in[S4_END_P],
                        .a_real = call->in[S4_END_A_REAL],
                        .a_imag = call->in[S4_END_A_IMAG] };
#pragma omp parallel for schedule(static) num_threads(call->device->threads)
    for (int64_t task = 0; task < x.dim[0] * groups; task++) {
        int64_t    b = task / groups, first = task % groups * LANES;
        int64_t    count = channels - first < LANES ? channels - first : LANES;
        float     *at = state + 2 * (b * channels + first) * pairs;
        CarryLanes l = lanes_of(
            (double *)call->workspace + (size_t)omp_get_thread_num() * lanes_doubles(pairs), pairs);
        lanes_fill(&l, &params, first, count, keep[b] != 0 ? at : NULL);
        memset(l.row, 0, LANES * sizeof *l.row);
        for (int64_t t = 0; t < length; t++) {
            float buffer[LANES];
            memcpy(l.row,
                   row_load(type, call->in[S4_END_U], (b * length + t) * channels + first, count,
                            buffer),
                   (size_t)count * sizeof *l.row);
            lanes_step(&l, params.p, pairs, l.row);
        }
        for (int64_t i = 0; i < count; i++)
            for (int64_t n = 0; n < 2 * pairs; n++)
                at[2 * i * pairs + n] = (float)l.x[n * LANES + i];
    }
    return OK;
}
