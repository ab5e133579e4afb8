/* Tests of base/npy: round trips, numpy's own headers, and every way a file can be wrong. */
#include "base/npy.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "test.h"

static Pool *pool;
static char  path[64];

static Err parse(int major, const char *header, size_t n_data, Npy *out)
{
    size_t         n = strlen(header), before = major == 1 ? 10 : 12;
    unsigned char *bytes = calloc(1, before + n + n_data);
    memcpy(bytes, "\x93NUMPY", 6);
    bytes[6] = (unsigned char)major;
    for (size_t i = 8; i < before; i++)
        bytes[i] = (unsigned char)(n >> 8 * (i - 8));
    memcpy(bytes + before, header, n);
    Err err = npy_parse("t.npy", bytes, before + n + n_data, out);
    free(bytes); /* its data is not looked at */
    return err;
}

static void accept(int major, const char *header, size_t n_data, NpyType type, int rank)
{
    Npy array;
    CHECK_OK(parse(major, header, n_data, &array));
    CHECK_INT(array.type, type);
    CHECK_INT(array.rank, rank);
    CHECK_INT(array.n_bytes, n_data);
}

static void refuse(const char *header, size_t n_data, const char *part)
{
    Npy array;
    if (!CHECK_INT(parse(1, header, n_data, &array), E_FORMAT))
        fprintf(stderr, "  the header was: %s\n", header);
    else if (!CHECK(strstr(err_text(), part) != NULL))
        fprintf(stderr, "  said:   %s\n  wanted: %s\n", err_text(), part);
}

static void round_trip(void)
{
    static const int64_t shapes[][4] = { { 6 }, { 2, 3 }, { 1, 2, 3, 1 }, { 4, 0 } };
    static const int     ranks[] = { 1, 2, 4, 2 };
    static const NpyType types[] = { NPY_F4, NPY_U1, NPY_I4, NPY_I8 };
    char                 data[48];
    for (int i = 0; i < 48; i++)
        data[i] = (char)(i * 37);
    for (int t = 0; t < 4; t++) {
        Npy array;
        for (int s = 0; s < 4; s++) {
            CHECK_OK(npy_write(path, types[t], ranks[s], shapes[s], data));
            CHECK_OK(npy_read(pool, path, &array));
            CHECK_INT(array.type, types[t]);
            CHECK_INT(array.rank, ranks[s]);
            for (int i = 0; i < ranks[s]; i++)
                CHECK_INT(array.shape[i], shapes[s][i]);
            CHECK_INT(array.count, s == 3 ? 0 : 6);
            CHECK(!memcmp(array.data, data, array.n_bytes));
            CHECK_INT((uintptr_t)array.data % 64, 0);
        }
        CHECK_OK(npy_write(path, types[t], 0, NULL, data));
        CHECK_OK(npy_read(pool, path, &array));
        CHECK(array.rank == 0 && array.count == 1);
    }
    char  *bytes;
    size_t n;
    CHECK_OK(npy_write(path, NPY_F4, 1, shapes[0], data));
    CHECK_OK(file_read(pool, path, &bytes, &n));
    CHECK_INT(n, 128 + 24);
    CHECK(!memcmp(bytes,
                  "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, "
                  "'shape': (6,), } ",
                  68));
    CHECK_INT(bytes[127], '\n');
    for (size_t cut = 0; cut < n; cut++) { /* every truncated file is refused */
        char *copy = malloc(cut ? cut : 1);
        Npy   array;
        memcpy(copy, bytes, cut);
        CHECK_INT(npy_parse("cut", copy, cut, &array), E_FORMAT);
        free(copy);
    }
    int64_t largest[NPY_MAX_RANK];
    for (int i = 0; i < NPY_MAX_RANK; i++)
        largest[i] = 0;
    largest[31] = INT64_MAX;
    CHECK_OK(npy_write(path, NPY_U1, NPY_MAX_RANK, largest, NULL));
    Npy array;
    CHECK_OK(npy_read(pool, path, &array));
    CHECK_INT(array.shape[31], INT64_MAX);
}

static void accepted(void)
{
    static const char *const words[] = { "'<f4'", "'<f8'", "'<f2'", "'|i1'", "'<i2'",
                                         "'<i4'", "'<i8'", "'|u1'", "'<u2'", "'|b1'" };
    for (int t = 0; t < NPY_COUNT; t++)
        for (int major = 1; major <= 3; major++)
            accept(major,
                   pool_print(pool,
                              "{'descr': %s, 'fortran_order': False, "
                              "'shape': (3, 2), }    \n",
                              words[t]),
                   6 * npy_type_bytes((NpyType)t), (NpyType)t, 2);
    accept(1, "{\"shape\":(2,),\"fortran_order\":False,\"descr\":\"<f4\"}", 8, NPY_F4, 1);
    accept(1, "{'descr':'<f4','fortran_order':True,'shape':(1,3,1)}", 12, NPY_F4, 3);
    accept(1, "{'descr':'<f4','fortran_order':True,'shape':()}", 4, NPY_F4, 0);
    accept(2, "{'descr':'<u1','fortran_order':False,'shape':(3,0,)}", 0, NPY_U1, 2);
}

#define D(descr, order, shape)                                                                     \
    "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape "}"

