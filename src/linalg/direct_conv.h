/* direct_conv.h -- convolutions of 2-byte types on Hopper, straight from x, w and y: no columns, no
 * turned weights. By direct_conv_cuda.cu, for the plugin's blas only.
 *
 * All three kinds are one tiled product. The TMA fetches boxes of positions and channels,
 * shifted by a tap; what lies outside an image comes as zeros, which is the padding.
 *
 *   forward   y[p, o] = sum over taps and i of x[p + tap, i] w[tap, i, o]      rows: positions
 *   data      dx[p, i] = sum over taps and o of dy[p - tap, o] w[tap, i, o]    rows: positions
 *   weights dw[tap, i, o] = sum over p of x[p + tap, i] dy[p, o] rows: channels, per tap
 *
 * The stride is 1; forward and to the weight also 2: x[2 p + tap, i], every second position of x.
 */
#ifndef LINALG_DIRECT_CONV_H
#define LINALG_DIRECT_CONV_H

#include "linalg/linalg.h"
#include "device/cuda.h"

/* how it is done: a function of the description and the GPU's size alone */
typedef struct DirectConv {
    ConvDesc desc;
    int      columns;            /* of a tile: 64, 128, 192 or 256 */
    bool     turned;             /* weights: rows are output channels */
    bool     joined;             /* turned: the columns of all taps side by side */
    int      box[4], blocks[4];  /* positions fetched at once and how often, along N, D, H, W */
    int      tiles_m, tiles_n;   /* tiles along rows and columns; weights: of one tap, or joined */
    int      steps, splits;      /* of the sum: fetches, and pieces that are added up afterwards */
} DirectConv;

/* false: another way */
bool   direct_conv_plan(const CudaHandle *handle, const ConvDesc *desc, DirectConv *conv);
size_t direct_conv_workspace(const DirectConv *conv);

typedef struct DirectArgs {      /* the one of x, w, y that is written depends on the kind */
    void        *x, *w, *y, *workspace;
    const void  *bias;           /* forward, or NULL */
    const float *before;         /* weights: dw = before + its sum, or NULL */
    float       *sums;  /* weights: column sums of dy, added to sums_before or not; or NULL */
    const float *sums_before;
} DirectArgs;

Err direct_conv_run(const CudaHandle *handle, const DirectConv *conv, const DirectArgs *args);

#endif
