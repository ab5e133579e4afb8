/* layernorm_backward_bf16_cuda.cu -- norms over the last axis, backward, for x of bf16. */
#include "ops/norm/layernorm_backward_cuda.h"

void rows_backward_bf16(const Call *call, RowsCuda job) { rows_backward_of<bf16>(call, job); }