static void refused(void)
{
    refuse(D("'>f4'", "False", "(1,)"), 4, "big endian (>f4); save array.astype('<f4')");
    refuse(D("'=f4'", "False", "(1,)"), 4, "the dtype '=f4' is not read");
    refuse(D("'|f4'", "False", "(1,)"), 4, "the dtype '|f4' is not read");
    refuse(D("'f4'", "False", "(1,)"), 4, "the dtype 'f4' is not read");
    refuse(D("''", "False", "(1,)"), 4, "the dtype '' is not read");
    refuse(D("'<c8'", "False", "(1,)"), 8, "the dtype '<c8' is not read");
    refuse(D("'|O'", "False", "(1,)"), 8, "it holds Python objects");
    refuse(D("[('a', '<f4')]", "False", "(1,)"), 4, "an array of records is not read");
    refuse(D("'<f4'", "True", "(2, 2)"), 16, "Fortran order; save numpy.ascontiguousarray(array)");
    refuse(D("'<f4'", "false", "(2,)"), 8, "expected True or False");
    refuse(D("'<f4'", "0", "(2,)"), 8, "expected True or False");
    refuse(D("'<f4'", "False", "[2]"), 8, "expected '(' of a shape");
    refuse(D("'<f4'", "False", "(2)"), 8, "expected (n,) with its comma");
    refuse(D("'<f4'", "False", "(2 2)"), 16, "expected ',' or ')'");
    refuse(D("'<f4'", "False", "(,)"), 4, "expected a dimension");
    refuse(D("'<f4'", "False", "(-1,)"), 4, "expected a dimension, not negative");
    refuse(D("'<f4'", "False", "(02,)"), 8, "expected a dimension");
    refuse(D("'<f4'", "False", "(2.0,)"), 8, "expected ',' or ')'");
    refuse(D("'<f4'", "False", "(9223372036854775808,)"), 8, "expected a dimension below 2^63");
    refuse(D("'<f4'", "False", "(9223372036854775807,)"), 8, "more bytes than can be counted");
    refuse(D("'|u1'", "False", "(4294967296, 4294967296)"), 0, "more bytes than can be counted");
    refuse(D("'<f4'", "False", "(3,)"), 8, "need 12 bytes, the file has 8");
    refuse(D("'<f4'", "False", "(3,)"), 16, "need 12 bytes, the file has 16");
    refuse(
        D("'<f4'", "False", "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)"),
        4, "more than 32 dimensions");
    refuse(D("'<f4'", "False", "(1,)") " x", 4, "expected nothing after '}'");
    refuse("{'descr': '<f4', 'shape': (1,)}", 4, "the header lacks 'fortran_order'");
    refuse("{}", 4, "the header lacks 'descr'");
    refuse("{'descr': '<f4', 'descr': '<f4'}", 4, "the header has 'descr' twice");
    refuse("{'other': 1}", 4, "the header has 'other' besides");
    refuse("{'descr' '<f4'}", 4, "expected ':'");
    refuse("{'descr': '<f4' 'shape': (1,)}", 4, "expected ',' or '}'");
    refuse("{'descr': '<f4", 4, "expected a closing quote");
    refuse("{descr: '<f4'}", 4, "expected a text in quotes");
    refuse("{'d\\x65scr': '<f4'}", 4, "expected a short text");
    refuse("{'a name that is much too long to be one of the three': 1}", 4,
           "expected a short text");
    refuse("", 4, "expected '{'");
    refuse("__import__('os')", 4, "expected '{'");

    Npy array;
    CHECK_INT(npy_parse("t", "\x93NUMPX\1\0\0\0\0\0", 12, &array), E_FORMAT);
    CHECK_INT(npy_parse("t", "\x93NUMPY\1\1\0\0\0\0", 12, &array), E_FORMAT);
    CHECK_INT(npy_parse("t", "\x93NUMPY\4\0\0\0\0\0", 12, &array), E_FORMAT);
    CHECK_TEXT(err_text(), "t: .npy version 4.0 is not read, only 1.0, 2.0 and 3.0");
    CHECK_INT(npy_parse("t", "\x93NUMPY\2\0\xFF\xFF\xFF\xFF", 12, &array), E_FORMAT);
    CHECK_TEXT(err_text(), "t: a header of 4294967295 bytes is more than the 1048576 allowed");
    CHECK_INT(npy_parse("t", "\x93NUMPY\2\0\0\0\0", 11, &array), E_FORMAT);
    CHECK_INT(npy_parse("t", "\x93NUMPY\1\0\x10\0", 10, &array), E_FORMAT);
    CHECK_INT(npy_parse("t", "", 0, &array), E_FORMAT);
    CHECK_INT(npy_read(pool, "no/such/file.npy", &array), E_IO);
    CHECK_INT(npy_write(path, NPY_F4, 1, (int64_t[]){ -1 }, ""), E_SHAPE);
    CHECK_INT(npy_write(path, NPY_F4, 2, (int64_t[]){ INT64_MAX, 2 }, ""), E_FORMAT);
    CHECK_INT(npy_write("no/such/file.npy", NPY_F4, 0, NULL, "1234"), E_IO);
}

int main(void)
{
    pool = pool_new(NULL, "test");
    snprintf(path, sizeof path, "test_npy_%ld.npy", (long)getpid());
    RUN(round_trip);
    RUN(accepted);
    RUN(refused);
    CHECK_OK(file_remove(path));
    pool_free(pool);
    return test_end();
}
