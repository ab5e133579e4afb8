/* variance_cuda.cu -- variance and product over M of (A, M, K) on CUDA.
 *
 * A block of MOMENT_THREADS holds WIDE adjacent columns and the same rows of each per thread; their
 * partial results are joined by a tree in shared memory. WIDE is 1 where K is small. */
#include "ops/reduce/rows_cuda.h"

extern "C" {
#include "ops/reduce/variance.h"
}

enum { MOMENT_THREADS = 512 };

typedef struct MomentJob {
    AnyIn      x, dy;
    AnyOut     out;
    MomentAttr at;
    int64_t    blocks; /* of columns, for each a */
} MomentJob;

struct MomentSum {
    static __device__ float join(float a, float b) { return a + b; }
};
struct MomentProduct {
    static __device__ float join(float a, float b) { return a * b; }
};

/* Joins the values of a column's threads; all of them get the result. */
template <int WIDE, class Op> __device__ __forceinline__ float column_join(float v, float *shared)
{
    constexpr int ROWS = MOMENT_THREADS / WIDE;
    int           row = threadIdx.x / WIDE;
    shared[threadIdx.x] = v;
    __syncthreads();
#pragma unroll
    for (int d = ROWS / 2; d; d /= 2) {
        if (row < d)
            shared[threadIdx.x] = Op::join(shared[threadIdx.x], shared[threadIdx.x + d * WIDE]);
        __syncthreads();
    }
    v = shared[threadIdx.x % WIDE];
    __syncthreads();
    return v;
}

template <int WIDE> struct MomentPlace { /* this thread's column and rows */
    int64_t column, first, row;
    bool    inside;
    enum { STEP = MOMENT_THREADS / WIDE };

    __device__ MomentPlace(const MomentJob &job)
    {
        int64_t block, a = divided(blockIdx.x, job.blocks, &block);
        int64_t k = block * WIDE + threadIdx.x % WIDE;
        inside = k < job.at.k;
        column = a * job.at.k + k;
        first = a * job.at.m * job.at.k + k;
        row = inside ? threadIdx.x / WIDE : job.at.m; /* none */
    }
};

template <int WIDE>
__device__ __forceinline__ float column_mean(const MomentJob &job, const MomentPlace<WIDE> &place,
                                             float *shared)
{
    float sum = 0, x;
    for (int64_t m = place.row; m < job.at.m; m += place.STEP) {
        any_get<1>(job.x, place.first + m * job.at.k, &x);
        sum += x;
    }
    return column_join<WIDE, MomentSum>(sum, shared) / (float)job.at.m;
}

template <int WIDE> __global__ void __launch_bounds__(MOMENT_THREADS) var_columns(MomentJob job)
{
    cuda_begin();
    __shared__ float  shared[MOMENT_THREADS];
    MomentPlace<WIDE> place(job);
    float             mean = column_mean<WIDE>(job, place, shared), sum = 0, x;
    for (int64_t m = place.row; m < job.at.m; m += place.STEP) {
        any_get<1>(job.x, place.first + m * job.at.k, &x);
        sum += (x - mean) * (x - mean);
    }
    sum = column_join<WIDE, MomentSum>(sum, shared) / ((float)job.at.m - job.at.correction);
    if (place.inside && threadIdx.x < WIDE)
        any_put<1>(job.out, place.column, &sum);
}

template <int WIDE> __global__ void __launch_bounds__(MOMENT_THREADS) var_grads(MomentJob job)
{
    cuda_begin();
    __shared__ float  shared[MOMENT_THREADS];
    MomentPlace<WIDE> place(job);
    float             mean = column_mean<WIDE>(job, place, shared), dy = 0, x;
    if (place.inside)
        any_get<1>(job.dy, place.column, &dy);
    float scale = 2 * dy / ((float)job.at.m - job.at.correction);
    for (int64_t m = place.row; m < job.at.m; m += place.STEP) {
        any_get<1>(job.x, place.first + m * job.at.k, &x);
        float dx = (x - mean) * scale;
        any_put<1>(job.out, place.first + m * job.at.k, &dx);
    }
}

/* The product of the elements that are not 0; *zeros: how many are. */
template <int WIDE>
__device__ __forceinline__ float
column_product(const MomentJob &job, const MomentPlace<WIDE> &place, float *shared, float *zeros)
{
    float product = 1, none = 0, x;
    for (int64_t m = place.row; m < job.at.m; m += place.STEP) {
        any_get<1>(job.x, place.first + m * job.at.k, &x);
        product *= x == 0 ? 1 : x;
        none += x == 0 ? 1 : 0;
    }
    *zeros = column_join<WIDE, MomentSum>(none, shared);
    return column_join<WIDE, MomentProduct>(product, shared);
}

template <int WIDE> __global__ void __launch_bounds__(MOMENT_THREADS) prod_columns(MomentJob job)
{
    cuda_begin();
    __shared__ float  shared[MOMENT_THREADS];
    MomentPlace<WIDE> place(job);
    float             zeros, product = column_product<WIDE>(job, place, shared, &zeros);
    product = zeros > 0 ? 0 : product;
    if (place.inside && threadIdx.x < WIDE)
        any_put<1>(job.out, place.column, &product);
}

template <int WIDE> __global__ void __launch_bounds__(MOMENT_THREADS) prod_grads(MomentJob job)
{
    cuda_begin();
    __shared__ float  shared[MOMENT_THREADS];
    MomentPlace<WIDE> place(job);
    float             zeros, product = column_product<WIDE>(job, place, shared, &zeros), dy = 0, x;
    if (place.inside)
        any_get<1>(job.dy, place.column, &dy);
    for (int64_t m = place.row; m < job.at.m; m += place.STEP) {
        any_get<1>(job.x, place.first + m * job.at.k, &x);
        float others = zeros == 0             ? product / x
                       : zeros == 1 && x == 0 ? product
                                              : 0,
              dx = others * dy;
        any_put<1>(job.out, place.first + m * job.at.k, &dx);
    }
}

typedef void MomentKernel(MomentJob job);

static Err moments_go(const Call *call, MomentKernel *narrow, MomentKernel *wide)
{
    MomentJob job = { any_in(call, 0), {}, any_out(call, 0), *ATTR(call->node, MomentAttr), 0 };
    int64_t   columns = job.at.k >= 32 ? 32 : 1;
    if (call->node->n_in > 1)
        job.dy = any_in(call, 1);
    job.blocks = ceil_div(job.at.k, columns);
    cuda_launch(cuda_stream(call), columns > 1 ? wide : narrow, (unsigned)(job.at.a * job.blocks),
                MOMENT_THREADS, 0, job);
    CUDA_LAUNCHED();
    return OK;
}

extern "C" Err var_cuda(const Call *call)
{
    return moments_go(call, var_columns<1>, var_columns<32>);
}
extern "C" Err var_grad_cuda(const Call *call)
{
    return moments_go(call, var_grads<1>, var_grads<32>);
}
extern "C" Err prod_cuda(const Call *call)
{
    return moments_go(call, prod_columns<1>, prod_columns<32>);
}
extern "C" Err prod_grad_cuda(const Call *call)
{
    return moments_go(call, prod_grads<1>, prod_grads<32>);
}

CUDA_KERNEL(var, .run = var_cuda)
CUDA_KERNEL(var_grad, .run = var_grad_cuda)
CUDA_KERNEL(prod, .run = prod_cuda)
CUDA_KERNEL(prod_grad, .run = prod_grad_cuda)
