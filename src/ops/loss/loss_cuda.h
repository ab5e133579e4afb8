/* loss_cuda.h -- how losses on CUDA end: blocks sum in double, and one block adds their sums in
 * order. */
#ifndef OPS_LOSS_LOSS_CUDA_H
#define OPS_LOSS_LOSS_CUDA_H

#include "ops/reduce/reduce_cuda.h"

extern "C" {
#include "ops/loss/loss.h"
}

enum { LOSS_THREADS = 256 };

typedef struct LossSum {
    double sum, counted;
} LossSum;

typedef struct LossEnd {
    LossSum     *partial;            /* one per block */
    const float *given;              /* the denominator, or NULL */
    float       *loss, *denominator; /* denominator NULL: not asked for */
    double       scale, fixed;       /* fixed: the denominator where it is a constant; else 0 */
} LossEnd;

/* Blocks of a loss over so many items; the workspace holds one LossSum for each. */
static inline int64_t loss_blocks(int64_t items, int64_t each, int sms)
{
    int64_t max_blocks = (int64_t)sms * 8, need = ceil_div(items, each);
    return need < 1 ? 1 : need < max_blocks ? need : max_blocks;
}

static __device__ __forceinline__ void loss_write(LossSum total, const LossEnd &end)
{
    double counted = total.counted > 1 ? total.counted : 1;
    if (!end.given && end.denominator)
        *end.denominator = (float)counted;
    *end.loss = (float)(end.scale * total.sum /
                        (end.fixed   ? end.fixed
                         : end.given ? (double)*end.given
                                     : counted));
}

/* Every thread gives its sum; a single block also ends the loss. */
static __device__ __forceinline__ void loss_give(LossSum mine, const LossEnd &end)
{
    __shared__ double sums[32];
    LossSum           total;
    total.sum = block_sum_double(mine.sum, sums);
    total.counted = block_sum_double(mine.counted, sums);
    if (threadIdx.x == 0) {
        if (gridDim.x == 1)
            loss_write(total, end);
        else
            end.partial[blockIdx.x] = total;
    }
}

static __global__ void __launch_bounds__(LOSS_THREADS) loss_finish(LossEnd end, int blocks)
{
    cuda_begin();
    LossSum mine = { 0, 0 };
    for (int i = threadIdx.x; i < blocks; i += LOSS_THREADS) {
        mine.sum += end.partial[i].sum;
        mine.counted += end.partial[i].counted;
    }
    loss_give(mine, end);
}

static inline Err loss_end(const Call *call, LossEnd end, int64_t blocks)
{
    if (blocks > 1) {
        cuda_launch(cuda_stream(call), loss_finish, 1, LOSS_THREADS, 0, end, (int)blocks);
        CUDA_LAUNCHED();
    }
    return OK;
}

#endif
