/* Tests of base/safetensors: round trips, and every way a file can be wrong. */
#include "base/safetensors.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "test.h"

static Pool *pool;
static char  path[64];

/* A file of this header, its true length before it and n_data bytes behind. */
static Err parse(const char *header, size_t n_data, SafeFile *out)
{
    size_t         n = strlen(header);
    unsigned char *bytes = malloc(8 + n + n_data);
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)n >> 8 * i);
    memcpy(bytes + 8, header, n);
    memset(bytes + 8 + n, 0, n_data);
    Err err = safetensors_parse(pool, "t", bytes, 8 + n + n_data, out);
    free(bytes); /* its data is not looked at */
    return err;
}

static void refuse(const char *header, size_t n_data, const char *part)
{
    SafeFile file;
    if (!CHECK_INT(parse(header, n_data, &file), E_FORMAT))
        fprintf(stderr, "  the header was: %s\n", header);
    else if (!CHECK(strstr(err_text(), part) != NULL))
        fprintf(stderr, "  said:   %s\n  wanted: %s\n", err_text(), part);
}

static void round_trip(void)
{
    static const int64_t square[] = { 2, 3 }, none[] = { 4, 0, 5 }, three[] = { 3 };
    float                f[6] = { 1, -2.5f, 3e38f, (float)NAN, 0, 6 };
    double               d = 0.1;
    uint8_t              u[3] = { 1, 2, 255 };
    uint16_t             h[3] = { 0x3F80, 0, 0xFFFF };
    SafeTensor           tensors[] = {
                  { .name = "z.weight", .type = SAFE_F32, .rank = 2, .shape = square, .data = f },
                  { .name = "bytes", .type = SAFE_U8, .rank = 1, .shape = three, .data = u },
                  { .name = "a \"quoted\" \xC3\xA9",
                    .type = SAFE_BF16,
                    .rank = 1,
                    .shape = three,
                    .data = h },
                  { .name = "empty", .type = SAFE_I64, .rank = 3, .shape = none },
                  { .name = "scalar", .type = SAFE_F64, .data = &d },
                  { .name = "flags", .type = SAFE_BOOL, .rank = 1, .shape = three, .data = u },
    };
    static const char *const metadata[] = { "format", "pt", "step", "12", NULL };
    SafeFile                 file;
    CHECK_OK(safetensors_write(path, tensors, 6, metadata));
    CHECK_OK(safetensors_read(pool, path, &file));
    CHECK_INT(file.n, 6);
    CHECK_TEXT(file.path, path);
    CHECK_TEXT(json_get(file.metadata, "step")->text, "12");
    for (int i = 0; i < 6; i++) {
        const SafeTensor *t = safetensors_find(&file, tensors[i].name);
        if (!CHECK(t != NULL))
            continue;
        CHECK_INT(t->type, tensors[i].type);
        CHECK_INT(t->rank, tensors[i].rank);
        for (int k = 0; k < t->rank; k++)
            CHECK_INT(t->shape[k], tensors[i].shape[k]);
        CHECK_INT((uintptr_t)t->data % safe_type_bytes(t->type), 0);
        CHECK(!t->n_bytes || !memcmp(t->data, tensors[i].data, t->n_bytes));
    }
    CHECK_INT(safetensors_find(&file, "z.weight")->n_bytes, 24);
    CHECK(!safetensors_find(&file, "none"));
    CHECK(!safetensors_find(&file, "__metadata__"));
    for (int i = 1; i < file.n; i++)
        CHECK(strcmp(file.tensors[i - 1].name, file.tensors[i].name) < 0);

    char  *once, *twice; /* the order given does not matter */
    size_t n_once, n_twice;
    CHECK_OK(file_read(pool, path, &once, &n_once));
    SafeTensor other[6];
    for (int i = 0; i < 6; i++)
        other[i] = tensors[5 - i];
    CHECK_OK(safetensors_write(path, other, 6, metadata));
    CHECK_OK(file_read(pool, path, &twice, &n_twice));
    CHECK(n_once == n_twice && !memcmp(once, twice, n_once));
    CHECK_INT(once[0] % 8, 0);
    CHECK_TEXT(other[0].name, "flags"); /* the caller's list is left alone */

    for (size_t n = 0; n < n_once; n++) { /* every truncated file is refused */
        char *cut = malloc(n ? n : 1);
        memcpy(cut, once, n);
        CHECK_INT(safetensors_parse(pool, "cut", cut, n, &file), E_FORMAT);
        free(cut);
    }
    CHECK_OK(safetensors_write(path, NULL, 0, NULL));
    CHECK_OK(safetensors_read(pool, path, &file));
    CHECK(file.n == 0 && !file.metadata && !safetensors_find(&file, "x"));
}

