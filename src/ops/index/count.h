/* count.h -- one-hot rows and counts. Without gradients. */
#ifndef OPS_INDEX_COUNT_H
#define OPS_INDEX_COUNT_H

#include "ir/op.h"

typedef struct OneHotAttr {
    int64_t classes;
    Type    type;
} OneHotAttr;

typedef struct CountAttr {
    int64_t bins;
    float   low, high; /* of floats; integers count themselves */
    Type    type;
} CountAttr;

Tensor one_hot(Tensor ids, int64_t classes, Type type); /* i32 ids -> ids' shape, classes */
Tensor bincount(Tensor ids, int64_t bins);              /* i32 ids 0 to bins - 1 -> i32 (bins) */
/* Equal bins from low to high, which belongs to the last; values outside are not counted. */
Tensor histc(Tensor x, int64_t bins, float low, float high);

Err one_hot_cpu(const Call *call);
Err count_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err count_cpu(const Call *call);

#endif
