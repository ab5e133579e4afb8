/* layernorm_cuda.cu -- norms over the last axis on CUDA.
 *
 * A row stays in the registers of a few lanes of a warp, of a warp, or of a block, as its width
 * asks, so that every byte passes once; rows too wide for that are read again from the cache. Layer
 * norm is the modulated norm with one weight and bias for all rows; scalar_norm has the number s
 * for a weight and rstd * m beside xhat.
 *
 * Sums over rows (gradients of weight and bias): rows are cut into pieces, none of which crosses
 * the end of a sample of the packed tensor; a block keeps the sums of one piece in registers and
 * writes [2][width], dy * xhat and dy; the pieces are added in order, in double. */
#include "ops/cuda.h"

extern "C" {
#define class class_
#include "ops/layernorm.h"
#undef class
}

enum { ROW_THREADS = 256, BLOCK_ROW_THREADS = 512 };

typedef struct RowsCuda {        /* one run, forward or backward */
    int64_t     rows, width;
    int64_t     per;             /* rows that share weight and bias */
    int64_t     pieces, piece;   /* of each sample; rows of a piece */
    Type        type, type_w;
    const void *x, *dy, *weight, *bias;
    int64_t     pitch;           /* elements from one sample's weight to the next's */
    float       plus;            /* added to the weight */
    float       eps;
    bool        scalar;          /* weight and bias are the numbers s and m */
    bool        vectors_w;       /* weight and bias can be read 16 bytes at a time */
    int         lanes;           /* of a row */
    void       *y;               /* or dx */
    float      *partial;         /* [samples][pieces][2][width, or 1 if scalar]; NULL: not wanted */
} RowsCuda;

template <int V>
__device__ __forceinline__ void affine_get(const RowsCuda &job, const void *p, int64_t i,
                                           float absent, float *w)
{
    constexpr int wide = V < 4 ? V : 4;
    if (!p) {
#pragma unroll
        for (int j = 0; j < V; j++)
            w[j] = absent;
    } else if (job.type_w == F32) {
        if (job.vectors_w)
#pragma unroll
            for (int j = 0; j < V; j += wide)
                get_pack<wide>((const float *)p, i + j, w + j);
        else
#pragma unroll
            for (int j = 0; j < V; j++)
                w[j] = get((const float *)p, i + j);
    } else if (job.type_w == BF16) {
        if (job.vectors_w)
            get_pack<V>((const bf16 *)p, i, w);
        else
#pragma unroll
            for (int j = 0; j < V; j++)
                w[j] = get((const bf16 *)p, i + j);
    } else {
        if (job.vectors_w)
            get_pack<V>((const f16 *)p, i, w);
        else
#pragma unroll
            for (int j = 0; j < V; j++)
                w[j] = get((const f16 *)p, i + j);
    }
}

__device__ __forceinline__ float number(Type type, const void *p)
{
    return type == F32    ? *(const float *)p
           : type == BF16 ? get((const bf16 *)p, 0)
                          : get((const f16 *)p, 0);
}

/* The sum over the lanes of a row; every lane gets it. */
template <bool BLOCK> __device__ __forceinline__ float row_sum(float x, int lanes, float *lines)
{
    if constexpr (BLOCK) {
        return block_sum(x, lines);
    } else {
        for (int d = lanes / 2; d; d >>= 1)
            x += __shfl_xor_sync(0xffffffffu, x, d);
        return x;
    }
}

/* Mean and 1 / std of a row in registers: lane l holds vectors l, l + lanes, ... of `count`. */
template <int V, int K, bool BLOCK>
__device__ __forceinline__ void row_moments(const RowsCuda &job, const float (&x)[K][V], int lane,
                                            int count, float *lines, float *mean, float *rstd)
{
    float sum = 0, squares = 0;
#pragma unroll
    for (int k = 0; k < K; k++)
#pragma unroll
        for (int j = 0; j < V; j++)
            sum += x[k][j];                      /* 0 beyond the end */
    *mean = row_sum<BLOCK>(sum, job.lanes, lines) / (float)job.width;
#pragma unroll
    for (int k = 0; k < K; k++)
        if (lane + k * job.lanes < count)
#pragma unroll
            for (int j = 0; j < V; j++)
                squares += (x[k][j] - *mean) * (x[k][j] - *mean);
    squares = row_sum<BLOCK>(squares, job.lanes, lines);
    *rstd = 1.0f / sqrtf(squares / (float)job.width + job.eps);
}

