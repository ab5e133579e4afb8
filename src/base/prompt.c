/* prompt.c -- plain text as a vector: the mean of its characters' vectors. */
#include "base/prompt.h"

#include "base/hash.h"
#include "base/random.h"

/* The next character; a byte that begins no valid sequence stands for itself. */
static uint32_t next_character(const unsigned char **at)
{
    const unsigned char *s = *at;
    int      more = s[0] < 0xc0 || s[0] >= 0xf8 ? 0 : s[0] < 0xe0 ? 1 : s[0] < 0xf0 ? 2 : 3;
    uint32_t c = more ? s[0] & (0x3fu >> more) : s[0];
    for (int i = 1; i <= more; i++) {
        if ((s[i] & 0xc0) != 0x80) { /* also the end of the text */
            *at = s + 1;
            return s[0];
        }
        c = c << 6 | (s[i] & 0x3fu);
    }
    *at = s + 1 + more;
    return c;
}

void prompt_embed(const char *utf8, float *to, int64_t width)
{
    const unsigned char *at = (const unsigned char *)utf8;
    RandomKey            key = { .stream = random_stream("characters") };
    int                  n = 0;
    for (int64_t i = 0; i < width; i++)
        to[i] = 0;
    for (; *at && n < PROMPT_CHARACTERS; n++) {
        key.step = next_character(&at);
        for (int64_t i = 0; i < width; i++)
            to[i] += random_normal_at(key, (uint64_t)i);
    }
    for (int64_t i = 0; i < width && n > 1; i++)
        to[i] /= (float)n;
}

uint64_t prompt_hash(int64_t width)
{
    enum { PART = 64 };
    float part[PART]; /* the first numbers say enough: all come from one stream */
    prompt_embed("plimsoll", part, width < PART ? width : PART);
    return hash_bytes(hash_int(HASH_EMPTY, width), part,
                      (size_t)(width < PART ? width : PART) * sizeof *part);
}
