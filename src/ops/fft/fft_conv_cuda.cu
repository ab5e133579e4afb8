/* fft_conv_cuda.cu -- causal convolution on CUDA: see Note [Right angle] in fft_conv_cpu.c.
 *
 * The samples of a batch are processed in waves that fit in the L2 cache. Spectra stay in the order
 * in which the row transforms leave them. Gradients are convolutions backwards in time: with ' for
 * reversal, du' = dy' * K, dK' = sum over the batch of dy' * u.
 */
#include "ops/fft/fft_cuda.h"

extern "C" {
#include "ops/fft/fft_conv.h"
}

__device__ __forceinline__ float value_at(Type type, const void *p, int64_t i)
{
    return type == F32    ? get((const float *)p, i)
           : type == BF16 ? get((const bf16 *)p, i)
                          : get((const f16 *)p, i);
}

/* A real signal (batch, length, channels) of any type, weighted by exp(i pi j / 2n), padded with
 * zeros, maybe reversed. */
struct Weighted {
    const void *p;
    Type        type;
    bool        backwards;
    int64_t     length, channels, n;
};

/* Offsets base + t delta of one channel, as far as they are within a signal. */
struct SpanPlaces {
    int64_t                            base, delta, first, step, length;
    __device__ __forceinline__ bool    has(int t) const { return first + t * step < length; }
    __device__ __forceinline__ int64_t at(int t) const { return base + t * delta; }
};

__device__ __forceinline__ SpanPlaces places_of(const Span &s, int64_t length, int64_t channels,
                                                bool backwards)
{
    int64_t row = s.batch * length + (backwards ? length - 1 - s.first : s.first);
    return { row * channels + s.channel, (backwards ? -s.step : s.step) * channels, s.first, s.step,
             length };
}

template <int R, class T>
__device__ __forceinline__ void fetch_of(const T *p, const SpanPlaces &places, float (&x)[R])
{
#pragma unroll
    for (int t = 0; t < R; t++)
        x[t] = places.has(t) ? get(p, places.at(t)) : 0;
}

/* Branches on the type once, so that all loads are in flight together. */
template <int R>
__device__ __forceinline__ void fetch(Type type, const void *p, const SpanPlaces &places,
                                      float (&x)[R])
{
    if (type == F32)
        fetch_of<R>((const float *)p, places, x);
    else if (type == BF16)
        fetch_of<R>((const bf16 *)p, places, x);
    else
        fetch_of<R>((const f16 *)p, places, x);
}

template <int R>
__device__ __forceinline__ void load_span(const Weighted &w, const Span &s, float2 (&v)[R])
{
    float x[R];
    fetch<R>(w.type, w.p, places_of(s, w.length, w.channels, w.backwards), x);
#pragma unroll
    for (int t = 0; t < R; t++) {
        float2 weight = s.weight_at(t);
        v[t] = make_float2(x[t] * weight.x, x[t] * weight.y);
    }
}

/* Several batches of signals, one after another. */
enum { CONV_SIGNALS = 3 };
struct Entries {
    Weighted of[CONV_SIGNALS];
    int64_t  count[CONV_SIGNALS];
};

template <int R>
__device__ __forceinline__ void load_span(const Entries &e, const Span &s, float2 (&v)[R])
{
    Span     at = s;
    Weighted w = e.of[0];
#pragma unroll
    for (int i = 1; i < CONV_SIGNALS; i++)
        if (at.batch >= e.count[i - 1]) {
            at.batch -= e.count[i - 1];
            w = e.of[i];
        } else {
            break;
        }
    load_span<R>(w, at, v);
}

__device__ __forceinline__ float2 weight_of(const Entries &e, int64_t j)
{
    return unit_root(j, 2 * e.of[0].n);
}

/* The output: removes the weights and adds d * x; x has the layout of the output. */
struct Unweighted {
    void       *p;
    Type        type;
    bool        backwards;
    int64_t     length, channels;
    const void *d, *x; /* d may be NULL */
    Type        type_d, type_x;
};

template <int R, class T>
__device__ __forceinline__ void put_of(T *p, const SpanPlaces &places, const float (&y)[R])
{
#pragma unroll
    for (int t = 0; t < R; t++)
        if (places.has(t))
            put(p, places.at(t), y[t]);
}

