/* lanes.h -- which launches of a CUDA graph run side by side, and copies beside them.
 *
 * A plan's launches have one order. Where neither of two writes bytes that the other touches, their
 * order does not matter, and a GPU that one does not fill can run both: a weight's gradient beside
 * the data's, the drift of an equation beside its diffusion.
 *
 *   lane 0      dy ---> dx ---> next dy ---> next dx    within a lane the plan's order holds;
 *                 \            /         \                `after` are edges from the others
 *   lane 1         dw ------- / ---------> next dw
 *                            /
 *   to device     load x ---                            copies wait for the bytes they touch and
 *   to host       save z                                for each other, not for a lane's launches
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

enum {
    LANE_ASIDE = 1,              /* beside lane 0: what is on no long way to the end */
    LANE_COPIES = 2,             /* and the next: one for each CopyWay */
    LANES = 4
};

typedef struct LaneItem {        /* a launch, several that go in one, or a copy */
    const Extent *extents;
    int32_t       n_extents;
    double        ns;            /* expected, alone */
    int32_t       lane;          /* in this one in any case; 0: in lane 0 or aside */
} LaneItem;

typedef struct LanePlace {
    int32_t lane;
    int32_t after[LANES];        /* launch of each other lane that it waits for; -1: none, or one
                                  * that its lane has waited for before */
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
    Pool            *pool;       /* lives as long as the CUDA graph is made */
    const LanePlace *places;
    void           **spots;      /* per launch: its place in the CUDA graph */
    int32_t          last[LANES];        /* launch of each lane, or -1 */
    int32_t          now;        /* lane */
} Lanes;

Lanes lanes_begin(Pool *pool, const Device *device, const LanePlace *places, int32_t n);
Err   lanes_before(Lanes *lanes, int32_t launch);
Err   lanes_behind(Lanes *lanes, int32_t launch);
Err   lanes_join(Lanes *lanes);

#endif
