/* s4_carry_cuda.cu -- S4 states between chunks on CUDA, in double precision: a warp per sample and
 * channel, its lanes over the pairs of poles. A chunk is processed step by step; each step needs
 * one sum over the warp. */
#include "ops/ops_cuda.h"
#include "ops/s4/s4_complex_cuda.h"

extern "C" {
#include "ops/s4/s4_carry.h"
}

enum { WARPS = 4 }; /* per block */

__device__ __forceinline__ double step_of(float x)
{
    return x > 30 ? (double)x : log1p(exp((double)x));
}

__device__ __forceinline__ double warp_total(double x)
{
#pragma unroll
    for (int d = 16; d; d >>= 1)
        x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}

typedef struct S4BeginCuda {
    int64_t      rows, channels, pairs;
    const float *state, *keep, *inv_dt, *a_real, *a_imag, *p, *dy;
    float       *y, *used;
    float       *d_inv_dt, *d_re, *d_im, *d_p;
    double      *sums; /* gradient: [rows][2], P* x of the row and its gradient */
} S4BeginCuda;

__device__ __forceinline__ Complex pole_of(const S4BeginCuda &s, int64_t n)
{
    return { -exp((double)s.a_real[n]), -(double)s.a_imag[n] };
}

/* One warp per row. */
__global__ void begin_rows(S4BeginCuda s)
{
    cuda_begin();
    int64_t at = blockIdx.x * (int64_t)WARPS + threadIdx.y;
    int     lane = (int)threadIdx.x;
    if (at >= s.rows)
        return;
    bool   kept = s.keep[at / s.channels] != 0;
    double dt = step_of(s.inv_dt[at % s.channels]), r = 0;
    for (int64_t n = lane; kept && n < s.pairs; n += 32)
        r += 2 * z_mul(z_conj(z_at(s.p, n)), z_at(s.state, at * s.pairs + n)).re;
    r = warp_total(r);
    for (int64_t n = lane; n < s.pairs; n += 32) {
        Complex x = { 0, 0 }, pole = pole_of(s, n), p = z_at(s.p, n);
        if (kept)
            x = z_at(s.state, at * s.pairs + n);
        Complex ax = z_mul(pole, x);
        int64_t to = 2 * (at * s.pairs + n);
        s.y[to] = (float)(x.re / dt + (ax.re - p.re * r) / 2);
        s.y[to + 1] = (float)(x.im / dt + (ax.im - p.im * r) / 2);
        s.used[to] = (float)x.re;
        s.used[to + 1] = (float)x.im;
    }
}

__global__ void begin_sums(S4BeginCuda s)
{
    cuda_begin();
    int64_t at = blockIdx.x * (int64_t)WARPS + threadIdx.y;
    if (at >= s.rows)
        return;
    double r = 0, d_r = 0;
    for (int64_t n = threadIdx.x; n < s.pairs; n += 32) {
        Complex q = z_conj(z_at(s.p, n));
        r += 2 * z_mul(q, z_at(s.state, at * s.pairs + n)).re;
        d_r -= 0.5 * z_mul(q, z_at(s.dy, at * s.pairs + n)).re;
    }
    r = warp_total(r);
    d_r = warp_total(d_r);
    if (threadIdx.x == 0) {
        s.sums[2 * at] = r;
        s.sums[2 * at + 1] = d_r;
    }
}

/* One warp per pair of poles: sums over all rows. */
__global__ void begin_poles(S4BeginCuda s)
{
    cuda_begin();
    int64_t n = blockIdx.x * (int64_t)WARPS + threadIdx.y;
    double  a_re = 0, a_im = 0, p_re = 0, p_im = 0;
    if (n >= s.pairs)
        return;
    for (int64_t at = threadIdx.x; at < s.rows; at += 32) {
        Complex x = z_at(s.state, at * s.pairs + n), g = z_at(s.dy, at * s.pairs + n),
                d_a = z_mul(z_conj(x), g);
        double r = s.sums[2 * at], d_r = s.sums[2 * at + 1];
        a_re += d_a.re / 2;
        a_im += d_a.im / 2;
        p_re += 2 * d_r * x.re - r / 2 * g.re;
        p_im += 2 * d_r * x.im - r / 2 * g.im;
    }
    a_re = warp_total(a_re);
    a_im = warp_total(a_im);
    p_re = warp_total(p_re);
    p_im = warp_total(p_im);
    if (threadIdx.x)
        return;
    if (s.d_re)
        s.d_re[n] = (float)(pole_of(s, n).re * a_re);
    if (s.d_im)
        s.d_im[n] = (float)-a_im;
    if (s.d_p) {
        s.d_p[2 * n] = (float)p_re;
        s.d_p[2 * n + 1] = (float)p_im;
    }
}

