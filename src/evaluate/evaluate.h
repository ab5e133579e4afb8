/* evaluate.h -- measures a run's weights on samples that it was not trained on.
 *
 * The loss is taken at evenly spaced timesteps (systems without timesteps: once), for every sample,
 * with noise that depends on the seed and the sample's number only. Where results can be compared
 * with the truth they are drawn too: images (evaluate/quality.h), and clips, range images in metres.
 * The graph of both is planned on its own and runs in one arena.
 *
 * Several ranks share the batches, and rank 0 adds up what they found in the order of batches: its
 * figures are those of one process. The others' are not complete. */
#ifndef EVALUATE_EVALUATE_H
#define EVALUATE_EVALUATE_H

#include "evaluate/quality.h"
#include "recipe/recipe.h"
#include "train/checkpoint.h"

enum { EVALUATE_TIMESTEPS = 50, EVALUATE_SAMPLES = 16 };

typedef struct EvaluateOptions {
    const char  *data;      /* the samples; NULL: those that the run held out */
    const char  *pairs;     /* folder for drawn images and true ones, or NULL */
    const char  *cache;     /* folder for decoded video and audio; NULL: that of the run */
    int64_t      n;         /* samples; 0: all, and EVALUATE_SAMPLES of generated data */
    int64_t      batch;     /* samples at once; the number of samples is a multiple of it */
    int64_t      draw;      /* draw results of so many samples; -1: of all */
    int64_t      timesteps; /* of the loss; 0: EVALUATE_TIMESTEPS, or all if there are fewer */
    int64_t      seed, checkpoint, budget_bytes, loader_bytes; /* as in SampleOptions */
    struct Comm *comm; /* the ranks that share the samples; NULL: there is one */
    WeightsKind  weights;
    bool         quiet;
} EvaluateOptions;

typedef struct EvaluatedSample {
    const char *about; /* its file, class or caption; NULL: not known */
    double      loss;
} EvaluatedSample;

typedef struct ClipErrors { /* of predicted frames against the true ones, over valid pixels */
    bool    metres;         /* range images; else levels of 255 */
    double  mae, rmse;
    double  temporal; /* mean |(p_k - p_(k-1)) - (y_k - y_(k-1))|; NaN: there is one frame */
    int64_t valid, pixels;
} ClipErrors;

typedef struct Evaluation {
    int64_t     step;        /* of the checkpoint */
    bool        averaged;    /* averaged weights were used */
    uint64_t    weights;     /* hash of the weights that were used */
    const char *kind;        /* of the data */
    const char *data;        /* its path; NULL: drawn by the program */
    uint64_t    fingerprint; /* of the numbers that the model was given */
    int64_t     samples, of; /* `of`: there are so many; 0: any number can be drawn */

    double           loss;    /* mean over samples and timesteps */
    double           bits;    /* audio: of one value; NaN: this system has none */
    int64_t          n_times; /* 0: the system has no timesteps */
    int64_t         *times;
    double          *losses; /* at each of them */
    EvaluatedSample *list;   /* one per sample; NULL: several at once */

    int64_t    drawn; /* results */
    bool       has_images, has_clips;
    Quality    images, inputs; /* means; of the low-quality images, enlarged */
    ClipErrors clips;

    int64_t planned_bytes, measured_bytes;
    double  seconds;
} Evaluation;

/* recipe: RUN/recipe.yaml, with settings already applied. */
Err evaluate_run(Pool *pool, const char *run, const Recipe *recipe, const Device *device,
                 const EvaluateOptions *options, Evaluation *out);

#endif
