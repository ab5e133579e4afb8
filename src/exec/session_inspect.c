/* session_inspect.c -- runs a phase to examine it: the time of each node, the first tensor that is
 * not finite. */
#include "exec/session_int.h"

#include "base/clock.h"
#include "comm/comm.h"
#include "device/convert.h"

#include <math.h>

/* Divides the time of a group of launches among them by the bytes they write. */
static void session_divide_time(const Launch *launches, int32_t n, double all, double *ns)
{
    double bytes = 0;
    for (int32_t i = 0; i < n; i++)
        bytes += out_bytes(launches[i].call.node, 0) + 1;
    for (int32_t i = 0; i < n; i++)
        ns[launches[i].call.node->id] = all * (out_bytes(launches[i].call.node, 0) + 1) / bytes;
}

/* Measures by the device's clock: a CUDA graph with one lane and an event before every launch.
 * took: per launch the time from its event to the next, less the overhead, which is the time
 * between two events in a row. A group of launches has its time at its first. */
static Err session_run_timed(Session *session, Phase phase, void **events, double *took)
{
    const Device    *device = session->engine->device;
    const DeviceApi *api = device->api;
    void            *cuda_graph = NULL;
    int32_t          from = session->from[phase], to = session->to[phase], at = 0, n;
    double           overhead, all;
    TRY(api->capture_begin(device));
    Err err = api->event(device, events[at++]);
    for (int32_t i = from; i < to && !err; i += n) {
        Launch *launch = &session->launches[phase][i];
        n = session_group(session, phase, i);
        err = api->event(device, events[at++]);
        if (!err)
            err = launch->copy ? session_copy_step(session, phase, launch)
                  : n > 1      ? launch->run_all(&session->calls[phase][i], n)
                               : launch->run(&launch->call);
    }
    err = err ? err : api->event(device, events[at]);
    err = err ? err : session_join_pending(session, phase);
    Err ended = api->capture_end(device, &cuda_graph);
    if (!err && !ended) {
        err = api->graph_launch(device, cuda_graph);
        err = err ? err : device_wait(device);
    }
    if (cuda_graph)
        api->graph_free(device, cuda_graph);
    TRY(err ? err : ended);
    TRY(api->event_ns(device, events[0], events[1], &overhead));
    at = 1;
    for (int32_t i = from; i < to; i += n, at++) {
        n = session_group(session, phase, i);
        TRY(api->event_ns(device, events[at], events[at + 1], &all));
        took[i - from] = fmax(100, all - overhead);
    }
    return OK;
}

static Err session_time_launches(Session *session, Phase phase, Pool *pool, double *took)
{
    const Device *device = session->engine->device;
    int32_t       n = session->to[phase] - session->from[phase] + 2, made = 0;
    void        **events = NEWN(pool, void *, n);
    Err           err = OK;
    for (; made < n && !err; made++)
        err = device->api->event_new(device, &events[made]);
    err = err ? err : session_run_timed(session, phase, events, took);
    for (int32_t i = 0; i < made; i++)
        device->api->event_free(device, events[i]);
    return err;
}

static Err session_profile_captured(Session *session, Phase phase, double *ns)
{
    Pool   *pool = pool_new(session->pool, "events");
    int32_t from = session->from[phase], to = session->to[phase], n;
    double *took = NEWN(pool, double, to - from + 1);
    Err     err = session_time_launches(session, phase, pool, took);
    for (int32_t i = from; i < to && !err; i += n) {
        const Launch *launch = &session->launches[phase][i];
        n = session_group(session, phase, i);
        if (!launch->copy)
            session_divide_time(launch, n, took[i - from], ns);
    }
    pool_free(pool);
    return err;
}

Err session_copy_wait_ns(Session *session, Phase phase, double *ns)
{
    const DeviceApi *api = session->engine->device->api;
    Pool            *pool = pool_new(session->pool, "events");
    int32_t          from = session->from[phase], to = session->to[phase];
    double          *took = NEWN(pool, double, to - from + 1);
    Err              err = OK;
    *ns = 0;
    if (api && api->event && from < to) {
        err = session_stage_feeds(session, phase);
        err = err ? err : device_wait(session->engine->device);
        err = err ? err : session_time_launches(session, phase, pool, took);
    }
    for (int32_t i = from; i < to; i++)
        *ns += session->launches[phase][i].joins ? took[i - from] : 0;
    pool_free(pool);
    return err;
}

Err session_profile(Session *session, Phase phase, double *ns)
{
    const Device *device = session->engine->device;
    TRY(session_stage_feeds(session, phase));
    TRY(device_wait(device));
    if (device->api && device->api->event && session->from[phase] < session->to[phase])
        return session_profile_captured(session, phase, ns);
    for (int32_t i = session->from[phase], n; i < session->to[phase]; i += n) {
        Launch *launch = &session->launches[phase][i];
        n = session_group(session, phase, i);
        if (launch->copy) {
            TRY(session_copy_step(session, phase, launch));
            continue;
        }
        double start = clock_now();
        TRY(n > 1 ? launch->run_all(&session->calls[phase][i], n) : launch->run(&launch->call));
        TRY(device_wait(device));
        session_divide_time(launch, n, (clock_now() - start) * 1e9, ns);
    }
    return session_join_pending(session, phase);
}

const char *session_first_nonfinite(Session *session, Phase phase, int32_t *place)
{
    const Graph *graph = session->engine->graph;
    Pool        *pool = pool_new(session->pool, "inspect");
    const char  *found = NULL;
    *place = INT32_MAX;
    bool goes_on = session->device->comm != NULL; /* other ranks wait for its transfers */
    Err  given = session_stage_feeds(session, phase);
    for (int32_t i = session->from[phase]; i < session->to[phase] && !given; i++) {
        if (found && !goes_on)
            break;
        Launch     *launch = &session->launches[phase][i];
        const Node *node = launch->call.node;
        if (launch->copy) {
            if (session_copy_step(session, phase, launch))
                break;
            continue;
        }
        if (launch->run(&launch->call))
            break;
        if (session->device->comm && comm_poll(session->device->comm))
            break;
        for (int j = 0; j < node->n_out && !found; j++) {
            if (node->out[j] < 0 || !type_is_float(out_type(node, j)))
                continue;
            int64_t count = shape_count(out_shape(node, j)),
                    bytes = count * type_bytes(out_type(node, j));
            const void *data = launch->call.out[j];
            float       buffer[1];
            if (session->host_buffer) {
                void *copy = pool_alloc(pool, (size_t)bytes, 1);
                if (device_read(session->engine->device, copy, data, (size_t)bytes))
                    break;
                data = copy;
            }
            for (int64_t e = 0; e < count && !found; e++)
                if (!isfinite(*row_load(out_type(node, j), data, e, 1, buffer)))
                    found = value_text(graph, node->out[j]);
            *place = found && i < *place ? i : *place;
        }
        if (session->host_buffer) {
            pool_free(pool);
            pool = pool_new(session->pool, "inspect");
        }
    }
    pool_free(pool);
    return found;
}
