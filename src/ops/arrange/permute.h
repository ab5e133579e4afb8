/* permute.h -- axes in another order. The tensor is first viewed under any shape of up to eight
 * axes, so that dividing images and volumes into patches is one node. */
#ifndef OPS_ARRANGE_PERMUTE_H
#define OPS_ARRANGE_PERMUTE_H

#include "ir/op.h"

enum { PERMUTE_RANK = 8 };

typedef struct PermuteAttr {
    int     rank;
    int64_t dim[PERMUTE_RANK];  /* the shape under which the input is viewed */
    int     axis[PERMUTE_RANK]; /* output axis i is input axis axis[i] */
    Shape   shape;              /* of the output */
} PermuteAttr;

Tensor permute_as(Tensor x, PermuteAttr attr);
Tensor permute(Tensor x, const int *axis); /* all of x's axes */
Tensor swap_axes(Tensor x, int a, int b);

/* (B,H,W,C) <-> (B, H/p W/q, p q C) and (B,D,H,W,C) <-> (B, tokens, p q r C): tokens in row order,
 * each vector in the order of the patch's pixels, channels innermost. */
Tensor patchify2d(Tensor x, int p, int q);
Tensor unpatchify2d(Tensor x, Shape image, int p, int q);
Tensor patchify3d(Tensor x, int p, int q, int r);
Tensor unpatchify3d(Tensor x, Shape volume, int p, int q, int r);

/* The permutation as kernels see it: axes that stay neighbours are merged, those of extent 1 left
 * out. */
typedef struct PermuteAxes { /* of the output, in its order */
    int     rank;
    int64_t dim[PERMUTE_RANK], from[PERMUTE_RANK], to[PERMUTE_RANK]; /* strides in elements */
} PermuteAxes;

PermuteAxes permute_axes(const PermuteAttr *at);

Err permute_cpu(const Call *call);

#endif
