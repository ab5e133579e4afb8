/* crc32.h -- the CRC of zip and gzip (reflected polynomial 0xEDB88320). */
#ifndef BASE_CRC32_H
#define BASE_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* Of n bytes that follow those of `crc`; 0 for the first. */
uint32_t crc32_add(uint32_t crc, const void *bytes, size_t n);

#endif
