/* wordpiece.h -- text to the numbers that BERT's models read, by a vocabulary of the user: vocab.txt.
 *
 * As BertTokenizer does for models that know small letters only, such as distilbert-base-uncased:
 * letters are made small and lose their accents, every punctuation mark and Chinese character is a
 * word of its own, and each word is divided into the longest entries of the vocabulary from its
 * beginning on; entries that continue a word begin with ## (Wu et al. 2016). A word that cannot be
 * divided so is [UNK].
 */
#ifndef TEXT_WORDPIECE_H
#define TEXT_WORDPIECE_H

#include "base/err.h"
#include "base/pool.h"

/* Words that stand for themselves wherever they are in a text. */
typedef enum WordpieceSpecial {
    WORDPIECE_UNKNOWN,
    WORDPIECE_START,
    WORDPIECE_END,
    WORDPIECE_PADDING,
    WORDPIECE_MASK,
    WORDPIECE_SPECIALS
} WordpieceSpecial;

typedef struct WordpieceEntry {
    const char *text;
    size_t      n;
} WordpieceEntry;

typedef struct Wordpiece {
    WordpieceEntry *entries; /* by number: the line in the file */
    int32_t         n;
    int32_t        *slots; /* open addressing by the text: number + 1, or 0 */
    uint32_t        n_slots;
    int32_t         special[WORDPIECE_SPECIALS]; /* -1: the vocabulary has none */
    uint64_t        hash;                        /* of the vocabulary */
} Wordpiece;

Err wordpiece_read(Pool *pool, const char *path, Wordpiece *out);
Err wordpiece_parse(Pool *pool, const char *path, const char *text, size_t n, Wordpiece *out);

/* Writes [CLS], the text's numbers as far as there is room, [SEP], and [PAD]: `room` numbers, at
 * least 2. Returns how many are not padding. */
int wordpiece_tokenize(const Wordpiece *vocabulary, const char *utf8, int32_t *to, int room);

#endif
