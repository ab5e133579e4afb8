/* fft_cuda.h -- Fourier transforms of many channels at once on CUDA.
 *
 * As in fft.h: n = n1 * n2 in two steps (Bailey 1990), columns of length n1, then rows of length
 * n2, each by one block in shared memory, for a few neighbouring channels, so that memory is read
 * and written in whole sectors. The small ones are Stockham's autosort form with factors 8, 4, 2,
 * 3, 5. Between the steps the signal lies as [k1][j2][channel] in scratch memory. Inverse
 * transforms exchange real and imaginary parts on the way in and out.
 *
 * Angles are exact fractions of a turn, so sincospi makes the twiddles as good as a table's.
 */
#ifndef OPS_FFT_CUDA_H
#define OPS_FFT_CUDA_H

#include "ops/cuda.h"

extern "C" {
#define class class_
#include "ops/rfft.h"
#undef class
}

enum {
    FFT_THREADS = 256,
    FFT_ONE_PASS = 1024,
    FFT_SHARED = 96 << 10,
    FFT_SHARED_MOST = 160 << 10,
    FFT_TABLES = 3
};

typedef struct FftCuda {
    int64_t n, channels;
    int     n1, n2;              /* frequency k1 + n1 k2, sample j1 n2 + j2 */
} FftCuda;

/* ---- device ---- */

__device__ __forceinline__ float2 c_mul(float2 a, float2 b)
{
    return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}
__device__ __forceinline__ float2 c_add(float2 a, float2 b)
{
    return make_float2(a.x + b.x, a.y + b.y);
}
__device__ __forceinline__ float2 c_sub(float2 a, float2 b)
{
    return make_float2(a.x - b.x, a.y - b.y);
}
__device__ __forceinline__ float2 c_conj(float2 a) { return make_float2(a.x, -a.y); }
__device__ __forceinline__ float2 c_flip(float2 a) { return make_float2(a.y, a.x); }
__device__ __forceinline__ float2 c_less_i(float2 a, float2 b)
{
    return make_float2(a.x + b.y, a.y - b.x);
}
__device__ __forceinline__ float2 c_plus_i(float2 a, float2 b)
{
    return make_float2(a.x - b.y, a.y + b.x);
}

/* exp(i pi a / b); a and b whole numbers, exact as floats up to 2^24. */
__device__ __forceinline__ float2 turn(int64_t a, int64_t b)
{
    float2 w;
    float  part = b < (1 << 23) ? (float)a / (float)b : (float)((double)a / (double)b);
    sincospif(part, &w.y, &w.x);
    return w;
}

