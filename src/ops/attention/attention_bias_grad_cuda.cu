/* attention_bias_grad_cuda.cu -- gradient of attention's bias on CUDA.
 *
 *      ds = p * (dy v^T - delta)        delta = rowsum(dy * y)
 *
 * summed over the samples, heads and queries that share an entry. A block of threads has 64 x 64
 * entries (64 keys, where one row serves all queries) and adds up the scores that share them, in
 * order. Where there are fewer blocks than the GPU can run, the scores of a block are divided into
 * parts, whose sums another kernel adds in order.
 */
#include "ops/attention/attention_mma.h"

enum { BIAS_BLOCKS_PER_SM = 4 };

typedef struct BiasCuda {
    AttentionCuda a;
    int64_t       samples, heads, rows;     /* of the bias: 1 where it is repeated */
    int64_t       query_blocks, key_blocks; /* of the bias */
    int64_t       per_head;                 /* tiles of queries in a head that share a block */
    int64_t       shared, parts;            /* tiles that share a block; in so many parts */
    int64_t       count;                    /* entries */
    float        *sums;                     /* [parts][count], if there are several parts */
    void         *out;
    Type          type;
} BiasCuda;

struct BiasPlace { /* what a block of threads does */
    int64_t of_bias, first, key, part, from, to;
};

__device__ __forceinline__ BiasPlace bias_place(const BiasCuda &b)
{
    BiasPlace p;
    int64_t   index = blockIdx.x;
    p.part = index % b.parts, index /= b.parts;
    p.key = index % b.key_blocks * TILE, index /= b.key_blocks;
    p.first = index % b.query_blocks * TILE;
    p.of_bias = index / b.query_blocks;
    p.from = b.shared * p.part / b.parts;
    p.to = b.shared * (p.part + 1) / b.parts;
    return p;
}

/* The head and first query of a tile that shares the block. */
__device__ __forceinline__ void bias_tile(const BiasCuda &b, const BiasPlace &p, int64_t tile,
                                          int64_t *head, int64_t *query)
{
    int64_t other = tile / b.per_head, heads = b.a.heads / b.heads;
    int64_t sample = b.samples > 1 ? p.of_bias / b.heads : other / heads;
    int64_t inner = b.heads > 1 ? p.of_bias % b.heads : other % heads;
    *head = sample * b.a.heads + inner;
    *query = b.rows > 1 ? p.first : tile % b.per_head * TILE;
}

__device__ __forceinline__ void bias_put(const BiasCuda &b, const BiasPlace &p, int64_t row, int c,
                                         float x)
{
    if (p.key + c >= b.a.lk || row >= b.rows)
        return;
    int64_t at = (p.of_bias * b.rows + row) * b.a.lk + p.key + c;
    if (b.parts > 1)
        b.sums[p.part * b.count + at] = x;
    else if (b.type == F32)
        ((float *)b.out)[at] = x;
    else if (b.type == BF16)
        put((bf16 *)b.out, at, x);
    else
        put((f16 *)b.out, at, x);
}

/* ds of a query and a key; score is their product, dp that of dy and v. */
template <class T>
__device__ __forceinline__ float bias_slope(const AttentionCuda &a, const FormHead &f, int64_t head,
                                            int64_t query, int64_t key, float score, float dp,
                                            float scale_log2)
{
    if (!form_sees(a, query, key))
        return 0;
    int64_t row = head * a.lq + query;
    float   p = a.p ? get((const T *)a.p, row * a.lk + key)
                    : exp2f(form_logit(a, f, query, key, score * scale_log2) - a.lse[row] * LOG2_E);
    return p * (dp * form_keep(a, f, query, key) - a.delta[row]);
}

template <class T> __global__ void __launch_bounds__(TILE_THREADS) bias_tiles(BiasCuda b)
{
    extern __shared__ __align__(16) char memory[];
    Tiles<64>                           &s = *(Tiles<64> *)memory;
    const AttentionCuda                 &a = b.a;
    BiasPlace                            place = bias_place(b);
    int                                  tx = (int)threadIdx.x % 16, ty = (int)threadIdx.x / 16;
    float scale_log2 = attention_scale_of(a) * LOG2_E, sum[8][4] = {};
    for (int64_t tile = place.from; tile < place.to; tile++) {
        int64_t head, query, key = place.key;
        bias_tile(b, place, tile, &head, &query);
        if (a.causal && key >= query + TILE)
            continue;
        FormHead form = form_head(a, head);
        float    score[8][4] = {}, dp[8][4];
        if (!a.p)
            tile_dot(s, score, head_rows<T>(a, a.q, head) + query * a.q.ld, a.q.ld, a.lq - query,
                     head_rows<T>(a, a.k, head) + key * a.k.ld, a.k.ld, a.lk - key, a.width);
        tile_dot(s, dp, head_rows<T>(a, a.dy, head) + query * a.dy.ld, a.dy.ld, a.lq - query,
                 head_rows<T>(a, a.v, head) + key * a.v.ld, a.v.ld, a.lk - key, a.v_width);
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                sum[i][j] += bias_slope<T>(a, form, head, query + ty * 8 + i, key + tx + 16 * j,
                                           score[i][j], dp[i][j], scale_log2);
    }
    if (b.rows > 1) {
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                bias_put(b, place, place.first + ty * 8 + i, tx + 16 * j, sum[i][j]);
        return;
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < 4; j++) {
        float column = 0;
#pragma unroll
        for (int i = 0; i < 8; i++)
            column += sum[i][j];
        s.p[ty][tx + 16 * j] = column;
    }
    __syncthreads();
    if (threadIdx.x < TILE) {
        float column = 0;
        for (int i = 0; i < 8; i++)
            column += s.p[i][threadIdx.x];
        bias_put(b, place, 0, (int)threadIdx.x, column);
    }
}

