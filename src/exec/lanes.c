/* lanes.c -- lanes by list scheduling (Graham 1969) in the plan's order. */
#include "exec/lanes.h"

/* Rough times of an H200. They only decide whether a second lane pays. */
static const double cross_ns = 1500;   /* cost of an edge between lanes, beyond one within a lane */
static const double behind_ns = 80000; /* a launch may start this much later in LANE_ASIDE */

enum {
    LOOK_BACK = 256, /* launches; older kernels count as conflicting */
    LOOK_AHEAD = 64, /* later launches that one launch may delay */
};

static bool items_conflict(const LaneItem *a, const LaneItem *b)
{
    for (int32_t i = 0; i < a->n_extents; i++)
        for (int32_t j = 0; j < b->n_extents; j++)
            if (extents_meet(&a->extents[i], &b->extents[j]))
                return true;
    return false;
}

typedef struct LaneClock { /* per lane: its last launch that has finished, or -1 */
    int32_t of[LANES];
} LaneClock;

static const LaneClock clock_none = { { -1, -1, -1, -1 } };

typedef struct LaneSchedule { /* while assigning */
    const LaneItem *items;
    double          free[LANES];  /* time when each lane becomes free */
    double         *ends;         /* per launch: time when it ends */
    int32_t         last[LANES];  /* the last launch of each lane */
    int32_t        *before;       /* per launch: the previous launch of its lane */
    LaneClock       known[LANES]; /* what each lane has already waited for */
    LaneClock      *clocks;       /* per launch: what has finished when it ends */
} LaneSchedule;

typedef struct LaneStart { /* of a launch, in one lane */
    LanePlace place;
    double    at;
} LaneStart;

/* The last launch of `other` that conflicts with i and that `lane` has not waited for yet, or -1.
 * All copies are examined: they are few and far apart, and an edge to an old one would be a
 * needless wait. */
static int32_t schedule_conflict(const LaneSchedule *schedule, int32_t lane, int32_t other,
                                 int32_t i)
{
    for (int32_t j = schedule->last[other]; j > schedule->known[lane].of[other];
         j = schedule->before[j])
        if ((other < LANE_COPIES && i - j > LOOK_BACK) ||
            items_conflict(&schedule->items[i], &schedule->items[j]))
            return j;
    return -1;
}

/* Removes the edges that follow from the others. */
static void edges_prune(const LaneSchedule *schedule, int32_t after[LANES])
{
    for (int32_t a = 0; a < LANES; a++)
        for (int32_t b = 0; b < LANES && after[a] >= 0; b++)
            if (b != a && after[b] >= 0 && schedule->clocks[after[b]].of[a] >= after[a])
                after[a] = -1;
}

static LaneStart schedule_start(const LaneSchedule *schedule, int32_t lane, int32_t i)
{
    LaneStart start = { .place.lane = lane, .at = schedule->free[lane] };
    for (int32_t other = 0; other < LANES; other++) {
        int32_t conflict = other == lane ? -1 : schedule_conflict(schedule, lane, other, i);
        start.place.after[other] = conflict;
        if (conflict >= 0 && schedule->ends[conflict] + cross_ns > start.at)
            start.at = schedule->ends[conflict] + cross_ns;
    }
    edges_prune(schedule, start.place.after);
    return start;
}

static void schedule_add(LaneSchedule *schedule, int32_t i, const LaneStart *start)
{
    const int32_t *after = start->place.after, lane = start->place.lane;
    LaneClock     *known = &schedule->known[lane];
    for (int32_t other = 0; other < LANES; other++)
        for (int32_t k = 0; k < LANES && after[other] >= 0; k++) {
            int32_t ended = schedule->clocks[after[other]].of[k];
            known->of[k] = ended > known->of[k] ? ended : known->of[k];
        }
    known->of[lane] = i;
    schedule->clocks[i] = *known;
    schedule->free[lane] = schedule->ends[i] = start->at + schedule->items[i].ns;
    schedule->before[i] = schedule->last[lane];
    schedule->last[lane] = i;
}

/* Per launch: the longest path from its start to the end of the phase. Copies are left out: they
 * either arrive in time or no choice of lane helps. */
