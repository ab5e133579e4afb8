/* attention_grad_tiles_cuda.cu -- gradients of attention on CUDA by fp32 tiles. */
#include "ops/attention/attention_grad_tiles.h"

Err attention_tiles_backward(const Call *call, const AttentionCuda &a)
{
    return tiles_backward<false>(call, a);
}
