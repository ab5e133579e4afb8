/* text_encoder.h -- a text tower with its tokenizer and weights: text in, embedding out.
 *
 * Which tower a file holds and its sizes are seen in its tensors: OpenCLIP's in a checkpoint of Stable
 * Diffusion 2 or StableSR (cond_stage_model.model.*), DistilBERT's as Hugging Face ships it, or below
 * any prefix. Heads are 64 wide, as both originals' are; config.json beside DistilBERT's weights may
 * say otherwise.
 */
#ifndef TRAIN_TEXT_ENCODER_H
#define TRAIN_TEXT_ENCODER_H

#include "models/text_tower.h"
#include "exec/session.h"

typedef struct TextEncoderFiles {
    const char *weights;    /* or a folder with model.safetensors or pytorch_model.bin */
    const char *vocabulary; /* DistilBERT's vocab.txt; NULL: beside the weights */
} TextEncoderFiles;

typedef struct TextTokens TextTokens; /* the tokenizer that goes with the tower */

typedef struct TextEncoder {
    const char      *name;  /* as runs record it (base/prompt.h) */
    TextEncoderFiles files; /* vocabulary NULL: it needs none */
    TextTower        tower;
    Shape            shape; /* of an embedding */
    uint64_t         hash;  /* of weights and vocabulary */
    int64_t          params;
    TextTokens      *tokens;
    Session         *session;
    int32_t         *ids;     /* inputs of the session */
    float           *padding; /* NULL: it has none */
} TextEncoder;

/* E_USAGE if the file holds no tower that is known. budget_bytes limits its arena; 0: nothing does. */
Err text_encoder_open(Pool *pool, const Device *device, const TextEncoderFiles *files,
                      int64_t budget_bytes, TextEncoder **out);

/* Does the file or folder hold such a tower? An error if it cannot be read. */
Err text_encoder_holds(Pool *pool, const char *weights, bool *holds);

/* Writes the embedding of a text, which must be UTF-8: shape_count(encoder->shape) numbers. A text
 * longer than the tower reads is cut; *cut says whether it was. */
Err text_encode(TextEncoder *encoder, const char *utf8, float *to, bool *cut);

#endif
