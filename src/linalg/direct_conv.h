/* direct_conv.h -- convolutions of 2-byte types on Hopper, directly from x, w and y: no im2col, no
 * transposed weights. By direct_conv_cuda.cu, for the CUDA plugin only.
 *
 * All three kinds are one tiled product. The TMA fetches boxes of positions and channels, shifted
 * by a tap; it returns zeros outside the image, which is the padding.
 *
 *   forward   y[p, o]       = sum over taps and i of x[p + tap, i] w[tap, i, o]    rows: positions
 *   data      dx[p, i]      = sum over taps and o of dy[p - tap, o] w[tap, i, o]   rows: positions
 *   weights   dw[tap, i, o] = sum over p of x[p + tap, i] dy[p, o]        rows: channels, per tap
 *
 * The stride is 1; for forward and weights also 2: x[2 p + tap, i], every second position of x.
 */
#ifndef LINALG_DIRECT_CONV_H
#define LINALG_DIRECT_CONV_H

#include "linalg/linalg.h"
#include "device/cuda.h"

/* The plan of a convolution: depends on the description and the number of multiprocessors only. */
typedef struct DirectConv {
    ConvDesc desc;
    int      columns;           /* of a tile of the product: 64, 128, 192 or 256 */
    bool     transposed;        /* weights: rows are output channels */
    bool     joined;            /* transposed: the columns of all taps are one matrix */
    int      box[4], blocks[4]; /* positions of a box, and boxes, along N, D, H, W */
    int      tiles_m, tiles_n;  /* tiles along rows and columns; weights: of one tap, or joined */
    int      steps, splits;     /* of the sum: fetches, and split-K parts */
} DirectConv;

/* false: this convolution needs another method */
bool   direct_conv_plan(const CudaHandle *handle, const ConvDesc *desc, DirectConv *conv);
size_t direct_conv_workspace(const DirectConv *conv);

typedef struct DirectArgs { /* the kind says which of x, w, y is written */
    void        *x, *w, *y, *workspace;
    const void  *bias;        /* forward, or NULL */
    const float *before;      /* weights: dw = before + the gradient, or NULL */
    float       *sums;        /* weights: column sums of dy, or NULL; */
    const float *sums_before; /* these are added to them, unless NULL */
} DirectArgs;

Err direct_conv_run(const CudaHandle *handle, const DirectConv *conv, const DirectArgs *args);

#endif
