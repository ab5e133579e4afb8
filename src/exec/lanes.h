/* lanes.h -- which launches of a CUDA graph may run concurrently, and which copies beside them.
 *
 * A plan orders its launches. Two of them may run concurrently if neither writes bytes that the
 * other touches. That helps where one kernel does not fill the GPU: a weight gradient beside the
 * data gradient, the drift of an equation beside its diffusion.
 *
 *   lane 0      dy ---> dx ---> next dy ---> next dx    a lane keeps the plan's order;
 *                 \            /         \                `after` holds the edges between lanes
 *   lane 1         dw ------- / ---------> next dw
 *                            /
 *   to device     load x ---                            copies wait for the bytes they touch and
 *   to host       save z                                for each other, not for a lane's launches
 *
 * Bytes decide, not values: whatever is written to a place waits for the last reader of what lay
 * there. So the arena stays as planned, and every launch reads the same bits as in a single lane.
 */
#ifndef EXEC_LANES_H
#define EXEC_LANES_H

#include "device/device.h"

typedef struct Extent { /* bytes of the arena that a launch is given */
    int64_t offset, bytes;
    bool    written;
} Extent;

/* Do these bytes force an order on two launches? */
static inline bool extents_meet(const Extent *a, const Extent *b)
{
    return (a->written || b->written) && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

enum {
    LANE_ASIDE = 1,  /* beside lane 0: launches off the critical path */
    LANE_COPIES = 2, /* and 3: one lane for each CopyDirection */
    LANES = 4
};

typedef struct LaneItem { /* a launch, a group of launches that run as one, or a copy */
    const Extent *extents;
    int32_t       n_extents;
    double        ns;   /* expected time when it runs alone */
    int32_t       lane; /* required lane; 0: lane 0 or LANE_ASIDE, as the schedule decides */
} LaneItem;

typedef struct LanePlace {
    int32_t lane;
    int32_t after[LANES]; /* per other lane: the launch to wait for; -1: none, or this lane
                                  * has waited for it already */
} LanePlace;

/* Greedy, in the plan's order: each item goes to the lane where it can start first. */
void lanes_assign(Pool *pool, const LaneItem *items, int32_t n, LanePlace *places);

/* Checks that every launch comes after all earlier ones that touch its bytes. Shares no code with
 * lanes_assign. */
Err lanes_check(const LaneItem *items, int32_t n, const LanePlace *places);

/* Puts the places into effect while a device captures: call lane_capture_before and
 * lane_capture_after around each launch, and lane_capture_join at the end. */
typedef struct LaneCapture {
    const Device    *device;
    Pool            *pool; /* lives until the capture ends */
    const LanePlace *places;
    void           **points;      /* per launch: its point in the CUDA graph */
    int32_t          last[LANES]; /* launch of each lane, or -1 */
    int32_t          lane;        /* current lane */
} LaneCapture;

LaneCapture lane_capture_begin(Pool *pool, const Device *device, const LanePlace *places,
                               int32_t n);
Err         lane_capture_before(LaneCapture *capture, int32_t launch);
Err         lane_capture_after(LaneCapture *capture, int32_t launch);
Err         lane_capture_join(LaneCapture *capture);

#endif
