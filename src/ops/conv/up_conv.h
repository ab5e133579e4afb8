/* up_conv.h -- a 3x3 convolution of a map upsampled `up` times (nearest), computed from the small
 * map: a sub-pixel convolution.
 *
 * A row of the large map repeats a row of the small one, so two or all of the three rows that a
 * kernel covers are the same: output row up*h + a is
 *
 *   a = 0            x[h-1] w0 + x[h] (w1 + w2)
 *   0 < a < up - 1   x[h] (w0 + w1 + w2)
 *   a = up - 1       x[h] (w0 + w1) + x[h+1] w2
 *
 * and columns likewise: up + 2 products along an axis where the large map needs 3 up, so 4 instead
 * of 9 per pixel for up = 2 and 2.25 for up = 4. x is (N,H,W,I), the weight (3,3,I,O), padding 1.
 */
#ifndef OPS_CONV_UP_CONV_H
#define OPS_CONV_UP_CONV_H

#include "ir/op.h"
#include "linalg/linalg.h"

enum { UP_CONV_MAX = 4 };

typedef struct UpConvAttr {
    int64_t up; /* 2 .. UP_CONV_MAX */
} UpConvAttr;

typedef struct UpConvWAttr { /* of the weight gradient */
    int64_t up;
    bool    bias; /* the gradient of the bias is wanted too */
} UpConvWAttr;

Tensor up_conv(Tensor x, Tensor w, Tensor bias_or_none, int64_t up);
/* True if it is asked for and the kernels take so many channels; else upsample the map first. */
bool   up_conv_pays(const Graph *graph, int64_t in, int64_t out, int64_t up);

/* The convolution of the large map that the node stands for. */
ConvDesc up_conv_desc(const Node *n);
int64_t  up_conv_factor(const Node *n);

Err up_conv_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err up_conv_prepare_cpu(Pool *pool, Call *call);
Err up_conv_cpu(const Call *call);
Err up_conv_grad_x_cpu(const Call *call);
Err up_conv_grad_w_cpu(const Call *call);

#endif
