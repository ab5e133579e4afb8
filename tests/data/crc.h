/* crc.h -- the CRC-32 that PNG uses, written plainly: a reference for the library's, and a short
 * name for expected pixels. */
#ifndef TESTS_DATA_CRC_H
#define TESTS_DATA_CRC_H

#include <stddef.h>
#include <stdint.h>

static inline uint32_t crc_of(const void *bytes, size_t n)
{
    uint32_t crc = 0xFFFFFFFFu;
    for (size_t i = 0; i < n; i++) {
        crc ^= ((const unsigned char *)bytes)[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    }
    return ~crc;
}

#endif
