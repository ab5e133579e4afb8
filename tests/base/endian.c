/* Tests of base/endian: the order of bytes, widths of 1 to 8, and that what is put is got. */
#include "test.h"

#include "base/endian.h"

#include <string.h>

static void in_order(void)
{
    static const unsigned char bytes[] = { 0x81, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0xf8 };
    CHECK_INT((int64_t)little_get(bytes, 3), 0x030281);
    CHECK_INT((int64_t)big_get(bytes, 3), 0x810203);
    CHECK_INT(little16(bytes), 0x0281);
    CHECK_INT(big16(bytes), 0x8102);
    CHECK_INT(little32(bytes), 0x04030281);
    CHECK_INT(big32(bytes), 0x81020304); /* the sign bit of an int is one of 32 here */
    CHECK(little64(bytes) == 0xf807060504030281u);
    CHECK_INT((int64_t)little_get(bytes, 0), 0);
}

static void put_and_got(void)
{
    const uint64_t number = 0x8899aabbccddeeffu;
    for (int n = 1; n <= 8; n++) {
        unsigned char little[9] = { 0 }, big[9] = { 0 };
        uint64_t      low = n == 8 ? number : number & ((UINT64_C(1) << 8 * n) - 1);
        little_put(little, number, n);
        big_put(big, number, n);
        CHECK(little_get(little, n) == low);
        CHECK(big_get(big, n) == low);
        CHECK_INT(little[0], 0xff);
        CHECK_INT(big[n - 1], 0xff);
        CHECK_INT(little[n], 0); /* nothing behind it */
        CHECK_INT(big[n], 0);
    }
}

int main(void)
{
    RUN(in_order);
    RUN(put_and_got);
    return test_end();
}
