/* qsample_cpu.c -- samples with the noise of time t, on the CPU. */
#include "ops/random/qsample.h"

#include "ops/reduce/rows.h"

#include <math.h>

static void q_sample_row(const Call *call, int64_t first, int64_t n, const float *const *in,
                         float *out)
{
    const float   *abar = call->in[2];
    const int32_t *t = call->in[3];
    int64_t each = shape_count(in_shape(call->node, 0)) / shape_count(in_shape(call->node, 3));
    for (int64_t i = 0; i < n;) {
        int64_t sample = (first + i) / each, end = (sample + 1) * each - first;
        float   keep = abar[t[sample]], a = sqrtf(keep), b = sqrtf(1 - keep);
        end = end < n ? end : n;
#pragma omp simd
        for (int64_t j = i; j < end; j++)
            out[j] = fmaf(a, in[0][j], b * in[1][j]);
        i = end;
    }
}

Err q_sample_cpu(const Call *call)
{
    const int32_t *t = call->in[3];
    int64_t count = shape_count(in_shape(call->node, 3)), most = in_shape(call->node, 2).dim[0];
    for (int64_t i = 0; i < count; i++)
        if (t[i] < 0 || t[i] >= most)
            return fail(E_NUMBER, "q_sample: time %d of sample %lld is not one of 0 to %lld", t[i],
                        (long long)i, (long long)most - 1);
    return rows_run(call, 2, q_sample_row);
}
