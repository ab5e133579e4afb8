/* enlarge.h -- super-resolution of images of any size: files in, files out, both in strips.
 *
 * The model sees tiles of its own size (ModelDef.enlarge). An image keeps its alpha, which is enlarged
 * by a cubic filter, its 8 or 16 bits, and grey stays grey. */
#ifndef TRAIN_ENLARGE_H
#define TRAIN_ENLARGE_H

#include "train/drawing.h"

enum { SCALE_USUAL = 4, SCALE_MAX = 16 };

typedef struct EnlargeOptions {
    const char  *input; /* an image, or a folder of images */
    const char  *folder;
    int64_t      n;      /* images; 0: all */
    int64_t      scale;  /* the result has so many times the rows and columns */
    int64_t      memory; /* limit of what is held on the host; 0: none */
    struct Comm *comm;   /* the ranks that share the images; NULL: there is one */
} EnlargeOptions;

/* drawing: of a sampling graph for so many tiles at once, whose caller fills the inputs. */
Err enlarge_images(Pool *pool, Drawing *drawing, const Recipe *recipe,
                   const EnlargeOptions *options, SampleReport *report);

#endif
