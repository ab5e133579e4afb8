/* rfft_cuda.cu -- real Fourier transforms on CUDA, computed as complex transforms of the same
 * length. */
#include "ops/fft/fft_cuda.h"

Err fft_real_to_half(const Call *call, FftCuda f, int64_t batch, RealSignal from, HalfSpectrum to,
                     float2 *workspace)
{
    return fft_whole(call, f, batch, from, to, workspace);
}

Err fft_half_to_real(const Call *call, FftCuda f, int64_t batch, HalfSpectrum from, RealSignal to,
                     float2 *workspace)
{
    return fft_whole(call, f, batch, from, to, workspace);
}

static FftCuda rfft_of(const Node *n)
{
    return fft_cuda_of(ATTR(n, RfftAttr)->n, in_shape(n, 0).dim[2], true);
}

extern "C" Err rfft_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    FftCuda f = rfft_of(n);
    (void)device;
    TRY(fft_cuda_check(n->op->name, &f, 2));
    choice->workspace_bytes =
        f.n2 == 1 ? 0 : (size_t)fft_wave(&f, in_shape(n, 0).dim[0]) * fft_signal_bytes(&f);
    choice->name = "builtin";
    return OK;
}

static Err rfft_run(const Call *call, bool back)
{
    const RfftAttr *attr = ATTR(call->node, RfftAttr);
    FftCuda         f = rfft_of(call->node);
    int64_t         batch = in_shape(call->node, 0).dim[0], wave = fft_wave(&f, batch);
    for (int64_t b = 0; b < batch; b += wave) {
        int64_t      some = batch - b < wave ? batch - b : wave;
        RealSignal   x = { (float *)(back ? call->out[0] : call->in[0]) + b * f.n * f.channels, f.n,
                           f.channels };
        HalfSpectrum s = { (float2 *)(back ? call->in[0] : call->out[0]) +
                               b * (f.n / 2 + 1) * f.channels,
                           f.n, f.channels, attr->edge, attr->inner };
        if (back)
            TRY(fft_half_to_real(call, f, some, s, x, (float2 *)call->workspace));
        else
            TRY(fft_real_to_half(call, f, some, x, s, (float2 *)call->workspace));
    }
    return OK;
}

extern "C" Err rfft_cuda(const Call *call) { return rfft_run(call, false); }
extern "C" Err irfft_cuda(const Call *call) { return rfft_run(call, true); }

CUDA_KERNEL(rfft, .choose = rfft_choose_cuda, .run = rfft_cuda)
CUDA_KERNEL(irfft, .choose = rfft_choose_cuda, .run = irfft_cuda)
