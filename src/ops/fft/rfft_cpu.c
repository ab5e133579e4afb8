/* rfft_cpu.c -- real Fourier transforms on the CPU: a task is 16 channels of one sample of the
 * batch. */
#include "ops/fft/rfft.h"

#include "ops/parallel.h"

typedef struct RfftJob {
    Fft     f;
    int64_t batch, channels, groups, n_freq;
    int     threads;
    int64_t thread_vecs;
} RfftJob;

static RfftJob job_of(const Node *n, const float *table, int device_threads)
{
    const RfftAttr *attr = ATTR(n, RfftAttr);
    Shape           x = in_shape(n, 0);
    RfftJob         job = { .f = fft_open(FFT_REAL, attr->n, table),
                            .batch = x.dim[0],
                            .channels = x.dim[2],
                            .groups = ceil_div(x.dim[2], FFT_LANES),
                            .n_freq = attr->n / 2 + 1 };
    job.threads = parallel_threads(device_threads, job.batch * job.groups);
    job.thread_vecs = fft_signal_vecs(&job.f) + fft_spectrum_vecs(&job.f) +
                      fft_workspace_vecs(&job.f);
    return job;
}

Err rfft_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    RfftJob job = job_of(n, NULL, device->threads);
    choice->workspace_bytes = (size_t)(job.threads * job.thread_vecs) * sizeof(FftVec);
    choice->name = "builtin";
    return OK;
}

typedef struct RfftBuffers {
    FftVec *big, *spectrum, *workspace;
} RfftBuffers;

static RfftBuffers job_buffers(const RfftJob *job, void *workspace)
{
    FftVec *mine = (FftVec *)workspace + omp_get_thread_num() * job->thread_vecs;
    return (RfftBuffers){ .big = mine,
                          .spectrum = mine + fft_signal_vecs(&job->f),
                          .workspace = mine + fft_signal_vecs(&job->f) +
                                       fft_spectrum_vecs(&job->f) };
}

static FftRows job_rows(const RfftJob *job, float *x, int64_t task)
{
    int64_t c = task % job->groups * FFT_LANES, left = job->channels - c;
    return (FftRows){ .p = x + task / job->groups * job->f.n_real * job->channels + c,
                      .stride = job->channels,
                      .lanes = left < FFT_LANES ? (int)left : FFT_LANES };
}

/* Offset of frequency k of a task's channels in (B,L/2+1,C,2). */
static int64_t job_place(const RfftJob *job, int64_t task, int64_t k)
{
    return 2 * ((task / job->groups * job->n_freq + k) * job->channels +
                task % job->groups * FFT_LANES);
}

static float job_factor(const RfftJob *job, const RfftAttr *attr, int64_t k)
{
    return k == 0 || 2 * k == job->f.n_real ? attr->edge : attr->inner;
}

Err rfft_cpu(const Call *call)
{
    const RfftAttr *attr = ATTR(call->node, RfftAttr);
    RfftJob         job = job_of(call->node, call->in[1], call->device->threads);
    float          *out = call->out[0];
#pragma omp parallel for schedule(static) num_threads(job.threads)
    for (int64_t task = 0; task < job.batch * job.groups; task++) {
        RfftBuffers b = job_buffers(&job, call->workspace);
        FftRows     x = job_rows(&job, call->in[0], task);
        fft_real(&job.f, x, b.big, b.spectrum, b.workspace);
        for (int64_t k = 0; k < job.n_freq; k++) {
            float  s = job_factor(&job, attr, k);
            float *y = out + job_place(&job, task, k);
            for (int i = 0; i < x.lanes; i++) {
                y[2 * i] = s * b.spectrum[2 * k][i];
                y[2 * i + 1] = s * b.spectrum[2 * k + 1][i];
            }
        }
    }
    return OK;
}

Err irfft_cpu(const Call *call)
{
    const RfftAttr *attr = ATTR(call->node, RfftAttr);
    RfftJob         job = job_of(call->node, call->in[1], call->device->threads);
    const float    *in = call->in[0];
#pragma omp parallel for schedule(static) num_threads(job.threads)
    for (int64_t task = 0; task < job.batch * job.groups; task++) {
        RfftBuffers b = job_buffers(&job, call->workspace);
        FftRows     y = job_rows(&job, call->out[0], task);
        for (int64_t k = 0; k < job.n_freq; k++) {
            float        s = job_factor(&job, attr, k);
            const float *x = in + job_place(&job, task, k);
            b.spectrum[2 * k] = b.spectrum[2 * k + 1] = (FftVec){ 0 };
            for (int i = 0; i < y.lanes; i++) {
                b.spectrum[2 * k][i] = s * x[2 * i];
                b.spectrum[2 * k + 1][i] = s * x[2 * i + 1];
            }
        }
        fft_real_back(&job.f, b.spectrum, y, 1, b.workspace);
    }
    return OK;
}
