/* attention_grad_cuda.cu -- gradients of attention on CUDA: the choice of kernels, and delta.
 *
 * With p = exp(score - lse) and delta = rowsum(dy * y):
 *
 *      dv = p^T dy        ds = p * (dy v^T - delta)        dq = scale ds k        dk = scale ds^T q
 *
 * One kernel has a block of keys in each thread block, iterates over the queries and computes dk
 * and dv; another has a block of queries and computes dq. So every result has one owner and one
 * order of summation, at the price of computing the scores twice. Only the heads family has one
 * kernel for all.
 */
#include "ops/attention/attention_cuda.h"

/* delta = rowsum(dy * y), or the lse and delta of a.stats: eight threads per row of a head. */
template <class T, int N> __global__ void __launch_bounds__(256) delta_rows(AttentionCuda a)
{
    int64_t i = (int64_t)blockIdx.x * 32 + threadIdx.x / 8;
    int     lane = (int)threadIdx.x % 8;
    bool    there = i < a.n_heads * a.lq;
    i = there ? i : 0;
    int64_t  row = i / a.heads % a.lq, head = i / (a.heads * a.lq) * a.heads + i % a.heads;
    const T *y = head_rows<T>(a, a.y, head) + row * a.y.ld,
            *dy = head_rows<T>(a, a.dy, head) + row * a.dy.ld;
    float sum = 0;
    for (int c = lane * N; c < a.v_width; c += 8 * N) {
        float u[N], v[N];
        get_pack<N>(y, c, u);
        get_pack<N>(dy, c, v);
#pragma unroll
        for (int j = 0; j < N; j++)
            sum += u[j] * v[j];
    }
#pragma unroll
    for (int d = 4; d; d >>= 1)
        sum += __shfl_xor_sync(0xffffffffu, sum, d);
    if (!there || (lane && !a.stats))
        return;
    if (!a.stats) {
        a.delta[head * a.lq + row] = sum;
        return;
    }
    float *stats = stats_of(a, head, row / a.tile);
    int    at = (int)(row % a.tile);
    if (lane == 0) {
        stats[at] = a.lse[head * a.lq + row] * LOG2_E;
        stats[a.tile + at] = sum;
    }
    if (row == a.lq - 1)
        for (int rest = at + 1 + lane; rest < a.tile; rest += 8)
            stats[rest] = stats[a.tile + rest] = 0;
}

/* ---- host ---- */

/* Workspace: temperature_sums, then stats or delta. */
static size_t temperature_bytes(const Node *n)
{
    return ATTR(n, AttentionAttr)->wants[ATTENTION_TEMPERATURE]
               ? (size_t)attention_cuda_temperature_count(n) * sizeof(double)
               : 0;
}

/* Aligned, since the TMA fetches stats. */
static size_t stats_offset(const Node *n) { return align_bytes(temperature_bytes(n), 16); }

static size_t stats_bytes(const Node *n)
{
    const AttentionAttr *attr = ATTR(n, AttentionAttr);
    Shape                q = in_shape(n, attr->q.source);
    int64_t              tile = attention_wgmma_tile(attention_cuda_width(n)),
            tiles = ceil_div(attention_length(q), tile);
    return (size_t)(dim(q, 0) * attr->heads * tiles * 2 * tile) * sizeof(float);
}

size_t attention_cuda_backward_bytes(const Node *n)
{
    const AttentionAttr *attr = ATTR(n, AttentionAttr);
    Shape                q = in_shape(n, attr->q.source);
    return temperature_bytes(n) +
           (size_t)(dim(q, 0) * attr->heads * attention_length(q)) * sizeof(float);
}

AttentionCuda attention_cuda_backward(const Call *call)
{
    const Node   *n = call->node;
    AttentionCuda a = attention_cuda_of(call, n);
    attention_cuda_gradients(call, &a);
    a.temperature_sums = temperature_bytes(n) ? (double *)call->workspace : NULL;
    a.delta = (float *)((char *)call->workspace + temperature_bytes(n));
    return a;
}

