/* batchnorm_cuda.cu -- batch norm on CUDA: a norm of one sample with a group per channel. */
#include "ops/norm/norm_cuda.h"

extern "C" {
#include "ops/norm/batchnorm.h"
}

static NormCuda batchnorm_run(const Node *n, int weight)
{
    const BatchnormAttr *attr = ATTR(n, BatchnormAttr);
    Shape                x = in_shape(n, 0);
    NormCuda             run = {};
    run.samples = 1;
    run.batch = true;
    run.channels = run.groups = dim(x, -1);
    run.pixels = shape_rows(x);
    run.act = attr->relu ? NORM_RELU : NORM_LINEAR;
    run.eps = attr->eps;
    run.type = in_type(n, 0);
    run.type_w = norm_affine_type(n, weight);
    return run;
}

extern "C" Err batchnorm_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    NormCuda run = batchnorm_run(n, 1);
    choice->workspace_bytes = norm_forward_cuda_bytes(&run,
                                                      ((const CudaHandle *)device->handle)->sms);
    choice->name = "builtin";
    return OK;
}

extern "C" Err batchnorm_cuda(const Call *call)
{
    NormCuda run = batchnorm_run(call->node, 1);
    run.x = call->in[0];
    run.weight = call->in[1];
    run.bias = call->in[2];
    run.y = call->out[0];
    run.statistics = (float *)call->out[1];
    return norm_forward_cuda(call, run);
}

static Err batchnorm_back(const Call *call, NormCuda run, int dy)
{
    if (in_type(call->node, dy) != run.type)
        return fail(E_DEVICE, "%s: x and dy differ in type, which has no CUDA kernel",
                    call->node->op->name);
    run.x = call->in[0];
    run.dy = call->in[dy];
    run.dx = call->out[0];
    run.dweight = (float *)call->out[1];
    run.dbias = (float *)call->out[2];
    return norm_backward_cuda(call, run);
}

extern "C" Err batchnorm_grad_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    NormCuda run = batchnorm_run(n, 2);
    choice->workspace_bytes = norm_backward_cuda_bytes(&run,
                                                       ((const CudaHandle *)device->handle)->sms);
    choice->name = "builtin";
    return OK;
}

extern "C" Err batchnorm_grad_cuda(const Call *call)
{
    NormCuda run = batchnorm_run(call->node, 2);
    run.statistics = (float *)call->in[1];
    run.weight = call->in[2];
    run.bias = call->in[3];
    return batchnorm_back(call, run, 4);
}

extern "C" Err batchnorm_eval_cuda(const Call *call)
{
    NormCuda run = batchnorm_run(call->node, 1);
    run.x = call->in[0];
    run.weight = call->in[1];
    run.bias = call->in[2];
    run.mean = (const float *)call->in[3];
    run.var = (const float *)call->in[4];
    run.y = call->out[0];
    return norm_forward_cuda(call, run);
}

extern "C" Err batchnorm_eval_grad_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    NormCuda run = batchnorm_run(n, 1);
    choice->workspace_bytes = norm_backward_cuda_bytes(&run,
                                                       ((const CudaHandle *)device->handle)->sms);
    choice->name = "builtin";
    return OK;
}

extern "C" Err batchnorm_eval_grad_cuda(const Call *call)
{
    NormCuda run = batchnorm_run(call->node, 1);
    run.weight = call->in[1];
    run.bias = call->in[2];
    run.mean = (const float *)call->in[3];
    run.var = (const float *)call->in[4];
    return batchnorm_back(call, run, 5);
}

__global__ void track(const float *statistics, float *mean, float *var, int32_t *batches,
                      int64_t channels, double share, double eps, double unbiased)
{
    int64_t first = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (share < 0) { /* cumulative: a single block, so that all threads read the count first */
        share = 1 / ((double)*batches + 1);
        __syncthreads();
    }
    if (first == 0)
        *batches += 1;
    for (int64_t c = first; c < channels; c += (int64_t)gridDim.x * blockDim.x) {
        double rstd = (double)statistics[2 * c + 1], now = 1 / (rstd * rstd) - eps;
        now = now > 0 ? now * unbiased : 0; /* a constant channel may round to below 0 */
        mean[c] = (float)((1 - share) * (double)mean[c] + share * (double)statistics[2 * c]);
        var[c] = (float)((1 - share) * (double)var[c] + share * now);
    }
}

extern "C" Err batchnorm_track_cuda(const Call *call)
{
    const BatchnormAttr *attr = ATTR(call->node, BatchnormAttr);
    int64_t              channels = in_shape(call->node, 1).dim[0];
    unsigned             blocks = attr->momentum < 0 ? 1 : (unsigned)ceil_div(channels, 128);
    track<<<blocks, 128, 0, cuda_stream(call)>>>(
        (const float *)call->in[0], (float *)call->out[0], (float *)call->out[1],
        (int32_t *)call->out[2], channels, (double)attr->momentum, (double)attr->eps,
        (double)attr->count / (double)(attr->count - 1));
    CUDA_LAUNCHED();
    return OK;
}

CUDA_KERNEL(batchnorm, .choose = batchnorm_choose_cuda, .run = batchnorm_cuda)
CUDA_KERNEL(batchnorm_grad, .choose = batchnorm_grad_choose_cuda, .run = batchnorm_grad_cuda)
CUDA_KERNEL(batchnorm_track, .run = batchnorm_track_cuda)
CUDA_KERNEL(batchnorm_eval, .run = batchnorm_eval_cuda)
CUDA_KERNEL(batchnorm_eval_grad, .choose = batchnorm_eval_grad_choose_cuda,
            .run = batchnorm_eval_grad_cuda)
