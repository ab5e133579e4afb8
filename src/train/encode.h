/* encode.h -- `plimsoll encode`: what frozen networks make of the data, computed once before training.
 *
 *   captions   NAME.text.npy, the embedding of NAME.txt, and text.json, which names the text tower
 *   images     latent/NAME.npy, latent_lq/NAME.npy, edge/NAME.png, for model.latents: given
 *   context    context.npy, the embedding of the empty text, for model.context
 *
 * A folder that was begun and not finished is not taken for a whole one: captions without an
 * embedding are refused in training, and an image counts once its edges, which are written last, are
 * there. */
#ifndef TRAIN_ENCODE_H
#define TRAIN_ENCODE_H

#include "data/text_space.h"
#include "recipe/recipe.h"

typedef struct EncodeOptions {
    const char *out;          /* NULL: captions' embeddings go beside them */
    const char *init;         /* file with the weights of the autoencoder, the text tower or both */
    const char *tower;        /* of the text tower alone; NULL: init */
    const char *vocabulary;   /* of the tower; NULL: beside its weights, if it needs one */
    int64_t     crops;        /* random crops of each image */
    int64_t     batch;        /* images at once */
    int64_t     seed;         /* of crops, degradation and noise; -1: the recipe's */
    int64_t     budget_bytes; /* of each arena; 0: none */
    int64_t     loader_bytes; /* limit of the memory that loads data; 0: none */
    const char *cache;        /* folder for decoded files; NULL: a temporary one */
    bool        quiet;
} EncodeOptions;

typedef struct EncodeReport {
    int64_t     captions, cut; /* cut: longer than the tower reads */
    const char *texts;         /* folder of their embeddings */
    TextSpace   text;          /* encoder NULL: no tower was used */
    int64_t     tower_params;
    int64_t     images, latents; /* latents: crops * images, or 0 */
    const char *context;         /* path of context.npy; NULL: none was written */
    const char *without;         /* why not, or NULL */
    const char
           *older; /* --init's newest checkpoint is damaged, and an older one is used; or NULL */
    int64_t planned_bytes, measured_bytes; /* of the larger arena */
    double  seconds;
} EncodeReport;

Err encode_run(Pool *pool, const Recipe *recipe, const Device *device, const EncodeOptions *options,
               EncodeReport *report);

#endif
