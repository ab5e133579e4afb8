/* softmax.h -- softmax, log-softmax and log-sum-exp over the last axis. */
#ifndef OPS_REDUCE_SOFTMAX_H
#define OPS_REDUCE_SOFTMAX_H

#include "ir/op.h"

Tensor softmax(Tensor x);
Tensor log_softmax(Tensor x);
Tensor logsumexp(Tensor x); /* f32, the last axis dropped */

typedef enum SoftmaxKind { SOFTMAX_PLAIN, SOFTMAX_LOG, SOFTMAX_LSE } SoftmaxKind;

typedef struct RowSum { /* of exp over a row: sum exp(x) = exp(max) sum */
    float max, sum;
} RowSum;

RowSum softmax_row_sum(Type type, const void *x, int64_t first, int64_t n);

Err softmax_cpu(const Call *call);
Err softmax_grad_cpu(const Call *call);
Err log_softmax_cpu(const Call *call);
Err log_softmax_grad_cpu(const Call *call);
Err logsumexp_cpu(const Call *call);
Err logsumexp_grad_cpu(const Call *call);

#endif