template <int R>
__device__ __forceinline__ void store_span(const Unweighted &u, const Span &s, const float2 (&v)[R])
{
    SpanPlaces places = places_of(s, u.length, u.channels, u.backwards);
    float      x[R], y[R], d = 0;
    if (u.d) {
        fetch<R>(u.type_x, u.x, places, x);
        d = value_at(u.type_d, u.d, s.channel);
    }
#pragma unroll
    for (int t = 0; t < R; t++) {
        float2 weight = s.weight_at(t);
        y[t] = v[t].x * weight.x + v[t].y * weight.y;
        if (u.d)
            y[t] += d * x[t];
    }
    if (u.type == F32)
        put_of<R>((float *)u.p, places, y);
    else if (u.type == BF16)
        put_of<R>((bf16 *)u.p, places, y);
    else
        put_of<R>((f16 *)u.p, places, y);
}

/* A batch, and maybe one more signal after it. */
struct Exits {
    Unweighted of[2];
    int64_t    batch, n;
};

template <int R>
__device__ __forceinline__ void store_span(const Exits &e, const Span &s, const float2 (&v)[R])
{
    Span at = s;
    if (s.batch < e.batch) {
        store_span<R>(e.of[0], at, v);
    } else {
        at.batch -= e.batch;
        store_span<R>(e.of[1], at, v);
    }
}

__device__ __forceinline__ float2 weight_of(const Exits &e, int64_t j)
{
    float2 w = unit_root(j, 2 * e.n);
    return make_float2(w.x / (float)e.n, w.y / (float)e.n);
}

/* ---- rows ----
 *
 * Spectra that are used again stay in shared memory, where the thread that needs them put them. */
struct Kept {
    float2                            *p;
    int                                lanes;
    __device__ __forceinline__ float2 &at(int e, int l) const { return p[(e << lanes) + l]; }
};

struct Keep {
    Kept kept;
    template <int R>
    __device__ __forceinline__ void put(int e, int step, int l, const float2 (&v)[R]) const
    {
#pragma unroll
        for (int t = 0; t < R; t++)
            kept.at(e + t * step, l) = v[t];
    }
};

/* v times a spectrum, with parts swapped for the inverse. v itself is stored in `held`, which may
 * be the spectrum. */
struct Times {
    Kept spectrum, held; /* held.p NULL: not stored */
    template <int R>
    __device__ __forceinline__ void pass(int e, int step, int l, float2 (&v)[R]) const
    {
#pragma unroll
        for (int t = 0; t < R; t++) {
            float2 y = c_flip(c_mul(v[t], spectrum.at(e + t * step, l)));
            if (held.p)
                held.at(e + t * step, l) = v[t];
            v[t] = y;
        }
    }
};

/* v times what is held, plus the total so far. The sum is passed on or becomes the new total. */
struct Total {
    Kept                              held, total;
    bool                              begin; /* there is no sum yet */
    __device__ __forceinline__ float2 sum(int e, int l, float2 v) const
    {
        float2 y = c_mul(v, held.at(e, l));
        return begin ? y : c_add(total.at(e, l), y);
    }
    template <int R>
    __device__ __forceinline__ void pass(int e, int step, int l, float2 (&v)[R]) const
    {
#pragma unroll
        for (int t = 0; t < R; t++)
            v[t] = c_flip(sum(e + t * step, l, v[t]));
    }
    template <int R>
    __device__ __forceinline__ void put(int e, int step, int l, const float2 (&v)[R]) const
    {
#pragma unroll
        for (int t = 0; t < R; t++)
            total.at(e + t * step, l) = sum(e + t * step, l, v[t]);
    }
};

typedef LineIn<Workspace, false> RowIn;
typedef LineOut<Workspace, true> RowBack; /* of an inverse */

__device__ __forceinline__ FftLine row_of(const FftCuda &f, int lanes, int64_t b)
{
    FftLine line = fft_row(f, lanes);
    line.batch = b;
    return line;
}

__device__ __forceinline__ RowIn row_in(const FftCuda &f, int lanes, const Workspace &s, int64_t b)
{
    return { s, row_of(f, lanes, b), NULL, NULL };
}

__device__ __forceinline__ RowBack row_back(const FftCuda &f, int lanes, const Workspace &s,
                                            int64_t b)
{
    return { s, row_of(f, lanes, b), NULL, NULL };
}

/* Row by row, in place: transform, multiply by the kernel's spectrum, transform back. */
template <class Plan>
__global__ void __launch_bounds__(Plan::THREADS)
    conv_rows(int lanes, Plan plan, FftCuda f, Workspace kernel, Workspace x, int64_t batch)
{
    extern __shared__ float2 memory[];
    lanes = plan.lanes(lanes);
    FftBuffers w = fft_buffers(plan, memory, lanes);
    Kept       spectrum = { fft_buffer(memory, plan.n(), lanes, 2), lanes };
    cuda_begin();
    __syncthreads();
    w.last = false;
    fft_run(plan, w, row_in(f, lanes, kernel, 0), Keep{ spectrum });
    for (int64_t b = 0; b < batch; b++) {
        w.last = b == batch - 1;
        fft_through(plan, w, row_in(f, lanes, x, b), Times{ spectrum, { NULL, lanes } },
                    row_back(f, lanes, x, b));
    }
}

