/* plugin_cuda_linalg.h -- products and convolutions on a GPU, behind the same interface as the
 * CPU's.
 *
 * cuBLASLt computes matrix products. Convolutions use built-in kernels, cuDNN where it has a
 * deterministic engine for the shape, or im2col and matrix products. The workspace of a product
 * depends on its shape only, so that plans made without a GPU are the same; that of a convolution
 * also on cuDNN's engine. */
#ifndef LINALG_PLUGIN_CUDA_LINALG_H
#define LINALG_PLUGIN_CUDA_LINALG_H

#include "linalg/linalg.h"
#include "device/cuda.h"

const Backend *cuda_backend(const CudaHandle *handle); /* blaslt NULL: only to plan */
/* cuBLASLt and cuDNN: make their handles, prepare to plan for a described GPU, give their
 * versions. */
Err            cuda_libraries_open(CudaHandle *handle);
Err            cuda_libraries_describe(CudaHandle *handle, const char *json);
const char    *cuda_libraries_versions(void);

/* A prepared product (plugin_cuda_matmul.c). */
typedef struct CudaMatmul CudaMatmul;
size_t                    cuda_matmul_workspace(const MatmulDesc *desc);
Err cuda_matmul_new(Pool *pool, const CudaHandle *handle, const MatmulDesc *desc,
                    CudaMatmul **matmul);
/* before: what an accumulating product adds to; NULL: c */
Err cuda_matmul_run(const CudaMatmul *matmul, const void *a, const void *b, const void *bias,
                    const void *before, void *c, void *workspace);

/* The same for widths that are 4 more than a multiple of 8, where it is faster
 * (plugin_cuda_pairs.c). */
typedef struct CudaPairs CudaPairs;
bool                     cuda_pairs_pay(const MatmulDesc *desc);
size_t                   cuda_pairs_workspace(const MatmulDesc *desc);
Err cuda_pairs_new(Pool *pool, const CudaHandle *handle, const MatmulDesc *desc, CudaPairs **pairs);
Err cuda_pairs_run(const CudaPairs *pairs, const void *a, const void *b, const void *bias,
                   const void *before, void *c, void *workspace);

/* A convolution by cuDNN; E_DEVICE if it has no suitable engine. Weights are (O, KD, KH, KW,
 * I/groups). */
typedef struct CudnnConv CudnnConv;
Err    cudnn_describe(const char *json, void **described); /* json: of a GPU, by cuDNN */
Err    cudnn_conv_new(Pool *pool, const CudaHandle *handle, const ConvDesc *desc, CudnnConv **conv);
size_t cudnn_conv_workspace(const CudnnConv *conv);
const char *cudnn_conv_name(const CudnnConv *conv);
Err         cudnn_conv_run(const CudnnConv *conv, void *x, void *w, void *y, void *workspace);

/* im2col_cuda.cu: kernels around them. A row of unfolded windows holds the taps and channels that
 * one output position (n, d, h, w) reads; rows are counted from position `first`. */
typedef struct Im2colDesc {
    int64_t ci;    /* channels of a window: those of one group */
    int64_t pixel; /* elements from one position of x to the next */
    int64_t in[3], out[3], kernel[3], stride[3], pad_lo[3], dilation[3];
    int64_t pitch; /* elements from one row of windows to the next */
} Im2colDesc;

Err cuda_im2col(cudaStream_t stream, const Im2colDesc *d, Type type, const void *x, int64_t first,
                int64_t rows, void *windows);
/* The adjoint: dx[image][from..to) along axis 0 or 1 of (d, h) is the sum of all fp32 window
 * elements that stand for it; the rows of windows start at `first`. */
Err cuda_col2im(cudaStream_t stream, const Im2colDesc *d, Type type, void *dx, int64_t image,
                int axis, int64_t from, int64_t to, const float *windows, int64_t first,
                int64_t rows);
/* to = before + the transpose of from; before may be NULL */
Err cuda_transpose(cudaStream_t stream, Type type, const void *from, int64_t rows, int64_t columns,
                   const void *before, void *to);
/* dw (taps, I, O) = before + transposed (taps in reverse order, O, I); before may be NULL */
Err cuda_transpose_taps(cudaStream_t stream, const float *transposed, int64_t taps, int64_t in,
                        int64_t out, const float *before, float *dw);
Err cuda_add_bias(cudaStream_t stream, Type type, void *y, int64_t pitch, Type type_bias,
                  const void *bias, int64_t rows, int64_t width);

Err cuda_widen(cudaStream_t stream, Type type, const void *from, int64_t count, float *to);
/* y = before (or 0) + partial sum 0 + partial sum 1 + ..., each of `count` numbers, in this
 * order. */
Err cuda_sum_partials(cudaStream_t stream, const float *partials, int64_t n, int64_t count,
                      const float *before, float *y);

/* im2col_cuda.cu, for pairs of rows. The weight of a pair has W (k x n, or n x k if transposed)
 * twice on its diagonal; `to` gets blocks of it, and the pair's bias for the block's columns. */
typedef struct PairsBlock {
    int64_t from_k, k, from_n, n;
} PairsBlock;
typedef struct PairsWeight {
    int64_t    k, n, bias_bytes; /* bias_bytes: of one number; 0: no bias */
    bool       transposed;
    int        n_blocks;
    PairsBlock block[3];
    size_t     at[3], bias_at[3]; /* bytes into `to` */
} PairsWeight;
Err cuda_pairs_weight(cudaStream_t stream, const PairsWeight *d, const void *w, const void *bias,
                      char *to);
/* y (m x n) = before (or 0) + even[i][j] + odd[i + over_m][j + over_n], whose rows have n + over_n
 * numbers. */
Err cuda_pairs_sum(cudaStream_t stream, const float *even, const float *odd, int64_t m, int64_t n,
                   int64_t over_m, int64_t over_n, const float *before, float *y);

#endif
