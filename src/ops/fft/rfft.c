/* rfft.c -- real Fourier transforms: shapes, gradients, cost, builders; tables. */
#include "ops/fft/rfft.h"

#include "ops/operator.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

Tensor table_once(Graph *graph, const char *name, int64_t floats, int64_t n,
                  void (*fill)(int64_t n, float *data))
{
    for (int32_t i = 0; i < graph->n_constants; i++)
        if (!strcmp(value_at(graph, graph->constants[i].value)->name, name))
            return (Tensor){ graph, graph->constants[i].value };
    Pool   *temporary = pool_new(graph->pool, "table");
    float  *data = NEWN(temporary, float, floats);
    int32_t scope = graph->module;
    fill(n, data);
    graph->module = 0; /* belongs to the whole model, not to the first user */
    Tensor table = constant_add(graph, name, F32, SHAPE(floats), data, CLASS_CONSTANTS);
    graph->module = scope;
    pool_free(temporary);
    return table;
}

static void fill_real(int64_t n, float *data) { fft_table_fill(FFT_REAL, n, data); }
static void fill_angle(int64_t n, float *data) { fft_table_fill(FFT_ANGLE, n, data); }

Tensor fft_table(Graph *graph, FftKind kind, int64_t n)
{
    char    name[48];
    int64_t floats = fft_table_floats(kind, n);
    snprintf(name, sizeof name, "fft.%s.%lld", kind == FFT_REAL ? "real" : "angle", (long long)n);
    return table_once(graph, name, floats > 0 ? floats : 1, n,
                      kind == FFT_REAL ? fill_real : fill_angle);
}

Err fft_check_length(const char *op, int64_t n)
{
    if (!fft_valid(n))
        return fail(E_SHAPE,
                    "%s: length %lld has prime factors other than 2, 3 and 5; the nearest length "
                    "without is %lld",
                    op, (long long)n, (long long)fft_near(n));
    return OK;
}

static double fft_flops(const RfftAttr *attr, double signals)
{
    return signals * 2.5 * (double)attr->n * log2((double)attr->n + 1);
}

static Cost rfft_cost(const Node *n)
{
    const RfftAttr *attr = ATTR(n, RfftAttr);
    return (Cost){ .flops = fft_flops(attr, in_count(n, 0) / (double)attr->n),
                   .bytes = node_bytes(n) };
}

static Err rfft_check(const Node *n, int rank)
{
    const RfftAttr *attr = ATTR(n, RfftAttr);
    Shape           x = in_shape(n, 0);
    if (in_type(n, 0) != F32 || x.rank != rank)
        return fail(E_SHAPE, "%s: the input must be f32 %s, not %s %s", n->op->name,
                    rank == 3 ? "(B,L,C)" : "(B,L/2+1,C,2)", type_name(in_type(n, 0)),
                    shape_text(x));
    return fft_check_length(n->op->name, attr->n);
}

static Err rfft_shape(Node *n)
{
    TRY(rfft_check(n, 3));
    Shape x = in_shape(n, 0);
    out_set(n, 0, F32, SHAPE(x.dim[0], x.dim[1] / 2 + 1, x.dim[2], 2));
    return OK;
}

static Err irfft_shape(Node *n)
{
    TRY(rfft_check(n, 4));
    const RfftAttr *attr = ATTR(n, RfftAttr);
    Shape           x = in_shape(n, 0);
    if (x.dim[1] != attr->n / 2 + 1 || x.dim[3] != 2)
        return fail(E_SHAPE, "irfft: for %lld samples the input must be (B,%lld,C,2), not %s",
                    (long long)attr->n, (long long)(attr->n / 2 + 1), shape_text(x));
    out_set(n, 0, F32, SHAPE(x.dim[0], attr->n, x.dim[2]));
    return OK;
}

/* Each is the gradient of the other, up to factors: a frequency between the edges stands for itself
 * and its conjugate in irfft, but only for itself in rfft. */
static void rfft_grad(Grad *g)
{
    RfftAttr attr = *ATTR(g->node, RfftAttr);
    attr.inner *= 0.5f;
    grad_give(g, 0,
              node_add(g->graph, &op_irfft, &attr, TENSORS(grad_dy(g, 0), grad_in(g, 1)), NULL));
}

static void irfft_grad(Grad *g)
{
    RfftAttr attr = *ATTR(g->node, RfftAttr);
    attr.inner *= 2;
    grad_give(g, 0,
              node_add(g->graph, &op_rfft, &attr, TENSORS(grad_dy(g, 0), grad_in(g, 1)), NULL));
}

/* in: x table */
OPERATOR(rfft,
         .doc = "Fourier transform of real signals along the length axis: (B,L,C) to (B,L/2+1,C,2)",
         .attr_bytes = sizeof(RfftAttr), .n_in = 2, .n_out = 1, .shape = rfft_shape,
         .grad = rfft_grad, .cost = rfft_cost,
         .cpu = { .choose = rfft_choose_cpu, .run = rfft_cpu })

OPERATOR(irfft, .doc = "real signals from their Fourier transform: (B,L/2+1,C,2) to (B,L,C)",
         .attr_bytes = sizeof(RfftAttr), .n_in = 2, .n_out = 1, .shape = irfft_shape,
         .grad = irfft_grad, .cost = rfft_cost,
         .cpu = { .choose = rfft_choose_cpu, .run = irfft_cpu })

static Tensor rfft_node(const OpDef *op, Tensor x, RfftAttr attr)
{
    Tensor table = fft_valid(attr.n) ? fft_table(x.graph, FFT_REAL, attr.n) : tensor_none(x.graph);
    return node_add(x.graph, op, &attr, TENSORS(x, table), NULL);
}

Tensor rfft(Tensor x)
{
    if (!tensor_ok(x))
        return x;
    Shape shape = tensor_shape(x);
    return rfft_node(&op_rfft, x,
                     (RfftAttr){ .n = shape.rank == 3 ? shape.dim[1] : 1, .edge = 1, .inner = 1 });
}

Tensor irfft(Tensor x, int64_t n)
{
    float one = 1 / (float)n;
    return tensor_ok(x) ? rfft_node(&op_irfft, x, (RfftAttr){ .n = n, .edge = one, .inner = one })
                        : x;
}
