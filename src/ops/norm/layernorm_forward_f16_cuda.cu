/* layernorm_forward_f16_cuda.cu -- norms over the last axis, forward, for x of f16. */
#include "ops/norm/layernorm_forward_cuda.h"

void rows_forward_f16(const Call *call, RowsCuda job) { rows_forward_of<f16>(call, job); }
