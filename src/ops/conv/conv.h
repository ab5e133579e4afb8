/* conv.h -- convolutions over channels-last images and volumes, transposed ones, gradients.
 *
 * x is (N,H,W,C) or (N,D,H,W,C); the weight in the arena is (KH,KW,I,O) or (KD,KH,KW,I,O). For a
 * transposed convolution I is the width of its *output* and O that of its input: it is the
 * data gradient of the convolution with the same weight.
 */
#ifndef OPS_CONV_CONV_H
#define OPS_CONV_CONV_H

#include "ir/op.h"
#include "linalg/linalg.h"

typedef struct ConvAttr {        /* axes D, H, W; D is 1/1/0 for images */
    int64_t stride[3], pad_lo[3], pad_hi[3];
    int64_t in[3];               /* filled by the builders: extents of the wider side */
} ConvAttr;

typedef struct ConvWAttr {  /* of the weight gradient: the weight's extents without its bytes */
    ConvAttr conv;
    Shape    shape;
    bool     bias;  /* the gradient of the bias is wanted too: dy is read once for both */
} ConvWAttr;

ConvAttr conv_attr(int stride, int pad);                     /* the same on H and W */
Tensor   conv_op(Tensor x, Tensor w, Tensor bias_or_none, ConvAttr attr);
/* onto + that: by the product itself where it is one (1x1) */
Tensor   conv_onto(Tensor x, Tensor w, Tensor bias_or_none, Tensor onto, ConvAttr attr);
Tensor   conv_transpose_op(Tensor x, Tensor w, Tensor bias_or_none, ConvAttr attr);

/* what does the node, and its workspace */
Err conv_prim(const Node *n, const Device *device, const Prim **prim);
/* _blas: by whoever does convolutions on the device. */
Err conv_choose_linalg(const Node *n, const Device *device, Choice *choice);
Err conv_prepare_linalg(Pool *pool, Call *call);
Err conv_linalg(const Call *call);
Err conv_grad_x_linalg(const Call *call);
Err conv_grad_w_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err conv_grad_w_cpu(const Call *call);

#endif
