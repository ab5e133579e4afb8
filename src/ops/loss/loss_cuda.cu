/* loss_cuda.cu -- losses on CUDA. A target outside its range makes the loss NaN, since the host
 * does not see targets here. */
#include "ops/loss/loss_cuda.h"
#include "ops/reduce/softmax_cuda.h"

enum { LOSS_EACH = LOSS_THREADS * 8 }; /* smallest number of elements per block */

typedef enum LossKind { LOSS_SQUARE, LOSS_ABSOLUTE, LOSS_MASKED } LossKind;

static int sms_of(const Device *device) { return ((const CudaHandle *)device->handle)->sms; }

extern "C" Err loss_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    choice->workspace_bytes = (size_t)loss_blocks(shape_count(in_shape(n, 0)), LOSS_EACH,
                                                  sms_of(device)) *
                              sizeof(LossSum);
    return OK;
}

typedef struct Differences {
    AnyIn          x, target;
    const uint8_t *mask; /* one per row of `channels` elements */
    int64_t        count, channels;
} Differences;

template <int N, LossKind KIND>
__device__ __forceinline__ void differ(const Differences &job, int64_t i, double *sum)
{
    Raw<N>  raw_x = raw_load<N>(job.x, i), raw_t = raw_load<N>(job.target, i);
    float   x[N], t[N];
    int64_t at = 0, row = KIND == LOSS_MASKED ? divided(i, job.channels, &at) : 0;
    raw_get<N>(job.x.type, raw_x, x);
    raw_get<N>(job.target.type, raw_t, t);
#pragma unroll
    for (int j = 0; j < N; j++) {
        double d = (double)x[j] - (double)t[j];
        if (KIND == LOSS_SQUARE)
            *sum += d * d;
        else if (KIND == LOSS_ABSOLUTE || job.mask[row])
            *sum += fabs(d);
        if (KIND == LOSS_MASKED && ++at == job.channels) {
            at = 0;
            row++;
        }
    }
}

template <int N, LossKind KIND>
__global__ void __launch_bounds__(LOSS_THREADS) loss_sum(Differences job, LossEnd end)
{
    cuda_begin();
    int64_t packs = job.count / N, first = (int64_t)blockIdx.x * LOSS_THREADS + threadIdx.x;
    int64_t step = (int64_t)gridDim.x * LOSS_THREADS;
    LossSum mine = { 0, 0 };
    for (int64_t i = first; i < packs; i += step)
        differ<N, KIND>(job, i * N, &mine.sum);
    if (N > 1 && packs * N + first < job.count)
        differ<1, KIND>(job, packs * N + first, &mine.sum);
    if (KIND == LOSS_MASKED && !end.given)
        for (int64_t i = first; i < job.count / job.channels; i += step)
            mine.counted += job.mask[i] != 0;
    loss_give(mine, end);
}

template <LossKind KIND> static Err loss_go(const Call *call)
{
    const Node *n = call->node;
    Differences job = { any_in(call, 0), any_in(call, 1), NULL, shape_count(in_shape(n, 0)), 1 };
    LossEnd end = { (LossSum *)call->workspace,       NULL,          (float *)call->out[0], NULL,
                    (double)ATTR(n, LossAttr)->scale, in_count(n, 0) };
    if (KIND == LOSS_MASKED) {
        job.mask = (const uint8_t *)call->in[2];
        job.channels = dim(in_shape(n, 0), -1);
        end.given = (const float *)call->in[3];
        end.denominator = (float *)call->out[1];
        end.fixed = 0;
    }
    int64_t blocks = loss_blocks(job.count, LOSS_EACH, cuda_handle(call)->sms);
    PackOf  pack = { 8 };
    pack_with(&pack, job.x.p, job.x.type);
    pack_with(&pack, job.target.p, job.target.type);
    WITH_PACK(pack, N,
              cuda_launch(cuda_stream(call), loss_sum<N, KIND>, (unsigned)blocks, LOSS_THREADS, 0,
                          job, end);)
    CUDA_LAUNCHED();
    return loss_end(call, end, blocks);
}

/* clang-format off */
extern "C" Err mse_loss_cuda(const Call *call)       { return loss_go<LOSS_SQUARE>(call); }
extern "C" Err l1_loss_cuda(const Call *call)        { return loss_go<LOSS_ABSOLUTE>(call); }
extern "C" Err masked_l1_loss_cuda(const Call *call) { return loss_go<LOSS_MASKED>(call); }
/* clang-format on */

/* Gradients: every thread computes the factor of the differences or their signs once. */
template <LossKind KIND> struct LossGrad {
    const float   *dy, *denominator;
    const uint8_t *mask;
    int64_t        channels;
    float          factor;

    __device__ void begin()
    {
        if (KIND == LOSS_MASKED)
            factor /= *denominator;
        factor *= *dy;
    }
    template <int N> __device__ void run(int64_t i, const float (&x)[2][N], float (&y)[N]) const
    {
        int64_t at = 0, row = KIND == LOSS_MASKED ? divided(i, channels, &at) : 0;
#pragma unroll
        for (int j = 0; j < N; j++) {
            float d = x[0][j] - x[1][j], sign = d > 0 ? 1.0f : d < 0 ? -1.0f : d;
            y[j] = factor * (KIND == LOSS_SQUARE ? d : sign);
            if (KIND == LOSS_MASKED) {
                y[j] = mask[row] ? y[j] : 0.0f;
                if (++at == channels) {
                    at = 0;
                    row++;
                }
            }
        }
    }
};

