/* softmax_cuda.cu -- softmax and its relatives on CUDA. */
#include "ops/reduce/softmax_cuda.h"

extern "C" {
#include "ops/reduce/softmax.h"
}

template <int N, SoftmaxKind KIND>
__global__ void __launch_bounds__(SOFT_THREADS) softmax_rows(AnyIn x, AnyOut y, RowTeam team)
{
    cuda_begin();
    __shared__ float shared[32];
    team_rows(team, [&](TeamRow at) {
        RowTotal total = row_total<N>(x, at, team.lanes, shared);
        float    scale = 1.0f / total.sum, log_sum = logf(total.sum);
        if constexpr (KIND == SOFTMAX_LSE) {
            float lse = total.max + log_sum;
            if (at.lane == 0 && at.n)
                any_put<1>(y, at.row, &lse);
        } else
            team_packs<N>(at, team.lanes, [&](int64_t i) {
                float v[N];
                any_get<N>(x, at.first + i, v);
#pragma unroll
                for (int j = 0; j < N; j++)
                    v[j] = KIND == SOFTMAX_PLAIN ? expf(v[j] - total.max) * scale
                                                 : (v[j] - total.max) - log_sum;
                any_put<N>(y, at.first + i, v);
            });
    });
}

/* softmax: dx = y (dy - sum(y dy)); log_softmax: dx = dy - exp(y) sum(dy). */
template <int N, SoftmaxKind KIND>
__global__ void __launch_bounds__(SOFT_THREADS)
    softmax_grad_rows(AnyIn y, AnyIn dy, AnyOut dx, RowTeam team)
{
    cuda_begin();
    __shared__ float shared[32];
    team_rows(team, [&](TeamRow at) {
        float a[N], d[N], sum = 0;
        team_packs<N>(at, team.lanes, [&](int64_t i) {
            any_get<N>(dy, at.first + i, d);
            if (KIND == SOFTMAX_PLAIN)
                any_get<N>(y, at.first + i, a);
#pragma unroll
            for (int j = 0; j < N; j++)
                sum = KIND == SOFTMAX_PLAIN ? fmaf(a[j], d[j], sum) : sum + d[j];
        });
        sum = team_sum(sum, team.lanes, shared);
        team_packs<N>(at, team.lanes, [&](int64_t i) {
            any_get<N>(y, at.first + i, a);
            any_get<N>(dy, at.first + i, d);
#pragma unroll
            for (int j = 0; j < N; j++)
                d[j] = KIND == SOFTMAX_PLAIN ? a[j] * (d[j] - sum) : fmaf(-expf(a[j]), sum, d[j]);
            any_put<N>(dx, at.first + i, d);
        });
    });
}

template <SoftmaxKind KIND> static Err softmax_go(const Call *call)
{
    Shape    s = in_shape(call->node, 0);
    AnyIn    x = any_in(call, 0);
    AnyOut   y = any_out(call, 0);
    PackOf   pack = KIND == SOFTMAX_LSE ? pack_of(dim(s, -1), x) : pack_of(dim(s, -1), x, y);
    RowTeam  team = row_team(shape_rows(s), dim(s, -1), pack);
    unsigned blocks = team_blocks(call, team);
    WITH_PACK(
        pack, N,
        cuda_launch(cuda_stream(call), softmax_rows<N, KIND>, blocks, SOFT_THREADS, 0, x, y, team);)
    CUDA_LAUNCHED();
    return OK;
}

template <SoftmaxKind KIND> static Err softmax_grad_go(const Call *call)
{
    Shape    s = in_shape(call->node, 0);
    AnyIn    y = any_in(call, 0), dy = any_in(call, 1);
    AnyOut   dx = any_out(call, 0);
    PackOf   pack = pack_of(dim(s, -1), y, dy, dx);
    RowTeam  team = row_team(shape_rows(s), dim(s, -1), pack);
    unsigned blocks = team_blocks(call, team);
    WITH_PACK(pack, N,
              cuda_launch(cuda_stream(call), softmax_grad_rows<N, KIND>, blocks, SOFT_THREADS, 0, y,
                          dy, dx, team);)
    CUDA_LAUNCHED();
    return OK;
}

/* clang-format off */
extern "C" Err softmax_cuda(const Call *call)          { return softmax_go<SOFTMAX_PLAIN>(call); }
extern "C" Err log_softmax_cuda(const Call *call)      { return softmax_go<SOFTMAX_LOG>(call); }
extern "C" Err logsumexp_cuda(const Call *call)        { return softmax_go<SOFTMAX_LSE>(call); }
/* clang-format on */
extern "C" Err softmax_grad_cuda(const Call *call) { return softmax_grad_go<SOFTMAX_PLAIN>(call); }
extern "C" Err log_softmax_grad_cuda(const Call *call)
{
    return softmax_grad_go<SOFTMAX_LOG>(call);
}

/* dx = exp(x - lse) dy, with lse and dy of the row. */
struct LogsumexpGrad {
    const float                     *lse;
    AnyIn                            dy;
    int64_t                          n;
    __device__ void                  begin() {}
    template <int N> __device__ void run(int64_t i, const float (&x)[1][N], float (&y)[N]) const
    {
        int64_t at, row = divided(i, n, &at);
        float   d;
        any_get<1>(dy, row, &d);
#pragma unroll
        for (int j = 0; j < N; j++) {
            if (at == n) {
                at = 0;
                any_get<1>(dy, ++row, &d);
            }
            y[j] = expf(x[0][j] - lse[row]) * d;
            at++;
        }
    }
};

extern "C" Err logsumexp_grad_cuda(const Call *call) /* in: x, lse, dy */
{
    LogsumexpGrad f = { (const float *)call->in[1], any_in(call, 2),
                        dim(in_shape(call->node, 0), -1) };
    return rows_cuda<1>(call, f);
}

CUDA_KERNEL(softmax, .run = softmax_cuda)
CUDA_KERNEL(softmax_grad, .run = softmax_grad_cuda)
CUDA_KERNEL(log_softmax, .run = log_softmax_cuda)
CUDA_KERNEL(log_softmax_grad, .run = log_softmax_grad_cuda)
CUDA_KERNEL(logsumexp, .run = logsumexp_cuda)
CUDA_KERNEL(logsumexp_grad, .run = logsumexp_grad_cuda)
