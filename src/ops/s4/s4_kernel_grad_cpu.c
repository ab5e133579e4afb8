/* s4_kernel_grad_cpu.c -- gradients of the S4 kernel on the CPU.
 *
 * Note [Gradient]. Let G = dL/dRe + i dL/dIm for a complex number; then G of x is conj(f'(x)) times
 * G of f(x). For each frequency, pass one (grad_of_sums) recomputes the four sums and from them the
 * G of each. Pass two (grad_of_pole) iterates over the poles, with all sums over frequencies in
 * registers. s counts as a constant, since the sums do not depend on it.
 */
#include "ops/s4/s4_cauchy.h"

#include "ops/parallel.h"

#include <math.h>
#include <string.h>

Err s4_kernel_grad_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    S4 s = s4_of(NULL, n, device->threads, true);
    choice->workspace_bytes = s4_bytes(&s);
    choice->name = "streamed";
    return OK;
}

typedef struct FreqBlock { /* the result of pass one for a few frequencies */
    S4Freq freq[FREQ_BLOCK];
    /* For each sum, with G its gradient: 2 t Im G, -2 t Re G, -2 s Re G, -2 s Im G. */
    Vec    part[FREQ_BLOCK][SUMS][4];
} FreqBlock;

/* Pass one at one frequency: spectrum is the gradient of the kernel's spectrum there. Adds y'
 * dL/dy' to `through`, as far as y' occurs outside of R. */
INLINE void grad_of_sums(const S4 *s, const S4Pole *poles, const PoleLanes *lanes, const Vec *bq,
                         const Vec *spectrum, float factor, const S4Freq *f, Vec part[SUMS][4],
                         Vec *through)
{
    CauchySums sums;
    S4Complex  g[SUMS], outer = { spectrum[0] * factor, spectrum[1] * factor };
    cauchy(&sums, s, poles, lanes, bq, f);
    g[BC].re = outer.re + f->half_y * outer.im;
    g[BC].im = outer.im - f->half_y * outer.re;
    product_conj(&g[BQ], &sums.ratio_c, &g[BC]);
    product_conj(&g[PC], &sums.ratio_b, &g[BC]);
    product_conj(&g[PQ], &sums.ratio_b, &g[BQ]);
    g[BQ] = (S4Complex){ -g[BQ].re, -g[BQ].im };
    g[PC] = (S4Complex){ -g[PC].re, -g[PC].im };
    for (int i = 0; i < SUMS; i++) {
        part[i][0] = 2.0f * f->t * g[i].im;
        part[i][1] = -2.0f * f->t * g[i].re;
        part[i][2] = -2.0f * f->s * g[i].re;
        part[i][3] = -2.0f * f->s * g[i].im;
        *through += sums.p[i].re * part[i][0] + sums.p[i].im * part[i][1];
    }
}

static void add_double(double *to, const Vec *v)
{
    for (int i = 0; i < FFT_LANES; i++)
        to[i] += (double)(*v)[i];
}

/* Pass two: one pole over the block's frequencies. */
static void grad_of_pole(const S4Pole *pole, const PoleLanes *lanes, const Vec *bq,
                         const FreqBlock *block, int64_t count, double *sums, Vec *through)
{
    Vec weight[SUMS][2] = {
        [BC] = { lanes->bc[0], lanes->bc[1] }, [PC] = { lanes->pc[0], lanes->pc[1] }
    };
    Vec total[POLE_SUMS] = { 0 }, y = { 0 }, zero = { 0 };
    for (int i = 0; i < 2; i++) {
        weight[BQ][i] = bq ? bq[i] : zero + pole->bq[i];
        weight[PQ][i] = zero + pole->pq[i];
    }
    for (int64_t k = 0; k < count; k++) {
        const S4Freq *f = &block->freq[k];
        S4Complex     r, g = { zero, zero }, d;
        resolvent(pole, f, &r);
        for (int i = 0; i < SUMS; i++) {
            const Vec *part = block->part[k][i];
            total[2 * i] += r.re * part[0] + r.im * part[1];
            total[2 * i + 1] += r.re * part[2] + r.im * part[3];
            g.re += weight[i][0] * part[0] + weight[i][1] * part[2];
            g.im += weight[i][0] * part[1] + weight[i][1] * part[3];
        }
        product(&r, &r, &r); /* dR/dD = -R^2 */
        product_conj(&d, &r, &g);
        total[SUM_M] -= f->s * d.re;
        total[SUM_DAMP] -= f->t * d.im;
        y -= f->hi * f->t * d.re;
    }
    *through += pole->damp * total[SUM_DAMP] - 2.0f * y;
    for (int i = 0; i < POLE_SUMS; i++)
        add_double(sums + i * FFT_LANES, &total[i]);
}

