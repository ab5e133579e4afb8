/* zip.c -- fuzz target: the input as an archive, every member unpacked; as changes to an archive
 * that is whole; and as deflated data. */
#include "base/zip.h"

#include <stdlib.h>

#include "../archive.h"
#include "base/inflate.h"

static void fuzz_archive(const unsigned char *bytes, size_t n)
{
    Pool   *pool = pool_new(NULL, "fuzz");
    ZipFile zip;
    if (zip_parse(pool, "fuzz", bytes, n, &zip) == OK) {
        size_t stored = 0;
        for (int32_t i = 0; i < zip.n; i++) {
            const ZipMember     *m = &zip.members[i];
            const unsigned char *data;
            size_t               size;
            REQUIRE(zip_find(&zip, m->name) == m);
            REQUIRE(m->data >= bytes && m->packed <= (size_t)(bytes + n - m->data));
            stored += m->packed;
            if (m->size < 1 << 24)
                (void)zip_content(pool, &zip, m, ZIP_CHECK_STORED, &data, &size);
        }
        REQUIRE(stored <= n);
    }
    pool_free(pool);
}

/* Each three bytes of the input are a place and what stands there. */
static void fuzz_changed(const unsigned char *bytes, size_t n, int wide)
{
    static const Member members[] = {
        { .name = "a", .data = "alpha", .n = 5, .extra = 9 },
        { .name = "b", .data = "\x03\x00", .n = 2, .method = 8 },
        { .name = "c/d", .data = "gamma", .n = 5, .wide = 1 },
    };
    Pool    *pool = pool_new(NULL, "fuzz");
    Archive *a = archive(pool, members, 3, wide);
    for (size_t i = 0; i + 2 < n; i += 3)
        a->bytes[((size_t)bytes[i] << 8 | bytes[i + 1]) % a->n] = bytes[i + 2];
    unsigned char *exact = malloc(a->n);
    memcpy(exact, a->bytes, a->n);
    fuzz_archive(exact, a->n);
    free(exact);
    pool_free(pool);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    fuzz_archive(bytes, n);
    fuzz_changed(bytes, n, 0);
    fuzz_changed(bytes, n, 1);
    for (size_t room = 0; room < 100000; room = room * 7 + 11) {
        unsigned char *out = malloc(room + 1);
        (void)inflate_bytes(bytes, n, out, room);
        free(out);
    }
    return 0;
}