extern "C" Err attention_grad_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    /* the heads family needs no delta */
    choice->workspace_bytes = attention_cuda_head(n, device)    ? temperature_bytes(n)
                              : attention_cuda_wgmma(n, device) ? stats_offset(n) + stats_bytes(n)
                                                                : attention_cuda_backward_bytes(n);
    choice->name = attention_cuda_name(n, device);
    return attention_cuda_wide(n) ? attention_wide_choose(n, device, true, choice) : OK;
}

extern "C" Err attention_grad_prepare_cuda(Pool *pool, Call *call)
{
    return attention_cuda_wide(call->node) ? attention_wide_prepare(pool, call, true) : OK;
}

Err attention_cuda_delta(const Call *call, const AttentionCuda &a)
{
    unsigned blocks = (unsigned)ceil_div(a.n_heads * a.lq, 32);
    WITH_FLOAT(a.type, T, {
        if (a.copy == 16 && sizeof(T) == 2)
            delta_rows<T, (sizeof(T) == 2 ? 8 : 1)><<<blocks, 256, 0, cuda_stream(call)>>>(a);
        else if (a.copy == 8 && sizeof(T) == 2)
            delta_rows<T, (sizeof(T) == 2 ? 4 : 1)><<<blocks, 256, 0, cuda_stream(call)>>>(a);
        else
            delta_rows<T, 1><<<blocks, 256, 0, cuda_stream(call)>>>(a);
    });
    CUDA_LAUNCHED();
    return OK;
}

extern "C" Err attention_grad_cuda(const Call *call)
{
    const Node   *n = call->node;
    AttentionCuda a = attention_cuda_backward(call);
    if (in_type(n, attention_kept(n) + 2) != a.type)
        return fail(E_DEVICE, "attention_grad: q and dy differ in type, which has no CUDA kernel");
    if (attention_cuda_wide(n))
        return attention_wide_backward(call);
    a.y = attention_cuda_side_y(n, call->in[attention_kept(n)]);
    a.lse = (float *)call->in[attention_kept(n) + 1];
    a.dy = attention_cuda_side_y(n, call->in[attention_kept(n) + 2]);
    attention_cuda_set(&a);
    if (attention_cuda_head(n, call->device)) {
        TRY(attention_head_backward(call, a));
        return a.temperature_sums ? attention_cuda_temperature_reduce(call, &a, a.n_heads) : OK;
    }
    bool wgmma = attention_cuda_wgmma(n, call->device), mma = attention_cuda_mma(n, call->device);
    if (wgmma) {
        a.stats = (float *)((char *)call->workspace + stats_offset(n));
        a.tile = attention_wgmma_tile(attention_cuda_width(n));
        a.tiles = (int)ceil_div(a.lq, a.tile);
    }
    TRY(attention_cuda_delta(call, a));
    if (wgmma) {
        if (a.dk.data || a.dv.data || a.temperature_sums)
            TRY(attention_wgmma_keys(call, a));
        if (a.dq.data)
            TRY(attention_wgmma_queries(call, a));
    } else if (mma) {
        if (a.dk.data || a.dv.data || a.temperature_sums)
            TRY(attention_mma_keys(call, a));
        if (a.dq.data)
            TRY(attention_mma_queries(call, a));
    } else {
        TRY(attention_tiles_backward(call, a));
    }
    if (!a.temperature_sums)
        return OK;
    int64_t sums = a.n_heads / a.share * ceil_div(a.lk, TILE) * (mma ? 1 : a.chunks);
    return attention_cuda_temperature_reduce(call, &a, sums);
}

CUDA_KERNEL(attention_grad, .choose = attention_grad_choose_cuda,
            .prepare = attention_grad_prepare_cuda, .run = attention_grad_cuda)
