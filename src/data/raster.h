/* raster.h -- the samples of an image as its file stores them, and what is known of a file before
 * it is decoded. */
#ifndef DATA_RASTER_H
#define DATA_RASTER_H

#include "data/source.h"

typedef struct ImageInfo {
    int64_t width, height, pixels;
    int     channels; /* 1 or 3 */
    int     depth;    /* bits of a decoded sample: 8 or 16 */
    bool    alpha;    /* it has transparency */
    size_t  bytes;    /* of the file */
    size_t  room;     /* workspace for decoding it, without the file's own bytes */

    const char *path; /* NULL: not known */
} ImageInfo;

typedef struct Raster { /* samples as stored, row by row, channels last */
    int64_t     height, width;
    int         channels, depth; /* depth 16: uint16_t */
    const void *at;
} Raster;

/* E_FORMAT where an image of that size is not read. */
Err raster_size(const char *name, int64_t width, int64_t height);
/* E_IO where less workspace is left than the image needs: the file has grown since image_look. */
Err raster_room(const char *name, const ImageInfo *info, const Work *work);

/* A rectangle of a raster as floats in [0,1] with 1 or 3 channels; grey is repeated, colour becomes
 * luminance. */
void raster_floats(const Raster *r, int64_t y, int64_t x, int64_t height, int64_t width,
                   int64_t channels, float *to);

/* Writing (image_write.c). The ending of the files that are written: ".png", or ".pnm" where the
 * program was built without libpng. */
extern const char *const image_ending;
typedef struct ImageForm {
    int64_t height, width;
    int     channels, depth; /* 1 to 4: grey, grey and alpha, RGB, RGB and alpha; 8 or 16 bits */
} ImageForm;

enum { IMAGE_OUT_SIDE = 1 << 20 };

/* Row by row: the file appears whole when it is done, or not at all. path NULL: does everything but
 * write the file. done: also after a row that failed, with its error. */
typedef struct ImageOut ImageOut;
Err image_out_open(Pool *pool, const char *path, const ImageForm *form, ImageOut **out);
Err image_out_row(ImageOut *image, const void *samples); /* uint8_t, uint16_t */
Err image_out_done(ImageOut *image, Err err);

/* 1 or 3 channels of 8 bits; the file appears whole or not at all. */
Err image_write(const char *path, const unsigned char *pixels, int64_t height, int64_t width,
                int channels);
/* The same with its memory from a pool. path NULL: does everything but write the file. */
Err image_write_in(Pool *pool, const char *path, const unsigned char *pixels, int64_t height,
                   int64_t width, int channels);

#endif
