/* jpeg.h -- JPEG images in (ITU T.81): 8 bits, Huffman coded, sequential or progressive, grey or
 * three colours.
 *
 * Looking takes in all tables and headers before the first scan, so that what is not read is said
 * before a run starts; a file must have its end mark. Decoding works in memory that the caller
 * gives. Pixels are those that libjpeg-turbo gives by default, to the last bit. Colour profiles and
 * the orientation that a camera noted are left aside: samples come as stored. What a damaged scan
 * would have shown is not guessed: where coded data contradict themselves the file is refused. */
#ifndef DATA_JPEG_H
#define DATA_JPEG_H

#include "data/raster.h"

enum { JPEG_FIRST = 0xFF };          /* the first byte of every such file */

Err jpeg_parse(const char *name, const unsigned char *bytes, size_t n, ImageInfo *info);
Err jpeg_decode(const char *name, const unsigned char *bytes, size_t n, Work *work, Raster *out);

#endif
