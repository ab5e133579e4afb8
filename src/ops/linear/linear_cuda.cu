/* linear_cuda.cu -- column sums on CUDA: the gradient of a bias. */
#include "ops/reduce/reduce_cuda.h"

extern "C" {
#include "ops/linear/linear.h"
}

extern "C" Err bias_grad_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    Shape dy = in_shape(n, 0);
    choice->workspace_bytes = sum_bytes(1, shape_rows(dy), dim(dy, -1),
                                        ((const CudaHandle *)device->handle)->sms);
    return OK;
}

extern "C" size_t bias_sums_bytes_cuda(const Device *device, int64_t rows, int64_t width)
{
    return sum_bytes(1, rows, width, ((const CudaHandle *)device->handle)->sms);
}

/* For nodes that need column sums besides their own result; `workspace` is a part of theirs. */
extern "C" Err bias_sums_cuda(const Call *call, Type type, const void *x, int64_t rows,
                              int64_t width, void *workspace, const float *before, float *out)
{
    Call   inner = *call;
    SumJob job = { { x, type }, { NULL, F32 }, { out, F32 }, 1, rows, width, 1.0f, before };
    inner.workspace = workspace;
    return sum_cuda_run(&inner, &job);
}

extern "C" Err bias_grad_cuda(const Call *call)
{
    Shape  dy = in_shape(call->node, 0);
    SumJob job = { any_in(call, 0), { NULL, F32 }, any_out(call, 0),          1, shape_rows(dy),
                   dim(dy, -1),     1.0f,          (const float *)call->in[1] };
    return sum_cuda_run(call, &job);
}

CUDA_KERNEL(bias_grad, .choose = bias_grad_choose_cuda, .run = bias_grad_cuda)
