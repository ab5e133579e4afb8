/* point_cut.c -- a minimum cut through the forward steps: what the gradient reads. */
#include "ops/ops.h"
#include "ops/pointwise/point_trace.h"

#include <string.h>

/* What storing a forward value would take. */
typedef struct Storage {
    Type type[POINT_STEPS_MAX];  /* in which the value may be stored */
    bool whole[POINT_STEPS_MAX]; /* it differs along all axes: it has an element for each point */
    int32_t value[POINT_STEPS_MAX]; /* it is stored already: an operand or a result */
    int64_t cost[POINT_STEPS_MAX];
} Storage;

static const int64_t NEVER = INT64_MAX / 4;

/* The type that the value would have in PyTorch: that of its operands. Numbers do not count. */
static Type step_type(const Trace *t, int i, const int *type)
{
    const PointStep *s = &t->p->step[i];
    int              n = point_op_operands(s->op), reads[] = { s->a, s->b, s->c }, found = -1;
    if (s->op == POINT_ROUND_BF16)
        return BF16;
    if (s->op == POINT_ROUND_F16)
        return F16;
    if (s->op == POINT_TO_F32)
        return F32;
    for (int k = s->op == POINT_SELECT; k < n; k++) {
        if (t->p->step[reads[k]].integer || type[reads[k]] < 0)
            continue;
        found = found < 0 || found == type[reads[k]] ? type[reads[k]] : F32;
    }
    return found < 0 ? TYPE_COUNT : (Type)found;
}

static bool operand_is_number(const PointwiseAttr *p, int i)
{
    for (int a = 0; a < p->rank; a++)
        if (p->stride[i][a] > 0)
            return false;
    return true;
}

