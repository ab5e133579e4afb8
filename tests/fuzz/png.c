/* png.c -- fuzz target: any bytes are an error, or an image that decodes within the workspace that
 * png_parse asks for, and row by row to the same samples. The input is used as a file, and as changes to a good file with its checksums made right. */
#include "data/png.h"
#include "data/strips.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { MAX_ROOM = 4 << 20, HEAD = 8, CHUNK = 12 }; /* larger images would only be slower */

/* Rows with their alpha; without one they are those of the raster. */
static void try_rows(const unsigned char *bytes, size_t n, const Raster *r)
{
    Pool   *pool = pool_new(NULL, "fuzz");
    Strips *strips;
    Err     err = strips_open_bytes(pool, "fuzz", bytes, n, MAX_ROOM, &strips);
    if (!err) {
        const StripsForm *f = strips_form(strips);
        float            *row = NEWN(pool, float, (f->width * f->channels)),
              *same = NEWN(pool, float, (f->width * 3));
        for (int64_t y = 0; y < f->height && !err; y++) {
            err = strips_row(strips, row);
            if (!err && r && !f->alpha) {
                raster_floats(r, y, 0, 1, f->width, f->channels, same);
                REQUIRE(!memcmp(row, same, (size_t)(f->width * f->channels) * sizeof *row));
            }
        }
    }
    pool_free(pool);
}

static void try_bytes(const unsigned char *bytes, size_t n)
{
    unsigned char *copy = malloc(n ? n : 1);
    ImageInfo      info;
    Raster         r;
    if (n)
        memcpy(copy, bytes, n);
    if (png_parse("fuzz", copy, n, &info) == OK && info.room <= MAX_ROOM) {
        Work work = { .at = malloc(info.room), .n = info.room };
        bool good = png_decode("fuzz", copy, n, &work, &r) == OK;
        if (good)
            REQUIRE(r.width == info.width && r.height == info.height && r.depth == info.depth &&
                    r.channels == info.channels);
        try_rows(copy, n, good ? &r : NULL);
        free(work.at);
    }
    free(copy);
}

static size_t big32(const unsigned char *at)
{
    return (size_t)at[0] << 24 | (size_t)at[1] << 16 | (size_t)at[2] << 8 | at[3];
}

static void put32(unsigned char *at, size_t x)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(x >> (24 - 8 * i));
}

static size_t chunk_add(unsigned char *to, size_t at, const char *type, const void *data, size_t n)
{
    put32(to + at, n);
    memcpy(to + at + 4, type, 4);
    if (n)
        memcpy(to + at + 8, data, n);
    put32(to + at + 8 + n, crc32(0, to + at + 4, (uInt)(4 + n)));
    return at + CHUNK + n;
}

/* A file of the header that the first bytes say, and of the rest as pixels, packed. */
static void try_pixels(const unsigned char *bytes, size_t n)
{
    static const unsigned char colours[] = { 0, 2, 3, 4, 6 }, depths[] = { 1, 2, 4, 8, 16 };
    unsigned char              file[16384] = "\x89PNG\r\n\x1a\n", head[13] = { 0 }, packed[8192];
    uLongf                     n_packed = sizeof packed;
    if (n < 6 || n > 4096)
        return;
    put32(head, 1 + bytes[0] % 40);
    put32(head + 4, 1 + bytes[1] % 40);
    head[8] = depths[bytes[2] % 5];
    head[9] = colours[bytes[3] % 5];
    head[12] = bytes[4] & 1; /* interlaced */
    REQUIRE(compress2(packed, &n_packed, bytes + 6, n - 6, 1) == Z_OK);
    size_t at = chunk_add(file, HEAD, "IHDR", head, sizeof head);
    if (head[9] == 3)
        at = chunk_add(file, at, "PLTE", bytes, 6 / 3 * 3);
    at = chunk_add(file, at, "IDAT", packed, n_packed);
    at = chunk_add(file, at, "IEND", NULL, 0);
    try_bytes(file, at);
    file[bytes[5] % at] ^= bytes[4];
    try_bytes(file, at);
}

/* The input with the checksums of its chunks made right. */
static void try_right(const unsigned char *bytes, size_t n)
{
    unsigned char *copy = malloc(n + 1);
    memcpy(copy, bytes, n);
    if (n > HEAD)
        memcpy(copy, "\x89PNG\r\n\x1a\n", HEAD);
    for (size_t at = HEAD; at + CHUNK <= n && big32(copy + at) <= n - at - CHUNK;
         at += CHUNK + big32(copy + at))
        put32(copy + at + 8 + big32(copy + at),
              crc32(0, copy + at + 4, (uInt)(4 + big32(copy + at))));
    try_bytes(copy, n);
    free(copy);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    try_bytes(bytes, n);
    if (n)
        try_right(bytes, n);
    try_pixels(bytes, n);
    return 0;
}
