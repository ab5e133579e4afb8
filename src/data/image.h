/* image.h -- images as floats in [0,1], channels last: read from files, resized. */
#ifndef DATA_IMAGE_H
#define DATA_IMAGE_H

#include "data/raster.h"

/* Separable filters. They widen when the image shrinks, so that every pixel counts. */
typedef enum ResizeKind { RESIZE_BOX, RESIZE_LINEAR, RESIZE_CUBIC } ResizeKind;
void    image_resize(const float *from, int64_t h, int64_t w, int64_t channels, float *to,
                     int64_t to_h, int64_t to_w, ResizeKind kind, Work *work);
/* Weights of the n old pixels that make up new pixel i; returns the first of them. */
int64_t resize_taps(ResizeKind kind, int64_t i, int64_t from, int64_t to, float *weights,
                    int64_t *n);
size_t  image_resize_work(int64_t h, int64_t w, int64_t channels, int64_t to_h, int64_t to_w);

typedef struct ImageList {
    const char **paths;
    int32_t      n;
    ImageInfo    largest; /* the maximum of each field over all files */
} ImageList;

Err  channels_check(const char *kind, Shape shape); /* the last axis must be 1 or 3 */
void largest_note(ImageInfo *largest, const ImageInfo *info);

/* PNG and JPEG files. image_look checks the structure of a file without unpacking pixels, so that a
 * truncated file is found before a run starts. */
bool   image_name(const char *name); /* whether it has the ending of such a file */
/* The first byte decides, because names are often wrong. */
Err    image_format(const char *name, const unsigned char *bytes, size_t n, bool *jpeg);
Err    image_look(const char *path, ImageInfo *info);
/* A file, or all such files in a folder and its subfolders, each checked by image_look. It is an
 * error if there are none. */
Err    image_list(Pool *pool, const char *path, FilePick pick, ImageList *list);
Err    image_open(const char *path, Work *work, Raster *out);
size_t image_open_work(const ImageInfo *largest);
Err    image_load(const char *path, int64_t height, int64_t width, int64_t channels, float *to,
                  Work *work);
size_t image_work(const ImageInfo *largest, int64_t height, int64_t width);

static inline int64_t mirror(int64_t i, int64_t n) /* -1 -> 1, n -> n - 2; any i */
{
    if (n == 1)
        return 0;
    i %= 2 * (n - 1);
    i = i < 0 ? i + 2 * (n - 1) : i;
    return i < n ? i : 2 * (n - 1) - i;
}

static inline float clamp01(float x) { return x < 0 ? 0 : x > 1 ? 1 : x; }

#endif
