/* Tests of base/msgpack: examples of every form of the specification, what is written is read, and
 * inputs that end early or nest too deep. */
#include "test.h"

#include "base/msgpack.h"

#include <stdlib.h>

#define PARSE(pool, text, out) msgpack_parse(pool, "test", text, sizeof(text) - 1, out)

static void forms(void)
{
    Pool   *pool = pool_new(NULL, "msgpack");
    MsgPack v;
    CHECK_OK(PARSE(pool, "\xc0", &v));
    CHECK_INT(v.kind, MSG_NIL);
    CHECK_OK(PARSE(pool, "\xc3", &v));
    CHECK(v.kind == MSG_BOOL && v.integer == 1);
    CHECK_OK(PARSE(pool, "\x7f", &v)); /* the largest of one byte */
    CHECK_INT(v.integer, 127);
    CHECK_OK(PARSE(pool, "\xe0", &v)); /* the smallest */
    CHECK_INT(v.integer, -32);
    CHECK_OK(PARSE(pool, "\xcd\x01\x00", &v));
    CHECK_INT(v.integer, 256);
    CHECK_OK(PARSE(pool, "\xd1\xff\x00", &v));
    CHECK_INT(v.integer, -256);
    CHECK_OK(PARSE(pool, "\xcf\xff\xff\xff\xff\xff\xff\xff\xff", &v));
    CHECK(v.kind == MSG_NUMBER && v.number == 18446744073709551616.0); /* beyond int64 */
    CHECK_OK(PARSE(pool, "\xca\x3f\x80\x00\x00", &v));
    CHECK(v.kind == MSG_NUMBER && v.number == 1);
    CHECK_OK(PARSE(pool, "\xcb\xbf\xe0\x00\x00\x00\x00\x00\x00", &v));
    CHECK_NEAR(v.number, -0.5, 0);
    CHECK_OK(PARSE(pool,
                   "\xa3"
                   "abc",
                   &v));
    CHECK(v.kind == MSG_TEXT && msgpack_is_text(&v, "abc") && !msgpack_is_text(&v, "ab"));
    CHECK_OK(PARSE(pool, "\xc4\x02\x00\x01", &v));
    CHECK(v.kind == MSG_BYTES && v.n == 2 && v.bytes[1] == 1);
    CHECK_OK(PARSE(pool, "\xd5\x07\x01\x02", &v)); /* fixext 2 */
    CHECK(v.kind == MSG_EXT && v.ext == 7 && v.n == 2);
    pool_free(pool);
}

static void trees(void)
{
    Pool   *pool = pool_new(NULL, "msgpack");
    MsgPack v;
    CHECK_OK(PARSE(pool,
                   "\x82\xa1"
                   "a\x93\x01\x02\x03\xa1"
                   "b\xc0",
                   &v));
    CHECK_INT(v.kind, MSG_MAP);
    CHECK_INT(v.n, 4);
    const MsgPack *list = msgpack_get(&v, "a");
    CHECK(list && list->kind == MSG_ARRAY && list->n == 3 && list->items[2].integer == 3);
    CHECK_INT(msgpack_get(&v, "b")->kind, MSG_NIL);
    CHECK(!msgpack_get(&v, "c"));
    CHECK(!msgpack_get(list, "a")); /* no map */
    pool_free(pool);
}

static void written_and_read(void)
{
    static const uint64_t numbers[] = {
        0, 127, 128, 255, 256, 65535, 65536, UINT32_MAX, 1ull << 32
    };
    static const size_t lengths[] = { 0, 15, 16, 31, 32, 255, 256, 65535, 65536 };
    Pool               *pool = pool_new(NULL, "msgpack");
    unsigned char      *bytes = calloc(1, 70000 + MSGPACK_HEAD);
    MsgPack             v;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        CHECK_OK(msgpack_parse(pool, "test", bytes, msgpack_int(bytes, numbers[i]), &v));
        CHECK(v.kind == MSG_INT && (uint64_t)v.integer == numbers[i]);
    }
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const MsgKind kinds[] = { MSG_TEXT, MSG_BYTES };
        for (int k = 0; k < 2; k++) {
            size_t n = msgpack_head(bytes, kinds[k], lengths[i]);
            CHECK_OK(msgpack_parse(pool, "test", bytes, n + lengths[i], &v));
            CHECK(v.kind == kinds[k] && v.n == lengths[i]);
        }
        if (lengths[i]) {
            size_t n = msgpack_ext(bytes, 3, lengths[i]);
            CHECK_OK(msgpack_parse(pool, "test", bytes, n + lengths[i], &v));
            CHECK(v.kind == MSG_EXT && v.ext == 3 && v.n == lengths[i]);
        }
    }
    free(bytes);
    pool_free(pool);
}

static void damaged(void)
{
    static const char whole[] = "\x82\xa1"
                                "a\x93\x01\xcd\x02\x00\x03\xa1"
                                "b\xc4\x02"
                                "xy";
    Pool             *pool = pool_new(NULL, "msgpack");
    MsgPack           v;
    CHECK_OK(msgpack_parse(pool, "test", whole, sizeof whole - 1, &v));
    for (size_t n = 0; n + 1 < sizeof whole; n++) /* every place where it may end early */
        CHECK_INT(msgpack_parse(pool, "test", whole, n, &v), E_FORMAT);
    CHECK_INT(PARSE(pool, "\xc0\xc0", &v), E_FORMAT);             /* more than one value */
    CHECK_INT(PARSE(pool, "\xc1", &v), E_FORMAT);                 /* never used */
    CHECK_INT(PARSE(pool, "\xdd\xff\xff\xff\xff", &v), E_FORMAT); /* more items than bytes */
    char deep[MSGPACK_DEPTH + 8];
    memset(deep, '\x91', sizeof deep);
    deep[sizeof deep - 1] = '\xc0';
    CHECK_INT(msgpack_parse(pool, "test", deep, sizeof deep, &v), E_FORMAT);
    pool_free(pool);
}

int main(void)
{
    RUN(forms);
    RUN(trees);
    RUN(written_and_read);
    RUN(damaged);
    return test_end();
}
