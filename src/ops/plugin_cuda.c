/* plugin_cuda.c -- the table of CUDA kernels, by operator.
 *
 * Products and convolutions are the same few lines on both devices: they ask the device's Blas.
 */
#include "device/plugin_cuda_blas.h"
#include "ops/conv.h"
#include "ops/linear.h"
#include "ops/ops.h"

#include <string.h>

/* The data gradient of a convolution, plus a bias, which no provider adds there. */
static Err conv_transpose_cuda(const Call *call)
{
    const Node *n = call->node;
    const Prim *prim = call->prepared;
    const CudaHandle *handle = call->device->handle;
    int64_t     width = dim(out_shape(n, 0), -1);
    TRY(prim->blas->run(prim, &(PrimArgs){ .a = call->out[0], .b = call->in[1], .c = call->in[0],
                                           .scratch = call->workspace }));
    if (!in_given(n, 2))
        return OK;
    return cuda_add_bias(handle->stream, out_type(n, 0), call->out[0], width, in_type(n, 2),
                         call->in[2], shape_rows(out_shape(n, 0)), width);
}

size_t bias_sums_bytes_cuda(const Device *device, int64_t rows, int64_t width);
Err bias_sums_cuda(const Call *call, Type type, const void *x, int64_t rows, int64_t width,
                   void *scratch, const float *before, float *out);

/* Weight gradients add to what is there. The sums of a bias are made on the way where the primitive
 * can. */
static size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

static Err conv_grad_w_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    const Prim *prim;
    Shape       dy = in_shape(n, 1);
    TRY(conv_choose_blas(n, device, choice));
    TRY(conv_prim(n, device, &prim));
    if (ATTR(n, ConvWAttr)->bias && !prim->sums)
        choice->workspace_bytes = aligned(choice->workspace_bytes) +
                                  bias_sums_bytes_cuda(device, shape_rows(dy), dim(dy, -1));
    return OK;
}

static Err conv_grad_w_cuda(const Call *call)
{
    const Prim *prim = call->prepared;
    Shape       dy = in_shape(call->node, 1);
    bool        bias = ATTR(call->node, ConvWAttr)->bias;
    TRY(prim->blas->run(prim, &(PrimArgs){ .a = call->in[0],
                                           .b = call->out[0],
                                           .c = call->in[1],
                                           .before = call->in[2],
                                           .sums = bias && prim->sums ? call->out[1] : NULL,
                                           .sums_before = call->in[3],
                                           .scratch = call->workspace }));
    if (!bias || prim->sums)
        return OK;
    return bias_sums_cuda(call, in_type(call->node, 1), call->in[1], shape_rows(dy), dim(dy, -1),
                          (char *)call->workspace + aligned(prim->scratch_bytes), call->in[3],
                          call->out[1]);
}

/* Note [Sums in place]
 * In place, cuBLASLt's Hopper kernels round a 2-byte product before they add it to C, as an
 * operator that adds would; from C to another place they round once, but take longer. Either gives
 * the same bits from run to run, so each operator has one of them, wherever its buffers lie: data
 * gradients in place, for that is where the sum so far mostly is; residuals, which others still
 * read, from place to place. */
static Err linear_grad_x_cuda(const Call *call)
{
    const CudaHandle *handle = call->device->handle;
    Call              in_place = *call;
    void             *in[] = { call->in[0], call->in[1], call->out[0] };
    if (in_given(call->node, 2) && call->in[2] != call->out[0])
        CUDA_TRY(cudaMemcpyAsync(call->out[0], call->in[2], (size_t)out_bytes(call->node, 0),
                                 cudaMemcpyDeviceToDevice, handle->stream));
    in_place.in = in;
    return linear_grad_x_blas(&in_place);
}

/* RUN(op, run)   CHOOSE(op, choose, run): it needs scratch
 * READY(op, choose, prepare, run)   ALL(op, run, run_all) */
#define RUN(op, run_)               Err run_(const Call *call);
#define CHOOSE(op, choose_, run_)                                                                  \
    Err choose_(const Node *n, const Device *device, Choice *choice);                              \
    RUN(op, run_)
#define READY(op, choose_, prepare_, run_)                                                         \
    Err prepare_(Pool *pool, Call *call);                                                          \
    CHOOSE(op, choose_, run_)
#define ALL(op, run_, all_)         Err all_(const Call *const *calls, int n); RUN(op, run_)
#include "ops/kernels_cuda.def"
#undef RUN
#undef CHOOSE
#undef READY
#undef ALL

static const struct { const char *op; Kernel kernel; } kernels[] = {
#define RUN(op, run_)               { #op, { .run = run_ } },
#define CHOOSE(op, choose_, run_)   { #op, { .choose = choose_, .run = run_ } },
#define READY(op, choose_, prepare_, run_)                                                         \
    { #op, { .choose = choose_, .prepare = prepare_, .run = run_ } },
#define ALL(op, run_, all_)         { #op, { .run = run_, .run_all = all_ } },
#include "ops/kernels_cuda.def"
#undef RUN
#undef CHOOSE
#undef READY
#undef ALL
    { "linear",         { linear_choose_blas, linear_prepare_blas, linear_blas } },
    { "linear_grad_x",  { linear_choose_blas, linear_prepare_blas, linear_grad_x_cuda } },
    { "linear_grad_w",  { linear_choose_blas, linear_prepare_blas, linear_grad_w_blas } },
    { "conv",           { conv_choose_blas, conv_prepare_blas, conv_blas } },
    { "conv_grad_x",    { conv_choose_blas, conv_prepare_blas, conv_grad_x_blas } },
    { "conv_grad_w",    { conv_grad_w_choose_cuda, conv_prepare_blas, conv_grad_w_cuda } },
    { "conv_transpose", { conv_choose_blas, conv_prepare_blas, conv_transpose_cuda } },
};

const void *cuda_kernel(const char *op_name);

const void *cuda_kernel(const char *op_name)
{
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (!strcmp(kernels[i].op, op_name))
            return &kernels[i].kernel;
    return NULL;
}
