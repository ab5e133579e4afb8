/* endian.h -- numbers of 1 to 8 bytes as files hold them: lowest byte first, or highest first. */
#ifndef BASE_ENDIAN_H
#define BASE_ENDIAN_H

#include <stdint.h>

static inline uint64_t little_get(const unsigned char *from, int n)
{
    uint64_t number = 0;
    for (int i = n; i-- > 0;)
        number = number << 8 | from[i];
    return number;
}

static inline uint64_t big_get(const unsigned char *from, int n)
{
    uint64_t number = 0;
    for (int i = 0; i < n; i++)
        number = number << 8 | from[i];
    return number;
}

static inline void little_put(unsigned char *to, uint64_t number, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = (unsigned char)(number >> 8 * i);
}

static inline void big_put(unsigned char *to, uint64_t number, int n)
{
    for (int i = n; i-- > 0; number >>= 8)
        to[i] = (unsigned char)number;
}

static inline uint16_t little16(const unsigned char *p) { return (uint16_t)little_get(p, 2); }
static inline uint32_t little32(const unsigned char *p) { return (uint32_t)little_get(p, 4); }
static inline uint64_t little64(const unsigned char *p) { return little_get(p, 8); }
static inline uint16_t big16(const unsigned char *p) { return (uint16_t)big_get(p, 2); }
static inline uint32_t big32(const unsigned char *p) { return (uint32_t)big_get(p, 4); }

#endif
