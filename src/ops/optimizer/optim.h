/* optim.h -- from gradients to new weights: accumulate, norm, tick, update with EMA in one pass.
 *
 * All numbers that change from step to step live in small device vectors, so that a step is the
 * same program every time (and can be one CUDA graph):
 *   rates    [RATE_GROUPS + groups] written by the host before each step
 *   progress [PROGRESS_WORDS]       written by tick: once per step, before the updates
 * counters [COUNTER_WORDS] (i32) tells which step and micro-batch this is.
 */
#ifndef OPS_OPTIMIZER_OPTIM_H
#define OPS_OPTIMIZER_OPTIM_H

#include "ir/op.h"

enum { COUNTER_SEED_LOW, COUNTER_SEED_HIGH, COUNTER_STEP, COUNTER_MICRO, COUNTER_WORDS };

enum { RATE_EMA_DECAY, RATE_GROUPS }; /* then one learning rate per group */

enum {
    PROGRESS_T, /* updates done, this one included */
    PROGRESS_BIAS1,
    PROGRESS_BIAS2,  /* 1 - beta^t */
    PROGRESS_SCALE,  /* loss scale in force (1 unless fp16) */
    PROGRESS_GOOD,   /* steps since the scale last changed */
    PROGRESS_FACTOR, /* gradients are multiplied by this: clipping and unscaling */
    PROGRESS_FINITE, /* 0: this step is skipped */
    PROGRESS_NORM,   /* of the unscaled, unclipped gradient; 0 if not asked for */
    PROGRESS_WORDS
};

typedef struct TickAttr {
    float beta1, beta2;
    float clip;            /* 0: none */
    bool  scaling;         /* fp16: dynamic loss scale */
    float growth_interval; /* good steps before the scale doubles */
} TickAttr;

typedef struct UpdateAttr {
    float beta1, beta2, eps; /* SGD: beta1 is the momentum */
    float decay;             /* weight decay */
    bool  decoupled;         /* AdamW rather than Adam with L2 */
    int   group;             /* which learning rate */
} UpdateAttr;

/* The step counters of a graph, made on first use: forward graphs need them for random numbers. */
Tensor graph_counters(Graph *graph);

/* sum = x on micro-batch 0, else sum + x */
Tensor accumulate(Tensor sum, Tensor x, Tensor counters);
Tensor grad_seed(Tensor progress); /* [1]: d loss / d loss, times the loss scale */
Tensor grad_norm(Graph *graph, const Tensor *grads, int n); /* [1]: sqrt of the sum of squares */
/* The updates themselves skip a step whose loss or norm is not finite, so that the host need not
 * read the loss before they run. */
Tensor tick(Tensor progress, Tensor norm_or_none, Tensor loss, TickAttr attr);

/* Inputs of an update; none where absent. p is in the compute type and is rounded from master. */
typedef struct UpdateIn {
    Tensor p, grad, m, v, ema, master, progress, rates;
} UpdateIn;

void adam(UpdateIn in, UpdateAttr attr);
void sgd(UpdateIn in, UpdateAttr attr); /* v is not used */

/* For CPU kernels that update or sum parts of parameters. norm_block: the sum of squares of at most
 * BLOCK_ELEMENTS. An update reads `in` and writes `out`, which may be the same; m, v, ema, master
 * are NULL where absent. */
typedef struct UpdateSpan {
    Type              type; /* of in and out */
    const void       *in;
    void             *out;
    const float      *grad;
    float            *m, *v, *ema, *master;
    const float      *progress, *rates;
    const UpdateAttr *attr;
    bool              sgd;
} UpdateSpan;

double norm_block(const float *g, int64_t n);
void   update_span(const UpdateSpan *span, int64_t count, int threads);

Err accumulate_cpu(const Call *call);
Err grad_seed_cpu(const Call *call);
Err grad_norm_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err grad_norm_cpu(const Call *call);
Err tick_cpu(const Call *call);
Err adam_cpu(const Call *call);
Err sgd_cpu(const Call *call);

#endif
