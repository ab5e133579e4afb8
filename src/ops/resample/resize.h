/* resize.h -- other sizes of an image (N,H,W,C): nearest, bilinear, bicubic, adaptive average.
 *
 * Each is separable: an output row is a weighted sum of a few input rows, and likewise for columns.
 * The gradient is the same operation with the transposed weights, so it adds in a fixed order.
 * Index rules are PyTorch's, align_corners false, no antialiasing.
 */
#ifndef OPS_RESAMPLE_RESIZE_H
#define OPS_RESAMPLE_RESIZE_H

#include "ir/op.h"

typedef enum ResizeMode {
    RESIZE_NEAREST,
    RESIZE_BILINEAR,
    RESIZE_BICUBIC,              /* a = -0.75 */
    RESIZE_AREA,  /* adaptive average: i covers floor(i in/out) .. ceil((i+1) in/out) */
    RESIZE_MODES
} ResizeMode;

typedef struct ResizeAttr {
    ResizeMode mode;
    int64_t    height, width;    /* of the output; of the gradient's output, which is the input */
} ResizeAttr;

Tensor resize(Tensor x, int64_t height, int64_t width, ResizeMode mode);
Tensor adaptive_avg_pool(Tensor x, int64_t height, int64_t width);

Err resize_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err resize_cpu(const Call *call);
Err resize_grad_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err resize_grad_cpu(const Call *call);

#endif