/* All sums of one task: frequencies [from, to) of one group. */
static void s4_task(const S4 *s, const S4Pole *poles, const S4Slot *slot, const double *inverse_dt,
                    int64_t from, int64_t to, double *sums)
{
    double *through = sums + s->poles * POLE_SUMS * FFT_LANES, *direct = through + FFT_LANES;
    memset(sums, 0, (size_t)(s->poles * POLE_SUMS + 2) * FFT_LANES * sizeof *sums);
    for (int64_t first = from; first < to; first += FREQ_BLOCK) {
        FreqBlock block;
        int64_t   count = 0;
        Vec       moved = { 0 };
        for (int64_t k = first; k < first + FREQ_BLOCK && k < to; k++) {
            const Vec *g = slot->spectrum + 2 * k;
            float      factor = (k == 0 || is_nyquist(s, k) ? 1.0f : 2.0f) / (float)s->length;
            if (is_nyquist(s, k)) { /* dt times the sum of p of B C */
                for (int64_t n = 0; n < s->poles; n++)
                    for (int i = 0; i < FFT_LANES; i++) {
                        sums[n * POLE_SUMS * FFT_LANES + i] += (double)(g[0][i] * factor) /
                                                               inverse_dt[i];
                        direct[i] += (double)(g[0][i] * factor) * (double)slot->lanes[n].bc[0][i];
                    }
                continue;
            }
            freq_set(&block.freq[count], s->tangents + 2 * k, inverse_dt);
            if (slot->bq)
                grad_of_sums(s, poles, slot->lanes, slot->bq, g, factor, &block.freq[count],
                             block.part[count], &moved);
            else
                grad_of_sums(s, poles, slot->lanes, NULL, g, factor, &block.freq[count],
                             block.part[count], &moved);
            count++;
        }
        for (int64_t n = 0; n < s->poles; n++)
            grad_of_pole(&poles[n], &slot->lanes[n], slot->bq ? slot->bq + 2 * n : NULL, &block,
                         count, sums + n * POLE_SUMS * FFT_LANES, &moved);
        add_double(through, &moved);
    }
}

/* From sums over frequencies to gradients of parameters, for one group. The sums of its tasks are
 * added into those of the first. */
