/* grid_sample.h -- a map read at given points, as PyTorch's grid_sample in two dimensions.
 *
 * The gradient reads x and the points again; nothing else is kept. It adds to a pixel in the order
 * of the points, so every run gives the same bits.
 */
#ifndef OPS_RESAMPLE_GRID_SAMPLE_H
#define OPS_RESAMPLE_GRID_SAMPLE_H

#include "ir/op.h"

typedef enum GridMode { GRID_BILINEAR, GRID_NEAREST, GRID_BICUBIC, GRID_MODES } GridMode;
typedef enum GridPadding { GRID_ZEROS, GRID_BORDER, GRID_REFLECTION, GRID_PADDINGS } GridPadding;

typedef struct GridSampleAttr {
    GridMode    mode;    /* numbered as PyTorch's interpolation_mode */
    GridPadding padding; /* numbered as PyTorch's padding_mode */
    bool        align_corners;
    bool        wants[2];      /* gradient node: x, grid */
    int64_t     height, width; /* gradient node: of x */
} GridSampleAttr;

/* x (N,H,W,C), grid (N,P,Q,2): places (column, row) from -1 to 1; result (N,P,Q,C). */
Tensor grid_sample(Tensor x, Tensor grid, GridSampleAttr attr);

Err grid_sample_cpu(const Call *call);
Err grid_sample_grad_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err grid_sample_grad_cpu(const Call *call);

#endif
