/* ops.h -- the table of operators. Builders are declared in the operators' own headers. */
#ifndef OPS_OPS_H
#define OPS_OPS_H

#include "ir/op.h"

#define OP(name)      extern const OpDef op_##name;
#define OP_PART(name) extern const OpDef op_##name;
#include "ops/ops.def"
#undef OP
#undef OP_PART

extern const OpDef *const ops_all[];
extern const int          ops_count;

const Kernel *op_kernel(const OpDef *op, const Device *device);  /* run == NULL: cannot run there */

#endif