template <class T, int V, int K>
__device__ __forceinline__ void row_get(const T *p, int64_t at, int lane, int lanes, int count,
                                        bool live, float (&x)[K][V])
{
#pragma unroll
    for (int k = 0; k < K; k++) {
        int v = lane + k * lanes;
        if (live && v < count)
            get_pack<V>(p, at + (int64_t)v * V, x[k]);
        else
#pragma unroll
            for (int j = 0; j < V; j++)
                x[k][j] = 0;
    }
}

template <class T, int V, int K, bool BLOCK>
__global__ void __launch_bounds__(BLOCK ? BLOCK_ROW_THREADS : ROW_THREADS)
    rows_forward(RowsCuda job)
{
    __shared__ float lines[32];
    int     lanes = job.lanes, lane = (int)threadIdx.x % lanes, team = (int)threadIdx.x / lanes;
    int     teams = (int)blockDim.x / lanes, count = (int)(job.width / V);
    float m = job.scalar ? number(job.type_w, job.bias) : 0,
          s = job.scalar ? number(job.type_w, job.weight) : 1;
    for (int64_t first = (int64_t)blockIdx.x * teams; first < job.rows;
         first += (int64_t)gridDim.x * teams) {
        int64_t row = first + team;  /* all lanes of a warp stay: their sums need them */
        bool    live = row < job.rows;
        float   x[K][V], mean, rstd;
        row_get<T, V, K>((const T *)job.x, row * job.width, lane, lanes, count, live, x);
        row_moments<V, K, BLOCK>(job, x, lane, count, lines, &mean, &rstd);
        if (!live)
            continue;
        int64_t affine = row / job.per * job.pitch;
#pragma unroll
        for (int k = 0; k < K; k++) {
            int   v = lane + k * lanes;
            float w[V], b[V];
            if (v >= count)
                break;
            affine_get<V>(job, job.scalar ? NULL : job.weight, affine + (int64_t)v * V, s, w);
            affine_get<V>(job, job.scalar ? NULL : job.bias, affine + (int64_t)v * V, s * rstd * m,
                          b);
#pragma unroll
            for (int j = 0; j < V; j++)
                x[k][j] = (x[k][j] - mean) * rstd * (w[j] + job.plus) + b[j];
            put_pack<V>((T *)job.y, row * job.width + (int64_t)v * V, x[k]);
        }
    }
}

/* Any width: the row is read three times. */
template <class T> __global__ void __launch_bounds__(ROW_THREADS) rows_forward_wide(RowsCuda job)
{
    __shared__ float lines[32];
    float m = job.scalar ? number(job.type_w, job.bias) : 0,
          s = job.scalar ? number(job.type_w, job.weight) : 1;
    for (int64_t row = blockIdx.x; row < job.rows; row += gridDim.x) {
        const T *x = (const T *)job.x + row * job.width;
        int64_t  affine = row / job.per * job.pitch;
        float    sum = 0, squares = 0;
        for (int64_t c = threadIdx.x; c < job.width; c += blockDim.x)
            sum += get(x, c);
        float mean = block_sum(sum, lines) / (float)job.width;
        for (int64_t c = threadIdx.x; c < job.width; c += blockDim.x)
            squares += (get(x, c) - mean) * (get(x, c) - mean);
        float rstd = 1.0f / sqrtf(block_sum(squares, lines) / (float)job.width + job.eps);
        for (int64_t c = threadIdx.x; c < job.width; c += blockDim.x) {
            float w, b;
            affine_get<1>(job, job.scalar ? NULL : job.weight, affine + c, s, &w);
            affine_get<1>(job, job.scalar ? NULL : job.bias, affine + c, s * rstd * m, &b);
            put((T *)job.y, row * job.width + c, (get(x, c) - mean) * rstd * (w + job.plus) + b);
        }
    }
}