/* Rows of the gradient, for one wave. If kernel.p is set, dy becomes (spectrum of dy) * (spectrum
 * of K), transformed back. The products of the spectra of dy and u are summed: the last wave stores
 * the sum, transformed back, in the first u; earlier waves store it in `sum`. */
typedef struct GradRows {
    Workspace kernel, dy, u, sum;
    int64_t   batch;       /* samples of the wave */
    bool      first, last; /* wave */
} GradRows;

/* Calls copy(index in a buffer, address in memory) for all elements of the block's row. */
template <class Copy>
__device__ __forceinline__ void row_copy(const FftCuda &f, int lanes, const Workspace &s, Copy copy)
{
    FftLine line = fft_row(f, lanes);
    for (int i = (int)threadIdx.x; i < f.n2 << lanes; i += (int)blockDim.x) {
        int l = i & ((1 << lanes) - 1);
        if (line.has(l))
            copy(i, s.at(0, line.start + (i >> lanes), line.first + l));
    }
}

template <class Plan>
__global__ void __launch_bounds__(Plan::THREADS)
    grad_rows(int lanes, Plan plan, FftCuda f, GradRows g)
{
    extern __shared__ float2 memory[];
    lanes = plan.lanes(lanes);
    int        n = plan.n();
    bool       alone = g.first && g.last && g.batch == 1;
    FftBuffers w = fft_buffers(plan, memory, lanes);
    Kept       spectrum = { fft_buffer(memory, n, lanes, 2), lanes };
    Kept       held = { alone ? spectrum.p : fft_buffer(memory, n, lanes, 3), lanes };
    Kept       total = { alone ? NULL : fft_buffer(memory, n, lanes, 4), lanes };
    cuda_begin();
    if (!g.first)
        row_copy(f, lanes, g.sum, [&](int i, float2 *at) { total.p[i] = *at; });
    __syncthreads();
    w.last = false;
    if (g.kernel.p)
        fft_run(plan, w, row_in(f, lanes, g.kernel, 0), Keep{ spectrum });
    for (int64_t b = 0; b < g.batch; b++) {
        RowIn dy = row_in(f, lanes, g.dy, b), u = row_in(f, lanes, g.u, b);
        if (g.kernel.p)
            fft_through(plan, w, dy, Times{ spectrum, held }, row_back(f, lanes, g.dy, b));
        else
            fft_run(plan, w, dy, Keep{ held });
        w.last = b == g.batch - 1;
        Total sum = { held, total, g.first && b == 0 };
        if (g.last && b == g.batch - 1)
            fft_through(plan, w, u, sum, row_back(f, lanes, g.u, 0));
        else
            fft_run(plan, w, u, sum);
    }
    if (g.last)
        return;
    __syncthreads();
    row_copy(f, lanes, g.sum, [&](int i, float2 *at) { *at = total.p[i]; });
}

/* Partial sums of u * dy over chunks of rows, for dD: threads (32 channels, 8 rows), blocks
 * (chunks, channels / 32). */
__global__ void d_partial_sums(const void *u, Type type_u, const void *dy, Type type_dy,
                               int64_t rows, int64_t channels, float *parts)
{
    cuda_begin();
    __shared__ float sums[8][33];
    int64_t          c = blockIdx.y * (int64_t)32 + threadIdx.x;
    int64_t          from = rows * blockIdx.x / gridDim.x, to = rows * (blockIdx.x + 1) / gridDim.x;
    float            sum = 0;
    for (int64_t r = from + threadIdx.y; c < channels && r < to; r += 64) {
        SpanPlaces places = { r * channels + c, 8 * channels, r, 8, to };
        float      x[8], y[8];
        fetch<8>(type_u, u, places, x);
        fetch<8>(type_dy, dy, places, y);
#pragma unroll
        for (int t = 0; t < 8; t++)
            sum += x[t] * y[t];
    }
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y || c >= channels)
        return;
    for (int i = 1; i < 8; i++)
        sum += sums[i][threadIdx.x];
    parts[blockIdx.x * channels + c] = sum;
}

