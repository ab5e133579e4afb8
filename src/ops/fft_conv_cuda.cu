/* fft_conv_cuda.cu -- causal convolution on CUDA: see Note [Right angle] in fft_conv_cpu.c.
 *
 * Samples of the batch go through in waves that fit the second cache; spectra stay in the order in
 * which the rows leave them. Gradients are convolutions backwards in time: with ' for reversal,
 * du' = dy' * K, dK' = sum over the batch of dy' * u.
 */
#include "ops/fft_cuda.h"

extern "C" {
#define class class_
#include "ops/fft_conv.h"
#undef class
}

__device__ __forceinline__ float value_at(Type type, const void *p, int64_t i)
{
    return type == F32    ? get((const float *)p, i)
           : type == BF16 ? get((const bf16 *)p, i)
                          : get((const f16 *)p, i);
}

/* A real signal (batch, length, channels) of any type, weighted by exp(i pi j / 2n), 0 beyond its
 * end, maybe read backwards. */
struct Weighted {
    const void *p;
    Type        type;
    int64_t     length, channels, n;
    bool        backwards;
    __device__ __forceinline__ float2 operator()(int64_t b, int64_t j, int64_t c, float2 w) const
    {
        if (j >= length)
            return make_float2(0, 0);
        float x = value_at(type, p, (b * length + (backwards ? length - 1 - j : j)) * channels + c);
        return make_float2(x * w.x, x * w.y);
    }
};

__device__ __forceinline__ float2 weight_of(const Weighted &s, int64_t j)
{
    return turn(j, 2 * s.n);
}

/* The way back; adds d * x, where x lies as the result does. */
struct Unweighted {
    void       *p;
    Type        type;
    int64_t     length, channels, n;
    bool        backwards;
    const void *d, *x;           /* d NULL: none */
    Type        type_d, type_x;
    __device__ __forceinline__ void operator()(int64_t b, int64_t j, int64_t c, float2 v,
                                               float2 w) const
    {
        if (j >= length)
            return;
        int64_t at = (b * length + (backwards ? length - 1 - j : j)) * channels + c;
        float   y = v.x * w.x + v.y * w.y;
        if (d)
            y += value_at(type_d, d, c) * value_at(type_x, x, at);
        if (type == F32)
            put((float *)p, at, y);
        else if (type == BF16)
            put((bf16 *)p, at, y);
        else
            put((f16 *)p, at, y);
    }
};

__device__ __forceinline__ float2 weight_of(const Unweighted &s, int64_t j)
{
    float2 w = turn(j, 2 * s.n);
    return make_float2(w.x / (float)s.n, w.y / (float)s.n);
}

/* Stores a row where it came from. */
struct InRows {
    Scratch s;
    __device__ __forceinline__ void operator()(int64_t b, int64_t e, int64_t c, float2 v,
                                               float2) const
    {
        *s.at(b, e, c) = v;
    }
};
/* The same for an inverse, from and to the same rows. */
struct FlipRows {
    Scratch s;
    __device__ __forceinline__ float2 operator()(int64_t b, int64_t e, int64_t c, float2) const
    {
        return c_flip(*s.at(b, e, c));
    }
    __device__ __forceinline__ void operator()(int64_t b, int64_t e, int64_t c, float2 v,
                                               float2) const
    {
        *s.at(b, e, c) = c_flip(v);
    }
};
__device__ __forceinline__ int64_t row_element(const FftCuda &f, int k1, int k2)
{
    return (int64_t)k1 * f.n2 + k2;
}
__device__ __forceinline__ int64_t element_of(const InRows &, const FftCuda &f, int k1, int k2)
{
    return row_element(f, k1, k2);
}
__device__ __forceinline__ int64_t element_of(const FlipRows &, const FftCuda &f, int k1, int k2)
{
    return row_element(f, k1, k2);
}

__device__ __forceinline__ void row_load(float2 *x, const FftCuda &f, int lanes,
                                         const Scratch &from, int64_t b)
{
    fft_each(f.n2, lanes, f.channels, [&](int i, int j2, int64_t c, bool there) {
        x[i] = there ? *from.at(b, (int64_t)blockIdx.x * f.n2 + j2, c) : make_float2(0, 0);
    });
    __syncthreads();
}

__device__ __forceinline__ void row_store(const float2 *x, const FftCuda &f, int lanes,
                                          const Scratch &to, int64_t b, bool flip)
{
    fft_each(f.n2, lanes, f.channels, [&](int i, int j2, int64_t c, bool there) {
        if (there)
            *to.at(b, (int64_t)blockIdx.x * f.n2 + j2, c) = flip ? c_flip(x[i]) : x[i];
    });
}

