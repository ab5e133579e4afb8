/* linalg.h -- matrix products and convolutions, by the backend that is fastest on this CPU.
 *
 * A Backend is the built-in one (always there, complete, fixed order of summation) or oneDNN,
 * loaded from libplimsoll_dnnl.so if present. Before planning, a backend says how many workspace
 * bytes a call needs with a number of threads; in every step it runs the call and allocates no more
 * than it stated. Workspace belongs to the caller.
 *
 * Layouts: matrices are row-major with leading dimensions; images are channels-last (N,D,H,W,C),
 * 2-D ones with D = 1; convolution weights are (KD,KH,KW,I/groups,O). All sums are fp32.
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
    int64_t lda, ldb, ldc;                /* elements between rows as stored */
    int64_t stride_a, stride_b, stride_c; /* elements between batches; stride 0: shared */
    Type    type_a, type_b, type_c, type_bias;
    bool    trans_a, trans_b;
    bool    bias; /* n values, one per column */
    bool    accumulate;
} MatmulDesc;

typedef enum ConvKind {
    CONV_FORWARD,          /* y  = x * w + bias */
    CONV_BACKWARD_DATA,    /* dx = dy * w^T */
    CONV_BACKWARD_WEIGHTS, /* dw = x^T * dy */
} ConvKind;

/* Axes of in/out/kernel/stride/dilation/pad are D, H, W.
 * out = (in + pad_lo + pad_hi - conv_reach(kernel, dilation)) / stride + 1; pad_hi may be negative.
 * Channels ci and co are those of the images; output channel o reads the ci/groups input channels of
 * group o / (co/groups). Dilation and groups: 0 reads as 1. */
typedef struct ConvDesc {
    ConvKind kind;
    int64_t  n, ci, co;
    int64_t  in[3], out[3], kernel[3], stride[3], pad_lo[3], pad_hi[3];
    int64_t  dilation[3], groups;
    Type     type_x, type_w, type_y, type_bias; /* of x or dx, w or dw, y or dy, bias */
    bool     bias;                              /* forward only: co values */
    int64_t  n_all; /* algorithms are chosen as for so many samples, of which n are here; 0: n */
} ConvDesc;

static inline int64_t conv_samples(const ConvDesc *d) { return d->n_all ? d->n_all : d->n; }

/* Positions from the first to the last that a kernel covers. */
static inline int64_t conv_reach(int64_t kernel, int64_t dilation)
{
    return (kernel - 1) * (dilation ? dilation : 1) + 1;
}
static inline int64_t conv_groups(const ConvDesc *d) { return d->groups ? d->groups : 1; }
static inline int64_t conv_dilation(const ConvDesc *d, int axis)
{
    return d->dilation[axis] ? d->dilation[axis] : 1;
}
/* With 1 where dilation or groups are 0. */
static inline ConvDesc conv_filled(const ConvDesc *d)
{
    ConvDesc filled = *d;
    filled.groups = conv_groups(d);
    for (int i = 0; i < 3; i++)
        filled.dilation[i] = conv_dilation(d, i);
    return filled;
}
/* Is it an ordinary convolution: one group, adjacent taps? */
static inline bool conv_is_plain(const ConvDesc *d)
{
    bool plain = conv_groups(d) == 1;
    for (int i = 0; i < 3; i++)
        plain = plain && (d->kernel[i] == 1 || conv_dilation(d, i) == 1);
    return plain;
}

typedef struct Prim Prim; /* a call prepared for one description and number of threads */

typedef struct PrimArgs {   /* matmul: a, b, bias -> c. conv: a = x, b = w, c = y for all kinds; */
    void        *a, *b, *c; /* the kind says which of them is written */
    const void  *bias;
    void        *workspace;
    /* GPU only: what an accumulating product, or the gradient of a convolution's weight, adds its
     * sum to. NULL: the product adds to c, the gradient to nothing. */
    const void  *before;
    float       *sums;        /* GPU only: column sums of dy, if the primitive computes them, */
    const float *sums_before; /* plus these, unless NULL */
} PrimArgs;

struct Backend {
    const char *name;    /* "builtin", "onednn" */
    const char *version; /* written into plans */
    /* its bf16 is no slower on this machine than built-in fp32 products of bf16 data */
    bool        bf16_pays;
    bool        alone; /* GPU: the built-in backend cannot take over */
    /* GPU: in 2-byte types, convolutions of upsampled maps are faster as sub-pixel convolutions */
    bool        subpixel;
    /* E_DEVICE if this backend cannot do it exactly; the built-in one then takes over. */
    Err (*matmul)(Pool *pool, const MatmulDesc *desc, int threads, Prim **prim);
    Err (*conv)(Pool *pool, const ConvDesc *desc, int threads, Prim **prim);
    Err (*run)(const Prim *prim, const PrimArgs *args);
};

struct Prim { /* every backend's primitive begins with this */
    const Backend *backend;
    size_t         workspace_bytes; /* exact, if it starts at a multiple of 64 */
    const char    *impl;            /* the implementation's name, for reports */
    bool           sums; /* a weight gradient that can also compute the column sums of dy */
};

const Backend *backend_builtin(void);
/* The built-in backend without algorithms that trade workspace for speed. */
const Backend *backend_lean(void);
/* NULL without the plugin; backend_why() then gives the reason */
const Backend *backend_dnnl(void);
const char    *backend_why(void);

/* A primitive of the preferred backend if that can do it and is faster, else of the built-in one.
 * Cached by description and threads for the life of the process, so asking twice is cheap. */
Err linalg_matmul(const Backend *preferred, const MatmulDesc *desc, int threads, const Prim **prim);
Err linalg_conv(const Backend *preferred, const ConvDesc *desc, int threads, const Prim **prim);

/* For kernels that do their own tiling (attention): one thread, fp32, C = alpha*op(A)op(B) +
 * beta*C. Workspace: gemm_tile_workspace(m, n, k) bytes, 64-byte aligned. */
size_t gemm_tile_workspace(int64_t m, int64_t n, int64_t k);
void   gemm_tile(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, float alpha,
                 const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                 int64_t ldc, void *workspace);

#endif
