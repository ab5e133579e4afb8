/* session.c -- resolve every pointer once, then loop. */
#include "exec/session_int.h"

#include "base/clock.h"
#include "base/text.h"
#include "device/convert.h"
#include "exec/copies.h"
#include "exec/lanes.h"
#include "ops/basic.h"
#include "ops/ops.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct Launch {          /* one step of a plan: a run, a copy that begins, or its wait */
    Err   (*run)(const Call *);  /* NULL: not a run */
    Err   (*run_all)(const Call *const *, int n);    /* NULL: one by one */
    Call    call;
    Copy   *copy;
    bool    joins;               /* the copy's wait */
    Part    part;
    int32_t feed;                /* index into feeds, or -1 */
    int32_t first_end, n_ends;   /* into ends: what this launch was handed */
} Launch;

typedef struct Feed {
    const char *name;
    Part        part;
    const void *data;
    /* where the device copies from: a fixed place, so that it can be recorded */
    void       *staged;
    int64_t     bytes;
} Feed;

typedef struct Watch {
    int32_t value;
    void   *copy;
} Watch;

struct Session {
    Pool         *pool;
    const Engine *engine;
    /* the engine's, which may lie in a pool that is freed before this session's */
    const Device *device;
    Arena        *arena;
    Launch       *launches[PART_COUNT];      /* of the program that holds the part, in plan order */
    const Call  **calls[PART_COUNT];         /* theirs, side by side for run_all */
    /* what running the part means: see session_program */
    int32_t       from[PART_COUNT], to[PART_COUNT];
    Extent       *extents;
    int32_t       n_extents, cap_extents;
    Feed         *feeds;
    int32_t       n_feeds, cap_feeds;
    Watch        *watches;
    int32_t       n_watches, cap_watches;
    void        **outputs;       /* per graph output */
    void        **read;          /* per graph output, on devices the host cannot read: its copy */
    void         *room;          /* there too: the largest persistent value, on its way in or out */
    void         *recording[PART_COUNT];
    bool          one_lane;      /* of recordings still to be made */
    /* launch after which the staged feeds have been read, or -1 */
    int32_t       last_feed[PART_COUNT];
    void         *read_feeds[PART_COUNT];    /* the device's stamp of that place, or NULL */
    int64_t       measured[PART_COUNT];
    char         *host;          /* the host arena, or NULL */
    Copies        copies;
};

enum { GUARD_FILL = 0xC5 };

/* One buffer handed to a kernel; a view counts as its root. */
static void session_note(Session *session, int64_t offset, int64_t bytes, bool written)
{
    VEC_ADD(session->pool, session->extents, session->n_extents, session->cap_extents,
            (Extent){ offset, bytes, written });
}

typedef struct Places {          /* while walking a plan: where each pgraph value is now */
    const Program *program;
    int32_t       *buffer;       /* per pgraph value: current buffer, or -1 */
    int32_t       *index;        /* per graph value: pgraph value of its root, or -1 */
    int32_t        next_stay;
    int32_t       *slot;         /* per pgraph value: current slot on the host, or -1 */
    int32_t        next_slot;
    Copy         **pending;      /* per pgraph value */
    void         **mark;         /* per pgraph value, once it was copied */
} Places;

static void *place_of(Session *session, const Places *places, int32_t value, bool written)
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
    session_note(session, root, value_at(engine->graph, v->root)->bytes, written);
    return session->arena->base + root + v->offset;
}

static Err session_feed_index(Session *session, const Node *node, int32_t *index)
{
    const char *name = ATTR(node, FeedAttr)->name;
    for (*index = 0; *index < session->n_feeds; (*index)++)
        if (session->feeds[*index].part == node->part && !strcmp(session->feeds[*index].name, name))
            return OK;
    Feed feed = { .name = name,
                  .part = node->part,
                  .bytes = value_at(node->graph, node->out[0])->bytes };
    if (session->engine->device->api)
        TRY(device_host_bytes(session->pool, session->engine->device, feed.bytes, &feed.staged));
    VEC_ADD(session->pool, session->feeds, session->n_feeds, session->cap_feeds, feed);
    return OK;
}

