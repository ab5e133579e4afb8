/* image.h -- pictures as floats in [0,1], channels last: from files, to other sizes. */
#ifndef DATA_IMAGE_H
#define DATA_IMAGE_H

#include "data/raster.h"

/* Separable filters that widen when the picture shrinks, so nothing is skipped. */
typedef enum ResizeKind { RESIZE_BOX, RESIZE_LINEAR, RESIZE_CUBIC } ResizeKind;
void image_resize(const float *from, int64_t h, int64_t w, int64_t channels, float *to,
                  int64_t to_h, int64_t to_w, ResizeKind kind, Work *work);
size_t image_resize_work(int64_t h, int64_t w, int64_t channels, int64_t to_h, int64_t to_w);

typedef struct PictureList {
    const char **paths;
    int32_t      n;
    PictureInfo  largest;            /* each field the largest of all files */
} PictureList;

Err  channels_check(const char *kind, Shape shape);          /* its last axis must be 1 or 3 */
void largest_note(PictureInfo *largest, const PictureInfo *info);

/* PNG and JPEG files. Looking walks a file's parts without unpacking anything, so that a truncated
 * one is found before a run starts. */
bool   picture_name(const char *name);       /* one with the ending of such files */
Err    picture_look(const char *path, PictureInfo *info);
/* A file, or all such files of a folder and its folders, looked at. None is an error. */
Err    picture_list(Pool *pool, const char *path, PictureList *list);
Err    picture_open(const char *path, Work *work, Raster *out);
size_t picture_open_work(const PictureInfo *largest);
Err picture_load(const char *path, int64_t height, int64_t width, int64_t channels, float *to,
                 Work *work);
size_t picture_work(const PictureInfo *largest, int64_t height, int64_t width);

static inline int64_t mirror(int64_t i, int64_t n)           /* -1 -> 1, n -> n - 2; any distance */
{
    if (n == 1)
        return 0;
    i %= 2 * (n - 1);
    i = i < 0 ? i + 2 * (n - 1) : i;
    return i < n ? i : 2 * (n - 1) - i;
}

static inline float clamp01(float x) { return x < 0 ? 0 : x > 1 ? 1 : x; }

#endif
