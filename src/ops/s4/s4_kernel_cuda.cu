/* s4_kernel_cuda.cu -- the S4 convolution kernel on CUDA. */
#include "ops/s4/s4_cauchy_cuda.h"

__device__ __forceinline__ float weight_p(Complex v) { return (float)v.re; }
__device__ __forceinline__ float weight_q(Complex v, Complex a)
{
    return (float)(v.re * a.re + v.im * a.im);
}

/* One thread per (channel, pole). Those of the first pole also compute 1 / dt, those of the first
 * channel what depends on the pole alone. */
__global__ void s4_fill(S4Cuda s)
{
    cuda_begin();
    int64_t h = blockIdx.x * (int64_t)blockDim.x + threadIdx.x, n = blockIdx.y;
    if (h >= s.channels)
        return;
    PoleParamsCuda at = pole_params(s, h, n);
    Complex c = z_at(s.param[S4_C], h * s.poles + n), bc = z_mul(at.b, c), pc = z_mul(at.p, c);
    s.lanes[n * s.channels + h] = make_float4(weight_p(bc), weight_q(bc, at.a), weight_p(pc),
                                              weight_q(pc, at.a));
    if (s.b_per_channel) {
        Complex bq = z_mul(at.b, z_conj(at.p));
        s.bq[n * s.channels + h] = make_float2(weight_p(bq), weight_q(bq, at.a));
    }
    if (n == 0)
        s.inverse_dt[h] = 1 / dt_of(s, h);
    if (h == 0) {
        double   size = sqrt(at.a.re * at.a.re + at.a.im * at.a.im);
        Complex  bq = z_mul(at.b, z_conj(at.p)), pq = z_mul(at.p, z_conj(at.p));
        PoleCuda pole;
        pole.hi = (float)size;
        pole.lo = (float)(size - (double)pole.hi);
        pole.damp = (float)(-2 * at.a.re);
        pole.bq[0] = weight_p(bq);
        pole.bq[1] = weight_q(bq, at.a);
        pole.pq[0] = weight_p(pq);
        pole.pq[1] = weight_q(pq, at.a);
        pole.unused = 0;
        s.pole[n] = pole;
    }
}

/* The spectrum at k = L/2, where the tangent has its pole. */
__device__ __forceinline__ float s4_edge(const S4Cuda &s, int64_t h)
{
    float sum = 0;
    for (int64_t n = 0; n < s.poles; n++)
        sum += s.lanes[n * s.channels + h].x;
    return (float)((double)sum / s.inverse_dt[h]);
}

/* Z_k and Z_(M - k), k <= M - k, from X_k and X_(M - k): Note [Half the length]. Both are doubled;
 * the factor 1 / L instead of 1 / M makes up for it. */
__device__ __forceinline__ void put_pair(const S4Cuda &s, int64_t h, int64_t k, float2 x,
                                         float2 mirror)
{
    float2  e = make_float2(x.x + mirror.x, x.y - mirror.y);
    float2  o = c_mul(make_float2(x.x - mirror.x, x.y + mirror.y), unit_root(2 * k, s.length));
    int64_t other = s.length / 2 - k;
    s.spectrum[k * s.channels + h] = make_float2(e.x - o.y, e.y + o.x);
    if (k && other != k)
        s.spectrum[other * s.channels + h] = make_float2(e.x + o.y, o.x - e.y);
}

/* Threads (32 channels, 8 pairs of frequencies). A pair is the k-th and the k-th from the end. */
template <bool B_PER_CHANNEL> __global__ void __launch_bounds__(256) s4_spectrum(S4Cuda s)
{
    __shared__ StagedPoles<B_PER_CHANNEL> staged;
    cuda_begin();
    int64_t h = blockIdx.y * (int64_t)S4_LANES + threadIdx.x,
            at = blockIdx.x * (int64_t)8 + threadIdx.y;
    int64_t k[S4_TWO] = { at, s.n_freq - 1 - at };
    bool    even = s.length % 2 == 0, there = h < s.channels && k[0] <= k[1];
    if (!there) { /* all threads take part in loading poles */
        h = 0;
        k[0] = k[1] = 0;
    }
    bool edge = even && k[0] == 0;
    load_poles<B_PER_CHANNEL>(s, &staged, 0);
    FreqCuda f[S4_TWO];
    Cauchy   sums[S4_TWO];
    float2   x[S4_TWO];
#pragma unroll
    for (int j = 0; j < S4_TWO; j++) /* at the edge this is not used */
        f[j] = freq_of(s, edge ? 0 : k[j], s.inverse_dt[h]);
    __syncthreads();
    cauchy<B_PER_CHANNEL, BC>(sums, s, &staged, f);
    cuda_ends();
    if (!there)
        return;
#pragma unroll
    for (int j = 0; j < S4_TWO; j++) {
        float2 less = c_sub(sums[j].r[BC], c_mul(sums[j].ratio_b, sums[j].r[PC]));
        float  half_y = 0.5f * s.tangents[2 * (edge ? 0 : k[j])];
        x[j] = make_float2(less.x - half_y * less.y, less.y + half_y * less.x);
    }
    if (edge) { /* both are real */
        x[0].y = 0;
        x[1] = make_float2(s4_edge(s, h), 0);
    }
    if (even) {
        put_pair(s, h, at, x[0], x[1]);
        return;
    }
#pragma unroll
    for (int j = 0; j < S4_TWO; j++)
        s.spectrum[k[j] * s.channels + h] = x[j];
}

