/* layout_check.c -- the checker finds every planted fault, and agrees with a plain check of every
 * pair. */
#include "test.h"

#include "base/random.h"
#include "layout/layout.h"

static void accepts(void)
{
    /* one after the other in time */
    Buffer b[] = {
        { 0, 5, 10, 1, 0, 0 }, { 5, 9, 10, 1, 0, 0 }, { 0, 9, 10, 1, 10, 0 }, { 2, 3, 4, 4, 20, 0 }
    }; /* one above the other */
    CHECK_OK(layout_check(b, 4, 24));
    CHECK_OK(layout_check(b, 4, -1));
    CHECK_OK(layout_check(NULL, 0, 0));
}

static void refuses(void)
{
    Buffer good[] = { { 0, 5, 10, 1, 0, 0 }, { 4, 9, 10, 5, 10, 0 } }, b[2];
#define PLANT(change, text)                                                                        \
    do {                                                                                           \
        memcpy(b, good, sizeof b);                                                                 \
        change;                                                                                    \
        CHECK_INT(layout_check(b, 2, 20), E_PLAN);                                                 \
        CHECK_TEXT(err_text(), text);                                                              \
    } while (0)
    PLANT(b[1].offset = 5, "buffers 0 and 1 overlap: 0 takes bytes [0, 10) in times [0, 5), "
                           "1 takes bytes [5, 15) in times [4, 9)");
    PLANT(b[1].offset = 0, "buffers 0 and 1 overlap: 0 takes bytes [0, 10) in times [0, 5), "
                           "1 takes bytes [0, 10) in times [4, 9)");
    PLANT((b[1].offset = 9, b[1].align = 1), "buffers 0 and 1 overlap: 0 takes bytes [0, 10) in "
                                             "times [0, 5), 1 takes bytes [9, 19) in times [4, 9)");
    PLANT(b[0].offset = -1, "buffer 0 lies at offset -1, below 0");
    PLANT(b[1].offset = 11, "buffer 1 lies at offset 11, which is not a multiple of its alignment "
                            "5");
    PLANT(b[1].offset = 15, "buffer 1 takes bytes [15, 25), beyond the capacity of 20");
    PLANT(b[1].offset = INT64_MAX - 7, "buffer 1 lies at offset 9223372036854775800 with 10 "
                                       "bytes: it ends beyond 2^63");
    PLANT(b[0].size = 0, "buffer 0 has 0 bytes in times [0, 5); both must be positive");
    PLANT(b[0].upper = 0, "buffer 0 has 10 bytes in times [0, 0); both must be positive");
}

/* The reference: looks at every pair of buffers. */
static bool reference(const Buffer *b, int n)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            if (b[i].lower < b[j].upper && b[j].lower < b[i].upper &&
                b[i].offset < b[j].offset + b[j].size && b[j].offset < b[i].offset + b[i].size)
                return false;
    return true;
}

static void agrees_with_all_pairs(void)
{
    uint64_t  draw = 0;
    int       good = 0, bad = 0;
    RandomKey key = { .seed = 11 };
    for (int round = 0; round < 20000; round++) {
        Buffer b[6];
        for (int i = 0; i < 6; i++) {
            int u[4];
            for (int k = 0; k < 4; k++)
                u[k] = (int)random_below_at(key, draw++, k == 0 ? 12 : k == 3 ? 16 : 4);
            b[i] = (Buffer){ u[0], u[0] + 1 + u[1], 1 + u[2], 1, u[3], 0 };
        }
        bool ok = reference(b, 6);
        CHECK_INT(layout_check(b, 6, -1) == OK, ok);
        good += ok;
        bad += !ok;
    }
    CHECK(good > 1000 && bad > 1000);
}

/* Many buffers, few overlaps, away from the word borders of the checker's bit set. */
static void agrees_on_many(void)
{
    enum { N = 300 };
    static Buffer b[N];
    uint64_t      draw = 0;
    int           good = 0, bad = 0;
    RandomKey     key = { .seed = 12 };
    for (int round = 0; round < 400; round++) {
        for (int i = 0; i < N; i++) {
            int64_t born = random_below_at(key, draw++, 40);
            int64_t life = random_below_at(key, draw++, 9);
            b[i] = (Buffer){
                born, born + 1 + life, 3, 1, (int64_t)random_below_at(key, draw++, 1 << 15), 0
            };
        }
        bool ok = reference(b, N);
        CHECK_INT(layout_check(b, N, -1) == OK, ok);
        good += ok;
        bad += !ok;
    }
    CHECK(good > 50 && bad > 50);
}

/* Valid layouts from the solver, then with one buffer moved, grown or kept longer by one unit. */
static void agrees_on_changed_layouts(void)
{
    enum { N = 60 };
    uint64_t  draw = 0;
    int       good = 0, bad = 0;
    RandomKey key = { .seed = 13 };
    for (int round = 0; round < 300; round++) {
        Pool         *pool = pool_new(NULL, "test");
        Buffer        b[N];
        LayoutResult  result;
        LayoutOptions greedy = { .max_nodes = -1 };
        for (int i = 0; i < N; i++) {
            int64_t born = random_below_at(key, draw++, 50);
            int64_t life = 1 + random_below_at(key, draw++, 12);
            int64_t size = 1 + random_below_at(key, draw++, 9);
            b[i] = (Buffer){ .lower = born, .upper = born + life, .size = size };
        }
        CHECK_OK(layout_solve(pool, b, N, &greedy, &result));
        CHECK(reference(b, N));
        CHECK_OK(layout_check(b, N, result.arena_bytes));
        for (int change = 0; change < 40; change++) {
            Buffer *changed = &b[random_below_at(key, draw++, N)], old = *changed;
            switch (change % 4) {
            case 0: changed->offset++; break;
            case 1: changed->offset -= changed->offset > 0; break;
            case 2: changed->size++; break;
            default: changed->upper++; break;
            }
            bool ok = reference(b, N);
            CHECK_INT(layout_check(b, N, -1) == OK, ok);
            good += ok;
            bad += !ok;
            *changed = old;
        }
        pool_free(pool);
    }
    CHECK(good > 1000 && bad > 1000);
}

/* All live at the same time, in no particular order. */
static void checks_very_many(void)
{
    enum { N = 300007 };
    Pool   *pool = pool_new(NULL, "many");
    Buffer *b = NEWN(pool, Buffer, N);
    for (int64_t i = 0; i < N; i++)
        b[i] = (Buffer){ i % 5, 10 + i % 7, 4, 1, i * 77773 % N * 4, 0 };
    CHECK_OK(layout_check(b, N, -1));
    for (int i = 0; i < N; i += 60001) {
        b[i].size = b[i].offset / 4 == N - 1 ? 4 : 5;
        CHECK_INT(layout_check(b, N, -1) == OK, b[i].size == 4);
        b[i].size = 4;
        b[i].offset -= b[i].offset ? 1 : 0;
        CHECK_INT(layout_check(b, N, -1) == OK, b[i].offset % 4 == 0);
        b[i].offset += b[i].offset ? 1 : 0;
    }
    pool_free(pool);
}

int main(void)
{
    RUN(accepts);
    RUN(refuses);
    RUN(agrees_with_all_pairs);
    RUN(agrees_on_many);
    RUN(agrees_on_changed_layouts);
    RUN(checks_very_many);
    return test_end();
}