template <int R> __device__ __forceinline__ void butterfly(float2 (&v)[R])
{
    if constexpr (R == 2) {
        float2 a = v[0];
        v[0] = c_add(a, v[1]);
        v[1] = c_sub(a, v[1]);
    } else if constexpr (R == 3) {
        float2 s = c_add(v[1], v[2]), d = c_sub(v[1], v[2]);
        float2 m = make_float2(v[0].x - 0.5f * s.x, v[0].y - 0.5f * s.y);
        d = make_float2(d.x * 0.86602540378f, d.y * 0.86602540378f);
        v[0] = c_add(v[0], s);
        v[1] = c_less_i(m, d);
        v[2] = c_plus_i(m, d);
    } else if constexpr (R == 4) {
        float2 a = c_add(v[0], v[2]), b = c_sub(v[0], v[2]), c = c_add(v[1], v[3]),
               d = c_sub(v[1], v[3]);
        v[0] = c_add(a, c);
        v[2] = c_sub(a, c);
        v[1] = c_less_i(b, d);
        v[3] = c_plus_i(b, d);
    } else if constexpr (R == 8) {
        const float h = 0.70710678119f;
        float2 even[4] = { v[0], v[2], v[4], v[6] }, odd[4] = { v[1], v[3], v[5], v[7] };
        butterfly<4>(even);
        butterfly<4>(odd);
        /* eighths of a turn */
        odd[1] = make_float2(h * (odd[1].x + odd[1].y), h * (odd[1].y - odd[1].x));
        odd[2] = make_float2(odd[2].y, -odd[2].x);
        odd[3] = make_float2(h * (odd[3].y - odd[3].x), -h * (odd[3].x + odd[3].y));
#pragma unroll
        for (int k = 0; k < 4; k++) {
            v[k] = c_add(even[k], odd[k]);
            v[k + 4] = c_sub(even[k], odd[k]);
        }
    } else {
        const float c1 = 0.30901699437f, c2 = -0.80901699437f, s1 = 0.95105651630f,
                    s2 = 0.58778525229f;
        float2 a = c_add(v[1], v[4]), b = c_add(v[2], v[3]), d = c_sub(v[1], v[4]),
               e = c_sub(v[2], v[3]);
        float2 m1 = make_float2(v[0].x + c1 * a.x + c2 * b.x, v[0].y + c1 * a.y + c2 * b.y);
        float2 m2 = make_float2(v[0].x + c2 * a.x + c1 * b.x, v[0].y + c2 * a.y + c1 * b.y);
        float2 n1 = make_float2(s1 * d.x + s2 * e.x, s1 * d.y + s2 * e.y);
        float2 n2 = make_float2(s2 * d.x - s1 * e.x, s2 * d.y - s1 * e.y);
        v[0] = c_add(v[0], c_add(a, b));
        v[1] = c_less_i(m1, n1);
        v[4] = c_plus_i(m1, n1);
        v[2] = c_less_i(m2, n2);
        v[3] = c_plus_i(m2, n2);
    }
}

/* One pass with factor R; p: the product of the factors before. A block has 2^lanes channels. */
template <int R>
__device__ __forceinline__ void fft_pass(const float2 *x, float2 *y, const float2 *turns, int n,
                                         int p, int lanes)
{
    int      part = n / R, step = part / p;
    /* b / p is the high half of b * over: b p < 2^32 */
    unsigned over = p == 1 ? 0 : 0xffffffffu / (unsigned)p + 1;
    for (int i = (int)threadIdx.x; i < part << lanes; i += FFT_THREADS) {
        int    b = i >> lanes, l = i & ((1 << lanes) - 1);
        int    k = p == 1 ? 0 : b - (int)__umulhi((unsigned)b, over) * p, to = (b - k) * R + k;
        float2 v[R];
#pragma unroll
        for (int t = 0; t < R; t++)
            v[t] = x[((b + t * part) << lanes) + l];
#pragma unroll
        for (int t = 1; t < R; t++)
            v[t] = c_mul(v[t], turns[k * t * step]);
        butterfly<R>(v);
#pragma unroll
        for (int t = 0; t < R; t++)
            y[((to + t * p) << lanes) + l] = v[t];
    }
}

/* The transform of x, n elements of 2^lanes channels, in order; y is as large. Returns where it is.
 * x must be complete (a barrier before); the result is (a barrier after). */
__device__ inline float2 *fft_run(float2 *x, float2 *y, const float2 *turns, int n, int lanes)
{
    for (int p = 1; p < n;) {
        int rest = n / p, r = rest % 8 == 0   ? 8
                              : rest % 4 == 0 ? 4
                              : rest % 2 == 0 ? 2
                              : rest % 3 == 0 ? 3
                                              : 5;
        switch (r) {
        case 8:  fft_pass<8>(x, y, turns, n, p, lanes); break;
        case 2:  fft_pass<2>(x, y, turns, n, p, lanes); break;
        case 3:  fft_pass<3>(x, y, turns, n, p, lanes); break;
        case 4:  fft_pass<4>(x, y, turns, n, p, lanes); break;
        default: fft_pass<5>(x, y, turns, n, p, lanes); break;
        }
        __syncthreads();
        float2 *other = x;
        x = y;
        y = other;
        p *= r;
    }
    return x;
}

