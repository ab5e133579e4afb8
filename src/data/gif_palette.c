/* gif_palette.c -- at most 256 colours for a clip.
 *
 * Colours are counted. Where there are too many, those that agree in the upper five bits of each
 * channel are taken together, and boxes of them are divided, always the one whose colours lie
 * furthest apart, where its mean is, until there are 256 (Heckbert 1982, with Wu's choice of the
 * box). A box becomes its mean colour. */
#include "data/gif.h"

#include <string.h>

enum { BITS = 5, CELLS = 1 << 3 * BITS, SLOTS = 1024 };

/* ---- few colours ---- */

typedef struct ColourSlot {
    uint32_t colour; /* + 1; 0: empty */
    int      index;
} ColourSlot;

static uint32_t colour_of(const unsigned char *p)
{
    return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
}

/* The colour's number; a new one gets the next, or -1 where the palette is full. */
static int colour_find(ColourSlot *slots, GifPalette *palette, const unsigned char *p)
{
    uint32_t colour = colour_of(p) + 1, at = colour * 2654435761u >> 22;
    while (slots[at].colour && slots[at].colour != colour)
        at = (at + 1) % SLOTS;
    if (slots[at].colour)
        return slots[at].index;
    if (palette->n == GIF_COLOURS)
        return -1;
    slots[at] = (ColourSlot){ colour, palette->n };
    memcpy(palette->rgb[palette->n], p, 3);
    return palette->n++;
}

static bool palette_exact(const unsigned char *rgb, int64_t n, GifPalette *palette,
                          unsigned char *indices)
{
    ColourSlot slots[SLOTS] = { { 0 } };
    palette->n = 0;
    for (int64_t i = 0; i < n; i++) {
        int index = colour_find(slots, palette, rgb + 3 * i);
        if (index < 0)
            return false;
        indices[i] = (unsigned char)index;
    }
    return true;
}

/* ---- many colours ---- */

typedef struct ColourCell { /* of the colours that share their upper bits */
    int64_t n, sum[3];
    int     at; /* its index in the table */
} ColourCell;

typedef struct ColourBox { /* cells first .. first + n - 1 */
    int64_t first, n, pixels;
    double  mean[3], spread[3]; /* spread: sum of squared distances from the mean */
} ColourBox;

static int cell_of(const unsigned char *p)
{
    return (p[0] >> (8 - BITS)) << 2 * BITS | (p[1] >> (8 - BITS)) << BITS | p[2] >> (8 - BITS);
}

static double cell_mean(const ColourCell *c, int channel)
{
    return (double)c->sum[channel] / (double)c->n;
}

static ColourBox box_of(const ColourCell *cells, int64_t first, int64_t n)
{
    ColourBox b = { .first = first, .n = n };
    for (int64_t i = first; i < first + n; i++) {
        b.pixels += cells[i].n;
        for (int k = 0; k < 3; k++)
            b.mean[k] += (double)cells[i].sum[k];
    }
    for (int k = 0; k < 3; k++) {
        b.mean[k] /= (double)b.pixels;
        for (int64_t i = first; i < first + n; i++) {
            double apart = cell_mean(&cells[i], k) - b.mean[k];
            b.spread[k] += (double)cells[i].n * apart * apart;
        }
    }
    return b;
}

static int widest_channel(const ColourBox *b)
{
    int widest = 0;
    for (int k = 1; k < 3; k++)
        widest = b->spread[k] > b->spread[widest] ? k : widest;
    return widest;
}

/* Moves the cells below the mean of the widest channel to the front; returns how many they are. */
static int64_t box_divide(const ColourBox *b, ColourCell *cells)
{
    int     k = widest_channel(b);
    int64_t low = b->first;
    for (int64_t i = b->first; i < b->first + b->n; i++)
        if (cell_mean(&cells[i], k) < b->mean[k]) {
            ColourCell other = cells[low];
            cells[low++] = cells[i];
            cells[i] = other;
        }
    return low - b->first;
}

static double box_spread(const ColourBox *b) { return b->n < 2 ? 0 : b->spread[widest_channel(b)]; }

static int boxes_make(ColourCell *cells, int64_t n_cells, ColourBox *boxes)
{
    int n = 1;
    boxes[0] = box_of(cells, 0, n_cells);
    while (n < GIF_COLOURS) {
        int worst = 0;
        for (int i = 1; i < n; i++)
            worst = box_spread(&boxes[i]) > box_spread(&boxes[worst]) ? i : worst;
        ColourBox *b = &boxes[worst];
        int64_t    low = box_spread(b) > 0 ? box_divide(b, cells) : 0;
        if (low < 1)
            break;
        boxes[n++] = box_of(cells, b->first + low, b->n - low);
        *b = box_of(cells, b->first, low);
    }
    return n;
}

static int64_t cells_count(const unsigned char *rgb, int64_t n, ColourCell *cells)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
        ColourCell *c = &cells[cell_of(rgb + 3 * i)];
        c->n++;
        for (int k = 0; k < 3; k++)
            c->sum[k] += rgb[3 * i + k];
    }
    for (int i = 0; i < CELLS; i++)
        if (cells[i].n) {
            cells[i].at = i;
            cells[kept++] = cells[i];
        }
    return kept;
}

void gif_palette(Pool *pool, const unsigned char *rgb, int64_t n, GifPalette *palette,
                 unsigned char *indices)
{
    if (palette_exact(rgb, n, palette, indices))
        return;
    Pool          *work = pool_new(pool, "palette");
    ColourCell    *cells = NEWN(work, ColourCell, CELLS);
    ColourBox     *boxes = NEWN(work, ColourBox, GIF_COLOURS);
    unsigned char *box_at = NEWN(work, unsigned char, CELLS);
    palette->n = boxes_make(cells, cells_count(rgb, n, cells), boxes);
    for (int i = 0; i < palette->n; i++) {
        for (int k = 0; k < 3; k++)
            palette->rgb[i][k] = (unsigned char)(boxes[i].mean[k] + 0.5);
        for (int64_t c = boxes[i].first; c < boxes[i].first + boxes[i].n; c++)
            box_at[cells[c].at] = (unsigned char)i;
    }
    for (int64_t i = 0; i < n; i++)
        indices[i] = box_at[cell_of(rgb + 3 * i)];
    pool_free(work);
}
