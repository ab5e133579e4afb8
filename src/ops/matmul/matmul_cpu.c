/* matmul_cpu.c -- batched products by the device's backend (linalg/linalg.h), on the CPU and, but
 * for alpha, on a GPU. */
#include "ops/matmul/matmul.h"

#include "device/convert.h"
#include "ops/parallel.h"

typedef struct BatchAxis {
    int64_t n, a, b, c; /* extent and strides in elements */
} BatchAxis;

/* A batch axis that is contiguous with an axis of the matrices becomes part of it: rows where b is
 * shared, columns where a is, terms where the result is summed. */
static bool batch_fold(MatmulDesc *d, const BatchAxis *x)
{
    int64_t a_m = d->trans_a ? 1 : d->lda, a_k = d->trans_a ? d->lda : 1;
    int64_t b_k = d->trans_b ? 1 : d->ldb, b_n = d->trans_b ? d->ldb : 1;
    if (x->b == 0 && x->c && x->a == d->m * a_m && x->c == d->m * d->ldc &&
        (!d->trans_a || d->lda >= d->m * x->n))
        d->m *= x->n;
    else if (x->a == 0 && x->c == d->n && x->b == d->n * b_n && d->ldc >= d->n * x->n &&
             (d->trans_b || d->ldb >= d->n * x->n))
        d->n *= x->n;
    else if (x->c == 0 && x->a == d->k * a_k && x->b == d->k * b_k &&
             (d->trans_a || d->lda >= d->k * x->n) && (!d->trans_b || d->ldb >= d->k * x->n))
        d->k *= x->n;
    else
        return false;
    return true;
}

static void axis_drop(BatchAxis *axes, int *n, int i)
{
    for ((*n)--; i < *n; i++)
        axes[i] = axes[i + 1];
}

/* Two axes of which one continues the other in all three tensors become one. */
static void batch_merge(BatchAxis *axes, int *n)
{
    for (int i = 0; i < *n; i++)
        for (int j = 0; j < *n; j++) {
            const BatchAxis *out = &axes[i], *in = &axes[j];
            if (i == j || out->a != in->a * in->n || out->b != in->b * in->n ||
                out->c != in->c * in->n)
                continue;
            axes[j].n *= out->n;
            axis_drop(axes, n, i);
            batch_merge(axes, n);
            return;
        }
}

static int64_t at_least(int64_t stride, int64_t extent) /* of a single row, any stride will do */
{
    return stride > extent ? stride : extent;
}

static Err matmul_plan(const Node *n, const Device *device, MatmulPlan *plan)
{
    const MatmulAttr *at = ATTR(n, MatmulAttr);
    Type              ta = in_type(n, 0), tb = in_type(n, 1), tc = at->type;
    MatmulDesc        d = { .batch = 1,
                            .m = at->m,
                            .n = at->n,
                            .k = at->k,
                            .lda = at_least(at->a.row_stride, at->a_transposed ? at->m : at->k),
                            .ldb = at_least(at->b.row_stride, at->b_transposed ? at->k : at->n),
                            .ldc = at_least(at->out.row_stride, at->n),
                            .type_a = ta,
                            .type_b = tb,
                            .type_c = tc,
                            .trans_a = at->a_transposed,
                            .trans_b = at->b_transposed };
    BatchAxis         axes[MATMUL_BATCH];
    int               rank = 0, widest = -1;
    for (int i = at->batch_rank - 1; i >= 0; i--) { /* from the innermost on */
        BatchAxis x = { at->batch[i], at->a.batch_stride[i], at->b.batch_stride[i],
                        at->out.batch_stride[i] };
        if (x.n > 1 && !batch_fold(&d, &x))
            axes[rank++] = x;
    }
    batch_merge(axes, &rank);
    for (int i = 0; i < rank; i++)
        if (axes[i].c && (widest < 0 || axes[i].n > axes[widest].n))
            widest = i;
    if (widest >= 0) {
        d.batch = axes[widest].n;
        d.stride_a = axes[widest].a, d.stride_b = axes[widest].b, d.stride_c = axes[widest].c;
        axis_drop(axes, &rank, widest);
    }
    *plan = (MatmulPlan){ .loops = rank,
                          .a0 = at->a.offset * type_bytes(ta),
                          .b0 = at->b.offset * type_bytes(tb),
                          .c0 = at->out.offset * type_bytes(tc) };
    bool sums = false;
    for (int i = 0; i < rank; i++) {
        plan->loop[i] = axes[i].n;
        plan->a[i] = axes[i].a * type_bytes(ta);
        plan->b[i] = axes[i].b * type_bytes(tb);
        plan->c[i] = axes[i].c * type_bytes(tc);
        sums |= axes[i].c == 0;
    }
    plan->desc = d;
    TRY(linalg_matmul(device->backend, &d, device->threads, &plan->first));
    plan->more = plan->first;
    d.accumulate = true;
    return sums ? linalg_matmul(device->backend, &d, device->threads, &plan->more) : OK;
}

Err matmul_choose(const Node *n, const Device *device, Choice *choice)
{
    MatmulPlan plan;
    TRY(matmul_plan(n, device, &plan));
    size_t first = plan.first->workspace_bytes, more = plan.more->workspace_bytes;
    choice->workspace_bytes = first > more ? first : more;
    choice->name = plan.first->impl;
    return OK;
}

Err matmul_prepare(Pool *pool, Call *call)
{
    MatmulPlan *plan = NEW(pool, MatmulPlan);
    call->prepared = plan;
    return matmul_plan(call->node, call->device, plan);
}

Err matmul_run(const Call *call)
{
    const MatmulPlan *p = call->prepared;
    int64_t           runs = 1;
    for (int i = 0; i < p->loops; i++)
        runs *= p->loop[i];
    for (int64_t r = 0; r < runs; r++) {
        int64_t a = p->a0, b = p->b0, c = p->c0, left = r;
        bool    more = false;
        for (int i = p->loops - 1; i >= 0; i--) {
            int64_t at = left % p->loop[i];
            left /= p->loop[i];
            a += at * p->a[i], b += at * p->b[i], c += at * p->c[i];
            more |= at && p->c[i] == 0;
        }
        const Prim *prim = more ? p->more : p->first;
        TRY(prim->backend->run(prim, &(PrimArgs){ .a = (char *)call->in[0] + a,
                                                  .b = (char *)call->in[1] + b,
                                                  .c = (char *)call->out[0] + c,
                                                  .workspace = call->workspace }));
    }
    return OK;
}

static void matmul_scale(const Call *call, float alpha)
{
    Type    type = out_type(call->node, 0);
    int64_t count = shape_count(out_shape(call->node, 0));
    int     threads = call->device->threads;
#pragma omp parallel num_threads(threads)
    {
        int64_t from, to;
        float   buffer[2][ROW_BLOCK];
        parallel_range(count, ROW_BLOCK, omp_get_thread_num(), threads, &from, &to);
        for (int64_t i = from; i < to; i += ROW_BLOCK) {
            int64_t      m = to - i < ROW_BLOCK ? to - i : ROW_BLOCK;
            const float *x = row_load(type, call->out[0], i, m, buffer[0]);
            float       *y = row_open(type, call->out[0], i, buffer[1]);
            for (int64_t j = 0; j < m; j++)
                y[j] = x[j] * alpha;
            row_store(type, call->out[0], i, m, y);
        }
    }
}

Err matmul_cpu(const Call *call)
{
    float alpha = ATTR(call->node, MatmulAttr)->alpha;
    TRY(matmul_run(call));
    if (alpha != 1)
        matmul_scale(call, alpha);
    return OK;
}
