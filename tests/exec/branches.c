/* branches.c -- launches side by side: whatever two of them share, the list's order holds. */
#include "test.h"

#include "exec/branches.h"

enum { MOST = 200, TOUCH = 4 };

typedef struct List {
    Branch  at[MOST];
    Touched touched[MOST][TOUCH];
    int32_t n;
} List;

static void list_add(List *list, Beside beside, bool alone, const Touched *touched, int32_t n)
{
    int32_t i = list->n++;
    memcpy(list->touched[i], touched, (size_t)n * sizeof *touched);
    list->at[i] = (Branch){ .touched = list->touched[i], .n_touched = n, .beside = beside,
                            .alone = alone };
}

/* Must b come after a? Written anew: byte by byte where both are small. */
static bool share(const Branch *a, const Branch *b)
{
    if (a->alone || b->alone)
        return true;
    for (int32_t i = 0; i < a->n_touched; i++)
        for (int32_t j = 0; j < b->n_touched; j++)
            for (int64_t at = 0; at < a->touched[i].bytes; at++) {
                int64_t in_b = a->touched[i].offset + at - b->touched[j].offset;
                if (in_b >= 0 && in_b < b->touched[j].bytes &&
                    (a->touched[i].written || b->touched[j].written))
                    return true;
            }
    return false;
}

/* What is sure to have ended before each launch begins, by queue: that of the launch before it on
 * its queue and of those that it waits for. */
static void order_holds(const List *list)
{
    static int32_t ended[MOST][DEVICE_QUEUES];
    int32_t        last[DEVICE_QUEUES] = { -1, -1, -1 };
    for (int32_t i = 0; i < list->n; i++) {
        const Branch *b = &list->at[i];
        for (int q = 0; q < DEVICE_QUEUES; q++)
            ended[i][q] = -1;
        for (int r = 0; r < DEVICE_QUEUES; r++) {
            int32_t before = r == b->queue ? last[r] : b->after[r];
            if (before < 0)
                continue;
            CHECK_INT(list->at[before].queue, r);
            CHECK(before < i && (r == b->queue || list->at[before].awaited));
            for (int q = 0; q < DEVICE_QUEUES; q++)
                if (ended[before][q] > ended[i][q])
                    ended[i][q] = ended[before][q];
            if (before > ended[i][r])
                ended[i][r] = before;
        }
        for (int32_t e = 0; e < i; e++)
            if (share(&list->at[e], b))
                CHECK(ended[i][list->at[e].queue] >= e);
        last[b->queue] = i;
    }
}

static int64_t below(uint64_t *state, uint64_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((*state >> 33) % n);
}

static void any_list(void)
{
    static List list;
    bool        aside = false;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        uint64_t state = seed;
        list.n = 0;
        while (list.n < MOST) {
            Touched some[TOUCH];
            int32_t n = 1 + (int32_t)below(&state, TOUCH);
            for (int32_t i = 0; i < n; i++)
                some[i] = (Touched){ below(&state, 400), below(&state, 20), i == n - 1 };
            Beside beside = (Beside)below(&state, 4);
            list_add(&list, beside, below(&state, 25) == 0, some, n);
        }
        aside |= branches_plan(list.at, list.n);
        order_holds(&list);
    }
    CHECK(aside);
}

/* dy is made; its bias and weight gradients go aside, dx on; each sum follows its gradient; the
 * next writer of dy's place waits for both. */
static void gradients_aside(void)
{
    static List list;
    enum { DY = 0, DW = 100, DB = 200, SUM_W = 300, SUM_B = 400, DX = 500 };
    list.n = 0;
    list_add(&list, BESIDE_NONE, false, (Touched[]){ { DY, 50, true } }, 1);
    list_add(&list, BESIDE_SECOND, false, (Touched[]){ { DY, 50, false }, { DB, 9, true } }, 2);
    list_add(&list, BESIDE_MAKER, false, (Touched[]){ { DB, 9, false }, { SUM_B, 9, true } }, 2);
    list_add(&list, BESIDE_FIRST, false, (Touched[]){ { DY, 50, false }, { DW, 99, true } }, 2);
    list_add(&list, BESIDE_MAKER, false, (Touched[]){ { DW, 99, false }, { SUM_W, 99, true } }, 2);
    list_add(&list, BESIDE_NONE, false, (Touched[]){ { DY, 50, false }, { DX, 50, true } }, 2);
    list_add(&list, BESIDE_NONE, false, (Touched[]){ { DX, 50, false }, { DY, 50, true } }, 2);
    CHECK(branches_plan(list.at, list.n));
    order_holds(&list);
    static const int queues[] = { 0, 2, 2, 1, 1, 0, 0 };
    for (int32_t i = 0; i < list.n; i++)
        CHECK_INT(list.at[i].queue, queues[i]);
    CHECK_INT(list.at[5].after[1], -1);              /* dx waits for nothing */
    CHECK_INT(list.at[5].after[2], -1);
    CHECK_INT(list.at[6].after[1], 3);               /* of the readers, not of the sums */
    CHECK_INT(list.at[6].after[2], 1);
}

static void one_queue(void)
{
    static List list;
    list.n = 0;
    for (int i = 0; i < 5; i++)
        list_add(&list, i % 2 ? BESIDE_NONE : BESIDE_MAKER, i == 3,
                 (Touched[]){ { 10 * i, 10, true } }, 1);
    CHECK(!branches_plan(list.at, list.n));
    CHECK(!branches_plan(list.at, 0));
    Pool     *pool = pool_new(NULL, "test");
    Branches *none;
    Device    device = { 0 };
    CHECK_OK(branches_new(pool, &device, list.at, list.n, &none));   /* it has no queues */
    CHECK(!none);
    CHECK_OK(branches_before(none, 0));
    CHECK_OK(branches_after(none, 0));
    CHECK_OK(branches_join(none));
    pool_free(pool);
}

int main(void)
{
    RUN(any_list);
    RUN(gradients_aside);
    RUN(one_queue);
    return test_end();
}
