/* noise_inputs.h -- the inputs of a graph that its user does not give: noise and timesteps.
 *
 * They are what a model's loss asks for in addition when noise is given (BuildOptions.given_noise).
 * A normal number depends on the seed, the input's name, the sample's number and its place in the
 * sample, so that it is the same for any batch. */
#ifndef EVALUATE_NOISE_INPUTS_H
#define EVALUATE_NOISE_INPUTS_H

#include "recipe/recipe.h"
#include "train/feeds.h"

typedef struct NoiseInput {
    const char *name;
    Shape       one;  /* its shape with a batch of 1 */
    int         axis; /* that grows with the batch */
    bool        times;
} NoiseInput;

typedef struct NoiseInputs {
    NoiseInput  *list;
    int32_t      n, cap;
    const char **names; /* NULL at the end; for Feeds.aside */
    uint64_t     seed;
} NoiseInputs;

Err  noise_inputs_find(Pool *pool, const Recipe *recipe, const BuildOptions *build,
                       NoiseInputs *out);
/* The noise of samples first .. first + batch - 1, into a buffer of that name. */
void noise_fill(const NoiseInputs *inputs, const char *name, int64_t first, int64_t batch,
                void *to);
bool noise_has_times(const NoiseInputs *inputs);

#endif
