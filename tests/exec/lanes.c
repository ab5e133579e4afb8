/* lanes.c -- concurrent launches: they wait where they must and only there, and the checker refuses
 * wrong places. */
#include "exec/lanes.h"

#include "test.h"

enum { MAX_ITEMS = 400, EACH = 4 };

typedef struct LaneCase {
    Pool     *pool;
    LaneItem  items[MAX_ITEMS];
    Extent    extents[MAX_ITEMS][EACH];
    LanePlace places[MAX_ITEMS];
    int32_t   n;
} LaneCase;

static LaneCase *case_new(void)
{
    Pool     *pool = pool_new(NULL, "lanes");
    LaneCase *c = NEW(pool, LaneCase);
    c->pool = pool;
    return c;
}

/* A launch of 20 us that reads two places of 100 bytes and writes one; -1: none. */
static void add(LaneCase *c, int read, int read2, int write)
{
    LaneItem *item = &c->items[c->n];
    Extent   *e = c->extents[c->n++];
    int       at[3] = { read, read2, write };
    *item = (LaneItem){ .extents = e, .ns = 20000 };
    for (int i = 0; i < 3; i++)
        if (at[i] >= 0)
            e[item->n_extents++] = (Extent){ 100 * at[i], 100, i == 2 };
}

static void assign(LaneCase *c)
{
    lanes_assign(c->pool, c->items, c->n, c->places);
    CHECK_OK(lanes_check(c->items, c->n, c->places));
}

/* The one launch of the other lanes that it waits for; -1: none, -2: several. */
static int32_t after(const LaneCase *c, int32_t i)
{
    int32_t found = -1;
    for (int32_t lane = 0; lane < LANES; lane++)
        if (c->places[i].after[lane] >= 0)
            found = found < 0 ? c->places[i].after[lane] : -2;
    return found;
}

/* In a lane, after a launch of another or none (-1). */
static LanePlace place(int32_t lane, int32_t of, int32_t launch)
{
    LanePlace p = { lane, { -1, -1, -1, -1 } };
    p.after[of] = launch;
    return p;
}

static void a_chain_has_one_lane(void)
{
    LaneCase *c = case_new();
    for (int i = 0; i < 20; i++)
        add(c, i, -1, i + 1);
    assign(c);
    for (int i = 0; i < 20; i++) {
        CHECK_INT(c->places[i].lane, 0);
        CHECK_INT(after(c, i), -1);
    }
    pool_free(c->pool);
}

/* dy -> dw (accumulated), dx: the weight gradients run beside the chain. */
static void gradients_leave_the_chain(void)
{
    LaneCase *c = case_new();
    add(c, -1, -1, 0);
    for (int i = 0; i < 10; i++) {
        add(c, i, 50, 50);    /* dw += x dy */
        add(c, i, -1, i + 1); /* dx, the next dy */
        c->items[c->n - 1].ns = 25000;
    }
    assign(c);
    for (int i = 0; i < 10; i++) {
        CHECK_INT(c->places[2 * i + 1].lane, 1);
        CHECK_INT(after(c, 2 * i + 1), 2 * i);
        CHECK_INT(c->places[2 * i + 2].lane, 0);
        CHECK_INT(after(c, 2 * i + 2), -1);
    }
    pool_free(c->pool);
}

/* Two chains, one after the other in the plan, that meet at the end. */
static void chains_overlap(void)
{
    LaneCase *c = case_new();
    add(c, -1, -1, 0);
    for (int i = 0; i < 8; i++)
        add(c, i ? 10 + i : 0, -1, 11 + i);
    for (int i = 0; i < 8; i++)
        add(c, i ? 30 + i : 0, -1, 31 + i);
    add(c, 18, 38, 60);
    assign(c);
    for (int i = 1; i < 8; i++) {
        CHECK_INT(c->places[1 + i].lane, c->places[2].lane);
        CHECK_INT(c->places[9 + i].lane, 1 - c->places[2].lane);
        CHECK(i == 1 || (after(c, 1 + i) < 0 && after(c, 9 + i) < 0));
    }
    CHECK(after(c, 17) == (c->places[17].lane == c->places[2].lane ? 16 : 8));
    pool_free(c->pool);
}

/* The same, but the second chain's first result overwrites what the first chain's last one
 * reads. */
static void a_shared_place_holds_back(void)
{
    LaneCase *c = case_new();
    add(c, -1, -1, 0);
    for (int i = 0; i < 8; i++)
        add(c, i ? 10 + i : 0, -1, 11 + i);
    add(c, 0, -1, 17);
    assign(c);
    CHECK(c->places[9].lane == 0 || after(c, 9) == 8);
    c->places[9] = place(1, 0, 7);
    CHECK_INT(lanes_check(c->items, c->n, c->places), E_PLAN);
    c->places[9] = place(1, 0, 8);
    CHECK_OK(lanes_check(c->items, c->n, c->places));
    pool_free(c->pool);
}

