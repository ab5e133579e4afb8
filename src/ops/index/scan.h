/* scan.h -- running sums and products along an axis. */
#ifndef OPS_INDEX_SCAN_H
#define OPS_INDEX_SCAN_H

#include "ir/op.h"

typedef struct ScanAttr { /* along N of (A, N, K) */
    int64_t a, n, k;
    bool    reverse; /* from the end */
    Type    type;    /* of the result */
} ScanAttr;

Tensor cumsum(Tensor x, int axis);  /* of floats; of i32 and u8 into i32 */
Tensor cumprod(Tensor x, int axis); /* of floats */

Err cumsum_cpu(const Call *call);
Err cumprod_cpu(const Call *call);
Err cumprod_grad_cpu(const Call *call);

#endif
