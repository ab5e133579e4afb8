/* fuse.c -- finds groups of pointwise nodes that can be one node, and builds the graph. */
#include "rewrite/fuse.h"

#include "ops/elementwise/basic.h"
#include "ops/ops.h"
#include "rewrite/fuse_group.h"

#include <string.h>

enum { NO_NODE = -1 };

/* ---- what depends on what ---- */

int32_t fuse_resolve(const Graph *graph, int32_t value)
{
    while (value >= 0 && value_at(graph, value)->producer >= 0 &&
           graph->nodes[value_at(graph, value)->producer].op == &op_reshape)
        value = graph->nodes[value_at(graph, value)->producer].in[0];
    return value;
}

static int32_t producer_of(const Graph *graph, int32_t value)
{
    return value >= 0 ? value_at(graph, value)->producer : NO_NODE;
}

/* Nodes that read or write state which some node writes keep their order: each names the one
 * before. */
static void find_state(Fusing *f)
{
    const Graph *graph = f->from;
    bool        *written = NEWN(f->pool, bool, graph->n_values);
    int32_t      last = NO_NODE;
    for (int32_t i = 0; i < graph->n_nodes; i++)
        for (int j = 0; j < graph->nodes[i].n_out; j++)
            if (graph->nodes[i].out[j] >= 0 && value_at(graph, graph->nodes[i].out[j])->persistent)
                written[graph->nodes[i].out[j]] = true;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const Node *n = &graph->nodes[i];
        bool        touches = n->once;
        for (int j = 0; j < n->n_in; j++)
            touches |= n->in[j] >= 0 && written[value_at(graph, n->in[j])->root];
        f->after[i] = touches ? last : NO_NODE;
        f->stateful[i] = touches;
        last = touches ? i : last;
    }
}

static void count_reads(Fusing *f, int32_t loss)
{
    const Graph *graph = f->from;
    for (int32_t i = 0; i < graph->n_nodes; i++)
        for (int j = 0; j < graph->nodes[i].n_in && graph->nodes[i].op != &op_reshape; j++)
            if (graph->nodes[i].in[j] >= 0)
                f->reads[fuse_resolve(graph, graph->nodes[i].in[j])]++;
    for (int32_t i = 0; i < graph->n_outputs; i++)
        f->reads[fuse_resolve(graph, graph->outputs[i].value)]++;
    f->reads[fuse_resolve(graph, loss)]++;
}

static void find_links(Fusing *f, int32_t id)
{
    const Node *n = &f->from->nodes[id];
    f->links[id] = NEWN(f->pool, FuseLink, n->n_in);
    for (int j = 0; j < n->n_in; j++) {
        FuseLink   *link = &f->links[id][j];
        int32_t     value = fuse_resolve(f->from, n->in[j]), from = producer_of(f->from, value);
        const Node *p = from >= 0 ? &f->from->nodes[from] : NULL;
        link->node = NO_NODE;
        if (!p || !f->space[from] || p->phase != n->phase || f->stateful[id] || f->stateful[from])
            continue;
        int r = 0;
        while (p->out[r] != value)
            r++;
        if (fuse_may_link(f, p, r, n, j)) {
            link->node = from;
            link->result = r;
        }
    }
}

/* ---- groups ---- */

static bool linked(const Fusing *f, int32_t id, int operand, int32_t a, int32_t b)
{
    if (!f->links[id] || f->links[id][operand].node < 0)
        return false;
    int32_t lead = f->lead[f->links[id][operand].node];
    return lead == a || lead == b;
}

typedef struct FuseSearch { /* for a path from groups a and b through other nodes back to them */
    Fusing *f;
    int32_t a, b;
    int32_t first; /* nodes before it do not lie on such a path */
    int32_t n;     /* on the stack */
} FuseSearch;

static bool search_visit(FuseSearch *s, int32_t node)
{
    if (node < 0)
        return false;
    int32_t lead = s->f->lead[node];
    if (lead == s->a || lead == s->b)
        return true;
    if (s->f->last[lead] < s->first || s->f->seen[lead] == s->f->round)
        return false;
    s->f->seen[lead] = s->f->round;
    s->f->stack[s->n++] = lead;
    return false;
}

static bool search_group(FuseSearch *s, int32_t lead)
{
    bool own = lead == s->a || lead == s->b;
    for (int32_t i = lead; i >= 0; i = s->f->next[i]) {
        const Node *n = &s->f->from->nodes[i];
        if (search_visit(s, s->f->after[i]))
            return true;
        for (int j = 0; j < n->n_in; j++)
            if (!(own && linked(s->f, i, j, s->a, s->b)) &&
                search_visit(s, producer_of(s->f->from, n->in[j])))
                return true;
    }
    return false;
}

/* A place at or before this node that no group lies across: nothing before it depends on anything
 * behind it, even where groups are taken as one. */
static int32_t place_between(const Fusing *f, int32_t node)
{
    for (int32_t low = node;; node = low) {
        for (int32_t i = node; i < f->from->n_nodes && i < node + FUSE_SPAN; i++)
            low = f->lead[i] < low ? f->lead[i] : low;
        if (low == node)
            return node;
    }
}

