/* rmsnorm_cuda.cu -- root mean square norm on CUDA.
 *
 * A row belongs to a team of threads (reduce/softmax_cuda.h) and is read twice, the second time
 * from the cache. The gradient of the weight is a column sum of dy x r: blocks of rows give partial
 * sums, which are added in order, so that two runs give the same bits. */
#include "ops/reduce/softmax_cuda.h"

extern "C" {
#include "ops/norm/rmsnorm.h"
}

enum { SUM_COLUMNS = 32, SUM_LANES = 8, MAX_BLOCKS_OF_ROWS = 256, MIN_ROWS_PER_BLOCK = 64 };

/* In double: one number a row, and the gradient of a narrow row is a difference of near numbers. */
static __device__ __forceinline__ float rms_of(float sum, int64_t n, float eps)
{
    return (float)rsqrt((double)sum / (double)n + (double)eps);
}

/* scale[row] = r. The sums for the weight need it before dx is written, for dx may take over dy's
 * bytes. */
template <int N>
__global__ void __launch_bounds__(SOFT_THREADS)
    rmsnorm_scale_rows(AnyIn x, RowTeam team, float eps, float *scale)
{
    cuda_begin();
    __shared__ float shared[32];
    team_rows(team, [&](TeamRow at) {
        float v[N], sum = 0;
        team_packs<N>(at, team.lanes, [&](int64_t i) {
            any_get<N>(x, at.first + i, v);
#pragma unroll
            for (int j = 0; j < N; j++)
                sum = fmaf(v[j], v[j], sum);
        });
        float r = rms_of(team_sum(sum, team.lanes, shared), team.n, eps);
        if (at.lane == 0 && at.n)
            scale[at.row] = r;
    });
}

template <int N>
__global__ void __launch_bounds__(SOFT_THREADS)
    rmsnorm_rows(AnyIn x, AnyIn weight, AnyOut y, RowTeam team, float eps)
{
    cuda_begin();
    __shared__ float shared[32];
    team_rows(team, [&](TeamRow at) {
        float v[N], w[N], sum = 0;
        team_packs<N>(at, team.lanes, [&](int64_t i) {
            any_get<N>(x, at.first + i, v);
#pragma unroll
            for (int j = 0; j < N; j++)
                sum = fmaf(v[j], v[j], sum);
        });
        float r = rms_of(team_sum(sum, team.lanes, shared), team.n, eps);
        team_packs<N>(at, team.lanes, [&](int64_t i) {
            any_get<N>(x, at.first + i, v);
            if (weight.p)
                any_get<N>(weight, i, w);
#pragma unroll
            for (int j = 0; j < N; j++)
                v[j] = v[j] * r * (weight.p ? w[j] : 1.0f);
            any_put<N>(y, at.first + i, v);
        });
    });
}

struct RmsGrad {
    AnyIn  x, weight, dy, before; /* weight, before: p NULL: none */
    AnyOut dx;
    float  eps;
};

template <int N>
__global__ void __launch_bounds__(SOFT_THREADS) rmsnorm_grad_rows(RmsGrad g, RowTeam team)
{
    cuda_begin();
    __shared__ float shared[32];
    team_rows(team, [&](TeamRow at) {
        float v[N], d[N], w[N], square = 0, dot = 0;
        team_packs<N>(at, team.lanes, [&](int64_t i) {
            any_get<N>(g.x, at.first + i, v);
            any_get<N>(g.dy, at.first + i, d);
            if (g.weight.p)
                any_get<N>(g.weight, i, w);
#pragma unroll
            for (int j = 0; j < N; j++) {
                square = fmaf(v[j], v[j], square);
                dot = fmaf(v[j], d[j] * (g.weight.p ? w[j] : 1.0f), dot);
            }
        });
        float r = rms_of(team_sum(square, team.lanes, shared), team.n, g.eps);
        float pull = r * r * team_sum(dot, team.lanes, shared) / (float)team.n;
        team_packs<N>(at, team.lanes, [&](int64_t i) {
            float b[N];
            any_get<N>(g.x, at.first + i, v);
            any_get<N>(g.dy, at.first + i, d);
            if (g.weight.p)
                any_get<N>(g.weight, i, w);
            if (g.before.p)
                any_get<N>(g.before, at.first + i, b);
#pragma unroll
            for (int j = 0; j < N; j++)
                v[j] = r * (d[j] * (g.weight.p ? w[j] : 1.0f) - v[j] * pull) +
                       (g.before.p ? b[j] : 0.0f);
            any_put<N>(g.dx, at.first + i, v);
        });
    });
}