/* Two short launches and the next of the chain read the same bytes: the chain does not wait for the
 * short ones, although they come first in the plan. */
static void the_critical_path_goes_first(void)
{
    LaneCase *c = case_new();
    add(c, -1, -1, 0);
    for (int i = 0; i < 30; i++) {
        add(c, i, -1, 100 + 2 * i);
        add(c, i, -1, 101 + 2 * i);
        add(c, i, -1, i + 1);
    }
    for (int i = 0; i < c->n; i++)
        c->items[i].ns = 2000;
    assign(c);
    for (int i = 0; i < 20; i++) { /* not the last ones: near the end it does not matter */
        CHECK_INT(c->places[1 + 3 * i].lane, 1);
        CHECK_INT(c->places[3 + 3 * i].lane, 0);
        CHECK_INT(after(c, 3 + 3 * i), -1);
    }
    pool_free(c->pool);
}

static void the_checker_refuses(void)
{
    LaneCase *c = case_new();
    add(c, -1, -1, 0);
    add(c, 0, -1, 1);
    add(c, 1, -1, 0);
    LanePlace first = place(0, 1, -1);
    LanePlace wrong[][3] = {
        { first, place(1, 0, -1), place(0, 1, 1) }, /* reads too early */
        { first, place(1, 0, 0), place(0, 1, -1) }, /* overwrites what is still read */
        { first, place(1, 0, 1), place(0, 1, 1) },  /* waits for itself */
        { first, place(0, 0, 0), place(0, 1, -1) }, /* waits within its lane */
        { first, place(1, 2, 0), place(0, 1, 1) },  /* launch 0 is not of lane 2 */
        { first, place(2, 0, 0), place(0, 2, 1) },  /* in a lane for copies */
        { first, place(LANES, 0, 0), place(0, 1, 1) }, { first, place(-1, 0, 0), place(0, 1, 1) },
    };
    LanePlace right[3] = { first, place(1, 0, 0), place(0, 1, 1) };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_INT(lanes_check(c->items, 3, wrong[i]), E_PLAN);
    CHECK_OK(lanes_check(c->items, 3, right));
    pool_free(c->pool);
}

/* Adjacent extents do not conflict; one shared byte does. */
static void ends_do_not_meet(void)
{
    LaneCase *c = case_new();
    add(c, -1, -1, 0);
    add(c, -1, -1, 1);
    LanePlace apart[2] = { place(0, 1, -1), place(1, 0, -1) };
    CHECK_OK(lanes_check(c->items, 2, apart));
    c->extents[1][0].offset--;
    CHECK_INT(lanes_check(c->items, 2, apart), E_PLAN);
    c->extents[1][0].written = c->extents[0][0].written = false;
    CHECK_OK(lanes_check(c->items, 2, apart)); /* two readers */
    pool_free(c->pool);
}

/* Compares the order that the lanes give, by a closure over all pairs, with what shared bytes
 * require. */
static bool ordered(const LaneCase *c)
{
    static bool before[MAX_ITEMS][MAX_ITEMS];
    memset(before, 0, sizeof before);
    for (int i = 0; i < c->n; i++) {
        for (int j = 0; j < i; j++) {
            int32_t lane = c->places[j].lane;
            if (lane == c->places[i].lane || c->places[i].after[lane] == j) {
                before[i][j] = true;
                for (int k = 0; k < j; k++)
                    before[i][k] |= before[j][k];
            }
        }
        for (int j = 0; j < i; j++)
            for (int a = 0; a < c->items[i].n_extents; a++)
                for (int b = 0; b < c->items[j].n_extents; b++) {
                    Extent x = c->extents[i][a], y = c->extents[j][b];
                    for (int64_t byte = x.offset; byte < x.offset + x.bytes; byte++)
                        if ((x.written || y.written) && byte >= y.offset &&
                            byte < y.offset + y.bytes && !before[i][j])
                            return false;
                }
    }
    return true;
}

