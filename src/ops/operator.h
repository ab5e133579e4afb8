/* operator.h -- macros that define an operator. The build finds their uses (scripts/list_ops.sh)
 * and makes the lists of ops.h from them: there is nothing else to register.
 *
 *   OPERATOR(softplus, .doc = "log(1 + exp(x))", .n_in = 1, ...)     op_softplus; needs test cases
 *   OPERATOR_INTERNAL(softplus_grad, ...)      built by another's gradient rule and tested with it
 */
#ifndef OPS_OPERATOR_H
#define OPS_OPERATOR_H

#include "ops/ops.h"

#define OPERATOR(name_, ...)                                                                       \
    const OpDef op_##name_ = { .name = #name_, .id = OP_ID_##name_, __VA_ARGS__ };
#define OPERATOR_INTERNAL(name_, ...) OPERATOR(name_, __VA_ARGS__)

#endif
