/* conv.h -- convolutions over channels-last images and volumes, transposed ones, gradients.
 *
 * x is (N,H,W,C) or (N,D,H,W,C); the weight in the arena is (KH,KW,I,O) or (KD,KH,KW,I,O). For a
 * transposed convolution I is the number of channels of its *output* and O that of its input: it is
 * the data gradient of the convolution with the same weight.
 */
#ifndef OPS_CONV_CONV_H
#define OPS_CONV_CONV_H

#include "ir/op.h"
#include "linalg/linalg.h"

typedef struct ConvAttr {        /* axes D, H, W; D is 1/1/0 for images */
    int64_t stride[3], pad_lo[3], pad_hi[3];
    int64_t in[3];               /* filled by the builders: extents of the wider side */
} ConvAttr;

typedef struct ConvWAttr {       /* of the weight gradient, which does not read the weight */
    ConvAttr conv;
    Shape    shape;
    bool     bias;               /* the bias gradient too, so that dy is read once */
} ConvWAttr;

ConvAttr conv_attr(int stride, int pad);                     /* the same on H and W */
Tensor   conv_op(Tensor x, Tensor w, Tensor bias_or_none, ConvAttr attr);
/* onto + the convolution: a 1x1 convolution is a product, which adds by itself */
Tensor   conv_onto(Tensor x, Tensor w, Tensor bias_or_none, Tensor onto, ConvAttr attr);
Tensor   conv_transpose_op(Tensor x, Tensor w, Tensor bias_or_none, ConvAttr attr);

/* Workspaces are divided at multiples of these bytes. */
enum { CONV_CPU_ALIGN = 64, CONV_CUDA_ALIGN = 256 };
static inline size_t conv_align(size_t bytes, size_t align)
{
    return (bytes + align - 1) / align * align;
}

/* The primitive that runs the node. */
Err conv_prim(const Node *n, const Device *device, const Prim **prim);
/* _linalg: by the device's backend for convolutions. */
Err conv_choose_linalg(const Node *n, const Device *device, Choice *choice);
Err conv_prepare_linalg(Pool *pool, Call *call);
Err conv_linalg(const Call *call);
Err conv_grad_x_linalg(const Call *call);
Err conv_grad_w_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err conv_grad_w_cpu(const Call *call);

#endif
