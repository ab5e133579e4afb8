/* tokens.c -- for tests/py/test_tokens.py: the tokens of texts on the standard input, a '\0' behind each.
 *
 *   tokens clip          by CLIP's byte-pair encoding
 *   tokens VOCAB.txt     by WordPiece
 *
 * One line a text: 77 numbers. */
#include "base/file.h"
#include "text/clip_tokens.h"
#include "text/wordpiece.h"

#include <stdio.h>
#include <string.h>

enum { ROOM = 77 };

static Err texts_print(Pool *pool, const char *how)
{
    bool       clip = !strcmp(how, "clip");
    char      *texts;
    size_t     n;
    ClipTokens tokens;
    Wordpiece  vocabulary;
    TRY(file_read(pool, "-", &texts, &n));
    if (clip)
        TRY(clip_tokens_open(pool, &tokens));
    else
        TRY(wordpiece_read(pool, how, &vocabulary));
    for (const char *at = texts; at < texts + n; at += strlen(at) + 1) {
        int32_t to[ROOM];
        (void)(clip ? clip_tokenize(&tokens, at, to, ROOM)
                    : wordpiece_tokenize(&vocabulary, at, to, ROOM));
        for (int i = 0; i < ROOM; i++)
            printf("%d%c", (int)to[i], i + 1 < ROOM ? ' ' : '\n');
    }
    return OK;
}

int main(int n, char **args)
{
    Pool *pool = pool_new(NULL, "tokens");
    Err   err = n > 1 ? texts_print(pool, args[1]) : fail(E_USAGE, "tokens clip|VOCAB.txt");
    if (err)
        fprintf(stderr, "%s\n", err_text());
    pool_free(pool);
    return err_exit_code(err);
}
