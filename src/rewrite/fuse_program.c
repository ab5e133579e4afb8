/* fuse_program.c -- one pointwise program that computes what several did.
 *
 * All members have the same points in the same order, but each divides them into axes of its own.
 * The common space has a boundary wherever one of them has:
 *
 *   (6,4) and (2,12):  boundaries 24 4 1 and 24 12 1:  space 24 12 4 1 = (2,3,4)
 *   (6,4) and (3,8):   boundaries 24 4 1 and 24 8 1:   space (3,2,4)
 */
#include "rewrite/fuse_group.h"

#include <string.h>

typedef struct CommonSpace {
    int     rank;
    int64_t dim[POINT_RANK], inner[POINT_RANK]; /* inner: points of one step along the axis */
} CommonSpace;

enum { MAX_BOUNDARIES = 2 * POINT_RANK + 1 };

/* Adds a boundary to a list that falls; false: there are too many. */
static bool boundary_add(int64_t *list, int *n, int64_t x)
{
    int at = 0;
    while (at < *n && list[at] > x)
        at++;
    if (at < *n && list[at] == x)
        return true;
    if (*n == MAX_BOUNDARIES)
        return false;
    memmove(list + at + 1, list + at, (size_t)(*n - at) * sizeof *list);
    list[at] = x;
    (*n)++;
    return true;
}

static bool common_space(const Fusing *f, const int32_t *members, int n, CommonSpace *space)
{
    int64_t list[MAX_BOUNDARIES];
    int     n_list = 0;
    boundary_add(list, &n_list, 1);
    for (int i = 0; i < n; i++) {
        const PointSpace *s = f->space[members[i]];
        int64_t           points = 1;
        for (int a = s->rank - 1; a >= 0; a--) {
            points *= s->dim[a];
            if (!boundary_add(list, &n_list, points))
                return false;
        }
    }
    space->rank = n_list - 1;
    if (space->rank > POINT_RANK)
        return false;
    for (int a = 0; a < space->rank; a++) {
        if (list[a] % list[a + 1])
            return false;
        space->dim[a] = list[a] / list[a + 1];
        space->inner[a] = list[a + 1];
    }
    return true;
}

/* The member's axis that axis a of the common space is a part of; *times: steps of it that one step
 * along a takes. */
static int member_axis(const PointSpace *s, const CommonSpace *space, int a, int64_t *times)
{
    int64_t inner = 1;
    int     axis = s->rank - 1;
    while (axis > 0 && inner * s->dim[axis] <= space->inner[a])
        inner *= s->dim[axis--];
    *times = space->inner[a] / inner;
    return axis;
}

static void member_strides(const PointSpace *s, const CommonSpace *space, int operand,
                           int64_t *stride)
{
    for (int a = 0; a < space->rank; a++) {
        int64_t times;
        int     axis = member_axis(s, space, a, &times);
        stride[a] = s->stride[operand][axis] * times;
    }
}

static uint32_t member_reduced(const PointSpace *s, const CommonSpace *space, int result)
{
    uint32_t axes = 0;
    for (int a = 0; a < space->rank; a++) {
        int64_t times;
        axes |= (s->reduced[result] >> member_axis(s, space, a, &times) & 1) << a;
    }
    return axes;
}

/* ---- links ---- */

bool fuse_reads_in_order(const PointSpace *s, int i)
{
    int64_t next = 1;
    for (int a = s->rank - 1; a >= 0; a--) {
        if (s->dim[a] > 1 && s->stride[i][a] != next)
            return false;
        next *= s->dim[a];
    }
    return true;
}

/* Is the register what a byte would hold? */
static bool fits_byte(const Node *n, int step)
{
    const PointStep *s = &ATTR(n, PointwiseAttr)->step[step];
    switch ((PointOp)s->op) {
    case POINT_INPUT: return in_type(n, s->a) == U8;
    case POINT_AND:
    case POINT_OR:
    case POINT_XOR: return fits_byte(n, s->a) && fits_byte(n, s->b);
    case POINT_EQ:
    case POINT_NE:
    case POINT_LT:
    case POINT_LE:
    case POINT_GT:
    case POINT_GE:
    case POINT_NOT:
    case POINT_TO_TRUTH:
    case POINT_IS_NAN:
    case POINT_IS_INF: return true;
    default: return false;
    }
}

bool fuse_may_link(const Fusing *f, const Node *p, int r, const Node *n, int operand)
{
    const PointResult *result = &ATTR(p, PointwiseAttr)->result[r];
    return result->reduce == POINT_STORED && f->space[p->id]->points == f->space[n->id]->points &&
           fuse_reads_in_order(f->space[n->id], operand) &&
           (result->type != U8 || fits_byte(p, result->step));
}

/* ---- the program ---- */

