/* crc32.c -- eight bytes a turn, by eight tables (M. E. Kounavis and F. L. Berry, 2005). */
#include "base/crc32.h"

#include <pthread.h>
#include <string.h>

static uint32_t       crc_table[8][256];
static pthread_once_t crc_made = PTHREAD_ONCE_INIT;

static void crc_make(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++)
            c = c >> 1 ^ (c & 1 ? 0xEDB88320u : 0);
        crc_table[0][i] = c;
    }
    for (int t = 1; t < 8; t++)
        for (int i = 0; i < 256; i++)
            crc_table[t][i] = crc_table[t - 1][i] >> 8 ^ crc_table[0][crc_table[t - 1][i] & 0xFF];
}

uint32_t crc32_add(uint32_t crc, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    pthread_once(&crc_made, crc_make);
    uint32_t c = ~crc;
    for (; n >= 8; n -= 8, p += 8) {
        uint32_t low = c ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                            (uint32_t)p[3] << 24);
        c = crc_table[7][low & 0xFF] ^ crc_table[6][low >> 8 & 0xFF] ^
            crc_table[5][low >> 16 & 0xFF] ^ crc_table[4][low >> 24] ^ crc_table[3][p[4]] ^
            crc_table[2][p[5]] ^ crc_table[1][p[6]] ^ crc_table[0][p[7]];
    }
    for (; n; n--, p++)
        c = c >> 8 ^ crc_table[0][(c ^ *p) & 0xFF];
    return ~c;
}
