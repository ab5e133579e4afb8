/* weight_norm.h -- a weight by length and direction, row by row (Salimans & Kingma 2016). */
#ifndef OPS_NORM_WEIGHT_NORM_H
#define OPS_NORM_WEIGHT_NORM_H

#include "ir/op.h"

typedef struct WeightNormGradAttr {
    bool wants[2]; /* g, v */
} WeightNormGradAttr;

/* w = g v / |v|, lengths over all axes but the first; g has one number per row: (R), (R,1), ... */
Tensor weight_norm(Tensor g, Tensor v);

Err weight_norm_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err weight_norm_cpu(const Call *call);
Err weight_norm_grad_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err weight_norm_grad_cpu(const Call *call);

#endif
