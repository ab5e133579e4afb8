/* gif.h -- clips as animated GIF files (GIF89a), which repeat without end.
 *
 * Up to 256 colours are kept exactly; of more, a palette of 256 is made. */
#ifndef DATA_GIF_H
#define DATA_GIF_H

#include "data/media.h"

/* The file appears whole or not at all. */
Err gif_write(Pool *pool, const char *path, const VideoClip *clip);

enum { GIF_COLOURS = 256 };

typedef struct GifPalette {
    unsigned char rgb[GIF_COLOURS][3];
    int           n;
} GifPalette;

/* The palette of n pixels, and the colour of each in it. */
void gif_palette(Pool *pool, const unsigned char *rgb, int64_t n, GifPalette *palette,
                 unsigned char *indices);

#endif