static bool path_outside(Fusing *f, int32_t a, int32_t b)
{
    FuseSearch s = { .f = f, .a = a, .b = b, .first = place_between(f, a < b ? a : b) };
    f->round++;
    bool found = search_group(&s, a) || search_group(&s, b);
    while (!found && s.n)
        found = search_group(&s, f->stack[--s.n]);
    return found;
}

/* Members of both, in the graph's order. The first member leads a group. */
static int members_of(const Fusing *f, int32_t a, int32_t b, int32_t *members)
{
    int n = 0;
    while (a >= 0 || b >= 0) {
        int32_t *from = b < 0 || (a >= 0 && a < b) ? &a : &b;
        if (n == FUSE_SPAN)
            return 0;
        members[n++] = *from;
        *from = f->next[*from];
    }
    return n;
}

static void chain_members(Fusing *f, const int32_t *members, int n)
{
    for (int i = 0; i < n; i++) {
        f->lead[members[i]] = members[0];
        f->next[members[i]] = i + 1 < n ? members[i + 1] : NO_NODE;
    }
    f->last[members[0]] = members[n - 1];
    f->joined++;
}

static void try_join(Fusing *f, int32_t a, int32_t b)
{
    int32_t members[FUSE_SPAN], first = a < b ? a : b,
                                last = f->last[a] > f->last[b] ? f->last[a] : f->last[b];
    int n = members_of(f, a, b, members);
    if (!n || last - first >= FUSE_SPAN || path_outside(f, a, b) ||
        !fuse_program(f, members, n, NULL, f->trial))
        return;
    chain_members(f, members, n);
}

/* From the last root to the first: the larger of two groups ends later. Their members join no other
 * group. */
static void find_known(Fusing *f)
{
    KnownMatch match;
    for (int32_t i = f->from->n_nodes - 1; i >= 0; i--) {
        if (!f->space[i] || !fuse_find_known(f, i, &match))
            continue;
        chain_members(f, match.members, match.n);
        f->joined += match.n - 2;
        f->known[match.members[0]] = NEW(f->pool, KnownMatch);
        *f->known[match.members[0]] = match;
        for (int k = 0; k < match.n; k++)
            f->space[match.members[k]] = NULL;
    }
}

/* ---- building ---- */

Tensor fuse_built(const Fusing *f, int32_t value)
{
    if (value < 0)
        return tensor_none(f->to);
    REQUIRE(tensor_ok(f->whole[value]));
    return f->whole[value];
}

void fuse_built_as(Fusing *f, int32_t value, Tensor t)
{
    const Value *v = value_at(f->from, value);
    f->whole[value] = t;
    if (!tensor_ok(t) || v->persistent)
        return;
    tensor_class(t, v->mem_class);
    if (v->name)
        tensor_name(t, v->name);
}

static void place_like(Fusing *f, const Node *n)
{
    f->to->module = n->module;
    f->to->source = n->source;
    f->to->phase = n->phase;
}

static void build_node(Fusing *f, const Node *n)
{
    Tensor *in = NEWN(f->pool, Tensor, n->n_in + 1), *out = NEWN(f->pool, Tensor, n->op->n_out + 1);
    place_like(f, n);
    for (int i = 0; i < n->n_in; i++)
        in[i] = fuse_built(f, n->in[i]);
    node_add(f->to, n->op, n->attr, in, n->n_in, out);
    for (int i = 0; i < n->n_out && i < n->op->n_out; i++)
        if (n->out[i] >= 0)
            fuse_built_as(f, n->out[i], out[i]);
}

/* The result as the root gave it; other results of the operator (statistics) as they were. */
static void build_known(Fusing *f, const KnownMatch *match)
{
    const Node *root = &f->from->nodes[match->root];
    place_like(f, root);
    Tensor y = fuse_build_known(f, match);
    if (!tensor_ok(y))
        return;
    const Node *made = &f->to->nodes[value_at(f->to, y.id)->producer];
    for (int i = 0; i < match->n; i++) {
        const Node *n = &f->from->nodes[match->members[i]];
        for (int j = 1; n->op == made->op && j < n->n_out; j++)
            if (n->out[j] >= 0)
                fuse_built_as(f, n->out[j], (Tensor){ f->to, made->out[j] });
    }
    Shape shape = value_at(f->from, root->out[0])->shape;
    if (!shape_same(tensor_shape(y), shape))
        y = reshape(y, shape);
    fuse_built_as(f, root->out[0], y);
}

static void build_group(Fusing *f, int32_t lead)
{
    int32_t members[FUSE_SPAN];
    int     n = members_of(f, lead, NO_NODE, members);
    Tensor  out[POINT_RESULTS];
    place_like(f, &f->from->nodes[f->last[lead]]);
    REQUIRE(fuse_program(f, members, n, f->whole, f->trial));
    point_end(&f->trial->program, out);
    for (int i = 0; i < f->trial->program.attr.n_results; i++)
        fuse_built_as(f, f->trial->value[i], out[i]);
}

