/* sample.h -- draws samples from a trained run and writes them to image, clip and audio files.
 *
 * The sampling graph is planned on its own: its arena is planned, allocated once, and measured, as
 * that of a training step. Random numbers are a function of (seed, name, index), so a seed always
 * gives the same results. */
#ifndef TRAIN_SAMPLE_H
#define TRAIN_SAMPLE_H

#include "recipe/recipe.h"

#include "exec/session.h"

typedef struct SampleOptions {
    const char *out;    /* folder for the results */
    const char *input;  /* file or folder used instead of the recipe's data; or NULL */
    const char *prompt; /* or NULL */
    const char *given;  /* inputs and random numbers from this file; or NULL */
    int64_t     n;
    int64_t     seed;         /* -1: that of the run */
    int64_t     checkpoint;   /* step; -1: the newest */
    int64_t     budget_bytes; /* 0: none */
    const char *cache;        /* folder for decoded video and audio; NULL: that of the run */
    int64_t     loader_bytes; /* limit of the memory that loads data; 0: none */
    bool        raw;          /* uses the weights themselves, not their average (EMA) */
    bool        quiet;
} SampleOptions;

typedef struct SampleReport {
    const char **files; /* in the order written */
    int32_t      n_files, cap_files;
    const char **about;    /* n lines: what each sample was drawn from; NULL: nothing to say */
    int64_t      step;     /* of the checkpoint */
    bool         averaged; /* averaged weights were used */
    int64_t      planned_bytes, measured_bytes;
    double       seconds;
} SampleReport;

/* recipe: RUN/recipe.yaml, with settings already applied. */
Err sample_run(Pool *pool, const char *run, const Recipe *recipe, const Device *device,
               const SampleOptions *options, SampleReport *report);

/* Writes images as one sheet and one by one, clips as strips of frames, audio as WAV and as an
 * image. folder (below: path) NULL: does everything except writing. */
Err results_write(Pool *pool, const char *folder, const SampleResult *result, SampleReport *report);
/* Writes numbers in [-1,1] of shape (n,H,W,C) or (n,F,H,W,C) as one sheet; ignores other shapes. */
Err results_sheet(Pool *pool, const char *path, const float *data, Shape shape, bool *written);

/* Waveforms and spectrograms, one below the other. */
Err results_audio_image(Pool *pool, const char *path, const SampleResult *result);

#endif