static void s4_chain(const S4 *s, const Call *call, int64_t group, int64_t task, int chunks,
                     double *shared)
{
    double *sums = s4_sums(s, call->workspace, task),
           *dt_sums = sums + s->poles * POLE_SUMS * FFT_LANES;
    float *d_inv_dt = call->out[S4_INV_DT], *d_c = call->out[S4_C];
    float *d_b = s->b_per_channel ? call->out[S4_B] : NULL;
    for (int chunk = 1; chunk < chunks; chunk++) {
        const double *more = s4_sums(s, call->workspace, task + chunk);
        for (int64_t i = 0; i < (s->poles * POLE_SUMS + 2) * FFT_LANES; i++)
            sums[i] += more[i];
    }
    for (int64_t i = 0, h = group * FFT_LANES; i < FFT_LANES && h < s->channels; i++, h++) {
        double dt = s4_dt(s, h), d_dt = dt_sums[FFT_LANES + i] - dt_sums[i] / dt;
        if (d_inv_dt)
            d_inv_dt[h] = (float)(d_dt / (1 + exp(-(double)s->param[S4_INV_DT][h])));
        for (int64_t n = 0; n < s->poles; n++) {
            const double  *sum = sums + n * POLE_SUMS * FFT_LANES + i;
            S4PoleParams   at = s4_pole_params(s, n);
            double complex c = s4_c(s, h, n), b = s4_b(s, h, n), q = conj(at.p), g[SUMS];
            double complex v[SUMS] = {
                [BC] = b * c, [BQ] = b * q, [PC] = at.p * c, [PQ] = at.p * q
            };
            double re = creal(at.a), im = cimag(at.a);
            double d_re = 2 * re * sum[SUM_M * FFT_LANES] - 2 * sum[SUM_DAMP * FFT_LANES];
            double d_im = 2 * im * sum[SUM_M * FFT_LANES];
            for (int j = 0; j < SUMS; j++) { /* p = Re v, q = Re v Re A + Im v Im A */
                double dp = sum[2 * j * FFT_LANES], dq = sum[(2 * j + 1) * FFT_LANES];
                g[j] = dp + re * dq + I * (im * dq);
                d_re += creal(v[j]) * dq;
                d_im += cimag(v[j]) * dq;
            }
            double complex dc = conj(b) * g[BC] + conj(at.p) * g[PC];
            double complex db = conj(c) * g[BC] + conj(q) * g[BQ];
            double complex dp = conj(c) * g[PC] + conj(q) * g[PQ] +
                                conj(conj(b) * g[BQ] + conj(at.p) * g[PQ]);
            if (d_c) {
                d_c[2 * (h * s->poles + n)] = (float)creal(dc);
                d_c[2 * (h * s->poles + n) + 1] = (float)cimag(dc);
            }
            if (d_b) {
                d_b[2 * (h * s->poles + n)] = (float)creal(db);
                d_b[2 * (h * s->poles + n) + 1] = (float)cimag(db);
            }
            double more[6] = { creal(db), cimag(db), creal(dp), cimag(dp), re * d_re, -d_im };
            for (int j = 0; j < 6; j++)
                shared[6 * n + j] += more[j];
        }
    }
}

Err s4_kernel_grad_cpu(const Call *call)
{
    S4      s = s4_of(call, call->node, call->device->threads, true);
    S4Pole *poles = s4_poles(&s, call->workspace);
    double *shared = s4_shared_sums(&s, call->workspace);
    s4_fill_poles(&s, poles);
    memset(shared, 0, (size_t)s.poles * 6 * sizeof *shared);
    for (int64_t first = 0; first < s.groups; first += s.wave) {
        int64_t some = s.groups - first < s.wave ? s.groups - first : s.wave;
        int     chunks = s4_freq_chunks(&s, some);
#pragma omp parallel num_threads(s.threads)
        {
#pragma omp for schedule(static)
            for (int64_t i = 0; i < some; i++) {
                S4Slot slot = s4_slot(&s, call->workspace, i);
                s4_fill_lanes(&s, first + i, &slot);
                fft_real(&s.f, s4_rows(&s, call->in[S4_PARAMS + 2], first + i), slot.big,
                         slot.spectrum, slot.workspace);
            }
#pragma omp for schedule(static)
            for (int64_t task = 0; task < some * chunks; task++) {
                int64_t from, to;
                S4Slot  slot = s4_slot(&s, call->workspace, task / chunks);
                double  inverse_dt[FFT_LANES];
                s4_inverse_dt(&s, first + task / chunks, inverse_dt);
                parallel_range(s.n_freq, FREQ_BLOCK, (int)(task % chunks), chunks, &from, &to);
                s4_task(&s, poles, &slot, inverse_dt, from, to, s4_sums(&s, call->workspace, task));
            }
        }
        for (int64_t i = 0; i < some; i++)
            s4_chain(&s, call, first + i, i * chunks, chunks, shared);
    }
    static const int place[6][2] = { { S4_B, 0 }, { S4_B, 1 },      { S4_P, 0 },
                                     { S4_P, 1 }, { S4_A_REAL, 0 }, { S4_A_IMAG, 0 } };
    for (int j = 0; j < 6; j++) {
        float  *out = s.b_per_channel && place[j][0] == S4_B ? NULL : call->out[place[j][0]];
        int64_t width = j < 4 ? 2 : 1;
        for (int64_t n = 0; out && n < s.poles; n++)
            out[n * width + place[j][1]] = (float)shared[6 * n + j];
    }
    return OK;
}