/* partial[block of rows][column]: the sum of dy x r over the block. */
static __global__ void __launch_bounds__(SUM_COLUMNS *SUM_LANES)
    rmsnorm_weight_partial(AnyIn x, AnyIn dy, const float *scale, int64_t rows, int64_t width,
                           float *partial)
{
    cuda_begin();
    __shared__ float lanes[SUM_LANES][SUM_COLUMNS];
    int64_t          column = (int64_t)blockIdx.x * SUM_COLUMNS + threadIdx.x;
    int64_t          from = rows * blockIdx.y / gridDim.y, to = rows * (blockIdx.y + 1) / gridDim.y;
    float            sum = 0;
    for (int64_t row = from + threadIdx.y; row < to && column < width; row += SUM_LANES) {
        float v, d;
        any_get<1>(x, row * width + column, &v);
        any_get<1>(dy, row * width + column, &d);
        sum = fmaf(d * v, scale[row], sum);
    }
    lanes[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y || column >= width)
        return;
    for (int i = 1; i < SUM_LANES; i++)
        sum += lanes[i][threadIdx.x];
    partial[blockIdx.y * width + column] = sum;
}

static __global__ void rmsnorm_weight_total(const float *partial, int blocks, int64_t width,
                                            float *dweight)
{
    cuda_begin();
    int64_t column = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    float   sum = 0;
    if (column >= width)
        return;
    for (int i = 0; i < blocks; i++)
        sum += partial[i * width + column];
    dweight[column] = sum;
}

/* Depends on the shape alone, so that a plan made without a GPU has the same workspace. */
static int64_t rms_row_blocks(int64_t rows)
{
    return int_min(ceil_div(rows, MIN_ROWS_PER_BLOCK), MAX_BLOCKS_OF_ROWS);
}

static PackOf rms_pack(const Call *call, int n_in)
{
    PackOf pack = { 8 };
    for (int i = 0; i < n_in; i++)
        if (call->in[i])
            pack_with(&pack, call->in[i], in_type(call->node, i));
    if (call->out[0])
        pack_with(&pack, call->out[0], in_type(call->node, 0));
    pack_along(&pack, dim(in_shape(call->node, 0), -1));
    return pack;
}

static AnyIn rms_in(const Call *call, int i)
{
    return { call->in[i], call->in[i] ? in_type(call->node, i) : F32 };
}

extern "C" Err rmsnorm_cuda(const Call *call)
{
    Shape    s = in_shape(call->node, 0);
    PackOf   pack = rms_pack(call, 2);
    RowTeam  team = row_team(shape_rows(s), dim(s, -1), pack);
    unsigned blocks = team_blocks(call, team);
    float    eps = ATTR(call->node, RmsnormAttr)->eps;
    WITH_PACK(pack, N,
              cuda_launch(cuda_stream(call), rmsnorm_rows<N>, blocks, SOFT_THREADS, 0,
                          rms_in(call, 0), rms_in(call, 1), any_out(call, 0), team, eps);)
    CUDA_LAUNCHED();
    return OK;
}

extern "C" Err rmsnorm_grad_choose_cuda(const Node *n, const Device *, Choice *choice)
{
    int64_t rows = shape_rows(in_shape(n, 0)), width = dim(in_shape(n, 0), -1);
    if (ATTR(n, RmsnormAttr)->wants[1])
        choice->workspace_bytes = (size_t)(rows + rms_row_blocks(rows) * width) * sizeof(float);
    return OK;
}

extern "C" Err rmsnorm_grad_cuda(const Call *call)
{
    Shape    s = in_shape(call->node, 0);
    int64_t  rows = shape_rows(s), width = dim(s, -1);
    PackOf   pack = rms_pack(call, 4);
    RowTeam  team = row_team(rows, width, pack);
    unsigned blocks = team_blocks(call, team);
    float    eps = ATTR(call->node, RmsnormAttr)->eps;
    AnyIn    x = rms_in(call, 0), dy = rms_in(call, 2);
    if (call->out[1]) {
        float *scale = (float *)call->workspace, *partial = scale + rows;
        dim3   grid((unsigned)ceil_div(width, SUM_COLUMNS), (unsigned)rms_row_blocks(rows)),
            threads(SUM_COLUMNS, SUM_LANES);
        WITH_PACK(pack, N,
                  cuda_launch(cuda_stream(call), rmsnorm_scale_rows<N>, blocks, SOFT_THREADS, 0, x,
                              team, eps, scale);)
        cuda_launch(cuda_stream(call), rmsnorm_weight_partial, grid, threads, 0, x, dy,
                    (const float *)scale, rows, width, partial);
        cuda_launch(cuda_stream(call), rmsnorm_weight_total,
                    (unsigned)ceil_div(width, SOFT_THREADS), SOFT_THREADS, 0,
                    (const float *)partial, (int)rms_row_blocks(rows), width,
                    (float *)call->out[1]);
    }
    RmsGrad g = {
        x, rms_in(call, 1), dy, rms_in(call, 3), { call->out[0], in_type(call->node, 0) }, eps
    };
    if (call->out[0])
        WITH_PACK(
            pack, N,
            cuda_launch(cuda_stream(call), rmsnorm_grad_rows<N>, blocks, SOFT_THREADS, 0, g, team);)
    CUDA_LAUNCHED();
    return OK;
}

CUDA_KERNEL(rmsnorm, .run = rmsnorm_cuda)
CUDA_KERNEL(rmsnorm_grad, .choose = rmsnorm_grad_choose_cuda, .run = rmsnorm_grad_cuda)
