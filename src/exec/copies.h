/* copies.h -- the steps of a plan that copy a value between the arena and the host arena, or load it
 * from the ranks of a run.
 *
 * A copy begins at its `save` or `load` and is joined at its `wait`. Copies that are still pending
 * at the end of a phase are joined there, because a CUDA graph must contain both ends. A `wait` in
 * a later phase then does nothing. */
#ifndef EXEC_COPIES_H
#define EXEC_COPIES_H

#include "exec/lanes.h"

#define HOST_OFFSET ((int64_t)1 << 61) /* beyond every arena */

/* A load of a value that ranks keep in parts: a transfer between them. */
typedef struct Gather {
    int                  slot;
    struct CommTransfer *transfer;
} Gather;

typedef struct Copy {
    Gather       *gather; /* NULL: between the arena and the host arena */
    CopyDirection way;
    void         *to;
    const void   *from;
    size_t        bytes;
    void         *event;         /* set when the copy has finished */
    int32_t       begun, joined; /* indices of launches */
    int64_t       host_end;      /* end of its bytes in the host arena */
    /* in the arena; in the host arena, from HOST_OFFSET on, or of a gathered value its own shard */
    Extent        touches[2];
} Copy;

typedef struct Copies { /* of one session */
    Pool         *pool;
    const Device *device;
    void        **events; /* one per copied value: at most one copy of it is pending */
    int32_t       n_events, cap_events;
    int64_t       measured; /* largest host_end of all copies begun */
} Copies;

Err  copies_new_event(Copies *copies, void **event); /* freed by copies_done */
void copies_done(Copies *copies);
Err  copies_begin(Copies *copies, const Copy *copy);
/* from: the first launch of the phase; copies begun before it were joined at the end of theirs. */
Err  copies_join(Copies *copies, const Copy *copy, int32_t from);

#endif
