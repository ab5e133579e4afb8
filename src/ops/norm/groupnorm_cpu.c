/* groupnorm_cpu.c -- group norm on the CPU: filling in a NormRun (norm_cpu.h). */
#include "ops/norm/groupnorm.h"

#include "ops/norm/norm_cpu.h"

static NormRun groupnorm_run(const Node *n, const GroupnormAttr *attr, const Device *device)
{
    Shape   x = in_shape(n, 0);
    int64_t channels = dim(x, -1), pixels = shape_count(x) / x.dim[0] / channels;
    return (NormRun){
        .plan = norm_plan(x.dim[0], pixels, channels, attr->groups, true, device->threads),
        .act = attr->act,
        .eps = (double)attr->eps,
        .type_x = in_type(n, 0),
    };
}

static NormRun forward_run(const Node *n, const Device *device)
{
    NormRun run = groupnorm_run(n, ATTR(n, GroupnormAttr), device);
    run.type_y = out_type(n, 0);
    run.type_w = norm_affine_type(n, 1);
    return run;
}

Err groupnorm_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    NormRun run = forward_run(n, device);
    choice->workspace_bytes = norm_forward_bytes(&run);
    return OK;
}

Err groupnorm_cpu(const Call *call)
{
    NormRun run = forward_run(call->node, call->device);
    run.x = call->in[0];
    run.weight = call->in[1];
    run.bias = call->in[2];
    run.y = call->out[0];
    run.statistics = call->out[1];
    norm_forward(&run, call->workspace);
    return OK;
}

static NormRun backward_run(const Node *n, const Device *device)
{
    NormRun run = groupnorm_run(n, &ATTR(n, GroupnormGradAttr)->of, device);
    run.type_y = in_type(n, 4);
    run.type_w = norm_affine_type(n, 2);
    return run;
}

Err groupnorm_grad_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    NormRun run = backward_run(n, device);
    choice->workspace_bytes = norm_backward_bytes(&run);
    return OK;
}

Err groupnorm_grad_cpu(const Call *call)
{
    NormRun run = backward_run(call->node, call->device);
    run.x = call->in[0];
    run.statistics = call->in[1];
    run.weight = call->in[2];
    run.bias = call->in[3];
    run.dy = call->in[4];
    run.before = call->in[5];
    run.dx = call->out[0];
    run.dweight = call->out[1];
    run.dbias = call->out[2];
    norm_backward(&run, call->workspace);
    return OK;
}
