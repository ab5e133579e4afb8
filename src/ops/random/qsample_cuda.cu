/* qsample_cuda.cu -- samples with the noise of time t, on CUDA. A time outside the table gives NaN,
 * since the host does not see times here; the loss is then not finite, which is reported. */
#include "ops/reduce/rows_cuda.h"

extern "C" {
#include "ops/random/qsample.h"
}

struct QSample {
    const float   *abar;
    const int32_t *t;
    int64_t        each, most;

    __device__ void begin() {}
    __device__ void level(int64_t sample, float *a, float *b) const
    {
        int32_t at = t[sample];
        float   keep = at >= 0 && at < most ? abar[at] : NAN;
        *a = sqrtf(keep);
        *b = sqrtf(1 - keep);
    }
    template <int N> __device__ void run(int64_t i, const float (&x)[2][N], float (&y)[N]) const
    {
        int64_t at, sample = divided(i, each, &at);
        float   a, b;
        level(sample, &a, &b);
#pragma unroll
        for (int j = 0; j < N; j++) {
            if (at == each) {
                at = 0;
                level(++sample, &a, &b);
            }
            y[j] = fmaf(a, x[0][j], b * x[1][j]);
            at++;
        }
    }
};

extern "C" Err q_sample_cuda(const Call *call)
{
    const Node *n = call->node;
    QSample     f = { (const float *)call->in[2], (const int32_t *)call->in[3],
                      shape_count(in_shape(n, 0)) / shape_count(in_shape(n, 3)),
                      in_shape(n, 2).dim[0] };
    return rows_cuda<2>(call, f);
}

CUDA_KERNEL(q_sample, .run = q_sample_cuda)