static void accepted(void)
{
    SafeFile file;
    CHECK_OK(parse("{}", 0, &file));
    CHECK_OK(parse("{}      ", 0, &file));
    CHECK_OK(parse("{\"__metadata__\":{}}", 0, &file));
    CHECK(file.n == 0 && file.metadata->n == 0);
    CHECK_OK(parse("{\"a\":{\"shape\":[],\"data_offsets\":[0,2],\"dtype\":\"F16\"}}", 2, &file));
    CHECK_INT(file.tensors[0].rank, 0);
    CHECK_OK(parse("{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]},"
                   "\"a\":{\"dtype\":\"I16\",\"shape\":[1],\"data_offsets\":[0,2]},"
                   "\"e\":{\"dtype\":\"F8_E4M3\",\"shape\":[0],\"data_offsets\":[2,2]}}",
                   3, &file));
    CHECK_TEXT(file.tensors[0].name, "a");
    CHECK_OK(parse("{\"\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1],"
                   "\"data_offsets\":[0,1]}}",
                   1, &file));
    CHECK_INT(file.tensors[0].rank, 12);
}

#define ONE(type, shape, offsets)                                                                  \
    "{\"a\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

static void refused_headers(void)
{
    refuse("", 0, "does not begin with '{'");
    refuse("[]", 0, "does not begin with '{'");
    refuse(" {}", 0, "does not begin with '{'");
    refuse("{", 0, "t (header):1:2: expected a key");
    refuse("{} x", 0, "expected the end after the value");
    refuse("{}", 1, "1 bytes follow the last tensor");
    refuse("{\"a\":1}", 0, "tensor 'a' must be an object");
    refuse("{\"a\":{}}", 0, "'dtype' is missing");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[]}}", 4, "'data_offsets' is missing");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shapes\":[]}}", 4,
           "unknown key 'shapes', did you mean 'shape'?");
    refuse(ONE("F31", "[]", "[0,4]"), 4, "the dtype 'F31' is not known");
    refuse(ONE("f32", "[]", "[0,4]"), 4, "the dtype 'f32' is not known");
    refuse(ONE("F32", "{}", "[0,4]"), 4, "'shape' must be an array");
    refuse(ONE("F32", "[1.5]", "[0,4]"), 4, "item 1 of the array must be a whole number");
    refuse(ONE("F32", "[\"1\"]", "[0,4]"), 4, "item 1 of the array must be a whole number");
    refuse(ONE("F32", "[-1]", "[0,4]"), 4, "dimension -1 is negative");
    refuse(ONE("F32", "[-1,-1]", "[0,4]"), 4, "is negative");
    refuse(ONE("F32", "[1]", "[0]"), 4, "data_offsets must be [begin, end], not 1");
    refuse(ONE("F32", "[1]", "[0,4,4]"), 4, "data_offsets must be [begin, end], not 3");
    refuse(ONE("F32", "[1]", "[4,0]"), 4, "bytes 4 to 0 are not within");
    refuse(ONE("F32", "[1]", "[-4,0]"), 4, "are not within");
    refuse(ONE("F32", "[1]", "[0,5]"), 4, "are not within the file's 4 bytes");
    refuse(ONE("F32", "[1]", "[9223372036854775804,9223372036854775807]"), 4, "are not within");
    refuse(ONE("F32", "[1]", "[0,18446744073709551616]"), 4, "must be a whole number");
    refuse(ONE("F32", "[2]", "[0,4]"), 4, "its shape does not make the 4 bytes");
    refuse(ONE("F32", "[0]", "[0,4]"), 4, "its shape does not make the 4 bytes");
    refuse(ONE("U8", "[4294967296,4294967296]", "[0,0]"), 0, "its shape does not make");
    refuse(ONE("F32", "[4611686018427387904]", "[0,0]"), 0, "its shape does not make");
    refuse(ONE("F32", "[4611686018427387905,0]", "[0,0]"), 0, "its shape does not make");
    refuse(ONE("F32", "[1]", "[4,8]"), 8,
           "begins at byte 4 of the data, but the one before it ends at 0");
    refuse(ONE("F32", "[1]", "[0,4]"), 8, "4 bytes follow the last tensor");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
           "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
           3, "overlapping tensors");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
           "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
           2, "overlapping tensors");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
           "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}",
           3, "a hole");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
           "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
           2, "the key 'a' is here a second");
    refuse("{\"__metadata__\":[]}", 0, "'__metadata__' must be an object");
    refuse("{\"__metadata__\":{\"a\":1}}", 0,
           "__metadata__ holds texts only, but 'a' is a whole number");
    refuse("{\"a\xFF\":1}", 0, "not valid UTF-8");
}

