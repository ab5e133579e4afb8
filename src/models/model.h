/* model.h -- the definition of a system: its recipe keys, its forward graph with a loss, its
 * sampler.
 *
 * A model file can be read beside the paper: it turns a config into a forward graph. It says what
 * is computed, not where or when, and nothing in it concerns memory. The build finds every
 * `const ModelDef model_NAME` of this folder (scripts/list_ops.sh): there is nothing to register.
 */
#ifndef MODELS_MODEL_H
#define MODELS_MODEL_H

#include "base/config.h"
#include "base/safetensors.h"
#include "ir/graph.h"
#include "models/drawn.h"

/* The `sampler:` section of a recipe. A system uses what it needs. */
typedef enum SamplerKind { SAMPLER_DDPM, SAMPLER_DDIM, SAMPLER_RECURRENT } SamplerKind;
enum { SAMPLERS_DENOISING = 1 << SAMPLER_DDPM | 1 << SAMPLER_DDIM };
typedef enum ColourFix { COLOUR_NONE, COLOUR_ADAIN, COLOUR_WAVELET } ColourFix;

typedef struct SamplerConfig {
    int     kind;   /* SamplerKind */
    int64_t steps;  /* of the chain; 0: the system's default */
    int64_t length; /* audio: samples to generate */
    double  eta, guidance, temperature, top_p;
    int     colour; /* ColourFix */
    bool    clip;   /* clips the image predicted at each step to [-1,1] */
} SamplerConfig;

typedef enum ResultKind { RESULT_IMAGES, RESULT_CLIPS, RESULT_AUDIO } ResultKind;

typedef struct SampleResult {
    ResultKind   kind; /* IMAGES (n,H,W,C), CLIPS (n,F,H,W,C), AUDIO (n,L,channels) */
    Shape        shape;
    const float *data;    /* in [-1,1] */
    int64_t      rate;    /* audio: samples per second */
    int64_t      columns; /* images: this many in a row belong together; 0: independent */
} SampleResult;

/* What a sampling loop uses; train/drawing.c implements it. Loops run on the host in plain C: a
 * step of the chain feeds x and t, runs PHASE_SAMPLE and reads the prediction. */
typedef struct Sampler Sampler;
struct Sampler {
    Pool                *pool;
    int64_t              n; /* samples to draw: the batch of the sampling graph */
    const SamplerConfig *config;
    bool                 continues; /* results go on after what the feed of ModelDef.like holds */
    /* Only allocates: all memory of a sample and a result of its shape, but no chain. */
    bool                 dry;
    void                *own; /* of the implementation */
    Err (*run)(Sampler *s, Phase phase);
    /* The host buffer of a feed node: write to it, then run. */
    void *(*feed)(Sampler *s, const char *name);
    /* A graph output as fp32, valid until the next run. */
    const float *(*output)(Sampler *s, const char *name);
    const float *(*weight)(Sampler *s, const char *param); /* a parameter, fp32, disk order */
    /* What a phase keeps for later ones, as fp32: copied to `to`, or taken from `from`. */
    Err (*state_get)(Sampler *s, const char *state, float *to);
    Err (*state_set)(Sampler *s, const char *state, const float *from);
    /* Numbers from N(0,1) or U(0,1): a function of (seed, name, index); tests read them from a
     * file. */
    void (*normal)(Sampler *s, const char *name, int64_t index, float *to, int64_t n);
    void (*uniform)(Sampler *s, const char *name, int64_t index, float *to, int64_t n);
    void (*progress)(Sampler *s, int64_t done, int64_t of);
};

/* An image of any size, as it is enlarged to the size of the result and as the result is written: in
 * strips. train/enlarge.c implements it. */
typedef struct Enlarging Enlarging;
struct Enlarging {
    int64_t height, width; /* of the result */
    int64_t number;        /* of the image: selects its random numbers */
    int64_t tiles;         /* that it took */
    /* The square of the enlarged image at (y, x), (side, side, 3) in [-1,1], mirrored beyond its end,
     * and its edges, -1 or 1; edge NULL: not wanted. y never falls, until `again`. */
    Err (*square)(Enlarging *e, int64_t y, int64_t x, int64_t side, float *image, float *edge);
    Err (*again)(Enlarging *e); /* from the top once more */
    /* The next n rows of the result, in [-1,1]; `pitch` pixels from one to the next. */
    Err (*rows)(Enlarging *e, int64_t n, const float *rgb, int64_t pitch);
};

/* A tensor that the data delivers in addition to the graph's feeds: a view of one of them, or one
 * that the step does not read. Reports list it; it is not in the arena. */
typedef struct BatchRest {
    const char *name;
    Type        type;
    Shape       shape;
    const char *view_of; /* a feed; NULL: not read */
} BatchRest;

enum { BATCH_REST_MAX = 8 };

/* A tensor of the original's state dict that may be no parameter or state of the graph. */
typedef struct OtherTensor {
    SafeTensor  tensor;  /* data NULL: its contents are not known */
    const char *same_as; /* a tied weight: the parameter's name; NULL: it is not */
    bool        counts;  /* a batch norm's number of training batches */
} OtherTensor;

/* A smaller model that `explain --what-if` tries: keys of the `model:` section are scaled. */
typedef enum SizeFactor {
    SIZE_HALF,
    SIZE_HALF_UP,
    SIZE_TWICE,
    SIZE_THREE_QUARTERS,
    SIZE_TWO_THIRDS
} SizeFactor;

