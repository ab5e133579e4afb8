/* task.c -- PGraph to Task, and a solver's list of nodes to runs of the PGraph. */
#include "plan/solvers/task.h"

#include <string.h>

typedef struct TaskBuilder {
    Pool         *pool;
    const PGraph *graph;
    Task         *task;
    int32_t      *n_writers; /* [PGraph value] */
    bool         *taken;     /* [PGraph value] some node takes over its bytes */
    int32_t      *node_of;   /* [PGraph node] task node, or -1 */
} TaskBuilder;

/* A node that only produces views of one droppable root, from that root and constants, without cost
 * or workspace: it can run wherever the root is live, so it is folded away. Not if it reads a view
 * that an unfolded node produces: it must then run after that node. */
static bool builder_folds(const TaskBuilder *m, const PNode *node)
{
    const PGraph *graph = m->graph;
    int32_t       root = -1;
    if (node->n_out == 0 || node->cost > 0 || node->workspace > 0 || node->n_inplace > 0 ||
        node->once)
        return false;
    for (int32_t i = 0; i < node->n_out; i++) {
        int32_t v = node->out[i], r = graph->values[v].view_of;
        if (r < 0 || graph->values[r].persistent || (root >= 0 && r != root) || m->n_writers[v] > 1)
            return false;
        root = r;
    }
    for (int32_t i = 0; i < node->n_in; i++) {
        const PValue *value = &graph->values[node->in[i]];
        if (value->persistent && value->view_of < 0 && m->n_writers[node->in[i]] == 0 &&
            !m->taken[node->in[i]])
            continue; /* a constant */
        if (pgraph_root(graph, node->in[i]) != root)
            return false;
        if (value->view_of >= 0 && value->producer != graph->values[root].producer &&
            !m->task->folded[value->producer])
            return false;
    }
    return m->n_writers[root] == 1;
}

static void list_add_once(Pool *pool, int32_t **list, int32_t *n, int32_t *cap, int32_t item)
{
    for (int32_t i = *n - 1; i >= 0 && i >= *n - 64; i--) {
        if ((*list)[i] == item)
            return;
    }
    VEC_ADD(pool, *list, *n, *cap, item);
}

static void builder_pair(TaskBuilder *m, int32_t x, int32_t y)
{
    x = x < 0 ? -1 : m->node_of[x];
    y = y < 0 ? -1 : m->node_of[y];
    if (x < 0 || y < 0 || x == y)
        return;
    TaskNode *first = &m->task->nodes[x], *second = &m->task->nodes[y];
    list_add_once(m->pool, &first->after, &first->n_after, &first->cap_after, y);
    list_add_once(m->pool, &second->before, &second->n_before, &second->cap_before, x);
}

/* Does the value hold different contents in the course of the step? */
static bool builder_changes(const TaskBuilder *m, int32_t v)
{
    return m->n_writers[v] > 1 ||
           (m->graph->values[v].persistent && (m->n_writers[v] > 0 || m->taken[v]));
}

/* Is n the first of several writers of v, and may it be recomputed until the second one runs? Not if
 * the bytes change hands. */
static bool builder_first(const TaskBuilder *m, int32_t n, int32_t v)
{
    const PValue *value = &m->graph->values[v];
    return m->n_writers[v] > 1 && value->producer == n && !value->persistent &&
           value->view_of < 0 && !m->taken[v];
}

typedef struct VersionOrder {
    TaskBuilder *m;
    int32_t     *last;    /* [PGraph value] its writer so far, or -1 */
    int32_t    **readers; /* [PGraph value] nodes that read what it wrote */
    int32_t     *n_readers, *cap;
} VersionOrder;

static void order_read(VersionOrder *o, int32_t n, int32_t v)
{
    if (!builder_changes(o->m, v))
        return;
    if (!builder_first(o->m, o->last[v], v)) /* else it reads the latest production */
        builder_pair(o->m, o->last[v], n);
    VEC_ADD(o->m->pool, o->readers[v], o->n_readers[v], o->cap[v], n);
}

static void order_write(VersionOrder *o, int32_t n, int32_t v)
{
    if (!builder_changes(o->m, v))
        return;
    builder_pair(o->m, o->last[v], n);
    for (int32_t k = 0; k < o->n_readers[v]; k++)
        builder_pair(o->m, o->readers[v][k], n);
    o->n_readers[v] = 0;
    o->last[v] = n;
}

