/* loss.h -- losses. Every loss is [1] f32 and is multiplied by `scale`, e.g. 1 over the number of
 * micro-batches.
 *
 * Where a loss is a mean over the elements that count, the denominator may be given ([1] f32, known
 * for the whole batch), so that splitting a batch into micro-batches does not change the loss.
 * Otherwise the loss counts the elements itself, at least 1. Targets get no gradient. */
#ifndef OPS_LOSS_LOSS_H
#define OPS_LOSS_LOSS_H

#include "ir/op.h"

enum { LOSS_IGNORE = -100 }; /* a target that does not count */

typedef struct LossAttr {
    float scale;
    int   levels; /* dml_loss: how many values a target can take */
} LossAttr;

Tensor mse_loss(Tensor x, Tensor target, float scale); /* mean (x - target)^2 */
Tensor l1_loss(Tensor x, Tensor target, float scale);  /* mean |x - target| */

/* sum m |x - target| / max(1, sum m); mask u8 with x's axes, the last absent or 1 */
Tensor masked_l1_loss(Tensor x, Tensor target, Tensor mask, Tensor denominator_or_none,
                      float scale);

/* mean -log softmax(x)[target]; x (...,V), target i32 (...) */
Tensor cross_entropy(Tensor x, Tensor target, Tensor denominator_or_none, float scale);

Err mse_loss_cpu(const Call *call);
Err mse_loss_grad_cpu(const Call *call);
Err l1_loss_cpu(const Call *call);
Err l1_loss_grad_cpu(const Call *call);
Err masked_l1_loss_cpu(const Call *call);
Err masked_l1_loss_grad_cpu(const Call *call);
Err loss_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err cross_entropy_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err cross_entropy_cpu(const Call *call);
Err cross_entropy_grad_cpu(const Call *call);

/* Shared with other losses: how many targets count; fails for one outside 0 .. end - 1. */
Err loss_targets(const char *op, const int32_t *target, int64_t n, int64_t end, int64_t *counted);

#endif
