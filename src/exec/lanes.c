/* lanes.c -- lanes by list scheduling (Graham 1969) over the plan's own order. */
#include "exec/lanes.h"

/* Of an H200, roughly: only whether a branch pays is decided by them. */
static const double cross_ns = 1500;     /* an edge between lanes, more than one within a lane */
static const double behind_ns = 80000;   /* what goes aside may come so much later there */

enum {
    LOOK_BACK = 256,                     /* launches; older kernels count as in the way */
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

typedef struct Clock {                   /* the last launch of each lane that has ended, or -1 */
    int32_t of[LANES];
} Clock;

static const Clock clock_none = { { -1, -1, -1, -1 } };

typedef struct Way {                     /* while assigning */
    const LaneItem *items;
    double          free[LANES], *ends;  /* when each lane is free; when each launch ends */
    int32_t         last[LANES], *before;    /* of each lane; per launch: the one before it there */
    Clock           known[LANES];        /* what each lane comes after */
    Clock          *clocks;              /* per launch: when it has ended */
} Way;

typedef struct Start {                   /* of a launch, in one lane */
    LanePlace place;
    double    at;
} Start;

/* The last launch of `other` that is in the way of i and that `lane` does not come after yet, or
 * -1. Copies are few and far apart: each is looked at, or an old one would be waited for in
 * vain. */
static int32_t way_block(const Way *way, int32_t lane, int32_t other, int32_t i)
{
    for (int32_t j = way->last[other]; j > way->known[lane].of[other]; j = way->before[j])
        if ((other < LANE_COPIES && i - j > LOOK_BACK) ||
            in_the_way(&way->items[i], &way->items[j]))
            return j;
    return -1;
}

/* One that another of them comes after need not be waited for. */
static void edges_prune(const Way *way, int32_t after[LANES])
{
    for (int32_t a = 0; a < LANES; a++)
        for (int32_t b = 0; b < LANES && after[a] >= 0; b++)
            if (b != a && after[b] >= 0 && way->clocks[after[b]].of[a] >= after[a])
                after[a] = -1;
}

static Start way_start(const Way *way, int32_t lane, int32_t i)
{
    Start start = { .place.lane = lane, .at = way->free[lane] };
    for (int32_t other = 0; other < LANES; other++) {
        int32_t block = other == lane ? -1 : way_block(way, lane, other, i);
        start.place.after[other] = block;
        if (block >= 0 && way->ends[block] + cross_ns > start.at)
            start.at = way->ends[block] + cross_ns;
    }
    edges_prune(way, start.place.after);
    return start;
}

static void way_take(Way *way, int32_t i, const Start *start)
{
    const int32_t *after = start->place.after, lane = start->place.lane;
    Clock         *known = &way->known[lane];
    for (int32_t other = 0; other < LANES; other++)
        for (int32_t k = 0; k < LANES && after[other] >= 0; k++) {
            int32_t ended = way->clocks[after[other]].of[k];
            known->of[k] = ended > known->of[k] ? ended : known->of[k];
        }
    known->of[lane] = i;
    way->clocks[i] = *known;
    way->free[lane] = way->ends[i] = start->at + way->items[i].ns;
    way->before[i] = way->last[lane];
    way->last[lane] = i;
}

/* What follows each launch, itself included, one after the other: the longest way to the end. A
 * copy has no part in it: it is there in time, or no lane helps. */
static double *ways_left(Pool *pool, const LaneItem *items, int32_t n)
{
    double *left = NEWN(pool, double, n + 1);
    for (int32_t i = n - 1; i >= 0; i--) {
        if (items[i].lane >= LANE_COPIES)
            continue;
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

void lanes_assign(Pool *pool, const LaneItem *items, int32_t n, LanePlace *places)
{
    Pool *temp = pool_new(pool, "lanes");
    Way   way = { .items = items, .ends = NEWN(temp, double, n + 1),
                  .before = NEWN(temp, int32_t, n + 1), .clocks = NEWN(temp, Clock, n + 1) };
    const double *left = ways_left(temp, items, n);
    for (int32_t lane = 0; lane < LANES; lane++) {
        way.last[lane] = -1;
        way.known[lane] = clock_none;
    }
    for (int32_t i = 0; i < n; i++) {
        Start start = way_start(&way, items[i].lane, i);
        if (!items[i].lane) {
            Start aside = way_start(&way, LANE_ASIDE, i);
            bool  better = goes_aside(left, n, i) ? aside.at <= start.at + behind_ns
                                                  : aside.at + cross_ns < start.at;
            start = better ? aside : start;
        }
        places[i] = start.place;
        way_take(&way, i, &start);
    }
    pool_free(temp);
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

/* What has ended when launch i may start, by its own lane and what it waits for. */
static void judge_ended(const LanePlace *places, int32_t (*ended)[LANES], int32_t i, int32_t builtin)
{
    for (int32_t lane = 0; lane < LANES; lane++)
        ended[i][lane] = builtin >= 0 ? ended[builtin][lane] : -1;
    ended[i][places[i].lane] = builtin;
    for (int32_t other = 0; other < LANES; other++) {
        int32_t after = places[i].after[other];
        if (after < 0)
            continue;
        for (int32_t lane = 0; lane < LANES; lane++)
            if (ended[after][lane] > ended[i][lane])
                ended[i][lane] = ended[after][lane];
        if (after > ended[i][other])
            ended[i][other] = after;
    }
}

Err lanes_check(const LaneItem *items, int32_t n, const LanePlace *places)
{
    Pool    *pool = pool_new(NULL, "judge");
    int32_t (*ended)[LANES] = pool_alloc(pool, (size_t)n + 1, sizeof *ended);
    int32_t *previous = NEWN(pool, int32_t, n + 1), last[LANES] = { -1, -1, -1, -1 };
    Err      err = OK;
    for (int32_t i = 0; i < n && !err; i++) {
        int32_t lane = places[i].lane;
        bool    good = lane >= 0 && lane < LANES && (!items[i].lane || items[i].lane == lane) &&
                    (items[i].lane || lane <= LANE_ASIDE);
        for (int32_t other = 0; other < LANES && good; other++) {
            int32_t after = places[i].after[other];
            good = after < i && (after < 0 || (other != lane && places[after].lane == other));
        }
        if (!good) {
            err = fail(E_PLAN, "launch %d is given lane %d, or an edge that is none", i, lane);
            break;
        }
        judge_ended(places, ended, i, last[lane]);
        for (int32_t other = 0; other < LANES && !err; other++)
            for (int32_t j = last[other]; other != lane && j > ended[i][other] && !err;
                 j = previous[j])
                if (must_follow(&items[i], &items[j]))
                    err = fail(E_PLAN, "launch %d may run beside launch %d and touches its bytes",
                               i, j);
        previous[i] = last[lane];
        last[lane] = i;
    }
    pool_free(pool);
    return err;
}

/* --- in a CUDA graph --- */

Lanes lanes_begin(Pool *pool, const Device *device, const LanePlace *places, int32_t n)
{
    return (Lanes){ .device = device, .pool = pool, .places = places,
                    .spots = NEWN(pool, void *, n + 1), .last = { -1, -1, -1, -1 } };
}

/* own: the lane's last launch, or -1; after: of the others. */
static Err lanes_follow(Lanes *lanes, int32_t builtin, const int32_t after[LANES])
{
    void *spots[LANES + 1];
    int   n = 0;
    if (builtin >= 0)
        spots[n++] = lanes->spots[builtin];
    for (int32_t other = 0; other < LANES; other++)
        if (after[other] >= 0)
            spots[n++] = lanes->spots[after[other]];
    return lanes->device->api->capture_after(lanes->device, spots, n);
}

Err lanes_before(Lanes *lanes, int32_t launch)
{
    const LanePlace *place = &lanes->places[launch];
    bool             same = place->lane == lanes->now;
    for (int32_t other = 0; other < LANES; other++)
        same = same && place->after[other] < 0;
    if (same)
        return OK;
    lanes->now = place->lane;
    return lanes_follow(lanes, lanes->last[place->lane], place->after);
}

Err lanes_behind(Lanes *lanes, int32_t launch)
{
    lanes->last[lanes->now] = launch;
    return lanes->device->api->capture_point(lanes->device, lanes->pool, &lanes->spots[launch]);
}

Err lanes_join(Lanes *lanes)
{
    return lanes_follow(lanes, -1, lanes->last);
}
