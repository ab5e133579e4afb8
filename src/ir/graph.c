/* graph.c -- building graphs: values, nodes, parameters, scopes. */
#include "ir/graph_int.h"

#include "base/hash.h"
#include "ir/op.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const class_names[] = {
#define X(name, word) word,
    CLASS_LIST(X)
#undef X
};

static const char *const phase_names[] = {
#define X(name, word, text) word,
    PHASE_LIST(X)
#undef X
};

const char *class_name(Class mem_class) { return class_names[mem_class]; }
const char *phase_name(Phase phase) { return phase_names[phase]; }

const char *phase_public_name(Phase phase)
{
    return phase_names[phase == PHASE_SAMPLE_BEGIN || phase == PHASE_SAMPLE_END ? PHASE_SAMPLE
                                                                                : phase];
}

int64_t node_all_samples(const Node *node, int64_t here)
{
    const Graph *graph = node->graph;
    bool         drawn = node->phase == PHASE_SAMPLE || node->phase == PHASE_SAMPLE_BEGIN ||
                 node->phase == PHASE_SAMPLE_END;
    return drawn && graph->drawn_here && here % graph->drawn_here == 0
               ? here / graph->drawn_here * graph->drawn_all
               : here;
}

Graph *graph_new_with(Pool *pool, Type compute, const BuildOptions *build)
{
    Graph *graph = NEW(pool, Graph);
    graph->pool = pool;
    graph->compute = compute;
    graph->phase = PHASE_MICRO;
    graph->gathered_last = -1;
    VEC_ADD(pool, graph->modules, graph->n_modules, graph->cap_modules, (Module){ "", -1 });
    BuildOptions *copy = NEW(pool, BuildOptions);
    *copy = *build;
    graph->build = copy;
    return graph;
}

Graph *graph_new(Pool *pool, Type compute)
{
    return graph_new_with(pool, compute, &(BuildOptions){ 0 });
}

Tensor graph_poison(Graph *graph, Err code, const char *fmt, ...)
{
    if (!graph->error) { /* only the first cause is reported */
        va_list args;
        char    what[384];
        va_start(args, fmt);
        vsnprintf(what, sizeof what, fmt, args);
        va_end(args);
        graph->error = code;
        const char *path = graph->modules[graph->module].path;
        if (graph->source.file)
            snprintf(graph->error_text, sizeof graph->error_text, "%s:%d: %s%s%s",
                     graph->source.file, graph->source.line, path, *path ? ": " : "", what);
        else
            snprintf(graph->error_text, sizeof graph->error_text, "%s%s%s", path, *path ? ": " : "",
                     what);
    }
    return (Tensor){ graph, TENSOR_POISONED };
}

Err graph_check(Graph *graph)
{
    return graph->error ? fail(graph->error, "%s", graph->error_text) : OK;
}

/* The module that is `name` below the current one; a scope entered again is the same module. */
static void module_enter(Graph *graph, const char *name, size_t n)
{
    const char *up = graph->modules[graph->module].path;
    const char *path = pool_print(graph->pool, "%s%s%.*s", up, *up ? "." : "", (int)n, name);
    for (int32_t i = 0; i < graph->n_modules; i++)
        if (graph->modules[i].parent == graph->module && !strcmp(graph->modules[i].path, path)) {
            graph->module = i;
            return;
        }
    VEC_ADD(graph->pool, graph->modules, graph->n_modules, graph->cap_modules,
            (Module){ path, graph->module });
    graph->module = graph->n_modules - 1;
}

/* "a.b" opened at once is b inside a, however a is opened elsewhere; a number belongs to the word
 * before it. */
