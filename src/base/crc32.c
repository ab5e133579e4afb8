/* crc32.c -- eight bytes a turn, by eight tables (M. E. Kounavis and F. L. Berry, 2005). */
#include "base/crc32.h"

#include <pthread.h>
#include <string.h>

typedef uint32_t CrcTable[8][256];

static CrcTable       crc_zip, crc_castagnoli;
static pthread_once_t crc_made = PTHREAD_ONCE_INIT;

static void crc_fill(CrcTable table, uint32_t polynomial) /* reflected */
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++)
            c = c >> 1 ^ (c & 1 ? polynomial : 0);
        table[0][i] = c;
    }
    for (int t = 1; t < 8; t++)
        for (int i = 0; i < 256; i++)
            table[t][i] = table[t - 1][i] >> 8 ^ table[0][table[t - 1][i] & 0xFF];
}

static void crc_make(void)
{
    crc_fill(crc_zip, 0xEDB88320u);
    crc_fill(crc_castagnoli, 0x82F63B78u);
}

static uint32_t crc_add(CrcTable table, uint32_t crc, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    uint32_t             c = ~crc;
    for (; n >= 8; n -= 8, p += 8) {
        uint32_t low = c ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                            (uint32_t)p[3] << 24);
        c = table[7][low & 0xFF] ^ table[6][low >> 8 & 0xFF] ^ table[5][low >> 16 & 0xFF] ^
            table[4][low >> 24] ^ table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
    }
    for (; n; n--, p++)
        c = c >> 8 ^ table[0][(c ^ *p) & 0xFF];
    return ~c;
}

uint32_t crc32_add(uint32_t crc, const void *bytes, size_t n)
{
    pthread_once(&crc_made, crc_make);
    return crc_add(crc_zip, crc, bytes, n);
}

uint32_t crc32c_add(uint32_t crc, const void *bytes, size_t n)
{
    pthread_once(&crc_made, crc_make);
    return crc_add(crc_castagnoli, crc, bytes, n);
}
