/* scan_cuda.cu -- running sums and products on CUDA.
 *
 * Where there are many columns a thread walks each. Otherwise a block scans a column, in steps of
 * its threads, and carries the last value on. */
#include "ops/reduce/rows_cuda.h"

extern "C" {
#include "ops/index/scan.h"
}

enum { SCAN_THREADS = 512 };

struct ScanFloats {
    AnyIn            x;
    AnyOut           y;
    bool             product;
    typedef float    Number;
    __device__ float get(int64_t i) const
    {
        float v;
        any_get<1>(x, i, &v);
        return v;
    }
    __device__ void  put(int64_t i, float v) const { any_put<1>(y, i, &v); }
    __device__ float none() const { return product ? 1.0f : 0.0f; }
    __device__ float join(float a, float b) const { return product ? a * b : a + b; }
};

struct ScanInts {
    const void        *x;
    int32_t           *y;
    bool               bytes;
    typedef int32_t    Number;
    __device__ int32_t get(int64_t i) const
    {
        return bytes ? ((const uint8_t *)x)[i] : ((const int32_t *)x)[i];
    }
    __device__ void    put(int64_t i, int32_t v) const { y[i] = v; }
    __device__ int32_t none() const { return 0; }
    __device__ int32_t join(int32_t a, int32_t b) const { return a + b; }
};

template <class F> __global__ void __launch_bounds__(ROW_THREADS) scan_columns(F f, ScanAttr at)
{
    cuda_begin();
    int64_t i = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x, k;
    if (i >= at.a * at.k)
        return;
    int64_t first = divided(i, at.k, &k) * at.n * at.k + k;
    auto    run = f.none();
    for (int64_t n = 0; n < at.n; n++) {
        int64_t place = first + (at.reverse ? at.n - 1 - n : n) * at.k;
        run = f.join(run, f.get(place));
        f.put(place, run);
    }
}

template <class F> __global__ void __launch_bounds__(SCAN_THREADS) scan_blocks(F f, ScanAttr at)
{
    typedef typename F::Number Number;
    cuda_begin();
    __shared__ Number sums[SCAN_THREADS / 32], carried;
    int64_t           k, first = divided(blockIdx.x, at.k, &k) * at.n * at.k + k;
    int               lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    Number            carry = f.none();
    for (int64_t n0 = 0; n0 < at.n; n0 += SCAN_THREADS) {
        int64_t n = n0 + threadIdx.x, place = first + (at.reverse ? at.n - 1 - n : n) * at.k;
        Number  run = n < at.n ? f.get(place) : f.none();
#pragma unroll
        for (int d = 1; d < 32; d *= 2) {
            Number before = __shfl_up_sync(0xffffffffu, run, d);
            run = lane >= d ? f.join(before, run) : run;
        }
        if (lane == 31)
            sums[warp] = run;
        __syncthreads();
        Number before = carry;
        for (int w = 0; w < warp; w++)
            before = f.join(before, sums[w]);
        run = f.join(before, run);
        if (n < at.n)
            f.put(place, run);
        if (threadIdx.x == SCAN_THREADS - 1)
            carried = run;
        __syncthreads();
        carry = carried;
    }
}

template <class F> static Err scan_go(const Call *call, F f)
{
    ScanAttr at = *ATTR(call->node, ScanAttr);
    int64_t  columns = at.a * at.k;
    if (at.n < 64 || columns >= 16384 || (at.k >= 32 && columns >= 4096))
        cuda_launch(cuda_stream(call), scan_columns<F>, (unsigned)ceil_div(columns, ROW_THREADS),
                    ROW_THREADS, 0, f, at);
    else
        cuda_launch(cuda_stream(call), scan_blocks<F>, (unsigned)columns, SCAN_THREADS, 0, f, at);
    CUDA_LAUNCHED();
    return OK;
}

extern "C" Err cumsum_cuda(const Call *call)
{
    Type type = in_type(call->node, 0);
    if (type_is_float(type))
        return scan_go(call, ScanFloats{ any_in(call, 0), any_out(call, 0), false });
    return scan_go(call, ScanInts{ call->in[0], (int32_t *)call->out[0], type == U8 });
}

extern "C" Err cumprod_cuda(const Call *call)
{
    return scan_go(call, ScanFloats{ any_in(call, 0), any_out(call, 0), true });
}

/* As on the CPU: the sum from behind up to the first zero, then the products that leave that zero out. */
__global__ void __launch_bounds__(ROW_THREADS)
    cumprod_grads(AnyOut dx, AnyIn x, AnyIn dy, ScanAttr at)
{
    cuda_begin();
    int64_t c = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x, k;
    if (c >= at.a * at.k)
        return;
    int64_t first = divided(c, at.k, &k) * at.n * at.k + k, zero = 0;
    double  product = 1, sum = 0;
    float   v, d, nothing = 0;
    for (; zero < at.n; zero++) {
        any_get<1>(x, first + zero * at.k, &v);
        if (v == 0)
            break;
        product *= v;
    }
    double y = product;
    for (int64_t i = zero - 1; i >= 0; i--) {
        any_get<1>(x, first + i * at.k, &v);
        any_get<1>(dy, first + i * at.k, &d);
        sum += d * y;
        float g = (float)(sum / v);
        any_put<1>(dx, first + i * at.k, &g);
        y /= v;
    }
    sum = 0;
    for (int64_t i = zero; i < at.n; i++) {
        if (i > zero) {
            any_get<1>(x, first + i * at.k, &v);
            product *= v;
            any_put<1>(dx, first + i * at.k, &nothing);
        }
        any_get<1>(dy, first + i * at.k, &d);
        sum += d * product;
    }
    float g = (float)sum;
    if (zero < at.n)
        any_put<1>(dx, first + zero * at.k, &g);
}

extern "C" Err cumprod_grad_cuda(const Call *call)
{
    ScanAttr at = *ATTR(call->node, ScanAttr);
    cuda_launch(cuda_stream(call), cumprod_grads, (unsigned)ceil_div(at.a * at.k, ROW_THREADS),
                ROW_THREADS, 0, any_out(call, 0), any_in(call, 0), any_in(call, 1), at);
    CUDA_LAUNCHED();
    return OK;
}

CUDA_KERNEL(cumsum, .run = cumsum_cuda)
CUDA_KERNEL(cumprod, .run = cumprod_cuda)
CUDA_KERNEL(cumprod_grad, .run = cumprod_grad_cuda)
