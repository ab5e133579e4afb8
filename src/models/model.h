/* model.h -- what a system is: recipe keys, a forward graph with a loss, how it is trained.
 *
 * A model file is a page to hold beside the paper: config -> forward graph. It says what is
 * computed, never where or when; no memory word stands in it. The table in models.c lists them.
 */
#ifndef MODELS_MODEL_H
#define MODELS_MODEL_H

#include "base/config.h"
#include "ir/graph.h"

/* Sampling: the `sampler:` section of a recipe. A system uses what it needs. */
typedef enum SamplerKind { SAMPLER_DDPM, SAMPLER_DDIM, SAMPLER_RECURRENT } SamplerKind;
typedef enum ColourFix { COLOUR_NONE, COLOUR_ADAIN, COLOUR_WAVELET } ColourFix;

typedef struct SamplerConfig {
    int     kind;                /* SamplerKind */
    int64_t steps;               /* of the chain; 0: the system's own */
    int64_t length;              /* audio: samples to generate */
    double  eta, guidance, temperature;
    int     colour;              /* ColourFix */
    bool    clip;                /* the image predicted at each step is kept within [-1,1] */
} SamplerConfig;

typedef enum ResultKind { RESULT_IMAGES, RESULT_CLIPS, RESULT_AUDIO } ResultKind;

typedef struct SampleResult {
    ResultKind  kind;            /* IMAGES (n,H,W,C), CLIPS (n,F,H,W,C), AUDIO (n,L,channels) */
    Shape       shape;
    const float *data;           /* in [-1,1] */
    int64_t     rate;            /* audio: samples a second */
    int64_t     columns;         /* images: that many side by side belong together; 0: none do */
} SampleResult;

/* What a sampling loop may use; train/drawing.c fills it. Loops run on the host in plain C: a chain
 * step feeds x and t, runs PHASE_SAMPLE and reads the prediction. */
typedef struct Sampler Sampler;
struct Sampler {
    Pool                *pool;
    int64_t              n;      /* samples wanted, the batch of the sampling graph */
    const SamplerConfig *config;
    const char          *prompt; /* or NULL */
    /* only to take memory: all that a sample takes, a result of its shape, no chain */
    bool                 dry;
    void                *own;
    Err          (*run)(Sampler *s, Phase phase);
    /* host buffer of a feed node: write, then run */
    void        *(*feed)(Sampler *s, const char *name);
    /* a graph output as fp32, until the next run */
    const float *(*output)(Sampler *s, const char *name);
    const float *(*weight)(Sampler *s, const char *param);   /* a parameter, fp32, disk order */
    /* N(0,1) or (0,1) numbers: a function of (seed, name, index), or from a given file (tests). */
    void         (*normal)(Sampler *s, const char *name, int64_t index, float *to, int64_t n);
    void         (*uniform)(Sampler *s, const char *name, int64_t index, float *to, int64_t n);
    void         (*progress)(Sampler *s, int64_t done, int64_t of);
};

/* What the data gives of a batch besides the graph's feeds: a view of one of them, or a part that
 * the step does not read. Reports list it; no byte of it is in the arena. */
typedef struct BatchRest {
    const char *name;
    Type        type;
    Shape       shape;
    const char *view_of;         /* a feed; NULL: not read */
} BatchRest;

enum { BATCH_REST_MAX = 8 };

typedef struct ModelDef {
    const char  *name, *summary;
    const Field *fields;         /* the `model:` section of a recipe */
    size_t       config_bytes;
    const void  *defaults;
    /* What the fields' ranges cannot say: "heads do not divide the width". NULL: nothing. */
    Err    (*check)(const void *config);
    /* The same of the `sampler:` section; sentences begin with the key. NULL: any will do. */
    Err    (*check_sampler)(const void *config, const SamplerConfig *sampler);
    int    sampler_kind;         /* SamplerKind, where a recipe does not say */
    /* One micro-batch: feeds in, [1] fp32 loss out, times 1/share (accumulated micro-batches). A
     * mean over what data-dependent masks let count heeds graph->pieces (feed "mask_count"). Marks
     * parameters that are not to be trained as frozen. Also graph_output(prediction, "output"). */
    Tensor (*loss)(Graph *graph, const void *config, int64_t batch, int64_t share);
    /* Why a micro-batch may not be run in pieces, or NULL; the function NULL: it may. */
    const char *(*no_split)(const void *config);
    /* how many; NULL: none */
    int    (*batch_rest)(const void *config, int64_t batch, BatchRest *rest);
    const char  *slow_params; /* name endings that use optimizer.slow_lr, '|' between; NULL: none */

    /* The parts PHASE_SAMPLE_BEGIN (feeds there are loaded from the data or --input), PHASE_SAMPLE
     * and PHASE_SAMPLE_END, for n samples; parts not needed stay empty. Set graph->part around
     * each. */
    void (*sample_graph)(Graph *graph, const void *config, const SamplerConfig *sampler, int64_t n);
    Err    (*sample)(Sampler *s, const void *config, SampleResult *result);
} ModelDef;

extern const ModelDef *const models_all[];
extern const int             models_count;
const ModelDef *model_find(const char *name);        /* NULL if there is none */

#endif
