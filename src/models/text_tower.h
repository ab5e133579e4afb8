/* text_tower.h -- networks that turn the tokens of a text into its embedding; never trained here.
 *
 *   openclip     OpenCLIP's text transformer as Stable Diffusion 2 uses it: the output of the last
 *                block but one, after the last norm, for every token: (tokens, width)
 *   distilbert   DistilBERT (Sanh et al. 2019): the last layer's output for [CLS]: (width)
 *
 * Parameters have the originals' names. Tokens are in text/clip_tokens.h and text/wordpiece.h.
 */
#ifndef MODELS_TEXT_TOWER_H
#define MODELS_TEXT_TOWER_H

#include "ir/graph.h"

typedef enum TextTowerKind { TOWER_OPENCLIP, TOWER_DISTILBERT } TextTowerKind;

typedef struct TextTower {
    TextTowerKind kind;
    int64_t       vocabulary; /* rows of the table of tokens */
    int64_t       positions;  /* rows of the table of positions */
    int64_t       tokens;     /* that it reads; no more than positions */
    int64_t       width, inner, heads;
    int64_t       layers; /* that the file has; of openclip the last is not used */
} TextTower;

/* The shape of the embedding of one text. */
Shape text_tower_shape(const TextTower *tower);

/* Inputs `tokens` (n, tokens) i32 and, of distilbert, `padding` (n,1,1,tokens): 0 where there is a
 * token, minus infinity where there is none. Output `embedding`, (n) + text_tower_shape. */
Tensor text_tower(Graph *graph, const TextTower *tower, int64_t n);

#endif
