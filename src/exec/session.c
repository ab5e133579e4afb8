/* session.c -- resolve every pointer once, then loop. */
#include "exec/session.h"

#include "base/clock.h"
#include "base/text.h"
#include "device/convert.h"
#include "ops/basic.h"
#include "ops/ops.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct Launch {
    Err   (*run)(const Call *);
    Call    call;
    Part    part;
    int32_t feed;                /* index into feeds, or -1 */
    int32_t first_end, n_ends;   /* into ends: what this launch was handed */
} Launch;

typedef struct Extent {          /* one buffer handed to a kernel (a view counts as its root) */
    int64_t offset, bytes;
} Extent;

typedef struct Feed {
    const char *name;
    const void *data;
} Feed;

typedef struct Watch {
    int32_t value;
    void   *copy;
} Watch;

struct Session {
    Pool         *pool;
    const Engine *engine;
    Arena        *arena;
    Launch       *launches[PART_COUNT];      /* of the program that holds the part, in plan order */
    int32_t       from[PART_COUNT], to[PART_COUNT];  /* what running the part means: see session_program */
    Extent       *extents;
    int32_t       n_extents, cap_extents;
    Feed         *feeds;
    int32_t       n_feeds, cap_feeds;
    Watch        *watches;
    int32_t       n_watches, cap_watches;
    void        **outputs;       /* per graph output */
    int64_t       measured[PART_COUNT];
};

enum { GUARD_FILL = 0xC5 };

static void session_note(Session *session, int64_t offset, int64_t bytes)
{
    VEC_ADD(session->pool, session->extents, session->n_extents, session->cap_extents, (Extent){ offset, bytes });
}

typedef struct Places {          /* while walking a plan: where each pgraph value is now */
    const Program *program;
    int32_t       *buffer;       /* per pgraph value: current buffer, or -1 */
    int32_t       *index;        /* per graph value: pgraph value of its root, or -1 */
    int32_t        next_stay;
} Places;

static void *place_of(Session *session, const Places *places, int32_t value)
{
    const Engine *engine = session->engine;
    const Value  *v = value_at(engine->graph, value);
    int64_t       root = engine->offset[v->root];
    if (root < 0) {
        int32_t buffer = places->buffer[places->index[v->root]];
        REQUIRE(buffer >= 0);
        root = engine->persistent_bytes + places->program->buffers.buffers[buffer].offset +
               (engine->guards ? GUARD_BYTES : 0);
    }
    session_note(session, root, value_at(engine->graph, v->root)->bytes);
    return session->arena->base + root + v->offset;
}

static int32_t session_feed_index(Session *session, const char *name)
{
    for (int32_t i = 0; i < session->n_feeds; i++)
        if (!strcmp(session->feeds[i].name, name))
            return i;
    VEC_ADD(session->pool, session->feeds, session->n_feeds, session->cap_feeds, (Feed){ .name = name });
    return session->n_feeds - 1;
}

static Err session_launch(Session *session, Places *places, int32_t step, int32_t node_id, Launch *launch)
{
    const Engine *engine = session->engine;
    const Node   *node = &engine->graph->nodes[node_id];
    const Kernel *kernel = op_kernel(node->op, engine->device);
    Call         *call = &launch->call;

    *launch = (Launch){ .run = kernel->run, .part = node->part, .feed = -1, .first_end = session->n_extents };
    *call = (Call){ .node = node, .device = engine_device(engine, node_id), .choice = &engine->choices[node_id],
                    .in = NEWN(session->pool, void *, node->n_in + 1),
                    .out = NEWN(session->pool, void *, node->n_out + 1) };
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i] >= 0)
            call->in[i] = place_of(session, places, node->in[i]);
    /* Stays that begin here: outputs and workspace. Inputs were read above: an output may move in. */
    const PlanBuffers *buffers = &places->program->buffers;
    for (; places->next_stay < buffers->n_stays && buffers->stays[places->next_stay].first_step <= step;
         places->next_stay++) {
        const Stay *stay = &buffers->stays[places->next_stay];
        if (stay->value >= 0) {
            places->buffer[stay->value] = stay->buffer;
        } else {
            const Buffer *buffer = &buffers->buffers[stay->buffer];
            int64_t guard = engine->guards ? GUARD_BYTES : 0;
            int64_t at = engine->persistent_bytes + buffer->offset + guard;
            call->workspace = session->arena->base + at;
            session_note(session, at, buffer->size - 2 * guard);
        }
    }
    for (int i = 0; i < node->n_out; i++)
        if (node->out[i] >= 0)
            call->out[i] = place_of(session, places, node->out[i]);
    launch->n_ends = session->n_extents - launch->first_end;
    if (node->op == &op_feed)
        launch->feed = session_feed_index(session, ATTR(node, FeedAttr)->name);
    return kernel->prepare ? kernel->prepare(session->pool, call) : OK;
}

