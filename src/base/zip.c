/* zip.c -- the directory at the archive's end, the header before each member, and its content.
 *
 * The format: APPNOTE.TXT 6.3, sections 4.3 and 4.5.3. Numbers are little endian. Nothing of the
 * file is believed before it was compared with the file's length.
 */
#include "base/zip.h"

#include <stdlib.h>
#include <string.h>

#include "base/crc32.h"
#include "base/endian.h"
#include "base/file.h"
#include "base/inflate.h"
#include "base/text.h"

enum {
    END_BYTES = 22,
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    ENTRY_BYTES = 46,
    HEADER_BYTES = 30,
    COMMENT_MAX = 65535,
    METHOD_STORED = 0,
    METHOD_DEFLATED = 8,
    FLAG_ENCRYPTED = 1,
    EXTRA_ZIP64 = 1,
    RATIO_MAX = 1032,  /* what deflate can reach at all */
    RATIO_LARGE = 200, /* what is believed of a member above LARGE */
    LARGE = 256 << 20
};

typedef struct ZipIn {
    const char          *path;
    const unsigned char *bytes;
    size_t               n;
    uint64_t             directory, directory_bytes, n_entries;
} ZipIn;

static Err zip_damaged(const ZipIn *in, const char *what)
{
    return fail(E_FORMAT, "%s: %s; the archive is damaged or incomplete", in->path, what);
}

static Err zip_split(const ZipIn *in)
{
    return fail(E_FORMAT, "%s is one part of a split archive; join its parts first", in->path);
}

bool zip_likely(const void *bytes, size_t n)
{
    return n >= 4 && (!memcmp(bytes, "PK\3\4", 4) || !memcmp(bytes, "PK\5\6", 4));
}

/* The last end record whose comment reaches exactly to the end of the file. */
static const unsigned char *zip_end(const ZipIn *in)
{
    if (in->n < END_BYTES)
        return NULL;
    size_t last = in->n - END_BYTES, first = last > COMMENT_MAX ? last - COMMENT_MAX : 0;
    for (size_t at = last + 1; at-- > first;) {
        const unsigned char *p = in->bytes + at;
        if (!memcmp(p, "PK\5\6", 4) && little16(p + 20) == last - at)
            return p;
    }
    return NULL;
}

/* Where the directory is: in the end record, or, where that has no room for it, in zip64's. */
static Err zip_directory(ZipIn *in)
{
    const unsigned char *end = zip_end(in);
    if (!end && !zip_likely(in->bytes, in->n))
        return fail(E_FORMAT, "%s is not a zip archive", in->path);
    if (!end)
        return zip_damaged(in, "its directory, which stands at the end, is missing");
    uint32_t disk = little16(end + 4), disk_of = little16(end + 6);
    uint64_t here = little16(end + 8);
    in->n_entries = little16(end + 10);
    in->directory_bytes = little32(end + 12);
    in->directory = little32(end + 16);
    uint64_t before = (uint64_t)(end - in->bytes);

    const unsigned char *locator = before >= LOCATOR_BYTES ? end - LOCATOR_BYTES : NULL;
    if (locator && !memcmp(locator, "PK\6\7", 4)) {
        uint64_t at = little64(locator + 8);
        if (before < LOCATOR_BYTES + END64_BYTES || at > before - LOCATOR_BYTES - END64_BYTES ||
            memcmp(in->bytes + at, "PK\6\6", 4) != 0)
            return zip_damaged(in, "its zip64 directory is not where it should be");
        const unsigned char *end64 = in->bytes + at;
        if (little32(locator + 16) > 1)
            return zip_split(in);
        disk = little32(end64 + 16);
        disk_of = little32(end64 + 20);
        here = little64(end64 + 24);
        in->n_entries = little64(end64 + 32);
        in->directory_bytes = little64(end64 + 40);
        in->directory = little64(end64 + 48);
        before = at;
    }
    if (disk || disk_of || here != in->n_entries)
        return zip_split(in);
    if (in->directory > before || in->directory_bytes > before - in->directory)
        return zip_damaged(in, "its directory reaches past its end");
    if (in->n_entries > in->directory_bytes / ENTRY_BYTES || in->n_entries > INT32_MAX)
        return zip_damaged(in, "its directory has more entries than room");
    return OK;
}

