/* fft_cuda.h -- Fourier transforms of many channels at once on CUDA.
 *
 * As in fft.h, n = n1 * n2 takes two steps (Bailey 1990): columns of length n1, then rows of length
 * n2. A block transforms one column or row of a few neighbouring channels, so that memory is
 * accessed in whole sectors. The small transforms are Stockham's autosort form. Some lengths have
 * two factors known at compile time, with elements in registers and one exchange through shared
 * memory; others take factors 8, 4, 2, 3, 5 from shared memory to shared memory. Between the steps
 * the signal lies as [k1][j2][channel] in workspace. Inverse transforms swap real and imaginary
 * parts on input and output.
 *
 * Angles are exact fractions of a full turn, so sincospi gives twiddles as accurate as a table's.
 */
#ifndef OPS_FFT_FFT_CUDA_H
#define OPS_FFT_FFT_CUDA_H

#include "ops/ops_cuda.h"

extern "C" {
#include "ops/fft/rfft.h"
}

enum {
    FFT_THREADS = 256,
    FFT_ONE_PASS = 256,
    FFT_SHARED = 96 << 10,
    FFT_SHARED_MAX = 160 << 10,
    FFT_TABLES = 3
};

typedef struct FftCuda {
    int64_t n, channels;
    int     n1, n2; /* frequency k1 + n1 k2, sample j1 n2 + j2 */
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
__device__ __forceinline__ float2 unit_root(int64_t a, int64_t b)
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
        float2      even[4] = { v[0], v[2], v[4], v[6] }, odd[4] = { v[1], v[3], v[5], v[7] };
        butterfly<4>(even);
        butterfly<4>(odd);
        /* multiples of an eighth of a turn */
        odd[1] = make_float2(h * (odd[1].x + odd[1].y), h * (odd[1].y - odd[1].x));
        odd[2] = make_float2(odd[2].y, -odd[2].x);
        odd[3] = make_float2(h * (odd[3].y - odd[3].x), -h * (odd[3].x + odd[3].y));
#pragma unroll
        for (int k = 0; k < 4; k++) {
            v[k] = c_add(even[k], odd[k]);
            v[k + 4] = c_sub(even[k], odd[k]);
        }
    } else if constexpr (R == 6 || R == 12) { /* 2 x 3, 4 x 3 without twiddles (Good 1958) */
        constexpr int A = R / 3;
        float2        x[3][A], y[3];
#pragma unroll
        for (int a = 0; a < 3; a++) {
#pragma unroll
            for (int b = 0; b < A; b++)
                x[a][b] = v[(a * A + b * 3) % R];
            butterfly<A>(x[a]);
        }
#pragma unroll
        for (int b = 0; b < A; b++) {
#pragma unroll
            for (int a = 0; a < 3; a++)
                y[a] = x[a][b];
            butterfly<3>(y);
#pragma unroll
            for (int a = 0; a < 3; a++) /* the k with k mod 3 = a, k mod A = b */
                v[(a * A * (A % 3) + b * 3 * (A == 4 ? 3 : 1)) % R] = y[a];
        }
    } else if constexpr (R == 16) {
        /* twiddles of b c sixteenths of a turn: 0, 1, 2, 3, 4, 6, 9 */
        const float  c1 = 0.92387953251f, h = 0.70710678119f, s1 = 0.38268343237f;
        const float2 w[4][4] = { {},
                                 { {}, { c1, -s1 }, { h, -h }, { s1, -c1 } },
                                 { {}, { h, -h }, { 0, -1 }, { -h, -h } },
                                 { {}, { s1, -c1 }, { -h, -h }, { -c1, s1 } } };
        float2       x[4][4], y[4];
#pragma unroll
        for (int b = 0; b < 4; b++) {
#pragma unroll
            for (int a = 0; a < 4; a++)
                x[b][a] = v[4 * a + b];
            butterfly<4>(x[b]);
        }
#pragma unroll
        for (int c = 0; c < 4; c++) {
#pragma unroll
            for (int b = 0; b < 4; b++)
                y[b] = b == 2 && c == 2 ? make_float2(x[b][c].y, -x[b][c].x)
                       : b && c         ? c_mul(x[b][c], w[b][c])
                                        : x[b][c];
            butterfly<4>(y);
#pragma unroll
            for (int a = 0; a < 4; a++)
                v[c + 4 * a] = y[a];
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

/* One pass with factor R; p is the product of the previous factors. A block has 2^lanes
 * channels. */
template <int R>
__device__ __forceinline__ void fft_pass(const float2 *x, float2 *y, const float2 *twiddles, int n,
                                         int p, int lanes)
{
    int      part = n / R, step = part / p;
    /* b / p is the high half of b * over, since b p < 2^32 */
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
            v[t] = c_mul(v[t], twiddles[k * t * step]);
        butterfly<R>(v);
#pragma unroll
        for (int t = 0; t < R; t++)
            y[((to + t * p) << lanes) + l] = v[t];
    }
}

/* ---- a small transform by one block ----
 *
 * Source and destination are small structs: from.get<R>(first, step, lane, v) loads the elements
 * first + t step, t < R, of one channel, and to.put<R> stores them, so that all accesses of a
 * thread are in flight at once. Transforms may follow one another: when one ends, no thread reads
 * the buffer that the next one writes. */
struct FftBuffers {
    float2 *twiddles, *a, *b; /* a is written next; a single transform by Two needs no b */
    int     lanes;
    bool    last; /* this is the kernel's last transform */
};

/* Plans: two factors and 16 channels known at compile time, or any length. ALONE: buffers that a
 * single transform needs. */
template <int A, int B> struct Two {
    static constexpr int              N = A * B, THREADS = 16 * (A > B ? A : B), ALONE = 1;
    __device__ __host__ constexpr int n() const { return N; }
    __device__ __host__ constexpr int lanes(int) const { return 4; }
};
struct Any {
    static constexpr int    THREADS = FFT_THREADS, ALONE = 2;
    int                     length;
    __device__ __host__ int n() const { return length; }
    __device__ __host__ int lanes(int some) const { return some; }
};

/* Runs all passes on x, alternating with y, with a barrier before and after. Returns the buffer
 * with the result. */
__device__ inline float2 *fft_passes(float2 *x, float2 *y, const float2 *twiddles, int n, int lanes)
{
    for (int p = 1; p < n;) {
        int rest = n / p, r = rest % 8 == 0   ? 8
                              : rest % 4 == 0 ? 4
                              : rest % 2 == 0 ? 2
                              : rest % 3 == 0 ? 3
                                              : 5;
        switch (r) {
        case 8: fft_pass<8>(x, y, twiddles, n, p, lanes); break;
        case 2: fft_pass<2>(x, y, twiddles, n, p, lanes); break;
        case 3: fft_pass<3>(x, y, twiddles, n, p, lanes); break;
        case 4: fft_pass<4>(x, y, twiddles, n, p, lanes); break;
        default: fft_pass<5>(x, y, twiddles, n, p, lanes); break;
        }
        __syncthreads();
        float2 *other = x;
        x = y;
        y = other;
        p *= r;
    }
    return x;
}

/* Calls at(index in a buffer, element, lane) for all n elements of the block's channels. */
template <class At> __device__ __forceinline__ void fft_each(int n, int lanes, At at)
{
    for (int i = (int)threadIdx.x; i < n << lanes; i += FFT_THREADS)
        at(i, i >> lanes, i & ((1 << lanes) - 1));
}

__device__ __forceinline__ void fft_swap(FftBuffers &w)
{
    float2 *other = w.a;
    w.a = w.b;
    w.b = other;
}

/* Transforms w.a; the result is w.a again. */
__device__ __forceinline__ void fft_in_place(int n, FftBuffers &w)
{
    __syncthreads();
    if (fft_passes(w.a, w.b, w.twiddles, n, w.lanes) == w.b)
        fft_swap(w);
}

template <class From>
__device__ __forceinline__ void fft_fetch(int n, FftBuffers &w, const From &from)
{
    fft_each(n, w.lanes, [&](int i, int e, int l) {
        float2 v[1];
        from.template get<1>(e, 1, l, v);
        w.a[i] = v[0];
    });
}

template <class To> __device__ __forceinline__ void fft_give(int n, FftBuffers &w, const To &to)
{
    fft_each(n, w.lanes, [&](int i, int e, int l) {
        float2 v[1] = { w.a[i] };
        to.template put<1>(e, 1, l, v);
    });
    fft_swap(w);
}

/* One transform, in natural order. */
template <class From, class To>
__device__ __forceinline__ void fft_run(Any plan, FftBuffers &w, const From &from, const To &to)
{
    fft_fetch(plan.n(), w, from);
    fft_in_place(plan.n(), w);
    fft_give(plan.n(), w, to);
}

/* A transform, then middle.pass<R>(first, step, lane, v) on its result, then another transform. */
template <class From, class Middle, class To>
__device__ __forceinline__ void fft_through(Any plan, FftBuffers &w, const From &from,
                                            const Middle &middle, const To &to)
{
    fft_fetch(plan.n(), w, from);
    fft_in_place(plan.n(), w);
    fft_each(plan.n(), w.lanes, [&](int i, int e, int l) {
        float2 v[1] = { w.a[i] };
        middle.template pass<1>(e, 1, l, v);
        w.a[i] = v[0];
    });
    fft_in_place(plan.n(), w);
    fft_give(plan.n(), w, to);
}

/* Pass one of two: takes elements b + t B of the signal and stores its result for pass two. */
template <int A, int B, class From>
__device__ __forceinline__ void two_first(float2 *x, const From &from)
{
    int    b = (int)threadIdx.x >> 4, l = (int)threadIdx.x & 15;
    float2 v[A];
    if (b >= B)
        return;
    from.template get<A>(b, B, l, v);
    butterfly<A>(v);
#pragma unroll
    for (int t = 0; t < A; t++)
        x[(b * A + t) * 16 + l] = v[t];
}

/* Pass two: v becomes elements b + t A of the transform. */
template <int A, int B>
__device__ __forceinline__ void two_second(const float2 *x, const float2 *twiddles, int b, int l,
                                           float2 (&v)[B])
{
#pragma unroll
    for (int t = 0; t < B; t++)
        v[t] = x[(b + t * A) * 16 + l];
#pragma unroll
    for (int t = 1; t < B; t++)
        v[t] = c_mul(v[t], twiddles[b * t]);
    butterfly<B>(v);
}

/* Pass two of what the block has put into x, and the store. */
template <int A, int B, class To>
__device__ __forceinline__ void two_leave(const FftBuffers &w, const float2 *x, int b, int l,
                                          const To &to)
{
    __syncthreads();
    if (w.last)
        cuda_ends();
    if (b < A) {
        float2 v[B];
        two_second<A, B>(x, w.twiddles, b, l, v);
        to.template put<B>(b, A, l, v);
    }
}

template <int A, int B, class From, class To>
__device__ __forceinline__ void fft_run(Two<A, B>, FftBuffers &w, const From &from, const To &to)
{
    int b = (int)threadIdx.x >> 4, l = (int)threadIdx.x & 15;
    two_first<A, B>(w.a, from);
    two_leave<A, B>(w, w.a, b, l, to);
    fft_swap(w);
}

/* The second transform has its factors in the opposite order, so that its first pass takes the
 * elements that the thread holds already. */
template <int A, int B, class From, class Middle, class To>
__device__ __forceinline__ void fft_through(Two<A, B>, FftBuffers &w, const From &from,
                                            const Middle &middle, const To &to)
{
    int b = (int)threadIdx.x >> 4, l = (int)threadIdx.x & 15;
    two_first<A, B>(w.a, from);
    __syncthreads();
    if (b < A) {
        float2 v[B];
        two_second<A, B>(w.a, w.twiddles, b, l, v);
        middle.template pass<B>(b, A, l, v);
        butterfly<B>(v);
#pragma unroll
        for (int t = 0; t < B; t++)
            w.b[(b * B + t) * 16 + l] = v[t];
    }
    two_leave<B, A>(w, w.b, b, l, to);
}

/* Shared memory of a block: twiddles[n], before[n], after[n], then buffers of n << lanes. */
__device__ __forceinline__ float2 *fft_buffer(float2 *memory, int n, int lanes, int i)
{
    return memory + FFT_TABLES * n + ((size_t)i * n << lanes);
}

template <class Plan>
__device__ __forceinline__ FftBuffers fft_buffers(Plan plan, float2 *memory, int lanes)
{
    int n = plan.n();
    for (int i = (int)threadIdx.x; i < n; i += Plan::THREADS)
        memory[i] = unit_root(-2 * i, n);
    return { memory, fft_buffer(memory, n, lanes, 0), fft_buffer(memory, n, lanes, 1), lanes,
             true };
}

/* ---- kernels ----
 *
 * Blocks are (columns or rows, groups of channels, batch). load(batch, element, channel, weight)
 * and store(batch, element, channel, value, weight) are small structs; each kernel says what
 * "element" means. Structs that can treat many elements at once overload load_span or store_span.
 * weight_of(struct, element) is the same for all channels, so a block computes it once; most
 * structs have none. Tables need only shared memory, so they are computed before cuda_begin. */
template <class Side> __device__ __forceinline__ float2 weight_of(const Side &, int64_t)
{
    return make_float2(1, 0);
}

/* Elements first + t step of one channel. */
struct Span {
    int64_t       batch, first, step, channel;
    const float2 *weight; /* of the first element, others weight_step apart; NULL: all 1 */
    int           weight_step;
    __device__ __forceinline__ float2 weight_at(int t) const
    {
        return weight ? weight[t * weight_step] : make_float2(1, 0);
    }
};

template <int R, class Load>
__device__ __forceinline__ void load_span(const Load &load, const Span &s, float2 (&v)[R])
{
#pragma unroll
    for (int t = 0; t < R; t++)
        v[t] = load(s.batch, s.first + t * s.step, s.channel, s.weight_at(t));
}

template <int R, class Store>
__device__ __forceinline__ void store_span(const Store &store, const Span &s, const float2 (&v)[R])
{
#pragma unroll
    for (int t = 0; t < R; t++)
        store(s.batch, s.first + t * s.step, s.channel, v[t], s.weight_at(t));
}

/* Element e of a column or row is element e * pitch + start of the signal. */
struct FftLine {
    int64_t batch, start, pitch, first, channels; /* first: the block's first channel */
    __device__ __forceinline__ Span span(int e, int step, int l, const float2 *weight) const
    {
        return {
            batch, e * pitch + start, step * pitch, first + l, weight ? weight + e : NULL, step
        };
    }
    __device__ __forceinline__ bool has(int l) const { return first + l < channels; }
};

template <int R> __device__ __forceinline__ void fft_zero(float2 (&v)[R])
{
#pragma unroll
    for (int t = 0; t < R; t++)
        v[t] = make_float2(0, 0);
}

/* Source and destination of the transform of a line in memory. FLIP: it is an inverse. weight
 * applies on the memory's side, twiddles between columns and rows; NULL: none. */
template <class Load, bool FLIP> struct LineIn {
    Load          load;
    FftLine       line;
    const float2 *weight, *twiddles;
    template <int R>
    __device__ __forceinline__ void get(int e, int step, int l, float2 (&v)[R]) const
    {
        if (!line.has(l)) {
            fft_zero<R>(v);
            return;
        }
        load_span<R>(load, line.span(e, step, l, weight), v);
#pragma unroll
        for (int t = 0; t < R; t++) {
            if (twiddles)
                v[t] = c_mul(v[t], twiddles[e + t * step]);
            if (FLIP)
                v[t] = c_flip(v[t]);
        }
    }
};

template <class Store, bool FLIP> struct LineOut {
    Store         store;
    FftLine       line;
    const float2 *weight, *twiddles;
    template <int R>
    __device__ __forceinline__ void put(int e, int step, int l, float2 (&v)[R]) const
    {
        if (!line.has(l))
            return;
#pragma unroll
        for (int t = 0; t < R; t++) {
            if (twiddles)
                v[t] = c_mul(v[t], twiddles[e + t * step]);
            if (FLIP)
                v[t] = c_flip(v[t]);
        }
        store_span<R>(store, line.span(e, step, l, weight), v);
    }
};

__device__ __forceinline__ FftLine fft_column(const FftCuda &f, int lanes)
{
    return { blockIdx.z, blockIdx.x, f.n2, (int64_t)blockIdx.y << lanes, f.channels };
}
/* Rows as they lie in workspace. */
__device__ __forceinline__ FftLine fft_row(const FftCuda &f, int lanes)
{
    return { blockIdx.z, (int64_t)blockIdx.x * f.n2, 1, (int64_t)blockIdx.y << lanes, f.channels };
}
/* Rows in natural order: frequencies k1 + n1 k2. */
__device__ __forceinline__ FftLine fft_spread(const FftCuda &f, int lanes)
{
    return { blockIdx.z, blockIdx.x, f.n1, (int64_t)blockIdx.y << lanes, f.channels };
}

/* Sample j1 n2 + j2 in; k1 n2 + j2 out. With n2 = 1 that is the frequency: the whole transform. */
template <class Plan, class Load, class Store>
__global__ void __launch_bounds__(Plan::THREADS)
    fft_columns(int lanes, Plan plan, FftCuda f, Load load, Store store)
{
    extern __shared__ float2 memory[];
    int                      n1 = plan.n(), j2 = (int)blockIdx.x;
    lanes = plan.lanes(lanes);
    float2    *before = memory + n1, *after = before + n1;
    FftBuffers w = fft_buffers(plan, memory, lanes);
    for (int i = (int)threadIdx.x; i < n1; i += Plan::THREADS) {
        before[i] = weight_of(load, (int64_t)i * f.n2 + j2);
        after[i] = unit_root(-2 * (int64_t)j2 * i, f.n);
    }
    cuda_begin();
    __syncthreads();
    FftLine line = fft_column(f, lanes);
    fft_run(plan, w, LineIn<Load, false>{ load, line, before, NULL },
            LineOut<Store, false>{ store, line, NULL, after });
}

/* k1 n2 + j2 in; frequency k1 + n1 k2 out. */
template <class Plan, class Load, class Store>
__global__ void __launch_bounds__(Plan::THREADS)
    fft_rows(int lanes, Plan plan, FftCuda f, Load load, Store store)
{
    extern __shared__ float2 memory[];
    lanes = plan.lanes(lanes);
    FftBuffers w = fft_buffers(plan, memory, lanes);
    cuda_begin();
    __syncthreads();
    fft_run(plan, w, LineIn<Load, false>{ load, fft_row(f, lanes), NULL, NULL },
            LineOut<Store, false>{ store, fft_spread(f, lanes), NULL, NULL });
}

/* The inverse of fft_columns: k1 n2 + j2 in, sample j1 n2 + j2 out. */
template <class Plan, class Load, class Store>
__global__ void __launch_bounds__(Plan::THREADS)
    fft_columns_back(int lanes, Plan plan, FftCuda f, Load load, Store store)
{
    extern __shared__ float2 memory[];
    int                      n1 = plan.n(), j2 = (int)blockIdx.x;
    lanes = plan.lanes(lanes);
    float2    *before = memory + n1, *after = before + n1;
    FftBuffers w = fft_buffers(plan, memory, lanes);
    for (int i = (int)threadIdx.x; i < n1; i += Plan::THREADS) {
        before[i] = unit_root(2 * (int64_t)j2 * i, f.n);
        after[i] = weight_of(store, (int64_t)i * f.n2 + j2);
    }
    cuda_begin();
    __syncthreads();
    FftLine line = fft_column(f, lanes);
    fft_run(plan, w, LineIn<Load, true>{ load, line, NULL, before },
            LineOut<Store, true>{ store, line, after, NULL });
}

/* Workspace [batch][n][channels]. */
struct Workspace {
    float2                            *p;
    int64_t                            n, channels;
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
    float                            *p;
    int64_t                           n, channels;
    __device__ __forceinline__ float2 operator()(int64_t b, int64_t e, int64_t c, float2) const
    {
        return make_float2(p[(b * n + e) * channels + c], 0);
    }
    /* Stores the result of an inverse transform, whose parts are swapped. */
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
    float   edge, inner; /* factors of frequencies 0 and n/2, and of those between */
    __device__ __forceinline__ float2 *at(int64_t b, int64_t k, int64_t c) const
    {
        return p + (b * (n / 2 + 1) + k) * channels + c;
    }
    /* Any frequency, parts swapped for the inverse; the imaginary parts at 0 and n/2 are
     * ignored. */
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

/* single: a transform that fits in one block may stay in one step. */
static inline FftCuda fft_cuda_of(int64_t n, int64_t channels, bool single)
{
    FftCuda f = { n, channels, (int)n, 1 };
    if (single && n <= FFT_ONE_PASS)
        return f;
    for (int64_t d = 1; d * d <= n; d++) /* the largest divisor up to sqrt(n) */
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
    if (fft_shared(longest, 0, buffers) > FFT_SHARED_MAX)
        return fail(
            E_SHAPE,
            "%s: a transform of length %lld does not fit in the GPU's shared memory; choose a "
            "shorter length",
            op, (long long)f->n);
    return OK;
}

/* Samples of a batch in one wave: as many as fit in the L2 cache. */
static inline int64_t fft_wave(const FftCuda *f, int64_t batch)
{
    int64_t wave = (32 << 20) / (f->n * f->channels * (int64_t)sizeof(float2));
    wave = wave < 1 ? 1 : wave < 65535 ? wave : 65535;
    return int_min(batch, wave);
}

static inline size_t fft_signal_bytes(const FftCuda *f)
{
    return (size_t)(f->n * f->channels) * sizeof(float2);
}

/* Calls f with the plan for length n: one of Two, or Any. */
template <class F> static Err fft_with(int n, int64_t channels, F f)
{
    switch (channels > 8 ? n : 0) {
    case 24: return f(Two<6, 4>{});
    case 32: return f(Two<8, 4>{});
    case 48: return f(Two<8, 6>{});
    case 64: return f(Two<8, 8>{});
    case 96: return f(Two<12, 8>{});
    case 128: return f(Two<16, 8>{});
    case 192: return f(Two<16, 12>{});
    default: return f(Any{ n });
    }
}

/* across: the number of small transforms; buffers: more than a single transform needs. */
template <class Plan, class Kernel, class... Args>
static Err fft_launch(const Call *call, Plan plan, Kernel kernel, int across, int64_t channels,
                      int64_t batch, int buffers, Args... args)
{
    int    lanes = plan.lanes(fft_lanes(plan.n(), channels, buffers + Plan::ALONE));
    size_t bytes = fft_shared(plan.n(), lanes, buffers + Plan::ALONE);
    dim3   grid((unsigned)across, (unsigned)ceil_div(channels, 1 << lanes), (unsigned)batch);
    CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    cuda_launch(cuda_stream(call), kernel, grid, Plan::THREADS, bytes, lanes, plan, args...);
    CUDA_LAUNCHED();
    return OK;
}

/* Columns from a batch into workspace, and back. */
template <class Load, class Store>
static Err fft_enter(const Call *call, FftCuda f, int64_t batch, Load load, Store store)
{
    return fft_with(f.n1, f.channels, [&](auto plan) {
        return fft_launch(call, plan, fft_columns<decltype(plan), Load, Store>, f.n2, f.channels,
                          batch, 0, f, load, store);
    });
}

template <class Load, class Store>
static Err fft_leave(const Call *call, FftCuda f, int64_t batch, Load load, Store store)
{
    return fft_with(f.n1, f.channels, [&](auto plan) {
        return fft_launch(call, plan, fft_columns_back<decltype(plan), Load, Store>, f.n2,
                          f.channels, batch, 0, f, load, store);
    });
}

/* A whole transform; workspace is [batch][n][channels], unused if n2 is 1. */
template <class Load, class Store>
static Err fft_whole(const Call *call, FftCuda f, int64_t batch, Load load, Store store,
                     float2 *workspace)
{
    Workspace between = { workspace, f.n, f.channels };
    if (f.n2 == 1)
        return fft_enter(call, f, batch, load, store);
    TRY(fft_enter(call, f, batch, load, between));
    return fft_with(f.n2, f.channels, [&](auto plan) {
        return fft_launch(call, plan, fft_rows<decltype(plan), Workspace, Store>, f.n1, f.channels,
                          batch, 0, f, between, store);
    });
}

/* Transforms of real signals, compiled once, in rfft_cuda.cu; arguments as for fft_whole. */
Err fft_real_to_half(const Call *call, FftCuda f, int64_t batch, RealSignal from, HalfSpectrum to,
                     float2 *workspace);
Err fft_half_to_real(const Call *call, FftCuda f, int64_t batch, HalfSpectrum from, RealSignal to,
                     float2 *workspace);

#endif