static void refused_lengths(void)
{
    static const struct {
        uint64_t    length;
        const char *part;
    } cases[] = {
        { 100000001, "a header of 100000001 bytes is more than the 100000000 allowed" },
        { UINT64_MAX, "a header of 18446744073709551615 bytes is more" },
        { UINT64_MAX - 7, "is more than" },
        { 9, "the header has 9 bytes, but the file only 8 after its length" },
        { 100000000, "is it complete?" },
        { 0, "does not begin with '{'" },
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        unsigned char bytes[16] = "        {}      ";
        SafeFile      file;
        for (int i = 0; i < 8; i++)
            bytes[i] = (unsigned char)(cases[c].length >> 8 * i);
        CHECK_INT(safetensors_parse(pool, "t", bytes, 16, &file), E_FORMAT);
        if (!CHECK(strstr(err_text(), cases[c].part) != NULL))
            fprintf(stderr, "  said: %s\n", err_text());
    }
}

static void refused_writes(void)
{
    static const int64_t one[] = { 1 }, bad[] = { -1 }, huge[] = { INT64_MAX, 2 };
    SafeTensor           twins[] = {
                  { .name = "a", .type = SAFE_U8, .rank = 1, .shape = one, .data = "x" },
                  { .name = "a", .type = SAFE_F32, .rank = 1, .shape = one, .data = "xxxx" }
    };
    CHECK_INT(safetensors_write(path, twins, 2, NULL), E_FORMAT);
    CHECK_TEXT(err_text(), "two tensors are called 'a'; names must differ");
    CHECK_INT(
        safetensors_write(path, &(SafeTensor){ .name = "a", .rank = 1, .shape = bad }, 1, NULL),
        E_SHAPE);
    CHECK_INT(
        safetensors_write(path, &(SafeTensor){ .name = "a", .rank = 2, .shape = huge }, 1, NULL),
        E_SHAPE);
    CHECK_INT(safetensors_write(path, &(SafeTensor){ .name = "__metadata__" }, 1, NULL), E_FORMAT);
    CHECK_INT(safetensors_write("no/such/folder/x", NULL, 0, NULL), E_IO);
    CHECK_INT(safetensors_read(pool, "no/such/folder/x", &(SafeFile){ 0 }), E_IO);

    static const int64_t large[] = { 1000000 };
    struct rlimit        limit, small = { .rlim_cur = 100000 };
    CHECK_OK(safetensors_write(path, twins, 1, NULL));
    getrlimit(RLIMIT_FSIZE, &limit);
    small.rlim_max = limit.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    Err err = safetensors_write(path,
                                &(SafeTensor){ .name = "big",
                                               .type = SAFE_U8,
                                               .rank = 1,
                                               .shape = large,
                                               .data = NEWN(pool, char, 1000000) },
                                1, NULL);
    setrlimit(RLIMIT_FSIZE, &limit);
    CHECK_INT(err, E_IO);
    SafeFile file;
    CHECK_OK(safetensors_read(pool, path, &file)); /* the old one is still whole */
    CHECK_TEXT(file.tensors[0].name, "a");
}

static void many_tensors(void)
{
    enum { N = 5000 };
    static const int64_t shape[] = { 3 };
    SafeTensor          *tensors = NEWN(pool, SafeTensor, N);
    float               *data = NEWN(pool, float, 3 * N);
    for (int i = 0; i < N; i++) {
        data[3 * i] = (float)i;
        tensors[i] = (SafeTensor){ .name = pool_print(pool, "blocks.%d.weight", i),
                                   .type = SAFE_F32,
                                   .rank = 1,
                                   .shape = shape,
                                   .data = data + 3 * i };
    }
    SafeFile file;
    CHECK_OK(safetensors_write(path, tensors, N, NULL));
    CHECK_OK(safetensors_read(pool, path, &file));
    CHECK_INT(file.n, N);
    for (int i = 0; i < N; i++)
        CHECK(*(const float *)safetensors_find(&file, tensors[i].name)->data == (float)i);
}

int main(void)
{
    pool = pool_new(NULL, "test");
    snprintf(path, sizeof path, "test_safetensors_%ld", (long)getpid());
    RUN(round_trip);
    RUN(accepted);
    RUN(refused_headers);
    RUN(refused_lengths);
    RUN(refused_writes);
    RUN(many_tensors);
    CHECK_OK(file_remove(path));
    pool_free(pool);
    return test_end();
}
