/* session_build.c -- allocates the arena and makes a launch of every step of every plan.
 *
 * Walks each plan once and tracks where every value is after each step: in the arena, and in its
 * slot on the host. Each launch then has its final pointers. The bytes given to it are noted, for
 * the meter and for the lanes of CUDA graphs. */
#include "exec/session_int.h"
#include "exec/session_ranks.h"

#include "comm/comm.h"
#include "ops/elementwise/basic.h"
#include "ops/ops.h"
#include "ops/ranks/exchange.h"

#include <string.h>

/* One buffer handed to a kernel; a view counts as its root. */
static void session_note_extent(Session *session, int64_t offset, int64_t bytes, bool written)
{
    VEC_ADD(session->pool, session->extents, session->n_extents, session->cap_extents,
            (Extent){ offset, bytes, written });
}

typedef struct ValuePlaces { /* during the walk: where each pgraph value is now */
    const Program *program;
    int32_t       *buffer; /* per pgraph value: current buffer, or -1 */
    int32_t       *index;  /* per graph value: pgraph value of its root, or -1 */
    int32_t        next_range;
    int32_t       *slot; /* per pgraph value: current slot on the host, or -1 */
    int32_t        next_slot;
    bool           slot_used[COMM_SLOTS]; /* by a gathered value that is on its way */
    Copy         **pending;               /* per pgraph value */
    void         **event;                 /* per pgraph value: of its copies; NULL: never copied */
} ValuePlaces;

static void *place_of(Session *session, const ValuePlaces *places, int32_t value, bool written)
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
    session_note_extent(session, root, value_at(engine->graph, v->root)->bytes, written);
    return session->arena->base + root + v->offset;
}

static Err session_feed_index(Session *session, const Node *node, int32_t *index)
{
    const char *name = ATTR(node, FeedAttr)->name;
    for (*index = 0; *index < session->n_feeds; (*index)++)
        if (session->feeds[*index].phase == node->phase &&
            !strcmp(session->feeds[*index].name, name))
            return OK;
    Feed feed = { .name = name,
                  .phase = node->phase,
                  .bytes = value_at(node->graph, node->out[0])->bytes };
    if (session->engine->device->api)
        TRY(device_host_bytes(session->pool, session->engine->device, feed.bytes, &feed.staged));
    VEC_ADD(session->pool, session->feeds, session->n_feeds, session->cap_feeds, feed);
    return OK;
}

/* Opens the live ranges that begin at or before this step: outputs, workspace, loaded values. */
static void places_open(Session *session, ValuePlaces *places, int32_t step, Call *call)
{
    const Engine      *engine = session->engine;
    const PlanBuffers *buffers = &places->program->buffers;
    for (; places->next_range < buffers->n_ranges &&
           buffers->ranges[places->next_range].first_step <= step;
         places->next_range++) {
        const LiveRange *range = &buffers->ranges[places->next_range];
        if (range->value >= 0) {
            places->buffer[range->value] = range->buffer;
        } else {
            const Buffer *buffer = &buffers->buffers[range->buffer];
            int64_t       guard = engine->guards ? GUARD_BYTES : 0;
            int64_t       at = engine->persistent_bytes + buffer->offset + guard;
            call->workspace = session->arena->base + at;
            session_note_extent(session, at, buffer->size - 2 * guard, true);
        }
    }
}

/* A value's offset in the host arena: its own if it is host-resident, else that of its current
 * slot. */
static int64_t host_place(const Engine *engine, ValuePlaces *places, int32_t step, int32_t value)
{
    const PlanBuffers *slots = &places->program->slots;
    int64_t            resident = engine->host_offset[places->program->value_of[value]];
    for (;
         places->next_slot < slots->n_ranges && slots->ranges[places->next_slot].first_step <= step;
         places->next_slot++)
        places->slot[slots->ranges[places->next_slot].value] =
            slots->ranges[places->next_slot].buffer;
    if (resident >= 0)
        return resident;
    REQUIRE(places->slot[value] >= 0);
    return engine->host_persistent_bytes + slots->buffers[places->slot[value]].offset;
}

/* The load of a gathered value. */
static Err session_build_gathered(Session *session, ValuePlaces *places, int32_t index, Step step,
                                  int32_t at, Launch *launch)
{
    int32_t id = places->program->value_of[step.id];
    Gather *gather = NEW(session->pool, Gather);
    Copy   *copy = launch->copy = places->pending[step.id] = NEW(session->pool, Copy);
    places_open(session, places, index, NULL);
    for (gather->slot = RANK_SLOT_GATHERS; gather->slot < COMM_SLOTS; gather->slot++)
        if (!places->slot_used[gather->slot])
            break;
    if (gather->slot == COMM_SLOTS)
        return fail(E_PLAN, "the plan loads more than %d values from other ranks at once",
                    COMM_SLOTS - RANK_SLOT_GATHERS);
    places->slot_used[gather->slot] = true;
    *copy = (Copy){ .gather = gather, .begun = at };
    const Value *whole = value_at(session->engine->graph, id);
    void        *to = place_of(session, places, id, true);
    place_of(session, places, whole->gathered->own, false);
    memcpy(copy->touches, &session->extents[session->n_extents - 2], sizeof copy->touches);
    return session_build_gather(session, whole, to, gather);
}