/* Z as the input of an inverse transform: parts swapped, divided by the length. */
struct PairSpectrum {
    const float2                     *p;
    int64_t                           channels;
    float                             scale;
    __device__ __forceinline__ float2 operator()(int64_t, int64_t e, int64_t c, float2) const
    {
        float2 v = p[e * channels + c];
        return make_float2(scale * v.y, scale * v.x);
    }
};

/* ---- host ---- */

/* Reserves aligned workspace and returns its offset. */
static size_t place(size_t *bytes, size_t more)
{
    size_t at = *bytes;
    *bytes += align_bytes(more, 256);
    return at;
}

S4Cuda s4_cuda_of(const Call *call, const Node *n, int sms, bool grad)
{
    S4Cuda s = {};
    Shape  c = in_shape(n, S4_C);
    char  *base = call ? (char *)call->workspace : NULL;
    s.channels = c.dim[1];
    s.poles = c.dim[2];
    s.b_per_channel = shape_same(in_shape(n, S4_B), c);
    s.length = ATTR(n, S4KernelAttr)->length;
    s.n_freq = s.length / 2 + 1;
    s.f = fft_cuda_of(s.length % 2 ? s.length : s.length / 2, s.channels, true);
    /* one block per multiprocessor, all at once */
    int64_t chunks = sms / ceil_div(s.channels, S4_LANES),
            max_chunks = ceil_div(s.n_freq, S4_FREQS);
    s.chunk = ceil_div(s.n_freq, chunks < 1 ? 1 : chunks < max_chunks ? chunks : max_chunks);
    s.chunks = ceil_div(s.n_freq, s.chunk);
    size_t pairs = (size_t)(s.poles * s.channels), width = (size_t)s.channels;
    s.inverse_dt = (double *)(base + place(&s.bytes, width * sizeof(double)));
    s.pole = (PoleCuda *)(base + place(&s.bytes, (size_t)s.poles * sizeof(PoleCuda)));
    s.lanes = (float4 *)(base + place(&s.bytes, pairs * sizeof(float4)));
    if (s.b_per_channel)
        s.bq = (float2 *)(base + place(&s.bytes, pairs * sizeof(float2)));
    s.spectrum = (float2 *)(base + place(&s.bytes, (size_t)s.n_freq * width * sizeof(float2)));
    s.workspace = (float2 *)(base + place(&s.bytes, s.f.n2 == 1 ? 0 : fft_signal_bytes(&s.f)));
    if (grad) {
        s.sums = (float *)(base +
                           place(&s.bytes, (size_t)s.chunks * pairs * POLE_SUMS * sizeof(float)));
        s.shared = (double *)(base + place(&s.bytes, pairs * CHAIN_SUMS * sizeof(double)));
    }
    for (int i = 0; call && i < S4_PARAMS; i++) {
        s.param[i] = (const float *)call->in[i];
        s.out[i] = grad ? (float *)call->out[i] : NULL;
    }
    s.tangents = call ? (const float *)call->in[S4_PARAMS + 1] : NULL;
    return s;
}

Err s4_cuda_choose(const Node *n, const Device *device, bool grad, Choice *choice)
{
    S4Cuda s = s4_cuda_of(NULL, n, ((const CudaHandle *)device->handle)->sms, grad);
    TRY(fft_cuda_check(n->op->name, &s.f, 2));
    choice->workspace_bytes = s.bytes;
    choice->name = "streamed";
    return OK;
}

Err s4_cuda_fill(const Call *call, const S4Cuda *s)
{
    dim3 blocks((unsigned)ceil_div(s->channels, 128), (unsigned)s->poles);
    cuda_launch(cuda_stream(call), s4_fill, blocks, 128, 0, *s);
    CUDA_LAUNCHED();
    return OK;
}

extern "C" Err s4_kernel_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    return s4_cuda_choose(n, device, false, choice);
}

extern "C" Err s4_kernel_cuda(const Call *call)
{
    S4Cuda s = s4_cuda_of(call, call->node, cuda_handle(call)->sms, false);
    dim3 blocks((unsigned)ceil_div(s.n_freq, 8 * S4_TWO), (unsigned)ceil_div(s.channels, S4_LANES));
    float one = 1 / (float)s.length, *out = (float *)call->out[0];
    TRY(s4_cuda_fill(call, &s));
    if (s.b_per_channel)
        cuda_launch(cuda_stream(call), s4_spectrum<true>, blocks, dim3(S4_LANES, 8), 0, s);
    else
        cuda_launch(cuda_stream(call), s4_spectrum<false>, blocks, dim3(S4_LANES, 8), 0, s);
    CUDA_LAUNCHED();
    if (s.length % 2) {
        HalfSpectrum from = { s.spectrum, s.length, s.channels, one, one };
        RealSignal   to = { out, s.length, s.channels };
        return fft_half_to_real(call, s.f, 1, from, to, s.workspace);
    }
    PairSpectrum from = { s.spectrum, s.channels, one };
    PairSignal   to = { out, s.channels };
    return fft_whole(call, s.f, 1, from, to, s.workspace);
}

CUDA_KERNEL(s4_kernel, .choose = s4_kernel_choose_cuda, .run = s4_kernel_cuda)
