/* strips.c -- rows of image files. */
#include "data/strips.h"

#include "base/endian.h"
#include "base/file.h"
#include "base/text.h"
#include "data/image.h"
#include "data/jpeg.h"
#include "data/png.h"

#include <string.h>

#ifdef HAVE_PNG
#include "data/png_hooks.h"
#endif

enum { SIGNATURE = 8, CHUNK = 12, INTERLACED = 28 };

struct Strips {
    StripsForm           form;
    const char          *name;
    const unsigned char *bytes;
    size_t               n;
    int64_t              row;    /* next */
    Raster               raster; /* unpacked whole; at NULL: it is not */
    unsigned char       *line;
    Pool                *pool, *reading; /* reading: libpng's memory, until the next time */
#ifdef HAVE_PNG
    png_structp png;
    png_infop   info;
    PngReason   reason;
    size_t      at, left; /* in the file; of the chunk */
    size_t      rest;     /* of png_count */
#endif
};

const StripsForm *strips_form(const Strips *strips) { return &strips->form; }

static float sample_at(const void *samples, int depth, int64_t i)
{
    return depth == 16 ? (float)((const uint16_t *)samples)[i] * (1.0f / 65535)
                       : (float)((const uint8_t *)samples)[i] * (1.0f / 255);
}

static void row_floats(const StripsForm *f, const void *samples, float *to)
{
    for (int64_t i = 0; i < f->width * f->channels; i++)
        to[i] = sample_at(samples, f->depth, i);
}

/* ---- PNG ---- */

#ifdef HAVE_PNG
/* Chunks that pixels do not need are left out: they would cost memory, and gamma would change the
 * samples. png_parse has checked the lengths. */
static bool chunk_wanted(const unsigned char *name)
{
    return !(name[0] & 0x20) || !memcmp(name, "tRNS", 4);
}

static void strips_bytes(png_structp png, png_bytep to, size_t n)
{
    Strips *s = png_get_io_ptr(png);
    png_count(png, &s->rest, n);
    while (n) {
        for (; !s->left && s->at + CHUNK <= s->n;) {
            size_t chunk = CHUNK + big32(s->bytes + s->at);
            if (chunk_wanted(s->bytes + s->at + 4))
                s->left = chunk;
            else
                s->at += chunk;
        }
        size_t part = n < s->left ? n : s->left;
        if (!part || part > s->n - s->at)
            png_error(png, "it ends early");
        memcpy(to, s->bytes + s->at, part);
        to += part;
        n -= part;
        s->at += part;
        s->left -= part;
    }
}

static png_voidp strips_alloc(png_structp png, size_t n)
{
    return pool_alloc(png_get_mem_ptr(png), n, 1);
}

static Err strips_damaged(const Strips *s)
{
    return fail(E_FORMAT, "%s is a damaged PNG: %s", s->name, s->reason.text);
}

/* False: s->reason says why. */
static bool strips_begin(Strips *s)
{
    s->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &s->reason, png_give_up,
                                      png_ignore_warning, s->reading, strips_alloc,
                                      png_keep_memory);
    if (!s->png) {
        strcpy(s->reason.text, "libpng could not start");
        return false;
    }
    if (setjmp(png_jmpbuf(s->png)))
        return false;
    s->info = png_create_info_struct(s->png);
    png_set_read_fn(s->png, s, strips_bytes);
    png_read_info(s->png, s->info);
    png_set_expand(s->png); /* palettes and 1, 2, 4 bits become 8; transparent colours an alpha */
    if (s->form.depth == 16)
        png_set_swap(s->png);
    png_set_interlace_handling(s->png);
    png_read_update_info(s->png, s->info);
    return true;
}

static bool strips_rows(Strips *s, unsigned char *to, int64_t n)
{
    size_t row = png_get_rowbytes(s->png, s->info);
    bool   last = s->row + n == s->form.height;
    if (setjmp(png_jmpbuf(s->png)))
        return false;
    int passes = s->form.whole_bytes ? 7 : 1;
    for (int pass = 0; pass < passes; pass++)
        for (int64_t y = 0; y < n; y++) {
            if (last && pass + 1 == passes && y + 1 == n)
                s->rest = png_rest(row);
            png_read_row(s->png, to + (size_t)y * row, NULL);
        }
    if (last)
        png_read_end(s->png, NULL);
    return true;
}

