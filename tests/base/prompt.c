/* Tests of base/prompt: text as a vector: fixed, letter by letter, for any bytes. */
#include "test.h"

#include "base/prompt.h"

enum { WIDTH = 32 };

static void means(void)
{
    float a[WIDTH], b[WIDTH], ab[WIDTH], again[WIDTH];
    prompt_embed("a", a, WIDTH);
    prompt_embed("b", b, WIDTH);
    prompt_embed("ab", ab, WIDTH);
    prompt_embed("ab", again, WIDTH);
    CHECK(!memcmp(ab, again, sizeof ab));
    double apart = 0;
    for (int i = 0; i < WIDTH; i++) {
        CHECK_NEAR((double)ab[i], 0.5 * ((double)a[i] + (double)b[i]), 1e-6);
        apart += fabs((double)a[i] - (double)b[i]);
    }
    CHECK(apart > 1);
}

static void edges(void)
{
    float empty[WIDTH], one[WIDTH], many[WIDTH], cut[WIDTH], bytes[WIDTH];
    char  long_text[200];
    prompt_embed("", empty, WIDTH);
    for (int i = 0; i < WIDTH; i++)
        CHECK(empty[i] == 0);

    memset(long_text, 'x', sizeof long_text); /* what comes after 77 characters is not read */
    long_text[199] = '\0';
    prompt_embed(long_text, many, WIDTH);
    long_text[77] = '\0';
    prompt_embed(long_text, cut, WIDTH);
    CHECK(!memcmp(many, cut, sizeof many));

    prompt_embed("\xc3\xa9", one, WIDTH);   /* one character of two bytes, not two */
    prompt_embed("\xc3\x28", bytes, WIDTH); /* broken: a byte, then a bracket */
    CHECK(memcmp(one, bytes, sizeof one) != 0);
    prompt_embed("\xf0\x9f", cut, WIDTH); /* ends in mid-character: bytes, and not beyond */
    prompt_embed("\xe2\x82\xac\xf0\x9f\x98\x80", many, WIDTH);
    for (int i = 0; i < WIDTH; i++)
        CHECK(isfinite(cut[i]) && isfinite(many[i]));
}

int main(void)
{
    RUN(means);
    RUN(edges);
    return test_end();
}