/* Shared memory of a block: turns[n], before[n], after[n], then buffers of n << lanes. */
__device__ __forceinline__ float2 *fft_buffer(float2 *memory, int n, int lanes, int i)
{
    return memory + FFT_TABLES * n + ((size_t)i * n << lanes);
}

__device__ __forceinline__ void fft_turns(float2 *turns, int n)
{
    for (int i = (int)threadIdx.x; i < n; i += FFT_THREADS)
        turns[i] = turn(-2 * (int64_t)i, n);
}

/* Kernels: blocks (columns or rows, groups of channels, batch). load(batch, element, channel,
 * weight) and store(batch, element, channel, value, weight) are small structs; "element" is as
 * said. weight_of(struct, element) is the same for all channels, so it is made once a block; most
 * have none. */
template <class Any> __device__ __forceinline__ float2 weight_of(const Any &, int64_t)
{
    return make_float2(1, 0);
}

/* All n elements of the block's channels: at(place in the buffer, element, channel, is it
 * there). */
template <class At>
__device__ __forceinline__ void fft_each(int n, int lanes, int64_t channels, At at)
{
    int64_t first = (int64_t)blockIdx.y << lanes;
    for (int i = (int)threadIdx.x; i < n << lanes; i += FFT_THREADS) {
        int64_t c = first + (i & ((1 << lanes) - 1));
        at(i, i >> lanes, c, c < channels);
    }
}

/* Sample j1 n2 + j2 in; k1 n2 + j2 out. With n2 = 1 that is the frequency: the whole transform. */
template <class Load, class Store>
__global__ void __launch_bounds__(FFT_THREADS)
    fft_columns(int lanes, FftCuda f, Load load, Store store)
{
    cuda_begin();
    extern __shared__ float2 memory[];
    int     n1 = f.n1, j2 = (int)blockIdx.x;
    float2 *before = memory + n1, *after = before + n1;
    float2 *x = fft_buffer(memory, n1, lanes, 0), *y = fft_buffer(memory, n1, lanes, 1);
    int64_t batch = blockIdx.z;
    fft_turns(memory, n1);
    for (int i = (int)threadIdx.x; i < n1; i += FFT_THREADS) {
        before[i] = weight_of(load, (int64_t)i * f.n2 + j2);
        after[i] = turn(-2 * (int64_t)j2 * i, f.n);
    }
    __syncthreads();
    fft_each(n1, lanes, f.channels, [&](int i, int j1, int64_t c, bool there) {
        x[i] = there ? load(batch, (int64_t)j1 * f.n2 + j2, c, before[j1]) : make_float2(0, 0);
    });
    __syncthreads();
    x = fft_run(x, y, memory, n1, lanes);
    fft_each(n1, lanes, f.channels, [&](int i, int k1, int64_t c, bool there) {
        if (there)
            store(batch, (int64_t)k1 * f.n2 + j2, c, f.n2 > 1 ? c_mul(x[i], after[k1]) : x[i],
                  make_float2(1, 0));
    });
}

/* k1 n2 + j2 in; frequency k1 + n1 k2 out, or what element_of makes of it. */
template <class Any>
__device__ __forceinline__ int64_t element_of(const Any &, const FftCuda &f, int k1, int k2)
{
    return k1 + (int64_t)f.n1 * k2;
}
template <class Load, class Store>
__global__ void __launch_bounds__(FFT_THREADS)
    fft_rows(int lanes, FftCuda f, Load load, Store store)
{
    cuda_begin();
    extern __shared__ float2 memory[];
    int     n2 = f.n2, k1 = (int)blockIdx.x;
    float2 *x = fft_buffer(memory, n2, lanes, 0), *y = fft_buffer(memory, n2, lanes, 1),
           one = make_float2(1, 0);
    int64_t batch = blockIdx.z;
    fft_turns(memory, n2);
    fft_each(n2, lanes, f.channels, [&](int i, int j2, int64_t c, bool there) {
        x[i] = there ? load(batch, (int64_t)k1 * n2 + j2, c, one) : make_float2(0, 0);
    });
    __syncthreads();
    x = fft_run(x, y, memory, n2, lanes);
    fft_each(n2, lanes, f.channels, [&](int i, int k2, int64_t c, bool there) {
        if (there)
            store(batch, element_of(store, f, k1, k2), c, x[i], one);
    });
}

