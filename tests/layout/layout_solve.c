/* layout_solve.c -- the layout solver against cases by hand, brute force and its checker. */
#include "test.h"

#include "base/random.h"
#include "layout/layout.h"

#include <stdlib.h>

static uint64_t draws;
static int      below(int n)
{
    return (int)random_below_at((RandomKey){ .seed = 7 }, draws++, (uint32_t)n);
}

/* Solves a copy and checks it. */
static LayoutResult solved(const Buffer *buffers, int n, LayoutOptions options)
{
    Pool        *pool = pool_new(NULL, "test");
    Buffer      *copy = NEWN(pool, Buffer, n);
    LayoutResult result;
    int64_t      top = 0;
    if (n)
        memcpy(copy, buffers, sizeof *copy * (size_t)n);
    Err err = layout_solve(pool, copy, n, &options, &result);
    if (err)
        fprintf(stderr, "  said: %s\n", err_text());
    CHECK_INT(err, OK);
    CHECK_OK(layout_check(copy, n, result.arena_bytes));
    for (int i = 0; i < n; i++) {
        int64_t end = copy[i].offset + copy[i].size;
        top = end > top ? end : top;
        if (buffers[i].fixed)
            CHECK_INT(copy[i].offset, buffers[i].offset);
    }
    CHECK_INT(top, result.arena_bytes);
    CHECK(result.bound_bytes <= result.arena_bytes);
    pool_free(pool);
    return result;
}

#define SOLVE(list, ...)                                                                           \
    solved((list), (int)(sizeof(list) / sizeof *(list)), (LayoutOptions){ __VA_ARGS__ })

static void by_hand(void)
{
    Buffer       toy[] = { { 0, 3, 4, 1, 0, 0 },
                           { 3, 9, 4, 1, 0, 0 },
                           { 0, 9, 4, 1, 0, 0 },
                           { 9, 21, 4, 1, 0, 0 },
                           { 0, 21, 4, 1, 0, 0 } };
    LayoutResult r = SOLVE(toy, .capacity = 0);
    CHECK_INT(r.arena_bytes, 12);
    CHECK(r.proved);

    Buffer one[] = { { -5, 5, 7, 0, 0, 0 } };
    CHECK_INT(SOLVE(one, .capacity = 7).arena_bytes, 7);

    Buffer apart[] = { { 0, 1, 10, 1, 0, 0 }, { 1, 2, 20, 1, 0, 0 }, { 2, 3, 5, 1, 0, 0 } };
    CHECK_INT(SOLVE(apart, .capacity = 0).arena_bytes, 20);

    LayoutResult none = solved(NULL, 0, (LayoutOptions){ 0 });
    CHECK_INT(none.arena_bytes, 0);
    CHECK(none.proved);
}

/* Buffers whose smallest arena is above the largest live sum: only an exhaustive search can
 * know. */
static void gap_is_proved(void)
{
    int found = 0;
    for (int round = 0; round < 2000 && !found; round++) {
        Buffer b[10];
        for (int i = 0; i < 10; i++) {
            int lower = below(8);
            b[i] = (Buffer){ lower, lower + 1 + below(5), 1 + below(6), 1 + below(4), 0, 0 };
        }
        LayoutResult r = SOLVE(b, .capacity = 0);
        CHECK(r.proved);
        found = r.arena_bytes > r.bound_bytes;
        if (found) {
            Pool         *pool = pool_new(NULL, "test");
            LayoutOptions tight = { .capacity = r.arena_bytes - 1 };
            LayoutResult  again;
            CHECK_INT(layout_solve(pool, b, 10, &tight, &again), E_BUDGET);
            CHECK(again.proved);
            CHECK_INT(again.arena_bytes, r.arena_bytes);
            CHECK_OK(layout_check(b, 10, again.arena_bytes));
            CHECK(strstr(err_text(), "smallest arena possible") != NULL);
            pool_free(pool);
        }
    }
    CHECK(found);
}

