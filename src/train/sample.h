/* sample.h -- drawing results from a trained run, and writing them where people can look at them.
 *
 * The sampling graph is planned on its own: its arena is stated, taken once, and measured like a
 * training step's. Random numbers are a function of (seed, name, index), so a seed gives the same
 * results again. */
#ifndef TRAIN_SAMPLE_H
#define TRAIN_SAMPLE_H

#include "recipe/recipe.h"

#include "exec/session.h"

typedef struct SampleOptions {
    const char *out;             /* folder for the results */
    const char *input;           /* what to start from, instead of the recipe's data; or NULL */
    const char *prompt;          /* or NULL */
    int64_t     n;
    int64_t     seed;            /* -1: the run's */
    int64_t     checkpoint;      /* step; -1: the newest */
    int64_t     budget_bytes;    /* 0: none */
    bool        raw;             /* the weights themselves, not their average */
    bool        quiet;
} SampleOptions;

typedef struct SampleReport {
    const char **files;          /* written, in order */
    int32_t      n_files, cap_files;
    const char **about;          /* n lines on what each sample was drawn from; NULL: nothing */
    int64_t      step;           /* of the checkpoint */
    bool         averaged;       /* the weights were */
    int64_t      planned_bytes, measured_bytes;
    double       seconds;
} SampleReport;

/* The recipe is RUN/recipe.yaml, with settings already applied. */
Err sample_run(Pool *pool, const char *run, const Recipe *recipe, const Device *device,
               const SampleOptions *options, SampleReport *report);

/* Images as one sheet and one by one, clips as strips of frames, sound as WAV and as a image.
 * folder, or path, NULL: all but the writing. */
Err results_write(Pool *pool, const char *folder, const SampleResult *result, SampleReport *report);
/* Numbers in [-1,1], (n,H,W,C) or (n,F,H,W,C), as one sheet; anything else is left aside. */
Err results_sheet(Pool *pool, const char *path, const float *data, Shape shape, bool *written);

/* Waveforms and spectrograms, one below the other. */
Err results_audio_image(Pool *pool, const char *path, const SampleResult *result);

#endif
