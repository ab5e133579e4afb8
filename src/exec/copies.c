/* copies.c -- begun on the device's queues, joined where the plan waits. */
#include "exec/copies.h"

Err copies_mark(Copies *copies, void **mark)
{
    TRY(copies->device->queues->event_new(copies->device, mark));
    VEC_ADD(copies->pool, copies->marks, copies->n_marks, copies->cap_marks, *mark);
    return OK;
}

void copies_done(Copies *copies)
{
    for (int32_t i = 0; i < copies->n_marks; i++)
        copies->device->queues->event_free(copies->device, copies->marks[i]);
}

Err copies_begin(Copies *copies, const Copy *copy)
{
    if (copy->host_end > copies->measured)
        copies->measured = copy->host_end;
    return copies->device->queues->copy(copies->device, copy->way, copy->to, copy->from,
                                        copy->bytes, copy->mark);
}

Err copies_join(Copies *copies, const Copy *copy, int32_t from)
{
    return copy->begun < from ? OK : copies->device->queues->join(copies->device, copy->mark);
}
