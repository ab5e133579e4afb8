/* strips.h -- an image file as rows from its top to its bottom, with its alpha and all of its bits.
 *
 * A PNG is unpacked row by row, so that only a few rows are in memory. An interlaced one, and a
 * JPEG, are unpacked whole. */
#ifndef DATA_STRIPS_H
#define DATA_STRIPS_H

#include "data/raster.h"

typedef struct Strips Strips;

typedef struct StripsForm {
    int64_t height, width;
    int     channels; /* 1 or 3, and one more with alpha */
    bool    alpha;
    int     depth;       /* 8 or 16 */
    size_t  whole_bytes; /* of an image that is unpacked whole; 0: row by row */
} StripsForm;

/* Checks the file's structure as image_look does. memory: what unpacking may take, 0: any. */
Err strips_open(Pool *pool, const char *path, int64_t memory, Strips **strips);
Err strips_open_bytes(Pool *pool, const char *name, const unsigned char *bytes, size_t n,
                      int64_t memory, Strips **strips);
const StripsForm *strips_form(const Strips *strips);
/* The next row, (width, channels) in [0,1]. */
Err               strips_row(Strips *strips, float *to);
Err               strips_again(Strips *strips); /* from the top */

#endif
