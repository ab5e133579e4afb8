/* plugin_cuda_matmul.c -- one matrix product by cuBLASLt.
 *
 * Row-major C = A B is column-major C' = B' A', so the operands are exchanged. The library's
 * heuristic chooses the algorithm, the same in every run; reductions with atomics are excluded. If
 * the factors have two types, the narrow one is converted to fp32. A pointer into the middle of a
 * buffer may not be 16-byte aligned, so there is one algorithm for aligned pointers and one for
 * any. */
#include "linalg/plugin_cuda_linalg.h"

#include "base/int_math.h"

#include <cublasLt.h>

typedef struct Product { /* one call of the library */
    MatmulDesc             desc;
    cublasLtMatmulDesc_t   op;
    cublasLtMatrixLayout_t a, b, c; /* a is B of the desc, b its A */
    cublasLtMatmulAlgo_t   aligned, loose;
    size_t                 workspace;
} Product;

struct CudaMatmul {
    const CudaHandle *handle;
    MatmulDesc        desc;
    CudaPairs        *pairs;      /* computed by these instead, or NULL */
    Product           main, tail; /* tail: the rest of a split-K sum */
    /* split-K: partial sums of `depth` terms each; 1: not split */
    int64_t           splits, depth;
    size_t            widened;    /* bytes of the factor converted to fp32 */
    bool              bias_after; /* the library cannot add a bias of this type */
};

enum { ALIGNED = 16, WORKSPACE_ALIGN = 256 }; /* bytes */

#define LT_TRY(call)                                                                               \
    do {                                                                                           \
        cublasStatus_t lt_err_ = (call);                                                           \
        if (lt_err_ != CUBLAS_STATUS_SUCCESS)                                                      \
            return fail(E_DEVICE, "%s: cuBLASLt status %d (%s:%d)", #call, (int)lt_err_, __FILE__, \
                        __LINE__);                                                                 \
    } while (0)

static cudaDataType_t lt_type(Type type)
{
    return type == BF16 ? CUDA_R_16BF : type == F16 ? CUDA_R_16F : CUDA_R_32F;
}

/* The library's workspace: room for a few partial results of split-K, 32 MiB at most, which NVIDIA
 * recommends for large products. A small product gets little, so that it does not determine the
 * peak of a small model. */
static size_t lt_workspace(const MatmulDesc *d)
{
    enum { PARTIALS = 8, MIN_BYTES = 64 << 10, MAX_BYTES = 32 << 20 };
    size_t partial = (size_t)(d->batch * d->m * d->n) * sizeof(float);
    size_t want = partial > MAX_BYTES / PARTIALS ? MAX_BYTES : partial * PARTIALS;
    return want < MIN_BYTES ? MIN_BYTES : want / WORKSPACE_ALIGN * WORKSPACE_ALIGN;
}

/* A weight gradient is a small matrix of very long sums: too few tiles to fill a GPU. So its sums
 * are split (split-K): one batched call computes equal splits, whose partial sums are added in
 * order. */
enum { TILE = 128, GPU_TILES = 264, MIN_DEPTH = 1024, MAX_SPLITS = 64 };

static int64_t matmul_splits(const MatmulDesc *d)
{
    int64_t tiles = ceil_div(d->m, TILE) * ceil_div(d->n, TILE),
            splits = GPU_TILES / (tiles ? tiles : 1);
    if (d->batch != 1 || d->bias || d->type_c != F32 || d->ldc != d->n)
        return 1;
    splits = splits > MAX_SPLITS ? MAX_SPLITS : splits;
    splits = splits > d->k / MIN_DEPTH ? d->k / MIN_DEPTH : splits;
    return splits < 2 ? 1 : splits;
}

static size_t matmul_widened(const MatmulDesc *d)
{
    int64_t rows_a = d->trans_a ? d->k : d->m, rows_b = d->trans_b ? d->n : d->k;
    if (d->type_a == d->type_b)
        return 0;
    int64_t count = d->type_a == F32 ? rows_b * d->ldb : rows_a * d->lda;
    return align_bytes((size_t)count * sizeof(float), WORKSPACE_ALIGN);
}

static MatmulDesc split_desc(const MatmulDesc *d, int64_t splits, int64_t depth)
{
    MatmulDesc split = *d;
    split.accumulate = false;
    split.batch = splits;
    split.k = depth;
    split.stride_a = depth * (d->trans_a ? d->lda : 1);
    split.stride_b = depth * (d->trans_b ? 1 : d->ldb);
    split.stride_c = d->m * d->n;
    return split;
}