/* The true optimum: in some order, every buffer lies at the lowest offset that those before it
 * leave free. */
static int64_t brute_best;
static void    brute(Buffer *b, bool *done, int n, int left, int64_t top)
{
    if (top >= brute_best)
        return;
    if (!left) {
        brute_best = top;
        return;
    }
    for (int i = 0; i < n; i++) {
        if (done[i])
            continue;
        int64_t align = b[i].align > 1 ? b[i].align : 1, at = 0;
        for (bool moved = true; moved;) {
            moved = false;
            for (int k = 0; k < n; k++)
                if (done[k] && b[k].lower < b[i].upper && b[i].lower < b[k].upper &&
                    b[k].offset < at + b[i].size && at < b[k].offset + b[k].size) {
                    at = (b[k].offset + b[k].size + align - 1) / align * align;
                    moved = true;
                }
        }
        b[i].offset = at;
        done[i] = true;
        brute(b, done, n, left - 1, at + b[i].size > top ? at + b[i].size : top);
        done[i] = false;
    }
}

static void against_brute_force(int rounds, int max_buffers, bool aligned, bool fixed)
{
    int above = 0;
    for (int round = 0; round < rounds; round++) {
        Buffer  b[8], copy[8];
        bool    done[8] = { 0 };
        int     n = 1 + below(max_buffers), left = n, times = 3 + below(8), sizes = 1 + below(12);
        int64_t top = 0;
        for (int i = 0; i < n; i++) {
            int lower = below(times);
            b[i] = (Buffer){ lower, lower + 1 + below(times), 1 + below(sizes), 1, 0, 0 };
            if (aligned)
                b[i].align = round % 2 ? 4 : 1 + below(4);
        }
        for (int i = 0; fixed && i < n && i < 2; i++) { /* the second only where it is allowed */
            int64_t align = b[i].align, at = below(3) * 4 * align;
            bool    free = i == 0 || b[0].lower >= b[1].upper || b[1].lower >= b[0].upper ||
                        at >= b[0].offset + b[0].size || b[0].offset >= at + b[1].size;
            if (!free)
                continue;
            b[i].fixed = done[i] = true;
            b[i].offset = at;
            left--;
            top = at + b[i].size > top ? at + b[i].size : top;
        }
        memcpy(copy, b, sizeof b);
        brute_best = INT64_MAX;
        brute(copy, done, n, left, top);
        LayoutResult r = solved(b, n, (LayoutOptions){ .seed = (uint64_t)(round % 3) });
        if (!CHECK_INT(r.arena_bytes, brute_best) || !CHECK(r.proved))
            fprintf(stderr, "  round %d, %d buffers, bound %lld\n", round, n,
                    (long long)r.bound_bytes);
        above += r.arena_bytes > r.bound_bytes;
        solved(b, n, (LayoutOptions){ .capacity = brute_best });
    }
    CHECK(above > 0 || !(aligned || fixed)); /* some were not trivial */
}

static void brute_plain(void) { against_brute_force(1500, 8, false, false); }
static void brute_aligned(void) { against_brute_force(1500, 7, true, false); }
static void brute_fixed(void) { against_brute_force(1500, 7, false, true); }
static void brute_both(void) { against_brute_force(1500, 7, true, true); }

static void alignment(void)
{
    /* All share 64, so 100 takes 128 unless it is on top: 128 + 60, or better 64 + 100. */
    Buffer       b[] = { { 0, 9, 100, 64, 0, 0 }, { 0, 9, 60, 64, 0, 0 } };
    LayoutResult r = SOLVE(b, .capacity = 0);
    CHECK_INT(r.arena_bytes, 164);
    CHECK_INT(r.bound_bytes, 164);
    CHECK(r.proved);
}

