/* session.c -- runs the launches of a phase, or captures and launches its CUDA graph; reads and
 * writes values.
 *
 * session_build.c resolves every pointer; session_inspect.c measures times and looks for numbers
 * that are not finite. */
#include "comm/queue.h"
#include "exec/session_int.h"
#include "exec/session_ranks.h"

#include <string.h>

enum { GUARD_FILL = 0xC5 };

void *session_place(const Session *session, int32_t value)
{
    const Value *v = value_at(session->engine->graph, value);
    int64_t offset = session->engine->offset[v->root], host = session->engine->host_offset[v->root];
    REQUIRE(offset >= 0 || host >= 0);
    return host >= 0 ? session->host + host + v->offset : session->arena->base + offset + v->offset;
}

static bool session_is_host_resident(const Session *session, int32_t value)
{
    return session->engine->host_offset[value_at(session->engine->graph, value)->root] >= 0;
}

void *session_bytes(Session *session, int32_t value)
{
    REQUIRE(!session->engine->device->api);
    return session_place(session, value);
}

Err session_read_at(Session *session, int32_t value, int64_t at, void *to, int64_t bytes)
{
    const char *from = (const char *)session_place(session, value) + at;
    if (!session_is_host_resident(session, value))
        return device_read(session->engine->device, to, from, (size_t)bytes);
    TRY(device_wait(session->engine->device));
    memcpy(to, from, (size_t)bytes);
    return OK;
}

Err session_write_at(Session *session, int32_t value, int64_t at, const void *from, int64_t bytes)
{
    char *to = (char *)session_place(session, value) + at;
    if (!session_is_host_resident(session, value))
        return device_write(session->engine->device, to, from, (size_t)bytes);
    TRY(device_wait(session->engine->device));
    memcpy(to, from, (size_t)bytes);
    return OK;
}

Err session_read(Session *session, int32_t value, void *to)
{
    return session_read_at(session, value, 0, to, value_at(session->engine->graph, value)->bytes);
}

Err session_write(Session *session, int32_t value, const void *from)
{
    return session_write_at(session, value, 0, from,
                            value_at(session->engine->graph, value)->bytes);
}

bool session_has_host_buffer(const Session *session) { return session->host_buffer != NULL; }

void *session_host_buffer(Session *session, int32_t value)
{
    return session->host_buffer ? session->host_buffer : session_place(session, value);
}

static Err session_feed_matching(Session *session, bool all, Phase phase, const char *name,
                                 const void *data)
{
    bool found = false;
    for (int32_t i = 0; i < session->n_feeds; i++)
        if ((all || session->feeds[i].phase == phase) && !strcmp(session->feeds[i].name, name)) {
            session->feeds[i].data = data;
            found = true;
        }
    return found ? OK : fail(E_USAGE, "the model has no input '%s'", name);
}

Err session_feed_phase(Session *session, Phase phase, const char *name, const void *data)
{
    return session_feed_matching(session, false, phase, name, data);
}

Err session_feed(Session *session, const char *name, const void *data)
{
    return session_feed_matching(session, true, PHASE_MICRO, name, data);
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
    for (int32_t i = 0; i < launch->n_extents; i++) {
        Extent e = session->extents[launch->first_extent + i];
        TRY(device_write(device, session->arena->base + e.offset - GUARD_BYTES, fill, sizeof fill));
        TRY(device_write(device, session->arena->base + e.offset + e.bytes, fill, sizeof fill));
    }
    return OK;
}

static Err guards_check(Session *session, const Launch *launch)
{
    const Device *device = session->engine->device;
    for (int32_t i = 0; i < launch->n_extents; i++) {
        Extent        e = session->extents[launch->first_extent + i];
        unsigned char low[GUARD_BYTES], high[GUARD_BYTES];
        TRY(device_read(device, low, session->arena->base + e.offset - GUARD_BYTES, sizeof low));
        TRY(device_read(device, high, session->arena->base + e.offset + e.bytes, sizeof high));
        for (int b = 0; b < GUARD_BYTES; b++)
            if (low[b] != GUARD_FILL || high[b] != GUARD_FILL)
                return fail(E_PLAN, "%s wrote outside its buffers: %s buffer %d of %lld bytes",
                            node_text(session->engine->graph, launch->call.node->id),
                            low[b] != GUARD_FILL ? "before" : "after", i, (long long)e.bytes);
    }
    return OK;
}

static Err session_copy_watched(Session *session, const Launch *launch)
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
    for (int32_t e = 0; e < launch->n_extents; e++) {
        Extent extent = session->extents[launch->first_extent + e];
        if (extent.offset + extent.bytes > session->measured[launch->phase])
            session->measured[launch->phase] = extent.offset + extent.bytes;
    }
}

int32_t session_group(const Session *session, Phase phase, int32_t i)
{
    const Launch *launches = session->launches[phase];
    int32_t       n = 1;
    while (launches[i].run_all && i + n < session->to[phase] &&
           launches[i + n].run_all == launches[i].run_all)
        n++;
    return n;
}

