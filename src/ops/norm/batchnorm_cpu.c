/* batchnorm_cpu.c -- batch norm on the CPU: a norm of one sample with a group per channel. */
#include "ops/norm/batchnorm.h"

#include "ops/norm/norm_cpu.h"

#include <math.h>

/* weight: its input; dy: the input of the gradient, -1 for a forward node. */
static NormRun batchnorm_run(const Node *n, int weight, int dy, const Device *device)
{
    const BatchnormAttr *attr = ATTR(n, BatchnormAttr);
    Shape                x = in_shape(n, 0);
    int64_t              channels = dim(x, -1);
    return (NormRun){
        .plan = norm_plan(1, shape_rows(x), channels, channels, true, device->threads),
        .act = attr->relu ? NORM_RELU : NORM_LINEAR,
        .eps = (double)attr->eps,
        .type_x = in_type(n, 0),
        .type_y = dy < 0 ? out_type(n, 0) : in_type(n, dy),
        .type_w = norm_affine_type(n, weight),
    };
}

Err batchnorm_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    NormRun run = batchnorm_run(n, 1, -1, device);
    choice->workspace_bytes = norm_forward_bytes(&run);
    return OK;
}

Err batchnorm_cpu(const Call *call)
{
    NormRun run = batchnorm_run(call->node, 1, -1, call->device);
    run.x = call->in[0];
    run.weight = call->in[1];
    run.bias = call->in[2];
    run.y = call->out[0];
    run.statistics = call->out[1];
    norm_forward(&run, call->workspace);
    return OK;
}

Err batchnorm_grad_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    NormRun run = batchnorm_run(n, 2, 4, device);
    choice->workspace_bytes = norm_backward_bytes(&run);
    return OK;
}

static void batchnorm_outputs(NormRun *run, const Call *call)
{
    run->dx = call->out[0];
    run->dweight = call->out[1];
    run->dbias = call->out[2];
}

Err batchnorm_grad_cpu(const Call *call)
{
    NormRun run = batchnorm_run(call->node, 2, 4, call->device);
    run.x = call->in[0];
    run.statistics = call->in[1];
    run.weight = call->in[2];
    run.bias = call->in[3];
    run.dy = call->in[4];
    batchnorm_outputs(&run, call);
    norm_backward(&run, call->workspace);
    return OK;
}

Err batchnorm_track_cpu(const Call *call)
{
    const BatchnormAttr *attr = ATTR(call->node, BatchnormAttr);
    const float         *statistics = call->in[0];
    float               *mean = call->out[0], *var = call->out[1];
    double               unbiased = (double)attr->count / (double)(attr->count - 1);
    double               share = (double)attr->momentum;
    if (attr->momentum < 0)
        share = 1 / ((double)*(const int32_t *)call->out[2] + 1);
    for (int64_t c = 0; c < in_shape(call->node, 1).dim[0]; c++) {
        double rstd = (double)statistics[2 * c + 1], now = 1 / (rstd * rstd) - (double)attr->eps;
        now = now > 0 ? now * unbiased : 0; /* a constant channel may round to below 0 */
        mean[c] = (float)((1 - share) * (double)mean[c] + share * (double)statistics[2 * c]);
        var[c] = (float)((1 - share) * (double)var[c] + share * now);
    }
    *(int32_t *)call->out[2] += 1;
    return OK;
}

/* Statistics from given mean and var, in the workspace behind what the norm itself needs. */
static NormRun fixed_run(const Node *n, int weight, int dy, const Device *device)
{
    NormRun run = batchnorm_run(n, weight, dy, device);
    run.fixed = true;
    return run;
}

static float *fixed_statistics(const NormRun *run, size_t behind, void *workspace,
                               const float *mean, const float *var)
{
    float *statistics = (float *)((char *)workspace + behind);
    for (int64_t c = 0; c < run->plan.channels; c++) {
        statistics[2 * c] = mean[c];
        statistics[2 * c + 1] = (float)(1 / sqrt((double)var[c] + run->eps));
    }
    return statistics;
}

static size_t fixed_bytes(const NormRun *run)
{
    return 2 * (size_t)run->plan.channels * sizeof(float);
}

Err batchnorm_eval_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    NormRun run = fixed_run(n, 1, -1, device);
    choice->workspace_bytes = norm_forward_bytes(&run) + fixed_bytes(&run);
    return OK;
}

Err batchnorm_eval_cpu(const Call *call)
{
    NormRun run = fixed_run(call->node, 1, -1, call->device);
    run.x = call->in[0];
    run.weight = call->in[1];
    run.bias = call->in[2];
    run.y = call->out[0];
    run.statistics = fixed_statistics(&run, norm_forward_bytes(&run), call->workspace, call->in[3],
                                      call->in[4]);
    norm_forward(&run, call->workspace);
    return OK;
}

Err batchnorm_eval_grad_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    NormRun run = fixed_run(n, 1, 5, device);
    choice->workspace_bytes = norm_backward_bytes(&run) + fixed_bytes(&run);
    return OK;
}

Err batchnorm_eval_grad_cpu(const Call *call)
{
    NormRun run = fixed_run(call->node, 1, 5, call->device);
    run.x = call->in[0];
    run.weight = call->in[1];
    run.bias = call->in[2];
    run.dy = call->in[5];
    run.statistics = fixed_statistics(&run, norm_backward_bytes(&run), call->workspace, call->in[3],
                                      call->in[4]);
    batchnorm_outputs(&run, call);
    norm_backward(&run, call->workspace);
    return OK;
}
