/* fuse_known.c -- groups of nodes that one of our operators computes.
 *
 * A motif is a small tree over the steps of pointwise programs and the operators that they read.
 * It is matched from its root downwards; a step that reads a result of another pointwise node goes
 * on in that node's program. Nodes inside a match must have no other readers.
 */
#include "ops/arrange/arrange.h"
#include "ops/elementwise/basic.h"
#include "ops/elementwise/glu.h"
#include "ops/linear/linear.h"
#include "ops/norm/batchnorm.h"
#include "ops/norm/groupnorm.h"
#include "ops/norm/layernorm.h"
#include "ops/norm/rmsnorm.h"
#include "ops/ops.h"
#include "rewrite/fuse_group.h"

typedef enum MotifKind {
    MOTIF_STEP,       /* a step of a program, of its arguments */
    MOTIF_NUMBER,     /* a constant */
    MOTIF_ANY_NUMBER, /* a constant, captured */
    MOTIF_OP,         /* result 0 of an operator, read point by point; it becomes a member */
    MOTIF_PART,       /* the same of any of its results */
    MOTIF_TENSOR,     /* any tensor, read point by point */
    MOTIF_PER_ROW,    /* one number for each row: (N,1) along (N,C); of its argument */
    MOTIF_MEAN,       /* the mean over the last axis of its argument */
    MOTIF_ROW, /* a row for each sample: (B,C) along (B,...,C); of its argument, if it has one */
} MotifKind;

typedef struct Motif Motif;
struct Motif {
    MotifKind    kind;
    int          slot; /* of the match: OP, TENSOR and ROW without argument */
    PointOp      point;
    const OpDef *op;
    float        number;
    const Motif *arg[2];
};

struct KnownGroup {
    const char  *name;
    const Motif *motif;
    bool (*fits)(const Fusing *f, const KnownMatch *m); /* NULL: always */
    Tensor (*build)(const Fusing *f, const KnownMatch *m);
    int with;
};

static bool match_step(const Fusing *f, const Motif *motif, const Node *n, int step, KnownMatch *m);

/* Members in the graph's order. */
static bool member_add(const Fusing *f, int32_t id, KnownMatch *m)
{
    enum { MAX_MEMBERS = sizeof m->members / sizeof *m->members };
    int at = m->n;
    for (int i = 0; i < m->n; i++)
        if (m->members[i] == id)
            return true;
    if (m->n == MAX_MEMBERS || f->next[f->lead[id]] >= 0 || m->root - id >= FUSE_SPAN ||
        f->from->nodes[id].phase != f->from->nodes[m->root].phase)
        return false;
    for (; at > 0 && m->members[at - 1] > id; at--)
        m->members[at] = m->members[at - 1];
    m->members[at] = id;
    m->n++;
    return true;
}

/* The pointwise node whose one result the operand is. */
static const Node *program_of(const Fusing *f, int32_t value)
{
    int32_t from = value >= 0 ? value_at(f->from, value)->producer : -1;
    if (from < 0 || !f->space[from] || f->stateful[from])
        return NULL;
    const Node          *p = &f->from->nodes[from];
    const PointwiseAttr *attr = ATTR(p, PointwiseAttr);
    return attr->n_results == 1 && attr->result[0].reduce == POINT_STORED ? p : NULL;
}

/* The same, computed for this reader alone, at the same points. */
static bool match_inner(const Fusing *f, const Motif *motif, const Node *n, int operand,
                        KnownMatch *m)
{
    int32_t     value = fuse_resolve(f->from, n->in[operand]);
    const Node *p = program_of(f, value);
    return p && f->reads[value] == 1 && fuse_reads_in_order(f->space[n->id], operand) &&
           f->space[p->id]->points == f->space[n->id]->points && member_add(f, p->id, m) &&
           match_step(f, motif, p, ATTR(p, PointwiseAttr)->result[0].step, m);
}

static bool match_op(const Fusing *f, const Motif *motif, const Node *n, int operand, KnownMatch *m)
{
    int32_t value = fuse_resolve(f->from, n->in[operand]),
            from = value >= 0 ? value_at(f->from, value)->producer : -1;
    if (from < 0 || f->from->nodes[from].op != motif->op ||
        (motif->kind == MOTIF_OP && f->from->nodes[from].out[0] != value) || f->reads[value] != 1 ||
        f->stateful[from] ||
        shape_count(value_at(f->from, value)->shape) != f->space[n->id]->points ||
        !fuse_reads_in_order(f->space[n->id], operand))
        return false;
    m->value[motif->slot] = value;
    return member_add(f, from, m);
}

