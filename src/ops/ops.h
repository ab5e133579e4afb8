/* ops.h -- the table of operators. Builders are declared in the operators' own headers. */
#ifndef OPS_OPS_H
#define OPS_OPS_H

#include "ir/op.h"

/* ops_list.def is made by the build (scripts/list_ops.sh). */
typedef enum OpId {
#define OPERATOR(name)          OP_ID_##name,
#define OPERATOR_INTERNAL(name) OP_ID_##name,
#include "ops/ops_list.def"
#undef OPERATOR
#undef OPERATOR_INTERNAL
    OP_COUNT
} OpId;

#define OPERATOR(name)          extern const OpDef op_##name;
#define OPERATOR_INTERNAL(name) extern const OpDef op_##name;
#include "ops/ops_list.def"
#undef OPERATOR
#undef OPERATOR_INTERNAL

extern const OpDef *const ops_all[OP_COUNT]; /* by id */
extern const int          ops_count;         /* OP_COUNT of the program, for plugins to compare */

const Kernel *op_kernel(const OpDef *op, const Device *device); /* run == NULL: cannot run there */

#endif