static void fixed_in_the_way(void)
{
    Buffer b[] = { { 0, 9, 10, 1, 5, true }, { 0, 9, 5, 1, 0, 0 }, { 0, 9, 6, 1, 0, 0 } };
    CHECK_INT(SOLVE(b, .capacity = 0).arena_bytes, 21);

    Pool        *pool = pool_new(NULL, "test");
    LayoutResult r;
    Buffer       two[] = { { 0, 9, 10, 1, 5, true }, { 8, 20, 5, 1, 14, true } };
    CHECK_INT(layout_solve(pool, two, 2, NULL, &r), E_PLAN);
    CHECK(strstr(err_text(), "buffers 0 and 1") != NULL);
    two[1].lower = 9;
    CHECK_OK(layout_solve(pool, two, 2, NULL, &r));
    two[1].align = 4;
    CHECK_INT(layout_solve(pool, two, 2, NULL, &r), E_FORMAT);
    pool_free(pool);
}

static void bad_input(void)
{
    static const Buffer bad[] = {
        { 5, 5, 1, 1, 0, 0 },     { 6, 5, 1, 1, 0, 0 },
        { 0, 1, 0, 1, 0, 0 },     { 0, 1, -1, 1, 0, 0 },
        { 0, 1, 1, -2, 0, 0 },    { 0, 1, INT64_MAX, 1, 0, 0 },
        { 0, 1, 1, 1, -1, true }, { INT64_MIN, INT64_MAX, 1, 1, 0, 0 },
    };
    Pool *pool = pool_new(NULL, "test");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        Buffer       b = bad[i];
        LayoutResult r;
        CHECK_INT(layout_solve(pool, &b, 1, NULL, &r), E_FORMAT);
    }
    pool_free(pool);
}

static void huge_sizes(void)
{
    const int64_t max_size = (int64_t)1 << 62;
    Buffer        fits[] = { { 0, 2, max_size, 1, 0, 0 },
                             { 1, 3, max_size - 2, 1, 0, 0 },
                             { 3, 9, max_size, 1, 0, 0 } };
    CHECK_INT(SOLVE(fits, .capacity = 0).arena_bytes, INT64_MAX - 1);

    Pool        *pool = pool_new(NULL, "test");
    LayoutResult r;
    Buffer       over[] = { { 0, 2, max_size, 1, 0, 0 }, { 1, 3, max_size, 1, 0, 0 } };
    CHECK_INT(layout_solve(pool, over, 2, NULL, &r), E_FORMAT);
    Buffer aligned[] = { { 0, 2, max_size, max_size, 0, 0 }, { 1, 3, 1, 3, 0, 0 } };
    CHECK_OK(layout_solve(pool, aligned, 2, NULL, &r));
    CHECK_OK(layout_check(aligned, 2, -1));
    pool_free(pool);
}

static Buffer *random_buffers(Pool *pool, int n, int times, int longest, int sizes)
{
    Buffer *b = NEWN(pool, Buffer, n);
    for (int i = 0; i < n; i++) {
        int lower = below(times);
        b[i] = (Buffer){ lower, lower + 1 + below(longest), 1 + below(sizes), 0, 0, 0 };
    }
    return b;
}

static void many(void)
{
    Pool        *pool = pool_new(NULL, "test");
    Buffer      *b = random_buffers(pool, 30000, 60000, 400, 1 << 20);
    LayoutResult quick = solved(b, 30000, (LayoutOptions){ .max_nodes = -1 });
    LayoutResult longer = solved(b, 30000, (LayoutOptions){ .max_nodes = 120000 });
    CHECK_INT(quick.n_nodes, 0);
    CHECK(quick.arena_bytes < quick.bound_bytes * 5 / 4);
    CHECK(longer.arena_bytes <= quick.arena_bytes);
    CHECK(longer.n_nodes <= 120000);
    for (int i = 0; i < 30000; i++) /* walls and alignment at scale */
        b[i] = (Buffer){ b[i].lower, b[i].upper, b[i].size, 1 + i % 256, 0, 0 };
    /* one after the other, so never in conflict */
    for (int t = 0; t < 60400; t += 1000) {
        b[t / 100] = (Buffer){ t, t + 1000, 4096, 256, 256 * (t % 7), true };
    }
    solved(b, 30000, (LayoutOptions){ .max_nodes = -1 });
    pool_free(pool);
}

