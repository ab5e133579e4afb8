/* spread.c -- buffers moved apart within their arena: still valid, the same top, fewer that
 * directly follow another in the same place. */
#include "layout/layout.h"

#include "test.h"

enum { N = 300 };

/* Pairs that share bytes where one begins within `near` after the other ends. */
static int close_pairs(const Buffer *b, int n, int64_t near)
{
    int pairs = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            pairs += b[j].lower >= b[i].upper && b[j].lower - b[i].upper < near &&
                     b[i].offset < b[j].offset + b[j].size && b[j].offset < b[i].offset + b[i].size;
    return pairs;
}

static int64_t top(const Buffer *b, int n)
{
    int64_t end = 0;
    for (int i = 0; i < n; i++)
        end = b[i].offset + b[i].size > end ? b[i].offset + b[i].size : end;
    return end;
}

static void workspace_moves_apart(void)
{
    Pool  *pool = pool_new(NULL, "test");
    Buffer b[12] = { { .lower = 20, .upper = 22, .size = 1000 } }; /* the peak */
    for (int i = 1; i < 12; i++)
        b[i] = (Buffer){ .lower = i, .upper = i + 1, .size = 90 };
    layout_spread(pool, b, 12, 1000);
    CHECK_OK(layout_check(b, 12, 1000));
    CHECK_INT(top(b, 12), 1000);
    CHECK_INT(b[0].offset, 0);
    CHECK_INT(close_pairs(b + 1, 11, 8), 0);
    pool_free(pool);
}

static void no_room_no_move(void)
{
    Pool  *pool = pool_new(NULL, "test");
    Buffer b[10];
    for (int i = 0; i < 10; i++)
        b[i] = (Buffer){ .lower = i, .upper = i + 1, .size = 60, .offset = i % 2 ? 40 : 0 };
    layout_spread(pool, b, 10, 100);
    for (int i = 0; i < 10; i++)
        CHECK_INT(b[i].offset, i % 2 ? 40 : 0);
    layout_spread(pool, b, 0, 0);
    pool_free(pool);
}

static void fixed_and_aligned(void)
{
    Pool  *pool = pool_new(NULL, "test");
    Buffer b[4] = { { .lower = 0, .upper = 1, .size = 10, .align = 256 },
                    { .lower = 1, .upper = 2, .size = 10, .align = 256 },
                    { .lower = 2, .upper = 3, .size = 10, .fixed = true },
                    { .lower = 900, .upper = 901, .size = 4000 } };
    layout_spread(pool, b, 4, 4000);
    CHECK_OK(layout_check(b, 4, 4000));
    CHECK_INT(b[2].offset, 0);
    CHECK(b[0].offset != b[1].offset && b[1].offset != 0);
    pool_free(pool);
}

static void any_layout(void)
{
    int before = 0, after = 0;
    for (uint32_t seed = 1; seed <= 40; seed++) {
        Pool        *pool = pool_new(NULL, "test");
        Buffer       b[N];
        LayoutResult result;
        uint32_t     x = seed * 2654435761u;
        for (int i = 0; i < N; i++) {
            x = x * 1664525u + 1013904223u;
            b[i] = (Buffer){ .lower = (x >> 8) % 1000,
                             .size = 1 + (x >> 4) % 5000,
                             .align = seed % 2 ? 256 : 0 };
            x = x * 1664525u + 1013904223u;
            b[i].upper = b[i].lower + 1 + (x >> 8) % (i % 5 ? 10 : 500);
        }
        CHECK_OK(layout_solve(pool, b, N, &(LayoutOptions){ .max_nodes = -1 }, &result));
        before += close_pairs(b, N, 8);
        layout_spread(pool, b, N, result.arena_bytes);
        after += close_pairs(b, N, 8);
        CHECK_OK(layout_check(b, N, result.arena_bytes));
        CHECK_INT(top(b, N), result.arena_bytes);
        pool_free(pool);
    }
    CHECK(after < before / 2);
}

int main(void)
{
    RUN(workspace_moves_apart);
    RUN(no_room_no_move);
    RUN(fixed_and_aligned);
    RUN(any_layout);
    return test_end();
}
