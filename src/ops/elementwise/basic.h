/* basic.h -- what every graph needs: input data, reshape, add, cast, assignment. */
#ifndef OPS_ELEMENTWISE_BASIC_H
#define OPS_ELEMENTWISE_BASIC_H

#include "ir/op.h"

typedef struct FeedAttr {
    char    name[48]; /* what the data loader calls it */
    Type    type;
    Shape   shape;
    /* Of models whose inputs have their user's names, for the data: */
    int32_t below;   /* integers are below this; 0: nothing is known */
    bool    whole;   /* one tensor for all samples: its first axis is no batch */
    char all_of[48]; /* the input of which this has the whole micro-batch, before its split; "": it
                         * is an input of its own */
} FeedAttr;

typedef struct CastAttr {
    Type type;
} CastAttr;

typedef struct ReshapeAttr {
    Shape shape;
} ReshapeAttr;

Tensor feed(Graph *graph, const char *name, Type type, Shape shape); /* a batch from the host */
Tensor feed_as(Graph *graph, const FeedAttr *attr);
Tensor reshape(Tensor x, Shape shape); /* same bytes; one axis may be -1: inferred */
Tensor add(Tensor a, Tensor b);        /* same shape; the sum has a's type */

void   assign(Tensor state, Tensor x); /* copies x into a persistent value */
Tensor cast(Tensor x, Type type);      /* rounded; x itself if it already has that type */

Err feed_cpu(const Call *call);
Err add_cpu(const Call *call);
Err cast_cpu(const Call *call);
Err assign_cpu(const Call *call);

#endif
