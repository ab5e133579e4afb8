/* wordpiece.c -- reads a vocabulary, splits text into words, divides words. */
#include "text/wordpiece.h"

#include <stdbool.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/utf8.h"
#include "text/unicode.h"

enum { VOCABULARY_MAX = 1 << 26, ENTRIES_MAX = 1 << 24, WORD_MAX = 100 };

static const char *const specials[WORDPIECE_SPECIALS] = { "[UNK]", "[CLS]", "[SEP]", "[PAD]",
                                                          "[MASK]" };

/* ---- the vocabulary ---- */

static uint32_t entry_slot(const Wordpiece *v, const char *text, size_t n)
{
    uint32_t i = (uint32_t)(hash_bytes(HASH_EMPTY, text, n) >> 16) & (v->n_slots - 1);
    while (v->slots[i]) {
        const WordpieceEntry *entry = &v->entries[v->slots[i] - 1];
        if (entry->n == n && !memcmp(entry->text, text, n))
            break;
        i = (i + 1) & (v->n_slots - 1);
    }
    return i;
}

/* The number of an entry, or -1. */
static int32_t entry_find(const Wordpiece *v, const char *text, size_t n)
{
    return v->slots[entry_slot(v, text, n)] - 1;
}

static int32_t lines_count(const char *text, size_t n)
{
    size_t lines = n && text[n - 1] != '\n';
    for (size_t i = 0; i < n; i++)
        lines += text[i] == '\n';
    return lines > ENTRIES_MAX ? ENTRIES_MAX + 1 : (int32_t)lines;
}

/* A vocabulary with capitals belongs to a model that tells them apart. */
static bool has_capital(const WordpieceEntry *entry)
{
    for (size_t i = 0; i < entry->n && entry->text[0] != '['; i++)
        if (entry->text[i] >= 'A' && entry->text[i] <= 'Z')
            return true;
    return false;
}

static Err vocabulary_check(const char *path, Wordpiece *v)
{
    for (int i = 0; i < WORDPIECE_SPECIALS; i++) {
        v->special[i] = entry_find(v, specials[i], strlen(specials[i]));
        if (v->special[i] < 0 && i != WORDPIECE_MASK)
            return fail(E_USAGE,
                        "%s has no line %s; give the vocab.txt of a BERT model, one entry a line",
                        path, specials[i]);
    }
    for (int32_t i = 0; i < v->n; i++)
        if (has_capital(&v->entries[i]))
            return fail(E_USAGE,
                        "%s, line %d: '%.*s' has capitals, and texts are read in small letters; "
                        "give the vocab.txt of an uncased model",
                        path, (int)i + 1, (int)v->entries[i].n, v->entries[i].text);
    return OK;
}

Err wordpiece_parse(Pool *pool, const char *path, const char *text, size_t n, Wordpiece *out)
{
    const char *copy = pool_textn(pool, text, n), *at = copy, *all = copy + n;
    *out = (Wordpiece){ .n = lines_count(copy, n), .n_slots = 64, .hash = HASH_EMPTY };
    if (out->n > ENTRIES_MAX)
        return fail(E_USAGE, "%s has more than %d lines; give a vocab.txt, one entry a line", path,
                    ENTRIES_MAX);
    while (out->n_slots < 2 * (uint32_t)out->n)
        out->n_slots *= 2;
    out->entries = NEWN(pool, WordpieceEntry, out->n + 1);
    out->slots = NEWN(pool, int32_t, out->n_slots);
    out->hash = hash_words(out->hash, copy, n);
    for (int32_t i = 0; i < out->n; i++) {
        const char *end = memchr(at, '\n', (size_t)(all - at));
        end = end ? end : all;
        size_t bytes = (size_t)(end - at) - (end > at && end[-1] == '\r');
        /* of equal lines the last counts */
        out->entries[i] = (WordpieceEntry){ at, bytes };
        out->slots[entry_slot(out, at, bytes)] = i + 1;
        at = end + 1;
    }
    return vocabulary_check(path, out);
}

Err wordpiece_read(Pool *pool, const char *path, Wordpiece *out)
{
    char  *text;
    size_t n;
    TRY(file_read_within(pool, path, VOCABULARY_MAX, &text, &n));
    return wordpiece_parse(pool, path, text, n, out);
}

/* ---- characters ---- */

static bool chinese(uint32_t c)
{
    static const uint32_t ranges[][2] = { { 0x4e00, 0x9fff },   { 0x3400, 0x4dbf },
                                          { 0x20000, 0x2a6df }, { 0x2a700, 0x2b73f },
                                          { 0x2b740, 0x2b81f }, { 0x2b820, 0x2ceaf },
                                          { 0xf900, 0xfaff },   { 0x2f800, 0x2fa1f } };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (c >= ranges[i][0] && c <= ranges[i][1])
            return true;
    return false;
}

static bool punctuation(uint32_t c)
{
    bool sign = (c > ' ' && c < '0') || (c > '9' && c < 'A') || (c > 'Z' && c < 'a') ||
                (c > 'z' && c < 0x7f);
    return sign || unicode_properties(c) & UNICODE_PUNCTUATION;
}

