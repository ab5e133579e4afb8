/* plugin_cuda_conv.c -- convolutions on a GPU: the backend's primitives, and the bias besides. */
#include "linalg/plugin_cuda_linalg.h"
#include "ops/conv/conv.h"
#include "ops/cuda_kernel.h"
#include "ops/linear/bias_sums_cuda.h"

/* The data gradient of a convolution, plus a bias, which no backend adds there. */
static Err conv_transpose_cuda(const Call *call)
{
    const Node       *n = call->node;
    const Prim       *prim = call->prepared;
    const CudaHandle *handle = call->device->handle;
    int64_t           width = dim(out_shape(n, 0), -1);
    TRY(prim->backend->run(prim, &(PrimArgs){ .a = call->out[0],
                                              .b = call->in[1],
                                              .c = call->in[0],
                                              .workspace = call->workspace }));
    if (!in_given(n, 2))
        return OK;
    return cuda_add_bias(handle->stream, out_type(n, 0), call->out[0], width, in_type(n, 2),
                         call->in[2], shape_rows(out_shape(n, 0)), width);
}

/* Weight gradients are added to the sum so far. Some primitives compute the bias gradient too; for
 * the others it is a pass of its own. */

static Err conv_grad_w_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    const Prim *prim;
    Shape       dy = in_shape(n, 1);
    TRY(conv_choose_linalg(n, device, choice));
    TRY(conv_prim(n, device, &prim));
    if (ATTR(n, ConvWAttr)->bias && !prim->sums)
        choice->workspace_bytes = align_bytes(choice->workspace_bytes, CONV_CUDA_ALIGN) +
                                  bias_sums_bytes_cuda(device, shape_rows(dy), dim(dy, -1));
    return OK;
}

static Err conv_grad_w_cuda(const Call *call)
{
    const Prim *prim = call->prepared;
    Shape       dy = in_shape(call->node, 1);
    bool        bias = ATTR(call->node, ConvWAttr)->bias;
    TRY(prim->backend->run(prim, &(PrimArgs){ .a = call->in[0],
                                              .b = call->out[0],
                                              .c = call->in[1],
                                              .before = call->in[2],
                                              .sums = bias && prim->sums ? call->out[1] : NULL,
                                              .sums_before = call->in[3],
                                              .workspace = call->workspace }));
    if (!bias || prim->sums)
        return OK;
    return bias_sums_cuda(call, in_type(call->node, 1), call->in[1], shape_rows(dy), dim(dy, -1),
                          (char *)call->workspace +
                              align_bytes(prim->workspace_bytes, CONV_CUDA_ALIGN),
                          call->in[3], call->out[1]);
}

CUDA_KERNEL(conv, .choose = conv_choose_linalg, .prepare = conv_prepare_linalg, .run = conv_linalg)
CUDA_KERNEL(conv_grad_x, .choose = conv_choose_linalg, .prepare = conv_prepare_linalg,
            .run = conv_grad_x_linalg)
CUDA_KERNEL(conv_grad_w, .choose = conv_grad_w_choose_cuda, .prepare = conv_prepare_linalg,
            .run = conv_grad_w_cuda)
CUDA_KERNEL(conv_transpose, .choose = conv_choose_linalg, .prepare = conv_prepare_linalg,
            .run = conv_transpose_cuda)
