/* lanes.c -- two lanes by list scheduling (Graham 1969) over the plan's own order. */
#include "exec/lanes.h"

/* Of an H200, roughly: only whether a branch pays is decided by them. */
static const double cross_ns = 1500;     /* an edge between lanes, more than one within a lane */
static const double behind_ns = 80000;   /* what goes aside may come so much later there */

enum {
    LOOK_BACK = 256,                     /* launches; older ones count as in the way */
    LOOK_AHEAD = 64,                     /* launches that one may stand in the way of */
};

static bool in_the_way(const LaneItem *a, const LaneItem *b)
{
    for (int32_t i = 0; i < a->n_extents; i++)
        for (int32_t j = 0; j < b->n_extents; j++)
            if (extents_meet(&a->extents[i], &b->extents[j]))
                return true;
    return false;
}

typedef struct Way {                     /* while assigning */
    const LaneItem *items;
    double          free[2], *ends;      /* when each lane is free; when each launch ends */
    int32_t         last[2], *before;    /* of each lane; per launch: the one before it there */
    int32_t         known[2];            /* per lane: the other's last launch that it comes after */
} Way;

/* The last launch of a lane that is in the way of i and that the other lane does not know;
 * or -1. */
static int32_t way_block(const Way *way, int32_t lane, int32_t i)
{
    for (int32_t j = way->last[lane]; j > way->known[1 - lane]; j = way->before[j])
        if (i - j > LOOK_BACK || in_the_way(&way->items[i], &way->items[j]))
            return j;
    return -1;
}

/* What follows each launch, itself included, one after the other: the longest way to the end. */
static double *ways_left(Pool *pool, const LaneItem *items, int32_t n)
{
    double *left = NEWN(pool, double, n + 1);
    for (int32_t i = n - 1; i >= 0; i--) {
        for (int32_t j = i + 1; j < n && j - i <= LOOK_BACK; j++)
            if (left[j] > left[i] && in_the_way(&items[i], &items[j]))
                left[i] = left[j];
        left[i] += items[i].ns;
    }
    return left;
}

/* Does a launch soon after i have a longer way to go? It does not need i, then, and i goes aside,
 * or it would stand in its way. */
static bool goes_aside(const double *left, int32_t n, int32_t i)
{
    for (int32_t j = i + 1; j < n && j - i <= LOOK_AHEAD; j++)
        if (left[j] > left[i])
            return true;
    return false;
}

static double way_start(const Way *way, int32_t lane, int32_t block)
{
    double ready = block < 0 ? 0 : way->ends[block] + cross_ns;
    return ready > way->free[lane] ? ready : way->free[lane];
}

void lanes_assign(Pool *pool, const LaneItem *items, int32_t n, LanePlace *places)
{
    Pool *scratch = pool_new(pool, "lanes");
    Way   way = { .items = items, .ends = NEWN(scratch, double, n + 1), .last = { -1, -1 },
                  .before = NEWN(scratch, int32_t, n + 1), .known = { -1, -1 } };
    const double *left = ways_left(scratch, items, n);
    for (int32_t i = 0; i < n; i++) {
        int32_t block[2] = { way_block(&way, 1, i), way_block(&way, 0, i) };
        double  start[2] = { way_start(&way, 0, block[0]), way_start(&way, 1, block[1]) };
        int32_t lane = items[i].aside;
        if (!items[i].aside) {
            lane = start[1] + (items[i].ns > 0 ? cross_ns : 0) < start[0];
            if (goes_aside(left, n, i))
                lane = start[1] <= start[0] + behind_ns;
        }
        places[i] = (LanePlace){ lane, block[lane] };
        if (block[lane] >= 0)
            way.known[lane] = block[lane];
        way.free[lane] = way.ends[i] = start[lane] + items[i].ns;
        way.before[i] = way.last[lane];
        way.last[lane] = i;
    }
    pool_free(scratch);
}

/* --- the judge --- */

static bool extents_cross(const Extent *a, const Extent *b)
{
    int64_t from = a->offset > b->offset ? a->offset : b->offset;
    int64_t a_end = a->offset + a->bytes, b_end = b->offset + b->bytes;
    return from < (a_end < b_end ? a_end : b_end);
}

static bool must_follow(const LaneItem *later, const LaneItem *earlier)
{
    bool must = false;
    for (int32_t i = 0; i < later->n_extents; i++)
        for (int32_t j = 0; j < earlier->n_extents; j++)
            must |= extents_cross(&later->extents[i], &earlier->extents[j]) &&
                    (later->extents[i].written || earlier->extents[j].written);
    return must;
}

Err lanes_check(const LaneItem *items, int32_t n, const LanePlace *places)
{
    int32_t ended[2] = { -1, -1 };       /* per lane: what of the other has ended when it goes on */
    for (int32_t i = 0; i < n; i++) {
        int32_t lane = places[i].lane, after = places[i].after;
        if (lane < 0 || lane > 1 || after >= i || (after >= 0 && places[after].lane == lane))
            return fail(E_PLAN, "launch %d is given lane %d after launch %d", i, lane, after);
        if (after > ended[lane])
            ended[lane] = after;
        for (int32_t j = ended[lane] + 1; j < i; j++)
            if (places[j].lane != lane && must_follow(&items[i], &items[j]))
                return fail(E_PLAN, "launch %d may run beside launch %d and touches its bytes", i,
                            j);
    }
    return OK;
}

/* --- in a recording --- */

Lanes lanes_begin(Pool *pool, const Device *device, const LanePlace *places, int32_t n)
{
    return (Lanes){ .device = device, .pool = pool, .places = places,
                    .spots = NEWN(pool, void *, n + 1), .last = { -1, -1 } };
}

static Err lanes_follow(Lanes *lanes, int32_t a, int32_t b)
{
    void *spots[2];
    int   n = 0;
    if (a >= 0)
        spots[n++] = lanes->spots[a];
    if (b >= 0)
        spots[n++] = lanes->spots[b];
    return lanes->device->api->record_after(lanes->device, spots, n);
}

Err lanes_before(Lanes *lanes, int32_t launch)
{
    LanePlace place = lanes->places[launch];
    if (place.lane == lanes->now && place.after < 0)
        return OK;
    lanes->now = place.lane;
    return lanes_follow(lanes, lanes->last[place.lane], place.after);
}

Err lanes_behind(Lanes *lanes, int32_t launch)
{
    lanes->last[lanes->now] = launch;
    return lanes->device->api->record_place(lanes->device, lanes->pool, &lanes->spots[launch]);
}

Err lanes_join(Lanes *lanes)
{
    return lanes_follow(lanes, lanes->last[0], lanes->last[1]);
}
