/* embedding.h -- rows of a table by id, and the sinusoidal embedding of times. */
#ifndef OPS_EMBEDDING_EMBEDDING_H
#define OPS_EMBEDDING_EMBEDDING_H

#include "ir/op.h"

typedef struct TimeAttr {
    int64_t width;
    float   longest; /* 1 over the lowest frequency, e.g. 10000 */
    Type    type;
} TimeAttr;

Tensor embedding(Tensor table, Tensor ids); /* (V,C) by i32 ids of any shape -> ids' shape, C */
Tensor lookup(Tensor table, Tensor ids);    /* (V) -> ids' shape */

/* t (B), f32 or i32 -> (B, width): [cos(t f_k) | sin(t f_k)], f_k = longest^(-k / half) */
Tensor time_embedding(Tensor t, int64_t width, float longest);

Err embedding_cpu(const Call *call);
Err embedding_grad_cpu(const Call *call);
Err time_embedding_cpu(const Call *call);

#endif
