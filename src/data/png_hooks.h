/* png_hooks.h -- what libpng calls when it reads and when it writes: its memory ends with the
 * caller's, its warnings are not shown, and an error jumps back with its reason. For files that are
 * compiled with libpng. */
#ifndef DATA_PNG_HOOKS_H
#define DATA_PNG_HOOKS_H

#include <png.h>
#include <stdint.h>
#include <string.h>

typedef struct PngReason { /* libpng's error pointer: why it gave up */
    char text[128];
} PngReason;

/* Bytes that may follow where the last row begins: libpng unpacks what is behind the pixels and drops it,
 * up to a thousand times the file's size. */
enum { PNG_BEYOND = 64 * 1024 };

static inline size_t png_rest(size_t row) { return row + PNG_BEYOND; }

/* Before n bytes are handed over; rest is SIZE_MAX until the last row. */
static inline void png_count(png_structp png, size_t *rest, size_t n)
{
    if (n > *rest)
        png_error(png, "it has data beyond its pixels");
    *rest -= *rest == SIZE_MAX ? 0 : n;
}

static inline void png_keep_memory(png_structp png, png_voidp at)
{
    (void)png;
    (void)at;
}

static inline void png_give_up(png_structp png, png_const_charp text)
{
    PngReason *reason = png_get_error_ptr(png);
    strncpy(reason->text, text, sizeof reason->text - 1);
    png_longjmp(png, 1);
}

static inline void png_ignore_warning(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

#endif