extern "C" Err mse_loss_grad_cuda(const Call *call)
{
    const Node *n = call->node;
    float       factor = (float)(2 * (double)ATTR(n, LossAttr)->scale / in_count(n, 0));
    return rows_cuda<2>(call,
                        LossGrad<LOSS_SQUARE>{ (const float *)call->in[2], NULL, NULL, 1, factor });
}

extern "C" Err l1_loss_grad_cuda(const Call *call)
{
    const Node *n = call->node;
    float       factor = (float)((double)ATTR(n, LossAttr)->scale / in_count(n, 0));
    return rows_cuda<2>(
        call, LossGrad<LOSS_ABSOLUTE>{ (const float *)call->in[2], NULL, NULL, 1, factor });
}

extern "C" Err masked_l1_loss_grad_cuda(const Call *call) /* in: x, target, mask, denominator, dy */
{
    const Node *n = call->node;
    return rows_cuda<2>(
        call, LossGrad<LOSS_MASKED>{ (const float *)call->in[4], (const float *)call->in[3],
                                     (const uint8_t *)call->in[2], dim(in_shape(n, 0), -1),
                                     ATTR(n, LossAttr)->scale });
}

extern "C" Err cross_entropy_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    choice->workspace_bytes = (size_t)loss_blocks(shape_rows(in_shape(n, 0)), 1, sms_of(device)) *
                              sizeof(LossSum);
    return OK;
}

template <int N>
__global__ void __launch_bounds__(SOFT_THREADS)
    cross_entropy_rows(AnyIn x, const int32_t *target, float *lse, RowTeam team, LossEnd end)
{
    cuda_begin();
    __shared__ float shared[32];
    LossSum          mine = { 0, 0 };
    team_rows(team, [&](TeamRow at) {
        RowTotal total = row_total<N>(x, at, team.lanes, shared);
        if (at.lane != 0 || at.n == 0)
            return;
        float   log_sum = total.max + logf(total.sum), hit = NAN;
        int32_t answer = target[at.row];
        if (lse)
            lse[at.row] = log_sum;
        if (answer == LOSS_IGNORE)
            return;
        if (answer >= 0 && answer < at.n)
            any_get<1>(x, at.first + answer, &hit);
        mine.sum += (double)log_sum - (double)hit;
        mine.counted += 1;
    });
    loss_give(mine, end);
}

extern "C" Err cross_entropy_cuda(const Call *call)
{
    const Node *node = call->node;
    Shape       s = in_shape(node, 0);
    AnyIn       x = any_in(call, 0);
    LossEnd     end = {
            (LossSum *)call->workspace, (const float *)call->in[2],          (float *)call->out[0],
            (float *)call->out[1],      (double)ATTR(node, LossAttr)->scale, 0
    };
    PackOf  pack = pack_of(dim(s, -1), x);
    RowTeam team = row_team(shape_rows(s), dim(s, -1), pack);
    int64_t need = ceil_div(team.rows * team.lanes, SOFT_THREADS);
    int64_t blocks = loss_blocks(team.rows, 1, cuda_handle(call)->sms);
    blocks = need < blocks ? need : blocks;
    WITH_PACK(pack, N,
              cuda_launch(cuda_stream(call), cross_entropy_rows<N>, (unsigned)blocks, SOFT_THREADS,
                          0, x, (const int32_t *)call->in[1], (float *)call->out[2], team, end);)
    CUDA_LAUNCHED();
    return loss_end(call, end, blocks);
}

struct CrossEntropyGrad {
    const int32_t *target;
    const float   *denominator, *lse, *dy;
    int64_t        n;
    float          factor;

    __device__ void                  begin() { factor = factor / *denominator * *dy; }
    template <int N> __device__ void run(int64_t i, const float (&x)[1][N], float (&y)[N]) const
    {
        int64_t at, row = divided(i, n, &at);
        int32_t hit = target[row];
        float   log_sum = lse[row];
#pragma unroll
        for (int j = 0; j < N; j++) {
            if (at == n) {
                at = 0;
                hit = target[++row];
                log_sum = lse[row];
            }
            float f = hit == LOSS_IGNORE ? 0.0f : factor;
            y[j] = f * expf(x[0][j] - log_sum) - (at == hit ? f : 0.0f);
            at++;
        }
    }
};

extern "C" Err cross_entropy_grad_cuda(const Call *call) /* in: x, target, denominator, lse, dy */
{
    CrossEntropyGrad f = { (const int32_t *)call->in[1],     (const float *)call->in[2],
                           (const float *)call->in[3],       (const float *)call->in[4],
                           dim(in_shape(call->node, 0), -1), ATTR(call->node, LossAttr)->scale };
    return rows_cuda<1>(call, f);
}

CUDA_KERNEL(mse_loss, .choose = loss_choose_cuda, .run = mse_loss_cuda)
CUDA_KERNEL(mse_loss_grad, .run = mse_loss_grad_cuda)
CUDA_KERNEL(l1_loss, .choose = loss_choose_cuda, .run = l1_loss_cuda)
CUDA_KERNEL(l1_loss_grad, .run = l1_loss_grad_cuda)
CUDA_KERNEL(masked_l1_loss, .choose = loss_choose_cuda, .run = masked_l1_loss_cuda)
CUDA_KERNEL(masked_l1_loss_grad, .run = masked_l1_loss_grad_cuda)
CUDA_KERNEL(cross_entropy, .choose = cross_entropy_choose_cuda, .run = cross_entropy_cuda)
CUDA_KERNEL(cross_entropy_grad, .run = cross_entropy_grad_cuda)