/* x times a row of the kernel's spectrum, flipped for the way back. */
__device__ __forceinline__ void row_multiply(float2 *x, const FftCuda &f, int lanes,
                                             const Scratch &spectrum)
{
    fft_each(f.n2, lanes, f.channels, [&](int i, int k2, int64_t c, bool there) {
        if (there)
            x[i] = c_flip(c_mul(x[i], *spectrum.at(0, (int64_t)blockIdx.x * f.n2 + k2, c)));
    });
    __syncthreads();
}

/* Row by row, in place: transform, product with a spectrum, transform back. */
__global__ void __launch_bounds__(FFT_THREADS)
    conv_rows(int lanes, FftCuda f, Scratch x, Scratch spectrum)
{
    cuda_begin();
    extern __shared__ float2 memory[];
    float2 *one = fft_buffer(memory, f.n2, lanes, 0), *two = fft_buffer(memory, f.n2, lanes, 1);
    fft_turns(memory, f.n2);
    row_load(one, f, lanes, x, blockIdx.z);
    float2 *at = fft_run(one, two, memory, f.n2, lanes);
    row_multiply(at, f, lanes, spectrum);
    at = fft_run(at, at == one ? two : one, memory, f.n2, lanes);
    row_store(at, f, lanes, x, blockIdx.z, true);
}

/* Rows of dy and u of a wave: dy becomes (spectrum of dy) * (spectrum of K), transformed back, and
 * the products of both spectra are added to sum. */
__global__ void __launch_bounds__(FFT_THREADS)
    grad_rows(int lanes, FftCuda f, Scratch dy, Scratch u, Scratch spectrum, Scratch sum,
              int64_t batch, bool add)
{
    cuda_begin();
    extern __shared__ float2 memory[];
    int     n = f.n2 << lanes;
    float2 *one = fft_buffer(memory, f.n2, lanes, 0), *two = fft_buffer(memory, f.n2, lanes, 1);
    float2 *other = fft_buffer(memory, f.n2, lanes, 2), *total = fft_buffer(memory, f.n2, lanes, 3);
    fft_turns(memory, f.n2);
    if (add) {
        row_load(total, f, lanes, sum, 0);
    } else {
        for (int i = (int)threadIdx.x; i < n; i += FFT_THREADS)
            total[i] = make_float2(0, 0);
    }
    for (int64_t b = 0; b < batch; b++) {
        row_load(one, f, lanes, u, b);
        float2 *at = fft_run(one, two, memory, f.n2, lanes);
        for (int i = (int)threadIdx.x; i < n; i += FFT_THREADS)
            other[i] = at[i];                    /* a thread reads back only what it wrote */
        __syncthreads();
        row_load(one, f, lanes, dy, b);
        at = fft_run(one, two, memory, f.n2, lanes);
        for (int i = (int)threadIdx.x; i < n; i += FFT_THREADS)
            total[i] = c_add(total[i], c_mul(at[i], other[i]));
        if (spectrum.p) {
            row_multiply(at, f, lanes, spectrum);
            at = fft_run(at, at == one ? two : one, memory, f.n2, lanes);
            row_store(at, f, lanes, dy, b, true);
        }
        __syncthreads();
    }
    row_store(total, f, lanes, sum, 0, false);
}

/* Sums over rows of u * dy, for D: threads (32 channels, 8 rows), blocks (chunks, channels /
 * 32). */
__global__ void d_parts(const void *u, Type type_u, const void *dy, Type type_dy, int64_t rows,
                        int64_t channels, float *parts)
{
    cuda_begin();
    __shared__ float sums[8][33];
    int64_t c = blockIdx.y * (int64_t)32 + threadIdx.x;
    int64_t from = rows * blockIdx.x / gridDim.x, to = rows * (blockIdx.x + 1) / gridDim.x;
    float   sum = 0;
    if (c < channels)
#pragma unroll 4
        for (int64_t r = from + threadIdx.y; r < to; r += 8)
            sum += value_at(type_u, u, r * channels + c) * value_at(type_dy, dy, r * channels + c);
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y || c >= channels)
        return;
    for (int i = 1; i < 8; i++)
        sum += sums[i][threadIdx.x];
    parts[blockIdx.x * channels + c] = sum;
}

