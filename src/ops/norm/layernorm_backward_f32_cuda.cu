/* layernorm_backward_f32_cuda.cu -- norms over the last axis, backward, for x of f32. */
#include "ops/norm/layernorm_backward_cuda.h"

void rows_backward_f32(const Call *call, RowsCuda job) { rows_backward_of<float>(call, job); }
