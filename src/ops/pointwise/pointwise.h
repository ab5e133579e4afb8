/* pointwise.h -- any elementwise computation, and sums of its results, as one operator.
 *
 * The attribute is a small program. It runs at every point of an iteration space of up to eight
 * axes: it reads its operands there (any permutation of axes, repeated along others), computes in
 * fp32 or int32 registers, and each result is either stored at every point, in the order of the
 * iteration, or reduced over some of the axes.
 *
 *   y = silu(x + v), x (B,L,C), v (C):     space (B,L,C); x by strides (LC,C,1), v by (0,0,1)
 *   steps: 0 INPUT 0, 1 INPUT 1, 2 ADD 0 1, 3 SILU 2; result 0: step 3, stored
 *
 * An operand is a whole tensor: its strides are those of a permutation of its axes, and 0 where it
 * is repeated. Slices are other operators' work. The gradient is derived symbolically. It reads the
 * smallest set of values (a minimum cut, in bytes; parameters count nothing) from which the
 * derivatives follow: operands, results, or inner values, which then become further outputs. So the
 * planner decides what is kept and what is recomputed.
 */
#ifndef OPS_POINTWISE_POINTWISE_H
#define OPS_POINTWISE_POINTWISE_H

#include "ir/op.h"

/* Limits of a program. Gradients, which are programs too, may be longer (the limits _MAX). */
enum { POINT_RANK = 8, POINT_INPUTS = 16, POINT_RESULTS = 8, POINT_STEPS = 128 };
enum { POINT_INPUTS_MAX = 24, POINT_STEPS_MAX = 640 };

/*    name        operands  kind of result: f fp32, i int32, s as its operands      */
/* clang-format off */
#define POINT_OP_LIST(X)                                                            \
    X(INPUT,       0, 's')  /* operand `a`, converted: float types to fp32, I32 and U8 to int32 */ \
    X(CONSTANT,    0, 's')                                                          \
    X(ADD,         2, 's')                                                          \
    X(SUB,         2, 's')                                                          \
    X(MUL,         2, 's')                                                          \
    X(DIV,         2, 'f')                                                          \
    X(FLOOR_DIV,   2, 's')                                                          \
    X(REMAINDER,   2, 's')  /* Python's: the sign of the divisor */                  \
    X(FMOD,        2, 's')                                                          \
    X(POW,         2, 'f')                                                          \
    X(ATAN2,       2, 'f')                                                          \
    X(MIN,         2, 's')  /* NaN wins; the gradient of equal operands is shared */ \
    X(MAX,         2, 's')                                                          \
    X(CLAMP_MIN,   2, 's')  /* max(a, b), whose gradient goes to a where they are equal */ \
    X(CLAMP_MAX,   2, 's')  /* min(a, b), the same */                                \
    X(EQ,          2, 'i')                                                          \
    X(NE,          2, 'i')                                                          \
    X(LT,          2, 'i')                                                          \
    X(LE,          2, 'i')                                                          \
    X(GT,          2, 'i')                                                          \
    X(GE,          2, 'i')                                                          \
    X(AND,         2, 'i')  /* bits: truth values are 0 and 1 */                     \
    X(OR,          2, 'i')                                                          \
    X(XOR,         2, 'i')                                                          \
    X(SHIFT_LEFT,  2, 'i')                                                          \
    X(SHIFT_RIGHT, 2, 'i')                                                          \
    X(NOT,         1, 'i')  /* a == 0 */                                             \
    X(SELECT,      3, 's')  /* a ? b : c */                                          \
    X(TO_F32,      1, 'f')  /* of a float: what is kept of it from here on is fp32 */ \
    X(TO_I32,      1, 'i')  /* towards zero */                                       \
    X(TO_TRUTH,    1, 'i')  /* != 0 */                                               \
    X(ROUND_BF16,  1, 'f')  /* to the nearest number of that type */                 \
    X(ROUND_F16,   1, 'f')                                                          \
    X(NEG,         1, 's')                                                          \
    X(ABS,         1, 's')                                                          \
    X(SIGN,        1, 's')                                                          \
    X(SQUARE,      1, 's')                                                          \
    X(SQRT,        1, 'f')                                                          \
    X(RSQRT,       1, 'f')                                                          \
    X(RECIPROCAL,  1, 'f')                                                          \
    X(EXP,         1, 'f')                                                          \
    X(EXP2,        1, 'f')                                                          \
    X(EXPM1,       1, 'f')                                                          \
    X(LOG,         1, 'f')                                                          \
    X(LOG2,        1, 'f')                                                          \
    X(LOG1P,       1, 'f')                                                          \
    X(SIN,         1, 'f')                                                          \
    X(COS,         1, 'f')                                                          \
    X(TAN,         1, 'f')                                                          \
    X(ASIN,        1, 'f')                                                          \
    X(ACOS,        1, 'f')                                                          \
    X(ATAN,        1, 'f')                                                          \
    X(SINH,        1, 'f')                                                          \
    X(COSH,        1, 'f')                                                          \
    X(TANH,        1, 'f')                                                          \
    X(SIGMOID,     1, 'f')                                                          \
    X(LOG_SIGMOID, 1, 'f')                                                          \
    X(SOFTPLUS,    1, 'f')  /* log(1 + exp(x)) */                                    \
    X(RELU,        1, 'f')  /* its gradient at 0 is 0 */                             \
    X(SILU,        1, 'f')                                                          \
    X(GELU,        1, 'f')                                                          \
    X(GELU_TANH,   1, 'f')                                                          \
    X(MISH,        1, 'f')                                                          \
    X(ERF,         1, 'f')                                                          \
    X(FLOOR,       1, 'f')                                                          \
    X(CEIL,        1, 'f')                                                          \
    X(ROUND,       1, 'f')  /* half to even */                                       \
    X(TRUNC,       1, 'f')                                                          \
    X(IS_NAN,      1, 'i')                                                          \
    X(IS_INF,      1, 'i')                                                          \
    X(DETACH,      1, 's')  /* the same value; no gradient passes */                 \
    X(SILU_SLOPE,  1, 'f')  /* derivatives; gradients use them and have none themselves */ \
    X(GELU_SLOPE,  1, 'f')                                                          \
    X(GELU_TANH_SLOPE, 1, 'f')                                                      \
    X(MISH_SLOPE,  1, 'f')
