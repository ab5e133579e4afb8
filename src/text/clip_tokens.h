/* clip_tokens.h -- text to the numbers that CLIP's text tower reads: its byte-pair encoding.
 *
 * As OpenCLIP's: HTML references are replaced (html_text.h), runs of spaces become one, letters small.
 * The text falls into words (letters, single digits, other signs, 's and the like); each word's bytes
 * are joined pair by pair, the pair that stands first among the merges before others (Sennrich et
 * al. 2016). What OpenCLIP does before that with ftfy, which repairs wrongly decoded text, is not
 * done.
 *
 * The merges come with the program (tokens/clip.zip).
 */
#ifndef TEXT_CLIP_TOKENS_H
#define TEXT_CLIP_TOKENS_H

#include "base/err.h"
#include "text/html_text.h"

enum {
    CLIP_BYTES = 256, /* tokens 0 to 511: a byte within a word, a byte that ends one */
    CLIP_MERGES = 48894,
    CLIP_START = 2 * CLIP_BYTES + CLIP_MERGES,
    CLIP_END,
    CLIP_TOKENS,
};

typedef struct ClipMerge { /* of two tokens, into token 2 * CLIP_BYTES + its number */
    int32_t left, right;
} ClipMerge;

typedef struct ClipTokens {
    ClipMerge *merges;
    int32_t   *slots; /* open addressing by the pair: number + 1 of a merge, or 0 */
    HtmlNames  html;
} ClipTokens;

Err clip_tokens_open(Pool *pool, ClipTokens *out); /* of the shipped file */
/* Of the lines of a file of merges, without the names of HTML. */
Err clip_tokens_parse(Pool *pool, const char *file, const char *text, size_t n, ClipTokens *out);

/* Writes CLIP_START, the text's tokens as far as there is room, CLIP_END, and zeros: `room` numbers,
 * at least 2. Returns how many are not padding. */
int clip_tokenize(const ClipTokens *tokens, const char *utf8, int32_t *to, int room);

#endif