static Err session_program(Session *session, const Program *program)
{
    const Graph *graph = session->engine->graph;
    Places places = { .program = program,
                      .buffer = NEWN(session->pool, int32_t, program->pgraph->n_values),
                      .index = NEWN(session->pool, int32_t, graph->n_values) };
    for (int32_t i = 0; i < graph->n_values; i++)
        places.index[i] = -1;
    for (int32_t i = 0; i < program->pgraph->n_values; i++) {
        places.buffer[i] = -1;
        places.index[program->value_of[i]] = i;
    }
    Launch *launches = NEWN(session->pool, Launch, program->plan->n_steps);
    int32_t n = 0, first_update = -1;
    for (int32_t s = 0; s < program->plan->n_steps; s++) {
        Step step = program->plan->steps[s];
        REQUIRE(step.kind == STEP_RUN || step.kind == STEP_DROP);    /* one memory space: no copies */
        if (step.kind == STEP_DROP)
            continue;
        int32_t id = program->node_of[step.id];
        if (graph->nodes[id].part == PART_UPDATE && first_update < 0)
            first_update = n;
        TRY(session_launch(session, &places, s, id, &launches[n++]));
    }
    /* A joined program may update a parameter before the last gradients are made: `micro` runs what
     * comes before the first update, `update` all the rest, in the plan's own order. */
    for (int p = 0; p < PART_COUNT; p++)
        if (program->parts[p]) {
            bool joined = program->parts[PART_MICRO] && program->parts[PART_UPDATE] && first_update >= 0;
            session->launches[p] = launches;
            session->from[p] = joined && p == PART_UPDATE ? first_update : 0;
            session->to[p] = joined && p == PART_MICRO ? first_update : n;
        }
    for (int32_t i = 0; i < graph->n_outputs; i++)
        if (program->parts[graph->outputs[i].part])
            session->outputs[i] = place_of(session, &places, graph->outputs[i].value);
    return OK;
}

Err session_new(Pool *pool, const Engine *engine, Session **out)
{
    Session *session = NEW(pool, Session);
    session->pool = pool;
    session->engine = engine;
    session->outputs = NEWN(pool, void *, engine->graph->n_outputs + 1);
    TRY(arena_new(pool, engine->device, engine->arena_bytes, &session->arena));
    for (int i = 0; i < engine->n_programs; i++)
        TRY(session_program(session, &engine->programs[i]));
    *out = session;
    return OK;
}

void *session_bytes(Session *session, int32_t value)
{
    const Value *v = value_at(session->engine->graph, value);
    int64_t offset = session->engine->offset[v->root];
    REQUIRE(offset >= 0);
    return session->arena->base + offset + v->offset;
}

Err session_feed(Session *session, const char *name, const void *data)
{
    for (int32_t i = 0; i < session->n_feeds; i++)
        if (!strcmp(session->feeds[i].name, name)) {
            session->feeds[i].data = data;
            return OK;
        }
    return fail(E_USAGE, "the model has no input '%s'", name);
}

Err session_watch(Session *session, int32_t value, void *copy)
{
    VEC_ADD(session->pool, session->watches, session->n_watches, session->cap_watches, (Watch){ value, copy });
    return OK;
}

static void guards_fill(Session *session, const Launch *launch)
{
    for (int32_t i = 0; i < launch->n_ends; i++) {
        Extent e = session->extents[launch->first_end + i];
        memset(session->arena->base + e.offset - GUARD_BYTES, GUARD_FILL, GUARD_BYTES);
        memset(session->arena->base + e.offset + e.bytes, GUARD_FILL, GUARD_BYTES);
    }
}

