/* groupnorm.h -- group norm and instance norm over channels-last maps, with the activation that
 * follows; and SPADE, a norm whose result is scaled and shifted by maps.
 *
 * Statistics are [N,G,2] in F32: mean and 1 / sqrt(var + eps). Gradients recompute the normalised
 * value and the activation from x and the statistics, so that y need not be kept.
 */
#ifndef OPS_NORM_GROUPNORM_H
#define OPS_NORM_GROUPNORM_H

#include "ir/op.h"

typedef enum NormAct { NORM_LINEAR, NORM_SILU, NORM_RELU, NORM_GELU, NORM_ACTS } NormAct;

typedef struct GroupnormAttr {
    int64_t groups;
    float   eps;
    NormAct act;    /* NORM_GELU: the exact one, with erf */
    bool    packed; /* SPADE: one map of 2C channels [gamma|beta] */
} GroupnormAttr;

typedef struct GroupnormGradAttr {
    GroupnormAttr of;
    bool          wants[4]; /* x, weight, bias, SPADE: gamma (or the packed map) */
} GroupnormGradAttr;

/* x is (N,...,C); weight and bias (C), each may be none. */
Tensor groupnorm(Tensor x, Tensor weight, Tensor bias, int64_t groups, float eps, NormAct act);
Tensor instancenorm(Tensor x, float eps);

/* norm(h) * (1 + gamma) + beta. Instance norm: groups = C and no weight. beta none: gamma is the
 * map [gamma|beta] of 2C channels. */
Tensor spade(Tensor h, Tensor weight, Tensor bias, Tensor gamma, Tensor beta, int64_t groups,
             float eps);

/* The type of a norm's weight (that input) and bias (the next), whichever is given. */
static inline Type norm_affine_type(const Node *n, int weight)
{
    return in_given(n, weight)       ? in_type(n, weight)
           : in_given(n, weight + 1) ? in_type(n, weight + 1)
                                     : F32;
}

Err groupnorm_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err groupnorm_cpu(const Call *call);
Err groupnorm_grad_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err groupnorm_grad_cpu(const Call *call);
Err spade_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err spade_cpu(const Call *call);
Err spade_grad_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err spade_grad_cpu(const Call *call);

#endif
