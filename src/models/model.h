/* model.h -- what a system is: recipe keys, a forward graph with a loss, how it is trained.
 *
 * A model file is a page to hold beside the paper: config -> forward graph. It says what is
 * computed, never where or when; no memory word stands in it. The table in models.c lists them.
 */
#ifndef MODELS_MODEL_H
#define MODELS_MODEL_H

#include "base/config.h"
#include "ir/graph.h"

typedef struct ModelDef {
    const char  *name, *summary;
    const Field *fields;         /* the `model:` section of a recipe */
    size_t       config_bytes;
    const void  *defaults;
    /* What the fields' ranges cannot say: "heads do not divide the width". NULL: nothing. */
    Err    (*check)(const void *config);
    /* One micro-batch: feeds in, [1] fp32 loss out, divided by `share` (accumulated micro-batches). */
    Tensor (*loss)(Graph *graph, const void *config, int64_t batch, int64_t share);
    const char  *slow_params;    /* name endings that use optimizer.slow_lr, '|' between; NULL: none */
} ModelDef;

extern const ModelDef *const models_all[];
extern const int             models_count;
const ModelDef *model_find(const char *name);        /* NULL if there is none */

#endif
