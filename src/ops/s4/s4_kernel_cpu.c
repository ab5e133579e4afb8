/* s4_kernel_cpu.c -- the S4 kernel on the CPU: 16 channels as lanes, frequency by frequency. */
#include "ops/s4/s4_cauchy.h"

#include "ops/parallel.h"

Err s4_kernel_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    S4 s = s4_of(NULL, n, device->threads, false);
    choice->workspace_bytes = s4_bytes(&s);
    choice->name = "streamed";
    return OK;
}

INLINE void spectrum_of(const S4 *s, const S4Pole *poles, const S4Slot *slot, const Vec *bq,
                        const double *inverse_dt, int64_t from, int64_t to)
{
    for (int64_t k = from; k < to; k++) {
        Vec *out = slot->spectrum + 2 * k;
        if (is_nyquist(s, k)) {
            Vec sum = { 0 };
            for (int64_t n = 0; n < s->poles; n++)
                sum += slot->lanes[n].bc[0];
            for (int i = 0; i < FFT_LANES; i++)
                out[0][i] = (float)((double)sum[i] / inverse_dt[i]);
            out[1] = (Vec){ 0 };
            continue;
        }
        S4Freq     f;
        CauchySums sums;
        S4Complex  less;
        freq_set(&f, s->tangents + 2 * k, inverse_dt);
        cauchy(&sums, s, poles, slot->lanes, bq, &f);
        product(&less, &sums.ratio_b, &sums.r[PC]);
        less.re = sums.r[BC].re - less.re;
        less.im = sums.r[BC].im - less.im;
        out[0] = less.re - f.half_y * less.im;
        out[1] = less.im + f.half_y * less.re;
    }
}

static void s4_spectrum(const S4 *s, const S4Pole *poles, const S4Slot *slot,
                        const double *inverse_dt, int64_t from, int64_t to)
{
    if (slot->bq)
        spectrum_of(s, poles, slot, slot->bq, inverse_dt, from, to);
    else
        spectrum_of(s, poles, slot, NULL, inverse_dt, from, to);
}

Err s4_kernel_cpu(const Call *call)
{
    S4      s = s4_of(call, call->node, call->device->threads, false);
    S4Pole *poles = s4_poles(&s, call->workspace);
    s4_fill_poles(&s, poles);
    for (int64_t first = 0; first < s.groups; first += s.wave) {
        int64_t some = s.groups - first < s.wave ? s.groups - first : s.wave;
        int     chunks = s4_freq_chunks(&s, some);
#pragma omp parallel num_threads(s.threads)
        {
#pragma omp for schedule(static)
            for (int64_t i = 0; i < some; i++) {
                S4Slot slot = s4_slot(&s, call->workspace, i);
                s4_fill_lanes(&s, first + i, &slot);
            }
#pragma omp for schedule(static)
            for (int64_t task = 0; task < some * chunks; task++) {
                int64_t from, to;
                S4Slot  slot = s4_slot(&s, call->workspace, task / chunks);
                double  inverse_dt[FFT_LANES];
                s4_inverse_dt(&s, first + task / chunks, inverse_dt);
                parallel_range(s.n_freq, FREQ_BLOCK, (int)(task % chunks), chunks, &from, &to);
                s4_spectrum(&s, poles, &slot, inverse_dt, from, to);
            }
#pragma omp for schedule(static)
            for (int64_t i = 0; i < some; i++) {
                S4Slot slot = s4_slot(&s, call->workspace, i);
                fft_real_back(&s.f, slot.spectrum, s4_rows(&s, call->out[0], first + i),
                              1 / (float)s.length, slot.workspace);
            }
        }
    }
    return OK;
}