/* Adds up the sums of a block's teams in order: dynamic shared memory [2][width]. */
template <int V, int K>
__device__ __forceinline__ void columns_join(const RowsCuda &job, float (&one)[K][V],
                                             float (&two)[K][V], int lane, int count)
{
    extern __shared__ float columns[];
    int64_t width = job.width;
    for (int d = job.lanes; d < 32; d <<= 1)
#pragma unroll
        for (int k = 0; k < K; k++)
#pragma unroll
            for (int j = 0; j < V; j++) {
                one[k][j] += __shfl_xor_sync(0xffffffffu, one[k][j], d);
                two[k][j] += __shfl_xor_sync(0xffffffffu, two[k][j], d);
            }
    for (int warp = 0; warp < (int)blockDim.x / 32; warp++) {
        if ((int)threadIdx.x / 32 == warp && (int)threadIdx.x % 32 < job.lanes)
#pragma unroll
            for (int k = 0; k < K; k++)
                if (lane + k * job.lanes < count)
#pragma unroll
                    for (int j = 0; j < V; j++) {
                        int c = (lane + k * job.lanes) * V + j;
                        columns[c] = (warp ? columns[c] : 0) + one[k][j];
                        columns[width + c] = (warp ? columns[width + c] : 0) + two[k][j];
                    }
        __syncthreads();
    }
    for (int64_t c = threadIdx.x; c < 2 * width; c += blockDim.x)
        job.partial[blockIdx.x * 2 * width + c] = columns[c];
}

/* scalar_norm: the sums of teams; team_s and team_m are the same in all lanes of a team. */
template <bool BLOCK>
__device__ void scalars_join(const RowsCuda &job, float team_s, float team_m, float *lines)
{
    bool  leads = BLOCK ? threadIdx.x == 0 : (int)threadIdx.x % job.lanes == 0;
    float s = block_sum(leads ? team_s : 0.0f, lines), m = block_sum(leads ? team_m : 0.0f, lines);
    if (threadIdx.x == 0) {
        job.partial[2 * blockIdx.x] = s;
        job.partial[2 * blockIdx.x + 1] = m;
    }
}

/* dx = rstd (g - mean(g) - xhat mean(g (xhat + add))), g = weight dy. A block takes one piece. */
template <class T, int V, int K, bool BLOCK>
__global__ void __launch_bounds__(BLOCK ? BLOCK_ROW_THREADS : ROW_THREADS)
    rows_backward(RowsCuda job)
{
    __shared__ float lines[32];
    int     lanes = job.lanes, lane = (int)threadIdx.x % lanes, team = (int)threadIdx.x / lanes;
    int     teams = (int)blockDim.x / lanes, count = (int)(job.width / V);
    int64_t sample = blockIdx.x / job.pieces, from = blockIdx.x % job.pieces * job.piece;
    int64_t to = from + job.piece < job.per ? from + job.piece : job.per,
            affine = sample * job.pitch;
    float m = job.scalar ? number(job.type_w, job.bias) : 0,
          s = job.scalar ? number(job.type_w, job.weight) : 1;
    float   one[K][V], two[K][V], sum_s = 0, sum_m = 0, inverse = 1 / (float)job.width;
#pragma unroll
    for (int k = 0; k < K; k++)
#pragma unroll
        for (int j = 0; j < V; j++)
            one[k][j] = two[k][j] = 0;
    for (int64_t first = from; first < to; first += teams) {
        int64_t row = sample * job.per + first + team;
        bool    live = first + team < to;
        float   x[K][V], d[K][V], mean, rstd, sum = 0, dot = 0;
        row_get<T, V, K>((const T *)job.x, row * job.width, lane, lanes, count, live, x);
        row_get<T, V, K>((const T *)job.dy, row * job.width, lane, lanes, count, live, d);
        row_moments<V, K, BLOCK>(job, x, lane, count, lines, &mean, &rstd);
        float add = rstd * m;
#pragma unroll
        for (int k = 0; k < K; k++) {
            float w[V];
            if (!live || lane + k * lanes >= count)
                break;
            affine_get<V>(job, job.scalar ? NULL : job.weight,
                          affine + (int64_t)(lane + k * lanes) * V, 1, w);
#pragma unroll
            for (int j = 0; j < V; j++) {
                x[k][j] = (x[k][j] - mean) * rstd;
                one[k][j] += d[k][j] * x[k][j];
                two[k][j] += d[k][j];
                d[k][j] *= w[j] + job.plus;
                sum += d[k][j];
                dot += d[k][j] * (x[k][j] + add);
            }
        }
        sum = row_sum<BLOCK>(sum, lanes, lines);
        dot = row_sum<BLOCK>(dot, lanes, lines);
        if (!live)
            continue;
        sum_s += dot;
        sum_m += s * rstd * sum;
        if (!job.y)
            continue;
#pragma unroll
        for (int k = 0; k < K; k++) {
            if (lane + k * lanes >= count)
                break;
#pragma unroll
            for (int j = 0; j < V; j++)
                d[k][j] = s * rstd * (d[k][j] - sum * inverse - x[k][j] * (dot * inverse));
            put_pack<V>((T *)job.y, row * job.width + (int64_t)(lane + k * lanes) * V, d[k]);
        }
    }
    if (!job.partial)
        return;
    if (job.scalar) {
        scalars_join<BLOCK>(job, sum_s, sum_m, lines);
    } else if (BLOCK) {
        if (lane < count)
#pragma unroll
            for (int j = 0; j < V; j++) {
                job.partial[blockIdx.x * 2 * job.width + lane * V + j] = one[0][j];
                job.partial[(blockIdx.x * 2 + 1) * job.width + lane * V + j] = two[0][j];
            }
    } else {
        columns_join<V, K>(job, one, two, lane, count);
    }
}

