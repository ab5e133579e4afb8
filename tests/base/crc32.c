/* Tests of base/crc32: published check values, and bytes that are added in any chunks. */
#include "test.h"

#include "base/crc32.h"

static void as_published(void)
{
    const char *digits = "123456789"; /* the check value of both catalogues */
    CHECK_INT(crc32_add(0, digits, 9), 0xCBF43926u);
    CHECK_INT(crc32c_add(0, digits, 9), 0xE3069283u);
    CHECK_INT(crc32_add(0, "", 0), 0);
    unsigned char zeros[32] = { 0 }; /* RFC 3720, B.4 */
    CHECK_INT(crc32c_add(0, zeros, sizeof zeros), 0x8A9136AAu);
    memset(zeros, 0xFF, sizeof zeros);
    CHECK_INT(crc32c_add(0, zeros, sizeof zeros), 0x62A8AB43u);
}

/* The fast loop takes several bytes at once: every length and every place to divide it. */
static void divided(void)
{
    unsigned char bytes[70];
    for (int i = 0; i < 70; i++)
        bytes[i] = (unsigned char)(i * 37 + 11);
    for (size_t n = 0; n <= sizeof bytes; n++)
        for (size_t at = 0; at <= n; at++) {
            CHECK(crc32_add(crc32_add(0, bytes, at), bytes + at, n - at) == crc32_add(0, bytes, n));
            CHECK(crc32c_add(crc32c_add(0, bytes, at), bytes + at, n - at) ==
                  crc32c_add(0, bytes, n));
        }
}

int main(void)
{
    RUN(as_published);
    RUN(divided);
    return test_end();
}
