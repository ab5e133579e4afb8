/* jpeg_int.h -- what the three parts of the JPEG reader share: markers (jpeg.c) fill in a Jpeg,
 * scans (jpeg_scan.c) its planes, and jpeg_pixels.c makes the image of those. */
#ifndef DATA_JPEG_INT_H
#define DATA_JPEG_INT_H

#include "data/jpeg.h"

enum { JPEG_TABLES = 4, JPEG_PARTS = 3, HUFFMAN_FAST = 9 };

typedef struct Huffman {
    bool     there;
    uint16_t fast[1 << HUFFMAN_FAST];    /* by the next bits: length << 8 | symbol; 0: longer */
    uint32_t end[17];                    /* by length: the first 16 bits beyond its codes */
    int32_t  skip[17];                   /* by length: place of a code's symbol, less the code */
    uint8_t  symbols[256];
} Huffman;

typedef struct JpegPart {                /* a component */
    int      id, h, v;                   /* sampling factors */
    int      quant_at;
    uint16_t quant[64];                  /* as it was at the part's first scan; rows of 8 */
    int64_t  width, height;              /* samples that count */
    int64_t  across, down;               /* blocks that hold them */
    int64_t  stride, rows;               /* blocks of whole units (MCU): what a scan may send */
    uint8_t *plane;                      /* (8 rows, 8 stride) */
    int16_t *blocks;                     /* progressive: (rows, stride, 64), rows of 8; else NULL */
    int8_t   known[64];                  /* by zigzag place: bits still to come, -1: not begun */
} JpegPart;

typedef struct JpegScan {
    JpegPart      *parts[JPEG_PARTS];
    const Huffman *dc[JPEG_PARTS], *ac[JPEG_PARTS];
    int            n, first, last, high, low;    /* T.81 B.2.3: Ss, Se, Ah, Al */
} JpegScan;

typedef struct Jpeg {
    const char          *name;
    const unsigned char *bytes;
    size_t               n, at;
    int64_t              width, height, units_across, units_down;
    int                  n_parts, h_max, v_max;        /* n_parts 0: no frame yet */
    bool                 progressive, jfif;
    int                  adobe;                  /* its transform; -1: no such marker */
    int64_t              restart;                /* units between restarts; 0: none */
    bool                 quant_there[JPEG_TABLES];
    uint16_t             quant[JPEG_TABLES][64];
    Huffman              dc[JPEG_TABLES], ac[JPEG_TABLES];
    JpegPart             parts[JPEG_PARTS];
} Jpeg;

extern const uint8_t jpeg_zigzag[64];    /* place in a block's rows, by place in the scan */

Err jpeg_damaged(const Jpeg *j, const char *how);
Err jpeg_scan(Jpeg *j, JpegScan *scan);  /* j->at: its coded data, then the marker after them */

/* 64 coefficients, rows of 8, of a part to 8x8 samples. */
void jpeg_block(const int16_t *block, const uint16_t *quant, uint8_t *to, int64_t stride);
void jpeg_flat_block(int dc, uint8_t *to, int64_t stride);   /* dc: multiplied by its quantiser */

size_t jpeg_rows_room(const Jpeg *j);
/* The planes, to (height, width, channels). */
void   jpeg_pixels(const Jpeg *j, Work *work, uint8_t *to);

#endif
