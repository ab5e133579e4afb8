/* chunk.c -- finds sections that can run in n chunks, and builds the graph that does so. */
#include "rewrite/chunk.h"

#include "ops/arrange/arrange.h"
#include "ops/elementwise/basic.h"
#include "ops/ops.h"

/* The values that a section keeps inside must have more than so many times the bytes of those it
 * assembles for readers outside. */
enum { MIN_INSIDE_RATIO = 4 };

typedef struct Chunking {
    const Graph *from;
    Graph       *to;
    int64_t      n;      /* chunks */
    int32_t      loss;   /* value of `from` */
    ChunkRule   *rules;  /* per node */
    bool        *inside; /* per node: in a section */
    int32_t     *level;  /* per node: sections of a level run together, after the level's
                                  * nodes outside */
    bool        *batch;  /* per value: depends on feeds or random numbers */
    bool        *joined; /* per value: produced inside, read outside */
    Tensor      *whole;  /* per value, in `to`: none while only its chunks exist */
    Tensor      *views;  /* per value, in `to`: the view that its chunks are parts of */
    Tensor      *parts;  /* per value and chunk, in `to` */
} Chunking;

static int32_t chunk_producer(const Chunking *c, int32_t value)
{
    return value >= 0 ? value_at(c->from, value)->producer : -1;
}

static bool chunk_produced_inside(const Chunking *c, int32_t value)
{
    return chunk_producer(c, value) >= 0 && c->inside[chunk_producer(c, value)];
}

static void chunk_mark_batch(Chunking *c)
{
    for (int32_t i = 0; i < c->from->n_nodes; i++) {
        const Node *n = &c->from->nodes[i];
        bool        batch = n->op->makes_batch;
        for (int j = 0; j < n->n_in; j++)
            batch |= n->in[j] >= 0 && c->batch[n->in[j]];
        for (int j = 0; j < n->n_out; j++)
            if (n->out[j] >= 0)
                c->batch[n->out[j]] = batch;
    }
}

/* Every node that has a rule, slices a value of the batch, and reads no chunked value whole. */
static void chunk_find_samples(Chunking *c)
{
    for (int32_t i = 0; i < c->from->n_nodes; i++) {
        const Node *n = &c->from->nodes[i];
        bool        any = false, can = chunk_rule(c->from->pool, n, c->n, false, &c->rules[i]);
        for (int j = 0; can && j < n->n_in; j++) {
            bool sliced = c->rules[i].inputs >> j & 1;
            any |= sliced && c->batch[n->in[j]];
            can &= sliced || !chunk_produced_inside(c, n->in[j]);
        }
        c->inside[i] = can && any;
    }
}

/* From the loss backwards: nodes that work row by row and have no readers outside. */
static void chunk_find_rows(Chunking *c)
{
    /* readers that are not inside */
    int32_t *outside = NEWN(c->from->pool, int32_t, c->from->n_values);
    for (int32_t i = 0; i < c->from->n_nodes; i++)
        for (int j = 0; j < c->from->nodes[i].n_in; j++)
            if (c->from->nodes[i].in[j] >= 0)
                outside[c->from->nodes[i].in[j]]++;
    for (int32_t i = c->from->n_nodes - 1; i >= 0; i--) {
        const Node *n = &c->from->nodes[i];
        bool        last = chunk_producer(c, c->loss) == i,
             can = chunk_rule(c->from->pool, n, c->n, true, &c->rules[i]);
        can &= last ? c->rules[i].sums
                    : n->n_out > 0 && n->out[0] >= 0 && c->batch[n->out[0]] && !c->rules[i].sums;
        for (int j = 0; j < n->n_out && !last; j++)
            can &= n->out[j] < 0 || !outside[n->out[j]];
        c->inside[i] = can;
        for (int j = 0; can && j < n->n_in; j++)
            if (n->in[j] >= 0 && c->rules[i].inputs >> j & 1)
                outside[n->in[j]]--;
    }
}

static int32_t chunk_levels(Chunking *c)
{
    int32_t deepest = 0;
    for (int32_t i = 0; i < c->from->n_nodes; i++) {
        const Node *n = &c->from->nodes[i];
        c->level[i] = 0;
        for (int j = 0; j < n->n_in; j++) {
            int32_t producer = chunk_producer(c, n->in[j]);
            int32_t after = producer < 0
                                ? 0
                                : c->level[producer] + (c->inside[producer] && !c->inside[i]);
            c->level[i] = after > c->level[i] ? after : c->level[i];
        }
        deepest = c->level[i] > deepest ? c->level[i] : deepest;
    }
    return deepest + 1;
}

