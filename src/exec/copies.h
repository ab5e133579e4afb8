/* copies.h -- the steps of a plan that move a value between the arena and its place on the host.
 *
 * A copy is begun at its save or load and joined at its wait. What is pending where a part ends is
 * joined there, because a CUDA graph must hold both; its wait, in the next part, then has nothing to
 * do. */
#ifndef EXEC_COPIES_H
#define EXEC_COPIES_H

#include "exec/lanes.h"

#define HOST_OFFSET ((int64_t)1 << 61)       /* beyond every arena */

typedef struct Copy {
    CopyWay     way;
    void       *to;
    const void *from;
    size_t      bytes;
    void       *mark;
    int32_t     begun, joined;       /* launches */
    int64_t     host_end;            /* highest byte of the host arena that it touches */
    Extent      touches[2];          /* in the arena; on the host, counted from HOST_OFFSET */
} Copy;

typedef struct Copies {              /* of one session */
    Pool         *pool;
    const Device *device;
    void        **marks;  /* per value that is ever copied: at most one copy of it is pending */
    int32_t       n_marks, cap_marks;
    int64_t       measured;          /* highest end on the host of any copy that was begun */
} Copies;

Err  copies_mark(Copies *copies, void **mark);               /* freed by copies_done */
void copies_done(Copies *copies);
Err  copies_begin(Copies *copies, const Copy *copy);
/* from: the part's first launch; what was begun before it has been joined there. */
Err  copies_join(Copies *copies, const Copy *copy, int32_t from);

#endif
