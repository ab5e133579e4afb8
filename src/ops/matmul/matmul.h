/* matmul.h -- batched products of two activations, read and written in place in any layout whose
 * rows are contiguous: heads of (B,L,H,D) need no permuted copy. */
#ifndef OPS_MATMUL_MATMUL_H
#define OPS_MATMUL_MATMUL_H

#include "ir/op.h"
#include "linalg/linalg.h"

enum { MATMUL_BATCH = 3 };

/* Where the matrices of an operand lie in its tensor. A matrix is stored as rows of contiguous
 * elements, row_stride apart. */
typedef struct MatmulSide {
    /* elements; 0: shared along that batch axis; of the output: summed along it, in fp32 */
    int64_t batch_stride[MATMUL_BATCH];
    int64_t row_stride, offset;
} MatmulSide;

/* out[b] = alpha op(a[b]) op(b[b]): op(a) is m x k, op(b) is k x n. */
typedef struct MatmulAttr {
    int64_t    m, n, k;
    bool       a_transposed, b_transposed; /* stored k x m, n x k */
    int        batch_rank;                 /* 0 to 3 */
    int64_t    batch[MATMUL_BATCH];
    MatmulSide a, b, out;
    float      alpha;
    Shape      shape; /* of the output; its matrices must cover it, each element once */
    Type       type;  /* of the output */
} MatmulAttr;

Tensor matmul_op(Tensor a, Tensor b, MatmulAttr attr);
/* NumPy's rules on contiguous tensors: leading axes broadcast, vectors are rows or columns. */
Tensor matmul(Tensor a, Tensor b);
Tensor bmm(Tensor a, Tensor b); /* (B,M,K), (B,K,N) -> (B,M,N) */

/* The products of the device's backend that make up the node: one, looped over the batch axes that
 * cannot be merged into its own. */
typedef struct MatmulPlan {
    MatmulDesc  desc;
    int         loops;
    int64_t     loop[MATMUL_BATCH];                                /* extents */
    int64_t     a[MATMUL_BATCH], b[MATMUL_BATCH], c[MATMUL_BATCH]; /* strides in bytes */
    int64_t     a0, b0, c0;                                        /* offsets in bytes */
    const Prim *first, *more; /* more: adds to what the first ones of a sum wrote */
} MatmulPlan;

Err matmul_choose(const Node *n, const Device *device, Choice *choice);
Err matmul_prepare(Pool *pool, Call *call);
Err matmul_run(const Call *call); /* without alpha */
Err matmul_cpu(const Call *call);

#endif
