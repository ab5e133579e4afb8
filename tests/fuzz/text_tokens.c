/* text_tokens.c -- fuzz target: the input as a text for both tokenizers, as a vocabulary, as merges of
 * byte pairs, and as names of HTML. Whatever it is, tokens are in range and memory is left alone. */
#include "text/clip_tokens.h"
#include "text/wordpiece.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM = 77 };

static const char vocabulary[] =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##a\nab\n##b\n##ba\nc\n##c\n";

static void texts_fuzz(const Wordpiece *w, const ClipTokens *clip, const char *text)
{
    int32_t *to = malloc(ROOM * sizeof *to);
    for (int room = 2; room <= ROOM; room += 25) {
        int n = clip ? clip_tokenize(clip, text, to, room) : wordpiece_tokenize(w, text, to, room);
        REQUIRE(n >= 2 && n <= room);
        for (int i = 0; i < room; i++)
            REQUIRE(to[i] >= 0 && to[i] < (clip ? CLIP_TOKENS : w->n));
    }
    free(to);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    static ClipTokens clip;
    static Pool      *kept;
    Pool             *pool = pool_new(NULL, "fuzz");
    char             *text = malloc(n + 1);
    Wordpiece         words, given;
    ClipTokens        merges;
    HtmlNames         names;
    memcpy(text, bytes, n);
    text[n] = '\0';
    if (!kept) {
        kept = pool_new(NULL, "tokens");
        REQUIRE(clip_tokens_open(kept, &clip) == OK);
    }
    REQUIRE(wordpiece_parse(pool, "words", vocabulary, sizeof vocabulary - 1, &words) == OK);
    texts_fuzz(&words, NULL, text);
    texts_fuzz(NULL, &clip, text);
    if (wordpiece_parse(pool, "fuzz", text, n, &given) == OK)
        texts_fuzz(&given, NULL, text);
    REQUIRE(clip_tokens_parse(pool, "fuzz", text, n, &merges) != OK); /* 48,894 lines are longer */
    if (html_names_parse(pool, "fuzz", text, n, &names) == OK) {
        Text out = { .pool = pool };
        html_unescape(&names, text, n, &out);
        REQUIRE(strlen(out.at) <= out.n);
    }
    free(text);
    pool_free(pool);
    return 0;
}