/* A save, a load or a wait; `at` is its launch. */
static Err session_build_copy(Session *session, ValuePlaces *places, int32_t index, Step step,
                              int32_t at, Launch *launch)
{
    *launch = (Launch){ .feed = -1, .first_extent = session->n_extents };
    if (step.kind == STEP_WAIT) {
        launch->copy = places->pending[step.id];
        launch->copy->joined = at;
        launch->joins = true;
        if (launch->copy->gather)
            places->slot_used[launch->copy->gather->slot] = false;
        return OK;
    }
    if (places->program->pgraph->values[step.id].gathered)
        return session_build_gathered(session, places, index, step, at, launch);
    REQUIRE(session->engine->device->queues);
    Copy *copy = launch->copy = places->pending[step.id] = NEW(session->pool, Copy);
    if (step.kind == STEP_LOAD)
        places_open(session, places, index, NULL);
    if (!places->event[step.id])
        TRY(copies_new_event(&session->copies, &places->event[step.id]));
    int64_t offset = host_place(session->engine, places, index, step.id);
    void   *host = session->host + offset;
    bool    out = step.kind == STEP_SAVE;
    void   *device = place_of(session, places, places->program->value_of[step.id], !out);
    *copy = (Copy){ .way = out ? COPY_TO_HOST : COPY_TO_DEVICE,
                    .to = out ? host : device,
                    .from = out ? device : host,
                    .bytes = (size_t)places->program->pgraph->values[step.id].bytes,
                    .event = places->event[step.id],
                    .begun = at };
    copy->host_end = offset + (int64_t)copy->bytes;
    copy->touches[0] = session->extents[launch->first_extent];
    copy->touches[1] = (Extent){ HOST_OFFSET + offset, (int64_t)copy->bytes, out };
    return OK;
}

static Err session_build_launch(Session *session, ValuePlaces *places, int32_t step,
                                int32_t node_id, Launch *launch)
{
    const Engine *engine = session->engine;
    const Node   *node = &engine->graph->nodes[node_id];
    const Kernel *kernel = op_kernel(node->op, engine->device);
    Call         *call = &launch->call;

    *launch = (Launch){ .run = kernel->run,
                        .run_all = kernel->run_all,
                        .phase = node->phase,
                        .feed = -1,
                        .first_extent = session->n_extents };
    *call = (Call){ .node = node,
                    .device = engine_device(engine, node_id),
                    .choice = &engine->choices[node_id],
                    .in = NEWN(session->pool, void *, node->n_in + 1),
                    .out = NEWN(session->pool, void *, node->n_out + 1) };
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i] >= 0)
            call->in[i] = place_of(session, places, node->in[i], false);
    places_open(session, places, step,
                call); /* after the inputs, whose buffers outputs may reuse */
    for (int i = 0; i < node->n_out; i++)
        if (node->out[i] >= 0)
            call->out[i] = place_of(session, places, node->out[i], true);
    launch->n_extents = session->n_extents - launch->first_extent;
    if (node->op == &op_feed)
        TRY(session_feed_index(session, node, &launch->feed));
    return kernel->prepare ? kernel->prepare(session->pool, call) : OK;
}

static bool launches_meet(const Session *session, const Launch *a, const Launch *b)
{
    for (int32_t i = 0; i < a->n_extents; i++)
        for (int32_t j = 0; j < b->n_extents; j++)
            if (extents_meet(&session->extents[a->first_extent + i],
                             &session->extents[b->first_extent + j]))
                return true;
    return false;
}

/* Brings launches that can run as one next to each other: each moves down to the next of its kind
 * if nothing in between touches its bytes, so it still reads and writes the same values. */
static void session_group_launches(const Session *session, Launch *launches, int32_t from,
                                   int32_t to)
{
    for (int32_t i = to - 1; i >= from; i--) {
        Launch  moved = launches[i];
        int32_t next = i + 1;
        while (moved.run_all && next < to && launches[next].run_all != moved.run_all &&
               !launches[next].copy && !launches_meet(session, &moved, &launches[next]))
            next++;
        if (!moved.run_all || next == to || launches[next].run_all != moved.run_all)
            continue;
        memmove(&launches[i], &launches[i + 1], (size_t)(next - i - 1) * sizeof *launches);
        launches[next - 1] = moved;
    }
}

