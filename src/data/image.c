/* image.c -- reading and resizing images. */
#include "data/image.h"

#include "base/file.h"
#include "base/int_math.h"
#include "data/jpeg.h"
#include "data/png.h"

#include <math.h>
#include <string.h>

/* ---- sizes ---- */

static double filter_reach(ResizeKind kind)
{
    return kind == RESIZE_BOX ? 0.5 : kind == RESIZE_LINEAR ? 1 : 2;
}

static double filter_at(ResizeKind kind, double x)
{
    x = fabs(x);
    if (kind == RESIZE_BOX)
        return x <= 0.5 ? 1 : 0;
    if (kind == RESIZE_LINEAR)
        return x < 1 ? 1 - x : 0;
    /* Keys 1981, a = -1/2 */
    return x < 1 ? (1.5 * x - 2.5) * x * x + 1 : x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0;
}

int64_t resize_taps(ResizeKind kind, int64_t i, int64_t from, int64_t to, float *weights,
                    int64_t *n)
{
    double scale = (double)from / (double)to, wide = fmax(scale, 1),
           centre = ((double)i + 0.5) * scale;
    double  reach = filter_reach(kind) * wide, sum = 0;
    int64_t first = (int64_t)fmax(floor(centre - reach + 0.5), 0);
    int64_t end = (int64_t)fmin(floor(centre + reach + 0.5), (double)from);
    if (end <= first) { /* a box that contains no pixel's centre */
        first = (int64_t)fmin(floor(centre), (double)from - 1);
        end = first + 1;
    }
    for (int64_t k = first; k < end; k++)
        sum += filter_at(kind, ((double)k + 0.5 - centre) / wide);
    for (int64_t k = first; k < end; k++)
        weights[k - first] = sum > 0
                                 ? (float)(filter_at(kind, ((double)k + 0.5 - centre) / wide) / sum)
                                 : 1.0f / (float)(end - first);
    *n = end - first;
    return first;
}

size_t image_resize_work(int64_t h, int64_t w, int64_t channels, int64_t to_h, int64_t to_w)
{
    (void)to_h;
    return work_size((size_t)(h * to_w * channels) * sizeof(float)) +
           work_size((size_t)(4 * (h + w) + 16) * sizeof(float));
}

void image_resize(const float *from, int64_t h, int64_t w, int64_t channels, float *to,
                  int64_t to_h, int64_t to_w, ResizeKind kind, Work *work)
{
    size_t  used = work->used;
    float  *half = work_take(work, (size_t)(h * to_w * channels) * sizeof(float)); /* (h, to_w) */
    float  *weights = work_take(work, (size_t)(4 * (h + w) + 16) * sizeof(float));
    int64_t n, row = to_w * channels;
    for (int64_t x = 0; x < to_w; x++) {
        int64_t first = resize_taps(kind, x, w, to_w, weights, &n);
        for (int64_t y = 0; y < h; y++)
            for (int64_t c = 0; c < channels; c++) {
                float sum = 0;
                for (int64_t k = 0; k < n; k++)
                    sum += weights[k] * from[(y * w + first + k) * channels + c];
                half[y * row + x * channels + c] = sum;
            }
    }
    for (int64_t y = 0; y < to_h; y++) {
        int64_t first = resize_taps(kind, y, h, to_h, weights, &n);
        memset(to + y * row, 0, (size_t)row * sizeof *to);
        for (int64_t k = 0; k < n; k++)
            for (int64_t i = 0; i < row; i++)
                to[y * row + i] += weights[k] * half[(first + k) * row + i];
    }
    work->used = used;
}

/* ---- files ---- */

Err channels_check(const char *kind, Shape shape)
{
    int64_t c = dim(shape, -1);
    return c == 1 || c == 3
               ? OK
               : fail(E_USAGE,
                      "data kind '%s' provides images of 1 or 3 channels; the model needs %lld",
                      kind, (long long)c);
}

