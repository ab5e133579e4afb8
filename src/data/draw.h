/* draw.h -- small drawings, for the kinds of data that need no files. */
#ifndef DATA_DRAW_H
#define DATA_DRAW_H

#include "base/random.h"

typedef enum Form { FORM_DISC, FORM_BOX, FORM_RING, FORM_CROSS, FORM_TRIANGLE, FORM_COUNT } Form;

extern const char *const form_names[FORM_COUNT];

/* 1 inside, 0 outside, antialiased over one pixel; (dx, dy) is measured from the centre. */
float draw_form(Form form, float dx, float dy, float radius);

/* A hue in [0,1) to red, green and blue in [0,1]. */
void draw_hue(float hue, float rgb[3]);

/* A disc, box or stripes on a gradient; channels last, in [-1,1]. */
void draw_image(RandomKey key, int64_t height, int64_t width, int64_t channels, float *to);

#endif
