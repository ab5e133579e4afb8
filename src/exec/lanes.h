/* lanes.h -- which launches of a recording run side by side.
 *
 * A plan's launches have one order. Where neither of two writes bytes that the other touches, their
 * order does not matter, and a card that one does not fill can run both: a weight's gradient beside
 * the data's, the drift of an equation beside its diffusion.
 *
 *   lane 0   dy ---> dx ---> next dy ---> next dx       within a lane the plan's order holds;
 *              \                    \                   `after` is an edge from the other lane
 *   lane 1      dw ----------------> next dw
 *
 * Bytes decide, not values: what moves into a place waits for the last reader of what lay there. So
 * the arena is the plan's, and every launch reads what it reads in one lane, to the bit.
 */
#ifndef EXEC_LANES_H
#define EXEC_LANES_H

#include "device/device.h"

typedef struct Extent {          /* bytes of the arena that a launch is handed */
    int64_t offset, bytes;
    bool    written;
} Extent;

/* Must one of two launches come after the other, by these bytes? */
static inline bool extents_meet(const Extent *a, const Extent *b)
{
    return (a->written || b->written) && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

typedef struct LaneItem {        /* a launch, or several that go in one */
    const Extent *extents;
    int32_t       n_extents;
    double        ns;            /* expected, alone; 0: it only begins or awaits a copy */
    bool          aside;         /* in lane 1 in any case: copies of what the host staged */
} LaneItem;

typedef struct LanePlace {
    int32_t lane;                /* 0 or 1 */
    int32_t after;               /* launch of the other lane that it waits for; -1: none, or one
                                  * that its lane waited for before */
} LanePlace;

/* Greedy, in the plan's order, each where it would start first. */
void lanes_assign(Pool *pool, const LaneItem *items, int32_t n, LanePlace *places);

/* Does every launch come after all earlier ones that touch what it touches? Shares no code with
 * lanes_assign. */
Err lanes_check(const LaneItem *items, int32_t n, const LanePlace *places);

/* Carries places out while a device records: call lanes_before and lanes_behind around each launch,
 * lanes_join at the end. */
typedef struct Lanes {
    const Device    *device;
    Pool            *pool;       /* lives as long as the recording is made */
    const LanePlace *places;
    void           **spots;      /* per launch: its place in the recording */
    int32_t          last[2];    /* launch of each lane, or -1 */
    int32_t          now;        /* lane */
} Lanes;

Lanes lanes_begin(Pool *pool, const Device *device, const LanePlace *places, int32_t n);
Err   lanes_before(Lanes *lanes, int32_t launch);
Err   lanes_behind(Lanes *lanes, int32_t launch);
Err   lanes_join(Lanes *lanes);

#endif
