/* prompt.h -- plain text as a vector, without a language model.
 *
 * The mean of one fixed random vector per character, over the first PROMPT_CHARACTERS: captions
 * with the same letters are alike, and no text is the zero vector. Both captions of training data
 * and the prompt of `plimsoll sample` go through here.
 */
#ifndef BASE_PROMPT_H
#define BASE_PROMPT_H

#include <stdint.h>

enum { PROMPT_CHARACTERS = 77 };

/* Encoders of text, as runs record them. A prompt is embedded by the stand-in. */
#define TEXT_STAND_IN   "stand-in"
#define TEXT_FROM_FILES "files"
#define TEXT_OPENCLIP   "openclip"
#define TEXT_DISTILBERT "distilbert"

uint64_t prompt_hash(int64_t width); /* changes if the stand-in's vectors do */

void prompt_embed(const char *utf8, float *to, int64_t width);

#endif
