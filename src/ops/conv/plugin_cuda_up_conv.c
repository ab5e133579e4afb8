/* plugin_cuda_up_conv.c -- up_conv on CUDA: by phases where that kernel takes it, else a
 * convolution of the large map, which is made in workspace. */
#include "linalg/subpixel_conv.h"
#include "ops/cuda_kernel.h"
#include "ops/linear/bias_sums_cuda.h"
#include "ops/ops.h"
#include "ops/conv/up_conv.h"

#include <string.h>


Err up_conv_choose_cuda(const Node *n, const Device *device, Choice *choice);
Err up_conv_prepare_cuda(Pool *pool, Call *call);
Err up_conv_cuda(const Call *call);

typedef struct UpConv {          /* how a node is done; offsets in its workspace */
    ConvDesc    desc;
    bool        subpixel_chosen, sums;    /* sums: the bias needs a pass of its own */
    PhaseConv   subpixel;
    const Prim *prim;            /* of the large map */
    size_t      map, bias, all;
} UpConv;

static size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

static Err up_conv_way(const Node *n, const Device *device, UpConv *way)
{
    ConvDesc *d = &way->desc;
    bool      bias = n->op == &op_up_conv_grad_w && ATTR(n, UpConvWAttr)->bias;
    *way = (UpConv){ .desc = up_conv_desc(n) };
    way->subpixel_chosen = subpixel_conv_plan(device->handle, d, up_conv_factor(n), &way->subpixel);
    if (way->subpixel_chosen) {
        way->all = subpixel_conv_workspace(&way->subpixel);
        return OK;
    }
    TRY(linalg_conv(device->backend, d, device->threads, &way->prim));
    way->map = aligned(way->prim->workspace_bytes);
    way->bias = way->map + aligned((size_t)(d->n * d->in[1] * d->in[2] * d->ci *
                                            type_bytes(d->type_x)));
    way->sums = bias && !way->prim->sums;
    way->all = way->bias;
    if (way->sums)
        way->all += bias_sums_bytes_cuda(device, d->n * d->out[1] * d->out[2], d->co);
    return OK;
}

Err up_conv_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    UpConv way;
    TRY(up_conv_way(n, device, &way));
    choice->workspace_bytes = way.all;
    choice->name = way.subpixel_chosen ? "phases" : way.prim->impl;
    return OK;
}

Err up_conv_prepare_cuda(Pool *pool, Call *call)
{
    UpConv *way = NEW(pool, UpConv);
    call->prepared = way;
    return up_conv_way(call->node, call->device, way);
}

/* The one of x, w, y that is written depends on the node. */
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

Err up_conv_cuda(const Call *call)
{
    const UpConv     *way = call->prepared;
    const ConvDesc   *d = &way->desc;
    const CudaHandle *handle = call->device->handle;
    DirectArgs        args = up_conv_args(call);
    int64_t           up = up_conv_factor(call->node);
    int64_t           rows = d->n * d->in[1] / up, width = d->in[2] / up;
    char             *map = (char *)call->workspace + way->map;
    if (way->subpixel_chosen)
        return subpixel_conv_run(handle, &way->subpixel, &args);
    if (d->kind != CONV_BACKWARD_DATA)
        TRY(cuda_enlarge(handle->stream, d->type_x, args.x, rows, width, d->ci, up, map));
    TRY(way->prim->backend->run(way->prim,
                             &(PrimArgs){ .a = map, .b = args.w, .c = args.y, .bias = args.bias,
                                          .before = args.before,
                                          .sums = way->sums ? NULL : args.sums,
                                          .sums_before = args.sums_before,
                                          .workspace = call->workspace }));
    if (d->kind == CONV_BACKWARD_DATA)
        return cuda_gather(handle->stream, d->type_x, map, rows, width, d->ci, up, args.x);
    if (!way->sums)
        return OK;
    return bias_sums_cuda(call, d->type_y, args.y, d->n * d->out[1] * d->out[2], d->co,
                          (char *)call->workspace + way->bias, args.sums_before, args.sums);
}

CUDA_KERNEL(up_conv, .choose = up_conv_choose_cuda, .prepare = up_conv_prepare_cuda,
            .run = up_conv_cuda)
CUDA_KERNEL(up_conv_grad_x, .choose = up_conv_choose_cuda, .prepare = up_conv_prepare_cuda,
            .run = up_conv_cuda)
CUDA_KERNEL(up_conv_grad_w, .choose = up_conv_choose_cuda, .prepare = up_conv_prepare_cuda,
            .run = up_conv_cuda)
