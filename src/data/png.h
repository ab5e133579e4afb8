/* png.h -- PNG files to pixels.
 *
 * png_look follows the chunks of a file from the first to the last without unpacking them, so that
 * a truncated file is found before a run starts. In small files, which cost no more than their
 * head, it checks the checksums too. png_decode goes through libpng in the caller's memory and
 * allocates nothing. Transparency, gamma and text are ignored: samples come as stored. Images are
 * written by image_write.c. */
#ifndef DATA_PNG_H
#define DATA_PNG_H

#include "data/raster.h"

enum { PNG_FIRST = 0x89 }; /* the first byte of every PNG file */

/* Palettes become 3 channels; alpha is dropped. */
Err png_look(const char *path, ImageInfo *info);
Err png_parse(const char *name, const unsigned char *bytes, size_t n, ImageInfo *info);
Err png_decode(const char *name, const unsigned char *bytes, size_t n, Work *work, Raster *out);

#endif
