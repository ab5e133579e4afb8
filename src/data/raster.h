/* raster.h -- a image's samples as its file has them, and what is known of it before it is
 * decoded. */
#ifndef DATA_RASTER_H
#define DATA_RASTER_H

#include "data/source.h"

typedef struct ImageInfo {
    int64_t width, height, pixels;
    int     channels;                /* 1 or 3 */
    int     depth;                   /* bits of a decoded sample: 8 or 16 */
    size_t  bytes;                   /* of the file */
    size_t  room;                    /* work of decoding it; the file's own bytes not counted */
} ImageInfo;

typedef struct Raster {              /* samples as stored, row by row, channels last */
    int64_t     height, width;
    int         channels, depth;     /* depth 16: uint16_t */
    const void *at;
} Raster;

/* E_FORMAT unless a image of that size is read. */
Err raster_size(const char *name, int64_t width, int64_t height);
/* E_IO where the work has less left than the image asks for: it was smaller when looked at. */
Err raster_room(const char *name, const ImageInfo *info, const Work *work);

/* A cut-out of a raster with 1 or 3 channels; grey is repeated, colour becomes luminance. */
void raster_floats(const Raster *r, int64_t y, int64_t x, int64_t height, int64_t width,
                   int64_t channels, float *to);

#endif