/* Orders versions: a reader runs after the writer it reads from and before the next writer. */
static void builder_order_versions(TaskBuilder *m)
{
    const PGraph *graph = m->graph;
    VersionOrder  o = {
         .m = m,
         .last = NEWN(m->pool, int32_t, graph->n_values + 1),
         .readers = NEWN(m->pool, int32_t *, graph->n_values + 1),
         .n_readers = NEWN(m->pool, int32_t, graph->n_values + 1),
         .cap = NEWN(m->pool, int32_t, graph->n_values + 1),
    };
    for (int32_t v = 0; v < graph->n_values; v++)
        o.last[v] = -1;
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        const PNode *node = &graph->nodes[n];
        for (int32_t i = 0; i < node->n_in; i++) {
            order_read(&o, n, node->in[i]);
            order_read(&o, n, pgraph_root(graph, node->in[i]));
        }
        for (int32_t i = 0; i < node->n_out; i++) { /* a view, before its bytes are taken over */
            int32_t root = graph->values[node->out[i]].view_of;
            if (root >= 0 && graph->values[root].persistent && m->taken[root])
                order_read(&o, n, root);
        }
        for (int32_t i = 0; i < node->n_out; i++)
            order_write(&o, n, node->out[i]);
        for (int32_t i = 0; i < node->n_inplace; i++)
            order_write(&o, n, pgraph_root(graph, node->inplace[i][1]));
    }
}

static void builder_node(TaskBuilder *m, int32_t n)
{
    const PGraph *graph = m->graph;
    const PNode  *node = &graph->nodes[n];
    Task         *task = m->task;
    TaskNode     *t = &task->nodes[m->node_of[n]];
    int32_t       cap = 0;
    t->cost = node->cost;
    t->workspace = node->workspace;
    t->id = n;
    t->once = node->once;
    cap = 2 * (node->n_in + node->n_out) + 1;
    t->in = NEWN(m->pool, int32_t, cap);
    t->out = NEWN(m->pool, int32_t, node->n_out + 1);
    for (int32_t i = 0; i < node->n_inplace; i++) {
        int32_t root = pgraph_root(graph, node->inplace[i][1]);
        if (node->inplace[i][0] == node->inplace[i][1])
            continue;
        t->once |= graph->values[root].persistent;
        if (task->alias_of[node->inplace[i][0]] >= 0)
            task->values[task->alias_of[node->inplace[i][0]]].takes = true;
        if (task->alias_of[root] >= 0)
            t->in[t->n_takes++] = task->alias_of[root];
    }
    t->n_in = t->n_takes;
    for (int32_t i = 0; i < node->n_in; i++) {
        int32_t v = task->alias_of[node->in[i]], root = pgraph_root(graph, node->in[i]);
        if (task->alias_of[root] >= 0)
            list_add_once(m->pool, &t->in, &t->n_in, &cap, task->alias_of[root]);
        if (v >= 0)
            list_add_once(m->pool, &t->in, &t->n_in, &cap, v);
    }
    for (int32_t i = 0; i < node->n_out; i++) { /* the root of a view must be there */
        int32_t root = graph->values[node->out[i]].view_of;
        if (root >= 0 && task->alias_of[root] >= 0 && graph->values[root].producer != n)
            list_add_once(m->pool, &t->in, &t->n_in, &cap, task->alias_of[root]);
    }
    for (int32_t i = 0; i < node->n_out; i++) {
        int32_t p = node->out[i], v = task->alias_of[p];
        t->once |= graph->values[p].persistent || (m->n_writers[p] > 1 && !builder_first(m, n, p));
        if (v < 0)
            continue;
        if (task->values[v].producer < 0) {
            task->values[v].producer = m->node_of[n];
            t->out[t->n_out++] = v;
        } else if (task->values[v].producer != m->node_of[n]) {
            list_add_once(m->pool, &t->in, &t->n_in, &cap, v); /* a later writer needs it live */
        }
    }
    for (int32_t i = 0; i < t->n_in; i++)
        task->values[t->in[i]].n_readers++;
}

