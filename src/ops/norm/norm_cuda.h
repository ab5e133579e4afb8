/* norm_cuda.h -- the shared work of group, instance and batch norm and SPADE on CUDA.
 *
 * All of them see x as [samples][pixels][channels], as in norm_cpu.h. Pixels of a sample are taken
 * in rounds, each as many as a block loads at once. Block k of a sample takes rounds k, k + chunks,
 * ..., its chunk; each of its threads keeps to fixed channels. Sums over a chunk go to
 * [samples][chunks][channels][2], and are joined in double, in order.
 *
 * Note [Order]
 *   All blocks run at once and walk over x together: backwards for sums, forwards for results. So
 *   results find what the sums read last in the second-level cache, and sums find there what x's
 *   producer wrote last.
 *
 * Note [Accuracy]
 *   Sums for the variance are taken of x minus a value of the same channel (the median of three, so
 *   that one outlier does no harm); chunks are joined by their means and squared deviations (Chan,
 *   Golub & LeVeque 1979).
 */
#ifndef OPS_NORM_NORM_CUDA_H
#define OPS_NORM_NORM_CUDA_H

#include "ops/ops_cuda.h"

extern "C" {
#include "ops/norm/groupnorm.h"
}

enum { NORM_THREADS = 256 };

typedef struct NormCuda { /* one run; what is not used is NULL */
    int64_t      samples, pixels, channels, groups;
    NormAct      act;
    float        eps;
    Type         type, type_w;
    const void  *x, *dy, *weight, *bias;
    const void  *before;          /* group norm: added to dx, or NULL; of x's type */
    const float *mean, *var;      /* batch norm with given statistics, which do not depend on x */
    const void  *gamma, *beta;    /* SPADE: maps */
    bool         packed;          /* gamma has 2C channels [gamma|beta] */
    bool         batch;           /* batch norm: one sample, a group per channel */
    float       *statistics;      /* [samples][groups][2]: mean, 1 / sqrt(var + eps) */
    void        *y, *dx, *dgamma; /* y may be x, dx may be dy */
    float       *dweight, *dbias;
    /* How the work is divided; set by the functions below. */
    int          chunks, rounds;        /* of a sample */
    int64_t      round;                 /* pixels of a round */
    int          columns, lanes, tiles; /* vectors of a row, rows side by side, tiles of columns */
} NormCuda;

/* Of a group norm or SPADE: sizes and types; `weight` is the weight's input. */
static inline NormCuda norm_cuda_of(const Node *n, const GroupnormAttr *attr, int weight)
{
    Shape    x = in_shape(n, 0);
    NormCuda run = {};
    run.samples = x.dim[0];
    run.channels = dim(x, -1);
    run.pixels = shape_count(x) / run.samples / run.channels;
    run.groups = attr->groups;
    run.eps = attr->eps;
    run.type = in_type(n, 0);
    run.type_w = norm_affine_type(n, weight);
    return run;
}

/* One instruction, within 1 ulp; a division takes eight. */
__device__ __forceinline__ float reciprocal(float x)
{
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

__device__ __forceinline__ float act_of(NormAct act, float z)
{
    switch (act) {
    case NORM_SILU: return z * reciprocal(1.0f + __expf(-z));
    case NORM_RELU: return z < 0 ? 0 : z; /* NaN stays */
    case NORM_GELU: return z * normcdff(z);
    default: return z;
    }
}

__device__ __forceinline__ float act_slope(NormAct act, float z)
{
    switch (act) {
    case NORM_SILU: {
        float s = reciprocal(1.0f + __expf(-z));
        return fmaf(z, fmaf(-s, s, s), s);
    }
    case NORM_RELU: return z > 0 ? 1.0f : 0.0f;
    case NORM_GELU: return normcdff(z) + z * 0.3989422804f * __expf(-0.5f * z * z);
    default: return 1;
    }
}

__device__ __forceinline__ float affine_at(Type type, const void *p, int64_t i, float absent)
{
    if (!p)
        return absent;
    switch (type) {
    case BF16: return get((const bf16 *)p, i);
    case F16: return get((const f16 *)p, i);
    default: return get((const float *)p, i);
    }
}

size_t norm_forward_cuda_bytes(const NormCuda *run, int sms);
size_t norm_backward_cuda_bytes(const NormCuda *run, int sms);
Err    norm_forward_cuda(const Call *call, NormCuda run);
Err    norm_backward_cuda(const Call *call, NormCuda run);

/* Groups that fit into a multiprocessor's shared memory: one kernel, no workspace
 * (norm_group_cuda.cu). */
bool norm_group_takes(const NormCuda *run, bool backward);
Err  norm_group_forward_cuda(const Call *call, NormCuda run);
Err  norm_group_backward_cuda(const Call *call, NormCuda run);

/* Batch norms of few pixels: one kernel, no workspace; backward if run.dy is given
 * (norm_channel_cuda.cu). */
bool norm_channel_takes(const NormCuda *run);
Err  norm_channel_cuda(const Call *call, NormCuda run);

#endif