template <class T, int D> struct MmaBiasShared {
    T     q[64][ROW<T, D>], k[64][ROW<T, D>], dy[64][ROW<T, D>], v[64][ROW<T, D>];
    float columns[4][64];
};

/* The same by tensor cores; a warp has 16 queries. */
template <class T, int D> __global__ void __launch_bounds__(MMA_THREADS) bias_mma(BiasCuda b)
{
    extern __shared__ __align__(16) char memory[];
    MmaBiasShared<T, D>                 &s = *(MmaBiasShared<T, D> *)memory;
    const AttentionCuda                 &a = b.a;
    BiasPlace                            place = bias_place(b);
    int   warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    float scale_log2 = attention_scale_of(a) * LOG2_E, sum[8][4] = {};
    shared_clear(memory, (int)(sizeof s / 16 * 16));
    for (int64_t tile = place.from; tile < place.to; tile++) {
        int64_t head, query, key = place.key;
        bias_tile(b, place, tile, &head, &query);
        if (a.causal && key >= query + TILE)
            continue;
        FormHead form = form_head(a, head);
        float    score[8][4] = {}, dp[8][4];
        __syncthreads(); /* the previous tile has been read */
        if (!a.p) {
            rows_load<T, D, 64>(s.q, head_rows<T>(a, a.q, head) + query * a.q.ld, a.q.ld,
                                a.lq - query, a.width, a.copy);
            rows_load<T, D, 64>(s.k, head_rows<T>(a, a.k, head) + key * a.k.ld, a.k.ld, a.lk - key,
                                a.width, a.copy);
        }
        rows_load<T, D, 64>(s.dy, head_rows<T>(a, a.dy, head) + query * a.dy.ld, a.dy.ld,
                            a.lq - query, a.v_width, a.copy);
        rows_load<T, D, 64>(s.v, head_rows<T>(a, a.v, head) + key * a.v.ld, a.v.ld, a.lk - key,
                            a.v_width, a.copy);
        copy_commit();
        copy_wait<0>();
        __syncthreads();
        if (!a.p)
            product_rows<T, D, 64>(score, s.q, warp * 16, s.k);
        product_rows<T, D, 64>(dp, s.dy, warp * 16, s.v);
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                sum[n][e] += bias_slope<T>(a, form, head, query + warp * 16 + g + e / 2 * 8,
                                           key + n * 8 + 2 * t + (e & 1), score[n][e], dp[n][e],
                                           scale_log2);
    }
    if (b.rows > 1) {
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                bias_put(b, place, place.first + warp * 16 + g + e / 2 * 8, n * 8 + 2 * t + (e & 1),
                         sum[n][e]);
        return;
    }
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            float column = sum[n][e] + sum[n][e + 2];
#pragma unroll
            for (int d = 4; d < 32; d <<= 1) /* over the eight g */
                column += __shfl_xor_sync(0xffffffffu, column, d);
            if (g == 0)
                s.columns[warp][n * 8 + 2 * t + e] = column;
        }
    __syncthreads();
    if (threadIdx.x < 64)
        bias_put(b, place, 0, (int)threadIdx.x,
                 s.columns[0][threadIdx.x] + s.columns[1][threadIdx.x] + s.columns[2][threadIdx.x] +
                     s.columns[3][threadIdx.x]);
}

template <class T>
__global__ void bias_join(const float *sums, T *out, int64_t count, int64_t parts)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * blockDim.x) {
        float sum = sums[i];
        for (int64_t part = 1; part < parts; part++)
            sum += sums[part * count + i];
        put(out, i, sum);
    }
}

/* ---- host ---- */

