/* png_hooks.h -- what libpng calls when it reads and when it writes: its memory ends with the
 * caller's, its warnings are not shown, and an error jumps back with its reason. For files that are
 * compiled with libpng. */
#ifndef DATA_PNG_HOOKS_H
#define DATA_PNG_HOOKS_H

#include <png.h>
#include <string.h>

typedef struct PngReason { /* libpng's error pointer: why it gave up */
    char text[128];
} PngReason;

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
