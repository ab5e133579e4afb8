/* jpeg_int.h -- shared by the JPEG reader's files: jpeg.c reads markers into a Jpeg, jpeg_scan.c
 * decodes scans into its planes, jpeg_pixels.c turns the planes into pixels, and jpeg_orientation.c
 * rotates those. */
#ifndef DATA_JPEG_INT_H
#define DATA_JPEG_INT_H

#include "data/jpeg.h"

enum { JPEG_TABLES = 4, JPEG_COMPONENTS = 3, HUFFMAN_FAST = 9 };

typedef struct Huffman {
    bool     present;
    uint16_t fast[1 << HUFFMAN_FAST]; /* by next bits: length << 8 | symbol; 0: longer code */
    uint32_t end[17];                 /* by length: the first 16 bits beyond its codes */
    int32_t  skip[17];                /* by length: index of a code's symbol, minus the code */
    uint8_t  symbols[256];
} Huffman;

typedef struct JpegComponent {
    int      id, h, v; /* sampling factors */
    int      quant_at;
    uint16_t quant[64];     /* as of the component's first scan; rows of 8 */
    int64_t  width, height; /* samples within the image */
    int64_t  across, down;  /* blocks that hold them */
    int64_t  stride, rows;  /* blocks of whole MCUs, as interleaved scans have them */
    uint8_t *plane;         /* (8 rows, 8 stride) */
    int16_t *blocks;        /* progressive: (rows, stride, 64), rows of 8; else NULL */
    int8_t   known[64];     /* by zigzag index: low bits still missing; -1: all */
} JpegComponent;

typedef struct JpegScan {
    JpegComponent *components[JPEG_COMPONENTS];
    const Huffman *dc[JPEG_COMPONENTS], *ac[JPEG_COMPONENTS];
    int            n, first, last, high, low; /* T.81 B.2.3: Ss, Se, Ah, Al */
} JpegScan;

typedef struct Jpeg {
    const char          *name;
    const unsigned char *bytes;
    size_t               n, at;
    int64_t              width, height, mcus_across, mcus_down;
    int                  n_components, h_max, v_max; /* n_parts 0: no frame yet */
    bool                 progressive, jfif;
    int                  orientation; /* 1 to 8, as Exif counts; 1: as stored */
    int                  adobe;       /* Adobe marker's transform; -1: no such marker */
    int64_t              restart;     /* MCUs between restart markers; 0: none */
    bool                 has_quant[JPEG_TABLES];
    uint16_t             quant[JPEG_TABLES][64];
    Huffman              dc[JPEG_TABLES], ac[JPEG_TABLES];
    JpegComponent        components[JPEG_COMPONENTS];
} Jpeg;

extern const uint8_t jpeg_zigzag[64]; /* index in a block's rows, by index in the scan */

Err jpeg_damaged(const Jpeg *j, const char *how);
/* Decodes the data at j->at, and moves j->at to the marker that follows them. */
Err jpeg_scan(Jpeg *j, JpegScan *scan);

/* 64 coefficients, rows of 8, to 8x8 samples. */
void jpeg_block(const int16_t *block, const uint16_t *quant, uint8_t *to, int64_t stride);
/* The same for a block of DC only; dc is already multiplied by its quantiser. */
void jpeg_flat_block(int dc, uint8_t *to, int64_t stride);

/* The orientation in an Exif segment; 1 if it has none. */
int  jpeg_orientation(const unsigned char *segment, size_t n);
/* Pixels as stored (height, width, channels) to pixels as they are seen. */
void jpeg_upright(const uint8_t *from, int64_t height, int64_t width, int channels, int way,
                  uint8_t *to);

size_t jpeg_rows_bytes(const Jpeg *j);
/* The planes to pixels (height, width, channels). */
void   jpeg_pixels(const Jpeg *j, Work *work, uint8_t *to);

#endif
