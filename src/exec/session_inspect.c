/* session_inspect.c -- a part run for the sake of looking: the time of each node, the first number
 * that is not finite. */
#include "exec/session_int.h"

#include "base/clock.h"
#include "device/convert.h"

#include <math.h>

/* Launches that went in one share its time by the bytes they write. */
static void session_share(const Launch *launches, int32_t n, double all, double *ns)
{
    double bytes = 0;
    for (int32_t i = 0; i < n; i++)
        bytes += out_bytes(launches[i].call.node, 0) + 1;
    for (int32_t i = 0; i < n; i++)
        ns[launches[i].call.node->id] = all * (out_bytes(launches[i].call.node, 0) + 1) / bytes;
}

/* By the device's own clock: a event before every launch, in a CUDA graph of one lane, as the step
 * itself runs. took: from each launch's event to the next, less what two events in a row take,
 * which is the clock's own; of launches that go in one, the first's. */
static Err session_stamped(Session *session, Phase phase, void **events, double *took)
{
    const Device    *device = session->engine->device;
    const DeviceApi *api = device->api;
    void            *cuda_graph = NULL;
    int32_t          from = session->from[phase], to = session->to[phase], at = 0, n;
    double           builtin, all;
    TRY(api->capture_begin(device));
    Err err = api->event(device, events[at++]);
    for (int32_t i = from; i < to && !err; i += n) {
        Launch *launch = &session->launches[phase][i];
        n = session_together(session, phase, i);
        err = api->event(device, events[at++]);
        if (!err)
            err = launch->copy ? session_move(session, phase, launch)
                  : n > 1      ? launch->run_all(&session->calls[phase][i], n)
                               : launch->run(&launch->call);
    }
    err = err ? err : api->event(device, events[at]);
    err = err ? err : session_settle(session, phase);
    Err ended = api->capture_end(device, &cuda_graph);
    if (!err && !ended) {
        err = api->graph_launch(device, cuda_graph);
        err = err ? err : device_wait(device);
    }
    if (cuda_graph)
        api->graph_free(device, cuda_graph);
    TRY(err ? err : ended);
    TRY(api->event_ns(device, events[0], events[1], &builtin));
    at = 1;
    for (int32_t i = from; i < to; i += n, at++) {
        n = session_together(session, phase, i);
        TRY(api->event_ns(device, events[at], events[at + 1], &all));
        took[i - from] = fmax(100, all - builtin);
    }
    return OK;
}

static Err session_took(Session *session, Phase phase, Pool *pool, double *took)
{
    const Device *device = session->engine->device;
    int32_t       n = session->to[phase] - session->from[phase] + 2, made = 0;
    void        **events = NEWN(pool, void *, n);
    Err           err = OK;
    for (; made < n && !err; made++)
        err = device->api->event_new(device, &events[made]);
    err = err ? err : session_stamped(session, phase, events, took);
    for (int32_t i = 0; i < made; i++)
        device->api->event_free(device, events[i]);
    return err;
}

static Err session_profile_captured(Session *session, Phase phase, double *ns)
{
    Pool   *pool = pool_new(session->pool, "stamps");
    int32_t from = session->from[phase], to = session->to[phase], n;
    double *took = NEWN(pool, double, to - from + 1);
    Err     err = session_took(session, phase, pool, took);
    for (int32_t i = from; i < to && !err; i += n) {
        const Launch *launch = &session->launches[phase][i];
        n = session_together(session, phase, i);
        if (!launch->copy)
            session_share(launch, n, took[i - from], ns);
    }
    pool_free(pool);
    return err;
}

Err session_waits(Session *session, Phase phase, double *ns)
{
    const DeviceApi *api = session->engine->device->api;
    Pool            *pool = pool_new(session->pool, "stamps");
    int32_t          from = session->from[phase], to = session->to[phase];
    double          *took = NEWN(pool, double, to - from + 1);
    Err              err = OK;
    *ns = 0;
    if (api && api->event && from < to) {
        err = session_give(session, phase);
        err = err ? err : device_wait(session->engine->device);
        err = err ? err : session_took(session, phase, pool, took);
    }
    for (int32_t i = from; i < to; i++)
        *ns += session->launches[phase][i].joins ? took[i - from] : 0;
    pool_free(pool);
    return err;
}

Err session_profile(Session *session, Phase phase, double *ns)
{
    const Device *device = session->engine->device;
    TRY(session_give(session, phase));
    TRY(device_wait(device));
    if (device->api && device->api->event && session->from[phase] < session->to[phase])
        return session_profile_captured(session, phase, ns);
    for (int32_t i = session->from[phase], n; i < session->to[phase]; i += n) {
        Launch *launch = &session->launches[phase][i];
        n = session_together(session, phase, i);
        if (launch->copy) {
            TRY(session_move(session, phase, launch));
            continue;
        }
        double start = clock_now();
        TRY(n > 1 ? launch->run_all(&session->calls[phase][i], n) : launch->run(&launch->call));
        TRY(device_wait(device));
        session_share(launch, n, (clock_now() - start) * 1e9, ns);
    }
    return session_settle(session, phase);
}

const char *session_first_bad(Session *session, Phase phase)
{
    const Graph *graph = session->engine->graph;
    Pool        *pool = pool_new(session->pool, "looking");
    const char  *found = NULL;
    Err          given = session_give(session, phase);
    for (int32_t i = session->from[phase]; i < session->to[phase] && !found && !given; i++) {
        Launch     *launch = &session->launches[phase][i];
        const Node *node = launch->call.node;
        if (launch->copy) {
            if (session_move(session, phase, launch))
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
