/* conv.h -- convolutions over channels-last sequences, images and volumes, transposed ones,
 * gradients; strided, dilated, in groups, depthwise.
 *
 * x is (N,L,C), (N,H,W,C) or (N,D,H,W,C); the weight in the arena is (K,I/groups,O),
 * (KH,KW,I/groups,O) or (KD,KH,KW,I/groups,O). For a transposed convolution I is the number of
 * channels of its *output* and O that of its input: it is the data gradient of the convolution with
 * the same weight. Output channel o belongs to group o / (O/groups). The order suits the kernels:
 * the taps of a depthwise convolution are rows of channels, as the image's are, and a group is a
 * range of columns.
 *
 * PyTorch keeps (O, I/groups, k...), for transposed convolutions (in, out/groups, k...). Both become
 * ours by the same permutation: param_add_permuted with axes { 2, 1, 0 }, { 2, 3, 1, 0 } or
 * { 2, 3, 4, 1, 0 }.
 *
 * PyTorch's output_padding of a transposed convolution is padding that is missing at the end:
 * pad_lo = padding, pad_hi = padding - output_padding, which may be negative. A causal convolution
 * has pad_lo = dilation * (k - 1) and pad_hi = 0. A negative pad_hi of a convolution leaves out the
 * end of x.
 */
#ifndef OPS_CONV_CONV_H
#define OPS_CONV_CONV_H

#include "base/int_math.h"
#include "ir/op.h"
#include "linalg/linalg.h"

typedef struct ConvAttr { /* axes D, H, W; D is 1/1/0 for images, D and H for sequences */
    int64_t stride[3], pad_lo[3], pad_hi[3];
    int64_t dilation[3]; /* 0 reads as 1 */
    int64_t groups;      /* 0 reads as 1 */
    int64_t in[3];       /* filled by the builders: extents of the wider side */
} ConvAttr;

typedef struct ConvWAttr { /* of the weight gradient, which does not read the weight */
    ConvAttr conv;
    Shape    shape;
    bool     bias; /* the bias gradient too, so that dy is read once */
} ConvWAttr;

ConvAttr conv_attr(int stride, int pad); /* the same on H and W */
Tensor   conv_op(Tensor x, Tensor w, Tensor bias_or_none, ConvAttr attr);
/* onto + the convolution: a 1x1 convolution is a product, which adds by itself */
Tensor   conv_onto(Tensor x, Tensor w, Tensor bias_or_none, Tensor onto, ConvAttr attr);
Tensor   conv_transpose_op(Tensor x, Tensor w, Tensor bias_or_none, ConvAttr attr);
/* x (N,L,C), w (K,I/groups,O); of the attribute only axis W, [2], is read */
Tensor   conv1d_op(Tensor x, Tensor w, Tensor bias_or_none, ConvAttr attr);
Tensor   conv_transpose1d_op(Tensor x, Tensor w, Tensor bias_or_none, ConvAttr attr);

/* Workspaces are divided at multiples of these bytes. */
enum { CONV_CPU_ALIGN = 64, CONV_CUDA_ALIGN = 256 };

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
