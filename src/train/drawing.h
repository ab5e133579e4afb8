/* drawing.h -- runs a model's sampling loop on a session and writes its results to files.
 *
 * The session holds the phases PHASE_SAMPLE_BEGIN, PHASE_SAMPLE and PHASE_SAMPLE_END: alone
 * (`plimsoll sample`) or beside those of training (phases.h). Random numbers are a function of
 * (seed, name, index), so a seed always gives the same results. */
#ifndef TRAIN_DRAWING_H
#define TRAIN_DRAWING_H

#include "data/text_space.h"
#include "train/sample.h"

#include <signal.h>

typedef struct DrawingOptions {
    const char  *input;              /* file or folder used instead of the recipe's data; or NULL */
    const char  *prompt;             /* or NULL */
    const float *text;               /* its embedding; NULL: the stand-in's (base/prompt.h) */
    int64_t      n_text;             /* numbers of it */
    TextSpace    space;              /* of the run's texts: others are refused; encoder NULL: any */
    const char  *given;              /* inputs and random numbers from this file; or NULL */
    int          formats;            /* of single results (results.h); 0: the usual one */
    int64_t      n, seed, hold_back; /* n: of all ranks. hold_back: see SampleOptions */
    bool         beside;             /* samples of the data are written beside results */
    bool         metres;             /* range images are written as metres too */
    const char  *cache;              /* folder for decoded files; NULL: a temporary one */
    int64_t      loader_bytes;       /* limit of the memory that loads data; 0: none */
    bool         averaged;           /* uses the averaged weights (EMA), if the graph has them */
    bool         fed; /* the caller fills the inputs (drawing_input); no data are opened */
    bool         quiet;
    struct Comm *comm;      /* the ranks that share the results; NULL: there is one */
    bool         unwritten; /* draws as others do, but writes no file */
} DrawingOptions;

/* How many of n results the sampling graph of each rank draws at once. */
int64_t drawing_each(const struct Comm *comm, int64_t n);

typedef struct Drawing Drawing;

extern const Phase drawing_phases[3];

Err drawing_new(Pool *pool, Session *session, const Recipe *recipe, const DrawingOptions *options,
                Drawing **drawing);
int64_t drawing_bytes(const Drawing *drawing); /* of its buffers on the host */

/* Draws once and writes the results to the folder. */
Err drawing_draw(Drawing *drawing, const char *folder, SampleReport *report);

/* For callers that use results and weights themselves. The sampler's memory comes from `pool`. */
Sampler drawing_sampler(Drawing *drawing, Pool *pool);
/* The host bytes of an input of the first phase; NULL: it has none of that name. */
void   *drawing_input(Drawing *drawing, const char *name);
/* Draws results `first` to first + n - 1: their numbers select the random numbers, whatever n is. */
Err     drawing_result(Drawing *drawing, Pool *pool, int64_t first, SampleResult *result);

/* For drawing repeatedly: drawing_prepare allocates all memory, drawing_again allocates none. */
Err  drawing_prepare(Drawing *drawing);
Err  drawing_again(Drawing *drawing, const char *folder);
/* drawing_again then calls `wrote` with each file that it has written. */
void drawing_tell_files(Drawing *drawing, void (*wrote)(void *arg, const char *path), void *arg);
/* Drawing is cut short, with an error, once *stop is not 0; drawing_stopped then says so. */
void drawing_stop_by(Drawing *drawing, const volatile sig_atomic_t *stop);
bool drawing_stopped(const Drawing *drawing);

#endif