static void chunk_mark_joined(Chunking *c)
{
    for (int32_t i = 0; i < c->from->n_values; i++)
        c->joined[i] = false;
    for (int32_t i = 0; i < c->from->n_nodes; i++)
        for (int j = 0; j < c->from->nodes[i].n_in && !c->inside[i]; j++)
            if (chunk_produced_inside(c, c->from->nodes[i].in[j]))
                c->joined[c->from->nodes[i].in[j]] = true;
    for (int32_t i = 0; i < c->from->n_outputs; i++)
        c->joined[c->from->outputs[i].value] |= chunk_produced_inside(c, c->from->outputs[i].value);
}

/* Removes the first level that would assemble too much for what it keeps inside. */
static bool chunk_drop_one(Chunking *c, int32_t n_levels)
{
    double *inner = NEWN(c->from->pool, double, n_levels),
           *outer = NEWN(c->from->pool, double, n_levels);
    bool *some = NEWN(c->from->pool, bool, n_levels);
    for (int32_t i = 0; i < c->from->n_nodes; i++)
        for (int j = 0; j < c->from->nodes[i].n_out && c->inside[i]; j++) {
            int32_t value = c->from->nodes[i].out[j];
            some[c->level[i]] = true;
            if (value >= 0 && value_at(c->from, value)->root == value)
                (c->joined[value] ? outer
                                  : inner)[c->level[i]] += (double)value_at(c->from, value)->bytes;
        }
    for (int32_t level = 0; level < n_levels; level++) {
        if (!some[level] || inner[level] > MIN_INSIDE_RATIO * outer[level])
            continue;
        for (int32_t i = 0; i < c->from->n_nodes; i++)
            c->inside[i] &= c->level[i] != level;
        return true;
    }
    return false;
}

/* ---- building ---- */

static Tensor chunk_whole(const Chunking *c, int32_t value)
{
    if (value < 0)
        return tensor_none(c->to);
    REQUIRE(tensor_ok(c->whole[value]));
    return c->whole[value];
}

static Tensor chunk_input(Chunking *c, int32_t value, int64_t chunk)
{
    Tensor *p = &c->parts[value * c->n + chunk];
    if (!tensor_ok(*p)) { /* comes whole from outside */
        Shape   s = value_at(c->from, value)->shape;
        int     axis = chunk_axis(s);
        int64_t extent = s.dim[axis] / c->n;
        int32_t of = c->to->chunk;
        c->to->chunk = 0;
        if (!tensor_ok(c->views[value]))
            c->views[value] = whole_view(chunk_whole(c, value));
        c->to->chunk = of;
        *p = part(c->views[value], axis, chunk * extent, (chunk + 1) * extent);
    }
    return *p;
}

static void chunk_like(const Chunking *c, Tensor t, int32_t value)
{
    if (tensor_ok(t))
        tensor_class(t, value_at(c->from, value)->mem_class);
}

/* Adds a chunk to a value that is read whole. The node is outside the chunk, which does not wait
 * for it. */
static void chunk_join(Chunking *c, int32_t value, int64_t chunk, bool sums)
{
    Tensor  t = c->parts[value * c->n + chunk], *whole = &c->whole[value];
    Shape   s = value_at(c->from, value)->shape;
    int     axis = chunk_axis(s);
    int32_t of = c->to->chunk;
    c->to->chunk = 0;
    if (sums)
        *whole = tensor_ok(*whole) ? add(*whole, t) : t;
    else
        *whole = put(t, *whole, s, axis, chunk * (s.dim[axis] / c->n));
    c->to->chunk = of;
    chunk_like(c, *whole, value);
}

static void chunk_node(Chunking *c, int32_t id, int64_t chunk) /* chunk -1: outside */
{
    const Node      *n = &c->from->nodes[id];
    const ChunkRule *rule = &c->rules[id];
    Pool            *pool = c->from->pool;
    Tensor *in = NEWN(pool, Tensor, n->n_in + 1), *out = NEWN(pool, Tensor, n->op->n_out + 1);
    c->to->module = n->module;
    c->to->source = n->source;
    c->to->phase = n->phase;
    for (int i = 0; i < n->n_in; i++)
        in[i] = chunk >= 0 && rule->inputs >> i & 1 ? chunk_input(c, n->in[i], chunk)
                                                    : chunk_whole(c, n->in[i]);
    node_add(c->to, n->op, chunk >= 0 ? rule->attr : n->attr, in, n->n_in, out);
    for (int i = 0; i < n->n_out; i++) {
        if (n->out[i] < 0 || !tensor_ok(out[i]))
            continue;
        chunk_like(c, out[i], n->out[i]);
        if (chunk < 0) {
            c->whole[n->out[i]] = out[i];
            if (value_at(c->from, n->out[i])->name)
                tensor_name(out[i], value_at(c->from, n->out[i])->name);
            continue;
        }
        c->parts[n->out[i] * c->n + chunk] = out[i];
        if (c->joined[n->out[i]] || (rule->sums && i == 0))
            chunk_join(c, n->out[i], chunk, rule->sums && i == 0);
    }
}

