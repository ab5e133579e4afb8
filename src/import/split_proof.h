/* split_proof.h -- is the loss of an imported program a mean, or a sum, over its samples?
 *
 * Only then may a micro-batch be split: the loss and the gradients of the slices, added up, are those
 * of the whole. The program is lowered for two batch sizes, and both graphs are walked together:
 *
 *   whole    the same numbers whatever the batch: parameters, constants, what follows from them
 *   each     slice s along the first axis depends on sample s alone, by the same function for every
 *            sample and for both batch sizes (OpDef.chunk promises that of a node)
 *   linear   a sum over samples of such a function, times a power of the batch size
 *   count    any function of such sums that follows from the inputs alone: a mask's size
 *
 * The loss must be linear: a sum (power 0) or a mean (power -1). Anything else, such as a product of
 * two means or a statistic of the batch that samples read, is not proved, and the reason is a
 * sentence with the user's line. */
#ifndef IMPORT_SPLIT_PROOF_H
#define IMPORT_SPLIT_PROOF_H

#include "ir/graph.h"

typedef struct SplitCount { /* a sum over samples is divided by it */
    int32_t value;          /* in the graph of side 0 */
    bool    shared;         /* in a slice it stands for the count divided by the number of slices */
} SplitCount;

typedef struct SplitProof {
    bool              sum; /* over samples, rather than their mean */
    const char       *why; /* it is not proved, and this is the reason; NULL: it is */
    /* What follows from the inputs alone, such as the size of a mask, and must be that of the whole
     * micro-batch before its split. */
    const SplitCount *counts;
    int32_t           n_counts;
} SplitProof;

typedef struct SplitSide { /* the program, lowered for one batch size */
    Graph          *graph;
    Tensor          loss;
    int64_t         batch;
    /* By node, as far as calls made them: hash of the numbers in the call, sizes included. */
    const uint64_t *numbers;
    int32_t         n_numbers;
} SplitSide;

/* The reason lives in the pool. */
SplitProof split_prove(Pool *pool, const SplitSide side[2]);

#endif