/* Do its values fit a byte? Truth values, and bytes themselves. */
static bool step_fits_byte(const Trace *t, int i, const bool *fits)
{
    const PointStep *s = &t->p->step[i];
    switch ((PointOp)s->op) {
    case POINT_INPUT: return in_type(t->g->node, s->a) == U8;
    case POINT_CONSTANT: return s->value.i >= 0 && s->value.i <= 255;
    case POINT_AND:
    case POINT_OR:
    case POINT_XOR: return fits[s->a] && fits[s->b];
    case POINT_SELECT: return fits[s->b] && fits[s->c];
    case POINT_DETACH: return fits[s->a];
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

/* Values from which a largest element is found again must be those of the forward pass, to the
 * bit: they are not rounded. */
static void mark_exact(const Trace *t, bool *exact)
{
    for (int r = 0; r < t->p->n_results; r++)
        if (t->p->result[r].reduce > POINT_SUM && result_gets(t, r))
            exact[t->p->result[r].step] = true;
    for (int i = t->p->n_steps - 1; i >= 0; i--) {
        const PointStep *s = &t->p->step[i];
        int              n = point_op_operands(s->op), reads[] = { s->a, s->b, s->c };
        for (int k = 0; exact[i] && k < n; k++)
            exact[reads[k]] = true;
    }
}

/* Values that backward nodes read already cost nothing more. Those that were added last read what
 * is nearest. */
static bool read_already(const Graph *graph, int32_t value)
{
    enum { LOOK_BACK = 400 };
    int32_t root = value_at(graph, value)->root;
    for (int32_t i = graph->n_nodes - 1, k = 0; i >= 0 && k < LOOK_BACK; i--, k++) {
        const Node *n = &graph->nodes[i];
        if (!n->backward)
            return false;
        for (int j = 0; j < n->n_in && !n->op->view; j++)
            if (n->in[j] >= 0 && value_at(graph, n->in[j])->root == root)
                return true;
    }
    return false;
}

static int64_t value_cost(const Graph *graph, int32_t id)
{
    const Value *value = value_at(graph, id);
    return value->persistent || read_already(graph, id) ? 0 : value->bytes * 16;
}

static void storage_types(const Trace *t, Storage *s)
{
    const PointwiseAttr *p = t->p;
    int                  type[POINT_STEPS_MAX];
    bool                 fits[POINT_STEPS_MAX], exact[POINT_STEPS_MAX] = { false };
    mark_exact(t, exact);
    for (int i = 0; i < p->n_steps; i++) {
        const PointStep *step = &p->step[i];
        fits[i] = step->integer && step_fits_byte(t, i, fits);
        type[i] = -1;
        if (step->integer) {
            s->type[i] = fits[i] ? U8 : I32;
            continue;
        }
        if (step->op == POINT_INPUT)
            type[i] = operand_is_number(p, step->a) ? -1 : (int)in_type(t->g->node, step->a);
        else {
            Type of = step_type(t, i, type);
            type[i] = of == TYPE_COUNT ? -1 : (int)of;
        }
        s->type[i] = type[i] < 0 ? F32 : (Type)type[i];
        if (exact[i] && step->op != POINT_INPUT && step->op != POINT_ROUND_BF16 &&
            step->op != POINT_ROUND_F16)
            s->type[i] = F32;
    }
}

static void storage_extents(const Trace *t, Storage *s)
{
    const PointwiseAttr *p = t->p;
    uint32_t             axes[POINT_STEPS_MAX], all = 0;
    for (int a = 0; a < p->rank && a < POINT_RANK; a++)
        all |= (uint32_t)(p->dim[a] > 1) << a;
    for (int i = 0; i < p->n_steps; i++) {
        const PointStep *step = &p->step[i];
        int              n = point_op_operands(step->op), reads[] = { step->a, step->b, step->c };
        axes[i] = 0;
        for (int a = 0; step->op == POINT_INPUT && a < p->rank && a < POINT_RANK; a++)
            axes[i] |= (uint32_t)(p->stride[step->a][a] > 0) << a;
        for (int k = 0; k < n; k++)
            axes[i] |= axes[reads[k]];
        s->whole[i] = axes[i] == all && step->op != POINT_CONSTANT;
    }
}

/* May the stored form of a result stand for its step? */
static bool result_serves(Type stored, Type may_be)
{
    return stored == may_be || stored == F32 || stored == I32;
}

static void storage_costs(const Trace *t, Storage *s, bool may_add)
{
    const PointwiseAttr *p = t->p;
    const Graph         *graph = t->g->graph;
    for (int i = 0; i < p->n_steps; i++) {
        const PointStep *step = &p->step[i];
        s->value[i] = TENSOR_NONE;
        s->cost[i] = NEVER;
        if (step->op == POINT_INPUT)
            s->value[i] = t->g->node->in[step->a];
        else if (may_add && s->whole[i] && step->op != POINT_DETACH) /* written, and one more */
            s->cost[i] = point_count(p) * type_bytes(s->type[i]) * 17 + 1;
    }
    for (int r = 0; r < p->n_results; r++) {
        const PointResult *result = &p->result[r];
        if (result->reduce == POINT_STORED && s->value[result->step] == TENSOR_NONE &&
            result_serves(result->type, s->type[result->step]))
            s->value[result->step] = t->g->node->out[r];
    }
    for (int i = 0; i < p->n_steps; i++)
        if (s->value[i] >= 0)
            s->cost[i] = value_cost(graph, s->value[i]);
}

/* Maximum flow by shortest paths. Step i is an edge from 2i to 2i + 1, with its cost as capacity;
 * edges between steps have none. */
typedef struct Flow {
    int      n, source, sink; /* vertices */
    int64_t *left;            /* n x n: residual capacities */
    int     *from;
} Flow;

static bool flow_path(Flow *f)
{
    int queue[2 * POINT_STEPS_MAX + 2], head = 0, tail = 0;
    for (int i = 0; i < f->n; i++)
        f->from[i] = -1;
    queue[tail++] = f->source;
    f->from[f->source] = f->source;
    while (head < tail && f->from[f->sink] < 0) {
        int u = queue[head++];
        for (int v = 0; v < f->n; v++)
            if (f->from[v] < 0 && f->left[(size_t)u * (size_t)f->n + (size_t)v] > 0) {
                f->from[v] = u;
                queue[tail++] = v;
            }
    }
    return f->from[f->sink] >= 0;
}

#define LEFT(u, v) f->left[(size_t)(u) * (size_t)f->n + (size_t)(v)]

static void flow_run(Flow *f)
{
    while (flow_path(f)) {
        int64_t most = NEVER;
        for (int v = f->sink; v != f->source; v = f->from[v])
            most = LEFT(f->from[v], v) < most ? LEFT(f->from[v], v) : most;
        if (most >= NEVER) /* cannot be: operands have a finite cost */
            return;
        for (int v = f->sink; v != f->source; v = f->from[v]) {
            LEFT(f->from[v], v) -= most;
            LEFT(v, f->from[v]) += most;
        }
    }
}

/* Vertices from which the sink can still be reached. */
static void flow_sink_side(const Flow *f, bool *reaches)
{
    int stack[2 * POINT_STEPS_MAX + 2], top = 0;
    stack[top++] = f->sink;
    reaches[f->sink] = true;
    while (top) {
        int v = stack[--top];
        for (int u = 0; u < f->n; u++)
            if (!reaches[u] && LEFT(u, v) > 0) {
                reaches[u] = true;
                stack[top++] = u;
            }
    }
}

/* Of several cheapest cuts, the one nearest to the gradient: as little as possible is recomputed. */
static void trace_cut(Trace *t, const Storage *s, bool *cut)
{
    const PointwiseAttr *p = t->p;
    int                  n = 2 * p->n_steps + 2;
    Flow  flow = { .n = n, .source = n - 2, .sink = n - 1, .from = NEWN(t->pool, int, n) };
    Flow *f = &flow;
    bool *reaches = NEWN(t->pool, bool, n);
    f->left = NEWN(t->pool, int64_t, (int64_t)n * n);
    for (int i = 0; i < p->n_steps; i++) {
        const PointStep *step = &p->step[i];
        int              m = point_op_operands(step->op), reads[] = { step->a, step->b, step->c };
        LEFT(2 * i, 2 * i + 1) = s->cost[i];
        for (int k = 0; k < m; k++)
            LEFT(2 * reads[k] + 1, 2 * i) = NEVER;
        if (step->op == POINT_INPUT)
            LEFT(f->source, 2 * i) = NEVER;
        if (t->needed[i])
            LEFT(2 * i + 1, f->sink) = NEVER;
    }
    flow_run(f);
    flow_sink_side(f, reaches);
    for (int i = 0; i < p->n_steps; i++)
        cut[i] = reaches[2 * i + 1] && !reaches[2 * i] && t->step[i].op != POINT_CONSTANT;
}

/* A shape for an inner value: that of a result or operand that has it, else the space's. */
static Shape inner_shape(const Trace *t)
{
    const PointwiseAttr *p = t->p;
    for (int r = 0; r < p->n_results; r++)
        if (p->result[r].reduce == POINT_STORED)
            return p->result[r].shape;
    Shape shape = { .rank = p->rank < MAX_RANK ? p->rank : MAX_RANK };
    for (int i = 0; i < shape.rank; i++)
        shape.dim[i] = 1;
    for (int a = 0; a < p->rank; a++) { /* surplus axes are joined with the first */
        int at = a - (p->rank - shape.rank);
        shape.dim[at < 0 ? 0 : at] *= p->dim[a];
    }
    if (shape.rank == 0)
        shape = SHAPE(1);
    return shape;
}

/* An inner value becomes a further result of the forward node. */
static Tensor keep_inner(Trace *t, int step, Type type)
{
    Graph         *graph = t->g->graph;
    Node          *node = &graph->nodes[t->g->node->id];
    PointwiseAttr *p = node->attr;
    Phase          phase = graph->phase;
    Shape          shape = inner_shape(t);
    int            r = p->n_results++;
    p->result[r].step = (int16_t)step;
    p->result[r].scale = 1;
    p->result[r].type = type;
    p->result[r].shape.rank = shape.rank;
    for (int i = 0; i < shape.rank; i++)
        p->result[r].shape.dim[i] = shape.dim[i];
    out_set(node, r, type, shape);
    graph->phase = phase;
    return (Tensor){ graph, node->out[r] };
}

void trace_keep(Trace *t)
{
    const PointwiseAttr *p = t->p;
    Storage             *s = NEW(t->pool, Storage);
    int                  n_added = 0;
    storage_types(t, s);
    storage_extents(t, s);
    storage_costs(t, s, true);
    trace_cut(t, s, t->in_cut);
    for (int i = 0; i < p->n_steps; i++)
        n_added += t->in_cut[i] && s->value[i] < 0;
    if (p->n_results + n_added > POINT_RESULTS) { /* no room: what is there must do */
        storage_costs(t, s, false);
        trace_cut(t, s, t->in_cut);
    }
    for (int i = 0; i < p->n_steps; i++) {
        if (!t->in_cut[i])
            continue;
        if (p->step[i].op == POINT_INPUT)
            t->kept_stride[i] = p->stride[p->step[i].a];
        t->kept[i] = s->value[i] >= 0 ? (Tensor){ t->g->graph, s->value[i] }
                                      : keep_inner(t, i, s->type[i]);
    }
}
