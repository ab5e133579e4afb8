/* gif_write.c -- writes animated GIF files: one palette for all frames, LZW without delay codes. */
#include "data/gif.h"

#include "base/file.h"

#include <math.h>
#include <string.h>

enum {
    CODE_BITS = 8,
    CLEAR = 1 << CODE_BITS, /* the table starts anew */
    END = CLEAR + 1,
    CODES = 4096, /* codes have 12 bits at most */
    BLOCK = 255,  /* bytes of a block of data */
    SIDE_MAX = 65535
};

typedef struct GifWriter {
    FileOut      *out;
    uint32_t      bits;
    int           n_bits, width, n_codes, n_block; /* width: bits of a code now */
    unsigned char block[BLOCK];
    uint16_t (*next)[256]; /* the code of a known text and one more colour; 0: not known */
} GifWriter;

static void put_byte(FileOut *out, int x)
{
    file_out_add(out, &(unsigned char){ (unsigned char)x }, 1);
}

static void put_short(FileOut *out, int64_t x)
{
    put_byte(out, (int)(x & 255));
    put_byte(out, (int)(x >> 8 & 255));
}

static void block_end(GifWriter *w)
{
    if (w->n_block) {
        put_byte(w->out, w->n_block);
        file_out_add(w->out, w->block, (size_t)w->n_block);
    }
    w->n_block = 0;
}

static void code_put(GifWriter *w, int code)
{
    w->bits |= (uint32_t)code << w->n_bits;
    for (w->n_bits += w->width; w->n_bits >= 8; w->n_bits -= 8, w->bits >>= 8) {
        w->block[w->n_block++] = (unsigned char)w->bits;
        if (w->n_block == BLOCK)
            block_end(w);
    }
}

static void table_clear(GifWriter *w)
{
    code_put(w, CLEAR);
    memset(w->next, 0, CODES * sizeof *w->next);
    w->n_codes = END + 1;
    w->width = CODE_BITS + 1;
}

/* The text that was written and its next colour get a code; codes grow with the table. */
static void table_add(GifWriter *w, int code, int colour)
{
    if (w->n_codes == CODES) {
        table_clear(w);
        return;
    }
    w->next[code][colour] = (uint16_t)w->n_codes;
    w->width += w->n_codes == 1 << w->width && w->width < 12;
    w->n_codes++;
}

static void frame_compress(GifWriter *w, const unsigned char *indices, int64_t n)
{
    int code = indices[0];
    w->bits = 0;
    w->n_bits = 0;
    w->width = CODE_BITS + 1;
    put_byte(w->out, CODE_BITS);
    table_clear(w);
    for (int64_t i = 1; i < n; i++) {
        int longer = w->next[code][indices[i]];
        if (longer) {
            code = longer;
            continue;
        }
        code_put(w, code);
        table_add(w, code, indices[i]);
        code = indices[i];
    }
    code_put(w, code);
    table_add(w, code, 0); /* a reader adds it too, so the last code may be longer */
    code_put(w, END);
    if (w->n_bits) { /* fill the last byte */
        w->width = 8 - w->n_bits;
        code_put(w, 0);
    }
    block_end(w);
    put_byte(w->out, 0);
}

static void head_put(FileOut *out, const VideoClip *clip, const GifPalette *palette)
{
    file_out_add(out, "GIF89a", 6);
    put_short(out, clip->width);
    put_short(out, clip->height);
    file_out_add(out, "\xf7\0", 3); /* 256 colours for all frames; background; square pixels */
    file_out_add(out, palette->rgb, sizeof palette->rgb);
    file_out_add(out, "\x21\xff\x0bNETSCAPE2.0\x03\x01\0\0", 19); /* repeat without end */
}

/* Delays are hundredths of a second, rounded so that they add up to the clip's time. */
static void frame_put(GifWriter *w, const VideoClip *clip, int64_t k, const unsigned char *indices)
{
    double each = 100 / clip->rate;
    long   from = lrint((double)k * each), to = lrint((double)(k + 1) * each);
    file_out_add(w->out, "\x21\xf9\x04\x04", 4);
    put_short(w->out, to - from > SIDE_MAX ? SIDE_MAX : to - from);
    file_out_add(w->out, "\0\0\x2c\0\0\0\0", 7);
    put_short(w->out, clip->width);
    put_short(w->out, clip->height);
    put_byte(w->out, 0);
    frame_compress(w, indices, clip->width * clip->height);
}

Err gif_write(Pool *parent, const char *path, const VideoClip *clip)
{
    int64_t size = clip->width * clip->height;
    FileOut out;
    if (clip->width > SIDE_MAX || clip->height > SIDE_MAX)
        return fail(E_USAGE,
                    "%s cannot be written: a GIF has at most %d pixels a side, and the clip %lld x "
                    "%lld; take --format npy",
                    path, SIDE_MAX, (long long)clip->width, (long long)clip->height);
    TRY(file_out_init(&out, path));
    Pool          *pool = pool_new(parent, "gif");
    GifPalette    *palette = NEW(pool, GifPalette);
    unsigned char *indices = NEWN(pool, unsigned char, (size * clip->frames));
    GifWriter     *w = NEW(pool, GifWriter);
    w->out = &out;
    w->next = pool_alloc(pool, CODES, sizeof *w->next);
    gif_palette(pool, clip->rgb, size * clip->frames, palette, indices);
    head_put(&out, clip, palette);
    for (int64_t k = 0; k < clip->frames; k++)
        frame_put(w, clip, k, indices + k * size);
    put_byte(&out, ';');
    pool_free(pool);
    return file_out_done(&out, OK);
}