/* Undoes fft_columns: k1 n2 + j2 in, sample j1 n2 + j2 out. */
template <class Load, class Store>
__global__ void __launch_bounds__(FFT_THREADS)
    fft_columns_back(int lanes, FftCuda f, Load load, Store store)
{
    cuda_begin();
    extern __shared__ float2 memory[];
    int     n1 = f.n1, j2 = (int)blockIdx.x;
    float2 *before = memory + n1, *after = before + n1, one = make_float2(1, 0);
    float2 *x = fft_buffer(memory, n1, lanes, 0), *y = fft_buffer(memory, n1, lanes, 1);
    int64_t batch = blockIdx.z;
    fft_turns(memory, n1);
    for (int i = (int)threadIdx.x; i < n1; i += FFT_THREADS) {
        before[i] = turn(2 * (int64_t)j2 * i, f.n);
        after[i] = weight_of(store, (int64_t)i * f.n2 + j2);
    }
    __syncthreads();
    fft_each(n1, lanes, f.channels, [&](int i, int k1, int64_t c, bool there) {
        x[i] = there ? c_flip(c_mul(load(batch, (int64_t)k1 * f.n2 + j2, c, one), before[k1]))
                     : make_float2(0, 0);
    });
    __syncthreads();
    x = fft_run(x, y, memory, n1, lanes);
    fft_each(n1, lanes, f.channels, [&](int i, int j1, int64_t c, bool there) {
        if (there)
            store(batch, (int64_t)j1 * f.n2 + j2, c, c_flip(x[i]), after[j1]);
    });
}

/* Scratch [batch][n][channels]. */
struct Scratch {
    float2 *p;
    int64_t n, channels;
    __device__ __forceinline__ float2 *at(int64_t b, int64_t e, int64_t c) const
    {
        return p + (b * n + e) * channels + c;
    }
    __device__ __forceinline__ float2 operator()(int64_t b, int64_t e, int64_t c, float2) const
    {
        return *at(b, e, c);
    }
    __device__ __forceinline__ void operator()(int64_t b, int64_t e, int64_t c, float2 v,
                                               float2) const
    {
        *at(b, e, c) = v;
    }
};

/* A real fp32 signal (batch, n, channels). */
struct RealSignal {
    float  *p;
    int64_t n, channels;
    __device__ __forceinline__ float2 operator()(int64_t b, int64_t e, int64_t c, float2) const
    {
        return make_float2(p[(b * n + e) * channels + c], 0);
    }
    /* Stores what an inverse made, flipped. */
    __device__ __forceinline__ void operator()(int64_t b, int64_t e, int64_t c, float2 v,
                                               float2) const
    {
        p[(b * n + e) * channels + c] = v.y;
    }
};

/* Half a spectrum (batch, n/2+1, channels) of a real signal. */
struct HalfSpectrum {
    float2 *p;
    int64_t n, channels;
    float   edge, inner;         /* factors of frequencies 0 and n/2, and of those between */
    __device__ __forceinline__ float2 *at(int64_t b, int64_t k, int64_t c) const
    {
        return p + (b * (n / 2 + 1) + k) * channels + c;
    }
    /* Any frequency, flipped for the inverse; the imaginary parts of 0 and n/2 do not count. */
    __device__ __forceinline__ float2 operator()(int64_t b, int64_t k, int64_t c, float2) const
    {
        bool   far = 2 * k > n, lies = k == 0 || 2 * k == n;
        float2 v = *at(b, far ? n - k : k, c);
        float  s = lies ? edge : inner;
        return make_float2(lies ? 0 : far ? -s * v.y : s * v.y, s * v.x);
    }
    __device__ __forceinline__ void operator()(int64_t b, int64_t k, int64_t c, float2 v,
                                               float2) const
    {
        float s = k == 0 || 2 * k == n ? edge : inner;
        if (2 * k <= n)
            *at(b, k, c) = make_float2(s * v.x, s * v.y);
    }
};