/* Adds the partial sums: threads (32,32). */
__global__ void d_sum(const float *parts, int64_t count, int64_t channels, float *dd)
{
    cuda_begin();
    __shared__ double sums[32][33];
    int64_t           c = blockIdx.x * (int64_t)32 + threadIdx.x;
    double            sum = 0;
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

static Workspace workspace_of(const FftCuda *f, void *base, int64_t signal)
{
    Workspace s = { (float2 *)base + signal * f->n * f->channels, f->n, f->channels };
    return s;
}

static size_t element_bytes(Type type) { return type == F32 ? 4 : 2; }

/* Signals from element `at` on, forwards or reversed. */
static Weighted weighted(const FftCuda *f, const void *p, Type type, int64_t at, int64_t length,
                         bool backwards)
{
    return { (const char *)p + (size_t)at * element_bytes(type),
             type,
             backwards,
             length,
             f->channels,
             f->n };
}

static Unweighted unweighted(const FftCuda *f, void *p, Type type, int64_t at, int64_t length,
                             bool backwards)
{
    return { (char *)p + (size_t)at * element_bytes(type),
             type,
             backwards,
             length,
             f->channels,
             NULL,
             NULL,
             F32,
             F32 };
}

/* Makes y add d * x. */
static void with_d(Unweighted *y, const Node *n, const Call *call, int32_t d, const Weighted *x)
{
    y->d = call->in[d];
    y->x = x->p;
    y->type_d = in_given(n, d) ? in_type(n, d) : F32;
    y->type_x = x->type;
}

extern "C" Err fft_conv_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    FftCuda f = conv_of(n);
    (void)device;
    TRY(fft_cuda_check("fft_conv", &f, 3));
    choice->workspace_bytes = (size_t)(1 + fft_wave(&f, in_shape(n, 0).dim[0])) *
                              fft_signal_bytes(&f);
    choice->name = "builtin";
    return OK;
}

/* Multiplies rows of x by rows of the kernel, after the columns of both. */
static Err run_rows(const Call *call, FftCuda f, Workspace kernel, Workspace x, int64_t batch)
{
    return fft_with(f.n2, f.channels, [&](auto plan) {
        return fft_launch(call, plan, conv_rows<decltype(plan)>, f.n1, f.channels, 1,
                          3 - plan.ALONE, f, kernel, x, batch);
    });
}

extern "C" Err fft_conv_cuda(const Call *call)
{
    const Node *n = call->node;
    FftCuda     f = conv_of(n);
    Shape       u = in_shape(n, 0);
    int64_t     batch = u.dim[0], length = u.dim[1], wave = fft_wave(&f, batch);
    Type        type = in_type(n, 0);
    Workspace   kernel = workspace_of(&f, call->workspace, 0),
              x = workspace_of(&f, call->workspace, 1);
    for (int64_t b = 0; b < batch; b += wave) {
        int64_t some = batch - b < wave ? batch - b : wave, at = b * length * f.channels;
        Entries in = { { weighted(&f, call->in[1], F32, 0, length, false),
                         weighted(&f, call->in[0], type, at, length, false) },
                       { 1, some } };
        Exits   out = { { unweighted(&f, call->out[0], type, at, length, false) }, some, f.n };
        with_d(&out.of[0], n, call, 2, &in.of[1]);
        TRY(fft_enter(call, f, 1 + some, in, kernel));
        TRY(run_rows(call, f, kernel, x, some));
        TRY(fft_leave(call, f, some, x, out));
    }
    return OK;
}

/* Workspace: K, dy and u of a wave, the sum of products between waves, partial sums of dD; only
 * what is needed. */
typedef struct GradSpace {
    int64_t dy, u, sum, signals; /* offsets in signals; K is the first */
    int64_t wave, chunks;
    size_t  bytes;
} GradSpace;

static GradSpace grad_space(const Node *n, const FftCuda *f, int sms)
{
    const bool *wants = ATTR(n, FftConvAttr)->wants;
    Shape       dy = in_shape(n, 0);
    GradSpace   g = {};
    int64_t     rows = dy.dim[0] * dy.dim[1], at = wants[0];
    g.wave = fft_wave(f, dy.dim[0]);
    g.dy = at, at += wants[0] || wants[1] ? g.wave : 0;
    g.u = at, at += wants[1] ? g.wave : 0;
    g.sum = at, at += wants[1] && g.wave < dy.dim[0];
    g.signals = at;
    int64_t some = ceil_div(2 * sms, ceil_div(f->channels, 32));
    g.chunks = ceil_div(rows, 64) < some ? ceil_div(rows, 64) : some;
    g.bytes = (size_t)at * fft_signal_bytes(f) +
              (wants[2] ? (size_t)(g.chunks * f->channels) * sizeof(float) : 0);
    return g;
}

