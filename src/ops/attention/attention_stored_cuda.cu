/* attention_stored_cuda.cu -- attention that stores its probabilities, on CUDA, forward: attention,
 * then p = exp(score - lse) for every score, tile by tile. */
#include "ops/attention/attention_cuda.h"

template <class T>
__global__ void __launch_bounds__(TILE_THREADS) probabilities(AttentionCuda a, int64_t blocks)
{
    extern __shared__ __align__(16) char memory[];
    Tiles<64>                           &s = *(Tiles<64> *)memory;
    int64_t  head = blockIdx.x / blocks, query = blockIdx.x % blocks * TILE;
    int      tx = (int)threadIdx.x % 16, ty = (int)threadIdx.x / 16;
    const T *q = head_rows<T>(a, a.q, head) + query * a.q.ld, *k = head_rows<T>(a, a.k, head);
    FormHead form = form_head(a, head);
    float    scale = attention_scale_of(a) * LOG2_E;
    for (int64_t key = 0; key < a.lk; key += TILE) {
        float p[8][4];
        tile_dot(s, p, q, a.q.ld, a.lq - query, k + key * a.k.ld, a.k.ld, a.lk - key, a.width);
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                int64_t row = query + ty * 8 + i, at = key + tx + 16 * j;
                if (row >= a.lq || at >= a.lk)
                    continue;
                float logit = form_logit(a, form, row, at, __fmul_rn(p[i][j], scale));
                put((T *)a.p, (head * a.lq + row) * a.lk + at,
                    exp2f(logit - a.lse[head * a.lq + row]) * a.part[head * a.lq + row]);
            }
    }
}

extern "C" Err attention_stored_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    const AttentionAttr *attr = ATTR(n, AttentionAttr);
    Shape                q = in_shape(n, attr->q.source);
    (void)device;
    choice->workspace_bytes = (size_t)(dim(q, 0) * attr->heads * attention_length(q)) * 2 *
                              sizeof(float);
    choice->name = "tiles";
    return OK;
}

extern "C" Err attention_stored_cuda(const Call *call)
{
    AttentionCuda a = attention_cuda_of(call, call->node);
    a.y = attention_cuda_side_y(call->node, call->out[0]);
    a.lse = (float *)call->workspace;
    a.part = a.lse + a.n_heads * a.lq;
    a.p = call->out[1];
    TRY(attention_cuda_forward(call, a));
    int64_t blocks = ceil_div(a.lq, TILE);
    size_t  bytes = sizeof(Tiles<64>);
    WITH_FLOAT(a.type, T, {
        CUDA_TRY(cudaFuncSetAttribute(probabilities<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      (int)bytes));
        probabilities<T>
            <<<(unsigned)(a.n_heads * blocks), TILE_THREADS, bytes, cuda_stream(call)>>>(a, blocks);
    });
    CUDA_LAUNCHED();
    return OK;
}

CUDA_KERNEL(attention_stored, .choose = attention_stored_choose_cuda, .run = attention_stored_cuda)
