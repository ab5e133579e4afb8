/* plugin_cuda_up_conv.c -- up_conv on CUDA: a sub-pixel convolution where that kernel takes the
 * node, else a convolution of the large map, which is in the workspace. */
#include "linalg/subpixel_conv.h"
#include "ops/cuda_kernel.h"
#include "ops/linear/bias_sums_cuda.h"
#include "ops/ops.h"
#include "ops/conv/conv.h"
#include "ops/conv/up_conv.h"

#include <string.h>

typedef struct UpConvConfig { /* how a node is run; offsets in its workspace */
    ConvDesc     desc;
    bool         subpixel_chosen, sums; /* sums: the bias needs a pass of its own */
    SubpixelConv subpixel;
    const Prim  *prim; /* of the large map */
    size_t       map, bias, all;
} UpConvConfig;

static Err up_conv_config(const Node *n, const Device *device, UpConvConfig *config)
{
    ConvDesc *d = &config->desc;
    bool      bias = n->op == &op_up_conv_grad_w && ATTR(n, UpConvWAttr)->bias;
    *config = (UpConvConfig){ .desc = up_conv_desc(n) };
    config->subpixel_chosen = subpixel_conv_plan(device->handle, d, up_conv_factor(n),
                                                 &config->subpixel);
    if (config->subpixel_chosen) {
        config->all = subpixel_conv_workspace(&config->subpixel);
        return OK;
    }
    TRY(linalg_conv(device->backend, d, device->threads, &config->prim));
    config->map = align_bytes(config->prim->workspace_bytes, CONV_CUDA_ALIGN);
    config->bias = config->map +
                   align_bytes((size_t)(d->n * d->in[1] * d->in[2] * d->ci * type_bytes(d->type_x)),
                               CONV_CUDA_ALIGN);
    config->sums = bias && !config->prim->sums;
    config->all = config->bias;
    if (config->sums)
        config->all += bias_sums_bytes_cuda(device, d->n * d->out[1] * d->out[2], d->co);
    return OK;
}

static Err up_conv_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    UpConvConfig config;
    TRY(up_conv_config(n, device, &config));
    choice->workspace_bytes = config.all;
    choice->name = config.subpixel_chosen ? "subpixel" : config.prim->impl;
    return OK;
}

static Err up_conv_prepare_cuda(Pool *pool, Call *call)
{
    UpConvConfig *config = NEW(pool, UpConvConfig);
    call->prepared = config;
    return up_conv_config(call->node, call->device, config);
}

/* Which of x, w, y is written depends on the node. */
static DirectArgs up_conv_args(const Call *call)
{
    const Node *n = call->node;
    DirectArgs  args = { .workspace = call->workspace };
    if (n->op == &op_up_conv) {
        args.x = call->in[0], args.w = call->in[1], args.y = call->out[0], args.bias = call->in[2];
    } else if (n->op == &op_up_conv_grad_x) {
        args.x = call->out[0], args.w = call->in[1], args.y = call->in[0];
    } else {
        args.x = call->in[0], args.w = call->out[0], args.y = call->in[1];
        args.before = call->in[2];
        args.sums = ATTR(n, UpConvWAttr)->bias ? call->out[1] : NULL;
        args.sums_before = call->in[3];
    }
    return args;
}

static Err up_conv_cuda(const Call *call)
{
    const UpConvConfig *config = call->prepared;
    const ConvDesc     *d = &config->desc;
    const CudaHandle   *handle = call->device->handle;
    DirectArgs          args = up_conv_args(call);
    int64_t             up = up_conv_factor(call->node);
    int64_t             rows = d->n * d->in[1] / up, width = d->in[2] / up;
    char               *map = (char *)call->workspace + config->map;
    if (config->subpixel_chosen)
        return subpixel_conv_run(handle, &config->subpixel, &args);
    if (d->kind != CONV_BACKWARD_DATA)
        TRY(cuda_enlarge(handle->stream, d->type_x, args.x, rows, width, d->ci, up, map));
    TRY(config->prim->backend->run(config->prim,
                                   &(PrimArgs){ .a = map,
                                                .b = args.w,
                                                .c = args.y,
                                                .bias = args.bias,
                                                .before = args.before,
                                                .sums = config->sums ? NULL : args.sums,
                                                .sums_before = args.sums_before,
                                                .workspace = call->workspace }));
    if (d->kind == CONV_BACKWARD_DATA)
        return cuda_gather(handle->stream, d->type_x, map, rows, width, d->ci, up, args.x);
    if (!config->sums)
        return OK;
    return bias_sums_cuda(call, d->type_y, args.y, d->n * d->out[1] * d->out[2], d->co,
                          (char *)call->workspace + config->bias, args.sums_before, args.sums);
}

CUDA_KERNEL(up_conv, .choose = up_conv_choose_cuda, .prepare = up_conv_prepare_cuda,
            .run = up_conv_cuda)
CUDA_KERNEL(up_conv_grad_x, .choose = up_conv_choose_cuda, .prepare = up_conv_prepare_cuda,
            .run = up_conv_cuda)
CUDA_KERNEL(up_conv_grad_w, .choose = up_conv_choose_cuda, .prepare = up_conv_prepare_cuda,
            .run = up_conv_cuda)
