/* layernorm_backward_f16_cuda.cu -- norms over the last axis, backward, for x of f16. */
#include "ops/norm/layernorm_backward_cuda.h"

void rows_backward_f16(const Call *call, RowsCuda job) { rows_backward_of<f16>(call, job); }
