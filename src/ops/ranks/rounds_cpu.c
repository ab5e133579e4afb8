/* rounds_cpu.c -- results of micro-batches, stored and read back, on the CPU. */
#include "comm/comm.h"
#include "ops/optimizer/optim.h"
#include "ops/ranks/rounds.h"

#include <string.h>

Err round_store_cpu(const Call *call)
{
    const RoundAttr *attr = ATTR(call->node, RoundAttr);
    int64_t          round = ((const int32_t *)call->in[2])[COUNTER_MICRO] / attr->ranks;
    REQUIRE(round >= 0 && round < attr->rounds);
    memcpy((float *)call->out[0] + round * attr->width + attr->place, call->in[1],
           (size_t)in_bytes(call->node, 1));
    return OK;
}

Err round_gather_cpu(const Call *call)
{
    REQUIRE(call->device->comm);
    return comm_all(call->device->comm, call->in[0], (int64_t)in_bytes(call->node, 0),
                    call->out[0]);
}

Err round_sum_cpu(const Call *call)
{
    const RoundAttr *attr = ATTR(call->node, RoundAttr);
    const float     *from = call->in[1];
    int64_t          n = shape_count(in_shape(call->node, 0));
    float           *sum = call->out[0];
    memcpy(sum, from + round_at(attr, 0), (size_t)n * sizeof *sum);
    for (int64_t micro = 1; micro < attr->ranks * attr->rounds; micro++)
        for (int64_t i = 0; i < n; i++)
            sum[i] += from[round_at(attr, micro) + i];
    return OK;
}