extern "C" Err fft_conv_grad_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    FftCuda f = conv_of(n);
    TRY(fft_cuda_check("fft_conv_grad", &f, 5));
    choice->workspace_bytes = grad_space(n, &f, ((const CudaHandle *)device->handle)->sms).bytes;
    choice->name = "builtin";
    return OK;
}

static Err grad_d(const Call *call, const FftCuda *f, const GradSpace *g)
{
    const Node *n = call->node;
    Shape       dy = in_shape(n, 0);
    float      *parts = (float *)((float2 *)call->workspace + g->signals * f->n * f->channels);
    dim3        blocks((unsigned)g->chunks, (unsigned)ceil_div(f->channels, 32));
    cuda_launch(cuda_stream(call), d_partial_sums, blocks, dim3(32, 8), 0, call->in[1],
                in_type(n, 1), call->in[0], in_type(n, 0), dy.dim[0] * dy.dim[1], f->channels,
                parts);
    CUDA_LAUNCHED();
    cuda_launch(cuda_stream(call), d_sum, blocks.y, dim3(32, 32), 0, parts, g->chunks, f->channels,
                (float *)call->out[2]);
    CUDA_LAUNCHED();
    return OK;
}

/* Gradients of signal and kernel for the wave that begins with sample b. */
static Err grad_wave(const Call *call, FftCuda f, const GradSpace *g, int64_t b)
{
    const Node *n = call->node;
    const bool *wants = ATTR(n, FftConvAttr)->wants;
    Shape       shape = in_shape(n, 0);
    int64_t     batch = shape.dim[0], length = shape.dim[1], at = b * length * f.channels;
    int64_t     some = batch - b < g->wave ? batch - b : g->wave;
    GradRows    rows = { {},
                         workspace_of(&f, call->workspace, g->dy),
                         workspace_of(&f, call->workspace, g->dy + some),
                         workspace_of(&f, call->workspace, g->sum),
                         some,
                         b == 0,
                         b + some == batch };
    Weighted    dy = weighted(&f, call->in[0], in_type(n, 0), at, length, true);
    Entries     in = {};
    int         count = 0;
    if (wants[0]) {
        rows.kernel = workspace_of(&f, call->workspace, 0);
        in.of[count] = weighted(&f, call->in[2], F32, 0, length, false);
        in.count[count++] = 1;
    }
    in.of[count] = dy;
    in.count[count++] = some;
    if (wants[1]) {
        in.of[count] = weighted(&f, call->in[1], in_type(n, 1), at, length, false);
        in.count[count++] = some;
    }
    TRY(fft_enter(call, f, in.count[0] + in.count[1] + in.count[2], in,
                  workspace_of(&f, call->workspace, 0)));
    if (wants[1])
        TRY(fft_with(f.n2, f.channels, [&](auto plan) {
            return fft_launch(call, plan, grad_rows<decltype(plan)>, f.n1, f.channels, 1,
                              (batch > 1 ? 5 : 3) - plan.ALONE, f, rows);
        }));
    else
        TRY(run_rows(call, f, rows.kernel, rows.dy, some));
    Exits     out = {};
    bool      leaves = wants[1] && rows.last;
    Workspace from = wants[0] ? rows.dy : rows.u;
    out.batch = wants[0] ? some : 0;
    out.n = f.n;
    if (wants[0]) {
        out.of[0] = unweighted(&f, call->out[0], out_type(n, 0), at, length, true);
        with_d(&out.of[0], n, call, 3, &dy);
    }
    out.of[1] = unweighted(&f, call->out[1], F32, 0, length, true);
    return out.batch + leaves ? fft_leave(call, f, out.batch + leaves, from, out) : OK;
}

extern "C" Err fft_conv_grad_cuda(const Call *call)
{
    const bool *wants = ATTR(call->node, FftConvAttr)->wants;
    FftCuda     f = conv_of(call->node);
    GradSpace   g = grad_space(call->node, &f, cuda_handle(call)->sms);
    int64_t     batch = in_shape(call->node, 0).dim[0];
    if (wants[2])
        TRY(grad_d(call, &f, &g));
    for (int64_t b = 0; b < batch && (wants[0] || wants[1]); b += g.wave)
        TRY(grad_wave(call, f, &g, b));
    return OK;
}

CUDA_KERNEL(fft_conv, .choose = fft_conv_choose_cuda, .run = fft_conv_cuda)
CUDA_KERNEL(fft_conv_grad, .choose = fft_conv_grad_choose_cuda, .run = fft_conv_grad_cuda)