static void any_programs(void)
{
    int beside = 0;
    for (uint32_t seed = 1; seed <= 60; seed++) {
        LaneCase *c = case_new();
        uint32_t  x = seed * 2654435761u;
        c->n = seed <= 50 ? 120 : MAX_ITEMS; /* the long ones exceed LOOK_BACK */
        for (int i = 0; i < c->n; i++) {
            LaneItem *item = &c->items[i];
            *item = (LaneItem){ .extents = c->extents[i], .n_extents = 1 + (int)(seed % EACH) };
            for (int e = 0; e < item->n_extents; e++) {
                x = x * 1664525u + 1013904223u;
                int64_t spread = seed % 3 ? 4000 : 400;
                c->extents[i][e] = (Extent){ (x >> 8) % spread, 1 + (x >> 4) % 20,
                                             (x >> 28) % 3 == 0 };
            }
            x = x * 1664525u + 1013904223u;
            item->ns = (x >> 8) % 130000;
            if (seed % 2 && (x >> 25) % 4 == 0) /* some are copies, in both directions */
                item->lane = LANE_COPIES + (int32_t)(x >> 24) % 2;
        }
        assign(c);
        CHECK(ordered(c));
        for (int i = 0; i < c->n; i++)
            beside += c->places[i].lane == LANE_ASIDE;
        pool_free(c->pool);
    }
    CHECK(beside > 500);
}

/* Inputs arrive in lane 1, in order, and their readers wait for no more than they read. */
static void inputs_come_aside(void)
{
    LaneCase *c = case_new();
    for (int i = 0; i < 4; i++) {
        add(c, -1, -1, i);
        c->items[i].lane = LANE_ASIDE;
    }
    add(c, 0, -1, 10);
    add(c, 10, 3, 11);
    assign(c);
    for (int i = 0; i < 4; i++) {
        CHECK_INT(c->places[i].lane, 1);
        CHECK_INT(after(c, i), -1);
    }
    CHECK_INT(c->places[4].lane, 0);
    CHECK_INT(after(c, 4), 0);
    CHECK_INT(after(c, 5), 3);
    pool_free(c->pool);
}

static void copy(LaneCase *c, CopyDirection way, int at)
{
    if (way == COPY_TO_HOST)
        add(c, at, -1, 1000 + at);
    else
        add(c, 1000 + at, -1, at);
    c->items[c->n - 1].lane = LANE_COPIES + (int32_t)way;
    c->items[c->n - 1].ns = 500000;
}

/* A value is offloaded and loaded again: the chain waits only where it needs the bytes, no kernel
 * delays a copy, and no copy delays a kernel without need. */
static void copies_keep_to_themselves(void)
{
    LaneCase *c = case_new();
    add(c, -1, -1, 0);        /* 0 */
    copy(c, COPY_TO_HOST, 0); /* 1 */
    for (int i = 0; i < 30; i++)
        add(c, i ? 10 + i : 0, -1, 11 + i); /* 2 to 31; the first reads what is being saved */
    add(c, 40, -1, 0);                      /* 32: overwrites it: the save must have ended */
    add(c, 0, -1, 41);                      /* 33 */
    copy(c, COPY_TO_DEVICE, 0);             /* 34: loads it, once that has been read */
    add(c, 41, -1, 42);                     /* 35 */
    add(c, 42, 0, 43);                      /* 36 */
    assign(c);
    CHECK_INT(c->places[1].lane, LANE_COPIES + COPY_TO_HOST);
    CHECK_INT(after(c, 1), 0);
    for (int i = 2; i < 32; i++)
        CHECK_INT(after(c, i), -1);
    CHECK_INT(after(c, 32), 1);
    CHECK_INT(c->places[34].lane, LANE_COPIES + COPY_TO_DEVICE);
    CHECK_INT(after(c, 34), 33); /* 33 comes after 32, and 32 after the save */
    CHECK_INT(after(c, 35), -1);
    CHECK_INT(after(c, 36), 34);
    c->places[36].after[LANE_COPIES + COPY_TO_DEVICE] = -1;
    CHECK_INT(lanes_check(c->items, c->n, c->places), E_PLAN);
    pool_free(c->pool);
}

/* LANE_ASIDE does not collect everything: launches stay in lane 0 if that starts them earlier. */
static void both_lanes_work(void)
{
    LaneCase *c = case_new();
    double    busy[2] = { 0 };
    lanes_assign(c->pool, c->items, 0, c->places); /* no launches at all */
    CHECK_OK(lanes_check(c->items, 0, c->places));
    for (int i = 0; i < 60; i++) {
        add(c, -1, -1, i);
        c->items[i].ns = i % 2 ? 30000 : 31000;
    }
    assign(c);
    for (int i = 0; i < 60; i++)
        busy[c->places[i].lane] += c->items[i].ns;
    CHECK(busy[0] > 700000 && busy[1] > 700000);
    pool_free(c->pool);
}

int main(void)
{
    RUN(a_chain_has_one_lane);
    RUN(gradients_leave_the_chain);
    RUN(chains_overlap);
    RUN(a_shared_place_holds_back);
    RUN(the_critical_path_goes_first);
    RUN(the_checker_refuses);
    RUN(ends_do_not_meet);
    RUN(any_programs);
    RUN(inputs_come_aside);
    RUN(copies_keep_to_themselves);
    RUN(both_lanes_work);
    return test_end();
}