/* The value that the node's operand is built from; TENSOR_NONE: an inner one of its group. */
static int32_t operand_of(const Fusing *f, int32_t id, int operand)
{
    int32_t lead = f->lead[id], value = f->from->nodes[id].in[operand],
            resolved = fuse_resolve(f->from, value), from = producer_of(f->from, resolved);
    if (f->next[lead] < 0)
        return value;
    if (from >= 0 && f->lead[from] == lead)
        return TENSOR_NONE;
    return f->known[lead] ? value : resolved;
}

/* Everything that the node, or its group, reads comes before. */
static void build(Fusing *f, int32_t id)
{
    int32_t lead = f->lead[id];
    if (f->done[lead])
        return;
    f->done[lead] = true;
    for (int32_t i = lead; i >= 0; i = f->next[i]) {
        const Node *n = &f->from->nodes[i];
        if (f->after[i] >= 0)
            build(f, f->after[i]);
        for (int j = 0; j < n->n_in; j++) {
            int32_t from = producer_of(f->from, operand_of(f, i, j));
            if (from >= 0)
                build(f, from);
        }
    }
    if (f->known[lead])
        build_known(f, f->known[lead]);
    else if (f->next[lead] >= 0)
        build_group(f, lead);
    else
        build_node(f, &f->from->nodes[lead]);
}

/* Groups come where their last member was, or before the first node that reads them; views where
 * they are read, so that those that only members read are left out. */
static void build_all(Fusing *f)
{
    for (int32_t i = 0; i < f->from->n_nodes; i++)
        if (f->last[f->lead[i]] == i && f->from->nodes[i].op != &op_reshape)
            build(f, i);
}

static Tensor build_value(Fusing *f, int32_t value)
{
    if (producer_of(f->from, value) >= 0)
        build(f, producer_of(f->from, value));
    return fuse_built(f, value);
}

static Err build_graph(Fusing *f, Tensor *loss)
{
    const Graph *graph = f->from;
    int32_t     *into = NEWN(graph->pool, int32_t, graph->n_values);
    f->to = graph_new(graph->pool, graph->compute);
    graph_copy_state(f->to, graph, into);
    for (int32_t i = 0; i < graph->n_values; i++)
        f->whole[i] = (Tensor){ f->to, into[i] };
    build_all(f);
    for (int32_t i = 0; i < graph->n_outputs; i++) {
        Tensor t = build_value(f, graph->outputs[i].value);
        f->to->phase = graph->outputs[i].phase;
        graph_output(t, graph->outputs[i].name);
    }
    *loss = build_value(f, loss->id);
    f->to->phase = PHASE_MICRO;
    f->to->module = graph->module;
    f->to->source = graph->source;
    return graph_check(f->to);
}

static Fusing *fusing_new(Pool *pool, Graph *graph)
{
    Fusing *f = NEW(pool, Fusing);
    int32_t n = graph->n_nodes;
    *f = (Fusing){ .pool = pool,
                   .from = graph,
                   .space = NEWN(pool, PointSpace *, n),
                   .known = NEWN(pool, KnownMatch *, n),
                   .links = NEWN(pool, FuseLink *, n),
                   .after = NEWN(pool, int32_t, n),
                   .stateful = NEWN(pool, bool, n),
                   .lead = NEWN(pool, int32_t, n),
                   .next = NEWN(pool, int32_t, n),
                   .last = NEWN(pool, int32_t, n),
                   .seen = NEWN(pool, int32_t, n),
                   .stack = NEWN(pool, int32_t, n),
                   .done = NEWN(pool, bool, n),
                   .reads = NEWN(pool, int32_t, graph->n_values),
                   .whole = NEWN(pool, Tensor, graph->n_values),
                   .trial = NEW(pool, FuseTrial) };
    for (int32_t i = 0; i < n; i++) {
        f->lead[i] = f->last[i] = i;
        f->next[i] = NO_NODE;
        if (graph->nodes[i].op != &op_pointwise)
            continue;
        f->space[i] = NEW(pool, PointSpace);
        point_space(ATTR(&graph->nodes[i], PointwiseAttr), f->space[i]);
    }
    return f;
}

Err graph_fuse(Graph *graph, Graph **out, Tensor *loss, int32_t *fused)
{
    *out = graph;
    *fused = 0;
    if (!tensor_ok(*loss) || !graph_has(graph, &op_pointwise))
        return OK;
    REQUIRE(!graph->error);
    Pool   *pool = pool_new(graph->pool, "fusion");
    Fusing *f = fusing_new(pool, graph);
    find_state(f);
    count_reads(f, loss->id);
    find_known(f);
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        if (!f->space[i])
            continue;
        find_links(f, i);
        for (int j = 0; j < graph->nodes[i].n_in; j++) {
            int32_t from = f->links[i][j].node;
            if (from >= 0 && f->lead[from] != f->lead[i])
                try_join(f, f->lead[from], f->lead[i]);
        }
    }
    Err err = OK;
    if (f->joined) {
        err = build_graph(f, loss);
        *out = f->to;
        *fused = f->joined;
    }
    pool_free(pool);
    return err;
}