static BiasCuda bias_plan(const Node *n, const Device *device)
{
    const AttentionAttr *attr = ATTR(n, AttentionAttr);
    Shape                s = in_shape(n, ATTENTION_BIAS), q = in_shape(n, attr->q.source);
    int64_t              lq = attention_length(q), lk = s.dim[3];
    int64_t  max_blocks = (int64_t)((const CudaHandle *)device->handle)->sms * BIAS_BLOCKS_PER_SM;
    BiasCuda b = {};
    b.samples = s.dim[0], b.heads = s.dim[1], b.rows = s.dim[2];
    b.query_blocks = b.rows > 1 ? ceil_div(lq, TILE) : 1;
    b.key_blocks = ceil_div(lk, TILE);
    b.per_head = b.rows > 1 ? 1 : ceil_div(lq, TILE);
    b.shared = dim(q, 0) * attr->heads / (b.samples * b.heads) * b.per_head;
    b.count = shape_count(s);
    int64_t blocks = b.samples * b.heads * b.query_blocks * b.key_blocks;
    b.parts = ceil_div(max_blocks, blocks);
    b.parts = b.parts < b.shared ? b.parts : b.shared;
    b.type = out_type(n, 0);
    return b;
}

static size_t delta_bytes(const Node *n)
{
    const AttentionAttr *attr = ATTR(n, AttentionAttr);
    Shape                q = in_shape(n, attr->q.source);
    return (size_t)(dim(q, 0) * attr->heads * attention_length(q) + 63) / 64 * 64 * sizeof(float);
}

extern "C" Err attention_bias_grad_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    BiasCuda b = bias_plan(n, device);
    choice->workspace_bytes = delta_bytes(n) +
                              (b.parts > 1 ? (size_t)(b.parts * b.count) * sizeof(float) : 0);
    choice->name = attention_cuda_mma(n, device) ? "mma" : "tiles";
    return OK;
}

template <class T, int D>
static Err launch_mma(const Call *call, const BiasCuda &b, unsigned blocks)
{
    size_t bytes = sizeof(MmaBiasShared<T, D>);
    CUDA_TRY(cudaFuncSetAttribute(bias_mma<T, D>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  (int)bytes));
    bias_mma<T, D><<<blocks, MMA_THREADS, bytes, cuda_stream(call)>>>(b);
    CUDA_LAUNCHED();
    return OK;
}

template <class T> static Err launch_tiles(const Call *call, const BiasCuda &b, unsigned blocks)
{
    size_t bytes = sizeof(Tiles<64>);
    CUDA_TRY(cudaFuncSetAttribute(bias_tiles<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  (int)bytes));
    bias_tiles<T><<<blocks, TILE_THREADS, bytes, cuda_stream(call)>>>(b);
    CUDA_LAUNCHED();
    return OK;
}

template <class T> static Err bias_with(const Call *call, const BiasCuda &b, unsigned blocks)
{
    int wider = b.a.width > b.a.v_width ? b.a.width : b.a.v_width;
    if (!attention_cuda_mma(call->node, call->device))
        return launch_tiles<T>(call, b, blocks);
    WITH_WIDTH(wider, D, { return launch_mma<T, D>(call, b, blocks); });
}

extern "C" Err attention_bias_grad_cuda(const Call *call)
{
    const Node *n = call->node;
    int         kept = attention_kept(n);
    BiasCuda    b = bias_plan(n, call->device);
    b.a = attention_cuda_of(call, n);
    if (in_type(n, kept + 2) != b.a.type)
        return fail(E_DEVICE,
                    "attention_bias_grad: q and dy differ in type, which has no CUDA kernel");
    b.a.y = attention_cuda_side_y(n, call->in[kept]);
    b.a.dy = attention_cuda_side_y(n, call->in[kept + 2]);
    if (in_shape(n, kept + 1).rank == 4)
        b.a.p = call->in[kept + 1];
    else
        b.a.lse = (float *)call->in[kept + 1];
    b.a.delta = (float *)call->workspace;
    b.sums = (float *)((char *)call->workspace + delta_bytes(n));
    b.out = call->out[0];
    attention_cuda_set(&b.a);
    TRY(attention_cuda_delta(call, b.a));
    unsigned blocks = (unsigned)(b.samples * b.heads * b.query_blocks * b.key_blocks * b.parts);
    WITH_FLOAT(b.a.type, T, { TRY(bias_with<T>(call, b, blocks)); });
    if (b.parts == 1)
        return OK;
    WITH_FLOAT(b.type, T, {
        bias_join<T><<<cuda_blocks(call, b.count, 256), 256, 0, cuda_stream(call)>>>(
            b.sums, (T *)b.out, b.count, b.parts);
    });
    CUDA_LAUNCHED();
    return OK;
}

CUDA_KERNEL(attention_bias_grad, .choose = attention_bias_grad_choose_cuda,
            .run = attention_bias_grad_cuda)