/* Any width: rows read again, sums kept where they go. */
template <class T> __global__ void __launch_bounds__(ROW_THREADS) rows_backward_wide(RowsCuda job)
{
    __shared__ float lines[32];
    int64_t sample = blockIdx.x / job.pieces, from = blockIdx.x % job.pieces * job.piece,
            w = job.width;
    int64_t to = from + job.piece < job.per ? from + job.piece : job.per,
            affine = sample * job.pitch;
    float m = job.scalar ? number(job.type_w, job.bias) : 0,
          s = job.scalar ? number(job.type_w, job.weight) : 1;
    float   sum_s = 0, sum_m = 0, *one = job.partial + blockIdx.x * 2 * w, *two = one + w;
    bool    columns = job.partial && !job.scalar;
    for (int64_t i = from; i < to; i++) {
        int64_t  row = sample * job.per + i;
        const T *x = (const T *)job.x + row * w, *dy = (const T *)job.dy + row * w;
        float    total = 0, squares = 0, sum = 0, dot = 0, weight;
        for (int64_t c = threadIdx.x; c < w; c += blockDim.x)
            total += get(x, c);
        float mean = block_sum(total, lines) / (float)w;
        for (int64_t c = threadIdx.x; c < w; c += blockDim.x)
            squares += (get(x, c) - mean) * (get(x, c) - mean);
        float rstd = 1.0f / sqrtf(block_sum(squares, lines) / (float)w + job.eps);
        for (int64_t c = threadIdx.x; c < w; c += blockDim.x) {
            float xhat = (get(x, c) - mean) * rstd, d = get(dy, c);
            affine_get<1>(job, job.scalar ? NULL : job.weight, affine + c, 1, &weight);
            if (columns) {
                one[c] = (i > from ? one[c] : 0) + d * xhat;
                two[c] = (i > from ? two[c] : 0) + d;
            }
            sum += d * (weight + job.plus);
            dot += d * (weight + job.plus) * (xhat + rstd * m);
        }
        sum = block_sum(sum, lines);
        dot = block_sum(dot, lines);
        sum_s += dot;
        sum_m += s * rstd * sum;
        for (int64_t c = threadIdx.x; job.y && c < w; c += blockDim.x) {
            affine_get<1>(job, job.scalar ? NULL : job.weight, affine + c, 1, &weight);
            float xhat = (get(x, c) - mean) * rstd, g = get(dy, c) * (weight + job.plus);
            put((T *)job.y, row * w + c, s * rstd * (g - sum / (float)w - xhat * dot / (float)w));
        }
    }
    if (job.partial && job.scalar)
        scalars_join<true>(job, sum_s, sum_m, lines);
}