/* clang-format on */

typedef enum PointOp {
#define X(name, n, kind) POINT_##name,
    POINT_OP_LIST(X)
#undef X
        POINT_OP_COUNT
} PointOp;

typedef struct PointStep {
    uint8_t op;      /* PointOp */
    uint8_t integer; /* its result is an int32 register; else fp32 */
    int16_t a, b, c; /* earlier steps; INPUT: a is the operand */
    union {          /* CONSTANT */
        float   f;
        int32_t i;
    } value;
} PointStep;

/* Largest and smallest: NaN wins; equal elements share the gradient (torch.amax, amin). */
typedef enum PointReduce { POINT_STORED, POINT_SUM, POINT_AMAX, POINT_AMIN } PointReduce;

typedef struct PointResult {
    int16_t  step;
    uint8_t  reduce; /* PointReduce */
    uint32_t axes;   /* of the space that are reduced: 1 << axis */
    float    scale;  /* of a sum of floats; else 1 */
    Type     type;   /* fp32 step: a float type; int32 step: I32, or U8 unless a sum */
    Shape    shape;  /* of the output: as many elements as the space has, reduced axes left out */
} PointResult;

typedef struct PointwiseAttr {
    int              rank, n_in, n_results, n_steps;
    int64_t          dim[POINT_RANK];
    int64_t          stride[POINT_INPUTS_MAX][POINT_RANK]; /* of each operand, in elements */
    PointResult      result[POINT_RESULTS];
    const PointStep *step; /* n_steps; a node's are in its graph's pool */
} PointwiseAttr;

/* in[i] is operand i; out receives n_results tensors and may be NULL. Returns result 0. */
Tensor pointwise(const PointwiseAttr *program, const Tensor *in, Tensor *out);

/* Building a program. What does not fit the limits, or is misused, sets `full` or `wrong`;
 * point_end then gives a poisoned tensor. A step that exists already is not added again. Operands
 * of two kinds become fp32, and so do integers given to a function of floats. */
typedef struct PointProgram {
    PointwiseAttr attr; /* its steps are the array below */
    PointStep     step[POINT_STEPS_MAX];
    Graph        *graph;
    Tensor        in[POINT_INPUTS_MAX];
    bool          full;
    const char   *wrong; /* what was wrong, or NULL */
    int           max_inputs, max_steps;
} PointProgram;

PointProgram point_begin(int rank, const int64_t *dim);
int          point_input(PointProgram *p, Tensor x, const int64_t *stride); /* returns a step */
int          point_constant(PointProgram *p, float value);
int          point_integer(PointProgram *p, int32_t value);
int          point_step(PointProgram *p, PointOp op, int a, int b, int c); /* b, c: -1 if unused */
void         point_store(PointProgram *p, int step, Type type, Shape shape);
void point_reduce(PointProgram *p, int step, PointReduce how, uint32_t axes, float scale, Type type,
                  Shape shape);
/* The node; operands that no result needs are left out. out as above. */
Tensor point_end(const PointProgram *p, Tensor *out);

const char *point_op_name(PointOp op); /* "add" */
int         point_op_operands(PointOp op);

#endif