/* ---- host ---- */

/* single: a transform that fits in one block need not be cut. */
static inline FftCuda fft_cuda_of(int64_t n, int64_t channels, bool single)
{
    FftCuda f = { n, channels, (int)n, 1 };
    if (single && n <= FFT_ONE_PASS)
        return f;
    for (int64_t d = 1; d * d <= n; d++)         /* the last divisor up to the root */
        if (n % d == 0) {
            f.n2 = (int)d;
            f.n1 = (int)(n / d);
        }
    return f;
}

static inline size_t fft_shared(int n, int lanes, int buffers)
{
    return (size_t)n * sizeof(float2) * (size_t)(FFT_TABLES + (buffers << lanes));
}

static inline int fft_lanes(int n, int64_t channels, int buffers)
{
    int lanes = 4;
    while (lanes && ((1 << lanes) / 2 >= channels || fft_shared(n, lanes, buffers) > FFT_SHARED))
        lanes--;
    return lanes;
}

static inline Err fft_cuda_check(const char *op, const FftCuda *f, int buffers)
{
    int longest = f->n1 > f->n2 ? f->n1 : f->n2;
    if (fft_shared(longest, 0, buffers) > FFT_SHARED_MOST)
        return fail(E_SHAPE, "%s: a transform of length %lld does not fit the card's shared memory",
                    op, (long long)f->n);
    return OK;
}

/* Samples of a batch that go through scratch memory at a time: what stays in the second cache. */
static inline int64_t fft_wave(const FftCuda *f, int64_t batch)
{
    int64_t most = (32 << 20) / (f->n * f->channels * (int64_t)sizeof(float2));
    most = most < 1 ? 1 : most < 65535 ? most : 65535;
    return batch < most ? batch : most;
}

static inline size_t fft_signal_bytes(const FftCuda *f)
{
    return (size_t)(f->n * f->channels) * sizeof(float2);
}

/* n: length of the small transforms, across: how many of them. */
template <class Kernel, class... Args>
static Err fft_launch(const Call *call, Kernel kernel, int n, int across, int64_t channels,
                      int64_t batch, int buffers, Args... args)
{
    int    lanes = fft_lanes(n, channels, buffers);
    size_t bytes = fft_shared(n, lanes, buffers);
    dim3   grid((unsigned)across, (unsigned)ceil_div(channels, 1 << lanes), (unsigned)batch);
    CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    cuda_launch(cuda_stream(call), kernel, grid, FFT_THREADS, bytes, lanes, args...);
    CUDA_LAUNCHED();
    return OK;
}

/* A whole forward transform; scratch: [batch][n][channels], unused if n2 is 1. */
template <class Load, class Store>
static Err fft_whole(const Call *call, FftCuda f, int64_t batch, Load load, Store store,
                     float2 *scratch)
{
    Scratch between = { scratch, f.n, f.channels };
    if (f.n2 == 1)
        return fft_launch(call, fft_columns<Load, Store>, f.n1, 1, f.channels, batch, 2, f, load,
                          store);
    TRY(fft_launch(call, fft_columns<Load, Scratch>, f.n1, f.n2, f.channels, batch, 2, f, load,
                   between));
    return fft_launch(call, fft_rows<Scratch, Store>, f.n2, f.n1, f.channels, batch, 2, f, between,
                      store);
}

#endif
