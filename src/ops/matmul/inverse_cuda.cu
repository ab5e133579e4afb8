/* inverse_cuda.cu -- inverses and determinants on CUDA: a block for each matrix, which lies in the
 * workspace in fp64. The pivot is found by one warp in a fixed order. */
#include "ops/reduce/rows_cuda.h"

extern "C" {
#include "ops/matmul/inverse.h"
}

enum { BLOCKS_MAX = 264, THREADS = 256, LANES = 32 };

static unsigned blocks_of(int64_t matrices)
{
    return (unsigned)(matrices < BLOCKS_MAX ? matrices : BLOCKS_MAX);
}

static size_t block_bytes(int64_t n) { return (size_t)(n * n + n) * sizeof(double); }

static __device__ int64_t pivot_row(const double *a, int64_t n, int64_t k)
{
    double  most = -1;
    int64_t row = k;
    for (int64_t i = k + threadIdx.x; i < n; i += LANES)
        if (fabs(a[i * n + k]) > most) {
            most = fabs(a[i * n + k]);
            row = i;
        }
    for (int step = LANES / 2; step; step /= 2) {
        double  other = __shfl_xor_sync(~0u, most, step);
        int64_t at = __shfl_xor_sync(~0u, (long long)row, step);
        if (other > most || (other == most && at < row)) {
            most = other;
            row = at;
        }
    }
    return row;
}

static __device__ void exchange(double *a, double *b, int64_t stride, int64_t n)
{
    for (int64_t j = threadIdx.x; a != b && j < n; j += THREADS) {
        double held = a[j * stride];
        a[j * stride] = b[j * stride];
        b[j * stride] = held;
    }
}

static __device__ void eliminate(double *a, int64_t n, int64_t k)
{
    double pivot = a[k * n + k];
    __syncthreads();
    for (int64_t j = threadIdx.x; j < n; j += THREADS)
        a[k * n + j] = (j == k ? 1 : a[k * n + j]) / pivot;
    __syncthreads();
    int warp = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    for (int64_t i = warp; i < n; i += THREADS / LANES) {
        double factor = a[i * n + k];
        __syncwarp();
        for (int64_t j = lane; i != k && j < n; j += LANES)
            a[i * n + j] = (j == k ? 0 : a[i * n + j]) - factor * a[k * n + j];
    }
    __syncthreads();
}

static __device__ void invert(double *a, double *taken, int64_t n, float *log_abs, float *sign)
{
    __shared__ int64_t row;
    double             sum = 0, side = 1;
    for (int64_t k = 0; k < n; k++) {
        if (threadIdx.x < LANES) {
            int64_t found = pivot_row(a, n, k);
            if (!threadIdx.x) {
                row = found;
                taken[k] = (double)found;
            }
        }
        __syncthreads();
        int64_t from = row;
        double  pivot = a[from * n + k];
        __syncthreads();
        exchange(a + k * n, a + from * n, 1, n);
        __syncthreads();
        sum += log(fabs(pivot));
        side *= (pivot > 0) - (pivot < 0);
        side = from != k ? -side : side;
        eliminate(a, n, k);
    }
    for (int64_t k = n - 1; k >= 0; k--) {
        exchange(a + k, a + (int64_t)taken[k], n, n);
        __syncthreads();
    }
    if (!threadIdx.x) {
        *log_abs = (float)sum;
        *sign = (float)side;
    }
}

__global__ void __launch_bounds__(THREADS)
    invert_matrices(float *y, float *log_abs, float *sign, const float *x, double *work, int64_t n,
                    int64_t matrices)
{
    cuda_begin();
    double *a = work + blockIdx.x * (n * n + n);
    for (int64_t b = blockIdx.x; b < matrices; b += gridDim.x) {
        for (int64_t i = threadIdx.x; i < n * n; i += THREADS)
            a[i] = (double)x[b * n * n + i];
        __syncthreads();
        invert(a, a + n * n, n, log_abs + b, sign + b);
        for (int64_t i = threadIdx.x; i < n * n; i += THREADS)
            y[b * n * n + i] = (float)a[i];
        __syncthreads();
    }
}

extern "C" Err inverse_choose_cuda(const Node *n, const Device *, Choice *choice)
{
    Shape x = in_shape(n, 0);
    choice->workspace_bytes = blocks_of(x.dim[0]) * block_bytes(x.dim[1]);
    return OK;
}

extern "C" Err inverse_cuda(const Call *call)
{
    Shape s = in_shape(call->node, 0);
    cuda_launch(cuda_stream(call), invert_matrices, blocks_of(s.dim[0]), THREADS, 0,
                (float *)call->out[0], (float *)call->out[1], (float *)call->out[2],
                (const float *)call->in[0], (double *)call->workspace, s.dim[1], s.dim[0]);
    CUDA_LAUNCHED();
    return OK;
}

__global__ void __launch_bounds__(ROW_THREADS)
    log_det_slopes(float *dx, const float *y, const float *dlog, int64_t n, int64_t count)
{
    cuda_begin();
    for (int64_t i = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * ROW_THREADS) {
        int64_t column, row, rows = divided(i, n, &column), b = divided(rows, n, &row);
        dx[i] = dlog[b] * y[(b * n + column) * n + row];
    }
}

extern "C" Err log_det_grad_cuda(const Call *call)
{
    Shape   s = in_shape(call->node, 0);
    int64_t count = shape_count(s);
    cuda_launch(cuda_stream(call), log_det_slopes, cuda_blocks(call, count, ROW_THREADS),
                ROW_THREADS, 0, (float *)call->out[0], (const float *)call->in[0],
                (const float *)call->in[1], s.dim[1], count);
    CUDA_LAUNCHED();
    return OK;
}

CUDA_KERNEL(inverse, .choose = inverse_choose_cuda, .run = inverse_cuda)
CUDA_KERNEL(log_det_grad, .run = log_det_grad_cuda)