/* Sizes of 0xFFFFFFFF stand in zip64's extra field, in this order, only those. */
static Err zip_wide(const ZipIn *in, const char *name, const unsigned char *extra, size_t n,
                    uint64_t *size, uint64_t *packed, uint64_t *header)
{
    uint64_t *wide[3] = { size, packed, header };
    while (n >= 4) {
        uint32_t             id = little16(extra), length = little16(extra + 2);
        const unsigned char *p = extra + 4, *end = p + length;
        if (length > n - 4)
            return OK; /* padding that is no field: other readers accept it too */
        for (int i = 0; id == EXTRA_ZIP64 && i < 3; i++)
            if (*wide[i] == UINT32_MAX) {
                if (end - p < 8)
                    return fail(E_FORMAT, "%s: the zip64 sizes of '%.200s' are cut off", in->path,
                                name);
                *wide[i] = little64(p);
                p += 8;
            }
        extra += 4 + length;
        n -= 4 + length;
    }
    return OK;
}

/* The content follows the header before it, whose name and extra field have their own lengths. */
static Err zip_place(const ZipIn *in, uint64_t header, ZipMember *m, const unsigned char **start)
{
    const unsigned char *p = in->bytes + header;
    if (in->directory < HEADER_BYTES || header > in->directory - HEADER_BYTES ||
        memcmp(p, "PK\3\4", 4) != 0)
        return fail(E_FORMAT,
                    "%s: '%.200s' is not where the directory says; the archive is damaged",
                    in->path, m->name);
    uint64_t data = header + HEADER_BYTES + little16(p + 26) + little16(p + 28);
    if (data > in->directory || m->packed > in->directory - data)
        return fail(E_FORMAT,
                    "%s: '%.200s' has %zu bytes, which reach into the directory; the archive is "
                    "damaged or incomplete",
                    in->path, m->name, m->packed);
    m->data = in->bytes + data;
    *start = p;
    return OK;
}

static Err zip_size_check(const ZipIn *in, const ZipMember *m)
{
    uint64_t most = m->size > LARGE ? RATIO_LARGE : RATIO_MAX;
    if (!m->deflated && m->size != m->packed)
        return fail(E_FORMAT, "%s: '%.200s' is stored, but its two sizes are %zu and %zu", in->path,
                    m->name, m->packed, m->size);
    if (m->deflated && m->size > most && (m->size - 1) / most >= m->packed)
        return fail(E_FORMAT,
                    "%s: '%.200s' would grow from %s to %s; if that is meant, store it without "
                    "compression (zip -0)",
                    in->path, m->name, bytes_text((int64_t)m->packed),
                    bytes_text((int64_t)m->size));
    return OK;
}

/* One entry of the directory; *at then follows it. */
static Err zip_entry(Pool *pool, const ZipIn *in, const unsigned char **at, ZipMember *m,
                     const unsigned char **start)
{
    const unsigned char *p = *at, *end = in->bytes + in->directory + in->directory_bytes;
    if (end - p < ENTRY_BYTES || memcmp(p, "PK\1\2", 4) != 0)
        return zip_damaged(in, "its directory ends early");
    uint32_t flags = little16(p + 8), method = little16(p + 10), disk = little16(p + 34);
    uint64_t packed = little32(p + 20), size = little32(p + 24), header = little32(p + 42);
    size_t   n_name = little16(p + 28), n_extra = little16(p + 30), n_comment = little16(p + 32);
    if ((size_t)(end - p) - ENTRY_BYTES < n_name + n_extra + n_comment)
        return zip_damaged(in, "its directory ends early");
    const char *name = (const char *)p + ENTRY_BYTES;
    if (memchr(name, '\0', n_name))
        return zip_damaged(in, "a name in its directory has a zero byte");
    m->name = pool_textn(pool, name, n_name);
    TRY(zip_wide(in, m->name, p + ENTRY_BYTES + n_name, n_extra, &size, &packed, &header));
    if (flags & FLAG_ENCRYPTED)
        return fail(E_FORMAT, "%s: '%.200s' is encrypted; unpack and pack it without a password",
                    in->path, m->name);
    if (method != METHOD_STORED && method != METHOD_DEFLATED)
        return fail(E_FORMAT,
                    "%s: '%.200s' is compressed by method %u; only stored and deflated members "
                    "can be read",
                    in->path, m->name, method);
    if (disk != 0 && disk != 0xFFFF)
        return zip_split(in);
    m->crc = little32(p + 16);
    m->deflated = method == METHOD_DEFLATED;
    m->packed = (size_t)packed;
    m->size = (size_t)size;
    TRY(zip_place(in, header, m, start));
    TRY(zip_size_check(in, m));
    *at = p + ENTRY_BYTES + n_name + n_extra + n_comment;
    return OK;
}

