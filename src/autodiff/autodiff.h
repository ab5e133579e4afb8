/* autodiff.h -- forward graph -> backward nodes -> the whole training step.
 *
 * autodiff_backward walks the forward nodes in reverse and lets each operator's gradient rule add
 * its nodes. Where a value is used more than once, its gradients are summed by explicit `add` nodes
 * in the order of the walk, so the order of addition does not depend on the order of execution.
 * autodiff_train adds accumulation, clipping, optimizer and EMA.
 */
#ifndef AUTODIFF_AUTODIFF_H
#define AUTODIFF_AUTODIFF_H

#include "ir/graph.h"

typedef enum Optimizer { OPTIMIZER_ADAMW, OPTIMIZER_ADAM, OPTIMIZER_SGD } Optimizer;

typedef struct ParamGroup {
    const char *name;
    float       lr; /* base rate; the schedule multiplies it */
    float       decay;
    const char *match; /* parameters whose name ends in one of these, '|' between; NULL: the rest */
} ParamGroup;

/* State that only updates use may be host-resident, if a tensor has at least HOST_MINIMUM bytes: a
 * smaller copy is all latency. HOST_STATE: moments and master copies too. */
typedef enum HostState { HOST_NONE, HOST_EMA, HOST_STATE } HostState;
enum { HOST_MINIMUM = 64 << 10 };

enum { SHARD_PARAMS = 3 }; /* the level at which parameters are divided among ranks */

typedef struct TrainSpec {
    Optimizer         optimizer;
    float             beta1, beta2, eps; /* SGD: beta1 is the momentum */
    const ParamGroup *groups;            /* the first that matches takes the parameter */
    int               n_groups;
    float             clip;       /* global norm; 0: none */
    bool              ema;        /* keep an average of the trained weights */
    int               accumulate; /* micro-batches per step */
    HostState         host;       /* what is kept on the host */
    /* Update a parameter as soon as its gradient is final, which frees the gradient. Only where
     * train_no_release returns NULL. */
    bool              release;
    int               ranks;        /* above 1: this is the step of each of so many, which divide
                              * `accumulate` (docs/dev/RANKS.md) */
    int               shard;        /* 0: state is whole on every rank; 1, 2: it is divided; 3: so
                              * are parameters */
    int64_t           bucket_bytes; /* of gradients exchanged together; 0: the default */
} TrainSpec;

typedef struct TrainGraph {           /* the handles a trainer needs */
    Tensor loss;                      /* [1] f32, persistent: sum over the step's micro-batches */
    Tensor counters, rates, progress; /* see ops/optimizer/optim.h */
    bool   measures_norm; /* PROGRESS_NORM is the gradient's: clipping and fp16 need it */
} TrainGraph;

/* Gradients of loss ([1]) for every trained parameter; sets Param.trained and Param.grad. If given,
 * final_grad is called as soon as a parameter's gradient is complete, so that nodes that use it can
 * follow immediately; it returns the value that holds the gradient from then on. */
typedef struct FinalGrad {
    Tensor (*call)(void *arg, int32_t param, Tensor grad);
    void *arg;
} FinalGrad;

Err autodiff_backward(Graph *graph, Tensor loss, Tensor seed, const FinalGrad *final_grad);

/* NULL, or the reason why parameters can be updated only after all gradients are complete. */
const char *train_no_release(const TrainSpec *spec, Type compute);

/* For phases between steps, where the average is divided among ranks: gathered, once a phase. */
Tensor rank_average(Graph *graph, const Param *param);

/* Everything after the forward graph. The loss must already be divided by spec->accumulate. */
Err autodiff_train(Graph *graph, Tensor loss, const TrainSpec *spec, TrainGraph *out);

#endif
