/* Tests of text/wordpiece. tests/py/test_tokens.py compares it with the original on 1,000 texts. */
#include "test.h"

#include "text/wordpiece.h"

enum { ROOM = 16, PAD = 0, UNK = 1, CLS = 2, SEP = 3, MASK = 4 };

static const char list[] =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##aff\n##able\nthe\n,\n'\n##s\ns\n"
    "cafe\n\xe4\xb8\xad\r\n##aff";

static Wordpiece vocabulary;

static void is(const char *text, const int32_t *wanted, int n)
{
    int32_t to[ROOM];
    CHECK_INT(wordpiece_tokenize(&vocabulary, text, to, ROOM), n + 2);
    CHECK_INT(to[0], CLS);
    for (int i = 0; i < n; i++)
        CHECK_INT(to[i + 1], wanted[i]);
    CHECK_INT(to[n + 1], SEP);
    for (int i = n + 2; i < ROOM; i++)
        CHECK_INT(to[i], PAD);
}

#define IS(text, ...)                                                                              \
    is(text, (const int32_t[]){ __VA_ARGS__ },                                                     \
       (int)(sizeof(int32_t[]){ __VA_ARGS__ } / sizeof(int32_t)))

static void words(void)
{
    is("", NULL, 0);
    IS("unaffable", 5, 15, 7); /* of equal lines the last counts */
    IS("UNaffable, The s", 5, 15, 7, 9, 8, 12);
    IS("the's thes", 8, 10, 12, 8, 11);
    IS("Caf\xc3\xa9 cafe\xcc\x81", 13, 13);
    IS("un\xe4\xb8\xad"
       "the",
       5, 14, 8);
    IS("unaffabler ,", UNK, 9); /* a word that cannot be divided */
    IS("the\x01 the\xe2\x80\x8d the\xe2\x80\xa8un", 8, 8, 8, 5);
    IS("the[MASK]un[mask]", 8, MASK, 5, UNK, UNK, UNK);
}

static void long_texts(void)
{
    char    text[200] = "";
    int32_t to[ROOM];
    for (int i = 0; i < 30; i++)
        strcat(text, "the ");
    CHECK_INT(wordpiece_tokenize(&vocabulary, text, to, ROOM), ROOM);
    CHECK(to[ROOM - 2] == 8 && to[ROOM - 1] == SEP);
    memset(text, 's', 101); /* longer than any word */
    text[101] = '\0';
    IS(text, UNK);
    CHECK_INT(wordpiece_tokenize(&vocabulary, "the", to, 2), 2);
    CHECK(to[0] == CLS && to[1] == SEP);
}

static void refused(void)
{
    static const char *const bad[] = { "", "[UNK]\n[CLS]\n[SEP]\n",
                                       "[PAD]\n[UNK]\n[CLS]\n[SEP]\nThe\n" };
    Pool                    *pool = pool_new(NULL, "test");
    Wordpiece                out;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_INT(wordpiece_parse(pool, "vocab", bad[i], strlen(bad[i]), &out), E_USAGE);
    CHECK_INT(wordpiece_read(pool, "no/such/vocab.txt", &out), E_IO);
    pool_free(pool);
}

int main(void)
{
    Pool *pool = pool_new(NULL, "test");
    CHECK_OK(wordpiece_parse(pool, "vocab", list, sizeof list - 1, &vocabulary));
    RUN(words);
    RUN(long_texts);
    RUN(refused);
    pool_free(pool);
    return test_end();
}
