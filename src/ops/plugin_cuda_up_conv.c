/* plugin_cuda_up_conv.c -- up_conv on CUDA: by phases where that kernel takes it, else a
 * convolution of the large map, which is made in scratch. */
#include "device/phase_conv.h"
#include "ops/ops.h"
#include "ops/up_conv.h"

#include <string.h>

size_t bias_sums_bytes_cuda(const Device *device, int64_t rows, int64_t width);
Err bias_sums_cuda(const Call *call, Type type, const void *x, int64_t rows, int64_t width,
                   void *scratch, const float *before, float *out);

Err up_conv_choose_cuda(const Node *n, const Device *device, Choice *choice);
Err up_conv_prepare_cuda(Pool *pool, Call *call);
Err up_conv_cuda(const Call *call);

typedef struct UpConv {          /* how a node is done; offsets in its scratch */
    ConvDesc    desc;
    bool        phased, sums;    /* sums: the bias needs a pass of its own */
    PhaseConv   phases;
    const Prim *prim;            /* of the large map */
    size_t      map, bias, all;
} UpConv;

static size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

static Err up_conv_way(const Node *n, const Device *device, UpConv *way)
{
    ConvDesc *d = &way->desc;
    bool      bias = n->op == &op_up_conv_grad_w && ATTR(n, UpConvWAttr)->bias;
    *way = (UpConv){ .desc = up_conv_desc(n) };
    way->phased = phase_conv_plan(device->handle, d, up_conv_factor(n), &way->phases);
    if (way->phased) {
        way->all = phase_conv_scratch(&way->phases);
        return OK;
    }
    TRY(blas_conv(device->blas, d, device->threads, &way->prim));
    way->map = aligned(way->prim->scratch_bytes);
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
    choice->name = way.phased ? "phases" : way.prim->impl;
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
    DirectArgs  args = { .scratch = call->workspace };
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
    if (way->phased)
        return phase_conv_run(handle, &way->phases, &args);
    if (d->kind != CONV_BACKWARD_DATA)
        TRY(cuda_enlarge(handle->stream, d->type_x, args.x, rows, width, d->ci, up, map));
    TRY(way->prim->blas->run(way->prim,
                             &(PrimArgs){ .a = map, .b = args.w, .c = args.y, .bias = args.bias,
                                          .before = args.before,
                                          .sums = way->sums ? NULL : args.sums,
                                          .sums_before = args.sums_before,
                                          .scratch = call->workspace }));
    if (d->kind == CONV_BACKWARD_DATA)
        return cuda_gather(handle->stream, d->type_x, map, rows, width, d->ci, up, args.x);
    if (!way->sums)
        return OK;
    return bias_sums_cuda(call, d->type_y, args.y, d->n * d->out[1] * d->out[2], d->co,
                          (char *)call->workspace + way->bias, args.sums_before, args.sums);
}
