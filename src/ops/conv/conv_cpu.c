/* conv_cpu.c -- convolutions through linalg/linalg.h. */
#include "device/convert.h"
#include "ops/conv/conv.h"
#include "ops/linear/linear.h"
#include "ops/ops.h"
#include "ops/parallel.h"

#include <string.h>

/* Padding behind which no window ends does not matter. So less padding behind than before, as
 * output_padding gives, is taken as the same on both sides if that gives no further output: no
 * backend has difficulties with that. Failing that, none is better than a negative one. */
static int64_t conv_pad_hi(int64_t lo, int64_t hi, int64_t free, int64_t stride)
{
    int64_t out = (free + hi) / stride;
    if (hi < lo && (free + lo) / stride == out)
        return lo;
    return hi < 0 && free >= 0 && free / stride == out ? 0 : hi;
}

static ConvDesc conv_desc(const Node *n)
{
    bool to_wide = n->op == &op_conv_grad_x || n->op == &op_conv_transpose,
         weights = n->op == &op_conv_grad_w;
    Shape           w = weights ? out_shape(n, 0) : in_shape(n, 1);
    const ConvAttr *a = weights ? &ATTR(n, ConvWAttr)->conv : ATTR(n, ConvAttr);
    int             lead = w.rank - 4;
    ConvDesc        d = { .kind = weights   ? CONV_BACKWARD_WEIGHTS
                                  : to_wide ? CONV_BACKWARD_DATA
                                            : CONV_FORWARD,
                          .n = dim(in_shape(n, 0), 0),
                          .n_all = node_all_samples(n, dim(in_shape(n, 0), 0)),
                          .ci = dim(w, -2) * a->groups,
                          .co = dim(w, -1),
                          .groups = a->groups };
    for (int i = 0; i < 3; i++) {
        d.kernel[i] = i == 0 ? (lead ? w.dim[0] : 1) : w.dim[i - 1 + lead];
        d.in[i] = a->in[i];
        d.stride[i] = a->stride[i];
        d.dilation[i] = a->dilation[i];
        d.pad_lo[i] = a->pad_lo[i];
        int64_t reach = conv_reach(d.kernel[i], d.dilation[i]),
                free = d.in[i] + d.pad_lo[i] - reach;
        d.out[i] = (free + a->pad_hi[i]) / d.stride[i] + 1;
        d.pad_hi[i] = conv_pad_hi(d.pad_lo[i], a->pad_hi[i], free, d.stride[i]);
    }
    d.type_x = to_wide ? out_type(n, 0) : in_type(n, 0);
    d.type_w = weights ? F32 : in_type(n, 1);
    d.type_y = weights ? in_type(n, 1) : to_wide ? in_type(n, 0) : out_type(n, 0);
    d.bias = n->op == &op_conv && in_given(n, 2);
    d.type_bias = d.bias ? in_type(n, 2) : F32;
    return d;
}

Err conv_prim(const Node *n, const Device *device, const Prim **prim)
{
    ConvDesc desc = conv_desc(n);
    return linalg_conv(device->backend, &desc, device->threads, prim);
}

Err conv_choose_linalg(const Node *n, const Device *device, Choice *choice)
{
    const Prim *prim;
    TRY(conv_prim(n, device, &prim));
    choice->workspace_bytes = prim->workspace_bytes;
    choice->name = prim->impl;
    return OK;
}

Err conv_prepare_linalg(Pool *pool, Call *call)
{
    (void)pool;
    const Prim *prim;
    TRY(conv_prim(call->node, call->device, &prim));
    call->prepared = (void *)(uintptr_t)prim;
    return OK;
}

static Err conv_run(const Call *call, void *x, void *w, void *y, const void *bias)
{
    const Prim *prim = call->prepared;
    return prim->backend->run(
        prim, &(PrimArgs){ .a = x, .b = w, .c = y, .bias = bias, .workspace = call->workspace });
}

Err conv_linalg(const Call *call)
{
    return conv_run(call, call->in[0], call->in[1], call->out[0], call->in[2]);
}

/* Adds the bias, which the data-gradient primitive does not do. Rows of few channels are taken many
 * at a time, with the bias repeated as often. */
static void add_bias(const Call *call)
{
    const Node *n = call->node;
    int64_t     width = dim(out_shape(n, 0), -1), rows = shape_rows(out_shape(n, 0));
    int64_t     group = width < ROW_BLOCK ? ROW_BLOCK / width : 1;
    Type        type = out_type(n, 0), type_bias = in_type(n, 2);
    int         threads = call->device->threads;
#pragma omp parallel num_threads(threads)
    {
        float buffer[ROW_BLOCK], biases[ROW_BLOCK];
        for (int64_t r = 0; group > 1 && r < group; r++)
            convert_rows(F32, biases + r * width, type_bias, call->in[2], (size_t)width);
#pragma omp for schedule(static)
        for (int64_t r = 0; r < rows; r += group) {
            int64_t count = (rows - r < group ? rows - r : group) * width;
            for (int64_t c = 0; c < count; c += ROW_BLOCK) {
                int64_t      m = count - c < ROW_BLOCK ? count - c : ROW_BLOCK;
                const float *b = group > 1 ? biases
                                           : row_load(type_bias, call->in[2], c, m, biases);
                float       *y = row_open(type, call->out[0], r * width + c, buffer);
                if (type != F32)
                    row_load(type, call->out[0], r * width + c, m, buffer);
                for (int64_t j = 0; j < m; j++)
                    y[j] += b[j];
                row_store(type, call->out[0], r * width + c, m, y);
            }
        }
    }
}

Err conv_grad_x_linalg(const Call *call)
{
    TRY(conv_run(call, call->out[0], call->in[1], call->in[0], NULL));
    if (call->node->op == &op_conv_transpose && in_given(call->node, 2))
        add_bias(call);
    return OK;
}

/* Workspace of the weight gradient: the backend's; this node's share of dw, since no backend adds
 * to an existing dw; the bias sums of the threads. */

static size_t share_bytes(const Node *n)
{
    return in_given(n, 2) ? align_bytes((size_t)out_bytes(n, 0), CONV_CPU_ALIGN) : 0;
}

Err conv_grad_w_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    TRY(conv_choose_linalg(n, device, choice));
    if (share_bytes(n) || ATTR(n, ConvWAttr)->bias)
        choice->workspace_bytes = align_bytes(choice->workspace_bytes, CONV_CPU_ALIGN) +
                                  share_bytes(n);
    if (ATTR(n, ConvWAttr)->bias)
        choice->workspace_bytes += bias_sums_bytes(device->threads, dim(in_shape(n, 1), -1));
    return OK;
}

Err conv_grad_w_cpu(const Call *call)
{
    const Node  *n = call->node;
    const Prim  *prim = call->prepared;
    const float *before = call->in[2];
    char   *after = (char *)call->workspace + align_bytes(prim->workspace_bytes, CONV_CPU_ALIGN);
    float  *out = call->out[0], *share = (float *)after;
    int64_t count = shape_count(out_shape(n, 0));
    int     threads = call->device->threads;
    TRY(conv_run(call, call->in[0], before ? share : out, call->in[1], NULL));
    if (before) {
#pragma omp parallel for simd num_threads(threads) schedule(static)
        for (int64_t i = 0; i < count; i++)
            out[i] = before[i] + share[i];
    }
    if (ATTR(n, ConvWAttr)->bias)
        bias_sums(threads, in_type(n, 1), call->in[1], shape_rows(in_shape(n, 1)),
                  dim(in_shape(n, 1), -1), (double *)(after + share_bytes(n)), call->in[3],
                  call->out[1]);
    return OK;
}