/* Where the sums of pieces go. */
typedef struct Totals {
    const float *partial;
    int64_t      pieces, width, columns;     /* columns: of a sample's output row */
    int64_t      at[2];                      /* first columns of dy * xhat and of dy */
    Type         type;
    void        *out[2];                     /* the same, or one for each; NULL: not wanted */
    bool         packed;                     /* one output for both; 0 between them */
} Totals;

__global__ void rows_totals(Totals to)       /* threads (32,32), blocks (columns / 32, samples) */
{
    __shared__ double sums[32][33];
    int64_t sample = blockIdx.y, column = blockIdx.x * (int64_t)32 + threadIdx.x, c = -1;
    int     part = 0;
    for (int i = 0; i < 2; i++)
        if (column >= to.at[i] && column < to.at[i] + to.width) {
            part = i;
            c = column - to.at[i];
        }
    double sum = 0;
    for (int64_t i = threadIdx.y; c >= 0 && i < to.pieces; i += 32)
        sum += (double)to.partial[((sample * to.pieces + i) * 2 + part) * to.width + c];
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    void *out = part ? to.out[1] : to.out[0];
    if (threadIdx.y || column >= to.columns || !out)
        return;
    for (int i = 1; i < 32; i++)
        sum += sums[i][threadIdx.x];
    int64_t at = to.packed ? sample * to.columns + column : c;
    if (to.type == F32)
        put((float *)out, at, (float)sum);
    else if (to.type == BF16)
        put((bf16 *)out, at, (float)sum);
    else
        put((f16 *)out, at, (float)sum);
}

/* ---- host ---- */

static RowsCuda rows_of(const Node *n, int64_t samples, int sms)
{
    Shape    x = in_shape(n, 0);
    RowsCuda job = {};
    job.width = dim(x, -1);
    job.rows = shape_count(x) / job.width;
    job.per = job.rows / samples;
    job.type = in_type(n, 0);
    job.type_w = F32;
    job.eps = ATTR(n, LayernormAttr)->eps;
    int64_t want = ceil_div((int64_t)sms * 4, samples), most = ceil_div(job.per, 16);
    job.piece = ceil_div(job.per, want < most ? want : most);
    job.pieces = ceil_div(job.per, job.piece);
    return job;
}

static size_t rows_bytes(const RowsCuda *job)
{
    return (size_t)(job->rows / job->per * job->pieces * 2 * (job->scalar ? 1 : job->width)) *
           sizeof(float);
}

static bool aligned(const void *p) { return (uintptr_t)p % 16 == 0; }

static bool vectors_fit(RowsCuda *job, int v)
{
    if (v > 1 && (job->width % v || !aligned(job->x) || !aligned(job->dy) || !aligned(job->y)))
        return false;
    job->vectors_w = v > 1 && aligned(job->weight) && aligned(job->bias) && job->pitch % v == 0;
    return true;
}

static int lanes_for(int64_t count)
{
    int lanes = 1;
    while (lanes < count && lanes < 32)
        lanes *= 2;
    return lanes;
}

template <class T, int V> static void launch_forward(const Call *call, RowsCuda job)
{
    int64_t      count = job.width / V;
    cudaStream_t stream = cuda_stream(call);
    job.lanes = lanes_for(count);
    unsigned     blocks = cuda_blocks(call, job.rows * job.lanes, ROW_THREADS);
    if (count <= 32)
        rows_forward<T, V, 1, false><<<blocks, ROW_THREADS, 0, stream>>>(job);
    else if (count <= 64)
        rows_forward<T, V, 2, false><<<blocks, ROW_THREADS, 0, stream>>>(job);
    else if (count <= 128)
        rows_forward<T, V, 4, false><<<blocks, ROW_THREADS, 0, stream>>>(job);
    else if (count <= BLOCK_ROW_THREADS) {
        job.lanes = (int)ceil_div(count, 32) * 32;
        blocks = cuda_blocks(call, job.rows * job.lanes, job.lanes);
        rows_forward<T, V, 1, true><<<blocks, (unsigned)job.lanes, 0, stream>>>(job);
    } else {
        blocks = cuda_blocks(call, job.rows * ROW_THREADS, ROW_THREADS);
        job.vectors_w = false;
        rows_forward_wide<T><<<blocks, ROW_THREADS, 0, stream>>>(job);
    }
}