static bool match_tensor(const Fusing *f, const Motif *motif, const Node *n, int operand,
                         KnownMatch *m)
{
    m->value[motif->slot] = n->in[operand];
    return shape_count(in_shape(n, operand)) == f->space[n->id]->points &&
           fuse_reads_in_order(f->space[n->id], operand);
}

static bool match_row(const Fusing *f, const Motif *motif, const Node *n, int operand,
                      KnownMatch *m)
{
    const PointSpace *s = f->space[n->id];
    const int64_t    *stride = s->stride[operand];
    bool              one = s->rank == 2 && stride[0] == 0 && stride[1] == 1,
         each = s->rank == 3 && stride[0] == s->dim[2] && stride[1] == 0 && stride[2] == 1;
    if (!one && !each)
        return false;
    if (!motif->arg[0]) {
        m->value[motif->slot] = n->in[operand];
        return true;
    }
    int32_t     value = fuse_resolve(f->from, n->in[operand]);
    const Node *p = program_of(f, value);
    if (!p || (f->reads[value] == 1 && !member_add(f, p->id, m)))
        return false;
    return match_step(f, motif->arg[0], p, ATTR(p, PointwiseAttr)->result[0].step, m);
}

/* A number for each row, computed for this reader alone. */
static bool match_per_row(const Fusing *f, const Motif *motif, const Node *n, int operand,
                          KnownMatch *m)
{
    const PointSpace *s = f->space[n->id];
    int32_t           value = fuse_resolve(f->from, n->in[operand]);
    const Node       *p = program_of(f, value);
    return s->rank == 2 && s->stride[operand][0] == 1 && s->stride[operand][1] == 0 && p &&
           f->reads[value] == 1 && f->space[p->id]->points == s->dim[0] &&
           member_add(f, p->id, m) &&
           match_step(f, motif->arg[0], p, ATTR(p, PointwiseAttr)->result[0].step, m);
}

static bool match_mean(const Fusing *f, const Motif *motif, const Node *n, int operand,
                       KnownMatch *m)
{
    int32_t value = fuse_resolve(f->from, n->in[operand]),
            from = value >= 0 ? value_at(f->from, value)->producer : -1;
    if (from < 0 || !f->space[from] || f->stateful[from] || f->reads[value] != 1 ||
        !fuse_reads_in_order(f->space[n->id], operand))
        return false;
    const Node          *p = &f->from->nodes[from];
    const PointwiseAttr *attr = ATTR(p, PointwiseAttr);
    const PointSpace    *s = f->space[from];
    m->width = s->dim[s->rank - 1];
    return attr->n_results == 1 && attr->result[0].reduce == POINT_SUM && s->rank == 2 &&
           s->reduced[0] == 2 && attr->result[0].scale == 1.0f / (float)m->width &&
           member_add(f, from, m) && match_step(f, motif->arg[0], p, attr->result[0].step, m);
}

/* Whole numbers come with a conversion. */
static bool match_number(const Motif *motif, const PointwiseAttr *attr, const PointStep *s)
{
    if (s->op == POINT_TO_F32 && attr->step[s->a].integer) {
        s = &attr->step[s->a];
        return s->op == POINT_CONSTANT && (float)s->value.i == motif->number;
    }
    return s->op == POINT_CONSTANT && !s->integer && s->value.f == motif->number;
}

static bool match_args(const Fusing *f, const Motif *motif, const Node *n, const PointStep *s,
                       bool swapped, KnownMatch *m)
{
    int reads[] = { swapped ? s->b : s->a, swapped ? s->a : s->b };
    for (int i = 0; i < point_op_operands(motif->point); i++)
        if (!match_step(f, motif->arg[i], n, reads[i], m))
            return false;
    return true;
}

