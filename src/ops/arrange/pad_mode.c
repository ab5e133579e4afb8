/* pad_mode.c -- padding with a value, by reflection, by repeating edges or around a circle; roll:
 * rules and builders. */
#include "ops/arrange/pad_mode.h"

#include "ops/operator.h"
#include "ops/reduce/rows.h"

static const char *const mode_names[] = { "constant", "reflect", "replicate", "circular" };

static Err pad_mode_shape(Node *n)
{
    const PadModeAttr *at = ATTR(n, PadModeAttr);
    Shape              x = in_shape(n, 0), y = x;
    for (int i = 0; i < x.rank; i++) {
        int64_t before = at->pad.before[i], after = at->pad.after[i];
        int64_t widest = before > after ? before : after;
        bool    rolls = at->mode == PAD_CIRCULAR && before == -after;
        if ((before < 0 || after < 0) && !rolls)
            return fail(E_SHAPE, "pad: axis %d of %s by %lld and %lld; use slice to remove", i,
                        shape_text(x), (long long)before, (long long)after);
        if ((at->mode == PAD_REFLECT && widest >= x.dim[i]) ||
            (at->mode == PAD_CIRCULAR && widest > x.dim[i]))
            return fail(E_SHAPE, "pad: %lld and %lld by %s are too wide for axis %d of %s",
                        (long long)before, (long long)after, mode_names[at->mode], i,
                        shape_text(x));
        y.dim[i] += before + after;
    }
    out_set(n, 0, in_type(n, 0), y);
    return OK;
}

static Cost pad_mode_cost(const Node *n)
{
    return (Cost){ .flops = n->op == &op_pad_mode_grad ? in_count(n, 0) : 0,
                   .bytes = node_bytes(n) };
}

static bool pad_mode_chunk(const ChunkCall *c)
{
    const PadAttr *pad = &((const PadModeAttr *)c->attr)->pad;
    for (int i = 0; i <= c->axis; i++)
        if (pad->before[i] || pad->after[i])
            return false;
    return true;
}

static bool pad_rolls(const PadModeAttr *at, int rank)
{
    for (int i = 0; i < rank; i++)
        if (at->pad.before[i] != -at->pad.after[i])
            return false;
    return at->mode == PAD_CIRCULAR;
}

static void pad_mode_rule(Grad *g)
{
    PadModeAttr at = *ATTR(g->node, PadModeAttr);
    Tensor      d = grad_dy(g, 0);
    Shape       x = tensor_shape(grad_in(g, 0));
    if (at.mode == PAD_CONSTANT) {
        for (int i = 0; i < x.rank; i++) /* the leading axis first: a view */
            d = slice(d, i, at.pad.before[i], at.pad.before[i] + x.dim[i]);
        grad_give(g, 0, d);
    } else if (pad_rolls(&at, x.rank)) {
        int64_t back[MAX_RANK];
        for (int i = 0; i < x.rank; i++)
            back[i] = -at.pad.before[i];
        grad_give(g, 0, roll(d, back));
    } else
        grad_give(g, 0,
                  node_add(g->graph, &op_pad_mode_grad,
                           &(PadGradAttr){ at.pad, at.mode, x, rows_grad_type(grad_in(g, 0)) },
                           TENSORS(d), NULL));
}

OPERATOR(pad_mode, .doc = "padded with a value, by reflection, edges or a circle",
         .chunk = { CHUNK_CUSTOM, INPUT(0), pad_mode_chunk }, .attr_bytes = sizeof(PadModeAttr),
         .n_in = 1, .n_out = 1, .shape = pad_mode_shape, .grad = pad_mode_rule,
         .cost = pad_mode_cost, .cpu = { .run = pad_mode_cpu })

static Err pad_mode_grad_shape(Node *n)
{
    out_set(n, 0, ATTR(n, PadGradAttr)->type, ATTR(n, PadGradAttr)->x);
    return OK;
}

OPERATOR_INTERNAL(pad_mode_grad, .doc = "dy summed where the padding showed the same element",
                  .attr_bytes = sizeof(PadGradAttr), .n_in = 1, .n_out = 1,
                  .shape = pad_mode_grad_shape, .cost = pad_mode_cost,
                  .cpu = { .run = pad_mode_grad_cpu })

Tensor pad_mode(Tensor x, PadAttr attr, PadMode mode, float value)
{
    bool any = false;
    if (!tensor_ok(x))
        return x;
    for (int i = 0; i < tensor_shape(x).rank; i++) {
        int64_t n = tensor_shape(x).dim[i], from = attr.before[i] < 0 ? -attr.before[i] : 0,
                to = attr.after[i] < 0 ? n + attr.after[i] : n;
        x = slice(x, i, from, to);
        if (!tensor_ok(x))
            return x;
        attr.before[i] = attr.before[i] > 0 ? attr.before[i] : 0;
        attr.after[i] = attr.after[i] > 0 ? attr.after[i] : 0;
        any |= attr.before[i] || attr.after[i];
    }
    if (mode == PAD_CONSTANT && value == 0)
        return pad(x, attr);
    return any ? node_add(x.graph, &op_pad_mode, &(PadModeAttr){ attr, mode, value }, TENSORS(x),
                          NULL)
               : x;
}

Tensor roll(Tensor x, const int64_t *shift)
{
    PadModeAttr attr = { .mode = PAD_CIRCULAR };
    bool        any = false;
    if (!tensor_ok(x))
        return x;
    for (int i = 0; i < tensor_shape(x).rank; i++) {
        int64_t n = tensor_shape(x).dim[i], by = (shift[i] % n + n) % n;
        attr.pad.before[i] = by;
        attr.pad.after[i] = -by;
        any |= by;
    }
    return any ? node_add(x.graph, &op_pad_mode, &attr, TENSORS(x), NULL) : x;
}
