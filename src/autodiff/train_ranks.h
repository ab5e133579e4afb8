/* train_ranks.h -- the training step of one rank of several (docs/dev/RANKS.md): what is summed over
 * micro-batches, and updates of shards. */
#ifndef AUTODIFF_TRAIN_RANKS_H
#define AUTODIFF_TRAIN_RANKS_H

#include "autodiff/autodiff.h"
#include "ops/optimizer/optim.h"
#include "ops/ranks/rounds.h"

/* Batch-norm statistics that wait for the update. */
typedef struct DeferredTrack {
    const void *attr;
    int32_t     state[3]; /* mean, var, batches */
    Shape       statistics;
    int64_t     place; /* of the statistics in a row */
} DeferredTrack;

typedef struct RankSums {
    Graph               *graph;
    const TrainSpec     *spec;
    Tensor               counters, store;
    RoundAttr            rounds;
    DeferredTrack       *tracks;
    int32_t              n_tracks;
    Bucket              *open[2];  /* being filled: of fp32 parameters, of others */
    Tensor              *grads;    /* [param] */
    struct RankTransfer *started;  /* [bucket] */
    int32_t              n_folded; /* buckets */
    int64_t              limit;    /* bytes of a bucket */
    int64_t              to_come;  /* bytes of gradients that no closed bucket holds */
} RankSums;

/* Before the backward pass: the loss and all statistics of a micro-batch are stored for the update.
 * E_USAGE if the model changes other state in every micro-batch. */
Err    rank_sums_begin(Graph *graph, Tensor loss, const TrainSpec *spec, Tensor counters,
                       RankSums *sums);
/* A FinalGrad.call: the parameter joins a bucket, which is exchanged when it is full. */
Tensor rank_sums_final(void *sums, int32_t param, Tensor grad);
void   rank_sums_end(RankSums *sums); /* after the backward pass: the rest */

/* In the update: loss and statistics in the order of micro-batches. */
void rank_replay(RankSums *sums, Tensor loss);
/* Level 0: the gradients are gathered; Param.grad names them from then on. */
void rank_gather_gradients(RankSums *sums);
/* Each rank updates its shards. Levels 1 and 2: the new parameters are gathered. Level 3: they stay
 * divided, and are gathered for the nodes that use them. */
void rank_update(RankSums *sums, const TrainGraph *train);

/* For train_graph.c and this file. */
int        param_group(const TrainSpec *spec, const char *name);
UpdateAttr param_update_attr(const TrainSpec *spec, int group);

#endif
