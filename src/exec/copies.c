/* copies.c -- copies begin on the device's copy queues and are joined where the plan waits. */
#include "exec/copies.h"

Err copies_new_event(Copies *copies, void **event)
{
    TRY(copies->device->queues->event_new(copies->device, event));
    VEC_ADD(copies->pool, copies->events, copies->n_events, copies->cap_events, *event);
    return OK;
}

void copies_done(Copies *copies)
{
    for (int32_t i = 0; i < copies->n_events; i++)
        copies->device->queues->event_free(copies->device, copies->events[i]);
}

Err copies_begin(Copies *copies, const Copy *copy)
{
    if (copy->host_end > copies->measured)
        copies->measured = copy->host_end;
    return copies->device->queues->copy(copies->device, copy->way, copy->to, copy->from,
                                        copy->bytes, copy->event);
}

Err copies_join(Copies *copies, const Copy *copy, int32_t from)
{
    return copy->begun < from ? OK : copies->device->queues->join(copies->device, copy->event);
}
