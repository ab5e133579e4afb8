/* drawing.h -- a sampling loop on a session: what a model may use while it draws, and its results
 * as files.
 *
 * The session holds the parts PHASE_SAMPLE_BEGIN, PHASE_SAMPLE and PHASE_SAMPLE_END: alone (`plimsoll
 * sample`) or beside those of training (phases.h). Random numbers are a function of (seed, name,
 * index), so a seed gives the same results again. */
#ifndef TRAIN_DRAWING_H
#define TRAIN_DRAWING_H

#include "train/sample.h"

typedef struct DrawingOptions {
    const char *input;           /* what to start from, instead of the recipe's data; or NULL */
    const char *prompt;          /* or NULL */
    int64_t     n, seed;
    bool        averaged;  /* weights are read from their averages, where the graph has them */
    bool        quiet;
} DrawingOptions;

typedef struct Drawing Drawing;

extern const Phase drawing_phases[3];

Err drawing_new(Pool *pool, Session *session, const Recipe *recipe, const DrawingOptions *options,
                Drawing **drawing);
int64_t drawing_bytes(const Drawing *drawing);       /* of its buffers on the host */

/* Draws once and writes the results to the folder. */
Err drawing_draw(Drawing *drawing, const char *folder, SampleReport *report);

/* For drawing again and again: drawing_prepare takes all memory that it needs, drawing_again
 * none. */
Err drawing_prepare(Drawing *drawing);
Err drawing_again(Drawing *drawing, const char *folder);

#endif
