/* prompt.c -- plain text as a vector: the mean of its words' vectors. */
#include "base/prompt.h"

#include "base/hash.h"
#include "base/random.h"

#include <stdbool.h>

/* The deviation of an embedding's numbers, whatever the number of words: about that of DistilBERT's. At 2, the
 * first steps of Adam drove every hidden unit of DiT3D's text embedder below zero for all texts, where GELU
 * passes nothing back, and the text was ignored for good. */
#define SIZE 0.5f

/* Beyond ASCII everything counts as a letter. */
static unsigned char word_letter(char c)
{
    unsigned char u = (unsigned char)c;
    if (u >= 'A' && u <= 'Z')
        return (unsigned char)(u - 'A' + 'a');
    return u >= 0x80 || (u >= 'a' && u <= 'z') || (u >= '0' && u <= '9') ? u : 0;
}

/* The hash of the next word; *at is then behind it. False: there is none. */
static bool word_next(const char **at, uint64_t *hash)
{
    unsigned char letter;
    *hash = HASH_EMPTY;
    while (**at && !word_letter(**at))
        ++*at;
    if (!**at)
        return false;
    for (; (letter = word_letter(**at)); ++*at)
        *hash = hash_bytes(*hash, &letter, 1);
    return true;
}

void prompt_embed(const char *utf8, float *to, int64_t width)
{
    RandomKey key = { .stream = random_stream("words") };
    int       n = 0;
    for (int64_t i = 0; i < width; i++)
        to[i] = 0;
    if (*utf8 && !word_next(&(const char *){ utf8 }, &key.seed)) {
        key.seed = hash_text(HASH_EMPTY, utf8);
        random_normals(key, 0, width, to);
        n = 1;
    }
    for (; n < PROMPT_WORDS && word_next(&utf8, &key.seed); n++)
        for (int64_t i = 0; i < width; i++)
            to[i] += random_normal_at(key, (uint64_t)i);
    for (int64_t i = 0; i < width && n > 0; i++)
        to[i] *= SIZE / sqrtf((float)n);
}

uint64_t prompt_hash(int64_t width)
{
    enum { PART = 64 };
    float part[PART]; /* the first numbers say enough: all come from one stream */
    prompt_embed("plimsoll", part, width < PART ? width : PART);
    return hash_bytes(hash_int(HASH_EMPTY, width), part,
                      (size_t)(width < PART ? width : PART) * sizeof *part);
}