/* Level after level: nodes outside in their order with the first chunk among them, then the other
 * chunks. Chunks are built from the last to the first, so that the backward pass, which runs in
 * reverse, begins with chunk 0. */
static void chunk_build(Chunking *c, int32_t n_levels)
{
    bool   *done = NEWN(c->from->pool, bool, c->from->n_nodes);
    int32_t producer = chunk_producer(c, c->loss),
            last = producer >= 0 && c->inside[producer] ? c->level[producer] : -1;
    for (int32_t level = 0; level < n_levels; level++)
        for (int64_t chunk = c->n - 1; chunk >= 0; chunk--)
            for (int32_t i = 0; i < c->from->n_nodes; i++) {
                if (c->inside[i] && c->level[i] == level) {
                    c->to->chunk = level == last ? (int32_t)chunk + 1 : 0;
                    chunk_node(c, i, chunk);
                    c->to->chunk = 0;
                } else if (!c->inside[i] && c->level[i] <= level && !done[i]) {
                    chunk_node(c, i, -1);
                    done[i] = true;
                }
            }
}

Err graph_chunk(Graph *graph, const ChunkSpec *spec, Graph **out, Tensor *loss, int32_t *chunked)
{
    int64_t n = spec->sample_chunks > 1 ? spec->sample_chunks : spec->loss_chunks;
    *out = graph;
    *chunked = 0;
    if (n <= 1 || !tensor_ok(*loss))
        return OK;
    REQUIRE(!graph->error && (spec->sample_chunks <= 1 || spec->loss_chunks <= 1));
    Pool    *pool = graph->pool;
    Chunking c = { .from = graph,
                   .n = n,
                   .loss = loss->id,
                   .rules = NEWN(pool, ChunkRule, graph->n_nodes),
                   .inside = NEWN(pool, bool, graph->n_nodes),
                   .level = NEWN(pool, int32_t, graph->n_nodes),
                   .batch = NEWN(pool, bool, graph->n_values),
                   .joined = NEWN(pool, bool, graph->n_values) };
    chunk_mark_batch(&c);
    if (spec->sample_chunks > 1)
        chunk_find_samples(&c);
    else
        chunk_find_rows(&c);
    int32_t n_levels;
    do {
        n_levels = chunk_levels(&c);
        chunk_mark_joined(&c);
    } while (spec->sample_chunks > 1 && chunk_drop_one(&c, n_levels));
    for (int32_t i = 0; i < graph->n_nodes; i++)
        *chunked += c.inside[i] && !graph->nodes[i].op->view;
    if (*chunked < 2) { /* one node alone keeps nothing inside */
        *chunked = 0;
        return OK;
    }

    int32_t *into = NEWN(pool, int32_t, graph->n_values);
    c.to = graph_new(pool, graph->compute);
    graph_copy_state(c.to, graph, into);
    c.whole = NEWN(pool, Tensor, graph->n_values);
    c.views = NEWN(pool, Tensor, graph->n_values);
    c.parts = NEWN(pool, Tensor, graph->n_values * n);
    for (int32_t i = 0; i < graph->n_values; i++) {
        c.whole[i] = (Tensor){ c.to, into[i] };
        c.views[i] = tensor_none(c.to);
        for (int64_t chunk = 0; chunk < n; chunk++)
            c.parts[i * n + chunk] = tensor_none(c.to);
    }
    chunk_build(&c, n_levels);
    TRY(graph_check(c.to));
    for (int32_t i = 0; i < graph->n_outputs; i++) {
        c.to->phase = graph->outputs[i].phase;
        graph_output(chunk_whole(&c, graph->outputs[i].value), graph->outputs[i].name);
    }
    c.to->phase = PHASE_MICRO;
    c.to->module = graph->module;
    c.to->source = graph->source;
    *loss = chunk_whole(&c, loss->id);
    *out = c.to;
    return graph_check(c.to);
}