/* Assigns a task value to each PGraph value. A view that is produced with its root is the same. */
static void builder_values(TaskBuilder *m)
{
    const PGraph *graph = m->graph;
    Task         *task = m->task;
    int64_t      *held = pgraph_held_bytes(m->pool, graph);
    for (int32_t v = 0; v < graph->n_values; v++) {
        const PValue *value = &graph->values[v];
        int32_t       root = value->view_of;
        task->alias_of[v] = -1;
        if (value->persistent)
            continue;
        bool same_producer = root >= 0 && !graph->values[root].persistent &&
                             graph->values[root].producer == value->producer &&
                             m->n_writers[v] == 1;
        if (root >= 0 && (task->folded[value->producer] || same_producer))
            continue; /* shares its root's bytes: filled in below */
        task->alias_of[v] = task->n_values;
        task->values[task->n_values++] = (TaskValue){
            .bytes = held[v],
            .producer = -1,
            .root = v,
            .view_of = -1,
            .final = value->final,
        };
    }
    for (int32_t v = 0; v < graph->n_values; v++) {
        const PValue *value = &graph->values[v];
        if (value->persistent || task->alias_of[v] >= 0)
            continue;
        task->alias_of[v] = task->alias_of[value->view_of];
        task->values[task->alias_of[v]].final |= value->final;
    }
    for (int32_t v = 0; v < graph->n_values; v++) {
        int32_t root = graph->values[v].view_of;
        if (root < 0 || task->alias_of[root] < 0)
            continue;
        if (task->alias_of[v] != task->alias_of[root])
            task->values[task->alias_of[v]].view_of = task->alias_of[root];
        if (graph->values[v].final) /* it keeps its root to the end */
            task->values[task->alias_of[root]].final = true;
    }
}

static void builder_views(const TaskBuilder *m)
{
    Task *task = m->task;
    for (int32_t pass = 0; pass < 2; pass++) {
        for (int32_t v = 0; v < task->n_values; v++) {
            int32_t root = task->values[v].view_of;
            if (root >= 0 && pass == 1)
                task->values[root].views[task->values[root].n_views] = v;
            if (root >= 0)
                task->values[root].n_views++;
        }
        for (int32_t v = 0; v < task->n_values && pass == 0; v++) {
            TaskValue *value = &task->values[v];
            value->views = value->n_views > 0 ? NEWN(m->pool, int32_t, value->n_views) : NULL;
            value->n_views = 0;
        }
    }
}

/* order: the PGraph nodes that are not folded, in the order of their task nodes; NULL: theirs. */
static Task *task_make(Pool *pool, const PGraph *graph, const int32_t *order)
{
    Task       *task = NEW(pool, Task);
    TaskBuilder m = {
        .pool = pool,
        .graph = graph,
        .task = task,
        .n_writers = NEWN(pool, int32_t, graph->n_values + 1),
        .taken = NEWN(pool, bool, graph->n_values + 1),
        .node_of = NEWN(pool, int32_t, graph->n_nodes + 1),
    };
    task->graph = graph;
    task->values = NEWN(pool, TaskValue, graph->n_values + 1);
    task->nodes = NEWN(pool, TaskNode, graph->n_nodes + 1);
    task->alias_of = NEWN(pool, int32_t, graph->n_values + 1);
    task->folded = NEWN(pool, bool, graph->n_nodes + 1);
    task->fixed_bytes = pgraph_persistent_bytes(graph);
    task->base_cost = pgraph_base_cost(graph);
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        for (int32_t i = 0; i < graph->nodes[n].n_out; i++)
            m.n_writers[graph->nodes[n].out[i]]++;
        for (int32_t i = 0; i < graph->nodes[n].n_inplace; i++)
            m.taken[pgraph_root(graph, graph->nodes[n].inplace[i][1])] = true;
    }
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        task->folded[n] = builder_folds(&m, &graph->nodes[n]);
        m.node_of[n] = task->folded[n] ? -1 : task->n_nodes++;
    }
    for (int32_t t = 0; order && t < task->n_nodes; t++)
        m.node_of[order[t]] = t;
    builder_values(&m);
    builder_views(&m);
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        if (m.node_of[n] >= 0)
            builder_node(&m, n);
    }
    builder_order_versions(&m);

    for (int32_t v = 0; v < task->n_values; v++) {
        task->values[v].readers = NEWN(pool, int32_t, task->values[v].n_readers + 1);
        task->values[v].n_readers = 0;
    }
    for (int32_t t = 0; t < task->n_nodes; t++) {
        for (int32_t i = 0; i < task->nodes[t].n_in; i++) {
            TaskValue *value = &task->values[task->nodes[t].in[i]];
            value->readers[value->n_readers++] = t;
            value->takable |= i < task->nodes[t].n_takes;
        }
    }
    return task;
}

