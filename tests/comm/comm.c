/* comm.c -- transfers of one rank: contents, order of parts, slots, small records. */
#include "comm/comm.h"

#include "test.h"

#include <string.h>

static Comm *one_rank(Pool *pool)
{
    Comm *comm;
    CHECK_OK(comm_one(pool, &comm));
    CHECK_OK(comm_prepare(comm, 8, 1 << 20));
    return comm;
}

static void one_rank_is_rank_0(void)
{
    Pool *pool = pool_new(NULL, "test");
    Comm *comm = one_rank(pool);
    CHECK_INT(comm_rank(comm), 0);
    CHECK_INT(comm_ranks(comm), 1);
    CHECK_TEXT(comm_transport(comm), "none");
    CHECK(comm_host(comm, 0)[0]);
    CHECK_INT(comm_held(comm), 0);
    pool_free(pool);
}

static void parts_to_itself_arrive_in_order(void)
{
    Pool    *pool = pool_new(NULL, "test");
    Comm    *comm = one_rank(pool);
    char     from[] = "abcdef", to[8] = "", other[8] = "";
    CommPart sends[] = { { 0, from, 2 }, { 0, NULL, 0 }, { 0, from + 2, 4 } };
    CommPart receives[] = { { 0, to + 4, 2 }, { 0, NULL, 0 }, { 0, to, 4 } };
    CommPart one = { 0, from, 6 }, all = { 0, other, 6 };
    CHECK_OK(comm_start(comm, 3, sends, 3, receives, 3));
    CHECK_OK(comm_start(comm, COMM_SLOTS - 1, &one, 1, &all, 1));
    CHECK_OK(comm_wait(comm, COMM_SLOTS - 1));
    CHECK_OK(comm_wait(comm, 3));
    CHECK_OK(comm_wait(comm, 0)); /* nothing was started */
    CHECK_TEXT(to, "cdefab");
    CHECK_TEXT(other, "abcdef");
    pool_free(pool);
}

static void nothing_is_allocated_after_prepare(void)
{
    Pool    *pool = pool_new(NULL, "test");
    Comm    *comm = one_rank(pool);
    int64_t  before = pool_allocations();
    int      mine = 7, all = 0;
    CommPart send = { 0, &mine, sizeof mine }, receive = { 0, &all, sizeof all };
    for (int i = 0; i < 100; i++) {
        CHECK_OK(comm_start(comm, i % COMM_SLOTS, &send, 1, &receive, 1));
        CHECK_OK(comm_wait(comm, i % COMM_SLOTS));
        CHECK_OK(comm_all(comm, &mine, sizeof mine, &all));
        CHECK_OK(comm_share(comm, 0, &mine, sizeof mine));
    }
    CHECK_INT(all, 7);
    CHECK_INT(pool_allocations(), before);
    pool_free(pool);
}

int main(void)
{
    RUN(one_rank_is_rank_0);
    RUN(parts_to_itself_arrive_in_order);
    RUN(nothing_is_allocated_after_prepare);
    return test_end();
}
