/* from_graph.c -- the planner's view of an operator graph.
 *
 * Views vanish: a node that reads a view reads its root. Persistent values keep their bytes, so
 * that live sums are complete; host-resident values are so only if the device has memory of its
 * own, and gathered ones always. A value that comes from another phase must be persistent. */
#include "plan/engine.h"

#include "profile/node_time.h"

/* A graph on its way into the planner's form. */
typedef struct Reduction {
    Pool         *pool;
    const Graph  *graph;
    const Device *device;
    Program      *program;
    PGraph       *out;
    int32_t      *seen; /* by root: its value in `out`, or -1 */
} Reduction;

static int32_t reduced_value(Reduction *r, int32_t value)
{
    int32_t root = value_at(r->graph, value)->root;
    PGraph *out = r->out;
    if (r->seen[root] < 0) {
        const Value *v = value_at(r->graph, root);
        r->seen[root] = out->n_values;
        r->program->value_of[out->n_values] = root;
        out->values[out->n_values++] = (PValue){
            .name = value_text(r->graph, root),
            .bytes = v->bytes,
            .view_of = -1,
            .producer = -1,
            .persistent = v->persistent && !(v->host_resident && out->to_host > 0),
            .host_resident = v->persistent && v->host_resident && out->to_host > 0,
            .gathered = v->gathered != NULL,
        };
        if (v->gathered) {
            NodeWire wire = gather_wire(r->device, v);
            out->values[out->n_values - 1].wire = wire.transfer;
            out->values[out->n_values - 1].stall = wire.waits;
        }
    }
    return r->seen[root];
}

/* Each value once; absent ones (id below 0) are left out. */
static int32_t *reduced_values(Reduction *r, const int32_t *ids, int n, int32_t *count)
{
    int32_t *list = NEWN(r->pool, int32_t, n + 1);
    *count = 0;
    for (int i = 0; i < n; i++) {
        if (ids[i] < 0)
            continue;
        int32_t id = reduced_value(r, ids[i]);
        bool    twice = false;
        for (int32_t j = 0; j < *count; j++)
            twice |= list[j] == id;
        if (!twice)
            list[(*count)++] = id;
    }
    return list;
}

/* Both nodes of a transfer are of one phase, or joined ones. */
static int32_t reduced_transfer(const Reduction *r, const Node *node)
{
    int32_t start = node->op->joins ? value_at(r->graph, node->in[node->op->joins - 1])->producer
                                    : -1;
    for (int32_t n = r->out->n_nodes; start >= 0 && n-- > 0;)
        if (r->program->node_of[n] == start)
            return TRANSFER_OF(n);
    return 0;
}

static void reduced_node(Reduction *r, int32_t i, const Choice *choice, double ns)
{
    const Node *node = &r->graph->nodes[i];
    PGraph     *out = r->out;
    PNode      *p = &out->nodes[out->n_nodes];
    *p = (PNode){ .name = node_text(r->graph, i),
                  .cost = ns,
                  .once = node->once,
                  .workspace = (int64_t)choice->workspace_bytes,
                  .wire = node_wire(r->device, node).transfer,
                  .joins = reduced_transfer(r, node) };
    p->in = reduced_values(r, node->in, node->n_in, &p->n_in);
    p->out = reduced_values(r, node->out, node->n_out, &p->n_out);
    for (int32_t j = 0; j < p->n_out; j++)
        if (out->values[p->out[j]].producer < 0)
            out->values[p->out[j]].producer = out->n_nodes;
    if (node->inplace >= 0) {
        p->inplace = pool_alloc(r->pool, 1, sizeof *p->inplace);
        p->inplace[0][0] = r->seen[value_at(r->graph, node->out[0])->root];
        p->inplace[0][1] = r->seen[value_at(r->graph, node->in[node->inplace])->root];
        p->n_inplace = 1;
    }
    r->program->node_of[out->n_nodes++] = i;
}

Err pgraph_from_graph(Pool *pool, const Graph *graph, const bool *phases, const Choice *choices,
                      const double *node_ns, const Device *device, Program *program)
{
    PGraph   *out = NEW(pool, PGraph);
    Reduction r = { pool, graph, device, program, out, NEWN(pool, int32_t, graph->n_values) };

    out->nodes = NEWN(pool, PNode, graph->n_nodes);
    out->values = NEWN(pool, PValue, graph->n_values);
    out->align = device->align;
    out->to_host = device->to_host;
    out->to_device = device->to_device;
    program->node_of = NEWN(pool, int32_t, graph->n_nodes);
    program->value_of = NEWN(pool, int32_t, graph->n_values);
    for (int32_t i = 0; i < graph->n_values; i++)
        r.seen[i] = -1;
    for (int32_t i = 0; i < graph->n_nodes; i++)
        if (phases[graph->nodes[i].phase] && !graph->nodes[i].op->view)
            reduced_node(&r, i, &choices[i], node_ns[i]);
    for (int32_t i = 0; i < graph->n_outputs; i++)
        if (phases[graph->outputs[i].phase])
            out->values[reduced_value(&r, graph->outputs[i].value)].final = true;
    program->pgraph = out;
    return pgraph_check(out);
}