static bool match_step(const Fusing *f, const Motif *motif, const Node *n, int step, KnownMatch *m)
{
    const PointStep *s = &ATTR(n, PointwiseAttr)->step[step];
    if (motif->kind == MOTIF_NUMBER)
        return match_number(motif, ATTR(n, PointwiseAttr), s);
    if (motif->kind == MOTIF_ANY_NUMBER) {
        m->number = s->value.f;
        return s->op == POINT_CONSTANT && !s->integer;
    }
    if (s->op == POINT_INPUT)
        switch (motif->kind) {
        case MOTIF_STEP: return match_inner(f, motif, n, s->a, m);
        case MOTIF_OP:
        case MOTIF_PART: return match_op(f, motif, n, s->a, m);
        case MOTIF_PER_ROW: return match_per_row(f, motif, n, s->a, m);
        case MOTIF_MEAN: return match_mean(f, motif, n, s->a, m);
        case MOTIF_TENSOR: return match_tensor(f, motif, n, s->a, m);
        default: return match_row(f, motif, n, s->a, m);
        }
    if (motif->kind != MOTIF_STEP || s->op != motif->point)
        return false;
    KnownMatch before = *m;
    if (match_args(f, motif, n, s, false, m))
        return true;
    *m = before;
    return (motif->point == POINT_ADD || motif->point == POINT_MUL) &&
           match_args(f, motif, n, s, true, m);
}

/* ---- the groups ---- */

static const Node *op_at(const Fusing *f, int32_t value)
{
    return &f->from->nodes[value_at(f->from, value)->producer];
}

static Type value_type(const Fusing *f, int32_t value) { return value_at(f->from, value)->type; }

static Tensor reshaped(Tensor x, Shape shape)
{
    return shape_same(tensor_shape(x), shape) ? x : reshape(x, shape);
}

/* The node again with another attribute or further operands. */
static Tensor node_again(const Fusing *f, const Node *n, const void *attr, Tensor onto)
{
    Tensor in[8];
    int    count = n->n_in;
    REQUIRE(count < 8);
    for (int i = 0; i < count; i++)
        in[i] = fuse_built(f, n->in[i]);
    if (tensor_ok(onto))
        in[count++] = onto;
    return node_add(f->to, n->op, attr, in, count, NULL);
}

static bool norm_is_plain(const Fusing *f, const KnownMatch *m)
{
    const Node *n = op_at(f, m->value[0]);
    return n->op == &op_groupnorm ? ATTR(n, GroupnormAttr)->act == NORM_LINEAR
                                  : !ATTR(n, BatchnormAttr)->relu;
}

static Tensor groupnorm_with_act(const Fusing *f, const KnownMatch *m)
{
    const Node   *n = op_at(f, m->value[0]);
    GroupnormAttr attr = *ATTR(n, GroupnormAttr);
    attr.act = (NormAct)m->of->with;
    return node_again(f, n, &attr, tensor_none(f->to));
}

/* Scaled and shifted by maps: a norm with weight and bias, or with neither. */
static bool maps_fit(const Fusing *f, const KnownMatch *m)
{
    const Node *n = op_at(f, m->value[0]);
    return norm_is_plain(f, m) && in_given(n, 1) == in_given(n, 2) &&
           value_type(f, m->value[1]) == in_type(n, 0) &&
           value_type(f, m->value[2]) == in_type(n, 0);
}

static Tensor spade_of_maps(const Fusing *f, const KnownMatch *m)
{
    const Node          *n = op_at(f, m->value[0]);
    const GroupnormAttr *attr = ATTR(n, GroupnormAttr);
    Tensor               x = fuse_built(f, n->in[0]), map[2];
    for (int i = 0; i < 2; i++)
        map[i] = reshaped(fuse_built(f, m->value[1 + i]), tensor_shape(x));
    return spade(x, fuse_built(f, n->in[1]), fuse_built(f, n->in[2]), map[0], map[1], attr->groups,
                 attr->eps);
}

static Tensor batchnorm_with_relu(const Fusing *f, const KnownMatch *m)
{
    const Node   *n = op_at(f, m->value[0]);
    BatchnormAttr attr = *ATTR(n, BatchnormAttr);
    attr.relu = true;
    return node_again(f, n, &attr, tensor_none(f->to));
}

