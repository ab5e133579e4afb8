/* png.h -- PNG images in and out.
 *
 * Looking walks the file's chunks from the first to the last without unpacking anything, so that a
 * truncated file is found before a run starts; of a small file, where that costs no more than its
 * head, the checksums too. Decoding goes through libpng in memory that the
 * caller gives: it allocates nothing. Transparency, gamma and text are left aside: samples come as
 * stored. Writing needs no library. */
#ifndef DATA_PNG_H
#define DATA_PNG_H

#include "data/raster.h"

enum { PNG_FIRST = 0x89 };           /* the first byte of every such file */

/* Palettes become 3 channels; alpha is dropped. */
Err png_look(const char *path, ImageInfo *info);
Err png_parse(const char *name, const unsigned char *bytes, size_t n, ImageInfo *info);
Err png_decode(const char *name, const unsigned char *bytes, size_t n, Work *work, Raster *out);

/* a chunk's checksum, of its name and its bytes */
uint32_t png_crc(const unsigned char *bytes, size_t n);

/* channels 1 or 3, 8 bits; the file appears whole or not at all. */
Err png_write(const char *path, const unsigned char *pixels, int64_t height, int64_t width,
              int channels);
/* The same with its memory from a pool; path NULL: all but the writing. */
Err png_write_in(Pool *pool, const char *path, const unsigned char *pixels, int64_t height,
                 int64_t width, int channels);

#endif
