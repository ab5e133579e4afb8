/* jpeg.h -- JPEG files (ITU T.81) to pixels: 8 bits, Huffman coded, sequential or progressive, grey
 * or three colours.
 *
 * jpeg_parse reads all tables and headers before the first scan and looks for the end marker, so
 * that unsupported and truncated files are reported before a run starts. jpeg_decode works in
 * memory that the caller gives. Pixels equal libjpeg-turbo's defaults to the last bit, rotated as
 * the camera's orientation (Exif) says. Colour profiles are ignored. Damaged scans are not
 * repaired: a file whose coded data contradict themselves is refused. */
#ifndef DATA_JPEG_H
#define DATA_JPEG_H

#include "data/raster.h"

enum { JPEG_FIRST = 0xFF }; /* the first byte of every JPEG file */

Err jpeg_parse(const char *name, const unsigned char *bytes, size_t n, ImageInfo *info);
Err jpeg_decode(const char *name, const unsigned char *bytes, size_t n, Work *work, Raster *out);

#endif
