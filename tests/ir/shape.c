/* Tests of ir/shape: axes from both ends, counts and bytes that overflow, and the text. */
#include "test.h"

#include "ir/shape.h"

static void axes(void)
{
    Shape s = SHAPE(2, 64, 48, 3);
    CHECK_INT(s.rank, 4);
    CHECK_INT(dim(s, 0), 2);
    CHECK_INT(dim(s, -1), 3);
    CHECK_INT(dim(s, -4), 2);
    CHECK_INT(shape_count(s), 2 * 64 * 48 * 3);
    CHECK_INT(shape_rows(s), 2 * 64 * 48);
    CHECK_TEXT(shape_text(shape_with(s, -2, 7)), "(2,64,7,3)");
    CHECK_TEXT(shape_text(shape_drop(s, 0)), "(64,48,3)");
    CHECK_TEXT(shape_text(shape_drop(s, -1)), "(2,64,48)");
    CHECK(shape_same(shape_of((int64_t[]){ 2, 64, 48, 3 }, 4), s));
    CHECK(!shape_same(s, SHAPE(2, 64, 48, 4)));
    CHECK(!shape_same(s, SHAPE(2, 64, 48)));
}

static void scalar(void)
{
    Shape s = { 0 };
    CHECK_INT(shape_count(s), 1);
    CHECK_TEXT(shape_text(s), "()");
    CHECK(shape_filled(s));
    CHECK(!shape_filled(SHAPE(3, 0, 2)));
}

static void overflow(void)
{
    int64_t bytes, half = (int64_t)1 << 31;
    CHECK_INT(shape_count(SHAPE(half, half, 4)), INT64_MAX); /* 2^64: more than can be counted */
    CHECK_INT(shape_count(SHAPE(half, half)), (int64_t)1 << 62);
    CHECK(shape_bytes(SHAPE(half, 1024), 4, &bytes));
    CHECK_INT(bytes, half * 4096);
    CHECK(!shape_bytes(SHAPE(half, half), 4, &bytes));
}

/* Eight may be used in one sentence. */
static void texts(void)
{
    const char *first = shape_text(SHAPE(1));
    for (int i = 2; i <= 8; i++)
        shape_text(SHAPE(i));
    CHECK_TEXT(first, "(1)");
}

int main(void)
{
    RUN(axes);
    RUN(scalar);
    RUN(overflow);
    RUN(texts);
    return test_end();
}
