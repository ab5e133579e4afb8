/* sample.h -- draws samples from a trained run and writes them to image, clip and audio files.
 *
 * The sampling graph is planned on its own: its arena is planned, allocated once, and measured, as
 * that of a training step. Random numbers are a function of (seed, name, index), so a seed always
 * gives the same results. */
#ifndef TRAIN_SAMPLE_H
#define TRAIN_SAMPLE_H

#include "recipe/recipe.h"
#include "train/checkpoint.h"

#include "exec/session.h"

typedef struct SampleOptions {
    const char  *out;          /* folder for the results */
    const char  *input;        /* file or folder used instead of the recipe's data; or NULL */
    const char  *prompt;       /* or NULL */
    const char  *tower;        /* weights of the text tower that embeds it; NULL: as the run says */
    const char  *vocabulary;   /* of that tower; NULL: as the run says, or beside its weights */
    const char  *given;        /* inputs and random numbers from this file; or NULL */
    const char  *format;       /* of single results, e.g. "gif,npy"; NULL: the usual one */
    int64_t      n;            /* results; super-resolution of --input: images, 0: all of them */
    int64_t      tiles, scale; /* super-resolution of --input: tiles at once; times the size */
    int64_t      hold_back;    /* input: its last frames, which are the truth */
    int64_t      seed;         /* -1: that of the run */
    int64_t      checkpoint;   /* step; -1: the newest */
    int64_t      budget_bytes; /* 0: none */
    const char  *cache;        /* folder for decoded video and audio; NULL: that of the run */
    int64_t      loader_bytes; /* limit of the memory that loads data; 0: none */
    struct Comm *comm;         /* the ranks that share the results; NULL: there is one */
    bool         beside;       /* samples of the data are written beside results */
    WeightsKind  weights;
    bool         quiet;
} SampleOptions;

typedef struct SampleError { /* of results whose truth is known, over the pixels that count */
    int64_t pixels;          /* 0: not known */
    bool    metres;          /* else levels of 255 */
    double  mean, white;     /* white: where error.png is white */
} SampleError;

typedef struct SampleReport {
    const char **files; /* in the order written */
    int32_t      n_files, cap_files;
    int64_t      drawn; /* results */
    const char **about; /* one line each: what each sample was drawn from; NULL: nothing to say */
    const char  *note;  /* NULL, or what became of a result that was asked for otherwise */
    SampleError  error;
    int64_t      step;     /* of the checkpoint */
    bool         averaged; /* averaged weights were used */
    bool         trained;  /* inputs are samples that the run was trained on */
    int64_t      planned_bytes, measured_bytes;
    double       seconds;
} SampleReport;

/* recipe: RUN/recipe.yaml, with settings already applied. */
Err sample_run(Pool *pool, const char *run, const Recipe *recipe, const Device *device,
               const SampleOptions *options, SampleReport *report);

#endif
