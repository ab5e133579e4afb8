/* batchnorm.h -- batch norm over channels-last maps, with the ReLU that may follow.
 *
 * Training normalises with the statistics of the batch and returns them. A node of its own
 * (batchnorm_track) updates the running statistics; it runs once, so recomputing a forward node
 * changes nothing. batchnorm_eval normalises with the running statistics.
 */
#ifndef OPS_NORM_BATCHNORM_H
#define OPS_NORM_BATCHNORM_H

#include "ir/op.h"

#define BATCHNORM_CUMULATIVE (-1.0f)

typedef struct BatchnormAttr {
    float   eps;
    bool    relu;
    bool    wants[3]; /* gradient nodes: x, weight, bias */
    float   momentum; /* track: share of the new value, or BATCHNORM_CUMULATIVE */
    int64_t count;    /* track: values behind each statistic */
} BatchnormAttr;

/* x (...,C), weight and bias (C), each may be none. statistics: (C,2) F32, mean and
 * 1 / sqrt(var + eps), var biased; may be NULL. */
Tensor batchnorm(Tensor x, Tensor weight, Tensor bias, float eps, bool relu, Tensor *statistics);

/* mean, var: (C) F32 state; batches: (1) I32 state. As in PyTorch, var is unbiased. momentum
 * BATCHNORM_CUMULATIVE: each batch counts the same (PyTorch's momentum None). */
void batchnorm_track(Tensor x, Tensor statistics, Tensor mean, Tensor var, Tensor batches,
                     float eps, float momentum);

Tensor batchnorm_eval(Tensor x, Tensor weight, Tensor bias, Tensor mean, Tensor var, float eps,
                      bool relu);

Err batchnorm_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err batchnorm_cpu(const Call *call);
Err batchnorm_grad_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err batchnorm_grad_cpu(const Call *call);
Err batchnorm_track_cpu(const Call *call);
Err batchnorm_eval_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err batchnorm_eval_cpu(const Call *call);
Err batchnorm_eval_grad_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err batchnorm_eval_grad_cpu(const Call *call);

#endif