Task *task_new(Pool *pool, const PGraph *graph) { return task_make(pool, graph, NULL); }

Task *task_reorder(Pool *pool, const Task *task, const int32_t *list)
{
    Pool    *temp = pool_new(NULL, "task_reorder");
    int32_t *order = NEWN(temp, int32_t, task->n_nodes + 1);
    for (int32_t i = 0; i < task->n_nodes; i++)
        order[i] = task->nodes[list[i]].id;
    Task *made = task_make(pool, task->graph, order);
    pool_free(temp);
    return made;
}

int32_t *task_deadlines(Pool *pool, const Task *task)
{
    int32_t *deadline = NEWN(pool, int32_t, task->n_nodes + 1);
    for (int32_t n = 0; n < task->n_nodes; n++) {
        const TaskNode *t = &task->nodes[n];
        deadline[n] = task->n_nodes;
        for (int32_t i = 0; i < t->n_after; i++)
            deadline[n] = t->after[i] < deadline[n] ? t->after[i] : deadline[n];
    }
    return deadline;
}

typedef struct Expand {
    const Task *task;
    Pool       *pool;
    int32_t    *made;       /* [PGraph node] folded: the production of the root that it belongs
                              * to */
    int32_t    *production; /* [task value] how often its producer has run */
    int32_t    *runs;
    int32_t     n, cap;
} Expand;

/* Produces view v of the current production of its root, its own inputs first. */
static void expand_view(Expand *e, int32_t v)
{
    const PGraph *graph = e->task->graph;
    int32_t       node = graph->values[v].producer;
    if (node < 0 || !e->task->folded[node])
        return;
    int32_t production = e->production[e->task->alias_of[v]];
    if (e->made[node] == production)
        return;
    e->made[node] = production;
    for (int32_t i = 0; i < graph->nodes[node].n_in; i++)
        expand_view(e, graph->nodes[node].in[i]);
    VEC_ADD(e->pool, e->runs, e->n, e->cap, node);
}

void task_runs(Pool *pool, const Task *task, const int32_t *list, int32_t n, int32_t **runs,
               int32_t *n_runs)
{
    const PGraph *graph = task->graph;
    Pool         *temp = pool_new(NULL, "task_runs");
    Expand        e = {
               .task = task,
               .pool = pool,
               .made = NEWN(temp, int32_t, graph->n_nodes + 1),
               .production = NEWN(temp, int32_t, task->n_values + 1),
    };
    int32_t **unread = NEWN(temp, int32_t *, task->n_values + 1); /* views to produce at once */
    int32_t  *n_unread = NEWN(temp, int32_t, task->n_values + 1);
    int32_t  *cap = NEWN(temp, int32_t, task->n_values + 1);
    bool     *read = NEWN(temp, bool, graph->n_values + 1);
    for (int32_t g = 0; g < graph->n_nodes; g++) {
        for (int32_t i = 0; i < graph->nodes[g].n_in; i++)
            read[graph->nodes[g].in[i]] |= !task->folded[g];
    }
    for (int32_t g = 0; g < graph->n_nodes; g++) {
        bool any = false, final = false; /* a final view must exist in the last production */
        for (int32_t i = 0; i < graph->nodes[g].n_out && task->folded[g]; i++) {
            any |= read[graph->nodes[g].out[i]];
            final |= graph->values[graph->nodes[g].out[i]].final;
        }
        if (task->folded[g] && (!any || final)) {
            int32_t v = task->alias_of[graph->nodes[g].out[0]];
            VEC_ADD(temp, unread[v], n_unread[v], cap[v], graph->nodes[g].out[0]);
        }
    }
    for (int32_t k = 0; k < n; k++) {
        const TaskNode *t = &task->nodes[list[k]];
        for (int32_t i = 0; i < graph->nodes[t->id].n_in; i++)
            expand_view(&e, graph->nodes[t->id].in[i]);
        VEC_ADD(pool, e.runs, e.n, e.cap, t->id);
        for (int32_t i = 0; i < t->n_out; i++) {
            int32_t v = t->out[i];
            e.production[v]++;
            for (int32_t j = 0; j < n_unread[v]; j++)
                expand_view(&e, unread[v][j]);
        }
    }
    *runs = e.runs;
    *n_runs = e.n;
    pool_free(temp);
}