template <class T, int V> static void launch_backward(const Call *call, RowsCuda job)
{
    int64_t      count = job.width / V;
    cudaStream_t stream = cuda_stream(call);
    unsigned     blocks = (unsigned)(job.rows / job.per * job.pieces);
    size_t       shared = job.partial && !job.scalar ? (size_t)job.width * 2 * sizeof(float) : 0;
    job.lanes = lanes_for(count);
    if (count <= 32)
        rows_backward<T, V, 1, false><<<blocks, ROW_THREADS, shared, stream>>>(job);
    else if (count <= 64)
        rows_backward<T, V, 2, false><<<blocks, ROW_THREADS, shared, stream>>>(job);
    else if (count <= 128)
        rows_backward<T, V, 4, false><<<blocks, ROW_THREADS, shared, stream>>>(job);
    else if (count <= BLOCK_ROW_THREADS) {
        job.lanes = (int)ceil_div(count, 32) * 32;
        rows_backward<T, V, 1, true><<<blocks, (unsigned)job.lanes, 0, stream>>>(job);
    } else {
        job.vectors_w = false;
        rows_backward_wide<T><<<blocks, ROW_THREADS, 0, stream>>>(job);
    }
}

#define WITH_VECTORS(job, launch)                                        \
    WITH_FLOAT((job).type, T, {                                          \
        constexpr int wide = 16 / (int)sizeof(T);                        \
        if (vectors_fit(&(job), wide))                                   \
            launch<T, wide>(call, job);                                  \
        else if (vectors_fit(&(job), 4))                                 \
            launch<T, 4>(call, job);                                     \
        else if (vectors_fit(&(job), 1))                                 \
            launch<T, 1>(call, job);                                     \
    })

static Err rows_run_forward(const Call *call, RowsCuda job)
{
    job.x = call->in[0];
    job.y = call->out[0];
    WITH_VECTORS(job, launch_forward);
    CUDA_LAUNCHED();
    return OK;
}

static Err rows_run_backward(const Call *call, RowsCuda job, int dy, bool sums)
{
    if (in_type(call->node, dy) != job.type)
        return fail(E_DEVICE, "%s: x and dy differ in type, which has no CUDA kernel",
                    call->node->op->name);
    job.x = call->in[0];
    job.dy = call->in[dy];
    job.y = call->out[0];
    job.partial = sums ? (float *)call->workspace : NULL;
    WITH_VECTORS(job, launch_backward);
    CUDA_LAUNCHED();
    return OK;
}

static Err rows_run_totals(const Call *call, const RowsCuda *job, Totals to)
{
    to.partial = (const float *)call->workspace;
    to.pieces = job->pieces;
    to.width = job->scalar ? 1 : job->width;
    dim3 blocks((unsigned)ceil_div(to.columns, 32), (unsigned)(job->rows / job->per));
    rows_totals<<<blocks, dim3(32, 32), 0, cuda_stream(call)>>>(to);
    CUDA_LAUNCHED();
    return OK;
}

static int sms_of(const Device *device) { return ((const CudaHandle *)device->handle)->sms; }

/* ---- layernorm ---- */

static RowsCuda layernorm_rows(const Call *call)
{
    RowsCuda job = rows_of(call->node, 1, cuda_handle(call)->sms);
    if (in_given(call->node, 1))
        job.type_w = in_type(call->node, 1);
    job.weight = call->in[1];
    return job;
}

extern "C" Err layernorm_cuda(const Call *call)
{
    RowsCuda job = layernorm_rows(call);
    job.bias = call->in[2];
    return rows_run_forward(call, job);
}

static bool layernorm_sums(const Node *n)
{
    return ATTR(n, LayernormAttr)->wants[1] || ATTR(n, LayernormAttr)->wants[2];
}

extern "C" Err layernorm_grad_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    RowsCuda job = rows_of(n, 1, sms_of(device));
    choice->workspace_bytes = layernorm_sums(n) ? rows_bytes(&job) : 0;
    choice->name = "own";
    return OK;
}