/* Stays that begin up to this step: outputs, workspace, what is loaded. */
static void places_open(Session *session, Places *places, int32_t step, Call *call)
{
    const Engine      *engine = session->engine;
    const PlanBuffers *buffers = &places->program->buffers;
    for (; places->next_stay < buffers->n_stays &&
           buffers->stays[places->next_stay].first_step <= step;
         places->next_stay++) {
        const Stay *stay = &buffers->stays[places->next_stay];
        if (stay->value >= 0) {
            places->buffer[stay->value] = stay->buffer;
        } else {
            const Buffer *buffer = &buffers->buffers[stay->buffer];
            int64_t guard = engine->guards ? GUARD_BYTES : 0;
            int64_t at = engine->persistent_bytes + buffer->offset + guard;
            call->workspace = session->arena->base + at;
            session_note(session, at, buffer->size - 2 * guard, true);
        }
    }
}

/* Where a value lies on the host: at home, or in the slot that it has now. */
static int64_t host_place(const Engine *engine, Places *places, int32_t step, int32_t value)
{
    const PlanBuffers *slots = &places->program->slots;
    int64_t            home = engine->host_offset[places->program->value_of[value]];
    for (; places->next_slot < slots->n_stays && slots->stays[places->next_slot].first_step <= step;
         places->next_slot++)
        places->slot[slots->stays[places->next_slot].value] =
            slots->stays[places->next_slot].buffer;
    if (home >= 0)
        return home;
    REQUIRE(places->slot[value] >= 0);
    return engine->host_persistent_bytes + slots->buffers[places->slot[value]].offset;
}

/* A save, a load or a wait; `at` is its launch. */
static Err session_copy(Session *session, Places *places, int32_t index, Step step, int32_t at,
                        Launch *launch)
{
    *launch = (Launch){ .feed = -1, .first_end = session->n_extents };
    if (step.kind == STEP_WAIT) {
        launch->copy = places->pending[step.id];
        launch->copy->joined = at;
        launch->joins = true;
        return OK;
    }
    Copy *copy = launch->copy = places->pending[step.id] = NEW(session->pool, Copy);
    if (step.kind == STEP_LOAD)
        places_open(session, places, index, NULL);
    if (!places->mark[step.id])
        TRY(copies_mark(&session->copies, &places->mark[step.id]));
    int64_t home = host_place(session->engine, places, index, step.id);
    void   *host = session->host + home;
    bool    out = step.kind == STEP_SAVE;
    void   *device = place_of(session, places, places->program->value_of[step.id], !out);
    *copy = (Copy){ .way = out ? COPY_TO_HOST : COPY_TO_DEVICE,
                    .to = out ? host : device,
                    .from = out ? device : host,
                    .bytes = (size_t)places->program->pgraph->values[step.id].bytes,
                    .mark = places->mark[step.id],
                    .begun = at };
    copy->host_end = home + (int64_t)copy->bytes;
    copy->touches[0] = session->extents[launch->first_end];
    copy->touches[1] = (Extent){ HOST_OFFSET + home, (int64_t)copy->bytes, out };
    return OK;
}

