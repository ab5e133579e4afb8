/* hash.h -- FNV-1a: a digest of bytes, the same on every machine and in every run. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HASH_EMPTY 0xcbf29ce484222325u

static inline uint64_t hash_bytes(uint64_t hash, const void *data, size_t n)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

static inline uint64_t hash_int(uint64_t hash, int64_t number)
{
    return hash_bytes(hash, &number, sizeof number);
}
static inline uint64_t hash_text(uint64_t hash, const char *text)
{
    return hash_bytes(hash, text, strlen(text) + 1);
}

#endif