void largest_note(ImageInfo *max, const ImageInfo *info)
{
    *max = (ImageInfo){ .width = int_max(max->width, info->width),
                        .height = int_max(max->height, info->height),
                        .pixels = int_max(max->pixels, info->pixels),
                        .channels = max->channels > info->channels ? max->channels : info->channels,
                        .depth = max->depth > info->depth ? max->depth : info->depth,
                        .alpha = max->alpha || info->alpha,
                        .bytes = size_max(max->bytes, info->bytes),
                        .room = size_max(max->room, info->room),
                        .path = info->pixels > max->pixels ? info->path : max->path };
}

static const char *const image_endings[] = { ".png", ".jpg", ".jpeg", ".jfif", NULL };

bool image_name(const char *name)
{
    for (int i = 0; image_endings[i]; i++)
        if (name_ends(name, image_endings[i]))
            return true;
    return false;
}

Err image_format(const char *name, const unsigned char *bytes, size_t n, bool *jpeg)
{
    *jpeg = n && bytes[0] == JPEG_FIRST;
    return *jpeg || (n && bytes[0] == PNG_FIRST)
               ? OK
               : fail(E_FORMAT, "%s is %s", name,
                      n ? "not an image that is read: it begins neither as a PNG nor as a JPEG"
                        : "empty, neither a PNG nor a JPEG");
}

Err image_look(const char *path, ImageInfo *info)
{
    Pool   *pool = pool_new(NULL, "image");
    MapFile file;
    bool    jpeg = false;
    Err     err = file_map(pool, path, &file);
    err = err ? err : image_format(path, file.bytes, file.n, &jpeg);
    err = err ? err : jpeg ? jpeg_parse(path, file.bytes, file.n, info) : png_look(path, info);
    pool_free(pool);
    return err;
}

Err image_list(Pool *pool, const char *path, FilePick pick, ImageList *list)
{
    PathList files;
    TRY(files_list(pool, path, pick, image_endings, "images (.png, .jpg)", &files));
    *list = (ImageList){ .paths = files.paths, .n = files.n };
    for (int32_t i = 0; i < files.n; i++) {
        ImageInfo info;
        TRY(image_look(files.paths[i], &info));
        info.path = files.paths[i];
        largest_note(&list->largest, &info);
    }
    return OK;
}

size_t image_open_work(const ImageInfo *largest)
{
    return work_size(largest->bytes) + work_size(largest->room);
}

Err image_open(const char *path, Work *work, Raster *out)
{
    const unsigned char *bytes;
    size_t               n;
    bool                 jpeg;
    TRY(work_file(work, path, &bytes, &n));
    TRY(image_format(path, bytes, n, &jpeg));
    return jpeg ? jpeg_decode(path, bytes, n, work, out) : png_decode(path, bytes, n, work, out);
}

size_t image_work(const ImageInfo *largest, int64_t height, int64_t width)
{
    int64_t max_h = int_max(largest->height, height), max_w = int_max(largest->width, width);
    return image_open_work(largest) + work_size((size_t)largest->pixels * 3 * sizeof(float)) +
           image_resize_work(max_h, max_w, 3, height, width);
}

Err image_load(const char *path, int64_t height, int64_t width, int64_t channels, float *to,
               Work *work)
{
    size_t used = work->used;
    Raster r;
    TRY(image_open(path, work, &r));
    if (r.height == height && r.width == width)
        raster_floats(&r, 0, 0, height, width, channels, to);
    else {
        size_t bytes = (size_t)(r.height * r.width * channels) * sizeof(float);
        TRY(work_left(work, path,
                      work_size(bytes) +
                          image_resize_work(r.height, r.width, channels, height, width)));
        float *all = work_take(work, bytes);
        raster_floats(&r, 0, 0, r.height, r.width, channels, all);
        image_resize(all, r.height, r.width, channels, to, height, width, RESIZE_CUBIC, work);
        for (int64_t i = 0; i < height * width * channels; i++)
            to[i] = clamp01(to[i]); /* a cubic filter overshoots */
    }
    work->used = used;
    return OK;
}
