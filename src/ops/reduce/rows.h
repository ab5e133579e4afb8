/* rows.h -- the loop that elementwise kernels share: blocks of fp32 values, for any storage types.
 *
 * A RowFn computes n output values from n values of each input. in[i] may be out itself (in place),
 * so loops are written with `omp simd`, not with restrict.
 */
#ifndef OPS_REDUCE_ROWS_H
#define OPS_REDUCE_ROWS_H

#include "ir/op.h"

enum { ROWS_MAX_IN = 4 };

typedef void RowFn(const Call *call, int64_t first, int64_t n, const float *const *in, float *out);

/* The same where everything is bf16: converted in registers, without a block of floats. */
typedef void RowBf16Fn(int64_t n, const uint16_t *const *in, uint16_t *out);

/* Output 0 from the first n_in inputs, all of output 0's element count. */
Err rows_run(const Call *call, int n_in, RowFn *fn);
Err rows_run_bf16(const Call *call, int n_in, RowBf16Fn *fn);

/* Type of the gradient of x where it is a sum: fp32 for parameters, else x's own. */
static inline Type rows_grad_type(Tensor x)
{
    return value_at(x.graph, x.id)->persistent ? F32 : tensor_type(x);
}

static inline bool rows_all_bf16(const Node *n, int n_in) /* output 0 and the first n_in inputs */
{
    for (int i = 0; i < n_in; i++)
        if (in_type(n, i) != BF16)
            return false;
    return out_type(n, 0) == BF16;
}

static inline bool rows_float(const Node *n, int n_in) /* are the first n_in inputs floats? */
{
    for (int i = 0; i < n_in; i++)
        if (in_given(n, i) && !type_is_float(in_type(n, i)))
            return false;
    return true;
}

#endif
