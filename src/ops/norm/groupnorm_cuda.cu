/* groupnorm_cuda.cu -- group norm on CUDA: filling in a NormCuda (norm_cuda.h). */
#include "ops/norm/norm_cuda.h"

static NormCuda groupnorm_run(const Node *n, const GroupnormAttr *attr, int weight)
{
    NormCuda run = norm_cuda_of(n, attr, weight);
    run.act = attr->act;
    return run;
}

extern "C" Err groupnorm_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    NormCuda run = groupnorm_run(n, ATTR(n, GroupnormAttr), 1);
    choice->workspace_bytes = norm_forward_cuda_bytes(&run,
                                                      ((const CudaHandle *)device->handle)->sms);
    choice->name = "builtin";
    return OK;
}

extern "C" Err groupnorm_cuda(const Call *call)
{
    NormCuda run = groupnorm_run(call->node, ATTR(call->node, GroupnormAttr), 1);
    run.x = call->in[0];
    run.weight = call->in[1];
    run.bias = call->in[2];
    run.y = call->out[0];
    run.statistics = (float *)call->out[1];
    return norm_forward_cuda(call, run);
}

extern "C" Err groupnorm_grad_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    NormCuda run = groupnorm_run(n, &ATTR(n, GroupnormGradAttr)->of, 2);
    choice->workspace_bytes = norm_backward_cuda_bytes(&run,
                                                       ((const CudaHandle *)device->handle)->sms);
    choice->name = "builtin";
    return OK;
}

extern "C" Err groupnorm_grad_cuda(const Call *call)
{
    const Node *n = call->node;
    NormCuda    run = groupnorm_run(n, &ATTR(n, GroupnormGradAttr)->of, 2);
    if (in_type(n, 4) != run.type)
        return fail(E_DEVICE, "groupnorm_grad: x and dy differ in type, which has no CUDA kernel");
    run.x = call->in[0];
    run.statistics = (float *)call->in[1];
    run.weight = call->in[2];
    run.bias = call->in[3];
    run.dy = call->in[4];
    run.before = call->in[5];
    run.dx = call->out[0];
    run.dweight = (float *)call->out[1];
    run.dbias = (float *)call->out[2];
    return norm_backward_cuda(call, run);
}

CUDA_KERNEL(groupnorm, .choose = groupnorm_choose_cuda, .run = groupnorm_cuda)
CUDA_KERNEL(groupnorm_grad, .choose = groupnorm_grad_choose_cuda, .run = groupnorm_grad_cuda)