static Err session_launch(Session *session, Places *places, int32_t step, int32_t node_id,
                          Launch *launch)
{
    const Engine *engine = session->engine;
    const Node   *node = &engine->graph->nodes[node_id];
    const Kernel *kernel = op_kernel(node->op, engine->device);
    Call         *call = &launch->call;

    *launch = (Launch){ .run = kernel->run,
                        .run_all = kernel->run_all,
                        .part = node->part,
                        .feed = -1,
                        .first_end = session->n_extents };
    *call = (Call){ .node = node,
                    .device = engine_device(engine, node_id),
                    .choice = &engine->choices[node_id],
                    .in = NEWN(session->pool, void *, node->n_in + 1),
                    .out = NEWN(session->pool, void *, node->n_out + 1) };
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i] >= 0)
            call->in[i] = place_of(session, places, node->in[i], false);
    places_open(session, places, step, call);  /* inputs were placed above: an output may move in */
    for (int i = 0; i < node->n_out; i++)
        if (node->out[i] >= 0)
            call->out[i] = place_of(session, places, node->out[i], true);
    launch->n_ends = session->n_extents - launch->first_end;
    if (node->op == &op_feed)
        TRY(session_feed_index(session, node, &launch->feed));
    return kernel->prepare ? kernel->prepare(session->pool, call) : OK;
}

static bool launches_meet(const Session *session, const Launch *a, const Launch *b)
{
    for (int32_t i = 0; i < a->n_ends; i++)
        for (int32_t j = 0; j < b->n_ends; j++)
            if (extents_meet(&session->extents[a->first_end + i],
                             &session->extents[b->first_end + j]))
                return true;
    return false;
}

/* What can go in one launch is brought together: each waits for the next of its kind where nothing
 * in between touches its bytes, so that it reads and writes what it would have. */
static void session_gather(const Session *session, Launch *launches, int32_t from, int32_t to)
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

static Err session_program(Session *session, const Program *program)
{
    const Graph *graph = session->engine->graph;
    Places places = { .program = program,
                      .buffer = NEWN(session->pool, int32_t, program->pgraph->n_values),
                      .index = NEWN(session->pool, int32_t, graph->n_values),
                      .slot = NEWN(session->pool, int32_t, program->pgraph->n_values),
                      .pending = NEWN(session->pool, Copy *, program->pgraph->n_values),
                      .mark = NEWN(session->pool, void *, program->pgraph->n_values) };
    for (int32_t i = 0; i < graph->n_values; i++)
        places.index[i] = -1;
    for (int32_t i = 0; i < program->pgraph->n_values; i++) {
        places.buffer[i] = places.slot[i] = -1;
        places.index[program->value_of[i]] = i;
    }
    Launch      *launches = NEWN(session->pool, Launch, program->plan->n_steps);
    const Call **calls = NEWN(session->pool, const Call *, program->plan->n_steps);
    int32_t n = 0, first_update = -1;
    for (int32_t s = 0; s < program->plan->n_steps; s++) {
        Step step = program->plan->steps[s];
        if (step.kind == STEP_DROP || step.kind == STEP_FREE_HOST)
            continue;
        if (step.kind != STEP_RUN) {
            REQUIRE(session->engine->device->queues);
            TRY(session_copy(session, &places, s, step, n, &launches[n]));
            n++;
            continue;
        }
        int32_t id = program->node_of[step.id];
        if (graph->nodes[id].part == PART_UPDATE && first_update < 0)
            first_update = n;
        calls[n] = &launches[n].call;
        TRY(session_launch(session, &places, s, id, &launches[n++]));
    }
    session_gather(session, launches, 0, first_update < 0 ? n : first_update);
    session_gather(session, launches, first_update < 0 ? n : first_update, n);
    /* A joined program may update a parameter before the last gradients are made: `micro` runs what
     * comes before the first update, `update` all the rest, in the plan's own order. */
    for (int p = 0; p < PART_COUNT; p++)
        if (program->parts[p]) {
            bool joined = program->parts[PART_MICRO] && program->parts[PART_UPDATE] &&
                          first_update >= 0;
            session->launches[p] = launches;
            session->calls[p] = calls;
            session->from[p] = joined && p == PART_UPDATE ? first_update : 0;
            session->to[p] = joined && p == PART_MICRO ? first_update : n;
        }
    for (int32_t i = 0; i < graph->n_outputs; i++)
        if (program->parts[graph->outputs[i].part])
            session->outputs[i] = place_of(session, &places, graph->outputs[i].value, false);
    return OK;
}

