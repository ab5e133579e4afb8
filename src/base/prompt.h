/* prompt.h -- plain text as a vector, without a language model: a stand-in that knows no meaning.
 *
 * The sum of one fixed random vector per word, over the first PROMPT_WORDS, scaled to the same size
 * for every text: captions that share words are alike. A word is a run of letters and digits, in any letter case; a text without one is
 * a word as it is. Only the empty text is the zero vector. Both captions of training data and the prompt of `plimsoll sample` go
 * through here, where no text tower is named.
 */
#ifndef BASE_PROMPT_H
#define BASE_PROMPT_H

#include <stdint.h>

enum { PROMPT_WORDS = 77 };

/* Encoders of text, as runs record them. */
#define TEXT_STAND_IN   "stand-in"
#define TEXT_FROM_FILES "files"
#define TEXT_OPENCLIP   "openclip"
#define TEXT_DISTILBERT "distilbert"

uint64_t prompt_hash(int64_t width); /* changes if the stand-in's vectors do */

void prompt_embed(const char *utf8, float *to, int64_t width);

#endif
