/* blas_own.c -- the provider that is always there: every type, every shape, nothing allocated.
 *
 * Sums are fp32 in a fixed order; scratch is what the plan of the product says (gemm.h).
 */
#include "device/blas_own.h"

#include "device/amx.h"
#include "device/gemm.h"

typedef struct OwnMatmul {
    OwnPrim    prim;
    MatmulDesc desc;
    GemmPlan   plan;
    bool       swapped;
} OwnMatmul;

static void own_matmul_run(const OwnPrim *prim, const PrimArgs *args)
{
    const OwnMatmul  *own = (const OwnMatmul *)prim;
    const MatmulDesc *d = &own->desc;
    GemmSide a = gemm_matrix(d->trans_a, d->type_a, args->a, d->lda);
    GemmSide b = gemm_matrix(!d->trans_b, d->type_b, args->b, d->ldb);
    a.batch_stride = d->stride_a;
    b.batch_stride = d->stride_b;
    GemmOut  c = { .data = args->c, .type = d->type_c, .ld = d->ldc, .batch_stride = d->stride_c,
                   .bias = d->bias ? args->bias : NULL, .type_bias = d->type_bias,
                   .accumulate = d->accumulate, .swapped = own->swapped };
    gemm_run(&own->plan, own->swapped ? &b : &a, own->swapped ? &a : &b, &c, args->scratch);
}

/* A batch that shares B and follows on in A and C is one taller matrix. */
static void own_fold_batch(MatmulDesc *d)
{
    if (d->batch > 1 && d->stride_b == 0 && !d->trans_a && d->stride_a == d->m * d->lda &&
        d->stride_c == d->m * d->ldc) {
        d->m *= d->batch;
        d->batch = 1;
    }
}

static Err own_matmul(Pool *pool, const MatmulDesc *desc, int threads, Prim **prim)
{
    MatmulDesc d = *desc;
    if (d.batch < 1 || d.m < 1 || d.n < 1 || d.k < 0 || threads < 1)
        return fail(E_SHAPE, "matrix product of %lld x (%lld x %lld x %lld) with %d threads: every "
                    "extent must be at least 1", (long long)d.batch, (long long)d.m, (long long)d.n,
                    (long long)d.k, threads);
    if (d.lda < (d.trans_a ? d.m : d.k) || d.ldb < (d.trans_b ? d.k : d.n) || d.ldc < d.n)
        return fail(E_SHAPE,
                    "matrix product %lld x %lld x %lld: rows of %lld, %lld and %lld elements "
                    "are too short", (long long)d.m, (long long)d.n, (long long)d.k,
                    (long long)d.lda, (long long)d.ldb, (long long)d.ldc);
    if (!type_is_float(d.type_a) || !type_is_float(d.type_b) || !type_is_float(d.type_c) ||
        (d.bias && !type_is_float(d.type_bias)))
        return fail(E_SHAPE, "matrix product: operands must be f32, bf16 or f16");
    if (d.batch > 1 && d.stride_c == 0)
        return fail(E_SHAPE, "matrix product: %lld results cannot share one place",
                    (long long)d.batch);
    own_fold_batch(&d);
    OwnMatmul *own = NEW(pool, OwnMatmul);
    own->desc = d;
    bool amx = d.type_a == BF16 && d.type_b == BF16 && amx_ready();
    own->swapped = amx ? gemm_swap_amx(d.m, d.n, d.k, d.trans_a, !d.trans_b) : gemm_swap(d.m, d.n);
    int64_t m = own->swapped ? d.n : d.m, n = own->swapped ? d.m : d.n;
    bool    direct = d.type_c == F32 && !own->swapped;
    if (amx)
        gemm_plan_amx(&own->plan, d.batch, m, n, d.k, threads,
                      direct && !d.bias && m % AMX_ROWS == 0 && n % AMX_ROWS == 0,
                      own->swapped ? !d.trans_b : d.trans_a, own->swapped ? d.trans_a : !d.trans_b);
    else
        gemm_plan(&own->plan, d.batch, m, n, d.k, threads, direct);
    own->prim = (OwnPrim){ .head = { .blas = blas_own(), .scratch_bytes = own->plan.scratch_bytes,
                                     .impl = amx ? amx_word("own:bf16", "own:amx") : "own:gemm" },
                           .run = own_matmul_run };
    *prim = &own->prim.head;
    return OK;
}

bool own_pays_matmul(const MatmulDesc *d)
{
    return d->type_a == F32 && d->type_b == F32 && d->type_c == F32 && d->batch == 1 &&
           d->k <= 384 && d->n >= 512 && d->m >= (4 << 20) / d->n;
}

bool own_pays_conv(const ConvDesc *d)
{
    return d->kind == CONV_BACKWARD_WEIGHTS && d->type_x == F32 && d->type_y == F32 &&
           d->stride[2] > 1 && d->kernel[2] > 1 && d->ci >= 128 && d->co >= 128;
}

void own_jobs(const OwnPrim *prim, const PrimArgs *args, int threads, OwnJob *job_run)
{
    if (threads == 1) {                      /* no team of another size: see gemm_run */
        job_run(prim, args, 0);
        return;
    }
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int job = 0; job < threads; job++)
        job_run(prim, args, job);
}

static Err own_run(const Prim *prim, const PrimArgs *args)
{
    const OwnPrim *own = (const OwnPrim *)prim;
    own->run(own, args);
    return OK;
}

const Blas *blas_own(void)
{
    static const Blas own = { .name = "own", .version = "1", .bf16_pays = true,
                              .matmul = own_matmul, .conv = conv_own, .run = own_run };
    return &own;
}

const Blas *blas_lean(void)
{
    static const Blas lean = { .name = "own", .version = "1", .bf16_pays = true,
                               .matmul = own_matmul, .conv = conv_own_lean, .run = own_run };
    return &lean;
}