/* On devices the host cannot read: where its copies lie, taken before the first step. */
static Err session_rooms(Session *session)
{
    const Graph  *graph = session->engine->graph;
    const Device *device = session->engine->device;
    int64_t       most = 1;
    if (!device->api)
        return OK;
    for (int32_t i = 0; i < graph->n_values; i++)
        if (value_at(graph, i)->persistent && value_at(graph, i)->bytes > most)
            most = value_at(graph, i)->bytes;
    TRY(device_host_bytes(session->pool, device, most, &session->room));
    session->read = NEWN(session->pool, void *, graph->n_outputs + 1);
    for (int32_t i = 0; i < graph->n_outputs; i++)
        TRY(device_host_bytes(session->pool, device,
                              value_at(graph, graph->outputs[i].value)->bytes, &session->read[i]));
    return OK;
}

static void session_forget(void *arg)
{
    Session *session = arg;
    for (int part = 0; part < PART_COUNT; part++) {
        if (session->recording[part])
            session->device->api->forget(session->device, session->recording[part]);
        if (session->read_feeds[part])
            session->device->api->stamp_free(session->device, session->read_feeds[part]);
    }
    copies_done(&session->copies);
}

/* Stamps the place where a part has read what the host staged: from there on the host may stage the
 * next. */
static Err session_stamps(Session *session)
{
    const Device *device = session->device;
    for (int part = 0; part < PART_COUNT; part++) {
        session->last_feed[part] = -1;
        for (int32_t i = session->from[part]; i < session->to[part]; i++)
            if (session->launches[part][i].feed >= 0)
                session->last_feed[part] = i;
        if (device->api && session->last_feed[part] >= 0)
            TRY(device->api->stamp_new(device, &session->read_feeds[part]));
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
    TRY(session_rooms(session));
    session->copies = (Copies){ .pool = pool, .device = engine->device };
    if (engine->host_bytes) {
        void *host;
        TRY(device_host_bytes(pool, engine->device, engine->host_bytes, &host));
        session->host = host;
    }
    pool_at_free(pool, session_forget, session);
    for (int i = 0; i < engine->n_programs; i++)
        TRY(session_program(session, &engine->programs[i]));
    TRY(session_stamps(session));
    *out = session;
    return OK;
}

static void *session_at(const Session *session, int32_t value)
{
    const Value *v = value_at(session->engine->graph, value);
    int64_t offset = session->engine->offset[v->root], home = session->engine->host_offset[v->root];
    REQUIRE(offset >= 0 || home >= 0);
    return home >= 0 ? session->host + home + v->offset : session->arena->base + offset + v->offset;
}

static bool session_at_home(const Session *session, int32_t value)
{
    return session->engine->host_offset[value_at(session->engine->graph, value)->root] >= 0;
}

void *session_bytes(Session *session, int32_t value)
{
    REQUIRE(!session->engine->device->api);
    return session_at(session, value);
}

Err session_read(Session *session, int32_t value, void *to)
{
    if (session_at_home(session, value)) {
        TRY(device_wait(session->engine->device));
        memcpy(to, session_at(session, value),
               (size_t)value_at(session->engine->graph, value)->bytes);
        return OK;
    }
    return device_read(session->engine->device, to, session_at(session, value),
                       (size_t)value_at(session->engine->graph, value)->bytes);
}

Err session_write(Session *session, int32_t value, const void *from)
{
    if (session_at_home(session, value)) {
        TRY(device_wait(session->engine->device));
        memcpy(session_at(session, value), from,
               (size_t)value_at(session->engine->graph, value)->bytes);
        return OK;
    }
    return device_write(session->engine->device, session_at(session, value), from,
                        (size_t)value_at(session->engine->graph, value)->bytes);
}

bool session_is_staged(const Session *session)
{
    return session->room != NULL;
}

void *session_room(Session *session, int32_t value)
{
    return session->room ? session->room : session_at(session, value);
}

static Err session_feed_those(Session *session, bool all, Part part, const char *name,
                              const void *data)
{
    bool found = false;
    for (int32_t i = 0; i < session->n_feeds; i++)
        if ((all || session->feeds[i].part == part) && !strcmp(session->feeds[i].name, name)) {
            session->feeds[i].data = data;
            found = true;
        }
    return found ? OK : fail(E_USAGE, "the model has no input '%s'", name);
}

Err session_feed_part(Session *session, Part part, const char *name, const void *data)
{
    return session_feed_those(session, false, part, name, data);
}

Err session_feed(Session *session, const char *name, const void *data)
{
    return session_feed_those(session, true, PART_MICRO, name, data);
}

Err session_watch(Session *session, int32_t value, void *copy)
{
    VEC_ADD(session->pool, session->watches, session->n_watches, session->cap_watches,
            (Watch){ value, copy });
    return OK;
}

static Err guards_fill(Session *session, const Launch *launch)
{
    const Device *device = session->engine->device;
    char          fill[GUARD_BYTES];
    memset(fill, GUARD_FILL, sizeof fill);
    for (int32_t i = 0; i < launch->n_ends; i++) {
        Extent e = session->extents[launch->first_end + i];
        TRY(device_write(device, session->arena->base + e.offset - GUARD_BYTES, fill, sizeof fill));
        TRY(device_write(device, session->arena->base + e.offset + e.bytes, fill, sizeof fill));
    }
    return OK;
}

static Err guards_check(Session *session, const Launch *launch)
{
    const Device *device = session->engine->device;
    for (int32_t i = 0; i < launch->n_ends; i++) {
        Extent        e = session->extents[launch->first_end + i];
        unsigned char low[GUARD_BYTES], high[GUARD_BYTES];
        TRY(device_read(device, low, session->arena->base + e.offset - GUARD_BYTES, sizeof low));
        TRY(device_read(device, high, session->arena->base + e.offset + e.bytes, sizeof high));
        for (int b = 0; b < GUARD_BYTES; b++)
            if (low[b] != GUARD_FILL || high[b] != GUARD_FILL)
                return fail(E_PLAN, "%s wrote outside its buffers, %s buffer %d of %lld bytes",
                            node_text(session->engine->graph, launch->call.node->id),
                            low[b] != GUARD_FILL ? "before" : "after", i, (long long)e.bytes);
    }
    return OK;
}

static Err session_watched(Session *session, const Launch *launch)
{
    const Node *node = launch->call.node;
    for (int32_t w = 0; w < session->n_watches; w++) {
        const Value *watched = value_at(session->engine->graph, session->watches[w].value);
        for (int i = 0; i < node->n_out; i++)
            if (node->out[i] == watched->root)
                TRY(device_read(session->engine->device, session->watches[w].copy,
                                (char *)launch->call.out[i] + watched->offset,
                                (size_t)watched->bytes));
    }
    return OK;
}

static void session_measure(Session *session, const Launch *launch)
{
    for (int32_t e = 0; e < launch->n_ends; e++) {
        Extent extent = session->extents[launch->first_end + e];
        if (extent.offset + extent.bytes > session->measured[launch->part])
            session->measured[launch->part] = extent.offset + extent.bytes;
    }
}

/* How many launches from i on go in one: only operators without scratch or new buffers have
 * run_all, so no drop between them matters. */
static int32_t session_together(const Session *session, Part part, int32_t i)
{
    const Launch *launches = session->launches[part];
    int32_t       n = 1;
    while (launches[i].run_all && i + n < session->to[part] &&
           launches[i + n].run_all == launches[i].run_all)
        n++;
    return n;
}

/* A launch that is no run. */
static Err session_move(Session *session, Part part, const Launch *launch)
{
    return launch->joins ? copies_join(&session->copies, launch->copy, session->from[part])
                         : copies_begin(&session->copies, launch->copy);
}

/* What this part began and a later one waits for. */
static Err session_settle(Session *session, Part part)
{
    for (int32_t i = session->from[part]; i < session->to[part]; i++) {
        const Launch *launch = &session->launches[part][i];
        if (launch->copy && !launch->joins && launch->copy->joined >= session->to[part])
            TRY(copies_join(&session->copies, launch->copy, 0));
    }
    return OK;
}

/* lanes: of a recording, or NULL. */
static Err session_launches(Session *session, Part part, Lanes *lanes)
{
    bool    guards = session->engine->guards;
    int32_t n, at = 0;
    for (int32_t i = session->from[part]; i < session->to[part]; i += n) {
        Launch *launch = &session->launches[part][i];
        n = guards || session->n_watches ? 1 : session_together(session, part, i);
        if (lanes)
            TRY(lanes_before(lanes, at));
        for (int32_t j = 0; j < n; j++)
            session_measure(session, &launch[j]);
        if (guards)
            TRY(guards_fill(session, launch));
        TRY(launch->copy ? session_move(session, part, launch)
            : n > 1      ? launch->run_all(&session->calls[part][i], n)
                         : launch->run(&launch->call));
        if (i == session->last_feed[part] && session->read_feeds[part])
            TRY(session->device->api->stamp(session->device, session->read_feeds[part]));
        if (lanes)
            TRY(lanes_behind(lanes, at++));
        if (launch->copy)
            continue;
        if (guards)
            TRY(guards_check(session, launch));
        if (session->n_watches)
            TRY(session_watched(session, launch));
    }
    if (lanes)
        TRY(lanes_join(lanes));
    return session_settle(session, part);
}

/* Points every feed launch of the part at its bytes. */
static Err session_give(Session *session, Part part)
{
    const Device *device = session->device;
    bool          waited = false;
    for (int32_t i = session->from[part]; i < session->to[part]; i++) {
        Launch *launch = &session->launches[part][i];
        if (launch->feed < 0)
            continue;
        Feed *feed = &session->feeds[launch->feed];
        launch->call.feed = feed->data;
        if (!feed->staged)
            continue;
        /* an earlier run may still be copying from there */
        for (int p = 0; p < PART_COUNT && !waited; p++)
            if (session->read_feeds[p])
                TRY(device->api->stamp_wait(device, session->read_feeds[p]));
        waited = true;
        if (feed->data)
            memcpy(feed->staged, feed->data, (size_t)feed->bytes);
        launch->call.feed = feed->data ? feed->staged : NULL;
    }
    return OK;
}

/* Launches that go in one are one to the lanes: all of their bytes. What the host staged comes in
 * beside the first launches, all in one lane, so that the last of it is after all of it. */
static Err session_side_by_side(Session *session, Part part, Pool *pool, Lanes *lanes)
{
    int32_t    from = session->from[part], to = session->to[part], n = 0;
    LaneItem  *items = NEWN(pool, LaneItem, to - from);
    LanePlace *places = NEWN(pool, LanePlace, to - from);
    for (int32_t i = from, group; i < to; i += group, n++) {
        const Launch *launch = &session->launches[part][i];
        group = session_together(session, part, i);
        if (launch->copy) {                  /* it begins, or is waited for: the same bytes */
            items[n] = (LaneItem){ .extents = launch->copy->touches, .n_extents = 2 };
            continue;
        }
        Extent  *extents = NULL;
        int32_t  cap = 0;
        items[n] = (LaneItem){ .aside = launch->feed >= 0 };
        for (int32_t g = 0; g < group; g++) {
            items[n].ns += session->engine->node_ns[launch[g].call.node->id];
            for (int32_t e = 0; e < launch[g].n_ends; e++)
                VEC_ADD(pool, extents, items[n].n_extents, cap,
                        session->extents[launch[g].first_end + e]);
        }
        items[n].extents = extents;
    }
    lanes_assign(pool, items, n, places);
    TRY(lanes_check(items, n, places));
    *lanes = lanes_begin(pool, session->device, places, n);
    return OK;
}

static Err session_record(Session *session, Part part)
{
    const Device *device = session->engine->device;
    bool          branches = device->api->record_after && !session->one_lane;
    Pool         *pool = pool_new(session->pool, "recording");
    Lanes         lanes;
    if (branches)
        TRY(session_side_by_side(session, part, pool, &lanes));
    TRY(device->api->record_begin(device));
    Err err = session_launches(session, part, branches ? &lanes : NULL);
    Err ended = device->api->record_end(device, &session->recording[part]);
    pool_free(pool);
    return err ? err : ended;
}

void session_one_lane(Session *session)
{
    session->one_lane = true;
}

Err session_run(Session *session, Part part)
{
    const Device *device = session->engine->device;
    bool          looked_at = session->engine->guards || session->n_watches;
    TRY(session_give(session, part));
    if (device->api && device->api->record_begin && !looked_at &&
        session->from[part] < session->to[part]) {
        if (!session->recording[part])
            TRY(session_record(session, part));
        return device->api->replay(device, session->recording[part]);
    }
    TRY(session_launches(session, part, NULL));
    for (int32_t w = 0; w < session->n_watches; w++) {       /* persistent ones have no maker */
        int32_t id = session->watches[w].value;
        if (session->engine->offset[value_at(session->engine->graph, id)->root] >= 0)
            TRY(session_read(session, id, session->watches[w].copy));
    }
    return OK;
}

/* Launches that went in one share its time by the bytes they write. */
static void session_share(const Launch *launches, int32_t n, double all, double *ns)
{
    double bytes = 0;
    for (int32_t i = 0; i < n; i++)
        bytes += out_bytes(launches[i].call.node, 0) + 1;
    for (int32_t i = 0; i < n; i++)
        ns[launches[i].call.node->id] = all * (out_bytes(launches[i].call.node, 0) + 1) / bytes;
}

/* By the device's own clock: a stamp before every launch, in a recording, as the step itself runs.
 * What two stamps in a row take is the clock's own. */
static Err session_stamped(Session *session, Part part, void **stamps, double *ns)
{
    const Device    *device = session->engine->device;
    const DeviceApi *api = device->api;
    void            *recording = NULL;
    int32_t          at = 0, n;
    double           own, all;
    TRY(api->record_begin(device));
    Err err = api->stamp(device, stamps[at++]);
    for (int32_t i = session->from[part]; i < session->to[part] && !err; i += n) {
        Launch *launch = &session->launches[part][i];
        n = session_together(session, part, i);
        err = api->stamp(device, stamps[at++]);
        if (!err)
            err = launch->copy ? session_move(session, part, launch)
                  : n > 1      ? launch->run_all(&session->calls[part][i], n)
                               : launch->run(&launch->call);
    }
    err = err ? err : api->stamp(device, stamps[at]);
    err = err ? err : session_settle(session, part);
    Err ended = api->record_end(device, &recording);
    if (!err && !ended) {
        err = api->replay(device, recording);
        err = err ? err : device_wait(device);
    }
    if (recording)
        api->forget(device, recording);
    TRY(err ? err : ended);
    TRY(api->stamp_ns(device, stamps[0], stamps[1], &own));
    at = 1;
    for (int32_t i = session->from[part]; i < session->to[part]; i += n, at++) {
        const Launch *launch = &session->launches[part][i];
        n = session_together(session, part, i);
        if (launch->copy)
            continue;
        TRY(api->stamp_ns(device, stamps[at], stamps[at + 1], &all));
        session_share(launch, n, fmax(100, all - own), ns);
    }
    return OK;
}

static Err session_profile_recorded(Session *session, Part part, double *ns)
{
    const Device *device = session->engine->device;
    Pool         *pool = pool_new(session->pool, "stamps");
    int32_t       n = session->to[part] - session->from[part] + 2, made = 0;
    void        **stamps = NEWN(pool, void *, n);
    Err           err = OK;
    for (; made < n && !err; made++)
        err = device->api->stamp_new(device, &stamps[made]);
    err = err ? err : session_stamped(session, part, stamps, ns);
    for (int32_t i = 0; i < made; i++)
        device->api->stamp_free(device, stamps[i]);
    pool_free(pool);
    return err;
}

Err session_profile(Session *session, Part part, double *ns)
{
    const Device *device = session->engine->device;
    TRY(session_give(session, part));
    TRY(device_wait(device));
    if (device->api && device->api->stamp && session->from[part] < session->to[part])
        return session_profile_recorded(session, part, ns);
    for (int32_t i = session->from[part], n; i < session->to[part]; i += n) {
        Launch *launch = &session->launches[part][i];
        n = session_together(session, part, i);
        if (launch->copy) {
            TRY(session_move(session, part, launch));
            continue;
        }
        double start = clock_now();
        TRY(n > 1 ? launch->run_all(&session->calls[part][i], n) : launch->run(&launch->call));
        TRY(device_wait(device));
        session_share(launch, n, (clock_now() - start) * 1e9, ns);
    }
    return session_settle(session, part);
}

const void *session_output(Session *session, const char *name)
{
    const Graph *graph = session->engine->graph;
    for (int32_t i = 0; i < graph->n_outputs; i++)
        if (!strcmp(graph->outputs[i].name, name)) {
            if (!session->read)
                return session->outputs[i];
            size_t bytes = (size_t)value_at(graph, graph->outputs[i].value)->bytes;
            return device_read(session->engine->device, session->read[i], session->outputs[i],
                               bytes)
                       ? NULL
                       : session->read[i];
        }
    return NULL;
}

const char *session_first_bad(Session *session, Part part)
{
    const Graph *graph = session->engine->graph;
    Pool        *pool = pool_new(session->pool, "looking");
    const char  *found = NULL;
    for (int32_t i = session->from[part]; i < session->to[part] && !found; i++) {
        Launch     *launch = &session->launches[part][i];
        const Node *node = launch->call.node;
        if (launch->copy) {
            if (session_move(session, part, launch))
                break;
            continue;
        }
        if (launch->run(&launch->call))
            break;
        for (int j = 0; j < node->n_out && !found; j++) {
            if (node->out[j] < 0 || !type_is_float(out_type(node, j)))
                continue;
            int64_t count = shape_count(out_shape(node, j)),
                    bytes = count * type_bytes(out_type(node, j));
            const void *data = launch->call.out[j];
            float       buffer[1];
            if (session->room) {
                void *copy = pool_alloc(pool, (size_t)bytes, 1);
                if (device_read(session->engine->device, copy, data, (size_t)bytes))
                    break;
                data = copy;
            }
            for (int64_t e = 0; e < count && !found; e++)
                if (!isfinite(*row_load(out_type(node, j), data, e, 1, buffer)))
                    found = value_text(graph, node->out[j]);
        }
        if (session->room) {
            pool_free(pool);
            pool = pool_new(session->pool, "looking");
        }
    }
    pool_free(pool);
    return found;
}

int64_t session_measured_bytes(const Session *session, Part part)
{
    return session->measured[part];
}

int64_t session_measured_host_bytes(const Session *session)
{
    return session->copies.measured;
}

int64_t session_planned_bytes(const Session *session, Part part)
{
    return session->engine->part_bytes[part];
}

const Arena  *session_arena(const Session *session)  { return session->arena; }
const Engine *session_engine(const Session *session) { return session->engine; }