static double *paths_left(Pool *pool, const LaneItem *items, int32_t n)
{
    double *left = NEWN(pool, double, n + 1);
    for (int32_t i = n - 1; i >= 0; i--) {
        if (items[i].lane >= LANE_COPIES)
            continue;
        for (int32_t j = i + 1; j < n && j - i <= LOOK_BACK; j++)
            if (left[j] > left[i] && items_conflict(&items[i], &items[j]))
                left[i] = left[j];
        left[i] += items[i].ns;
    }
    return left;
}

/* True if a launch soon after i has a longer path left. That launch does not depend on i, and i
 * would delay it in lane 0. */
static bool goes_aside(const double *left, int32_t n, int32_t i)
{
    for (int32_t j = i + 1; j < n && j - i <= LOOK_AHEAD; j++)
        if (left[j] > left[i])
            return true;
    return false;
}

void lanes_assign(Pool *pool, const LaneItem *items, int32_t n, LanePlace *places)
{
    Pool         *work = pool_new(pool, "lanes");
    LaneSchedule  schedule = { .items = items,
                               .ends = NEWN(work, double, n + 1),
                               .before = NEWN(work, int32_t, n + 1),
                               .clocks = NEWN(work, LaneClock, n + 1) };
    const double *left = paths_left(work, items, n);
    for (int32_t lane = 0; lane < LANES; lane++) {
        schedule.last[lane] = -1;
        schedule.known[lane] = clock_none;
    }
    for (int32_t i = 0; i < n; i++) {
        LaneStart start = schedule_start(&schedule, items[i].lane, i);
        if (!items[i].lane) {
            LaneStart aside = schedule_start(&schedule, LANE_ASIDE, i);
            bool      better = goes_aside(left, n, i) ? aside.at <= start.at + behind_ns
                                                      : aside.at + cross_ns < start.at;
            start = better ? aside : start;
        }
        places[i] = start.place;
        schedule_add(&schedule, i, &start);
    }
    pool_free(work);
}

/* --- the checker --- */

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

/* Sets ended[i]: what has finished when launch i may start, given the previous launch of its lane
 * (or -1) and its edges. */
static void check_ended(const LanePlace *places, int32_t (*ended)[LANES], int32_t i,
                        int32_t previous)
{
    for (int32_t lane = 0; lane < LANES; lane++)
        ended[i][lane] = previous >= 0 ? ended[previous][lane] : -1;
    ended[i][places[i].lane] = previous;
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
    Pool *pool = pool_new(NULL, "lanes check");
    int32_t(*ended)[LANES] = pool_alloc(pool, (size_t)n + 1, sizeof *ended);
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
            err = fail(E_PLAN, "launch %d has an invalid lane (%d) or an invalid edge", i, lane);
            break;
        }
        check_ended(places, ended, i, last[lane]);
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

LaneCapture lane_capture_begin(Pool *pool, const Device *device, const LanePlace *places, int32_t n)
{
    return (LaneCapture){ .device = device,
                          .pool = pool,
                          .places = places,
                          .points = NEWN(pool, void *, n + 1),
                          .last = { -1, -1, -1, -1 } };
}

/* What is captured next follows `previous`, the last launch of its lane (or -1), and `after`, those
 * of the other lanes. */
static Err lane_capture_follow(LaneCapture *capture, int32_t previous, const int32_t after[LANES])
{
    void *points[LANES + 1];
    int   n = 0;
    if (previous >= 0)
        points[n++] = capture->points[previous];
    for (int32_t other = 0; other < LANES; other++)
        if (after[other] >= 0)
            points[n++] = capture->points[after[other]];
    return capture->device->api->capture_after(capture->device, points, n);
}

Err lane_capture_before(LaneCapture *capture, int32_t launch)
{
    const LanePlace *place = &capture->places[launch];
    bool             same = place->lane == capture->lane;
    for (int32_t other = 0; other < LANES; other++)
        same = same && place->after[other] < 0;
    if (same)
        return OK;
    capture->lane = place->lane;
    return lane_capture_follow(capture, capture->last[place->lane], place->after);
}

Err lane_capture_after(LaneCapture *capture, int32_t launch)
{
    capture->last[capture->lane] = launch;
    return capture->device->api->capture_point(capture->device, capture->pool,
                                               &capture->points[launch]);
}

Err lane_capture_join(LaneCapture *capture)
{
    return lane_capture_follow(capture, -1, capture->last);
}
