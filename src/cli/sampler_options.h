/* sampler_options.h -- options of `sample` that set keys of the recipe's `sampler:` section.
 *
 * Each belongs to one way of sampling: removing noise in steps, or drawing value after value. Where
 * the run's system samples in the other way, the option is refused with what to use instead. */
#ifndef CLI_SAMPLER_OPTIONS_H
#define CLI_SAMPLER_OPTIONS_H

#include "cli/cli.h"
#include "recipe/recipe.h"

typedef struct SamplerOptions { /* not given: NULL, NaN, or below 0 */
    const char *sampler;
    double      eta, guidance, temperature, top_p;
    int64_t     steps, length;
} SamplerOptions;

enum { SAMPLER_SETS = 8 };

#define SAMPLER_OPTIONS_NONE                                                                       \
    {                                                                                              \
        .eta = NAN, .guidance = NAN, .temperature = NAN, .top_p = NAN, .steps = -1, .length = -1   \
    }

/* Rows of an option table, for a SamplerOptions called o. */
#define SAMPLER_OPTIONS(o)                                                                         \
    { "sampler", OPT_TEXT, &(o).sampler, "NAME", "ddpm or ddim; not for audio" },                  \
        { "steps", OPT_NATURAL, &(o).steps, "S", "denoising steps of the sampler" },               \
        { "eta", OPT_NUMBER, &(o).eta, "E", "ddim: share of noise that each step adds, 0 to 1" },  \
        { "guidance", OPT_NUMBER, &(o).guidance, "W",                                              \
          "scale of classifier-free guidance; 1: none" },                                          \
        { "length", OPT_COUNT, &(o).length, "N", "audio: number of values to draw" },              \
        { "temperature", OPT_NUMBER, &(o).temperature, "T",                                        \
          "audio: below 1, likelier values more often; 0: only the likeliest" },                   \
    {                                                                                              \
        "top-p", OPT_NUMBER, &(o).top_p, "P",                                                      \
            "audio: only the likeliest levels whose probabilities sum to P"                        \
    }

/* Adds settings of the recipe to sets[*n...]. recipe: the run's, without them. */
Err sampler_sets(Pool *pool, const SamplerOptions *o, const Recipe *recipe, const char **sets,
                 int *n);

#endif