/* One warp per channel: sums over samples and pairs. */
__global__ void begin_steps(S4BeginCuda s)
{
    cuda_begin();
    int64_t h = blockIdx.x * (int64_t)WARPS + threadIdx.y;
    double  sum = 0;
    if (h >= s.channels)
        return;
    for (int64_t at = h; at < s.rows; at += s.channels)
        for (int64_t n = threadIdx.x; n < s.pairs; n += 32)
            sum += z_mul(z_conj(z_at(s.state, at * s.pairs + n)), z_at(s.dy, at * s.pairs + n)).re;
    sum = warp_total(sum);
    double dt = step_of(s.inv_dt[h]);
    if (threadIdx.x == 0) /* derivative of 1 / softplus */
        s.d_inv_dt[h] = (float)(-sum / (dt * dt) / (1 + exp(-(double)s.inv_dt[h])));
}

static S4BeginCuda begin_of(const Call *call)
{
    Shape       x = in_shape(call->node, S4_BEGIN_STATE);
    S4BeginCuda s = {};
    s.rows = x.dim[0] * x.dim[1];
    s.channels = x.dim[1];
    s.pairs = x.dim[2];
    s.state = (const float *)call->in[S4_BEGIN_STATE];
    s.keep = (const float *)call->in[S4_BEGIN_KEEP];
    s.inv_dt = (const float *)call->in[S4_BEGIN_INV_DT];
    s.a_real = (const float *)call->in[S4_BEGIN_A_REAL];
    s.a_imag = (const float *)call->in[S4_BEGIN_A_IMAG];
    s.p = (const float *)call->in[S4_BEGIN_P];
    return s;
}

extern "C" Err s4_begin_cuda(const Call *call)
{
    S4BeginCuda s = begin_of(call);
    s.y = (float *)call->out[0];
    s.used = (float *)call->out[1];
    cuda_launch(cuda_stream(call), begin_rows, (unsigned)ceil_div(s.rows, WARPS), dim3(32, WARPS),
                0, s);
    CUDA_LAUNCHED();
    return OK;
}

extern "C" Err s4_begin_grad_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    Shape x = in_shape(n, S4_BEGIN_STATE);
    (void)device;
    choice->workspace_bytes = (size_t)(2 * x.dim[0] * x.dim[1]) * sizeof(double);
    return OK;
}

extern "C" Err s4_begin_grad_cuda(const Call *call)
{
    S4BeginCuda  s = begin_of(call);
    cudaStream_t stream = cuda_stream(call);
    dim3         threads(32, WARPS);
    s.dy = (const float *)call->in[S4_BEGIN_INPUTS];
    s.sums = (double *)call->workspace;
    s.d_inv_dt = (float *)call->out[S4_BEGIN_INV_DT];
    s.d_re = (float *)call->out[S4_BEGIN_A_REAL];
    s.d_im = (float *)call->out[S4_BEGIN_A_IMAG];
    s.d_p = (float *)call->out[S4_BEGIN_P];
    cuda_launch(stream, begin_sums, (unsigned)ceil_div(s.rows, WARPS), threads, 0, s);
    CUDA_LAUNCHED();
    cuda_launch(stream, begin_poles, (unsigned)ceil_div(s.pairs, WARPS), threads, 0, s);
    CUDA_LAUNCHED();
    if (s.d_inv_dt) {
        cuda_launch(stream, begin_steps, (unsigned)ceil_div(s.channels, WARPS), threads, 0, s);
        CUDA_LAUNCHED();
    }
    return OK;
}

/* ---- the recurrence of s4_step.h ---- */

typedef struct S4EndCuda {
    int64_t      rows, channels, pairs, length;
    const float *keep, *inv_dt, *b, *a_real, *a_imag, *p;
    float       *state;
} S4EndCuda;