typedef struct ModelWhatIf {
    const char *text; /* "half the channels" */
    const char *keys; /* integers or lists of integers; several are separated by spaces */
    SizeFactor  factor;
} ModelWhatIf;

typedef struct ModelDef {
    const char  *name, *summary;
    const Field *fields; /* the `model:` section of a recipe */
    size_t       config_bytes;
    const void  *defaults;
    /* Reads what the config names, e.g. a model's file, which may lie beside the recipe `path`.
     * NULL: nothing. */
    Err (*open)(Pool *pool, const char *path, void *config);
    /* Completes a copy of the config by what a run must record of that file. NULL: nothing. */
    Err (*seal)(Pool *pool, void *config);
    /* Inputs have their user's names: data are found by name, and none is computed by the program. */
    bool named_inputs;
    /* Tied names, constant buffers and unused parameters of the model's file. NULL: none. */
    Err (*others)(Pool *pool, const void *config, OtherTensor **list, int32_t *n);
    /* The random numbers that a micro-batch of so many samples draws. NULL: not known. */
    Err (*drawn)(Pool *pool, const void *config, int64_t batch, const Drawn **list, int32_t *n);
    /* A sentence about the graph that was built last, or NULL. No function: there is none. */
    const char *(*note)(Pool *pool, const void *config);
    /* What is wrong with training so, though it can be done; NULL: nothing. No function: nothing. */
    const char *(*warning)(Pool *pool, const void *config);
    /* The batch size that the model's file was made with. NULL: there is no file. */
    Err (*batch)(const void *config, int64_t *batch);
    /* The largest batch that its file allows. NULL: any. */
    int64_t (*max_batch)(const void *config);
    /* Checks what the fields' ranges cannot express, e.g. that heads divide the width. NULL:
     * nothing. */
    Err (*check)(const void *config);
    /* The same for the `sampler:` section; messages begin with the key. NULL: all are valid. */
    Err (*check_sampler)(const void *config, const SamplerConfig *sampler);
    int sampler_kind; /* SamplerKind, if a recipe names none */
    int result_kind;  /* ResultKind of what is sampled */
    /* Builds one micro-batch: feeds in, [1] fp32 loss out, multiplied by 1/share (the number of
     * accumulated micro-batches). A mean over what a data-dependent mask selects must respect
     * graph->build->split (feed "mask_count"). Marks parameters that are not trained as frozen.
     * Calls graph_output(prediction, "output"). */
    Tensor (*loss)(Graph *graph, const void *config, int64_t batch, int64_t share);
    /* Why a micro-batch cannot be split, or NULL if it can. No function: it can. */
    const char *(*no_split)(const void *config);
    /* Fills `rest` and returns how many there are. NULL: none. */
    int (*batch_rest)(const void *config, int64_t batch, BatchRest *rest);
    const ModelWhatIf *what_if; /* ends with a NULL text; NULL: none */
    /* Tensors of the original's files that this model does not have, '|' between: beginnings of names
     * that end in '.', or whole names. NULL: none. */
    const char        *unread;
    bool               flax; /* the names are those of a Flax tree */
    const char *slow_params; /* name endings that use optimizer.slow_lr, '|' between; NULL: none */

    /* Builds the phases PHASE_SAMPLE_BEGIN (its feeds are loaded from the data or --input),
     * PHASE_SAMPLE and PHASE_SAMPLE_END for n samples; phases not needed stay empty. Sets
     * graph->phase for each and restores it. */
    void (*sample_graph)(Graph *graph, const void *config, const SamplerConfig *sampler, int64_t n);
    Err (*sample)(Sampler *s, const void *config, SampleResult *result);
    /* What the data hold of n results: fills `rest` with the inputs of the loss that results are
     * compared with (the first) and the pixels of it that count (the second), and returns how many
     * there are. NULL: none. */
    int (*truth)(const void *config, int64_t n, BatchRest *rest);
    /* The input of the loss that holds, for n samples, what a result is a new one of; and these bytes
     * as results. NULL: results have a truth, or are of an input that is shown. */
    BatchRest (*like)(const void *config, int64_t n);
    void (*like_result)(Pool *pool, const void *config, const void *data, int64_t n,
                        SampleResult *result);
    bool continues; /* --input gives `like`, and results go on after it */
    /* Builds PHASE_SAMPLE_BEGIN for n samples: what data hold that are computed before training, as
     * outputs of the names of its inputs, from inputs of the data and noise `encode.NAME` for each.
     * NULL: nothing is. */
    void (*encode_graph)(Graph *graph, const void *config, int64_t n);
    /* The embedding of the empty text that `model.context` holds. NULL: there is none. */
    Shape (*context)(const void *config);
    /* For super-resolution: enlarges one image, with n tiles at once on a sampling graph for n
     * results; and the host bytes that it takes for a result of that size. NULL: not such a system. */
    Err (*enlarge)(Sampler *s, const void *config, Enlarging *job);
    int64_t (*enlarge_bytes)(const void *config, int64_t n, int64_t height, int64_t width);
    int64_t (*side)(const void *config); /* of a tile */
} ModelDef;

/* models_list.def is made by the build (scripts/list_ops.sh). */
#define MODEL(name) extern const ModelDef model_##name;
#include "models/models_list.def"
#undef MODEL

#endif
