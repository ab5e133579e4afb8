/* Tests of base/flax_file and base/msgpack: round trips, files that are wrong or hostile.
 * tests/py/flax_file.py reads and writes what Flax itself does. */
#include "base/flax_file.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/msgpack.h"
#include "base/text.h"
#include "test.h"

static Pool *pool;
static char  path[64];

static void scalars(void)
{
    MsgPack v;
    CHECK_OK(msgpack_parse(pool, "t", "\x93\x07\xff\xd1\xff\x00", 6, &v));
    CHECK_INT(v.kind, MSG_ARRAY);
    CHECK_INT(v.items[0].integer, 7);
    CHECK_INT(v.items[1].integer, -1);
    CHECK_INT(v.items[2].integer, -256);
    CHECK_OK(msgpack_parse(pool, "t", "\xcb\x40\x04\0\0\0\0\0\0", 9, &v));
    CHECK_NEAR(v.number, 2.5, 0);
    CHECK_OK(msgpack_parse(pool, "t", "\xca\xbf\x80\0\0", 5, &v));
    CHECK_NEAR(v.number, -1, 0);
    CHECK_OK(msgpack_parse(pool, "t", "\xcf\xff\xff\xff\xff\xff\xff\xff\xff", 9, &v));
    CHECK_INT(v.kind, MSG_NUMBER);
    CHECK_OK(msgpack_parse(pool, "t",
                           "\x82\xa1"
                           "a\xc3\xa1"
                           "b\xc0",
                           7, &v));
    CHECK_INT(msgpack_get(&v, "a")->integer, 1);
    CHECK_INT(msgpack_get(&v, "b")->kind, MSG_NIL);
    CHECK(msgpack_get(&v, "c") == NULL);
    CHECK_OK(msgpack_parse(pool, "t", "\xd4\x05\x2a", 3, &v));
    CHECK_INT(v.kind, MSG_EXT);
    CHECK_INT(v.ext, 5);
}

/* What is written is read again, at the limits of every form. */
static void heads(void)
{
    static const size_t sizes[] = { 0, 1, 3, 15, 16, 31, 32, 255, 256, 65535, 65536 };
    unsigned char      *bytes = calloc(1, 70000);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int kind = MSG_TEXT; kind <= MSG_EXT; kind++) {
            MsgPack v;
            size_t  head = kind == MSG_EXT ? msgpack_ext(bytes, 1, sizes[i])
                                           : msgpack_head(bytes, (MsgKind)kind, sizes[i]);
            CHECK_OK(msgpack_parse(pool, "t", bytes, head + sizes[i], &v));
            CHECK_INT(v.kind, kind);
            CHECK_INT(v.n, sizes[i]);
        }
    for (uint64_t n = 1; n < INT64_MAX / 3; n *= 3) {
        MsgPack v;
        size_t  head = msgpack_int(bytes, n);
        CHECK_OK(msgpack_parse(pool, "t", bytes, head, &v));
        CHECK_INT(v.integer, n);
    }
    free(bytes);
}

static void refuse_pack(const char *bytes, size_t n, const char *part)
{
    MsgPack v;
    if (!CHECK_INT(msgpack_parse(pool, "t", bytes, n, &v), E_FORMAT))
        return;
    if (!CHECK(strstr(err_text(), part) != NULL))
        fprintf(stderr, "  said:   %s\n  wanted: %s\n", err_text(), part);
}

static void packs_that_are_wrong(void)
{
    char deep[200];
    refuse_pack("", 0, "ends early");
    refuse_pack("\xc1", 1, "unknown first byte");
    refuse_pack("\x01\x02", 2, "something follows");
    refuse_pack("\xdf\xff\xff\xff\xff", 5, "ends early"); /* a map of 4 billion entries */
    refuse_pack("\xdd\x7f\xff\xff\xff\x01", 6, "ends early");
    refuse_pack("\xc6\xff\xff\xff\xff", 5, "ends early");
    refuse_pack("\xc9\x00\x00\x01\x00\x01", 6, "ends early");
    refuse_pack("\xcb\x40\x04", 3, "ends early");
    memset(deep, '\x91', sizeof deep);
    refuse_pack(deep, sizeof deep, "nested too deeply");
}

static void round_trip(void)
{
    static const float    kernel[] = { 1, 2, 3, 4, 5, 6 }, one[] = { 0.5f };
    static const uint16_t half[] = { 0x3c00 };
    static const int64_t  shape[] = { 2, 3 }, line[] = { 1 };
    const SafeTensor      in[] = {
             { "params.Dense_0.kernel", SAFE_F32, 2, shape, kernel, sizeof kernel },
             { "params.Dense_0.bias", SAFE_F16, 1, line, half, sizeof half },
             { "params.Dense-0", SAFE_F32, 0, NULL, one, sizeof one },
             { "params.Dense_01.scale", SAFE_BF16, 1, line, half, sizeof half },
    };
    FlaxFile out;
    CHECK_OK(flax_write(path, in, 4));
    CHECK_OK(flax_read(pool, path, &out));
    CHECK_INT(out.n, 4);
    for (int i = 0; i < 4; i++) {
        const SafeTensor *t = NULL;
        for (int k = 0; k < out.n; k++)
            if (!strcmp(out.tensors[k].tensor.name, in[i].name))
                t = &out.tensors[k].tensor;
        if (!CHECK(t != NULL))
            continue;
        CHECK_INT(t->type, in[i].type);
        CHECK_INT(t->rank, in[i].rank);
        CHECK_INT(t->n_bytes, in[i].n_bytes);
        CHECK(!memcmp(t->data, in[i].data, t->n_bytes));
    }
    const SafeTensor both[] = { { "a", SAFE_F32, 0, NULL, one, 4 },
                                { "a.b", SAFE_F32, 0, NULL, one, 4 },
                                { "a-b", SAFE_F32, 0, NULL, one, 4 } };
    CHECK_INT(flax_write(path, both, 3), E_FORMAT);
    CHECK(strstr(err_text(), "a is a tensor and the start of the name a.b") != NULL);
}