/* Forward values that live into the backward pass, as in training: nested lifetimes. */
static void nested(void)
{
    enum { N = 20000 };
    Pool   *pool = pool_new(NULL, "test");
    Buffer *b = NEWN(pool, Buffer, N);
    for (int i = 0; i < N / 2; i++) {
        b[i] = (Buffer){ i, N - i, 256 * (1 + below(64)), 256, 0, 0 };
        b[N / 2 + i] = (Buffer){ N - i - 1, N - i + 1, 256 * (1 + below(64)), 256, 0, 0 };
    }
    LayoutResult r = solved(b, N, (LayoutOptions){ .max_nodes = -1 });
    CHECK(r.arena_bytes <= r.bound_bytes + r.bound_bytes / 100);
    pool_free(pool);
}

static void same_again(void)
{
    Pool   *pool = pool_new(NULL, "test");
    Buffer *a = random_buffers(pool, 120, 60, 30, 5000), *b = NEWN(pool, Buffer, 120);
    memcpy(b, a, sizeof *a * 120);
    LayoutResult  x, y;
    LayoutOptions options = { .max_nodes = 100000 };
    CHECK_OK(layout_solve(pool, a, 120, &options, &x));
    CHECK_OK(layout_solve(pool, b, 120, &options, &y));
    CHECK_INT(x.n_nodes, y.n_nodes);
    CHECK(x.n_nodes <= 100000);
    CHECK(memcmp(a, b, sizeof *a * 120) == 0);
    pool_free(pool);
}

/* A remembered answer equals the searched one, and is only given for the same input. */
static void remembered(void)
{
    enum { N = 120, OTHERS = 80 }; /* more than are kept */
    Buffer b[N], searched[N], again[N];
    Pool  *pool = pool_new(NULL, "test");
    int    searches = 0;
    memcpy(b, random_buffers(pool, N, 60, 30, 5000), sizeof b);
    for (int round = 0; round < OTHERS; round++) {
        LayoutResult  want, got, new;
        LayoutOptions how = { .max_nodes = 3000 };
        memcpy(searched, b, sizeof b);
        CHECK_OK(layout_solve(pool, searched, N, &how, &want));
        searches += want.n_nodes > 0;
        how.remember = true;
        for (int twice = 0; twice < 2; twice++) {
            memcpy(again, b, sizeof b);
            CHECK_OK(layout_solve(pool, again, N, &how, &got));
            CHECK(!memcmp(again, searched, sizeof b));
            CHECK(got.arena_bytes == want.arena_bytes && got.bound_bytes == want.bound_bytes &&
                  got.n_nodes == want.n_nodes && got.proved == want.proved && !got.cut);
        }
        how.capacity = want.bound_bytes - 1; /* another capacity, and no arena is so small */
        CHECK_INT(layout_solve(pool, again, N, &how, &new), E_BUDGET);
        how.capacity = 0;
        for (int k = 0; k < 4; k++) { /* other inputs that differ in one number */
            memcpy(again, b, sizeof b);
            again[round].upper += k == 0;
            again[round].size += k == 1;
            again[round].align = k == 2 ? 64 : 1;
            again[round].fixed = k == 3;
            CHECK_OK(layout_solve(pool, again, N, &how, &new));
            CHECK_OK(layout_check(again, N, new.arena_bytes));
            CHECK(k != 3 || again[round].offset == 0);
        }
        b[N - 1 - round].size += 1 + below(900);
    }
    CHECK(searches > OTHERS / 2); /* greedy results are not kept */
    pool_free(pool);
}

