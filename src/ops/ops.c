/* ops.c -- the table of operators. */
#include "ops/ops.h"

const OpDef *const ops_all[] = {
#define OP(name)      &op_##name,
#define OP_PART(name) &op_##name,
#include "ops/ops.def"
#undef OP
#undef OP_PART
};

const int ops_count = (int)(sizeof ops_all / sizeof *ops_all);

const Kernel *op_kernel(const OpDef *op, const Device *device)
{
    static const Kernel none;
    if (!device->api)  /* the CPU, or a card that is only described: which operators there are */
        return &op->cpu;
    const Kernel *kernel = device->api->kernel(op->name);
    return kernel ? kernel : &none;
}
