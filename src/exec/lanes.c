/* lanes.c -- two lanes by list scheduling (Graham 1969) over the plan's own order. */
#include "exec/lanes.h"

/* Of an H200, roughly: only whether a branch pays is decided by them. */
static const double cross_ns = 1500;     /* an edge between lanes, more than one within a lane */
static const double least_ns = 4000;     /* a shorter launch is not worth two edges */
static const double most_ns = 100000;    /* a longer one fills the card */

enum { LOOK_BACK = 256 };                /* launches; older ones count as in the way */

static bool in_the_way(const LaneItem *a, const LaneItem *b)
{
    if (a->alone || b->alone)
        return true;
    for (int32_t i = 0; i < a->n_extents; i++)
        for (int32_t j = 0; j < b->n_extents; j++) {
            const Extent *x = &a->extents[i], *y = &b->extents[j];
            if ((x->written || y->written) && x->offset < y->offset + y->bytes &&
                y->offset < x->offset + x->bytes)
                return true;
        }
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

/* The lane whose last launch both i and the next wait for, if the next does not need i: then i goes
 * aside, and the next one is the way on. -1: there is none. */
static int32_t way_on(const Way *way, int32_t n, int32_t i)
{
    const LaneItem *items = way->items;
    if (items[i].ns < least_ns || i + 1 >= n || in_the_way(&items[i], &items[i + 1]))
        return -1;
    for (int32_t lane = 0; lane < 2; lane++)
        if (way->last[lane] >= 0 && in_the_way(&items[i], &items[way->last[lane]]) &&
            in_the_way(&items[i + 1], &items[way->last[lane]]))
            return lane;
    return -1;
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
    for (int32_t i = 0; i < n; i++) {
        int32_t block[2] = { way_block(&way, 1, i), way_block(&way, 0, i) };
        double  start[2] = { way_start(&way, 0, block[0]), way_start(&way, 1, block[1]) };
        int32_t lane = items[i].aside;
        if (!items[i].alone && !items[i].aside && items[i].ns <= most_ns) {
            int32_t on = way_on(&way, n, i);
            lane = start[1] + (items[i].ns > 0 ? cross_ns : 0) < start[0];
            if (on >= 0)
                lane = start[1 - on] <= start[on] + cross_ns ? 1 - on : on;
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

static bool extents_meet(const Extent *a, const Extent *b)
{
    int64_t from = a->offset > b->offset ? a->offset : b->offset;
    int64_t a_end = a->offset + a->bytes, b_end = b->offset + b->bytes;
    return from < (a_end < b_end ? a_end : b_end);
}

static bool must_follow(const LaneItem *later, const LaneItem *earlier)
{
    bool must = later->alone || earlier->alone;
    for (int32_t i = 0; i < later->n_extents; i++)
        for (int32_t j = 0; j < earlier->n_extents; j++)
            must |= extents_meet(&later->extents[i], &earlier->extents[j]) &&
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

Err lanes_behind(Lanes *lanes, int32_t launch, int32_t n)
{
    void *spot;
    TRY(lanes->device->api->record_place(lanes->device, lanes->pool, &spot));
    for (int32_t i = 0; i < n; i++)
        lanes->spots[launch + i] = spot;
    lanes->last[lanes->now] = launch + n - 1;
    return OK;
}

Err lanes_join(Lanes *lanes)
{
    return lanes_follow(lanes, lanes->last[0], lanes->last[1]);
}
