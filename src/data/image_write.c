/* image_write.c -- images to files, row by row: PNG through libpng, or PNM where the program was built
 * without it.
 *
 * libpng takes its memory from the caller's pool, so images written between training steps cost no
 * allocation when that pool keeps what it is given back (pool_keep). It gets one large block: its
 * many requests would otherwise be met by blocks that others wait for. */
#include "data/raster.h"

#include "base/file.h"
#include "base/int_math.h"

#include <string.h>

struct ImageOut {
    const char *path; /* in messages */
    FileOut    *out;  /* NULL: nothing is written */
    int64_t     height, width;
    int         channels, depth;
    void       *coder;
};

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
    Pool       *pool;
    char       *block;
    size_t      used, size; /* of the block */
    FileOut    *out;
    png_structp png;
    png_infop   info;
    PngReason   reason;
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

static Err writer_fail(const ImageOut *image)
{
    const PngWriter *w = image->coder;
    return fail(E_IO, "%s cannot be written as a PNG of %lld x %lld pixels: %s", image->path,
                (long long)image->width, (long long)image->height, w->reason.text);
}

/* Each of these three sets where libpng's errors jump to; false: w->reason says why. */
static bool writer_open(PngWriter *w, const ImageOut *image)
{
    static const int forms[] = { 0, PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA,
                                 PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGB_ALPHA };
    w->png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, &w->reason, png_give_up,
                                       png_ignore_warning, w, writer_alloc, png_keep_memory);
    if (!w->png) {
        strcpy(w->reason.text, "libpng could not start");
        return false;
    }
    if (setjmp(png_jmpbuf(w->png)))
        return false;
    w->info = png_create_info_struct(w->png);
    png_set_user_limits(w->png, IMAGE_OUT_SIDE, IMAGE_OUT_SIDE);
    png_set_write_fn(w->png, w, writer_add, writer_flush);
    png_set_compression_level(w->png, PNG_LEVEL);
    png_set_IHDR(w->png, w->info, (png_uint_32)image->width, (png_uint_32)image->height,
                 image->depth, forms[image->channels], PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(w->png, w->info);
    if (image->depth == 16)
        png_set_swap(w->png);
    return true;
}

static bool writer_row(PngWriter *w, const void *samples)
{
    if (setjmp(png_jmpbuf(w->png)))
        return false;
    png_write_row(w->png, samples);
    return true;
}

static bool writer_end(PngWriter *w)
{
    if (setjmp(png_jmpbuf(w->png)))
        return false;
    png_write_end(w->png, w->info);
    return true;
}

static Err coder_open(Pool *pool, ImageOut *image)
{
    PngWriter *w = image->coder = NEW(pool, PngWriter);
    w->pool = pool;
    w->out = image->out;
    w->size = WRITER_BYTES +
              WRITER_ROWS * (size_t)(image->width * image->channels * image->depth / 8 + 64);
    w->block = pool_alloc(pool, w->size, 1);
    return writer_open(w, image) ? OK : writer_fail(image);
}

Err image_out_row(ImageOut *image, const void *samples)
{
    return writer_row(image->coder, samples) ? OK : writer_fail(image);
}

static Err coder_end(ImageOut *image) { return writer_end(image->coder) ? OK : writer_fail(image); }
#else
const char *const image_ending = ".pnm";

static Err coder_open(Pool *pool, ImageOut *image)
{
    static const char *const forms[] = { "", "GRAYSCALE", "GRAYSCALE_ALPHA", "RGB", "RGB_ALPHA" };
    int                      max = image->depth == 16 ? 65535 : 255;
    image->coder = NEWN(pool, unsigned char, (image->width * image->channels * image->depth / 8));
    if (!image->out)
        return OK;
    if (image->channels == 1 || image->channels == 3)
        file_out_print(image->out, "P%d\n%lld %lld\n%d\n", image->channels == 3 ? 6 : 5,
                       (long long)image->width, (long long)image->height, max);
    else
        file_out_print(image->out,
                       "P7\nWIDTH %lld\nHEIGHT %lld\nDEPTH %d\nMAXVAL %d\nTUPLTYPE %s\nENDHDR\n",
                       (long long)image->width, (long long)image->height, image->channels, max,
                       forms[image->channels]);
    return OK;
}

Err image_out_row(ImageOut *image, const void *samples)
{
    int64_t        n = image->width * image->channels;
    unsigned char *bytes = image->coder;
    for (int64_t i = 0; i < n && image->depth == 16; i++) {
        uint16_t x = ((const uint16_t *)samples)[i];
        bytes[2 * i] = (unsigned char)(x >> 8);
        bytes[2 * i + 1] = (unsigned char)x;
    }
    if (image->out)
        file_out_add(image->out, image->depth == 16 ? bytes : samples,
                     (size_t)(n * image->depth / 8));
    return OK;
}

static Err coder_end(ImageOut *image)
{
    (void)image;
    return OK;
}
#endif

Err image_out_open(Pool *pool, const char *path, const ImageForm *form, ImageOut **out)
{
    ImageOut *image = *out = NEW(pool, ImageOut);
    FileOut  *file = NEW(pool, FileOut); /* in a dry run too */
    *image = (ImageOut){ .path = path ? path : "an image",
                         .height = form->height,
                         .width = form->width,
                         .channels = form->channels,
                         .depth = form->depth };
    if (form->height < 1 || form->width < 1 || form->channels < 1 || form->channels > 4 ||
        form->height > IMAGE_OUT_SIDE || form->width > IMAGE_OUT_SIDE)
        return fail(E_USAGE,
                    "%s cannot be written: it has %lld x %lld pixels of %d channels; 1 to 4 "
                    "channels and at max %d pixels a side are possible",
                    image->path, (long long)form->width, (long long)form->height, form->channels,
                    IMAGE_OUT_SIDE);
    if (path) {
        image->out = file;
        TRY(file_out_init(file, path));
    }
    Err err = coder_open(pool, image);
    return err && path ? file_out_done(image->out, err) : err;
}

Err image_out_done(ImageOut *image, Err err)
{
    err = err ? err : coder_end(image);
    return image->out ? file_out_done(image->out, err) : err;
}

Err image_write_in(Pool *parent, const char *path, const unsigned char *pixels, int64_t height,
                   int64_t width, int channels)
{
    ImageForm form = { height, width, channels, 8 };
    ImageOut *image;
    Pool     *pool = pool_new(parent, "image");
    Err       opened = image_out_open(pool, path, &form, &image), err = opened;
    for (int64_t y = 0; y < height && !err; y++)
        err = image_out_row(image, pixels + y * width * channels);
    err = opened ? opened : image_out_done(image, err);
    pool_free(pool);
    return err;
}

Err image_write(const char *path, const unsigned char *pixels, int64_t height, int64_t width,
                int channels)
{
    return image_write_in(NULL, path, pixels, height, width, channels);
}
