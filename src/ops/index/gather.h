/* gather.h -- elements and rows by index, and values written or added by index.
 *
 * Index tensors are i32. On the CPU an index outside the axis is an error; on a GPU, where the host
 * does not see indices, it reads NaN (0 for integers) and writes nothing. Gradients that sum do so
 * in the order of the indices, in fp32. */
#ifndef OPS_INDEX_GATHER_H
#define OPS_INDEX_GATHER_H

#include "ir/op.h"

/* x is (A, N, K), the index selects along N: y (A, M, K) by index (A, M, K), or by (M) alone. */
typedef struct GatherAttr {
    int64_t a, n, k, m;
    bool    shared;   /* the index is (M), for all of A and K */
    bool    wrap;     /* negative indices count from the end */
    bool    distinct; /* no index occurs twice: sums have one term */
    int64_t padding;  /* its row gets no gradient; -1: none */
    Shape   shape;    /* of the result */
    Type    type;
} GatherAttr;

/* torch.gather: y[..., j, ...] = x[..., index[..., j, ...], ...]. */
Tensor gather(Tensor x, int axis, Tensor index);
/* x[:, index] along an axis: index's shape takes the axis's place. Negative indices count from the
 * end. `padding` is a row that gets no gradient, or -1. */
Tensor index_rows(Tensor x, int axis, Tensor index, int64_t padding);
/* x[index[0], index[1], ...] over the leading axes; the indices broadcast together. */
Tensor index_at(Tensor x, const Tensor *index, int n);

/* x with src added at the indices along an axis; src has index's shape. */
Tensor scatter_add(Tensor x, int axis, Tensor index, Tensor src);
/* x with src's values written at the indices; of equal indices the last wins. */
Tensor scatter(Tensor x, int axis, Tensor index, Tensor src);
/* x with values written or added at [index[0], index[1], ...] of the leading axes. */
Tensor index_put(Tensor x, const Tensor *index, int n, Tensor values, bool accumulate);

enum { INDEX_MAX = 4 };

typedef struct FlatIndexAttr { /* several indices as one, over the leading axes */
    int     n;
    int64_t extent[INDEX_MAX]; /* of the axes that they select from */
    Shape   shape;
} FlatIndexAttr;

Err gather_cpu(const Call *call);
Err scatter_add_cpu(const Call *call);
Err scatter_last_cpu(const Call *call);
Err scatter_cpu(const Call *call);
Err scatter_grad_cpu(const Call *call);
Err flat_index_cpu(const Call *call);

#endif