static Err session_build_program(Session *session, const Program *program)
{
    const Graph *graph = session->engine->graph;
    ValuePlaces  places = { .program = program,
                            .buffer = NEWN(session->pool, int32_t, program->pgraph->n_values),
                            .index = NEWN(session->pool, int32_t, graph->n_values),
                            .slot = NEWN(session->pool, int32_t, program->pgraph->n_values),
                            .pending = NEWN(session->pool, Copy *, program->pgraph->n_values),
                            .event = NEWN(session->pool, void *, program->pgraph->n_values) };
    for (int32_t i = 0; i < graph->n_values; i++)
        places.index[i] = -1;
    for (int32_t i = 0; i < program->pgraph->n_values; i++) {
        places.buffer[i] = places.slot[i] = -1;
        places.index[program->value_of[i]] = i;
    }
    Launch      *launches = NEWN(session->pool, Launch, program->plan->n_steps);
    const Call **calls = NEWN(session->pool, const Call *, program->plan->n_steps);
    int32_t      n = 0, first_update = -1;
    for (int32_t s = 0; s < program->plan->n_steps; s++) {
        Step step = program->plan->steps[s];
        if (step.kind == STEP_DROP || step.kind == STEP_FREE_HOST)
            continue;
        if (step.kind != STEP_RUN) {
            TRY(session_build_copy(session, &places, s, step, n, &launches[n]));
            n++;
            continue;
        }
        int32_t id = program->node_of[step.id];
        if (graph->nodes[id].phase == PHASE_UPDATE && first_update < 0)
            first_update = n;
        calls[n] = &launches[n].call;
        TRY(session_build_launch(session, &places, s, id, &launches[n++]));
    }
    session_group_launches(session, launches, 0, first_update < 0 ? n : first_update);
    session_group_launches(session, launches, first_update < 0 ? n : first_update, n);
    /* In a program that joins both phases, an update may come before the last gradients: `micro`
     * runs what comes before the first update, `update` the rest, in the plan's order. */
    for (int p = 0; p < PHASE_COUNT; p++)
        if (program->phases[p]) {
            bool joined = program->phases[PHASE_MICRO] && program->phases[PHASE_UPDATE] &&
                          first_update >= 0;
            session->launches[p] = launches;
            session->calls[p] = calls;
            session->from[p] = joined && p == PHASE_UPDATE ? first_update : 0;
            session->to[p] = joined && p == PHASE_MICRO ? first_update : n;
        }
    for (int32_t i = 0; i < graph->n_outputs; i++)
        if (program->phases[graph->outputs[i].phase])
            session->outputs[i] = place_of(session, &places, graph->outputs[i].value, false);
    return OK;
}

/* On devices whose memory the host cannot read: buffers for copies, allocated before step 1. */
static Err session_new_host_buffers(Session *session)
{
    const Graph  *graph = session->engine->graph;
    const Device *device = session->engine->device;
    int64_t       largest = 1;
    if (!device->api)
        return OK;
    for (int32_t i = 0; i < graph->n_values; i++)
        if (value_at(graph, i)->persistent && value_at(graph, i)->bytes > largest)
            largest = value_at(graph, i)->bytes;
    TRY(device_host_bytes(session->pool, device, largest, &session->host_buffer));
    session->read = NEWN(session->pool, void *, graph->n_outputs + 1);
    for (int32_t i = 0; i < graph->n_outputs; i++)
        TRY(device_host_bytes(session->pool, device,
                              value_at(graph, graph->outputs[i].value)->bytes, &session->read[i]));
    return OK;
}

static void session_release(void *arg)
{
    Session *session = arg;
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        if (session->cuda_graph[phase])
            session->device->api->graph_free(session->device, session->cuda_graph[phase]);
        if (session->read_feeds[phase])
            session->device->api->event_free(session->device, session->read_feeds[phase]);
    }
    copies_done(&session->copies);
}

/* Makes an event per phase that is set once the staged feeds have been read: from then on the host
 * may stage the next. */
static Err session_new_feed_events(Session *session)
{
    const Device *device = session->device;
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        session->last_feed[phase] = -1;
        for (int32_t i = session->from[phase]; i < session->to[phase]; i++)
            if (session->launches[phase][i].feed >= 0)
                session->last_feed[phase] = i;
        if (device->api && session->last_feed[phase] >= 0)
            TRY(device->api->event_new(device, &session->read_feeds[phase]));
    }
    return OK;
}

Err session_new(Pool *pool, const Engine *engine, Session **out)
{
    Session *session = NEW(pool, Session);
    session->pool = pool;
    session->engine = engine;
    session->device = engine->device;
    session->outputs = NEWN(pool, void *, engine->graph->n_outputs + 1);
    TRY(arena_new(pool, engine->device, engine->arena_bytes, &session->arena));
    TRY(session_open_ranks(session));
    TRY(session_new_host_buffers(session));
    session->copies = (Copies){ .pool = pool, .device = engine->device };
    if (engine->host_bytes) {
        void *host;
        TRY(device_host_bytes(pool, engine->device, engine->host_bytes, &host));
        session->host = host;
    }
    pool_at_free(pool, session_release, session);
    for (int i = 0; i < engine->n_programs; i++)
        TRY(session_build_program(session, &engine->programs[i]));
    TRY(session_new_feed_events(session));
    *out = session;
    return OK;
}
