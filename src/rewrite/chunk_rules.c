/* chunk_rules.c -- which operators can be cut into lots, and what their nodes then look like.
 *
 * A tensor is cut along its first axis longer than one, so that a lot is one run of bytes. What is
 * claimed here of each operator: lot i of every output is a function of lot i of the inputs marked,
 * and of the other inputs whole. */
#include "rewrite/chunk.h"

#include "ops/arrange/arrange.h"
#include "ops/elementwise/basic.h"
#include "ops/loss/loss.h"
#include "ops/ops.h"
#include "ops/arrange/permute.h"
#include "ops/reduce/reduce.h"

#include <string.h>

/*     how                 which outputs depend on what */
typedef enum CutKind {
    CUT_EACH,           /* element by element: every input has the output's shape */
    CUT_ROWS,           /* row by row of input 0: the last axis stays whole */
    CUT_SAMPLES,        /* sample by sample (axis 0) of the inputs marked */
    CUT_LIGHT, /* the same, and nothing within a sample is looked at twice: fit for a loss's rows */
    CUT_ALONG,          /* a vector along input 0, cut with it where it has its leading axis */
    CUT_LOSS,           /* a sum over rows, divided by a given count */
    CUT_MEAN,           /* a mean over all elements */
    CUT_OWN,            /* by its attribute */
} CutKind;

typedef struct CutOp {
    const OpDef *op;
    CutKind      kind;
    uint32_t     inputs;
} CutOp;

static const CutOp cut_ops[] = {
    { &op_add, CUT_EACH, 0 }, { &op_sub, CUT_EACH, 0 }, { &op_mul, CUT_EACH, 0 },
      { &op_weighted_sum, CUT_EACH, 0 },
    { &op_cast, CUT_EACH, 0 }, { &op_affine, CUT_EACH, 0 }, { &op_silu, CUT_EACH, 0 },
      { &op_relu, CUT_EACH, 0 },
    { &op_tanh, CUT_EACH, 0 }, { &op_sigmoid, CUT_EACH, 0 }, { &op_gelu, CUT_EACH, 0 },
      { &op_gelu_tanh, CUT_EACH, 0 },
    { &op_softplus, CUT_EACH, 0 }, { &op_exp, CUT_EACH, 0 },
    { &op_linear, CUT_ROWS, 1 | 1 << 3 }, { &op_layernorm, CUT_ROWS, 1 }, { &op_glu, CUT_ROWS, 1 },
      { &op_geglu, CUT_ROWS, 1 },
    { &op_softmax, CUT_ROWS, 1 }, { &op_log_softmax, CUT_ROWS, 1 },
      { &op_scalar_norm, CUT_ROWS, 1 },
    { &op_conv, CUT_SAMPLES, 1 }, { &op_conv_transpose, CUT_SAMPLES, 1 },
      { &op_up_conv, CUT_SAMPLES, 1 }, { &op_groupnorm, CUT_SAMPLES, 1 },
    { &op_spade, CUT_SAMPLES, 1 | 1 << 3 | 1 << 4 }, { &op_resize, CUT_SAMPLES, 1 },
      { &op_max_pool2d, CUT_SAMPLES, 1 },
    { &op_attention, CUT_SAMPLES, 7 }, { &op_attention_stored, CUT_SAMPLES, 7 },
      { &op_fft_conv, CUT_SAMPLES, 1 },
    { &op_layernorm_modulate, CUT_LIGHT, 3 }, { &op_time_embedding, CUT_SAMPLES, 1 },
    { &op_q_sample, CUT_SAMPLES, 1 | 1 << 1 | 1 << 3 }, { &op_embedding, CUT_SAMPLES, 1 << 1 },
    { &op_add_rows, CUT_ALONG, 0 }, { &op_mul_rows, CUT_ALONG, 0 },
      { &op_gated_add, CUT_ALONG, 1 << 2 },
    { &op_mse_loss, CUT_MEAN, 3 }, { &op_l1_loss, CUT_MEAN, 3 },
      { &op_masked_l1_loss, CUT_LOSS, 7 },
    { &op_cross_entropy, CUT_LOSS, 3 }, { &op_dml_loss, CUT_LOSS, 3 },
    { &op_reshape, CUT_OWN, 1 }, { &op_concat, CUT_OWN, 0 }, { &op_split, CUT_OWN, 1 },
      { &op_slice, CUT_OWN, 1 },
    { &op_pad, CUT_OWN, 1 }, { &op_shift, CUT_OWN, 1 }, { &op_permute, CUT_OWN, 1 },
      { &op_sum, CUT_OWN, 3 },
    { &op_repeat, CUT_OWN, 1 },
};

int cut_axis(Shape s)
{
    for (int i = 0; i < s.rank; i++)
        if (s.dim[i] > 1)
            return i;
    return -1;
}

static bool cut_divides(Shape s, int64_t lots)
{
    int axis = cut_axis(s);
    return axis >= 0 && s.dim[axis] % lots == 0;
}

static Shape cut_shape(Shape s, int64_t lots)
{
    s.dim[cut_axis(s)] /= lots;
    return s;
}

