/* attention_stored_grad_cuda.cu -- gradients of attention from its stored probabilities, on
 * CUDA. */
#include "ops/attention/attention_grad_tiles.h"

/* delta = rowsum(p * dp). */
template <class T>
__global__ void __launch_bounds__(TILE_THREADS) delta_tiles(AttentionCuda a, int64_t blocks)
{
    extern __shared__ __align__(16) char memory[];
    Tiles<64>                           &s = *(Tiles<64> *)memory;
    int64_t  head = blockIdx.x / blocks, query = blockIdx.x % blocks * TILE;
    int      tx = (int)threadIdx.x % 16, ty = (int)threadIdx.x / 16;
    const T *dy = head_rows<T>(a, a.dy, head) + query * a.dy.ld, *v = head_rows<T>(a, a.v, head);
    FormHead form = form_head(a, head);
    float    delta[8] = { 0, 0, 0, 0, 0, 0, 0, 0 };
    for (int64_t key = 0; key < a.lk; key += TILE) {
        float dp[8][4];
        tile_dot(s, dp, dy, a.dy.ld, a.lq - query, v + key * a.v.ld, a.v.ld, a.lk - key, a.v_width);
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                delta[i] += dp[i][j] * form_keep(a, form, query + ty * 8 + i, key + tx + 16 * j) *
                            probability<T, true, false>(a, form, head, query + ty * 8 + i,
                                                        key + tx + 16 * j, 0, 0);
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float sum = warp_sum<16>(delta[i]);
        if (tx == 0 && query + ty * 8 + i < a.lq)
            a.delta[head * a.lq + query + ty * 8 + i] = sum;
    }
}

/* ---- host ---- */

extern "C" Err attention_stored_grad_choose_cuda(const Node *n, const Device *device,
                                                 Choice *choice)
{
    (void)device;
    choice->workspace_bytes = attention_cuda_backward_bytes(n);
    choice->name = "tiles";
    return OK;
}

extern "C" Err attention_stored_grad_cuda(const Call *call)
{
    const Node   *n = call->node;
    AttentionCuda a = attention_cuda_backward(call);
    if (in_type(n, attention_kept(n) + 1) != a.type)
        return fail(E_DEVICE,
                    "attention_stored_grad: q and dy differ in type, which has no CUDA kernel");
    a.p = call->in[attention_kept(n)];
    a.dy = attention_cuda_side_y(n, call->in[attention_kept(n) + 1]);
    attention_cuda_set(&a);
    int64_t blocks = ceil_div(a.lq, TILE);
    size_t  bytes = sizeof(Tiles<64>);
    WITH_FLOAT(a.type, T, {
        CUDA_TRY(cudaFuncSetAttribute(delta_tiles<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      (int)bytes));
        delta_tiles<T>
            <<<(unsigned)(a.n_heads * blocks), TILE_THREADS, bytes, cuda_stream(call)>>>(a, blocks);
        CUDA_LAUNCHED();
    });
    TRY(tiles_backward<true>(call, a));
    if (!a.temperature_sums)
        return OK;
    return attention_cuda_temperature_reduce(call, &a,
                                             a.n_heads / a.share * ceil_div(a.lk, TILE) * a.chunks);
}

CUDA_KERNEL(attention_stored_grad, .choose = attention_stored_grad_choose_cuda,
            .run = attention_stored_grad_cuda)
