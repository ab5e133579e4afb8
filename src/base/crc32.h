/* crc32.h -- two cyclic redundancy checks of 32 bits. */
#ifndef BASE_CRC32_H
#define BASE_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* Of n bytes that follow those of `crc`; 0 for the first. */
uint32_t crc32_add(uint32_t crc, const void *bytes, size_t n);  /* zip, gzip: 0xEDB88320 */
uint32_t crc32c_add(uint32_t crc, const void *bytes, size_t n); /* TFRecord: 0x82F63B78 */

#endif