/* The product comes right before the sum: elsewhere its input would live longer. */
static bool onto_fits(const Fusing *f, const KnownMatch *m)
{
    enum { NEAR = 8 };
    const Node *n = op_at(f, m->value[0]);
    return n->n_in == 3 && m->root - n->id <= NEAR &&
           value_type(f, m->value[1]) == value_type(f, m->value[0]) &&
           in_type(n, 1) == value_type(f, m->value[0]);
}

static Tensor linear_with_summand(const Fusing *f, const KnownMatch *m)
{
    const Node *n = op_at(f, m->value[0]);
    Tensor      onto = fuse_built(f, m->value[1]);
    Shape       shape = value_at(f->from, m->value[0])->shape;
    return node_again(f, n, n->attr, reshaped(onto, shape));
}

static bool modulate_fits(const Fusing *f, const KnownMatch *m)
{
    const Node *n = op_at(f, m->value[0]);
    Shape       x = in_shape(n, 0);
    int64_t     width = dim(x, -1), scale = shape_count(value_at(f->from, m->value[1])->shape),
            shift = shape_count(value_at(f->from, m->value[2])->shape);
    Type type = in_type(n, 0);
    return !in_given(n, 1) && !in_given(n, 2) && scale == shift && scale % width == 0 &&
           x.rank >= 2 && x.dim[0] % (scale / width) == 0 && value_type(f, m->value[1]) == type &&
           value_type(f, m->value[2]) == type;
}

static Tensor layernorm_with_rows(const Fusing *f, const KnownMatch *m)
{
    const Node *n = op_at(f, m->value[0]);
    Tensor      x = fuse_built(f, n->in[0]), scale = fuse_built(f, m->value[1]),
           shift = fuse_built(f, m->value[2]);
    int64_t width = dim(tensor_shape(x), -1);
    Shape   rows = SHAPE(shape_count(tensor_shape(scale)) / width, width);
    Tensor  both[] = { reshape(shift, rows), reshape(scale, rows) };
    return layernorm_modulate(x, concat(both, 2, 1), 0, width, ATTR(n, LayernormAttr)->eps);
}

/* Both halves of the columns, for this reader alone. */
static bool halves_fit(const Fusing *f, const KnownMatch *m)
{
    const Node     *n = op_at(f, m->value[0]);
    const JoinAttr *attr = ATTR(n, JoinAttr);
    int64_t         inner = 1;
    for (int i = attr->axis + 1; i < attr->whole.rank; i++)
        inner *= attr->whole.dim[i];
    return attr->n == 2 && inner == 1 && attr->extent[0] == attr->extent[1] &&
           n->out[0] == m->value[0] && n->out[1] == m->value[1];
}

static Tensor gate_halves(const Fusing *f, const KnownMatch *m)
{
    const Node *n = op_at(f, m->value[0]);
    Tensor      x = fuse_built(f, n->in[0]);
    int64_t     columns = 2 * ATTR(n, JoinAttr)->extent[0];
    x = reshape(x, SHAPE(shape_count(tensor_shape(x)) / columns, columns));
    return m->of->with ? geglu(x) : glu(x);
}

/* The same tensor is squared and scaled; the weight, if there is one, is along its rows. */
static bool rms_fits(const Fusing *f, const KnownMatch *m)
{
    return fuse_resolve(f->from, m->value[0]) == fuse_resolve(f->from, m->value[1]) &&
           (!m->of->with || shape_count(value_at(f->from, m->value[2])->shape) == m->width);
}

static Tensor rmsnorm_of_rows(const Fusing *f, const KnownMatch *m)
{
    Tensor x = fuse_built(f, m->value[0]),
           w = m->of->with ? fuse_built(f, m->value[2]) : tensor_none(f->to);
    if (dim(tensor_shape(x), -1) != m->width)
        x = reshape(x, SHAPE(shape_count(tensor_shape(x)) / m->width, m->width));
    if (tensor_ok(w) && tensor_shape(w).rank != 1)
        w = reshape(w, SHAPE(m->width));
    return rmsnorm(x, w, m->number);
}

#define M(...)                                                                                     \
    &(const Motif) { __VA_ARGS__ }
