/* ops.c -- the table of operators. */
#include "ops/ops.h"

const OpDef *const ops_all[OP_COUNT] = {
#define OPERATOR(name)          &op_##name,
#define OPERATOR_INTERNAL(name) &op_##name,
#include "ops/ops_list.def"
#undef OPERATOR
#undef OPERATOR_INTERNAL
};
const int ops_count = OP_COUNT;

const Kernel *op_kernel(const OpDef *op, const Device *device)
{
    static const Kernel none;
    if (!device->kernels) /* the CPU, or a GPU that is only described */
        return &op->cpu;
    return device->kernels[op->id] ? device->kernels[op->id] : &none;
}
