/* linalg.h -- matrix products and convolutions, by whoever does them best on this CPU.
 *
 * A Backend is a provider: the own one (always there, complete, fixed reduction order) or oneDNN's,
 * loaded from libplimsoll_dnnl.so when present. Both answer the same two questions: how many
 * workspace bytes will this call need with this many threads (before planning), and do it (every
 * step, without allocating more than a provider states). Workspace belongs to the caller.
 *
 * Layouts: matrices are row-major with leading dimensions; images are channels-last (N,D,H,W,C),
 * 2-D ones with D = 1; convolution weights are (KD,KH,KW,I,O). All sums are fp32.
 */
#ifndef LINALG_LINALG_H
#define LINALG_LINALG_H

#include "base/err.h"
#include "base/pool.h"
#include "device/device.h"
#include "device/type.h"

#include <stdbool.h>
#include <stddef.h>

/* C[b] = op(A[b]) op(B[b]) + bias (+ C[b] if accumulate), b = 0..batch-1.
 * op(A) is m x k: stored m x k with row length lda, or k x m if trans_a. op(B) is k x n
 * likewise. */
typedef struct MatmulDesc {
    int64_t batch, m, n, k;
    int64_t lda, ldb, ldc;                   /* elements between rows as stored */
    int64_t stride_a, stride_b, stride_c;    /* elements between batches; stride 0: shared */
    Type    type_a, type_b, type_c, type_bias;
    bool    trans_a, trans_b;
    bool    bias;                            /* n values, one per column */
    bool    accumulate;
} MatmulDesc;

typedef enum ConvKind {
    CONV_FORWARD,            /* y  = x * w + bias */
    CONV_BACKWARD_DATA,      /* dx = dy * w^T */
    CONV_BACKWARD_WEIGHTS,   /* dw = x^T * dy */
} ConvKind;

/* Axes of in/out/kernel/stride/pad are D, H, W. out = (in + pad_lo + pad_hi - kernel) / stride +
 * 1. */
typedef struct ConvDesc {
    ConvKind kind;
    int64_t  n, ci, co;
    int64_t  in[3], out[3], kernel[3], stride[3], pad_lo[3], pad_hi[3];
    Type     type_x, type_w, type_y, type_bias;  /* of x or dx, w or dw, y or dy, bias */
    bool     bias;                               /* forward only: co values */
} ConvDesc;

typedef struct Prim Prim;    /* a call made ready for one description and thread count */

typedef struct PrimArgs {    /* matmul: a, b, bias -> c. conv: a = x, b = w, c = y in every kind: */
    void *a, *b, *c;         /* the one that is written depends on the kind */
    const void *bias;
    void *workspace;
    /* On a GPU, where an accumulating product or the gradient of a convolution's weight finds what
     * it adds its own sum to. NULL: the product in c, the gradient adds to nothing. */
    const void  *before;
    float       *sums;       /* there too: column sums of dy, if the primitive makes them; */
    const float *sums_before;    /* added to these, or NULL */
} PrimArgs;

struct Backend {
    const char *name;        /* "own", "onednn" */
    const char *version;     /* written into plans */
    /* its bf16 is no slower than own's (2-byte storage, fp32 products) here */
    bool        bf16_pays;
    bool        alone;       /* on a GPU: the own provider cannot stand in */
    /* on a GPU: convolutions of enlarged maps are faster from the small one, in 2-byte types */
    bool        subpixel;
    /* E_DEVICE if this provider cannot do it exactly; the caller then takes the own one. */
    Err  (*matmul)(Pool *pool, const MatmulDesc *desc, int threads, Prim **prim);
    Err  (*conv)(Pool *pool, const ConvDesc *desc, int threads, Prim **prim);
    Err  (*run)(const Prim *prim, const PrimArgs *args);
};

struct Prim {                /* every provider's primitive begins with this */
    const Backend *backend;
    size_t      workspace_bytes;   /* exact, 64-byte aligned start assumed */
    const char *impl;            /* the implementation's name, for reports */
    bool        sums;            /* a weight gradient that can give the column sums of dy as well */
};

const Backend *backend_builtin(void);
/* The own provider without algorithms that take more workspace to be faster. */
const Backend *backend_lean(void);
/* NULL when the plugin is not there; says why in backend_why() */
const Backend *backend_dnnl(void);
const char *backend_why(void);

/* The best provider's primitive: preferred if it can and it pays, else own. Cached by description
 * and threads for the life of the process, so asking twice is cheap. */
Err linalg_matmul(const Backend *preferred, const MatmulDesc *desc, int threads, const Prim **prim);
Err linalg_conv(const Backend *preferred, const ConvDesc *desc, int threads, const Prim **prim);

/* For kernels that tile by themselves (attention): one thread, fp32, C = alpha*op(A)op(B) + beta*C.
 * Workspace: gemm_tile_workspace(m, n, k) bytes, 64-byte aligned. */
size_t gemm_tile_workspace(int64_t m, int64_t n, int64_t k);
void   gemm_tile(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, float alpha,
                 const float *a, int64_t lda, const float *b, int64_t ldb,
                 float beta, float *c, int64_t ldc, void *workspace);

#endif