Err session_copy_step(Session *session, Phase phase, const Launch *launch)
{
    const Gather *gather = launch->copy->gather;
    if (gather && !launch->joins)
        return session_gather(session, gather);
    if (gather) /* a phase joins what it began, at its end at the latest */
        return launch->copy->begun < session->from[phase] ? OK
                                                          : session_gather_join(session, gather);
    return launch->joins ? copies_join(&session->copies, launch->copy, session->from[phase])
                         : copies_begin(&session->copies, launch->copy);
}

Err session_join_pending(Session *session, Phase phase)
{
    for (int32_t i = session->from[phase]; i < session->to[phase]; i++) {
        const Launch *launch = &session->launches[phase][i];
        if (launch->copy && !launch->joins && launch->copy->joined >= session->to[phase])
            TRY(launch->copy->gather ? session_gather_join(session, launch->copy->gather)
                                     : copies_join(&session->copies, launch->copy, 0));
    }
    return OK;
}

/* The next launch captured depends on the copy alone, not also on everything before the copy. */
static Err session_capture_copy(Session *session, const Copy *copy)
{
    TRY(session->device->api->capture_after(session->device, NULL, 0));
    return copies_join(&session->copies, copy, 0);
}

/* The launch is a copy between the arena and the host arena, which has a lane of its own. What comes
 * from other ranks has a queue of its own instead, which its load forks off and its wait joins. */
static bool launch_copies(const Launch *launch) { return launch->copy && !launch->copy->gather; }

/* lanes: while a CUDA graph with lanes is captured, else NULL. In lanes a copy has a place as a
 * launch has: whatever touches its bytes next waits for it, so the plan's `wait` does nothing. */
static Err session_launches(Session *session, Phase phase, LaneCapture *lanes)
{
    bool    guards = session->engine->guards;
    Comm   *comm = session->device->comm;
    int32_t n, at = 0;
    for (int32_t i = session->from[phase]; i < session->to[phase]; i += n) {
        Launch *launch = &session->launches[phase][i];
        n = guards || session->n_watches ? 1 : session_group(session, phase, i);
        if (lanes && launch->joins && launch_copies(launch))
            continue;
        if (lanes)
            TRY(lane_capture_before(lanes, at));
        for (int32_t j = 0; j < n; j++)
            session_measure(session, &launch[j]);
        if (comm) /* moves what is under way between ranks */
            TRY(comm_poll(comm));
        if (guards)
            TRY(guards_fill(session, launch));
        TRY(launch->copy ? session_copy_step(session, phase, launch)
            : n > 1      ? launch->run_all(&session->calls[phase][i], n)
                         : launch->run(&launch->call));
        if (i == session->last_feed[phase] && session->read_feeds[phase])
            TRY(session->device->api->event(session->device, session->read_feeds[phase]));
        if (lanes && launch_copies(launch))
            TRY(session_capture_copy(session, launch->copy));
        if (lanes)
            TRY(lane_capture_after(lanes, at++));
        if (launch->copy)
            continue;
        if (guards)
            TRY(guards_check(session, launch));
        if (session->n_watches)
            TRY(session_copy_watched(session, launch));
    }
    if (lanes)
        TRY(lane_capture_join(lanes));
    return session_join_pending(session, phase);
}

Err session_stage_feeds(Session *session, Phase phase)
{
    const Device *device = session->device;
    bool          waited = false;
    for (int32_t i = session->from[phase]; i < session->to[phase]; i++) {
        Launch *launch = &session->launches[phase][i];
        if (launch->feed < 0)
            continue;
        Feed *feed = &session->feeds[launch->feed];
        launch->call.feed = feed->data;
        if (!feed->staged)
            continue;
        /* an earlier run may still be copying from the staging buffer */
        for (int p = 0; p < PHASE_COUNT && !waited; p++)
            if (session->read_feeds[p])
                TRY(device->api->event_wait(device, session->read_feeds[p]));
        waited = true;
        if (feed->data)
            memcpy(feed->staged, feed->data, (size_t)feed->bytes);
        launch->call.feed = feed->data ? feed->staged : NULL;
    }
    return OK;
}

Err session_stage(Session *session, Phase phase)
{
    session->staged[phase] = false;
    TRY(session_stage_feeds(session, phase));
    session->staged[phase] = true;
    return OK;
}

/* A group of launches that run as one is one item with the bytes of all. The feeds all go into
 * LANE_ASIDE, so they arrive beside the first launches and the event after the last one covers
 * all. */
