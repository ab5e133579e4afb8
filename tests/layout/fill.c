/* fill.c -- dense layouts that only a perfect packing solves: rectangles cut into buffers.
 *
 * The nodes are limited, so that a weaker search fails here instead of taking longer. bench/layout.c
 * runs many of each family with the default effort.
 */
#include "test.h"

#include "cut_layouts.h"

static bool solved(const CutFamily *family, uint64_t seed, int n, int64_t max_nodes)
{
    Pool         *pool = pool_new(NULL, "test");
    Buffer       *b = NEWN(pool, Buffer, n + 4);
    LayoutResult  result;
    int64_t       capacity = (int64_t)CUT_SIDE * CUT_UNIT;
    LayoutOptions how = { .capacity = capacity, .max_nodes = max_nodes };
    n = cut_layout(family, seed, n, b);
    Err err = layout_solve(pool, b, n, &how, &result);
    CHECK(err == OK || err == E_BUDGET);
    CHECK_INT(result.bound_bytes, capacity);
    CHECK_OK(layout_check(b, n, result.arena_bytes));
    pool_free(pool);
    return err == OK;
}

static void perfect(void)
{
    for (int f = 0; f < CUT_SOLVED; f++) {
        int found = 0;
        for (uint64_t seed = 1; seed <= 4; seed++)
            found += solved(&cut_families[f], seed, 150 + 37 * (int)seed, 200000);
        printf("%s: %d of 4\n", cut_families[f].name, found);
        CHECK_INT(found, 4);
    }
}

/* Large ones need many tries in all. */
static void large(void) { CHECK(solved(&cut_families[0], 106, 477, 400000)); }

/* A larger capacity is served where a smaller one is. */
static void larger_is_not_refused(void)
{
    for (int f = 0; f <= 9; f += 3) {
        Pool   *pool = pool_new(NULL, "test");
        Buffer *b = NEWN(pool, Buffer, 204);
        int     n = cut_layout(&cut_families[f], 5, 200, b);
        bool    before = false;
        for (int i = 0; i <= 5; i++) {
            LayoutResult  result;
            int64_t       capacity = (int64_t)CUT_SIDE * (CUT_UNIT + 8 * i);
            LayoutOptions how = { .capacity = capacity, .max_nodes = 15000 };
            Err           err = layout_within(pool, b, n, &how, &result);
            CHECK(!before || !err);
            CHECK(!err || result.arena_bytes > capacity);
            before = !err;
        }
        printf("%s: %s at 1.04 of the bound\n", cut_families[f].name,
               before ? "served" : "refused");
        pool_free(pool);
    }
}

/* Alignment: the sizes are padded to it, and the topmost may save its padding. */
static void aligned(void)
{
    Pool   *pool = pool_new(NULL, "test");
    Buffer *b = NEWN(pool, Buffer, 304);
    int     n = cut_layout(&cut_families[0], 9, 300, b);
    for (int i = 0; i < n; i++) {
        b[i].align = CUT_UNIT;
        b[i].size -= i % 7;
    }
    LayoutResult  result;
    LayoutOptions how = { .capacity = (int64_t)CUT_SIDE * CUT_UNIT, .max_nodes = 200000 };
    CHECK_OK(layout_solve(pool, b, n, &how, &result));
    CHECK_OK(layout_check(b, n, how.capacity));
    pool_free(pool);
}

int main(void)
{
    RUN(perfect);
    RUN(large);
    RUN(larger_is_not_refused);
    RUN(aligned);
    return test_end();
}
