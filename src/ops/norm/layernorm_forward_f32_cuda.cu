/* layernorm_forward_f32_cuda.cu -- norms over the last axis, forward, for x of f32. */
#include "ops/norm/layernorm_forward_cuda.h"

void rows_forward_f32(const Call *call, RowsCuda job) { rows_forward_of<float>(call, job); }
