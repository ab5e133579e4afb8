/* jpeg_orientation.c -- how a camera was held: the orientation in a JPEG's Exif segment (CIPA DC-008,
 * tag 0x0112), and pixels rotated by it. */
#include "data/jpeg_int.h"

#include <string.h>

enum { TAG_ORIENTATION = 0x0112, TYPE_SHORT = 3, HEAD = 6, ENTRY = 12 };

typedef struct Tiff { /* numbers in the byte order that the segment names */
    const unsigned char *at;
    size_t               n;
    bool                 big;
} Tiff;

static uint32_t tiff_number(const Tiff *t, size_t at, int bytes)
{
    uint32_t x = 0;
    for (int i = 0; i < bytes; i++)
        x = x << 8 | t->at[at + (size_t)(t->big ? i : bytes - 1 - i)];
    return x;
}

int jpeg_orientation(const unsigned char *segment, size_t n)
{
    if (n < HEAD + 8 || memcmp(segment, "Exif\0\0", HEAD) != 0)
        return 1;
    Tiff t = { segment + HEAD, n - HEAD, segment[HEAD] == 'M' };
    if (memcmp(t.at, t.big ? "MM\0*" : "II*\0", 4) != 0)
        return 1;
    size_t at = tiff_number(&t, 4, 4);
    if (at > t.n - 2)
        return 1;
    uint32_t entries = tiff_number(&t, at, 2);
    for (at += 2; entries && t.n - at >= ENTRY; entries--, at += ENTRY)
        if (tiff_number(&t, at, 2) == TAG_ORIENTATION && tiff_number(&t, at + 2, 2) == TYPE_SHORT) {
            uint32_t way = tiff_number(&t, at + 8, 2);
            return way >= 1 && way <= 8 ? (int)way : 1;
        }
    return 1;
}

/* Of the orientations 1 to 8: rows are columns in 5 to 8; the stored image's rows run backwards in
 * 3, 4, 6 and 7, its columns in 2, 3, 7 and 8. */
void jpeg_upright(const uint8_t *from, int64_t height, int64_t width, int channels, int way,
                  uint8_t *to)
{
    bool    across = way >= 5, rows_back = way == 3 || way == 4 || way == 6 || way == 7;
    bool    columns_back = way == 2 || way == 3 || way == 7 || way == 8;
    int64_t out_h = across ? width : height, out_w = across ? height : width;
    for (int64_t y = 0; y < out_h; y++)
        for (int64_t x = 0; x < out_w; x++, to += channels) {
            int64_t row = across ? x : y, column = across ? y : x;
            row = rows_back ? height - 1 - row : row;
            column = columns_back ? width - 1 - column : column;
            memcpy(to, from + (row * width + column) * channels, (size_t)channels);
        }
}
