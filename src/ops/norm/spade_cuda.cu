/* spade_cuda.cu -- norm(h) * (1 + gamma) + beta on CUDA: a norm with maps (norm_cuda.h). */
#include "ops/norm/norm_cuda.h"

extern "C" Err spade_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    NormCuda run = norm_cuda_of(n, ATTR(n, GroupnormAttr), 1);
    choice->workspace_bytes = norm_forward_cuda_bytes(&run,
                                                      ((const CudaHandle *)device->handle)->sms);
    choice->name = "builtin";
    return OK;
}

extern "C" Err spade_cuda(const Call *call)
{
    const GroupnormAttr *attr = ATTR(call->node, GroupnormAttr);
    NormCuda             run = norm_cuda_of(call->node, attr, 1);
    run.x = call->in[0];
    run.weight = call->in[1];
    run.bias = call->in[2];
    run.gamma = call->in[3];
    run.beta = call->in[4];
    run.packed = attr->packed;
    run.y = call->out[0];
    run.statistics = (float *)call->out[1];
    return norm_forward_cuda(call, run);
}

extern "C" Err spade_grad_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    NormCuda run = norm_cuda_of(n, &ATTR(n, GroupnormGradAttr)->of, 2);
    choice->workspace_bytes = norm_backward_cuda_bytes(&run,
                                                       ((const CudaHandle *)device->handle)->sms);
    choice->name = "builtin";
    return OK;
}

extern "C" Err spade_grad_cuda(const Call *call)
{
    const Node              *n = call->node;
    const GroupnormGradAttr *attr = ATTR(n, GroupnormGradAttr);
    NormCuda                 run = norm_cuda_of(n, &attr->of, 2);
    if (in_type(n, 4) != run.type || in_type(n, 5) != run.type)
        return fail(E_DEVICE,
                    "spade_grad: h, gamma and dy differ in type, which has no CUDA kernel");
    run.x = call->in[0];
    run.statistics = (float *)call->in[1];
    run.weight = call->in[2];
    run.bias = call->in[3];
    run.gamma = call->in[4];
    run.packed = attr->of.packed;
    run.dy = call->in[5];
    run.dx = call->out[0];
    run.dweight = (float *)call->out[1];
    run.dbias = (float *)call->out[2];
    run.dgamma = call->out[3];
    return norm_backward_cuda(call, run);
}

CUDA_KERNEL(spade, .choose = spade_choose_cuda, .run = spade_cuda)
CUDA_KERNEL(spade_grad, .choose = spade_grad_choose_cuda, .run = spade_grad_cuda)