static int place_of(const int32_t *members, int n, int32_t node)
{
    for (int i = 0; i < n; i++)
        if (members[i] == node)
            return i;
    return -1;
}

/* The register as it would be read back from memory. */
static int stored_form(PointProgram *p, const Node *n, int r, int step)
{
    const PointResult *result = &ATTR(n, PointwiseAttr)->result[r];
    if (result->type == BF16)
        return point_step(p, POINT_ROUND_BF16, step, -1, -1);
    if (result->type == F16)
        return point_step(p, POINT_ROUND_F16, step, -1, -1);
    bool narrow = false;
    for (int i = 0; i < n->n_in; i++)
        narrow |= type_is_float(in_type(n, i)) && in_type(n, i) != F32;
    /* fp32 although operands have 16 bits: so is what backward keeps of it */
    return result->type == F32 && narrow ? point_step(p, POINT_TO_F32, step, -1, -1) : step;
}

static int add_step(PointProgram *p, const PointStep *s, const int *at)
{
    if (s->op == POINT_CONSTANT)
        return s->integer ? point_integer(p, s->value.i) : point_constant(p, s->value.f);
    int n = point_op_operands(s->op);
    return point_step(p, (PointOp)s->op, at[s->a], n > 1 ? at[s->b] : -1, n > 2 ? at[s->c] : -1);
}

static void add_member(const Fusing *f, const int32_t *members, int n, int m, const Tensor *whole,
                       const CommonSpace *space, FuseTrial *t)
{
    const Node          *node = &f->from->nodes[members[m]];
    const PointwiseAttr *attr = ATTR(node, PointwiseAttr);
    for (int i = 0; i < attr->n_steps && !t->program.full; i++) {
        const PointStep *s = &attr->step[i];
        int             *at = &t->at[m][i];
        if (s->op != POINT_INPUT) {
            *at = add_step(&t->program, s, t->at[m]);
            continue;
        }
        const FuseLink *link = &f->links[members[m]][s->a];
        int             from = link->node >= 0 ? place_of(members, n, link->node) : -1;
        if (from >= 0) {
            const Node *p = &f->from->nodes[link->node];
            int         step = ATTR(p, PointwiseAttr)->result[link->result].step;
            *at = stored_form(&t->program, p, link->result, t->at[from][step]);
            continue;
        }
        int32_t value = fuse_resolve(f->from, node->in[s->a]);
        int64_t stride[POINT_RANK] = { 0 };
        member_strides(f->space[members[m]], space, s->a, stride);
        *at = point_input(&t->program, whole ? whole[value] : (Tensor){ (Graph *)f->from, value },
                          stride);
    }
}

/* How often members of the group read the value as an inner one. */
static int32_t inner_reads(const Fusing *f, const int32_t *members, int n, int32_t value)
{
    int32_t count = 0;
    for (int i = 0; i < n; i++) {
        const Node *node = &f->from->nodes[members[i]];
        for (int j = 0; j < node->n_in; j++)
            count += f->links[members[i]][j].node >= 0 &&
                     fuse_resolve(f->from, node->in[j]) == value;
    }
    return count;
}

static void add_results(const Fusing *f, const int32_t *members, int n, int m,
                        const CommonSpace *space, FuseTrial *t)
{
    const Node          *node = &f->from->nodes[members[m]];
    const PointwiseAttr *attr = ATTR(node, PointwiseAttr);
    for (int r = 0; r < attr->n_results; r++) {
        const PointResult *result = &attr->result[r];
        int32_t            value = node->out[r], inside = inner_reads(f, members, n, value);
        int                step = t->at[m][result->step];
        if (inside && f->reads[value] == inside)
            continue;
        if (t->program.attr.n_results == FUSE_RESULTS) {
            t->program.full = true;
            return;
        }
        t->value[t->program.attr.n_results] = value;
        if (result->reduce == POINT_STORED)
            point_store(&t->program, inside ? stored_form(&t->program, node, r, step) : step,
                        result->type, result->shape);
        else
            point_reduce(&t->program, step, (PointReduce)result->reduce,
                         member_reduced(f->space[members[m]], space, r), result->scale,
                         result->type, result->shape);
    }
}

bool fuse_program(const Fusing *f, const int32_t *members, int n, const Tensor *whole, FuseTrial *t)
{
    CommonSpace space = { 0 };
    if (!common_space(f, members, n, &space))
        return false;
    t->program = point_begin(space.rank, space.dim);
    t->program.max_inputs = FUSE_INPUTS;
    t->program.max_steps = FUSE_STEPS;
    for (int m = 0; m < n && !t->program.full; m++)
        add_member(f, members, n, m, whole, &space, t);
    for (int m = 0; m < n && !t->program.full; m++)
        add_results(f, members, n, m, &space, t);
    return !t->program.full && !t->program.wrong && t->program.attr.n_in > 0;
}
