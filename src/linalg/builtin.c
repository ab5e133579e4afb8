/* builtin.c -- the built-in backend, which is always there: every type, every shape, no allocation.
 *
 * Sums are fp32 in a fixed order; the plan of a product gives its workspace (gemm.h).
 */
#include "linalg/builtin.h"

#include "linalg/amx.h"
#include "linalg/gemm.h"

typedef struct BuiltinMatmul {
    BuiltinPrim prim;
    MatmulDesc  desc;
    GemmPlan    plan;
    bool        swapped;
} BuiltinMatmul;

static void builtin_matmul_run(const BuiltinPrim *prim, const PrimArgs *args)
{
    const BuiltinMatmul *matmul = (const BuiltinMatmul *)prim;
    const MatmulDesc    *d = &matmul->desc;
    GemmSide             a = gemm_matrix(d->trans_a, d->type_a, args->a, d->lda);
    GemmSide             b = gemm_matrix(!d->trans_b, d->type_b, args->b, d->ldb);
    a.batch_stride = d->stride_a;
    b.batch_stride = d->stride_b;
    GemmOut c = { .data = args->c,
                  .type = d->type_c,
                  .ld = d->ldc,
                  .batch_stride = d->stride_c,
                  .bias = d->bias ? args->bias : NULL,
                  .type_bias = d->type_bias,
                  .accumulate = d->accumulate,
                  .swapped = matmul->swapped };
    gemm_run(&matmul->plan, matmul->swapped ? &b : &a, matmul->swapped ? &a : &b, &c,
             args->workspace);
}

/* A batch that shares B and is contiguous in A and C is one taller matrix. */
static void builtin_fold_batch(MatmulDesc *d)
{
    if (d->batch > 1 && d->stride_b == 0 && !d->trans_a && d->stride_a == d->m * d->lda &&
        d->stride_c == d->m * d->ldc) {
        d->m *= d->batch;
        d->batch = 1;
    }
}

static Err builtin_matmul(Pool *pool, const MatmulDesc *desc, int threads, Prim **prim)
{
    MatmulDesc d = *desc;
    if (d.batch < 1 || d.m < 1 || d.n < 1 || d.k < 0 || threads < 1)
        return fail(E_SHAPE,
                    "matrix product of %lld x (%lld x %lld x %lld) with %d threads: every "
                    "extent must be at least 1",
                    (long long)d.batch, (long long)d.m, (long long)d.n, (long long)d.k, threads);
    if (d.lda < (d.trans_a ? d.m : d.k) || d.ldb < (d.trans_b ? d.k : d.n) || d.ldc < d.n)
        return fail(E_SHAPE,
                    "matrix product %lld x %lld x %lld: rows of %lld, %lld and %lld elements "
                    "are too short",
                    (long long)d.m, (long long)d.n, (long long)d.k, (long long)d.lda,
                    (long long)d.ldb, (long long)d.ldc);
    if (!type_is_float(d.type_a) || !type_is_float(d.type_b) || !type_is_float(d.type_c) ||
        (d.bias && !type_is_float(d.type_bias)))
        return fail(E_SHAPE, "matrix product: operands must be f32, bf16 or f16");
    if (d.batch > 1 && d.stride_c == 0)
        return fail(E_SHAPE, "matrix product: %lld results cannot share one matrix (stride_c 0)",
                    (long long)d.batch);
    builtin_fold_batch(&d);
    BuiltinMatmul *matmul = NEW(pool, BuiltinMatmul);
    matmul->desc = d;
    bool amx = d.type_a == BF16 && d.type_b == BF16 && amx_ready();
    matmul->swapped = amx ? gemm_swap_amx(d.m, d.n, d.k, d.trans_a, !d.trans_b)
                          : gemm_swap(d.m, d.n);
    int64_t m = matmul->swapped ? d.n : d.m, n = matmul->swapped ? d.m : d.n;
    bool    direct = d.type_c == F32 && !matmul->swapped;
    if (amx)
        gemm_plan_amx(&matmul->plan, d.batch, m, n, d.k, threads,
                      direct && !d.bias && m % AMX_ROWS == 0 && n % AMX_ROWS == 0,
                      matmul->swapped ? !d.trans_b : d.trans_a,
                      matmul->swapped ? d.trans_a : !d.trans_b);
    else
        gemm_plan(&matmul->plan, d.batch, m, n, d.k, threads, direct);
    matmul->prim = (BuiltinPrim){ .head = { .backend = backend_builtin(),
                                            .workspace_bytes = matmul->plan.workspace_bytes,
                                            .impl = amx ? amx_word("builtin:bf16", "builtin:amx")
                                                        : "builtin:gemm" },
                                  .run = builtin_matmul_run };
    *prim = &matmul->prim.head;
    return OK;
}

bool builtin_pays_matmul(const MatmulDesc *d)
{
    return d->type_a == F32 && d->type_b == F32 && d->type_c == F32 && d->batch == 1 &&
           d->k <= 384 && d->n >= 512 && d->m >= (4 << 20) / d->n;
}

/* At few positions the weights decide: here they are read once, where oneDNN would first bring them
 * into another order. */
static bool few_positions(const ConvDesc *d)
{
    enum { MAX_POSITIONS = 32, MIN_WEIGHTS = 1 << 19 };
    int64_t positions = conv_samples(d), taps = 1;
    for (int i = 0; i < 3; i++) {
        positions *= d->out[i];
        taps *= d->kernel[i];
    }
    return d->type_x == F32 && d->type_w == F32 && d->type_y == F32 && positions <= MAX_POSITIONS &&
           d->ci * d->co * taps >= MIN_WEIGHTS && (taps > 1 || d->kind != CONV_BACKWARD_DATA);
}

bool builtin_pays_conv(const ConvDesc *d)
{
    if (!conv_is_plain(d))
        return false;
    if (few_positions(d))
        return true;
    if (d->type_x != F32 || d->type_y != F32 || d->stride[2] == 1 || d->kernel[2] == 1)
        return false;
    if (d->kind == CONV_BACKWARD_WEIGHTS)
        return d->ci >= 128 && d->co >= 128;
    return d->kind == CONV_BACKWARD_DATA && d->type_w == F32 && d->ci >= 64 && d->co >= 64 &&
           d->in[2] >= 16 * d->stride[2];
}

void builtin_jobs(const BuiltinPrim *prim, const PrimArgs *args, int threads, BuiltinJob *job_run)
{
    if (threads == 1) { /* no parallel region: see gemm_run */
        job_run(prim, args, 0);
        return;
    }
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int job = 0; job < threads; job++)
        job_run(prim, args, job);
}

static Err builtin_run(const Prim *prim, const PrimArgs *args)
{
    const BuiltinPrim *builtin = (const BuiltinPrim *)prim;
    builtin->run(builtin, args);
    return OK;
}

const Backend *backend_builtin(void)
{
    static const Backend builtin = { .name = "builtin",
                                     .version = "1",
                                     .bf16_pays = true,
                                     .matmul = builtin_matmul,
                                     .conv = conv_builtin,
                                     .run = builtin_run };
    return &builtin;
}

const Backend *backend_lean(void)
{
    static const Backend lean = { .name = "builtin",
                                  .version = "1",
                                  .bf16_pays = true,
                                  .matmul = builtin_matmul,
                                  .conv = conv_builtin_lean,
                                  .run = builtin_run };
    return &lean;
}
