/* image_write.c -- images to files: PNG through libpng, or PNM where the program was built without
 * it.
 *
 * libpng takes its memory from the caller's pool, so images written between training steps cost no
 * allocation when that pool keeps what it is given back (pool_keep). It gets one large block: its
 * many requests would otherwise be met by blocks that others wait for. */
#include "data/raster.h"

#include "base/file.h"
#include "base/int_math.h"

#include <string.h>

#ifdef HAVE_PNG
#include "data/png_hooks.h"

const char *const image_ending = ".png";

enum { PNG_LEVEL = 3 }; /* of zlib's 1..9: a training run waits for its images */
enum {                  /* what libpng and zlib allocate: states and window; rows */
       WRITER_BYTES = 512 * 1024,
       WRITER_ROWS = 8,
       WRITER_ALIGN = 16
};

typedef struct PngWriter {
    Pool     *pool;
    char     *block;
    size_t    used, size; /* of the block */
    FileOut  *out;        /* NULL: nothing is written */
    PngReason reason;
} PngWriter;

static png_voidp writer_alloc(png_structp png, size_t n)
{
    PngWriter *w = png_get_mem_ptr(png);
    size_t     at = w->used;
    if (n > w->size - at)
        return pool_alloc(w->pool, n, 1);
    w->used += align_bytes(n, WRITER_ALIGN);
    w->used = w->used < w->size ? w->used : w->size;
    return w->block + at;
}

static void writer_add(png_structp png, png_bytep bytes, size_t n)
{
    PngWriter *w = png_get_io_ptr(png);
    if (w->out)
        file_out_add(w->out, bytes, n);
}

static void writer_flush(png_structp png) { (void)png; }

static bool writer_run(PngWriter *w, const unsigned char *pixels, int64_t height, int64_t width,
                       int channels) /* false: w->reason says why */
{
    png_structp png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, &w->reason, png_give_up,
                                                png_ignore_warning, w, writer_alloc,
                                                png_keep_memory);
    if (!png) {
        strcpy(w->reason.text, "libpng could not start");
        return false;
    }
    if (setjmp(png_jmpbuf(png)))
        return false;
    png_infop info = png_create_info_struct(png);
    png_set_write_fn(png, w, writer_add, writer_flush);
    png_set_compression_level(png, PNG_LEVEL);
    png_set_IHDR(png, info, (png_uint_32)width, (png_uint_32)height, 8,
                 channels == 3 ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    for (int64_t y = 0; y < height; y++)
        png_write_row(png, pixels + y * width * channels);
    png_write_end(png, info);
    return true;
}

static Err image_encode(Pool *pool, const char *path, FileOut *out, const unsigned char *pixels,
                        int64_t height, int64_t width, int channels)
{
    PngWriter w = { .pool = pool, .out = out };
    w.size = WRITER_BYTES + WRITER_ROWS * (size_t)(width * channels + 64);
    w.block = pool_alloc(pool, w.size, 1);
    return writer_run(&w, pixels, height, width, channels)
               ? OK
               : fail(E_IO, "%s cannot be written as a PNG of %lld x %lld pixels: %s", path,
                      (long long)width, (long long)height, w.reason.text);
}
#else
const char *const image_ending = ".pnm";

static Err image_encode(Pool *pool, const char *path, FileOut *out, const unsigned char *pixels,
                        int64_t height, int64_t width, int channels)
{
    (void)pool;
    (void)path;
    if (out) {
        file_out_print(out, "P%d\n%lld %lld\n255\n", channels == 3 ? 6 : 5, (long long)width,
                       (long long)height);
        file_out_add(out, pixels, (size_t)(height * width * channels));
    }
    return OK;
}
#endif

Err image_write_in(Pool *parent, const char *path, const unsigned char *pixels, int64_t height,
                   int64_t width, int channels)
{
    const char *name = path ? path : "an image";
    FileOut     out;
    if (height < 1 || width < 1 || (channels != 1 && channels != 3) ||
        height > INT32_MAX / 4 / width)
        return fail(E_USAGE,
                    "%s cannot be written: it has %lld x %lld pixels of %d channels; 1 or 3 "
                    "channels and at most %d pixels are possible",
                    name, (long long)width, (long long)height, channels, INT32_MAX / 4);
    if (path)
        TRY(file_out_init(&out, path));
    Pool *pool = pool_new(parent, "image");
    Err   err = image_encode(pool, name, path ? &out : NULL, pixels, height, width, channels);
    pool_free(pool);
    return path ? file_out_done(&out, err) : err;
}

Err image_write(const char *path, const unsigned char *pixels, int64_t height, int64_t width,
                int channels)
{
    return image_write_in(NULL, path, pixels, height, width, channels);
}
