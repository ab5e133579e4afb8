/* pattern.c -- which paths a pattern matches. */
#include "test.h"

#include "data/pattern.h"

#include <stdbool.h>

static void paths_match(void)
{
    static const struct {
        const char *pattern, *path;
        bool        yes;
    } cases[] = {
        { NULL, "a/b", true },
        { "*.wav", "a.wav", true },
        { "*.wav", "deep/er/a.wav", true }, /* a name, wherever it lies */
        { "*.wav", "a.wav/b", false },
        { "a?.wav", "ab.wav", true },
        { "a?.wav", "a.wav", false },
        { "[a-c]*", "b1", true },
        { "[!a-c]*", "b1", false },
        { "**/mixture.wav", "mixture.wav", true },
        { "**/mixture.wav", "song/mixture.wav", true },
        { "**/mixture.wav", "a/b/c/mixture.wav", true },
        { "**/mixture.wav", "a/mixture.wav/c", false },
        { "**/mixture.wav", "a/remixture.wav", false },
        { "*/mixture.wav", "a/mixture.wav", true },
        { "*/mixture.wav", "mixture.wav", false },
        { "*/mixture.wav", "a/b/mixture.wav", false },
        { "train/**", "train/a/b.png", true },
        { "train/**", "val/a/b.png", false },
        { "train/**/[0-9].png", "train/7.png", true },
        { "train/**/[0-9].png", "train/a/b/7.png", true },
        { "**/a/**/z", "b/a/c/a/y/z", true },
        { "**/a/**/z", "b/c/z", false },
        { "**/a/b", "a/a/b", true },
        { "a/b", "a/b/c", false },
        { "a/b/c", "a/b", false },
        { "**", "anything", true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool got = pattern_matches(cases[i].pattern, cases[i].path);
        if (!CHECK_INT(got, cases[i].yes))
            fprintf(stderr, "  %s and %s\n", cases[i].pattern, cases[i].path);
    }
}

int main(void)
{
    RUN(paths_match);
    return test_end();
}
