/* Tests of base/prompt: text as a vector: fixed, word by word, for any bytes. */
#include "test.h"

#include "base/prompt.h"

enum { WIDTH = 32 };

static void means(void)
{
    float a[WIDTH], b[WIDTH], ab[WIDTH], again[WIDTH];
    prompt_embed("red", a, WIDTH);
    prompt_embed("disc", b, WIDTH);
    prompt_embed("red disc", ab, WIDTH);
    prompt_embed("  Disc, RED!", again, WIDTH);
    double apart = 0;
    for (int i = 0; i < WIDTH; i++) {
        CHECK_NEAR((double)ab[i], sqrt(0.5) * ((double)a[i] + (double)b[i]), 1e-5);
        CHECK_NEAR((double)ab[i], (double)again[i], 1e-5);
        apart += fabs((double)a[i] - (double)b[i]);
    }
    CHECK(apart > 1);
    prompt_embed("der", again, WIDTH); /* a word is not its letters */
    CHECK(memcmp(a, again, sizeof a) != 0);
}

static double length(const float *x)
{
    double sum = 0;
    for (int i = 0; i < WIDTH; i++)
        sum += (double)x[i] * (double)x[i];
    return sum;
}

/* The deviation is about that of a text tower's embedding, however many words: at four times as much DiT3D's
 * text embedder died in training. */
static void size(void)
{
    enum { WIDE = 768 };
    static const char *const texts[] = { "disc", "red disc", "one red disc on that black table" };
    for (int t = 0; t < 3; t++) {
        float  x[WIDE];
        double sum = 0;
        prompt_embed(texts[t], x, WIDE);
        for (int i = 0; i < WIDE; i++)
            sum += (double)x[i] * (double)x[i];
        CHECK_NEAR(sqrt(sum / WIDE), 0.5, 0.05);
    }
}

static void edges(void)
{
    float one[WIDTH], many[WIDTH], cut[WIDTH];
    char  text[2 * PROMPT_WORDS + 8];
    prompt_embed("", one, WIDTH);
    CHECK(length(one) == 0);
    prompt_embed("?", one, WIDTH); /* no text but the empty one is zero */
    CHECK(length(one) > 1);
    prompt_embed("!", many, WIDTH);
    CHECK(memcmp(one, many, sizeof one) != 0);

    for (int i = 0; i < PROMPT_WORDS; i++) /* what comes after 77 words is not read */
        memcpy(text + (size_t)2 * (size_t)i, "x ", 2);
    memcpy(text + (size_t)2 * PROMPT_WORDS, "y", 2);
    prompt_embed(text, many, WIDTH);
    prompt_embed("x", cut, WIDTH);
    for (int i = 0; i < WIDTH; i++)
        CHECK_NEAR((double)many[i], sqrt(PROMPT_WORDS) * (double)cut[i], 1e-3);

    prompt_embed("\xc3\xa9t\xc3\xa9", one, WIDTH); /* letters beyond ASCII belong to the word */
    prompt_embed("t", many, WIDTH);
    CHECK(memcmp(one, many, sizeof one) != 0);
    prompt_embed("\xf0\x9f", cut, WIDTH); /* ends in mid-character */
    for (int i = 0; i < WIDTH; i++)
        CHECK(isfinite(cut[i]));
}

int main(void)
{
    RUN(means);
    RUN(size);
    RUN(edges);
    return test_end();
}