static void cut_by_time(void)
{
    Pool         *pool = pool_new(NULL, "test");
    Buffer       *b = random_buffers(pool, 400, 60, 30, 100000);
    LayoutResult  r;
    LayoutOptions options = { .time_limit_s = 1e-6, .max_nodes = INT64_MAX };
    CHECK_OK(layout_solve(pool, b, 400, &options, &r));
    CHECK_OK(layout_check(b, 400, r.arena_bytes));
    CHECK(r.cut || r.proved);
    pool_free(pool);
}

static void capacity_too_small(void)
{
    Buffer        b[] = { { 0, 2, 10, 1, 0, 0 }, { 1, 3, 10, 1, 0, 0 } };
    Pool         *pool = pool_new(NULL, "test");
    LayoutResult  r;
    LayoutOptions options = { .capacity = 19 };
    CHECK_INT(layout_solve(pool, b, 2, &options, &r), E_BUDGET);
    CHECK_TEXT(err_text(),
               "2 buffers do not fit 19 bytes: the smallest arena possible takes 20 bytes "
               "(20 B), and no layout can be below 20 bytes");
    CHECK_INT(r.arena_bytes, 20);
    CHECK_OK(layout_check(b, 2, 20));
    pool_free(pool);
}

/* The arena that a search or a refusal names is reached when it is requested with the same
 * effort. */
static void what_is_named_is_found_again(void)
{
    enum { N = 100 };
    Pool *pool = pool_new(NULL, "test");
    int   helped = 0;
    for (int round = 0; round < 40; round++) {
        Buffer        buffers[N], copy[N];
        LayoutResult  smallest, result;
        LayoutOptions how = { .max_nodes = 4000 };
        for (int i = 0; i < N; i++) {
            int lower = below(55);
            buffers[i] = (Buffer){ .lower = lower,
                                   .upper = lower + 1 + below(19),
                                   .size = 1 + below(199),
                                   .align = 1 + (int64_t)below(3) * 3 };
        }
        memcpy(copy, buffers, sizeof buffers);
        CHECK_OK(layout_solve(pool, copy, N, &how, &smallest));
        how.capacity = smallest.arena_bytes;
        memcpy(copy, buffers, sizeof buffers);
        helped += layout_solve(pool, copy, N, &how, &result) == E_BUDGET;
        memcpy(copy, buffers, sizeof buffers);
        CHECK_OK(layout_within(pool, copy, N, &how, &result));
        CHECK_OK(layout_check(copy, N, smallest.arena_bytes));
        for (int quarter = 1; quarter < 4; quarter++) {
            how.capacity = smallest.bound_bytes +
                           (smallest.arena_bytes - smallest.bound_bytes) * quarter / 4;
            memcpy(copy, buffers, sizeof buffers);
            Err err = layout_within(pool, copy, N, &how, &result);
            CHECK(err == OK || err == E_BUDGET);
            CHECK_OK(layout_check(copy, N, result.arena_bytes));
            CHECK_INT(err == OK, result.arena_bytes <= how.capacity);
            if (!err)
                continue;
            how.capacity = result.arena_bytes;
            memcpy(copy, buffers, sizeof buffers);
            CHECK_OK(layout_within(pool, copy, N, &how, &result));
        }
    }
    printf("asked for what was found: %d of 40 need the search for the smallest again\n", helped);
    CHECK(helped > 0);
    pool_free(pool);
}

int main(void)
{
    RUN(by_hand);
    RUN(gap_is_proved);
    RUN(brute_plain);
    RUN(brute_aligned);
    RUN(brute_fixed);
    RUN(brute_both);
    RUN(alignment);
    RUN(fixed_in_the_way);
    RUN(bad_input);
    RUN(huge_sizes);
    RUN(many);
    RUN(nested);
    RUN(same_again);
    RUN(remembered);
    RUN(cut_by_time);
    RUN(capacity_too_small);
    RUN(what_is_named_is_found_again);
    return test_end();
}
