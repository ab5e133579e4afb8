/* branches.h -- which launches of a recording run side by side.
 *
 * A plan is a list, and every buffer in it is placed for that order. Small launches leave most of a
 * card idle, so the gradients of parameters, for which nothing soon waits, are put on queues of
 * their own beside what follows them. What holds the list's results: of two launches that touch the
 * same bytes, one of them writing, the later waits for the earlier. No plan, placement or workspace
 * knows of this, and every kernel sees the bytes that it would see one after the other.
 */
#ifndef EXEC_BRANCHES_H
#define EXEC_BRANCHES_H

#include "device/device.h"
#include "ir/op.h"

typedef struct Touched {         /* bytes of the arena that a launch was handed */
    int64_t offset, bytes;
    bool    written;
} Touched;

typedef struct Branch {          /* one launch */
    const Touched *touched;
    int32_t        n_touched;
    Beside         beside;
    bool           alone;        /* comes after all before it, and all after it comes later */
    /* filled in: */
    int            queue;
    int32_t        after[DEVICE_QUEUES];     /* launches that it waits for, or -1 */
    bool           awaited;                  /* a launch of another queue waits for it */
} Branch;

bool branches_plan(Branch *branches, int32_t n);     /* false: all on one queue */

/* While they are recorded. *out is NULL, and every call does nothing, where there is one queue. */
typedef struct Branches Branches;
Err branches_new(Pool *pool, const Device *device, Branch *branches, int32_t n, Branches **out);
Err branches_before(Branches *b, int32_t launch);
Err branches_after(Branches *b, int32_t launch);
Err branches_join(Branches *b);              /* from here on there is one queue again */

#endif
