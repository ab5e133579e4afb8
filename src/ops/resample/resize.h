/* resize.h -- other sizes of maps (N,L,C), (N,H,W,C), (N,D,H,W,C): nearest, linear, cubic, adaptive
 * average.
 *
 * Each is separable: an output row is a weighted sum of a few input rows, and likewise for columns.
 * The gradient is the same operation with the transposed weights, so it adds in a fixed order.
 * Index rules are PyTorch's.
 */
#ifndef OPS_RESAMPLE_RESIZE_H
#define OPS_RESAMPLE_RESIZE_H

#include "ir/op.h"

typedef enum ResizeMode {
    RESIZE_NEAREST,
    RESIZE_BILINEAR, /* linear along each axis, however many there are */
    RESIZE_BICUBIC,  /* a = -0.75; with antialias -0.5 */
    RESIZE_AREA,     /* adaptive average: i covers floor(i in/out) .. ceil((i+1) in/out) */
    RESIZE_NEAREST_EXACT,
    RESIZE_MODES
} ResizeMode;

typedef struct ResizeAttr {
    ResizeMode mode;
    bool       align_corners; /* linear and cubic: the outermost pixels keep their places */
    bool       antialias;     /* linear and cubic: the filter widens as the map shrinks */
    int64_t    size[3];       /* of the result, per axis between N and C, the first axis first */
    double     scale[3];      /* PyTorch's scale_factor where it decides places, or 0: by sizes */
} ResizeAttr;

Tensor resize(Tensor x, int64_t height, int64_t width, ResizeMode mode);
Tensor resize_op(Tensor x, ResizeAttr attr);
Tensor adaptive_avg_pool(Tensor x, int64_t height, int64_t width);

/* One axis as the forward operation sees it; an absent one has one value and one result. */
typedef struct ResizeAxis {
    ResizeMode mode;
    bool       align_corners, antialias;
    int64_t    in, out;
    double     scale;
} ResizeAxis;

/* Depth, height and width of a map resized from shape `in` to shape `out`. A single axis is the
 * height, so that there are many rows to share among threads. */
void resize_axes(const ResizeAttr *attr, Shape in, Shape out, ResizeAxis axes[3]);

Err resize_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err resize_cpu(const Call *call);
Err resize_grad_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err resize_grad_cpu(const Call *call);

#endif
