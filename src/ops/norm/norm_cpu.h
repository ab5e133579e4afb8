/* norm_cpu.h -- the shared work of group, instance and batch norm and SPADE on the CPU.
 *
 * All of them see x as [samples][pixels][channels] and need, per channel, a sum over the pixels of
 * a sample; groups are sums over channels, done at the end. Batch norm is one sample with as many
 * groups as channels.
 *
 * Note [How pixels are divided]
 *   All pixels of all samples, in order, are divided into one range per thread. The intersection of
 *   a range and a sample is a span. Span (sample n, thread t) keeps its sums in slot n + t, which
 *   no other span has, since ranges are consecutive: so samples + threads - 1 slots are enough.
 *   A span is read in blocks of rows. A row is `fold` pixels, `wide` = fold * channels columns: few
 *   channels would leave the vector unit idle, so several pixels form one row and their columns are
 *   added at the end. The last row of a span may be shorter.
 *
 * Note [Accuracy]
 *   Means and squared deviations are taken in two passes over a block that is still in the cache;
 *   blocks are joined by the pairwise formula of Chan, Golub & LeVeque (1979) in double.
 */
#ifndef OPS_NORM_NORM_CPU_H
#define OPS_NORM_NORM_CPU_H

#include "ir/op.h"
#include "ops/norm/groupnorm.h"

typedef struct NormPlan {
    int64_t samples, pixels, channels, groups;
    int64_t fold, wide, rows; /* rows: of a full block */
    int     threads;
} NormPlan;

typedef struct NormSpan { /* .count == 0: none left */
    int64_t sample, slot;
    int64_t first, count; /* pixels, counted over all samples */
    int64_t end;          /* of the thread's range */
} NormSpan;

typedef struct NormBlock { /* start from { 0 } */
    int64_t first;         /* element of x */
    int64_t rows, cols;
    int64_t done; /* rows of the span before this block */
} NormBlock;

enum { NORM_VECTORS = 6 };

typedef struct NormNeeds {
    bool totals; /* sums over a sample, for gradients */
    int  stages; /* blocks converted at a time, one per tensor read or written */
    Type type;   /* of those tensors */
} NormNeeds;

typedef struct NormWork {          /* the workspace, divided */
    double *one, *two;             /* [slots][wide]: mean and squared deviations; or two sums */
    double *total_one, *total_two; /* [samples][channels] */
    float  *vectors;               /* [threads][NORM_VECTORS][wide] */
    float  *stages;                /* [threads][stages][rows * wide], none in fp32 */
    int64_t stage_floats;          /* of one thread */
} NormWork;

/* may_fold: every map has x's channels. */
NormPlan norm_plan(int64_t samples, int64_t pixels, int64_t channels, int64_t groups, bool may_fold,
                   int threads);
size_t   norm_work_bytes(const NormPlan *plan, NormNeeds needs);
NormWork norm_work(const NormPlan *plan, NormNeeds needs, void *workspace);
float   *norm_vector(const NormPlan *plan, const NormWork *work, int thread, int i);
float   *norm_stage(const NormPlan *plan, const NormWork *work, int thread, int i);

NormSpan norm_span_first(const NormPlan *plan, int thread);
NormSpan norm_span_next(const NormPlan *plan, NormSpan span);
bool     norm_block_next(const NormPlan *plan, const NormSpan *span, NormBlock *block);

/* Every thread of a parallel region calls the following; barriers inside are mentioned. */

/* Statistics [samples][groups][2]: mean, 1 / sqrt(var + eps). Ends in a barrier. */
void norm_statistics(const NormPlan *plan, const NormWork *work, Type type, const void *x,
                     double eps, float *statistics);

/* Adds the sums of all spans into total_one and total_two. Begins and ends with a barrier. */
void norm_totals(const NormPlan *plan, const NormWork *work);

/* Adds a block's column sums to those of its span. */
void norm_add_sums(const NormPlan *plan, const NormWork *work, const NormSpan *span,
                   const NormBlock *block, const float *one, const float *two);

/* dweight and dbias from the totals; NULL: not wanted. Shared among threads, no barrier. */
void norm_affine_grads(const NormPlan *plan, const NormWork *work, float *dweight, float *dbias);

/* The constants of every column of a sample; `absent` stands for a missing weight or bias. */
void norm_spread_statistics(const NormPlan *plan, const float *statistics, int64_t sample,
                            float *mean, float *rstd);
void norm_spread_affine(const NormPlan *plan, Type type, const void *values, float absent,
                        float *wide);

/* Means of dxhat and of dxhat * xhat over each group, from the totals. */
void norm_spread_means(const NormPlan *plan, const NormWork *work, int64_t sample,
                       const float *weight, float *mean_one, float *mean_two);

/* act(weight * (x - mean) * rstd + bias), and its gradients. */
typedef struct NormRun {
    NormPlan    plan;
    NormAct     act;
    double      eps;
    bool        fixed;                  /* statistics are given and do not depend on x */
    Type        type_x, type_y, type_w; /* type_y: of y and dy */
    const void *x, *dy, *weight, *bias;
    const void *before;          /* added to dx, or NULL; of x's type, does not overlap dx */
    float      *statistics;      /* [samples][groups][2] */
    void       *y, *dx;          /* y may be x, dx may be dy */
    float      *dweight, *dbias; /* dx, dweight, dbias: NULL where not wanted */
} NormRun;

size_t norm_forward_bytes(const NormRun *run);
size_t norm_backward_bytes(const NormRun *run);
void   norm_forward(const NormRun *run, void *workspace);
void   norm_backward(const NormRun *run, void *workspace);

#endif
