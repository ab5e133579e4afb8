/* layernorm_forward_bf16_cuda.cu -- norms over the last axis, forward, for x of bf16. */
#include "ops/norm/layernorm_forward_cuda.h"

void rows_forward_bf16(const Call *call, RowsCuda job) { rows_forward_of<bf16>(call, job); }