/* threads (32,32) */
__global__ void d_sum(const float *parts, int64_t count, int64_t channels, float *dd)
{
    cuda_begin();
    __shared__ double sums[32][33];
    int64_t c = blockIdx.x * (int64_t)32 + threadIdx.x;
    double  sum = 0;
    for (int64_t i = threadIdx.y; c < channels && i < count; i += 32)
        sum += (double)parts[i * channels + c];
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y || c >= channels)
        return;
    for (int i = 1; i < 32; i++)
        sum += sums[i][threadIdx.x];
    dd[c] = (float)sum;
}

/* ---- host ---- */

static FftCuda conv_of(const Node *n)
{
    Shape u = in_shape(n, 0);
    return fft_cuda_of(fft_next(u.dim[1]), u.dim[2], false);
}

static Scratch scratch_of(const FftCuda *f, void *base, int64_t signal)
{
    Scratch s = { (float2 *)base + signal * f->n * f->channels, f->n, f->channels };
    return s;
}

/* Through the columns only. */
static Err conv_enter(const Call *call, FftCuda f, Weighted x, int64_t batch, Scratch to)
{
    return fft_launch(call, fft_columns<Weighted, Scratch>, f.n1, f.n2, f.channels, batch, 2, f, x,
                      to);
}

/* The spectrum of the kernel, in rows. */
static Err conv_spectrum(const Call *call, FftCuda f, const void *kernel, int64_t length,
                         Scratch to)
{
    Weighted k = { kernel, F32, length, f.channels, f.n, false };
    InRows   rows = { to };
    TRY(conv_enter(call, f, k, 1, to));
    return fft_launch(call, fft_rows<Scratch, InRows>, f.n2, f.n1, f.channels, 1, 2, f, to, rows);
}

static Err conv_leave(const Call *call, FftCuda f, Scratch from, int64_t batch, Unweighted y)
{
    return fft_launch(call, fft_columns_back<Scratch, Unweighted>, f.n1, f.n2, f.channels, batch, 2,
                      f, from, y);
}

static size_t element_bytes(Type type) { return type == F32 ? 4 : 2; }

extern "C" Err fft_conv_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    FftCuda f = conv_of(n);
    (void)device;
    TRY(fft_cuda_check("fft_conv", &f, 2));
    choice->workspace_bytes = (size_t)(1 + fft_wave(&f, in_shape(n, 0).dim[0])) *
                              fft_signal_bytes(&f);
    choice->name = "own";
    return OK;
}

extern "C" Err fft_conv_cuda(const Call *call)
{
    const Node *n = call->node;
    FftCuda     f = conv_of(n);
    Shape       u = in_shape(n, 0);
    int64_t     batch = u.dim[0], length = u.dim[1], wave = fft_wave(&f, batch);
    Type        type = in_type(n, 0);
    Scratch spectrum = scratch_of(&f, call->workspace, 0), x = scratch_of(&f, call->workspace, 1);
    TRY(conv_spectrum(call, f, call->in[1], length, spectrum));
    for (int64_t b = 0; b < batch; b += wave) {
        int64_t    some = batch - b < wave ? batch - b : wave;
        size_t     at = (size_t)(b * length * f.channels) * element_bytes(type);
        const char *from = (const char *)call->in[0] + at;
        Weighted   signal = { from, type, length, f.channels, f.n, false };
        Unweighted y = { (char *)call->out[0] + at,
                         type,
                         length,
                         f.channels,
                         f.n,
                         false,
                         call->in[2],
                         from,
                         in_given(n, 2) ? in_type(n, 2) : F32,
                         type };
        TRY(conv_enter(call, f, signal, some, x));
        TRY(fft_launch(call, conv_rows, f.n2, f.n1, f.channels, some, 2, f, x, spectrum));
        TRY(conv_leave(call, f, x, some, y));
    }
    return OK;
}

/* Workspace: spectrum of K, sum of spectra, dy and u of a wave, parts of dD; what is wanted of
 * it. */
typedef struct GradSpace {
    int64_t spectrum, sum, dy, u, signals;   /* in signals */
    int64_t wave, chunks;
    size_t  bytes;
} GradSpace;

static GradSpace grad_space(const Node *n, const FftCuda *f, int sms)
{
    const bool *wants = ATTR(n, FftConvAttr)->wants;
    Shape       dy = in_shape(n, 0);
    GradSpace   g = {};
    int64_t     rows = dy.dim[0] * dy.dim[1], at = 0;
    g.wave = fft_wave(f, dy.dim[0]);
    g.spectrum = at, at += wants[0];
    g.sum = at, at += wants[1];
    g.dy = at, at += wants[0] || wants[1] ? g.wave : 0;
    g.u = at, at += wants[1] ? g.wave : 0;
    g.signals = at;
    g.chunks = ceil_div(rows, 64) < 4 * sms ? ceil_div(rows, 64) : 4 * sms;
    g.bytes = (size_t)at * fft_signal_bytes(f) +
              (wants[2] ? (size_t)(g.chunks * f->channels) * sizeof(float) : 0);
    return g;
}

