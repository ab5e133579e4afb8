/* png.c -- reading PNG (ISO/IEC 15948): the chain of chunks is checked here, the pixels are
 * unpacked by libpng. */
#include "data/png.h"

#include "base/endian.h"
#include "base/file.h"

#include <string.h>
#include <unistd.h>

enum { SIGNATURE = 8, CHUNK = 12, IHDR = 13 };
enum {
    PNG_SMALL = 64 * 1024
}; /* bytes: reading so small a file whole costs no more than
                                      * reading its head */

static const unsigned char png_signature[SIGNATURE] = { PNG_FIRST, 'P',  'N',  'G',
                                                        '\r',      '\n', 0x1a, '\n' };

typedef struct PngBytes { /* a file that is open or in memory */
    const char          *name;
    const unsigned char *at; /* NULL: read from fd */
    int                  fd;
    size_t               n;
} PngBytes;

static Err bytes_get(const PngBytes *b, size_t offset, void *to, size_t n)
{
    if (offset > b->n || n > b->n - offset)
        return fail(E_FORMAT, "%s is a truncated PNG: it ends after %zu bytes", b->name, b->n);
    if (b->at) {
        memcpy(to, b->at + offset, n);
        return OK;
    }
    return file_read_at(b->fd, b->name, offset, to, n);
}

/* What libpng and zlib allocate: their states and window, and some rows of at most 8 bytes a
 * pixel. */
enum { LIBRARY_ROOM = 512 * 1024, LIBRARY_ROWS = 8 };

static size_t png_room(const ImageInfo *info)
{
    size_t row = 8 * (size_t)info->width + 64;
    return work_size(info->bytes) +
           work_size((size_t)info->pixels * (size_t)(info->channels * info->depth / 8)) +
           LIBRARY_ROOM + LIBRARY_ROWS * work_size(row);
}

static Err png_header(const PngBytes *b, const unsigned char *h, ImageInfo *info)
{
    /* bit depths that each colour type may have */
    static const int allowed[7] = {
        1 | 2 | 4 | 8 | 16, 0, 8 | 16, 1 | 2 | 4 | 8, 8 | 16, 0, 8 | 16
    };
    int64_t width = big32(h), height = big32(h + 4);
    int     depth = h[8], colour = h[9];
    TRY(raster_size(b->name, width, height));
    if (colour > 6 || !(allowed[colour] & depth) || (depth & (depth - 1)) || h[10] || h[11] ||
        h[12] > 1)
        return fail(E_FORMAT,
                    "%s is not a valid PNG: its header says colour type %d, %d bits, compression "
                    "%d, filter %d, interlace %d",
                    b->name, colour, depth, h[10], h[11], h[12]);
    *info = (ImageInfo){ .width = width,
                         .height = height,
                         .pixels = width * height,
                         .channels = colour & 2 ? 3 : 1,
                         .depth = depth == 16 ? 16 : 8,
                         .alpha = colour & 4,
                         .bytes = b->n };
    info->room = png_room(info);
    return OK;
}

/* The signature, the header, then every chunk up to the end marker. */
static Err png_walk(const PngBytes *b, ImageInfo *info)
{
    unsigned char head[CHUNK + IHDR];
    size_t        at = SIGNATURE;
    bool          pixels = false;
    if (!b->n)
        return fail(E_FORMAT, "%s is empty, not a PNG", b->name);
    TRY(bytes_get(b, 0, head, b->n < SIGNATURE ? b->n : SIGNATURE));
    if (memcmp(head, png_signature, b->n < SIGNATURE ? b->n : SIGNATURE))
        return fail(E_FORMAT, "%s is not a PNG: it does not begin with PNG's signature", b->name);
    for (;;) {
        TRY(bytes_get(b, at, head, 8));
        uint32_t length = big32(head);
        bool     first = at == SIGNATURE, last = !memcmp(head + 4, "IEND", 4);
        if (first && (memcmp(head + 4, "IHDR", 4) || length != IHDR))
            return fail(E_FORMAT, "%s is not a valid PNG: its header is missing", b->name);
        if (length > INT32_MAX || length > b->n || at + CHUNK + length > b->n)
            return fail(E_FORMAT,
                        "%s is a truncated PNG: chunk %.4s has %lu bytes, the whole file %zu",
                        b->name, (const char *)head + 4, (unsigned long)length, b->n);
        if (first) {
            TRY(bytes_get(b, at + 8, head + 8, IHDR));
            TRY(png_header(b, head + 8, info));
        }
        pixels = pixels || !memcmp(head + 4, "IDAT", 4);
        info->alpha = info->alpha || !memcmp(head + 4, "tRNS", 4);
        at += CHUNK + length;
        if (last)
            break;
    }
    return pixels ? OK : fail(E_FORMAT, "%s is not a valid PNG: it has no pixels", b->name);
}

Err png_parse(const char *name, const unsigned char *bytes, size_t n, ImageInfo *info)
{
    return png_walk(&(PngBytes){ .name = name, .at = bytes, .n = n, .fd = -1 }, info);
}

#ifdef HAVE_PNG
#include "data/png_hooks.h"

#include <zlib.h>

typedef struct PngReader {
    const char          *name;
    const unsigned char *at;
    size_t               n, used;
    Work                *work;
    Raster              *out;
    unsigned char       *pixels;
    size_t               limit; /* work->used may grow to here */
    size_t               rest;  /* of png_count */
    PngReason            reason;
} PngReader;

