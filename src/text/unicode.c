/* unicode.c -- looks characters up in tables of runs. */
#include "text/unicode.h"

#include <stdbool.h>

#include "base/utf8.h"
#include "text/unicode_tables.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))

enum {
    NOT_A_CHARACTER = 0xfffd,
    LAST_CHARACTER = 0x10ffff,
    CAPITAL_SIGMA = 0x3a3,
    SMALL_SIGMA = 0x3c3,
    FINAL_SIGMA = 0x3c2,
    CAPITAL_I_DOT = 0x130,
    DOT_ABOVE = 0x307,
};

/* ---- tables ---- */

/* The value of the run that the character is in. */
static unsigned run_value(const uint32_t *runs, size_t n, uint32_t c)
{
    size_t low = 0, high = n; /* runs[low] begins at c or before */
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (runs[middle] >> 8 <= c)
            low = middle;
        else
            high = middle;
    }
    return runs[low] & 0xff;
}

unsigned unicode_properties(uint32_t c)
{
    return run_value(property_runs, COUNT(property_runs), c > LAST_CHARACTER ? LAST_CHARACTER : c);
}

static unsigned unicode_order(uint32_t c) { return run_value(order_runs, COUNT(order_runs), c); }

int unicode_lower(uint32_t c, uint32_t to[UNICODE_LOWERED])
{
    size_t low = 0, high = COUNT(lower_runs);
    to[0] = c;
    if (c == CAPITAL_I_DOT) {
        to[0] = 'i';
        to[1] = DOT_ABOVE;
        return 2;
    }
    while (low < high) {
        size_t          middle = (low + high) / 2;
        const LowerRun *run = &lower_runs[middle];
        if (c < run->first)
            high = middle;
        else if (c > run->last)
            low = middle + 1;
        else {
            if ((c - run->first) % run->step == 0)
                to[0] = (uint32_t)((int32_t)c + run->distance);
            break;
        }
    }
    return 1;
}

/* ---- decomposition ---- */

enum {
    HANGUL = 0xac00, /* syllables: HANGUL + (lead * VOWELS + vowel) * TAILS + tail */
    HANGUL_LEADS = 0x1100,
    HANGUL_VOWELS = 0x1161,
    HANGUL_TAILS = 0x11a7, /* tail 0: none */
    VOWELS = 21,
    TAILS = 28,
    SYLLABLES = 11172,
};

