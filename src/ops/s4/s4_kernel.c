/* s4_kernel.c -- the S4 convolution kernel: shapes, gradient, cost, builder. */
#include "ops/s4/s4_kernel.h"

#include "ops/operator.h"
#include "ops/fft/rfft.h"

#include <math.h>
#include <stdio.h>

static const char *const s4_words[S4_PARAMS] = { "inv_dt", "C", "B", "A_real", "A_imag", "P" };

/* Operations per channel, pole and frequency, counted in s4_kernel_cpu.c. */
enum { S4_FLOPS = 45, S4_GRAD_FLOPS = 150 };

static Cost s4_cost(const Node *n, int64_t length, double flops)
{
    double poles = in_count(n, S4_C) / 2, freqs = (double)(length / 2 + 1);
    return (Cost){ .flops = poles * freqs * flops, .bytes = node_bytes(n) };
}

static Cost s4_kernel_cost(const Node *n)
{
    return s4_cost(n, ATTR(n, S4KernelAttr)->length, S4_FLOPS);
}
static Cost s4_kernel_grad_cost(const Node *n)
{
    return s4_cost(n, ATTR(n, S4KernelAttr)->length, S4_GRAD_FLOPS);
}

/* in: inv_dt C B A_real A_imag P table tangents */
static Err s4_kernel_shape(Node *n)
{
    Shape   c = in_shape(n, S4_C);
    int64_t length = ATTR(n, S4KernelAttr)->length;
    TRY(fft_check_length("s4_kernel", length));
    for (int i = 0; i < S4_PARAMS; i++)
        if (in_type(n, i) != F32)
            return fail(E_SHAPE,
                        "s4_kernel: %s is %s; the S4 kernel and its parameters must be f32 in "
                        "every precision",
                        s4_words[i], type_name(in_type(n, i)));
    if (c.rank != 4 || c.dim[0] != 1 || c.dim[3] != 2)
        return fail(E_SHAPE, "s4_kernel: C must be (1,H,N,2), not %s", shape_text(c));
    bool        b_per_channel = shape_same(in_shape(n, S4_B), c);
    const Shape want[S4_PARAMS] = { SHAPE(c.dim[1], 1),
                                    c,
                                    b_per_channel ? c : SHAPE(1, 1, c.dim[2], 2),
                                    SHAPE(1, c.dim[2]),
                                    SHAPE(1, c.dim[2]),
                                    SHAPE(1, 1, c.dim[2], 2) };
    for (int i = 0; i < S4_PARAMS; i++)
        if (!shape_same(in_shape(n, i), want[i]))
            return fail(E_SHAPE, "s4_kernel: with C %s, %s must be %s, not %s", shape_text(c),
                        s4_words[i], shape_text(want[i]), shape_text(in_shape(n, i)));
    out_set(n, 0, F32, SHAPE(length, c.dim[1]));
    return OK;
}

static void s4_kernel_grad(Grad *g)
{
    S4KernelAttr attr = *ATTR(g->node, S4KernelAttr);
    Tensor       d[S4_PARAMS];
    for (int i = 0; i < S4_PARAMS; i++)
        attr.wants[i] = grad_wants(g, i);
    node_add(g->graph, &op_s4_kernel_grad, &attr,
             TENSORS(grad_in(g, 0), grad_in(g, 1), grad_in(g, 2), grad_in(g, 3), grad_in(g, 4),
                     grad_in(g, 5), grad_in(g, 6), grad_in(g, 7), grad_dy(g, 0)),
             d);
    for (int i = 0; i < S4_PARAMS; i++)
        grad_give(g, i, d[i]);
}

/* The terms of the four sums, B and P with C and Q, over all poles and their conjugates, one
 * complex number per frequency: (2, 2, H, 2N, L/2+1). */
static int64_t cauchy_matrix_bytes(const Node *n)
{
    Shape c = in_shape(n, S4_C);
    return 2 * 2 * c.dim[1] * (2 * c.dim[2]) * (ATTR(n, S4KernelAttr)->length / 2 + 1) * 8;
}

OPERATOR(
    s4_kernel,
    .doc = "convolution kernel of a diagonal plus rank-one state space, by streamed Cauchy sums",
    .never_stored = { "Cauchy matrix",
                      "the sums over poles are streamed over the frequencies; nothing of "
                      "channels x poles x frequencies is stored",
                      cauchy_matrix_bytes },
    .attr_bytes = sizeof(S4KernelAttr), .n_in = S4_PARAMS + 2, .n_out = 1, .shape = s4_kernel_shape,
    .grad = s4_kernel_grad, .cost = s4_kernel_cost,
    .cpu = { .choose = s4_kernel_choose_cpu, .run = s4_kernel_cpu })

/* in: as s4_kernel, then dK; out: the six gradients */
static Err s4_kernel_grad_shape(Node *n)
{
    if (in_type(n, S4_PARAMS + 2) != F32)
        return fail(E_SHAPE,
                    "s4_kernel_grad: the gradient of the kernel is %s; it must be f32 in every "
                    "precision",
                    type_name(in_type(n, S4_PARAMS + 2)));
    for (int i = 0; i < S4_PARAMS; i++)
        if (ATTR(n, S4KernelAttr)->wants[i])
            out_set(n, i, F32, in_shape(n, i));
    return OK;
}

OPERATOR_INTERNAL(s4_kernel_grad,
                  .doc = "gradients of s4_kernel; recomputes its sums frequency by frequency",
                  .attr_bytes = sizeof(S4KernelAttr), .n_in = S4_PARAMS + 3, .n_out = S4_PARAMS,
                  .shape = s4_kernel_grad_shape, .cost = s4_kernel_grad_cost,
                  .cpu = { .choose = s4_kernel_grad_choose_cpu, .run = s4_kernel_grad_cpu })

/* y_k = 2 tan(pi k / L) = z_k / i, as pairs of floats whose sum is accurate to 48 bits. At k = L/2,
 * where y_k is infinite and not used, 0. */
static void fill_tangents(int64_t length, float *out)
{
    for (int64_t k = 0; k <= length / 2; k++) {
        double y = 2 * k == length ? 0 : 2 * tan(M_PI * (double)k / (double)length);
        out[2 * k] = (float)y;
        out[2 * k + 1] = (float)(y - (double)out[2 * k]);
    }
}

Tensor s4_kernel(Tensor inv_dt, Tensor c, Tensor b, Tensor a_real, Tensor a_imag, Tensor p,
                 int64_t length)
{
    Graph *graph = inv_dt.graph;
    Tensor table = tensor_none(graph), tangents = table;
    if (fft_valid(length)) { /* else the shape rule fails */
        char name[48];
        snprintf(name, sizeof name, "s4.tangents.%lld", (long long)length);
        table = fft_table(graph, FFT_REAL, length);
        tangents = table_once(graph, name, 2 * (length / 2 + 1), length, fill_tangents);
    }
    return node_add(graph, &op_s4_kernel, &(S4KernelAttr){ .length = length },
                    TENSORS(inv_dt, c, b, a_real, a_imag, p, table, tangents), NULL);
}