/* Of the critical chunks, whose names begin with a capital. png_walk has checked the lengths. */
static Err png_checksums(const char *name, const unsigned char *bytes, size_t n)
{
    for (size_t at = SIGNATURE; at + CHUNK <= n;) {
        const unsigned char *chunk = bytes + at;
        size_t               length = big32(chunk);
        if (!(chunk[4] & 0x20) &&
            crc32(0, chunk + 4, (uInt)(4 + length)) != big32(chunk + 8 + length))
            return fail(E_FORMAT, "%s is a damaged PNG: the checksum of chunk %.4s is wrong", name,
                        (const char *)chunk + 4);
        if (!memcmp(chunk + 4, "IEND", 4))
            break;
        at += CHUNK + length;
    }
    return OK;
}

Err png_look(const char *path, ImageInfo *info)
{
    static _Thread_local unsigned char small[PNG_SMALL];
    int                                fd;
    size_t                             n;
    TRY(file_open_plain(path, &fd, &n));
    PngBytes b = { .name = path, .fd = fd, .n = n };
    Err      err = OK;
    if (n <= PNG_SMALL) {
        err = file_read_at(fd, path, 0, small, n);
        b.at = small;
    }
    err = err ? err : png_walk(&b, info);
    close(fd);
    return err || !b.at ? err : png_checksums(path, small, n);
}

static png_voidp reader_alloc(png_structp png, size_t n)
{
    PngReader *r = png_get_mem_ptr(png);
    if (n > r->limit || work_start(r->work) > r->limit - n)
        return NULL; /* libpng reports it */
    return work_take(r->work, n);
}

static void reader_bytes(png_structp png, png_bytep to, size_t n)
{
    PngReader *r = png_get_io_ptr(png);
    if (n > r->n - r->used)
        png_error(png, "it ends early");
    png_count(png, &r->rest, n);
    memcpy(to, r->at + r->used, n);
    r->used += n;
}

static bool reader_run(PngReader *r) /* false: r->reason says why */
{
    png_structp png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &r->reason, png_give_up,
                                               png_ignore_warning, r, reader_alloc,
                                               png_keep_memory);
    if (!png) {
        strcpy(r->reason.text, "libpng could not start");
        return false;
    }
    png_infop info = NULL;
    if (setjmp(png_jmpbuf(png)))
        return false;
    info = png_create_info_struct(png);
    png_set_read_fn(png, r, reader_bytes);
    png_read_info(png, info);
    png_set_expand(png); /* palettes and 1, 2, 4 bits become 8 */
    png_set_strip_alpha(png);
    if (r->out->depth == 16)
        png_set_swap(png);
    int passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    size_t row = (size_t)r->out->width * (size_t)(r->out->channels * r->out->depth / 8);
    if (png_get_rowbytes(png, info) != row)
        png_error(png, "its header contradicts itself");
    for (int pass = 0; pass < passes; pass++)
        for (int64_t y = 0; y < r->out->height; y++) {
            if (pass + 1 == passes && y + 1 == r->out->height)
                r->rest = png_rest(row);
            png_read_row(png, r->pixels + (size_t)y * row, NULL);
        }
    png_read_end(png, NULL);
    return true;
}

/* Leaves out the chunks that pixels do not need: they would cost memory, and some of them (gamma,
 * transparency) would change the samples. */
static size_t critical_chunks(const unsigned char *from, unsigned char *to)
{
    size_t in = SIGNATURE, out = SIGNATURE;
    memcpy(to, from, SIGNATURE);
    for (bool end = false; !end;) {
        const unsigned char *name = from + in + 4;
        size_t               n = CHUNK + big32(from + in);
        end = !memcmp(name, "IEND", 4);
        if (!(name[0] & 0x20)) {
            memcpy(to + out, from + in, n);
            out += n;
        }
        in += n;
    }
    return out;
}

Err png_decode(const char *name, const unsigned char *bytes, size_t n, Work *work, Raster *out)
{
    ImageInfo info;
    TRY(png_parse(name, bytes, n, &info));
    TRY(raster_room(name, &info, work));
    PngReader r = { .name = name,
                    .work = work,
                    .out = out,
                    .limit = work_start(work) + info.room,
                    .rest = SIZE_MAX };
    *out = (Raster){
        .height = info.height, .width = info.width, .channels = info.channels, .depth = info.depth
    };
    r.pixels = work_take(work, (size_t)info.pixels * (size_t)(info.channels * info.depth / 8));
    out->at = r.pixels;
    unsigned char *chunks = work_take(work, n);
    r.n = critical_chunks(bytes, chunks);
    r.at = chunks;
    if (!reader_run(&r))
        return fail(E_FORMAT, "%s is a damaged PNG: %s", name, r.reason.text);
    return OK;
}
#else
static Err png_unavailable(const char *name)
{
    return fail(E_IO,
                "%s cannot be read: this program was built without libpng; install libpng-dev and "
                "build it again, or use .npy or JPEG files where the data kind takes them",
                name);
}

Err png_look(const char *path, ImageInfo *info)
{
    (void)info;
    return png_unavailable(path);
}

Err png_decode(const char *name, const unsigned char *bytes, size_t n, Work *work, Raster *out)
{
    (void)bytes;
    (void)n;
    (void)work;
    (void)out;
    return png_unavailable(name);
}
#endif
