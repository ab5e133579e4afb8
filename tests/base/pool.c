/* Tests of base/pool: zeroed, aligned, growing memory; lifetimes as a tree. */
#include "base/pool.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

static char order[64];

static void note(void *arg) { strncat(order, arg, sizeof order - strlen(order) - 1); }

static void memory_is_zeroed_and_aligned(void)
{
    Pool *pool = pool_new(NULL, "test");
    for (size_t n = 0; n < 300000; n = n * 3 + 1) {
        unsigned char *p = pool_alloc(pool, n, 1), sum = 0;
        CHECK_INT((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < n; i++)
            sum |= p[i];
        CHECK_INT(sum, 0);
        memset(p, 0xAA, n); /* a sanitizer sees allocations that overlap */
    }
    unsigned char *a = pool_alloc(pool, 10, 1), *b = pool_alloc(pool, 70000, 1),
                  *c = pool_alloc(pool, 10, 1);
    memset(a, 1, 10);
    memset(b, 2, 70000);
    memset(c, 3, 10);
    CHECK(a[9] == 1 && b[0] == 2 && b[69999] == 2 && c[0] == 3);
    CHECK(pool_bytes(pool) >= 70020);
    pool_free(pool);
    pool_free(NULL);
}

static void children_go_first_then_undo_in_reverse(void)
{
    Pool *top = pool_new(NULL, "top"), *middle = pool_new(top, "middle"),
         *leaf = pool_new(middle, "leaf");
    Pool *early = pool_new(top, "early");
    pool_at_free(top, note, "T");
    pool_at_free(top, note, "t");
    pool_at_free(middle, note, "m");
    pool_at_free(leaf, note, "l");
    pool_at_free(early, note, "e");
    pool_free(early);
    CHECK_TEXT(order, "e");
    pool_free(top);
    CHECK_TEXT(order, "elmtT");
}

static void siblings_may_go_in_any_order(void)
{
    for (int skip = 0; skip < 3; skip++) {
        Pool *top = pool_new(NULL, "top"), *child[3];
        for (int i = 0; i < 3; i++) {
            child[i] = pool_new(top, "child");
            pool_alloc(child[i], 100, 1);
        }
        size_t before = pool_bytes(top);
        pool_free(child[skip]);
        CHECK(pool_bytes(top) < before);
        pool_free(child[(skip + 1) % 3]);
        CHECK(pool_bytes(top) > 0);
        pool_free(top);
    }
}

static void texts_and_lists(void)
{
    Pool   *pool = pool_new(NULL, "test");
    int    *list = NULL;
    int32_t n = 0, cap = 0;
    CHECK_TEXT(pool_text(pool, "copy"), "copy");
    CHECK_TEXT(pool_textn(pool, "copied", 4), "copi");
    CHECK_TEXT(pool_text(pool, ""), "");
    CHECK_TEXT(pool_print(pool, "%d%s", 12, "x"), "12x");
    CHECK_INT(strlen(pool_print(pool, "%0100000d", 1)), 100000);
    for (int i = 0; i < 10000; i++)
        VEC_ADD(pool, list, n, cap, i * i);
    CHECK_INT(n, 10000);
    int wrong = 0;
    for (int i = 0; i < n; i++)
        wrong += list[i] != i * i;
    CHECK_INT(wrong, 0);
    char *grown = pool_grow(pool, memset(pool_alloc(pool, 4, 1), 'x', 4), 4, 8);
    CHECK(!memcmp(grown, "xxxx\0\0\0\0", 8));
    int64_t before = pool_allocations();
    NEW(pool, int);
    NEWN(pool, double, 3);
    CHECK_INT(pool_allocations() - before, 2);
    pool_free(pool);
}

/* One round of some work: large and small allocations, a child with a child, an undo. All must be
 * zero. */
static void a_round(Pool *pool, char *log)
{
    Pool          *child = pool_new(pool, "child"), *deep = pool_new(child, "deep");
    unsigned char *all[4] = { pool_alloc(pool, 100, 1), pool_alloc(child, 200000, 1),
                              pool_alloc(deep, 5000, 1), pool_alloc(pool, 70000, 1) };
    const size_t   bytes[4] = { 100, 200000, 5000, 70000 };
    for (int i = 0; i < 4; i++) {
        size_t dirty = 0;
        for (size_t j = 0; j < bytes[i]; j++)
            dirty += all[i][j] != 0;
        CHECK_INT(dirty, 0);
        memset(all[i], 0xAB, bytes[i]);
    }
    pool_at_free(pool, note, log);
    pool_free(child);
    memset(pool_alloc(pool, 150000, 1), 0xCD, 150000); /* where the child was */
    pool_free(pool_new(pool, "empty"));
}

static void kept_memory_is_used_again(void)
{
    Pool  *top = pool_new(NULL, "top"), *kept = pool_new(top, "kept");
    char   log[8] = "x";
    size_t held = 0;
    pool_keep(kept);
    for (int round = 0; round < 4; round++) {
        a_round(kept, log);
        pool_reset(kept);
        if (round == 0)
            held = pool_bytes(kept);
        CHECK_INT(pool_bytes(kept), held);
    }
    CHECK(held >= 275000 && held < 550000);
    a_round(kept, log);
    pool_free(top); /* with what it keeps, in the middle of a round */
    Pool *plain = pool_new(NULL, "plain");
    pool_alloc(plain, 1000, 1);
    pool_reset(plain); /* not kept: given back */
    CHECK_INT(pool_bytes(plain), 0);
    pool_alloc(plain, 10, 1);
    pool_free(plain);
}

static void overflow_stops_the_program(void)
{
    static const size_t counts[][2] = { { SIZE_MAX, 2 },
                                        { SIZE_MAX, 1 },
                                        { (size_t)1 << 33, (size_t)1 << 32 } };
    for (int i = 0; i < 3; i++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            if (!freopen("/dev/null", "w", stderr))
                _exit(0);
            Pool *pool = pool_new(NULL, "test");
            pool_alloc(pool, counts[i][0], counts[i][1]);
            _exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    }
}

int main(void)
{
    RUN(memory_is_zeroed_and_aligned);
    RUN(children_go_first_then_undo_in_reverse);
    RUN(siblings_may_go_in_any_order);
    RUN(texts_and_lists);
    RUN(kept_memory_is_used_again);
    RUN(overflow_stops_the_program);
    return test_end();
}
