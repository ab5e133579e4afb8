/* unicode.h -- characters as tokenizers see them: properties, lower case, decomposition.
 *
 * The tables (unicode_tables.h) are of Unicode 15.1; a character that is newer has no property but
 * UNICODE_OTHER. */
#ifndef TEXT_UNICODE_H
#define TEXT_UNICODE_H

#include <stddef.h>
#include <stdint.h>

#include "base/pool.h"

enum {                          /* bits of a character's properties */
       UNICODE_LETTER = 1,      /* categories L* */
       UNICODE_NUMBER = 2,      /* N* */
       UNICODE_PUNCTUATION = 4, /* P* */
       UNICODE_MARK = 8,        /* Mn: what is set above or below a letter */
       UNICODE_OTHER = 16,      /* C*: control characters, and what is not assigned */
       UNICODE_SPACE = 32,      /* between words, ends of lines included */
       UNICODE_CASED = 64,      /* of the rule of the final sigma: a letter with a case, */
       UNICODE_IGNORED = 128,   /* a character that the rule looks through */
};

unsigned unicode_properties(uint32_t c);

/* Of one character, whatever stands around it. Only U+0130 has two, i and a dot above it. */
enum { UNICODE_LOWERED = 2 };
int unicode_lower(uint32_t c, uint32_t to[UNICODE_LOWERED]);

/* The canonical decomposition, to the end. */
enum { UNICODE_PARTS_OF = 4 };
int unicode_decompose(uint32_t c, uint32_t to[UNICODE_PARTS_OF]);

/* A text as numbers of characters. */
typedef struct Characters {
    uint32_t *at;
    size_t    n;
} Characters;

/* Of text in UTF-8. Each byte that belongs to no character stands for U+FFFD. */
Characters characters_of(Pool *pool, const char *utf8, size_t n);
/* The lower case of the text as a whole: a sigma at the end of a word is another letter. */
Characters characters_lower(Pool *pool, Characters text);
/* Decomposed, without marks: letters without their accents. */
Characters characters_bare(Pool *pool, Characters text);
size_t     utf8_bytes(Characters text); /* of all in UTF-8 */

#endif
