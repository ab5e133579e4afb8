/* Tests of base/int_math: rounding up at, below and above a multiple; counts beyond 32 bits; the smaller and
 * the larger of two. */
#include "base/int_math.h"

#include "test.h"

static void rounds_up(void)
{
    CHECK_INT(ceil_div(0, 7), 0);
    CHECK_INT(ceil_div(1, 7), 1);
    CHECK_INT(ceil_div(7, 7), 1);
    CHECK_INT(ceil_div(8, 7), 2);
    CHECK_INT(align_up(0, 256), 0);
    CHECK_INT(align_up(255, 256), 256);
    CHECK_INT(align_up(256, 256), 256);
    CHECK_INT(align_up(257, 256), 512);
    CHECK_INT(align_up(10, 3), 12); /* units need not be powers of two */
    CHECK_INT(align_up(((int64_t)1 << 40) + 1, 64), ((int64_t)1 << 40) + 64);
    CHECK(align_bytes(0, 64) == 0 && align_bytes(1, 64) == 64 && align_bytes(65, 64) == 128);
}

static void smaller_and_larger(void)
{
    CHECK_INT(int_min(-3, 2), -3);
    CHECK_INT(int_min(2, -3), -3);
    CHECK_INT(int_max(-3, 2), 2);
    CHECK_INT(int_max(((int64_t)1 << 40), 1), (int64_t)1 << 40);
    CHECK(size_max(SIZE_MAX, 1) == SIZE_MAX && size_max(1, 2) == 2);
}

int main(void)
{
    RUN(rounds_up);
    RUN(smaller_and_larger);
    return test_end();
}