/* Every input marked can be cut, along the axis that input `like` is cut along. */
static bool cut_inputs(const Node *n, uint32_t inputs, int like, int64_t lots)
{
    for (int i = 0; i < n->n_in; i++)
        if (inputs >> i & 1 && (!cut_divides(in_shape(n, i), lots) ||
                                cut_axis(in_shape(n, i)) != cut_axis(in_shape(n, like))))
            return false;
    return true;
}

static bool cut_reduce(int64_t lots, ReduceAttr *attr)
{
    if (attr->a % lots || !cut_divides(attr->shape, lots))
        return false;
    attr->a /= lots;
    attr->shape = cut_shape(attr->shape, lots);
    return true;
}

static bool cut_own(const Node *n, int64_t lots, int axis, void *attr)
{
    if (n->op == &op_reshape) {
        Shape *shape = &((ReshapeAttr *)attr)->shape;
        bool   can = cut_divides(*shape, lots);
        if (can)
            *shape = cut_shape(*shape, lots);
        return can;
    }
    if (n->op == &op_concat || n->op == &op_split) {
        JoinAttr *join = attr;
        bool can = join->axis > axis && cut_axis(join->whole) == axis &&
                   cut_divides(join->whole, lots);
        if (can)
            join->whole = cut_shape(join->whole, lots);
        return can;
    }
    if (n->op == &op_slice)
        return ((SliceAttr *)attr)->axis > axis;
    if (n->op == &op_shift)
        return ((ShiftAttr *)attr)->axis > axis;
    if (n->op == &op_pad) {
        const PadAttr *pad = attr;
        for (int i = 0; i <= axis; i++)
            if (pad->before[i] || pad->after[i])
                return false;
        return true;
    }
    if (n->op == &op_permute) {              /* the outermost axis stays where it is */
        PermuteAttr *permute = attr;
        if (axis != 0 || permute->axis[0] != 0 || permute->dim[0] % lots ||
            !cut_divides(permute->shape, lots) || cut_axis(permute->shape) != 0)
            return false;
        permute->dim[0] /= lots;
        permute->shape = cut_shape(permute->shape, lots);
        return true;
    }
    return cut_reduce(lots, attr);        /* sum and repeat: outer indices */
}

static bool cut_along(const Node *n, int64_t lots, CutRule *rule)
{
    Shape       x = in_shape(n, 0), v = in_shape(n, 1);
    ReduceAttr *fit = rule->attr;
    int         axis = cut_axis(x);
    rule->inputs |= 1;
    if (fit->a > 1) {                        /* v has the leading axis of x */
        if (!cut_divides(v, lots) || cut_axis(v) != axis || v.dim[axis] != x.dim[axis])
            return false;
        rule->inputs |= 2;
        v = cut_shape(v, lots);
    }
    return broadcast_fit(cut_shape(x, lots), v, fit);
}

bool cut_rule(Pool *pool, const Node *n, int64_t lots, bool rows_only, CutRule *rule)
{
    const CutOp *op = NULL;
    for (size_t i = 0; i < sizeof cut_ops / sizeof *cut_ops && !op; i++)
        if (cut_ops[i].op == n->op)
            op = &cut_ops[i];
    if (!op || (rows_only && op->kind == CUT_SAMPLES) || n->phase != PHASE_MICRO || n->once ||
        n->n_in > CUT_MAX_INPUTS)
        return false;
    *rule = (CutRule){ .inputs = op->inputs, .sums = op->kind == CUT_LOSS || op->kind == CUT_MEAN };
    if (op->kind == CUT_EACH || n->op == &op_concat)
        rule->inputs = UINT32_MAX;
    for (int i = 0; i < CUT_MAX_INPUTS; i++)        /* those there are */
        if (i >= n->n_in || n->in[i] < 0)
            rule->inputs &= ~(1u << i);
    int like = 0;
    while (!(rule->inputs >> like & 1) && like < n->n_in && op->kind != CUT_ALONG)
        like++;
    if (like >= n->n_in || !cut_inputs(n, rule->inputs | 1u << like, like, lots))
        return false;
    Shape x = in_shape(n, like);
    int   axis = cut_axis(x);
    if (n->op->attr_bytes) {
        rule->attr = pool_alloc(pool, (size_t)n->op->attr_bytes, 1);
        memcpy(rule->attr, n->attr, (size_t)n->op->attr_bytes);
    }
    switch (op->kind) {
    case CUT_EACH:    return true;
    case CUT_ROWS:    return axis < x.rank - 1;
    case CUT_SAMPLES:
    case CUT_LIGHT:   return axis == 0;
    case CUT_ALONG:   return cut_along(n, lots, rule);
    case CUT_OWN:     return cut_own(n, lots, axis, rule->attr);
    case CUT_MEAN:    ((LossAttr *)rule->attr)->scale /= (float)lots; return true;
    /* the count is the last input */
    case CUT_LOSS:    return axis < x.rank - 1 && in_given(n, n->n_in - 1);
    }
    return false;
}