static Err session_assign_lanes(Session *session, Phase phase, Pool *pool, LaneCapture *lanes)
{
    int32_t    from = session->from[phase], to = session->to[phase], n = 0;
    LaneItem  *items = NEWN(pool, LaneItem, to - from);
    LanePlace *places = NEWN(pool, LanePlace, to - from);
    for (int32_t i = from, group; i < to; i += group) {
        const Launch *launch = &session->launches[phase][i];
        const Copy   *copy = launch->copy;
        group = session_group(session, phase, i);
        if (copy && copy->gather) {
            items[n++] = (LaneItem){ .extents = copy->touches, .n_extents = 2 };
            continue;
        }
        if (launch->joins)
            continue;
        if (copy) {
            bool out = copy->way == COPY_TO_HOST;
            items[n++] = (LaneItem){ .extents = copy->touches,
                                     .n_extents = 2,
                                     .ns = (double)copy->bytes / (out ? session->device->to_host
                                                                      : session->device->to_device),
                                     .lane = LANE_COPIES + (int32_t)copy->way };
            continue;
        }
        Extent *extents = NULL;
        int32_t cap = 0;
        items[n] = (LaneItem){ .lane = launch->feed >= 0 ? LANE_ASIDE : 0 };
        for (int32_t g = 0; g < group; g++) {
            items[n].ns += session->engine->node_ns[launch[g].call.node->id];
            for (int32_t e = 0; e < launch[g].n_extents; e++)
                VEC_ADD(pool, extents, items[n].n_extents, cap,
                        session->extents[launch[g].first_extent + e]);
        }
        items[n++].extents = extents;
    }
    lanes_assign(pool, items, n, places);
    TRY(lanes_check(items, n, places));
    *lanes = lane_capture_begin(pool, session->device, places, n);
    return OK;
}

static Err session_capture(Session *session, Phase phase)
{
    const Device *device = session->engine->device;
    bool          branches = device->api->capture_after && !session->one_lane;
    Pool         *pool = pool_new(session->pool, "capture");
    LaneCapture   lanes;
    if (branches)
        TRY(session_assign_lanes(session, phase, pool, &lanes));
    TRY(device->api->capture_begin(device));
    Err err = session_launches(session, phase, branches ? &lanes : NULL);
    Err ended = device->api->capture_end(device, &session->cuda_graph[phase]);
    pool_free(pool);
    if (err && session->cuda_graph[phase]) { /* an incomplete graph must never be launched */
        device->api->graph_free(device, session->cuda_graph[phase]);
        session->cuda_graph[phase] = NULL;
    }
    return err ? err : ended;
}

void session_one_lane(Session *session) { session->one_lane = true; }

/* Guards and watches act between launches, which a CUDA graph does not allow. */
static bool session_captures(const Session *session, Phase phase)
{
    const DeviceApi *api = session->engine->device->api;
    return api && api->capture_begin && !session->engine->guards && !session->n_watches &&
           session->from[phase] < session->to[phase];
}

static bool session_has_inputs(const Session *session, Phase phase)
{
    for (int32_t i = session->from[phase]; i < session->to[phase]; i++) {
        int32_t feed = session->launches[phase][i].feed;
        if (feed >= 0 && !session->feeds[feed].data)
            return false;
    }
    return true;
}

Err session_prepare(Session *session)
{
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        if (session->cuda_graph[phase] || !session_captures(session, (Phase)phase) ||
            !session_has_inputs(session, (Phase)phase))
            continue;
        TRY(session_stage_feeds(session, (Phase)phase));
        TRY(session_capture(session, (Phase)phase));
    }
    return OK;
}

Err session_run(Session *session, Phase phase)
{
    const Device *device = session->engine->device;
    if (!session->staged[phase])
        TRY(session_stage_feeds(session, phase));
    session->staged[phase] = false;
    if (session_captures(session, phase)) {
        if (!session->cuda_graph[phase])
            TRY(session_capture(session, phase));
        TRY(comm_queue_settle(session->device->comm));
        return device->api->graph_launch(device, session->cuda_graph[phase]);
    }
    TRY(session_launches(session, phase, NULL));
    for (int32_t w = 0; w < session->n_watches; w++) { /* persistent values have no producer */
        int32_t id = session->watches[w].value;
        if (session->engine->offset[value_at(session->engine->graph, id)->root] >= 0)
            TRY(session_read(session, id, session->watches[w].copy));
    }
    return OK;
}

const void *session_output_at(Session *session, int32_t i)
{
    const Graph *graph = session->engine->graph;
    if (!session->read)
        return session->outputs[i];
    size_t bytes = (size_t)value_at(graph, graph->outputs[i].value)->bytes;
    Err    err = device_read(session->engine->device, session->read[i], session->outputs[i], bytes);
    return err ? NULL : session->read[i];
}

const void *session_output(Session *session, const char *name)
{
    const Graph *graph = session->engine->graph;
    for (int32_t i = 0; i < graph->n_outputs; i++)
        if (!strcmp(graph->outputs[i].name, name))
            return session_output_at(session, i);
    return NULL;
}

int64_t session_measured_bytes(const Session *session, Phase phase)
{
    return session->measured[phase];
}

int64_t session_measured_host_bytes(const Session *session) { return session->copies.measured; }

int64_t session_planned_bytes(const Session *session, Phase phase)
{
    return session->engine->phase_bytes[phase];
}

/* clang-format off */
const Arena  *session_arena(const Session *session)  { return session->arena; }
const Engine *session_engine(const Session *session) { return session->engine; }
/* clang-format on */