/* One warp per row; a lane has K pairs. */
template <class T, int K> __global__ void end_rows(S4EndCuda s, const T *u)
{
    cuda_begin();
    int64_t at = blockIdx.x * (int64_t)WARPS + threadIdx.y;
    int     lane = (int)threadIdx.x;
    if (at >= s.rows)
        return;
    int64_t sample = at / s.channels, h = at % s.channels;
    bool    kept = s.keep[sample] != 0;
    double  dt = step_of(s.inv_dt[h]), denominator = 0;
    Complex e[K], f[K], b[K], p[K], x[K];
#pragma unroll
    for (int k = 0; k < K; k++) {
        int64_t n = lane + 32 * k;
        e[k] = f[k] = b[k] = p[k] = x[k] = { 0, 0 };
        if (n >= s.pairs)
            continue;
        /* 1 - dt/2 A */
        Complex one = { 1 + dt / 2 * exp((double)s.a_real[n]), dt / 2 * (double)s.a_imag[n] };
        double  size = one.re * one.re + one.im * one.im;
        e[k] = { one.re / size, -one.im / size };
        p[k] = z_at(s.p, n);
        b[k] = z_at(s.b, n);
        b[k] = { dt * b[k].re, dt * b[k].im };
        denominator += 2 * (p[k].re * p[k].re + p[k].im * p[k].im) * e[k].re;
        if (kept)
            x[k] = z_at(s.state, at * s.pairs + n);
    }
    denominator = 2 / dt + warp_total(denominator);
#pragma unroll
    for (int k = 0; k < K; k++) {
        Complex ep = z_mul(e[k], p[k]);
        f[k] = { 2 * ep.re / denominator, 2 * ep.im / denominator };
    }
    for (int64_t first = 0; first < s.length; first += 32) { /* each lane fetches one of 32 steps */
        int   count = s.length - first < 32 ? (int)(s.length - first) : 32;
        float mine = lane < count ? get(u, (sample * s.length + first + lane) * s.channels + h) : 0;
        for (int t = 0; t < count; t++) {
            double now = (double)__shfl_sync(0xffffffffu, mine, t), sum = 0;
#pragma unroll
            for (int k = 0; k < K; k++) {
                Complex to = z_mul(e[k],
                                   { 2 * x[k].re + b[k].re * now, 2 * x[k].im + b[k].im * now });
                sum += p[k].re * to.re + p[k].im * to.im;
                x[k] = { to.re - x[k].re, to.im - x[k].im };
            }
            sum = warp_total(sum);
#pragma unroll
            for (int k = 0; k < K; k++)
                x[k] = { x[k].re - f[k].re * sum, x[k].im - f[k].im * sum };
        }
    }
#pragma unroll
    for (int k = 0; k < K; k++) {
        int64_t n = lane + 32 * k;
        if (n >= s.pairs)
            continue;
        s.state[2 * (at * s.pairs + n)] = (float)x[k].re;
        s.state[2 * (at * s.pairs + n) + 1] = (float)x[k].im;
    }
}

template <class T> static Err end_run(const Call *call, const S4EndCuda &s)
{
    unsigned     blocks = (unsigned)ceil_div(s.rows, WARPS);
    dim3         threads(32, WARPS);
    cudaStream_t stream = cuda_stream(call);
    const T     *u = (const T *)call->in[S4_END_U];
    if (s.pairs <= 32)
        cuda_launch(stream, end_rows<T, 1>, blocks, threads, 0, s, u);
    else if (s.pairs <= 64)
        cuda_launch(stream, end_rows<T, 2>, blocks, threads, 0, s, u);
    else
        cuda_launch(stream, end_rows<T, 16>, blocks, threads, 0, s, u); /* up to 512 pairs */
    CUDA_LAUNCHED();
    return OK;
}

extern "C" Err s4_end_cuda(const Call *call)
{
    Shape     x = in_shape(call->node, S4_END_STATE);
    Type      type = in_type(call->node, S4_END_U);
    S4EndCuda s = {};
    s.rows = x.dim[0] * x.dim[1];
    s.channels = x.dim[1];
    s.pairs = x.dim[2];
    s.length = in_shape(call->node, S4_END_U).dim[1];
    s.keep = (const float *)call->in[S4_END_KEEP];
    s.inv_dt = (const float *)call->in[S4_END_INV_DT];
    s.b = (const float *)call->in[S4_END_B];
    s.a_real = (const float *)call->in[S4_END_A_REAL];
    s.a_imag = (const float *)call->in[S4_END_A_IMAG];
    s.p = (const float *)call->in[S4_END_P];
    s.state = (float *)call->out[0];
    if (s.pairs > 512)
        return fail(E_DEVICE, "s4_end: %lld pairs of states; the CUDA kernel has room for 512",
                    (long long)s.pairs);
    return type == BF16  ? end_run<bf16>(call, s)
           : type == F16 ? end_run<f16>(call, s)
                         : end_run<float>(call, s);
}

CUDA_KERNEL(s4_begin, .run = s4_begin_cuda)
CUDA_KERNEL(s4_begin_grad, .choose = s4_begin_grad_choose_cuda, .run = s4_begin_grad_cuda)
CUDA_KERNEL(s4_end, .run = s4_end_cuda)