extern "C" Err layernorm_grad_cuda(const Call *call)
{
    RowsCuda job = layernorm_rows(call);
    bool     sums = layernorm_sums(call->node);
    TRY(rows_run_backward(call, job, 2, sums));
    if (!sums)
        return OK;
    Totals to = {};
    to.columns = 2 * job.width;
    to.at[1] = job.width;
    to.type = F32;
    to.out[0] = call->out[1];
    to.out[1] = call->out[2];
    return rows_run_totals(call, &job, to);
}

/* ---- layernorm_modulate ---- */

static RowsCuda modulate_rows(const Node *n, const void *packed, int sms)
{
    const LayernormAttr *attr = ATTR(n, LayernormAttr);
    Shape                shape = in_shape(n, 1);
    RowsCuda             job = rows_of(n, shape.dim[0], sms);
    size_t               bytes = in_type(n, 1) == F32 ? 4 : 2;
    job.type_w = in_type(n, 1);
    job.pitch = shape.dim[1];
    job.plus = 1;
    job.weight = (const char *)packed + (size_t)attr->scale_at * bytes;
    job.bias = (const char *)packed + (size_t)attr->shift_at * bytes;
    return job;
}

extern "C" Err layernorm_modulate_cuda(const Call *call)
{
    return rows_run_forward(call, modulate_rows(call->node, call->in[1], cuda_handle(call)->sms));
}

extern "C" Err layernorm_modulate_grad_choose_cuda(const Node *n, const Device *device,
                                                   Choice *choice)
{
    RowsCuda job = rows_of(n, in_shape(n, 1).dim[0], sms_of(device));
    choice->workspace_bytes = ATTR(n, LayernormAttr)->wants[1] ? rows_bytes(&job) : 0;
    choice->name = "own";
    return OK;
}

extern "C" Err layernorm_modulate_grad_cuda(const Call *call)
{
    const LayernormAttr *attr = ATTR(call->node, LayernormAttr);
    RowsCuda             job = modulate_rows(call->node, call->in[1], cuda_handle(call)->sms);
    TRY(rows_run_backward(call, job, 2, attr->wants[1]));
    if (!attr->wants[1])
        return OK;
    Totals to = {};
    to.columns = job.pitch;
    to.at[0] = attr->scale_at;
    to.at[1] = attr->shift_at;
    to.type = out_type(call->node, 1);
    to.out[0] = to.out[1] = call->out[1];
    to.packed = true;
    return rows_run_totals(call, &job, to);
}

/* ---- scalar_norm ---- */

static RowsCuda scalar_rows(const Node *n, int sms)
{
    RowsCuda job = rows_of(n, 1, sms);
    job.eps = 0;
    job.scalar = true;
    return job;
}

/* m and s of one type: the common case; else each would need its own. */
static Err scalar_numbers(const Call *call, RowsCuda *job)
{
    if (in_type(call->node, 1) != in_type(call->node, 2))
        return fail(E_DEVICE, "%s: m and s differ in type, which has no CUDA kernel",
                    call->node->op->name);
    job->type_w = in_type(call->node, 1);
    job->bias = call->in[1];
    job->weight = call->in[2];
    return OK;
}

extern "C" Err scalar_norm_cuda(const Call *call)
{
    RowsCuda job = scalar_rows(call->node, cuda_handle(call)->sms);
    TRY(scalar_numbers(call, &job));
    return rows_run_forward(call, job);
}

static bool scalar_sums(const Node *n)
{
    return ATTR(n, LayernormAttr)->wants[1] || ATTR(n, LayernormAttr)->wants[2];
}

extern "C" Err scalar_norm_grad_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    RowsCuda job = scalar_rows(n, sms_of(device));
    choice->workspace_bytes = scalar_sums(n) ? rows_bytes(&job) : 0;
    choice->name = "own";
    return OK;
}

extern "C" Err scalar_norm_grad_cuda(const Call *call)
{
    RowsCuda job = scalar_rows(call->node, cuda_handle(call)->sms);
    TRY(scalar_numbers(call, &job));
    TRY(rows_run_backward(call, job, 3, scalar_sums(call->node)));
    if (!scalar_sums(call->node))
        return OK;
    Totals to = {};
    to.columns = 2;
    to.at[1] = 1;
    to.type = F32;
    to.out[0] = call->out[2];                /* s stands where the weight does */
    to.out[1] = call->out[1];
    return rows_run_totals(call, &job, to);
}