void scope_open(Graph *graph, const char *fmt, ...)
{
    char    name[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(name, sizeof name, fmt, args);
    va_end(args);

    VEC_ADD(graph->pool, graph->scopes, graph->n_scopes, graph->cap_scopes, graph->module);
    for (const char *at = name; *at;) {
        const char *end = at + strcspn(at, ".");
        while (*end && isdigit((unsigned char)end[1]))
            end += 1 + strcspn(end + 1, ".");
        module_enter(graph, at, (size_t)(end - at));
        at = *end ? end + 1 : end;
    }
}

void scope_close(Graph *graph)
{
    REQUIRE(graph->n_scopes > 0);
    graph->module = graph->scopes[--graph->n_scopes];
}

int32_t value_new(Graph *graph, const char *name, Type type, Shape shape, Class mem_class,
                  int32_t producer)
{
    int32_t id = graph->n_values;
    int64_t bytes;
    if (!shape_bytes(shape, type_bytes(type), &bytes)) {
        graph_poison(graph, E_SHAPE, "a tensor of %s has more bytes than can be counted",
                     shape_text(shape));
        bytes = 0;
    }
    VEC_ADD(graph->pool, graph->values, graph->n_values, graph->cap_values,
            (Value){ .name = name,
                     .shape = shape,
                     .type = type,
                     .mem_class = mem_class,
                     .root = id,
                     .producer = producer,
                     .bytes = bytes,
                     .module = graph->module,
                     .source = graph->source,
                     .persistent = producer < 0 });
    return id;
}

static const char *graph_full_name(Graph *graph, const char *name)
{
    const char *path = graph->modules[graph->module].path;
    return *path && *name ? pool_print(graph->pool, "%s.%s", path, name)
           : *path        ? path
                          : pool_text(graph->pool, name);
}

Param *param_find(Graph *graph, const char *name)
{
    for (int32_t i = 0; i < graph->n_params; i++)
        if (!strcmp(graph->params[i].name, name))
            return &graph->params[i];
    return NULL;
}

Param *param_of(const Graph *graph, int32_t value)
{
    for (int32_t i = 0; i < graph->n_params; i++)
        if (graph->params[i].value == value || graph->params[i].stands == value)
            return &graph->params[i];
    return NULL;
}

const Bucket *param_shards(const Graph *graph, const Param *param, int32_t value)
{
    const Bucket *b = param->bucket >= 0 ? graph->buckets[param->bucket] : NULL;
    bool          shard = b && value >= 0 &&
                 (value == b->m || value == b->v || value == b->ema || value == b->master ||
                  (b->own >= 0 && value == param->value));
    return shard ? b : NULL;
}

void graph_divide_params(Graph *graph, Bucket *bucket, const char *name)
{
    int64_t *first = NEWN(graph->pool, int64_t, graph->n_values); /* in the bucket; + 1 */
    int32_t  whole = value_new(graph, name, bucket->type, SHAPE(bucket->total), CLASS_PARAMETERS,
                               -1);
    for (int i = 0; i < bucket->n; i++)
        first[graph->params[bucket->params[i]].value] = bucket->first[i] + 1;
    for (int32_t i = 0; i < whole; i++) {
        Value *value = value_at(graph, i);
        if (!first[value->root])
            continue;
        value->offset += (first[value->root] - 1) * type_bytes(bucket->type);
        value->root = whole;
        value->persistent = false;
    }
    value_at(graph, whole)->persistent = false;
    value_at(graph, whole)->gathered = bucket;
}

Tensor param_add_permuted(Graph *graph, const char *name, Shape disk, const int *axis, Init init)
{
    const char *full = graph_full_name(graph, name);
    Param      *old = param_find(graph, full);
    if (old) {
        if (!shape_same(old->disk, disk))
            return graph_poison(graph, E_SHAPE, "parameter %s is %s here and %s elsewhere", full,
                                shape_text(disk), shape_text(old->disk));
        return graph->stand_in ? graph->stand_in(graph, old) : (Tensor){ graph, old->value };
    }
    if (!shape_filled(disk))
        return graph_poison(graph, E_SHAPE, "parameter %s would have shape %s", full,
                            shape_text(disk));

    Param param = { .name = full,
                    .disk = disk,
                    .init = init,
                    .grad = -1,
                    .m = -1,
                    .v = -1,
                    .ema = -1,
                    .bucket = -1,
                    .master = -1,
                    .stands = -1 };
    Shape shape = disk;
    for (int i = 0; i < disk.rank; i++) {
        param.axis[i] = axis ? axis[i] : i;
        shape.dim[i] = disk.dim[param.axis[i]];
        param.permuted |= param.axis[i] != i;
    }
    param.value = value_new(graph, full, graph->compute, shape, CLASS_PARAMETERS, -1);
    VEC_ADD(graph->pool, graph->params, graph->n_params, graph->cap_params, param);
    return (Tensor){ graph, param.value };
}

Tensor param_add(Graph *graph, const char *name, Shape disk, Init init)
{
    return param_add_permuted(graph, name, disk, NULL, init);
}

Tensor param_add_f32(Graph *graph, const char *name, Shape disk, Init init)
{
    Type compute = graph->compute;
    graph->compute = F32;
    Tensor t = param_add(graph, name, disk, init);
    graph->compute = compute;
    return t;
}

static Tensor constant_new(Graph *graph, const char *name, Type type, Shape shape, const void *data,
                           Class mem_class, bool saved)
{
    const char *full = graph_full_name(graph, name);
    uint64_t    hash = hash_text(HASH_EMPTY, full);
    bool        apart = false;
    for (int32_t i = 0; i < graph->n_constants; i++) { /* asked for again: the same one */
        Value *old = value_at(graph, graph->constants[i].value);
        if (graph->constants[i].hash == hash && !strcmp(old->name, full)) {
            bool same = shape_same(old->shape, shape) && old->type == type;
            if (!same && !apart && graph->phase != PHASE_MICRO) {
                full = pool_print(graph->pool, "%s/%s", phase_name(graph->phase), full);
                hash = hash_text(HASH_EMPTY, full);
                apart = true;
                i = -1; /* look for that one, from the start */
                continue;
            }
            if (!same)
                return graph_poison(graph, E_SHAPE, "%s is %s here and %s elsewhere", full,
                                    shape_text(shape), shape_text(old->shape));
            return (Tensor){ graph, graph->constants[i].value };
        }
    }
    int32_t id = value_new(graph, full, type, shape, mem_class, -1);
    void   *copy = NULL;
    if (data) {
        copy = pool_alloc(graph->pool, (size_t)graph->values[id].bytes, 1);
        memcpy(copy, data, (size_t)graph->values[id].bytes);
    }
    VEC_ADD(graph->pool, graph->constants, graph->n_constants, graph->cap_constants,
            (Constant){ .value = id, .data = copy, .saved = saved, .hash = hash });
    return (Tensor){ graph, id };
}

Tensor constant_add(Graph *graph, const char *name, Type type, Shape shape, const void *data,
                    Class mem_class)
{
    return constant_new(graph, name, type, shape, data, mem_class, false);
}

Tensor state_add(Graph *graph, const char *name, Type type, Shape shape, Class mem_class,
                 bool saved)
{
    return constant_new(graph, name, type, shape, NULL, mem_class, saved);
}

Tensor state_add_from(Graph *graph, const char *name, Type type, Shape shape, const void *start,
                      Class mem_class, bool saved)
{
    return constant_new(graph, name, type, shape, start, mem_class, saved);
}

void graph_copy_state(Graph *graph, const Graph *from, int32_t *into)
{
    REQUIRE(!graph->n_values && graph->pool == from->pool);
    graph->build = from->build;
    graph->n_modules = 0;
    for (int32_t i = 0; i < from->n_modules; i++)
        VEC_ADD(graph->pool, graph->modules, graph->n_modules, graph->cap_modules,
                from->modules[i]);
    for (int32_t i = 0; i < from->n_values; i++) {
        Value value = from->values[i];
        into[i] = TENSOR_NONE;
        if (value.producer >= 0)
            continue;
        into[i] = value.root = graph->n_values;
        VEC_ADD(graph->pool, graph->values, graph->n_values, graph->cap_values, value);
    }
    for (int32_t i = 0; i < from->n_params; i++) {
        Param param = from->params[i];
        param.value = into[param.value];
        VEC_ADD(graph->pool, graph->params, graph->n_params, graph->cap_params, param);
    }
    for (int32_t i = 0; i < from->n_constants; i++) {
        Constant constant = from->constants[i];
        constant.value = into[constant.value];
        VEC_ADD(graph->pool, graph->constants, graph->n_constants, graph->cap_constants, constant);
    }
}

Tensor node_add(Graph *graph, const OpDef *op, const void *attr, const Tensor *in, int n_in,
                Tensor *out)
{
    Tensor poisoned = { graph, TENSOR_POISONED };
    for (int i = 0; out && i < op->n_out; i++)
        out[i] = poisoned;
    if (graph->error)
        return poisoned;
    for (int i = 0; i < n_in; i++)
        if (in[i].id == TENSOR_POISONED)
            return poisoned;
    if (op->n_in >= 0 ? n_in != op->n_in : n_in < -op->n_in)
        return graph_poison(graph, E_SHAPE, "%s takes %d inputs, got %d", op->name,
                            op->n_in < 0 ? -op->n_in : op->n_in, n_in);

    Node node = {
        .graph = graph,
        .op = op,
        .n_in = n_in,
        .n_out = op->n_out,
        .id = graph->n_nodes,
        .module = graph->module,
        .source = graph->source,
        .phase = graph->phase,
        .backward = graph->backward,
        .once = op->once,
        .inplace = -1,
        .chunk = graph->chunk,
        .in = NEWN(graph->pool, int32_t, n_in),
        .out = NEWN(graph->pool, int32_t, op->n_out),
    };
    if (op->attr_bytes) {
        node.attr = pool_alloc(graph->pool, (size_t)op->attr_bytes, 1);
        memcpy(node.attr, attr, (size_t)op->attr_bytes);
    }
    for (int i = 0; i < n_in; i++)
        node.in[i] = in[i].id;
    for (int i = 0; i < op->n_out; i++)
        node.out[i] = TENSOR_NONE;
    VEC_ADD(graph->pool, graph->nodes, graph->n_nodes, graph->cap_nodes, node);

    Err err = op->shape(&graph->nodes[node.id]);
    if (err) {
        graph->n_nodes--;
        return graph_poison(graph, err, "%s", err_text());
    }
    if (graph->error) /* an output of more bytes than can be counted */
        return poisoned;
    for (int i = 0; i < op->n_out; i++) {
        int32_t id = node.out[i]; /* the array is shared with the stored node */
        REQUIRE(id >= 0 || id == TENSOR_NONE);
        if (id >= 0 && !shape_filled(graph->values[id].shape))
            return graph_poison(graph, E_SHAPE, "%s would give an empty tensor %s", op->name,
                                shape_text(graph->values[id].shape));
        if (out)
            out[i] = (Tensor){ graph, id };
    }
    return op->n_out ? (Tensor){ graph, node.out[0] } : tensor_none(graph);
}

/* A poisoned tensor has MAX_RANK axes of 1, so that models may ask for any of them. */
Shape tensor_shape(Tensor t)
{
    if (tensor_ok(t))
        return value_at(t.graph, t.id)->shape;
    Shape shape = { .rank = t.id == TENSOR_POISONED ? MAX_RANK : 0 };
    for (int i = 0; i < shape.rank; i++)
        shape.dim[i] = 1;
    return shape;
}

Type tensor_type(Tensor t) { return tensor_ok(t) ? value_at(t.graph, t.id)->type : F32; }

Tensor tensor_class(Tensor t, Class mem_class)
{
    if (tensor_ok(t)) {
        Value *value = value_at(t.graph, t.id);
        value->mem_class = mem_class;
        if (!value_at(t.graph, value->root)->persistent)
            value_at(t.graph, value->root)->mem_class = mem_class;
    }
    return t;
}

Tensor tensor_name(Tensor t, const char *name)
{
    if (tensor_ok(t))
        value_at(t.graph, t.id)->name = pool_text(t.graph->pool, name);
    return t;
}

const char *node_text(const Graph *graph, int32_t id)
{
    const Node *node = &graph->nodes[id];
    const char *path = graph->modules[node->module].path;
    return pool_print(graph->pool, "%s%s%s#%d", path, *path ? "." : "", node->op->name, id);
}

const char *value_text(const Graph *graph, int32_t id)
{
    const Value *value = value_at(graph, id);
    if (value->name)
        return value->name;
    const Node *node = &graph->nodes[value->producer];
    int         i = 0;
    while (node->out[i] != id)
        i++;
    return i ? pool_print(graph->pool, "%s:%d", node_text(graph, node->id), i)
             : node_text(graph, node->id);
}

void graph_output(Tensor t, const char *name)
{
    Graph *graph = t.graph;
    if (tensor_ok(t))
        VEC_ADD(graph->pool, graph->outputs, graph->n_outputs, graph->cap_outputs,
                (Output){ pool_text(graph->pool, name), t.id, graph->phase });
}

static bool may_take_input(const Node *node, int input)
{
    return node->op->inplace == IN_PLACE_OF(input) ||
           (node->op->may_take && node->op->may_take(node, input));
}

void graph_take_inplace(Graph *graph)
{
    int32_t *readers = NEWN(graph->pool, int32_t, graph->n_values); /* by root: reads of it */
    /* has views, or is an output elsewhere */
    bool    *shared = NEWN(graph->pool, bool, graph->n_values);
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        Node *node = &graph->nodes[i];
        for (int j = 0; j < node->n_in; j++)
            if (node->in[j] >= 0)
                readers[value_at(graph, node->in[j])->root]++;
        if (node->op->view)
            shared[value_at(graph, node->in[0])->root] = true;
    }
    for (int32_t i = 0; i < graph->n_outputs; i++)
        shared[value_at(graph, graph->outputs[i].value)->root] = true;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        Node *node = &graph->nodes[i];
        for (int from = 0; from < node->n_in && node->inplace < 0; from++) {
            if (node->in[from] < 0 || node->out[0] < 0 || !may_take_input(node, from))
                continue;
            const Value *x = value_at(graph, node->in[from]), *y = value_at(graph, node->out[0]);
            /* Same phase only: what another phase reads must not be overwritten. */
            bool alone = readers[x->root] == 1 && !shared[x->root] && x->root == node->in[from];
            if (alone && !x->persistent && !y->persistent && y->root == node->out[0] &&
                x->bytes == y->bytes && x->producer >= 0 &&
                graph->nodes[x->producer].phase == node->phase && !graph->nodes[x->producer].once)
                node->inplace = from;
        }
    }
}

bool graph_has(const Graph *graph, const OpDef *op)
{
    for (int32_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].op == op)
            return true;
    return false;
}