static int64_t split_depth(const MatmulDesc *d, int64_t splits) { return d->k / splits / 64 * 64; }

static size_t partial_bytes(const MatmulDesc *d, int64_t splits)
{
    if (splits < 2)
        return 0;
    return align_bytes((size_t)((splits + 1) * d->m * d->n) * sizeof(float), WORKSPACE_ALIGN);
}

size_t cuda_matmul_workspace(const MatmulDesc *d)
{
    int64_t splits = matmul_splits(d);
    if (cuda_pairs_pay(d))
        return cuda_pairs_workspace(d);
    MatmulDesc split = splits > 1 ? split_desc(d, splits, split_depth(d, splits)) : *d;
    return lt_workspace(&split) + partial_bytes(d, splits) + matmul_widened(d);
}

static Err lt_layout(cublasLtMatrixLayout_t *layout, Type type, int64_t rows, int64_t columns,
                     int64_t ld, int64_t batch, int64_t stride)
{
    int32_t count = (int32_t)batch;
    LT_TRY(
        cublasLtMatrixLayoutCreate(layout, lt_type(type), (uint64_t)rows, (uint64_t)columns, ld));
    if (batch > 1) {
        LT_TRY(cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                                sizeof count));
        LT_TRY(cublasLtMatrixLayoutSetAttribute(
            *layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride));
    }
    return OK;
}

static Err lt_algo(const CudaHandle *handle, const Product *m, uint32_t align,
                   cublasLtMatmulAlgo_t *algo)
{
    cublasLtMatmulPreference_t      pref;
    cublasLtMatmulHeuristicResult_t found;
    int                             n = 0;
    uint32_t sums = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
    uint64_t workspace = m->workspace;
    LT_TRY(cublasLtMatmulPreferenceCreate(&pref));
    LT_TRY(cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                &workspace, sizeof workspace));
    LT_TRY(cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                &sums, sizeof sums));
    const cublasLtMatmulPreferenceAttributes_t aligns[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES
    };
    for (int i = 0; i < 4; i++)
        LT_TRY(cublasLtMatmulPreferenceSetAttribute(pref, aligns[i], &align, sizeof align));
    cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle->blaslt, m->op, m->a, m->b, m->c,
                                                           m->c, pref, 1, &found, &n);
    cublasLtMatmulPreferenceDestroy(pref);
    if (status != CUBLAS_STATUS_SUCCESS || n < 1)
        return fail(E_DEVICE,
                    "cuBLASLt has no algorithm for a %lldx%lldx%lld product of %s and %s into %s "
                    "(status %d)",
                    (long long)m->desc.m, (long long)m->desc.n, (long long)m->desc.k,
                    type_name(m->desc.type_a), type_name(m->desc.type_b), type_name(m->desc.type_c),
                    (int)status);
    *algo = found.algo;
    return OK;
}

static void product_undo(void *arg)
{
    Product *m = arg;
    cublasLtMatrixLayoutDestroy(m->a);
    cublasLtMatrixLayoutDestroy(m->b);
    cublasLtMatrixLayoutDestroy(m->c);
    cublasLtMatmulDescDestroy(m->op);
}

static Err product_new(Pool *pool, const CudaHandle *handle, const MatmulDesc *d, Product *m)
{
    m->desc = *d;
    m->workspace = lt_workspace(d);
    if (!handle->blaslt)
        return OK;
    cublasComputeType_t compute = d->type_a == F32 && handle->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                                   : CUBLAS_COMPUTE_32F;
    LT_TRY(cublasLtMatmulDescCreate(&m->op, compute, CUDA_R_32F));
    cublasOperation_t t = CUBLAS_OP_T;
    if (d->trans_b)
        LT_TRY(cublasLtMatmulDescSetAttribute(m->op, CUBLASLT_MATMUL_DESC_TRANSA, &t, sizeof t));
    if (d->trans_a)
        LT_TRY(cublasLtMatmulDescSetAttribute(m->op, CUBLASLT_MATMUL_DESC_TRANSB, &t, sizeof t));
    if (d->bias) {
        cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
        LT_TRY(cublasLtMatmulDescSetAttribute(m->op, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                              sizeof epilogue));
    }
    TRY(lt_layout(&m->a, d->type_b, d->trans_b ? d->k : d->n, d->trans_b ? d->n : d->k, d->ldb,
                  d->batch, d->stride_b));
    TRY(lt_layout(&m->b, d->type_a, d->trans_a ? d->m : d->k, d->trans_a ? d->k : d->m, d->lda,
                  d->batch, d->stride_a));
    TRY(lt_layout(&m->c, d->type_c, d->n, d->m, d->ldc, d->batch, d->stride_c));
    pool_at_free(pool, product_undo, m);
    TRY(lt_algo(handle, m, ALIGNED, &m->aligned));
    return lt_algo(handle, m, (uint32_t)type_bytes(d->type_a), &m->loose);
}

