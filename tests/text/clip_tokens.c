/* Tests of text/clip_tokens. tests/py/test_tokens.py compares it with the original on 1,000 texts. */
#include "test.h"

#include <stdlib.h>

#include "text/clip_tokens.h"

enum { ROOM = 77 };

static ClipTokens tokens;

static void is(const char *text, const int32_t *wanted, int n)
{
    int32_t to[ROOM];
    CHECK_INT(clip_tokenize(&tokens, text, to, ROOM), n + 2);
    CHECK_INT(to[0], CLIP_START);
    for (int i = 0; i < n; i++)
        CHECK_INT(to[i + 1], wanted[i]);
    CHECK_INT(to[n + 1], CLIP_END);
    for (int i = n + 2; i < ROOM; i++)
        CHECK_INT(to[i], 0);
}

#define IS(text, ...)                                                                              \
    is(text, (const int32_t[]){ __VA_ARGS__ },                                                     \
       (int)(sizeof(int32_t[]){ __VA_ARGS__ } / sizeof(int32_t)))

static void words(void)
{
    is("", NULL, 0);
    is(" \t\n\xe3\x80\x80", NULL, 0);
    IS("a photo of a cat", 320, 1125, 539, 320, 2368);
    IS("  A  PHOTO\nof a\tCat ", 320, 1125, 539, 320, 2368);
    IS("it's", 585, 568);
    IS("&lt;b&gt;", 283, 321, 285); /* < b > */
    IS("&amp;lt;", 283);            /* twice */
    IS("42", 275, 273);             /* digits are words */
    IS("<end_of_text>x", CLIP_END, 343);
}

/* A text longer than there is room keeps its beginning. */
static void long_texts(void)
{
    enum { CATS = 200 };
    char    text[4 * CATS + 1] = "";
    int32_t to[ROOM], few[3];
    for (int i = 0; i < CATS; i++)
        strcat(text, "cat ");
    CHECK_INT(clip_tokenize(&tokens, text, to, ROOM), ROOM);
    for (int i = 1; i + 1 < ROOM; i++)
        CHECK_INT(to[i], 2368);
    CHECK_INT(to[ROOM - 1], CLIP_END);
    CHECK_INT(clip_tokenize(&tokens, text, few, 3), 3);
    CHECK_INT(few[2], CLIP_END);
    CHECK_INT(clip_tokenize(&tokens, text, few, 2), 2);
    CHECK(few[0] == CLIP_START && few[1] == CLIP_END);
}

/* Merging takes time in proportion to a word's length, nearly. */
static void long_word(void)
{
    enum { LETTERS = 1 << 20 };
    int32_t to[ROOM];
    char   *text = malloc(LETTERS + 1);
    for (int i = 0; i < LETTERS; i++)
        text[i] = (char)('a' + (int64_t)i * 7919 % 26);
    text[LETTERS] = '\0';
    CHECK_INT(clip_tokenize(&tokens, text, to, ROOM), ROOM);
    free(text);
}

static void refused(void)
{
    static const char *const bad[] = { "",
                                       "#version\n",
                                       "#version\na b\n",
                                       "#version\na  b\n",
                                       "#version\nab c\n",
                                       "#version\na b\na b\n" };
    Pool                    *pool = pool_new(NULL, "test");
    ClipTokens               out;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_INT(clip_tokens_parse(pool, "merges", bad[i], strlen(bad[i]), &out), E_FORMAT);
    pool_free(pool);
}

int main(void)
{
    Pool *pool = pool_new(NULL, "test");
    CHECK_OK(clip_tokens_open(pool, &tokens));
    RUN(words);
    RUN(long_texts);
    RUN(long_word);
    RUN(refused);
    pool_free(pool);
    return test_end();
}
