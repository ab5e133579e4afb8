/* Tests of text/unicode: properties, small letters, decomposition, and bytes that are no text. */
#include "test.h"

#include <stdbool.h>

#include "base/utf8.h"
#include "text/unicode.h"

static bool has(uint32_t c, unsigned bits) { return (unicode_properties(c) & bits) == bits; }

static void properties(void)
{
    CHECK(has('a', UNICODE_LETTER | UNICODE_CASED) && has(0x4e2d, UNICODE_LETTER));
    CHECK(!has(0x4e2d, UNICODE_CASED) && has(0x2167, UNICODE_NUMBER) && has('7', UNICODE_NUMBER));
    CHECK(has('\'', UNICODE_PUNCTUATION | UNICODE_IGNORED) && !has('$', UNICODE_PUNCTUATION));
    CHECK(has(0x301, UNICODE_MARK | UNICODE_IGNORED) && !has(0x903, UNICODE_MARK));
    CHECK(has(' ', UNICODE_SPACE) && has(0x3000, UNICODE_SPACE) && has('\n', UNICODE_SPACE));
    CHECK(has(0, UNICODE_OTHER) && has(0x200d, UNICODE_OTHER) && has(0x10ffff, UNICODE_OTHER));
    CHECK(has(UINT32_MAX, UNICODE_OTHER) && has(0xd800, UNICODE_OTHER));
}

static const char *utf8_of(Pool *pool, Characters text)
{
    char  *out = pool_alloc(pool, 4 * text.n + 1, 1);
    size_t n = 0;
    for (size_t i = 0; i < text.n; i++)
        n += (size_t)utf8_put(text.at[i], out + n);
    CHECK_INT(utf8_bytes(text), n);
    return out;
}

static const char *lower(Pool *pool, const char *utf8)
{
    return utf8_of(pool, characters_lower(pool, characters_of(pool, utf8, strlen(utf8))));
}

static const char *bare(Pool *pool, const char *utf8)
{
    return utf8_of(pool, characters_bare(pool, characters_of(pool, utf8, strlen(utf8))));
}

static void small(void)
{
    Pool *pool = pool_new(NULL, "test");
    CHECK_TEXT(lower(pool, "AbZ \xc3\x80 \xc4\x80\xc4\x81 \xd0\x96"),
               "abz \xc3\xa0 \xc4\x81\xc4\x81 \xd0\xb6");
    CHECK_TEXT(lower(pool, "\xe2\x84\xaa \xf0\x90\x90\x80"), "k \xf0\x90\x90\xa8");
    CHECK_TEXT(lower(pool, "\xc4\xb0"), "i\xcc\x87"); /* I with a dot: two characters */
    /* sigma: final behind a letter, not before one, whatever marks stand between */
    CHECK_TEXT(lower(pool, "\xce\x91\xce\xa3"), "\xce\xb1\xcf\x82");
    CHECK_TEXT(lower(pool, "\xce\xa3"), "\xcf\x83");
    CHECK_TEXT(lower(pool, "\xce\x91\xce\xa3'\xce\x91"), "\xce\xb1\xcf\x83'\xce\xb1");
    CHECK_TEXT(lower(pool, "\xce\x91\xce\xa3' b"), "\xce\xb1\xcf\x82' b");
    pool_free(pool);
}

static void decomposed(void)
{
    Pool    *pool = pool_new(NULL, "test");
    uint32_t to[UNICODE_PARTS_OF];
    CHECK_TEXT(bare(pool, "na\xc3\xafve \xe1\xbb\x87 a\xcc\x81"), "naive e a");
    CHECK_INT(unicode_decompose(0x1f82, to), 4); /* alpha and three marks */
    CHECK(to[0] == 0x3b1 && to[1] == 0x313 && to[2] == 0x300 && to[3] == 0x345);
    CHECK_INT(unicode_decompose(0xac01, to), 3); /* a Hangul syllable: three letters */
    CHECK(to[0] == 0x1100 && to[1] == 0x1161 && to[2] == 0x11a8);
    CHECK_INT(unicode_decompose(0xac00, to), 2);
    CHECK_INT(unicode_decompose(0x2126, to), 1); /* ohm: another spelling of omega */
    CHECK_INT(to[0], 0x3a9);
    CHECK_INT(unicode_decompose('x', to), 1);
    /* spacing marks of two orders: the lower one comes first */
    CHECK_TEXT(bare(pool, "\xf0\x9d\x85\xad\xf0\x9d\x85\xa5"), "\xf0\x9d\x85\xa5\xf0\x9d\x85\xad");
    pool_free(pool);
}

static void bytes(void)
{
    static const struct {
        const char *text;
        size_t      n, characters, replaced;
    } cases[] = {
        { "a\xff"
          "b",
          3, 3, 1 },                     /* a byte that begins nothing */
        { "\xe2\x82", 2, 2, 2 },         /* cut short */
        { "\xc0\x80", 2, 2, 2 },         /* longer than needed */
        { "\xed\xa0\x80", 3, 3, 3 },     /* half of a pair */
        { "\xf4\x90\x80\x80", 4, 4, 4 }, /* beyond the last character */
        { "\xf0\x9f\x98\x80", 4, 1, 0 },
        { "", 0, 0, 0 },
    };
    Pool *pool = pool_new(NULL, "test");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Characters got = characters_of(pool, cases[i].text, cases[i].n);
        size_t     replaced = 0;
        for (size_t k = 0; k < got.n; k++)
            replaced += got.at[k] == 0xfffd;
        CHECK_INT(got.n, cases[i].characters);
        CHECK_INT(replaced, cases[i].replaced);
    }
    pool_free(pool);
}

int main(void)
{
    RUN(properties);
    RUN(small);
    RUN(decomposed);
    RUN(bytes);
    return test_end();
}