#define STEP1(name, x)    M(.kind = MOTIF_STEP, .point = POINT_##name, .arg = { x })
#define STEP2(name, x, y) M(.kind = MOTIF_STEP, .point = POINT_##name, .arg = { x, y })
#define OP(n, name)       M(.kind = MOTIF_OP, .op = &op_##name, .slot = n)
#define PART(n, name)     M(.kind = MOTIF_PART, .op = &op_##name, .slot = n)
#define TENSOR(n)         M(.kind = MOTIF_TENSOR, .slot = n)
#define PER_ROW(x)        M(.kind = MOTIF_PER_ROW, .arg = { x })
#define MEAN(x)           M(.kind = MOTIF_MEAN, .arg = { x })
#define ANY_NUMBER        M(.kind = MOTIF_ANY_NUMBER)
#define ROW(n)            M(.kind = MOTIF_ROW, .slot = n)
#define ROW_OF(x)         M(.kind = MOTIF_ROW, .arg = { x })
#define NUMBER(x)         M(.kind = MOTIF_NUMBER, .number = x)

#define RMS                                                                                        \
    STEP2(MUL, TENSOR(0),                                                                          \
          PER_ROW(STEP1(RSQRT, STEP2(ADD, MEAN(STEP1(SQUARE, TENSOR(1))), ANY_NUMBER))))

/* clang-format off */
static const KnownGroup known_groups[] = {
    { "silu(groupnorm)", STEP1(SILU, OP(0, groupnorm)), norm_is_plain, groupnorm_with_act, NORM_SILU },
    { "relu(groupnorm)", STEP1(RELU, OP(0, groupnorm)), norm_is_plain, groupnorm_with_act, NORM_RELU },
    { "gelu(groupnorm)", STEP1(GELU, OP(0, groupnorm)), norm_is_plain, groupnorm_with_act, NORM_GELU },
    { "relu(batchnorm)", STEP1(RELU, OP(0, batchnorm)), norm_is_plain, batchnorm_with_relu, 0 },
    { "relu(batchnorm_eval)", STEP1(RELU, OP(0, batchnorm_eval)), norm_is_plain, batchnorm_with_relu, 0 },
    { "groupnorm * (1 + gamma) + beta",
      STEP2(ADD, STEP2(MUL, OP(0, groupnorm), STEP2(ADD, TENSOR(1), NUMBER(1))), TENSOR(2)),
      maps_fit, spade_of_maps, 0 },
    { "layernorm * (1 + scale) + shift",
      STEP2(ADD, STEP2(MUL, OP(0, layernorm), ROW_OF(STEP2(ADD, TENSOR(1), NUMBER(1)))), ROW(2)),
      modulate_fits, layernorm_with_rows, 0 },
    { "a gelu(b)", STEP2(MUL, PART(0, split), STEP1(GELU, PART(1, split))), halves_fit, gate_halves, 1 },
    { "a sigmoid(b)", STEP2(MUL, PART(0, split), STEP1(SIGMOID, PART(1, split))), halves_fit, gate_halves, 0 },
    { "w x / rms(x)", STEP2(MUL, RMS, ROW(2)), rms_fits, rmsnorm_of_rows, 1 },
    { "x / rms(x)", RMS, rms_fits, rmsnorm_of_rows, 0 },
    { "x + linear", STEP2(ADD, OP(0, linear), TENSOR(1)), onto_fits, linear_with_summand, 0 },
};
/* clang-format on */
enum { N_KNOWN_GROUPS = sizeof known_groups / sizeof *known_groups };

bool fuse_find_known(const Fusing *f, int32_t node, KnownMatch *match)
{
    const Node          *n = &f->from->nodes[node];
    const PointwiseAttr *attr = ATTR(n, PointwiseAttr);
    if (f->stateful[node] || attr->n_results != 1 || attr->result[0].reduce != POINT_STORED)
        return false;
    for (int i = 0; i < N_KNOWN_GROUPS; i++) {
        *match = (KnownMatch){ .of = &known_groups[i], .root = node };
        if (member_add(f, node, match) &&
            match_step(f, known_groups[i].motif, n, attr->result[0].step, match) &&
            (!known_groups[i].fits || known_groups[i].fits(f, match)) &&
            value_type(f, match->value[0]) == attr->result[0].type)
            return true;
    }
    return false;
}

Tensor fuse_build_known(const Fusing *f, const KnownMatch *match)
{
    return match->of->build(f, match);
}
