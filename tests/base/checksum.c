/* Tests of base/checksum: XXH64 against published values, added at once and in chunks. */
#include "test.h"

#include "base/checksum.h"

static uint64_t sum_of(const void *bytes, size_t n)
{
    Checksum sum = checksum_begin();
    checksum_add(&sum, bytes, n);
    return checksum_end(&sum);
}

static void as_published(void)
{
    static const struct {
        const char *text;
        uint64_t    sum;
    } rows[] = {
        { "", 0xef46db3751d8e999u },
        { "a", 0xd24ec4f1a98c6e5bu },
        { "abc", 0x44bc2cf5ad770999u },
        { "Nobody inspects the spammish repetition", 0xfbcea83c8a378bf1u },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK(sum_of(rows[i].text, strlen(rows[i].text)) == rows[i].sum);
}

static void in_chunks(void)
{
    unsigned char bytes[300];
    for (int i = 0; i < 300; i++)
        bytes[i] = (unsigned char)(i * 37 + i / 7);
    for (size_t n = 0; n <= 300; n++) {
        uint64_t whole = sum_of(bytes, n);
        for (size_t chunk = 1; chunk < 70; chunk += 6) {
            Checksum sum = checksum_begin();
            for (size_t at = 0; at < n; at += chunk) {
                checksum_add(&sum, bytes + at, n - at < chunk ? n - at : chunk);
                checksum_end(&sum); /* looking changes nothing */
            }
            CHECK(checksum_end(&sum) == whole);
        }
    }
}

static void every_bit_counts(void)
{
    unsigned char bytes[77] = { 0 };
    uint64_t      plain = sum_of(bytes, sizeof bytes);
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        CHECK(sum_of(bytes, sizeof bytes) != plain);
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    CHECK(sum_of(bytes, sizeof bytes - 1) != plain);
}

int main(void)
{
    RUN(as_published);
    RUN(in_chunks);
    RUN(every_bit_counts);
    return test_end();
}
