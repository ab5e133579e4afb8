/* plugin_cuda_linear.c -- matrix products on a GPU, by the Backend's primitives. */
#include "device/cuda.h"
#include "ops/cuda_kernel.h"
#include "ops/linear/linear.h"

/* Note [Sums in place]
 * In place, cuBLASLt's Hopper kernels round a 2-byte product before they add it to C, as a separate
 * add would. Out of place they round once but take longer. Both give the same bits from run to run,
 * so each operator always uses the same one, wherever its buffers lie: data gradients add in place,
 * where the sum so far usually is; residuals, which other nodes still read, add out of place. */
static Err linear_grad_x_cuda(const Call *call)
{
    const CudaHandle *handle = call->device->handle;
    Call              in_place = *call;
    void             *in[] = { call->in[0], call->in[1], call->out[0] };
    if (in_given(call->node, 2) && call->in[2] != call->out[0])
        CUDA_TRY(cudaMemcpyAsync(call->out[0], call->in[2], (size_t)out_bytes(call->node, 0),
                                 cudaMemcpyDeviceToDevice, handle->stream));
    in_place.in = in;
    return linear_grad_x_linalg(&in_place);
}

CUDA_KERNEL(linear, .choose = linear_choose_linalg, .prepare = linear_prepare_linalg,
            .run = linear_linalg)
CUDA_KERNEL(linear_grad_x, .choose = linear_choose_linalg, .prepare = linear_prepare_linalg,
            .run = linear_grad_x_cuda)
CUDA_KERNEL(linear_grad_w, .choose = linear_choose_linalg, .prepare = linear_prepare_linalg,
            .run = linear_grad_w_linalg)
