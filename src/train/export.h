/* export.h -- a run's weights as one safetensors file that the original program loads.
 *
 * It holds what the original's state dict holds, under its names: parameters, batch-norm statistics,
 * and for models of a .pt2 file also tied names and constant buffers. Nothing of the optimizer. */
#ifndef TRAIN_EXPORT_H
#define TRAIN_EXPORT_H

#include "recipe/recipe.h"

typedef struct ExportOptions {
    const char *out;
    int64_t     checkpoint; /* step; -1: the newest */
    bool        average;    /* the average of the weights (EMA) */
    bool        half;       /* parameters in fp16 */
} ExportOptions;

typedef struct ExportReport {
    int64_t     step, bytes;
    int32_t     params, tensors;
    const char *left_out; /* a tensor of the state dict whose contents nobody knows; NULL: none */
    const char *note; /* the newest checkpoint is damaged, and an older one is exported; or NULL */
} ExportReport;

/* recipe: RUN/recipe.yaml. */
Err export_weights(Pool *pool, const char *run, const Recipe *recipe, const ExportOptions *options,
                   ExportReport *report);

#endif