extern "C" Err fft_conv_grad_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    FftCuda f = conv_of(n);
    TRY(fft_cuda_check("fft_conv_grad", &f, 4));
    choice->workspace_bytes = grad_space(n, &f, ((const CudaHandle *)device->handle)->sms).bytes;
    choice->name = "own";
    return OK;
}

static Err grad_d(const Call *call, const FftCuda *f, const GradSpace *g)
{
    const Node *n = call->node;
    Shape       dy = in_shape(n, 0);
    float      *parts = (float *)((float2 *)call->workspace + g->signals * f->n * f->channels);
    dim3        blocks((unsigned)g->chunks, (unsigned)ceil_div(f->channels, 32));
    cuda_launch(cuda_stream(call), d_parts, blocks, dim3(32, 8), 0, call->in[1], in_type(n, 1),
                call->in[0], in_type(n, 0), dy.dim[0] * dy.dim[1], f->channels, parts);
    CUDA_LAUNCHED();
    cuda_launch(cuda_stream(call), d_sum, blocks.y, dim3(32, 32), 0, parts, g->chunks,
                f->channels, (float *)call->out[2]);
    CUDA_LAUNCHED();
    return OK;
}

extern "C" Err fft_conv_grad_cuda(const Call *call)
{
    const Node *n = call->node;
    const bool *wants = ATTR(n, FftConvAttr)->wants;
    FftCuda     f = conv_of(n);
    GradSpace   g = grad_space(n, &f, cuda_handle(call)->sms);
    Shape       shape = in_shape(n, 0);
    int64_t     batch = shape.dim[0], length = shape.dim[1];
    Type        type = in_type(n, 0);
    Scratch spectrum = scratch_of(&f, call->workspace, g.spectrum),
            sum = scratch_of(&f, call->workspace, g.sum);
    Scratch dy = scratch_of(&f, call->workspace, g.dy), u = scratch_of(&f, call->workspace, g.u);
    if (wants[2])
        TRY(grad_d(call, &f, &g));
    if (wants[0])
        TRY(conv_spectrum(call, f, call->in[2], length, spectrum));
    else
        spectrum.p = NULL;
    for (int64_t b = 0; b < batch && (wants[0] || wants[1]); b += g.wave) {
        int64_t some = batch - b < g.wave ? batch - b : g.wave, first = b * length * f.channels;
        const char *from = (const char *)call->in[0] + (size_t)first * element_bytes(type);
        Weighted signal = { from, type, length, f.channels, f.n, true };
        TRY(conv_enter(call, f, signal, some, dy));
        if (wants[1]) {
            Type     type_u = in_type(n, 1);
            Weighted forward = { (const char *)call->in[1] + (size_t)first * element_bytes(type_u),
                                 type_u,
                                 length,
                                 f.channels,
                                 f.n,
                                 false };
            TRY(conv_enter(call, f, forward, some, u));
            TRY(fft_launch(call, grad_rows, f.n2, f.n1, f.channels, 1, 4, f, dy, u, spectrum, sum,
                           some, b > 0));
        } else {
            TRY(fft_launch(call, conv_rows, f.n2, f.n1, f.channels, some, 2, f, dy, spectrum));
        }
        if (wants[0]) {
            Unweighted du = { (char *)call->out[0] + (size_t)first * element_bytes(out_type(n, 0)),
                              out_type(n, 0),
                              length,
                              f.channels,
                              f.n,
                              true,
                              call->in[3],
                              from,
                              in_given(n, 3) ? in_type(n, 3) : F32,
                              type };
            TRY(conv_leave(call, f, dy, some, du));
        }
    }
    if (wants[1]) {
        FlipRows   rows = { sum };
        Unweighted dk = { call->out[1], F32, length, f.channels, f.n, true, NULL, NULL, F32, F32 };
        TRY(fft_launch(call, fft_rows<FlipRows, FlipRows>, f.n2, f.n1, f.channels, 1, 2, f, rows,
                       rows));
        TRY(conv_leave(call, f, sum, 1, dk));
    }
    return OK;
}