static Err guards_check(Session *session, const Launch *launch)
{
    for (int32_t i = 0; i < launch->n_ends; i++) {
        Extent e = session->extents[launch->first_end + i];
        const unsigned char *low = (unsigned char *)session->arena->base + e.offset - GUARD_BYTES;
        const unsigned char *high = (unsigned char *)session->arena->base + e.offset + e.bytes;
        for (int b = 0; b < GUARD_BYTES; b++)
            if (low[b] != GUARD_FILL || high[b] != GUARD_FILL)
                return fail(E_PLAN, "%s wrote outside its buffers, %s buffer %d of %lld bytes",
                            node_text(session->engine->graph, launch->call.node->id),
                            low[b] != GUARD_FILL ? "before" : "after", i, (long long)e.bytes);
    }
    return OK;
}

static void session_watched(Session *session, const Launch *launch)
{
    const Node *node = launch->call.node;
    for (int32_t w = 0; w < session->n_watches; w++) {
        const Value *watched = value_at(session->engine->graph, session->watches[w].value);
        for (int i = 0; i < node->n_out; i++)
            if (node->out[i] == watched->root)
                memcpy(session->watches[w].copy, (char *)launch->call.out[i] + watched->offset,
                       (size_t)watched->bytes);
    }
}

Err session_run(Session *session, Part part)
{
    bool guards = session->engine->guards;
    for (int32_t i = session->from[part]; i < session->to[part]; i++) {
        Launch *launch = &session->launches[part][i];
        if (launch->feed >= 0)
            launch->call.feed = session->feeds[launch->feed].data;
        for (int32_t e = 0; e < launch->n_ends; e++) {
            Extent extent = session->extents[launch->first_end + e];
            if (extent.offset + extent.bytes > session->measured[launch->part])
                session->measured[launch->part] = extent.offset + extent.bytes;
        }
        if (guards)
            guards_fill(session, launch);
        TRY(launch->run(&launch->call));
        if (guards)
            TRY(guards_check(session, launch));
        if (session->n_watches)
            session_watched(session, launch);
    }
    for (int32_t w = 0; w < session->n_watches; w++) {       /* persistent ones have no maker */
        const Value *watched = value_at(session->engine->graph, session->watches[w].value);
        if (session->engine->offset[watched->root] >= 0)
            memcpy(session->watches[w].copy, session_bytes(session, session->watches[w].value), (size_t)watched->bytes);
    }
    return OK;
}

Err session_profile(Session *session, Part part, double *best_ns)
{
    for (int32_t i = session->from[part]; i < session->to[part]; i++) {
        Launch *launch = &session->launches[part][i];
        if (launch->feed >= 0)
            launch->call.feed = session->feeds[launch->feed].data;
        double start = clock_now();
        TRY(launch->run(&launch->call));
        double ns = (clock_now() - start) * 1e9;
        if (ns < best_ns[launch->call.node->id])
            best_ns[launch->call.node->id] = ns;
    }
    return OK;
}

const void *session_output(const Session *session, const char *name)
{
    const Graph *graph = session->engine->graph;
    for (int32_t i = 0; i < graph->n_outputs; i++)
        if (!strcmp(graph->outputs[i].name, name))
            return session->outputs[i];
    return NULL;
}

const char *session_first_bad(Session *session, Part part)
{
    const Graph *graph = session->engine->graph;
    for (int32_t i = session->from[part]; i < session->to[part]; i++) {
        Launch     *launch = &session->launches[part][i];
        const Node *node = launch->call.node;
        if (launch->run(&launch->call))
            return NULL;
        for (int j = 0; j < node->n_out; j++) {
            if (node->out[j] < 0 || !type_is_float(out_type(node, j)))
                continue;
            int64_t count = shape_count(out_shape(node, j));
            float   buffer[1];
            for (int64_t e = 0; e < count; e++)
                if (!isfinite(*row_load(out_type(node, j), launch->call.out[j], e, 1, buffer)))
                    return value_text(graph, node->out[j]);
        }
    }
    return NULL;
}

int64_t session_measured_bytes(const Session *session, Part part)
{
    return session->measured[part];
}

int64_t session_planned_bytes(const Session *session, Part part)
{
    return session->engine->part_bytes[part];
}

const Arena  *session_arena(const Session *session)  { return session->arena; }
const Engine *session_engine(const Session *session) { return session->engine; }