/* Without control characters; spaces of all kinds are ' ', and stand around Chinese characters. */
static Characters text_clean(Pool *pool, Characters text)
{
    Characters out = { NEWN(pool, uint32_t, 3 * text.n + 1), 0 };
    for (size_t i = 0; i < text.n; i++) {
        uint32_t c = text.at[i];
        unsigned bits = unicode_properties(c);
        bool     line = c == '\t' || c == '\n' || c == '\r', apart = chinese(c);
        if (c == 0xfffd || (bits & UNICODE_OTHER && !line))
            continue;
        if (apart)
            out.at[out.n++] = ' ';
        out.at[out.n++] = bits & UNICODE_SPACE ? ' ' : c;
        if (apart)
            out.at[out.n++] = ' ';
    }
    return out;
}

static Characters text_small(Pool *pool, Characters text)
{
    Characters out = { NEWN(pool, uint32_t, UNICODE_LOWERED * text.n + 1), 0 };
    for (size_t i = 0; i < text.n; i++)
        out.n += (size_t)unicode_lower(text.at[i], out.at + out.n);
    return out;
}

/* ---- words ---- */

typedef struct Dividing {
    const Wordpiece *v;
    int32_t         *to;
    int              n, room;
} Dividing;

static void number_put(Dividing *d, int32_t number)
{
    if (d->n < d->room)
        d->to[d->n++] = number;
}

/* The longest entry that bytes from `from` on begin with; *end is moved behind it. -1: none. */
static int32_t entry_longest(const Wordpiece *v, const char *word, const size_t *starts, int from,
                             int *end)
{
    char   text[2 + 4 * WORD_MAX] = "##";
    size_t mark = from ? 2 : 0;
    memcpy(text + mark, word + starts[from], starts[*end] - starts[from]);
    for (; *end > from; --*end) {
        int32_t number = entry_find(v, text, mark + starts[*end] - starts[from]);
        if (number >= 0)
            return number;
    }
    return -1;
}

static void word_divide(Dividing *d, const uint32_t *word, size_t n)
{
    char    utf8[4 * WORD_MAX];
    size_t  starts[WORD_MAX + 1] = { 0 };
    int32_t numbers[WORD_MAX];
    int     count = 0, whole = (int)n;
    if (n > WORD_MAX) {
        number_put(d, d->v->special[WORDPIECE_UNKNOWN]);
        return;
    }
    for (size_t i = 0; i < n; i++)
        starts[i + 1] = starts[i] + (size_t)utf8_put(word[i], utf8 + starts[i]);
    for (int at = 0, end = whole; at < whole; at = end, end = whole) {
        numbers[count] = entry_longest(d->v, utf8, starts, at, &end);
        if (numbers[count++] < 0) {
            number_put(d, d->v->special[WORDPIECE_UNKNOWN]);
            return;
        }
    }
    for (int i = 0; i < count; i++)
        number_put(d, numbers[i]);
}

/* A text without special words. */
static void text_divide(Pool *pool, Dividing *d, const char *utf8, size_t n)
{
    Characters text = text_clean(pool, characters_of(pool, utf8, n));
    text = characters_bare(pool, text_small(pool, text));
    for (size_t at = 0, end; at < text.n && d->n < d->room; at = end) {
        end = at + 1;
        if (unicode_properties(text.at[at]) & UNICODE_SPACE)
            continue;
        while (!punctuation(text.at[at]) && end < text.n && !punctuation(text.at[end]) &&
               !(unicode_properties(text.at[end]) & UNICODE_SPACE))
            end++;
        word_divide(d, text.at + at, end - at);
    }
}

/* The special word that begins here; WORDPIECE_SPECIALS: none. */
static int special_at(const Wordpiece *v, const char *at)
{
    int i = 0;
    while (i < WORDPIECE_SPECIALS &&
           (v->special[i] < 0 || strncmp(at, specials[i], strlen(specials[i])) != 0))
        i++;
    return i;
}

int wordpiece_tokenize(const Wordpiece *vocabulary, const char *utf8, int32_t *to, int room)
{
    Pool    *pool = pool_new(NULL, "text");
    Dividing d = { .v = vocabulary, .to = to, .n = 1, .room = room - 1 };
    to[0] = vocabulary->special[WORDPIECE_START];
    while (*utf8 && d.n < d.room) {
        const char *end = utf8;
        int         special = WORDPIECE_SPECIALS;
        while (*end && (special = special_at(vocabulary, end)) == WORDPIECE_SPECIALS)
            end++;
        text_divide(pool, &d, utf8, (size_t)(end - utf8));
        if (special < WORDPIECE_SPECIALS && *end) {
            number_put(&d, vocabulary->special[special]);
            end += strlen(specials[special]);
        }
        utf8 = end;
    }
    to[d.n++] = vocabulary->special[WORDPIECE_END];
    for (int i = d.n; i < room; i++)
        to[i] = vocabulary->special[WORDPIECE_PADDING];
    pool_free(pool);
    return d.n;
}