static Err png_again(Strips *s)
{
    pool_free(s->reading);
    s->reading = pool_new(s->pool, "png");
    s->at = 0;
    s->left = SIGNATURE;
    s->rest = SIZE_MAX;
    s->row = 0;
    return strips_begin(s) ? OK : strips_damaged(s);
}

static Err png_begin(Strips *s, const ImageInfo *info, int64_t memory)
{
    bool interlaced = s->bytes[INTERLACED] != 0;
    s->form = (StripsForm){ .height = info->height, .width = info->width, .depth = info->depth };
    TRY(png_again(s));
    s->form.channels = png_get_channels(s->png, s->info);
    s->form.alpha = s->form.channels % 2 == 0;
    size_t row = png_get_rowbytes(s->png, s->info);
    if (row != (size_t)(s->form.width * s->form.channels * s->form.depth / 8))
        return fail(E_FORMAT, "%s is a damaged PNG: its header contradicts itself", s->name);
    s->line = pool_alloc(s->pool, row, 1);
    if (!interlaced)
        return OK;
    s->form.whole_bytes = row * (size_t)info->height;
    if (memory && s->form.whole_bytes > (size_t)memory)
        return fail(E_BUDGET,
                    "%s is interlaced, so it is unpacked whole: %s, more than --loader-memory "
                    "allows; save it without interlacing, or allow more",
                    s->name, bytes_text((int64_t)s->form.whole_bytes));
    unsigned char *all = pool_alloc(s->pool, s->form.whole_bytes, 1);
    if (!strips_rows(s, all, info->height))
        return strips_damaged(s);
    s->raster = (Raster){ info->height, info->width, s->form.channels, info->depth, all };
    return OK;
}
#else
static Err png_begin(Strips *s, const ImageInfo *info, int64_t memory)
{
    (void)info;
    (void)memory;
    return png_look(s->name, &(ImageInfo){ 0 }); /* says that there is no libpng */
}
#endif

/* ---- JPEG ---- */

static Err jpeg_begin(Strips *s, const ImageInfo *info, int64_t memory)
{
    Work work = { .n = info->room + 64 };
    s->form = (StripsForm){ info->height, info->width, info->channels, false, 8, work.n };
    if (memory && work.n > (size_t)memory)
        return fail(
            E_BUDGET,
            "unpacking %s takes %s, more than --loader-memory allows; allow more, or convert "
            "it to PNG, which is read in strips",
            s->name, bytes_text((int64_t)work.n));
    work.at = pool_alloc(s->pool, work.n, 1);
    return jpeg_decode(s->name, s->bytes, s->n, &work, &s->raster);
}

/* ---- any ---- */

Err strips_open_bytes(Pool *pool, const char *name, const unsigned char *bytes, size_t n,
                      int64_t memory, Strips **strips)
{
    ImageInfo info;
    Strips   *s = *strips = NEW(pool, Strips);
    *s = (Strips){ .name = name, .bytes = bytes, .n = n, .pool = pool };
    bool jpeg;
    TRY(image_format(name, bytes, n, &jpeg));
    TRY((jpeg ? jpeg_parse : png_parse)(name, bytes, n, &info));
    return (jpeg ? jpeg_begin : png_begin)(s, &info, memory);
}

Err strips_open(Pool *pool, const char *path, int64_t memory, Strips **strips)
{
    MapFile file;
    TRY(file_map(pool, path, &file));
    return strips_open_bytes(pool, file.path, file.bytes, file.n, memory, strips);
}

Err strips_row(Strips *s, float *to)
{
    const StripsForm *f = &s->form;
    REQUIRE(s->row < f->height);
    if (s->raster.at) {
        size_t row = (size_t)(f->width * f->channels * f->depth / 8);
        row_floats(f, (const char *)s->raster.at + (size_t)s->row * row, to);
        s->row++;
        return OK;
    }
#ifdef HAVE_PNG
    if (!strips_rows(s, s->line, 1))
        return strips_damaged(s);
    row_floats(f, s->line, to);
#endif
    s->row++;
    return OK;
}

Err strips_again(Strips *s)
{
    s->row = 0;
#ifdef HAVE_PNG
    if (!s->raster.at)
        return png_again(s);
#endif
    return OK;
}
