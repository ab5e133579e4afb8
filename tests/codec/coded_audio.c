/* coded_audio.c -- a .plz file is read as it was written; any byte changed, removed or added is
 * refused. */
#include "test.h"

#include "base/checksum.h"
#include "base/file.h"
#include "codec/coded_audio.h"

#define PATH "coded_audio.plz"

static CodedAudio some(Pool *pool)
{
    CodedAudio a = { .weights = 0x123456789abcdef0u,
                     .samples = 77,
                     .step = 300,
                     .averaged = true,
                     .frames = 20,
                     .threads = 2,
                     .rate = 8000,
                     .channels = 2,
                     .bits = 16,
                     .block_steps = 16,
                     .isa = "x86-64-v3",
                     .head = (const uint8_t *)"headhead",
                     .n_head = 8,
                     .tail = (const uint8_t *)"end",
                     .n_tail = 3,
                     .n_blocks = 3 };
    a.blocks = NEWN(pool, CodedBlock, 3);
    a.blocks[0] = (CodedBlock){ (const uint8_t *)"abc", 3 };
    a.blocks[2] = (CodedBlock){ (const uint8_t *)"defgh", 5 };
    return a;
}

static unsigned char *written(Pool *pool, size_t *n)
{
    CodedAudio a = some(pool);
    char      *bytes;
    CHECK_OK(coded_write(PATH, &a));
    CHECK_OK(file_read(pool, PATH, &bytes, n));
    CHECK_INT(*n, coded_bytes(&a));
    return (unsigned char *)bytes;
}

static void read_as_written(void)
{
    Pool          *pool = pool_new(NULL, "coded");
    size_t         n;
    unsigned char *bytes = written(pool, &n);
    CodedAudio     a, b = some(pool);
    CHECK_OK(coded_parse(pool, PATH, bytes, n, &a));
    CHECK(a.weights == b.weights && a.samples == b.samples && a.step == b.step && a.averaged);
    CHECK_INT(a.frames, 20);
    CHECK_INT(a.threads, 2);
    CHECK_INT(a.rate, 8000);
    CHECK_INT(a.channels, 2);
    CHECK_INT(a.bits, 16);
    CHECK_TEXT(a.isa, "x86-64-v3");
    CHECK_INT(a.n_blocks, 3);
    CHECK(a.n_head == 8 && !memcmp(a.head, "headhead", 8) && a.n_tail == 3);
    CHECK(a.blocks[0].n == 3 && a.blocks[1].n == 0 && !memcmp(a.blocks[2].bytes, "defgh", 5));
    pool_free(pool);
}

static void refuses(void)
{
    Pool          *pool = pool_new(NULL, "coded");
    size_t         n;
    unsigned char *bytes = written(pool, &n), *copy = NEWN(pool, unsigned char, n + 1);
    CodedAudio     a;
    int            taken = 0;
    for (size_t i = 0; i < n; i++)
        for (int bit = 0; bit < 8; bit++) {
            memcpy(copy, bytes, n);
            copy[i] ^= (unsigned char)(1 << bit);
            taken += !coded_parse(pool, PATH, copy, n, &a);
        }
    for (size_t i = 0; i < n; i++)
        taken += !coded_parse(pool, PATH, bytes, i, &a);
    memcpy(copy, bytes, n);
    taken += !coded_parse(pool, PATH, copy, n + 1, &a);
    CHECK_INT(taken, 0);
    pool_free(pool);
}

/* Sizes that would overflow or ask for terabytes, with a checksum that is right. */
static void refuses_sizes(void)
{
    static const struct {
        int         at, bytes;
        uint64_t    value;
        const char *says;
    } wrong[] = { { 40, 8, UINT64_MAX, "more samples" },
                  { 40, 8, (uint64_t)1 << 62, "more samples" },
                  { 40, 8, 0x3fffff00u, "too short" },
                  { 84, 4, 0, "no compression" },
                  { 88, 4, 0xffffffffu, "shorter" },
                  { 92, 4, 0xfffffff0u, "shorter" },
                  { 96, 4, 0xffffffffu, "shorter" },
                  { 96, 4, 2, "bytes follow" },
                  { 8, 4, 2, "version 2" },
                  { 12, 4, 2, "no compression" },
                  { 48, 4, 0, "no compression" },
                  { 48, 4, 100000, "no compression" },
                  { 60, 1, 27, "no compression" },
                  { 56, 2, 3, "no compression" } };
    Pool          *pool = pool_new(NULL, "coded");
    size_t         n;
    unsigned char *bytes = written(pool, &n), *copy = NEWN(pool, unsigned char, n);
    CodedAudio     a;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        Checksum sum = checksum_begin();
        memcpy(copy, bytes, n);
        for (int k = 0; k < wrong[i].bytes; k++)
            copy[wrong[i].at + k] = (unsigned char)(wrong[i].value >> 8 * k);
        checksum_add(&sum, copy, n - 8);
        for (int k = 0; k < 8; k++)
            copy[n - 8 + (size_t)k] = (unsigned char)(checksum_end(&sum) >> 8 * k);
        CHECK_INT(coded_parse(pool, PATH, copy, n, &a), E_FORMAT);
        if (!CHECK(strstr(err_text(), wrong[i].says) != NULL))
            fprintf(stderr, "  case %zu said: %s\n", i, err_text());
    }
    CHECK_INT(coded_parse(pool, PATH, (const unsigned char *)"RIFF....WAVE", 12, &a), E_USAGE);
    pool_free(pool);
}

int main(void)
{
    RUN(read_as_written);
    RUN(refuses);
    RUN(refuses_sizes);
    return test_end();
}