Err cuda_matmul_new(Pool *pool, const CudaHandle *handle, const MatmulDesc *d, CudaMatmul **out)
{
    CudaMatmul *m = NEW(pool, CudaMatmul);
    MatmulDesc  same = *d;
    m->handle = handle;
    m->desc = *d;
    m->splits = matmul_splits(d);
    m->depth = split_depth(d, m->splits);
    m->widened = matmul_widened(d);
    m->bias_after = d->bias && d->type_bias != d->type_c;
    *out = m;
    if (cuda_pairs_pay(d))
        return cuda_pairs_new(pool, handle, d, &m->pairs);
    if (m->widened)
        same.type_a = same.type_b = F32;
    same.bias = d->bias && !m->bias_after;
    if (m->splits == 1)
        return product_new(pool, handle, &same, &m->main);
    MatmulDesc split = split_desc(&same, m->splits, m->depth);
    TRY(product_new(pool, handle, &split, &m->main));
    if (d->k == m->splits * m->depth)
        return OK;
    split = split_desc(&same, 1, d->k - m->splits * m->depth);
    TRY(product_new(pool, handle, &split, &m->tail));
    REQUIRE(m->tail.workspace <= m->main.workspace);
    return OK;
}

static Err product_run(const CudaHandle *handle, const Product *m, const void *a, const void *b,
                       const void *bias, const void *before, void *c, void *workspace)
{
    float     alpha = 1, beta = m->desc.accumulate ? 1 : 0;
    uintptr_t places = (uintptr_t)a | (uintptr_t)b | (uintptr_t)c | (uintptr_t)bias |
                       (uintptr_t)before;
    if (m->desc.bias)
        LT_TRY(cublasLtMatmulDescSetAttribute(m->op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                              sizeof bias));
    LT_TRY(cublasLtMatmul(
        handle->blaslt, m->op, &alpha, b, m->a, a, m->b, &beta, before ? before : c, m->c, c, m->c,
        places % ALIGNED == 0 ? &m->aligned : &m->loose, workspace, m->workspace, handle->stream));
    return OK;
}

/* Workspace: the library's, then partial sums, then the factor converted to fp32. */
Err cuda_matmul_run(const CudaMatmul *m, const void *a, const void *b, const void *bias,
                    const void *before, void *c, void *workspace)
{
    const MatmulDesc *d = &m->desc;
    cudaStream_t      stream = m->handle->stream;
    float            *partial = (float *)((char *)workspace + m->main.workspace);
    void             *widened = (char *)partial + partial_bytes(d, m->splits);
    if (d->m == 0 || d->n == 0 || d->batch == 0)
        return OK;
    before = !d->accumulate ? NULL : before ? before : c;
    if (m->pairs)
        return cuda_pairs_run(m->pairs, a, b, bias, before, c, workspace);
    if (m->widened) {
        const void **narrow = d->type_a == F32 ? &b : &a;
        int64_t      count = d->type_a == F32 ? (d->trans_b ? d->n : d->k) * d->ldb
                                              : (d->trans_a ? d->k : d->m) * d->lda;
        TRY(cuda_widen(stream, d->type_a == F32 ? d->type_b : d->type_a, *narrow, count, widened));
        *narrow = widened;
    }
    if (m->splits > 1) {
        int64_t element = type_bytes(m->main.desc.type_a), all = d->m * d->n, n = m->splits;
        TRY(product_run(m->handle, &m->main, a, b, NULL, NULL, partial, workspace));
        if (m->tail.desc.k) {
            TRY(product_run(m->handle, &m->tail,
                            (const char *)a + n * m->main.desc.stride_a * element,
                            (const char *)b + n * m->main.desc.stride_b * element, NULL, NULL,
                            partial + n * all, workspace));
            n++;
        }
        return cuda_sum_partials(stream, partial, n, all, before, c);
    }
    TRY(product_run(m->handle, &m->main, a, b, m->bias_after ? NULL : bias, before, c, workspace));
    if (m->bias_after)
        return cuda_add_bias(stream, d->type_c, c, d->ldc, d->type_bias, bias, d->batch * d->m,
                             d->n);
    return OK;
}
