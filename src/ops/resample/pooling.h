/* pooling.h -- the largest or the mean of each window, along one to three axes, channels last.
 *
 * Windows are PyTorch's. Along an axis of n values, padded by pad_lo and pad_hi, window i takes
 * `kernel` values, `dilation` apart, from i stride - pad_lo on. With ceil_mode there is one window
 * more where the last would end beyond the padding, unless it would start there; what lies beyond
 * the padding never counts. Adaptive window i of m takes floor(i n/m) .. ceil((i+1) n/m).
 *
 * The largest ignores padding; a NaN wins. Its gradient goes to the first of the largest in the
 * order of the window, found again from the input (there is no map of indices to keep).
 *
 * A mean divides by `divisor` if that is not 0; else by the values of its window, those of the
 * padding among them if count_padding is set (PyTorch's count_include_pad).
 */
#ifndef OPS_RESAMPLE_POOLING_H
#define OPS_RESAMPLE_POOLING_H

#include "ir/op.h"

typedef enum PoolKind { POOL_MAX, POOL_AVG } PoolKind;

typedef struct PoolAttr { /* arrays: one entry per axis between N and C, the first axis first */
    PoolKind kind;
    int64_t  kernel[3], stride[3], pad_lo[3], pad_hi[3], dilation[3];
    bool     ceil_mode, count_padding;
    bool     adaptive; /* set by adaptive_pool: kernel is then the size of the result */
    int64_t  divisor;  /* 0: none */
} PoolAttr;

/* x is (N,L,C), (N,H,W,C) or (N,D,H,W,C). A mean has no dilation. */
Tensor pool_op(Tensor x, PoolAttr attr);

/* out_dims: the result's size along each axis between N and C. */
Tensor adaptive_pool(Tensor x, const int64_t *out_dims, PoolKind kind);

/* One axis of a pooling; axes that are absent have one value and one window. */
typedef struct PoolAxis {
    int64_t in, out, kernel, stride, pad, dilation;
    int64_t padded; /* in + pad_lo + pad_hi */
    bool    adaptive;
} PoolAxis;

typedef struct PoolAxes {
    int64_t  images, channels;
    PoolAxis at[3]; /* depth, height, width */
} PoolAxes;

/* Of a node whose forward input has shape x. */
PoolAxes pool_axes(const PoolAttr *attr, Shape x);

typedef struct PoolMeanGradAttr {
    PoolAttr of;
    int64_t  in[3]; /* of the forward input, per axis between N and C */
} PoolMeanGradAttr;

Err pool_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err pool_cpu(const Call *call);
Err pool_grad_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err pool_grad_cpu(const Call *call);
Err pool_mean_grad_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err pool_mean_grad_cpu(const Call *call);

#endif