/* {"w": array}, where the array's MessagePack is given. */
static Err parse_array(const char *array, size_t n, FlaxFile *out)
{
    unsigned char bytes[256] = "\x81\xa1w";
    size_t        head = 3 + msgpack_ext(bytes + 3, 1, n);
    memcpy(bytes + head, array, n);
    return flax_parse(pool, "t", bytes, head + n, out);
}

static void arrays_that_are_wrong(void)
{
    FlaxFile out;
    CHECK_OK(parse_array("\x93\x91\x01\xa7"
                         "float32\xc4\x04\0\0\0\0",
                         17, &out));
    CHECK_INT(out.n, 1);
    CHECK_OK(parse_array("\x93\x91\x01\xa9"
                         "complex64\xc4\x08\0\0\0\0\0\0\0\0",
                         23, &out));
    CHECK_TEXT(out.tensors[0].wrong, "it holds complex64");
    CHECK_INT(parse_array("\x93\x91\x02\xa7"
                          "float32\xc4\x04\0\0\0\0",
                          17, &out),
              E_FORMAT);
    CHECK_INT(parse_array("\x93\x91\xff\xa7"
                          "float32\xc4\x04\0\0\0\0",
                          17, &out),
              E_FORMAT);
    CHECK_INT(parse_array("\x92\x91\x01\xa7"
                          "float32",
                          11, &out),
              E_FORMAT);
    CHECK_INT(parse_array("\xc0", 1, &out), E_FORMAT);
    CHECK_INT(parse_array("", 0, &out), E_FORMAT);
    CHECK_INT(flax_parse(pool, "t", "\x91\x01", 2, &out), E_FORMAT);
    CHECK_OK(flax_parse(pool, "t",
                        "\x81\xa1"
                        "a\x93\x01\xc0\xa1"
                        "b",
                        8, &out)); /* no array in it */
    CHECK_INT(out.n, 0);
}

/* Chunks as Flax writes arrays beyond 1 GiB. */
static void chunked(void)
{
    static const unsigned char array[] = "\x93\x91\x01\xa5"
                                         "uint8\xc4\x01\x07";
    unsigned char              bytes[512], *at = bytes;
    FlaxFile                   out;
    for (int missing = 0; missing < 2; missing++) {
        Text              t = { .pool = pool };
        static const char before[] =
            "\x81\xa1w\x83\xb9__msgpack_chunked_array__\xc3\xa5shape\x82\xa1"
            "0\x02\xa1"
            "1\x01\xa6"
            "chunks";
        text_addn(&t, before, sizeof before - 1);
        at = bytes;
        memcpy(at, t.at, t.n), at += t.n;
        *at++ = 0x82;
        for (int i = 0; i < 2; i++) {
            *at++ = 0xa1, *at++ = (unsigned char)('0' + i + missing);
            at += msgpack_ext(at, 1, sizeof array - 1);
            memcpy(at, array, sizeof array - 1), at += sizeof array - 1;
        }
        Err err = flax_parse(pool, "t", bytes, (size_t)(at - bytes), &out);
        CHECK_INT(err, missing ? E_FORMAT : OK);
        if (err)
            continue;
        CHECK_INT(out.n, 1);
        CHECK_INT(out.tensors[0].tensor.rank, 2);
        CHECK_INT(out.tensors[0].tensor.n_bytes, 2);
        CHECK_INT(((const unsigned char *)out.tensors[0].tensor.data)[1], 7);
    }
}

static void likely(void)
{
    CHECK(flax_likely("\x81\xa6params\x80xx", 10));
    CHECK(flax_likely("\xde\x00\x10\xa6params\x80", 11));
    CHECK(!flax_likely("\x80\x02}q\x00.......", 12));      /* a pickle */
    CHECK(!flax_likely("\x81\xa6\0\0\0\0\0\0{\"a\"", 12)); /* safetensors */
    CHECK(!flax_likely("PK\x03\x04xxxxxxx", 11));
}

int main(void)
{
    pool = pool_new(NULL, "flax file test");
    snprintf(path, sizeof path, "/tmp/flax_file_test_%d.msgpack", (int)getpid());
    RUN(scalars);
    RUN(heads);
    RUN(packs_that_are_wrong);
    RUN(round_trip);
    RUN(arrays_that_are_wrong);
    RUN(chunked);
    RUN(likely);
    unlink(path);
    pool_free(pool);
    return test_end();
}
