/* archive.h -- writes zip archives in memory, for tests: stored, deflated data as given, padded as
 * PyTorch does, zip64, and with fields that are wrong. */
#ifndef TESTS_ARCHIVE_H
#define TESTS_ARCHIVE_H

#include <string.h>

#include "base/crc32.h"
#include "base/pool.h"

typedef struct Member {
    const char *name;
    const void *data;
    size_t      n, size;                    /* as stored; unpacked (0: the same) */
    int         method, flags, disk, extra; /* extra: bytes of padding before the data */
    int         wide, no_crc;
    uint32_t    crc; /* of deflated data: of what they unpack to */
} Member;

typedef struct Archive {
    unsigned char bytes[65536];
    size_t        n, directory, end;
} Archive;

static inline void put(Archive *a, uint64_t value, int n)
{
    for (int i = 0; i < n; i++)
        a->bytes[a->n++] = (unsigned char)(value >> 8 * i);
}

static inline void put_bytes(Archive *a, const void *bytes, size_t n)
{
    memcpy(a->bytes + a->n, bytes, n);
    a->n += n;
}

static inline uint32_t member_crc(const Member *m)
{
    if (m->no_crc)
        return 0;
    return m->method == 8 ? m->crc : crc32_add(0, m->data, m->n);
}

static inline void put_header(Archive *a, const Member *m)
{
    put_bytes(a, "PK\3\4", 4);
    put(a, 45, 2);
    put(a, (uint64_t)m->flags, 2);
    put(a, (uint64_t)m->method, 2);
    put(a, 0, 4);
    put(a, member_crc(m), 4);
    put(a, m->wide ? UINT32_MAX : m->n, 4);
    put(a, m->wide ? UINT32_MAX : m->size ? m->size : m->n, 4);
    put(a, strlen(m->name), 2);
    put(a, m->extra ? (uint64_t)m->extra + 4 : 0, 2);
    put_bytes(a, m->name, strlen(m->name));
    if (m->extra) { /* PyTorch aligns data so */
        put_bytes(a, "FB", 2);
        put(a, (uint64_t)m->extra, 2);
        memset(a->bytes + a->n, 'Z', (size_t)m->extra);
        a->n += (size_t)m->extra;
    }
    put_bytes(a, m->data, m->n);
}

static inline void put_entry(Archive *a, const Member *m, size_t header)
{
    put_bytes(a, "PK\1\2", 4);
    put(a, 45, 2);
    put(a, 45, 2);
    put(a, (uint64_t)m->flags, 2);
    put(a, (uint64_t)m->method, 2);
    put(a, 0, 4);
    put(a, member_crc(m), 4);
    put(a, m->wide ? UINT32_MAX : m->n, 4);
    put(a, m->wide ? UINT32_MAX : m->size ? m->size : m->n, 4);
    put(a, strlen(m->name), 2);
    put(a, m->wide ? 28 : 0, 2);
    put(a, 0, 2);
    put(a, (uint64_t)m->disk, 2);
    put(a, 0, 6);
    put(a, m->wide ? UINT32_MAX : header, 4);
    put_bytes(a, m->name, strlen(m->name));
    if (m->wide) {
        put(a, 1, 2);
        put(a, 24, 2);
        put(a, m->size ? m->size : m->n, 8);
        put(a, m->n, 8);
        put(a, header, 8);
    }
}

static inline Archive *archive(Pool *pool, const Member *members, int n, int wide)
{
    Archive *a = NEW(pool, Archive);
    size_t   headers[8];
    for (int i = 0; i < n; i++) {
        headers[i] = a->n;
        put_header(a, &members[i]);
    }
    a->directory = a->n;
    for (int i = 0; i < n; i++)
        put_entry(a, &members[i], headers[i]);
    size_t bytes = a->n - a->directory, end64 = a->n;
    if (wide) {
        put_bytes(a, "PK\6\6", 4);
        put(a, 44, 8);
        put(a, 0x2d002d, 4);
        put(a, 0, 8);
        put(a, (uint64_t)n, 8);
        put(a, (uint64_t)n, 8);
        put(a, bytes, 8);
        put(a, a->directory, 8);
        put_bytes(a, "PK\6\7", 4);
        put(a, 0, 4);
        put(a, end64, 8);
        put(a, 1, 4);
    }
    a->end = a->n;
    put_bytes(a, "PK\5\6", 4);
    put(a, 0, 4);
    put(a, wide ? 0xFFFF : (uint64_t)n, 2);
    put(a, wide ? 0xFFFF : (uint64_t)n, 2);
    put(a, wide ? UINT32_MAX : bytes, 4);
    put(a, wide ? UINT32_MAX : a->directory, 4);
    put(a, 0, 2);
    return a;
}

#endif
