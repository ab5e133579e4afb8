/* up_conv_cpu.c -- up_conv on the CPU: one convolution of the large map, which is in the workspace.
 *
 * Workspace: the backend's; the large map of x or dx; for the weight gradient this node's share of
 * dw, since no backend adds to an existing dw, and the bias sums of the threads.
 */
#include "device/convert.h"
#include "ops/linear/linear.h"
#include "ops/ops.h"
#include "ops/parallel.h"
#include "ops/conv/conv.h"
#include "ops/conv/up_conv.h"

#include <string.h>

static size_t map_bytes(const ConvDesc *d)
{
    return align_bytes((size_t)(d->n * d->in[1] * d->in[2] * d->ci * type_bytes(d->type_x)),
                       CONV_CPU_ALIGN);
}

static size_t share_bytes(const Node *n)
{
    return n->op == &op_up_conv_grad_w && in_given(n, 2)
               ? align_bytes((size_t)out_bytes(n, 0), CONV_CPU_ALIGN)
               : 0;
}

static Err up_conv_prim(const Node *n, const Device *device, const Prim **prim)
{
    ConvDesc desc = up_conv_desc(n);
    return linalg_conv(device->backend, &desc, device->threads, prim);
}

Err up_conv_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    ConvDesc    desc = up_conv_desc(n);
    const Prim *prim;
    TRY(up_conv_prim(n, device, &prim));
    choice->name = prim->impl;
    choice->workspace_bytes = align_bytes(prim->workspace_bytes, CONV_CPU_ALIGN) +
                              map_bytes(&desc) + share_bytes(n);
    if (n->op == &op_up_conv_grad_w && ATTR(n, UpConvWAttr)->bias)
        choice->workspace_bytes += bias_sums_bytes(device->threads, desc.co);
    return OK;
}

Err up_conv_prepare_cpu(Pool *pool, Call *call)
{
    (void)pool;
    const Prim *prim;
    TRY(up_conv_prim(call->node, call->device, &prim));
    call->prepared = (void *)(uintptr_t)prim;
    return OK;
}

static char *map_of(const Call *call)
{
    const Prim *prim = call->prepared;
    return (char *)call->workspace + align_bytes(prim->workspace_bytes, CONV_CPU_ALIGN);
}

static Err run(const Call *call, void *x, void *w, void *y, const void *bias)
{
    const Prim *prim = call->prepared;
    return prim->backend->run(
        prim, &(PrimArgs){ .a = x, .b = w, .c = y, .bias = bias, .workspace = call->workspace });
}

/* Repeats every pixel `up` times along both axes. */
static void enlarge(const Call *call, const ConvDesc *d, const char *x, char *to)
{
    int64_t up = up_conv_factor(call->node), w = d->in[2] / up, rows = d->n * d->in[1] / up;
    size_t  pixel = (size_t)(d->ci * type_bytes(d->type_x)), row = (size_t)d->in[2] * pixel;
    int     threads = call->device->threads;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        char *first = to + (size_t)(r * up) * row;
        for (int64_t i = 0; i < d->in[2]; i++)
            memcpy(first + (size_t)i * pixel, x + (size_t)(r * w + i / up) * pixel, pixel);
        for (int64_t a = 1; a < up; a++)
            memcpy(first + (size_t)a * row, first, row);
    }
}

/* The sum of a pixel's up * up copies, in fp32. */
static void gather(const Call *call, const ConvDesc *d, const char *from, void *dx)
{
    int64_t up = up_conv_factor(call->node), w = d->in[2] / up, rows = d->n * d->in[1] / up;
    int     threads = call->device->threads;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t p = 0; p < rows * w; p++)
        for (int64_t c = 0; c < d->ci; c += ROW_BLOCK) {
            int64_t m = d->ci - c < ROW_BLOCK ? d->ci - c : ROW_BLOCK;
            float   buffer[ROW_BLOCK], buffer_sum[ROW_BLOCK];
            float  *sum = row_open(d->type_x, dx, p * d->ci + c, buffer_sum);
            memset(sum, 0, (size_t)m * sizeof *sum);
            for (int64_t k = 0; k < up * up; k++) {
                int64_t      row = p / w * up + k / up, at = row * d->in[2] + p % w * up + k % up;
                const float *v = row_load(d->type_x, from, at * d->ci + c, m, buffer);
                for (int64_t j = 0; j < m; j++)
                    sum[j] += v[j];
            }
            row_store(d->type_x, dx, p * d->ci + c, m, sum);
        }
}

Err up_conv_cpu(const Call *call)
{
    ConvDesc d = up_conv_desc(call->node);
    enlarge(call, &d, call->in[0], map_of(call));
    return run(call, map_of(call), call->in[1], call->out[0], call->in[2]);
}

Err up_conv_grad_x_cpu(const Call *call)
{
    ConvDesc d = up_conv_desc(call->node);
    TRY(run(call, map_of(call), call->in[1], call->in[0], NULL));
    gather(call, &d, map_of(call), call->out[0]);
    return OK;
}

Err up_conv_grad_w_cpu(const Call *call)
{
    const Node  *n = call->node;
    ConvDesc     d = up_conv_desc(n);
    const float *before = call->in[2];
    char        *after = map_of(call) + map_bytes(&d);
    float       *out = call->out[0], *share = (float *)after;
    int64_t      count = shape_count(out_shape(n, 0));
    int          threads = call->device->threads;
    enlarge(call, &d, call->in[0], map_of(call));
    TRY(run(call, map_of(call), before ? share : out, call->in[1], NULL));
    if (before) {
#pragma omp parallel for simd num_threads(threads) schedule(static)
        for (int64_t i = 0; i < count; i++)
            out[i] = before[i] + share[i];
    }
    if (ATTR(n, UpConvWAttr)->bias)
        bias_sums(threads, d.type_y, call->in[1], shape_rows(in_shape(n, 1)), d.co,
                  (double *)(after + share_bytes(n)), call->in[3], call->out[1]);
    return OK;
}