static int zip_by_name(const void *a, const void *b)
{
    return strcmp((*(const ZipMember *const *)a)->name, (*(const ZipMember *const *)b)->name);
}

typedef struct ZipSpan { /* of a member with its header */
    const unsigned char *start, *end;
    const char          *name;
} ZipSpan;

static int zip_by_place(const void *a, const void *b)
{
    const ZipSpan *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* Members that share bytes are how a small archive becomes an endless one. */
static Err zip_no_overlap(const ZipIn *in, ZipSpan *spans, int32_t n)
{
    if (n)
        qsort(spans, (size_t)n, sizeof *spans, zip_by_place);
    for (int32_t i = 1; i < n; i++)
        if (spans[i].start < spans[i - 1].end)
            return fail(E_FORMAT, "%s: '%.200s' and '%.200s' overlap; the archive is damaged",
                        in->path, spans[i - 1].name, spans[i].name);
    return OK;
}

static Err zip_members(Pool *pool, Pool *temp, const ZipIn *in, ZipFile *out)
{
    int32_t              n = (int32_t)in->n_entries;
    ZipMember           *members = NEWN(pool, ZipMember, n);
    const ZipMember    **by_name = NEWN(pool, const ZipMember *, n);
    ZipSpan             *spans = NEWN(temp, ZipSpan, n);
    const unsigned char *at = in->bytes + in->directory;
    for (int32_t i = 0; i < n; i++) {
        TRY(zip_entry(pool, in, &at, &members[i], &spans[i].start));
        spans[i].end = members[i].data + members[i].packed;
        spans[i].name = members[i].name;
        by_name[i] = &members[i];
    }
    TRY(zip_no_overlap(in, spans, n));
    if (n)
        qsort(by_name, (size_t)n, sizeof *by_name, zip_by_name);
    for (int32_t i = 1; i < n; i++)
        if (!strcmp(by_name[i - 1]->name, by_name[i]->name))
            return fail(E_FORMAT, "%s: '%.200s' is in the archive twice", in->path,
                        by_name[i]->name);
    *out = (ZipFile){ pool_text(pool, in->path), n, members, by_name };
    return OK;
}

Err zip_parse(Pool *pool, const char *name, const void *bytes, size_t n, ZipFile *out)
{
    ZipIn in = { .path = name, .bytes = bytes, .n = n };
    TRY(zip_directory(&in));
    Pool *temp = pool_new(NULL, "zip workspace");
    Err   err = zip_members(pool, temp, &in, out);
    pool_free(temp);
    return err;
}

Err zip_read(Pool *pool, const char *path, ZipFile *out)
{
    MapFile map;
    TRY(file_map(pool, path, &map));
    return zip_parse(pool, path, map.bytes, map.n, out);
}

const ZipMember *zip_find(const ZipFile *zip, const char *name)
{
    int32_t low = 0, high = zip->n;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        int     order = strcmp(zip->by_name[middle]->name, name);
        if (!order)
            return zip->by_name[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

Err zip_content(Pool *pool, const ZipFile *zip, const ZipMember *m, int flags,
                const unsigned char **bytes, size_t *n)
{
    *bytes = m->data;
    *n = m->size;
    if (m->deflated) {
        unsigned char *room = pool_alloc(pool, m->size + 1, 1); /* a '\0' follows texts */
        const char    *wrong = inflate_bytes(m->data, m->packed, room, m->size);
        if (wrong)
            return fail(E_FORMAT, "%s: '%.200s' cannot be unpacked: %s; the archive is damaged",
                        zip->path, m->name, wrong);
        *bytes = room;
    }
    /* PyTorch writes 0 where it was told not to compute the sum */
    bool check = m->deflated || ((flags & ZIP_CHECK_STORED) && m->crc);
    if (check && crc32_add(0, *bytes, m->size) != m->crc)
        return fail(E_FORMAT, "%s: the checksum of '%.200s' is wrong; the archive is damaged",
                    zip->path, m->name);
    return OK;
}