static const Decomposition *decomposition_find(uint32_t c)
{
    size_t low = 0, high = COUNT(decompositions);
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (decompositions[middle].c == c)
            return &decompositions[middle];
        if (decompositions[middle].c < c)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static int hangul_decompose(uint32_t syllable, uint32_t to[UNICODE_PARTS_OF])
{
    uint32_t tail = syllable % TAILS;
    to[0] = HANGUL_LEADS + syllable / (VOWELS * TAILS);
    to[1] = HANGUL_VOWELS + syllable / TAILS % VOWELS;
    to[2] = HANGUL_TAILS + tail;
    return tail ? 3 : 2;
}

/* The first of the two may have a decomposition again, the second never has. */
int unicode_decompose(uint32_t c, uint32_t to[UNICODE_PARTS_OF])
{
    uint32_t             behind[UNICODE_PARTS_OF];
    int                  n = 0, n_behind = 0;
    const Decomposition *d;
    if (c - HANGUL < SYLLABLES && c >= HANGUL)
        return hangul_decompose(c - HANGUL, to);
    while (n_behind + 1 < UNICODE_PARTS_OF && (d = decomposition_find(c)) != NULL) {
        if (d->second)
            behind[n_behind++] = d->second;
        c = d->first;
    }
    to[n++] = c;
    while (n_behind)
        to[n++] = behind[--n_behind];
    return n;
}

/* ---- texts ---- */

/* The next character of `left` bytes, and how many of them it takes. */
static uint32_t utf8_next(const unsigned char *s, size_t left, size_t *taken)
{
    static const uint32_t lowest[] = { 0, 0x80, 0x800, 0x10000 };
    size_t   more = s[0] < 0xc0 || s[0] >= 0xf8 ? 0 : s[0] < 0xe0 ? 1 : s[0] < 0xf0 ? 2 : 3;
    uint32_t c = more ? s[0] & (0x3fu >> more) : s[0];
    *taken = 1;
    if (s[0] < 0x80)
        return c;
    if (!more || more >= left)
        return NOT_A_CHARACTER;
    for (size_t i = 1; i <= more; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return NOT_A_CHARACTER;
        c = c << 6 | (s[i] & 0x3fu);
    }
    if (c < lowest[more] || c > LAST_CHARACTER || (c >= 0xd800 && c < 0xe000))
        return NOT_A_CHARACTER;
    *taken = more + 1;
    return c;
}

Characters characters_of(Pool *pool, const char *utf8, size_t n)
{
    Characters out = { NEWN(pool, uint32_t, n + 1), 0 };
    for (size_t at = 0, taken; at < n; at += taken)
        out.at[out.n++] = utf8_next((const unsigned char *)utf8 + at, n - at, &taken);
    return out;
}

/* Is there a letter with a case before or behind `at`, whatever the rule looks through between? */
static bool sigma_beside(Characters text, size_t at, int step)
{
    for (size_t i = at + (size_t)step; i < text.n; i += (size_t)step) { /* ends below 0 too */
        unsigned bits = unicode_properties(text.at[i]);
        if (!(bits & UNICODE_IGNORED))
            return bits & UNICODE_CASED;
    }
    return false;
}

Characters characters_lower(Pool *pool, Characters text)
{
    Characters out = { NEWN(pool, uint32_t, UNICODE_LOWERED * text.n + 1), 0 };
    for (size_t i = 0; i < text.n; i++) {
        if (text.at[i] == CAPITAL_SIGMA)
            out.at[out.n++] = sigma_beside(text, i, -1) && !sigma_beside(text, i, 1) ? FINAL_SIGMA
                                                                                     : SMALL_SIGMA;
        else
            out.n += (size_t)unicode_lower(text.at[i], out.at + out.n);
    }
    return out;
}

/* n marks on one letter in their canonical order; those of equal order keep theirs. */
static void marks_sort(uint32_t *marks, uint32_t *copy, size_t n)
{
    enum { ORDERS = 256 };
    size_t first[ORDERS + 1] = { 0 };
    for (size_t i = 0; i < n; i++) {
        copy[i] = marks[i];
        first[unicode_order(copy[i]) + 1]++;
    }
    for (int order = 0; order < ORDERS; order++)
        first[order + 1] += first[order];
    for (size_t i = 0; i < n; i++)
        marks[first[unicode_order(copy[i])]++] = copy[i];
}

static void marks_in_order(Pool *pool, Characters text)
{
    uint32_t *copy = NEWN(pool, uint32_t, text.n + 1);
    for (size_t i = 0, end; i < text.n; i = end + 1) { /* end: a letter, or the text's end */
        for (end = i; end < text.n && unicode_order(text.at[end]);)
            end++;
        if (end > i + 1)
            marks_sort(text.at + i, copy, end - i);
    }
}

Characters characters_bare(Pool *pool, Characters text)
{
    Characters out = { NEWN(pool, uint32_t, UNICODE_PARTS_OF * text.n + 1), 0 };
    size_t     kept = 0;
    for (size_t i = 0; i < text.n; i++)
        out.n += (size_t)unicode_decompose(text.at[i], out.at + out.n);
    marks_in_order(pool, out);
    for (size_t i = 0; i < out.n; i++)
        if (!(unicode_properties(out.at[i]) & UNICODE_MARK))
            out.at[kept++] = out.at[i];
    out.n = kept;
    return out;
}

size_t utf8_bytes(Characters text)
{
    char   utf8[4];
    size_t n = 0;
    for (size_t i = 0; i < text.n; i++)
        n += (size_t)utf8_put(text.at[i], utf8);
    return n;
}
