/* clip_tokens.c -- reads CLIP's merges, splits text into words, joins the bytes of words. */
#include "text/clip_tokens.h"

#include <stdbool.h>
#include <string.h>

#include "base/hash.h"
#include "base/shipped.h"
#include "base/utf8.h"
#include "base/zip.h"
#include "text/unicode.h"

enum { SLOTS = 1 << 17, LONG_S = 0x17f, YPOGEGRAMMENI = 0x345 };

static const char word_end[] = "</w>";

/* ---- merges ---- */

static uint32_t pair_slot(const ClipTokens *t, int32_t left, int32_t right)
{
    uint32_t i = (uint32_t)(hash_int(hash_int(HASH_EMPTY, left), right) >> 20) & (SLOTS - 1);
    while (t->slots[i]) {
        const ClipMerge *m = &t->merges[t->slots[i] - 1];
        if (m->left == left && m->right == right)
            break;
        i = (i + 1) & (SLOTS - 1);
    }
    return i;
}

/* The number of the merge of the two; -1: they are not merged. */
static int32_t merge_find(const ClipTokens *t, int32_t left, int32_t right)
{
    return t->slots[pair_slot(t, left, right)] - 1;
}

/* A byte's place among the first 256 tokens: those that print come first. */
static int32_t byte_token(unsigned char byte)
{
    enum { PRINTED = 94, LATIN = 12, LATIN_2 = 82, SOFT_HYPHEN = 0xad };
    if (byte >= '!' && byte <= '~')
        return byte - '!';
    if (byte >= 0xa1 && byte < SOFT_HYPHEN)
        return PRINTED + byte - 0xa1;
    if (byte > SOFT_HYPHEN)
        return PRINTED + LATIN + byte - SOFT_HYPHEN - 1;
    return PRINTED + LATIN + LATIN_2 +
           (byte <= ' '           ? byte
            : byte == SOFT_HYPHEN ? 0x43
                                  : byte - 0x7f + 0x21);
}

/* The byte that a character of the file stands for: itself if it prints, else the next from U+0100
 * on. -1: none. */
static int32_t character_token(uint32_t c)
{
    enum { NOT_PRINTED = 0x44 };
    if (c >= 0x100 && c < 0x100 + NOT_PRINTED)
        return CLIP_BYTES - NOT_PRINTED + (int32_t)(c - 0x100);
    return (c > ' ' && c < 0x7f) || (c > 0xa0 && c < 0x100 && c != 0xad)
               ? byte_token((unsigned char)c)
               : -1;
}

typedef struct TokenNames { /* while the merges are read: tokens by their text */
    const char **names;
    size_t      *n;
    int32_t     *slots;
} TokenNames;

static uint32_t name_slot(const TokenNames *names, const char *name, size_t n)
{
    uint32_t i = (uint32_t)hash_bytes(HASH_EMPTY, name, n) & (SLOTS - 1);
    while (names->slots[i]) {
        int32_t token = names->slots[i] - 1;
        if (names->n[token] == n && !memcmp(names->names[token], name, n))
            break;
        i = (i + 1) & (SLOTS - 1);
    }
    return i;
}

static bool name_put(TokenNames *names, const char *name, size_t n, int32_t token)
{
    uint32_t slot = name_slot(names, name, n);
    if (names->slots[slot])
        return false;
    names->slots[slot] = token + 1;
    names->names[token] = name;
    names->n[token] = n;
    return true;
}

/* The single bytes, with and without the end of a word. */
static TokenNames names_of_bytes(Pool *pool)
{
    TokenNames names = { NEWN(pool, const char *, CLIP_START), NEWN(pool, size_t, CLIP_START),
                         NEWN(pool, int32_t, SLOTS) };
    for (uint32_t c = 0; c < 0x200; c++) {
        int32_t token = character_token(c);
        char    utf8[4];
        if (token < 0)
            continue;
        const char *name = pool_textn(pool, utf8, (size_t)utf8_put(c, utf8));
        const char *ending = pool_print(pool, "%s%s", name, word_end);
        (void)name_put(&names, name, strlen(name), token);
        (void)name_put(&names, ending, strlen(ending), CLIP_BYTES + token);
    }
    return names;
}

/* One line, "th e</w>". */
static Err merge_read(Pool *pool, const char *file, int32_t number, const char *at, const char *end,
                      TokenNames *names, ClipTokens *out)
{
    const char *space = memchr(at, ' ', (size_t)(end - at));
    size_t      n_left = space ? (size_t)(space - at) : 0,
           n_right = space ? (size_t)(end - space) - 1 : 0;
    int32_t left = n_left ? names->slots[name_slot(names, at, n_left)] - 1 : -1;
    int32_t right = n_right ? names->slots[name_slot(names, space + 1, n_right)] - 1 : -1;
    if (left < 0 || right < 0)
        return fail(E_FORMAT, "%s, line %d: not a merge of two tokens of the lines before it", file,
                    (int)number + 2);
    char *both = pool_textn(pool, at, n_left + n_right);
    memcpy(both + n_left, space + 1, n_right);
    if (!name_put(names, both, n_left + n_right, 2 * CLIP_BYTES + number))
        return fail(E_FORMAT, "%s, line %d: the token %.*s is merged twice", file, (int)number + 2,
                    (int)(n_left + n_right), both);
    out->merges[number] = (ClipMerge){ left, right };
    out->slots[pair_slot(out, left, right)] = number + 1;
    return OK;
}

Err clip_tokens_parse(Pool *pool, const char *file, const char *text, size_t n, ClipTokens *out)
{
    Pool       *work = pool_new(pool, "names");
    TokenNames  names = names_of_bytes(work);
    const char *end = text + n, *at = memchr(text, '\n', n); /* the first line names the version */
    *out = (ClipTokens){ NEWN(pool, ClipMerge, CLIP_MERGES), NEWN(pool, int32_t, SLOTS), { 0 } };
    for (int32_t i = 0; i < CLIP_MERGES; i++) {
        const char *line = at ? at + 1 : end;
        at = line < end ? memchr(line, '\n', (size_t)(end - line)) : NULL;
        if (!at)
            return fail(E_FORMAT, "%s ends after %d of %d merges", file, (int)i, CLIP_MERGES);
        TRY(merge_read(work, file, i, line, at, &names, out));
    }
    pool_free(work);
    return OK;
}

static Err member_read(Pool *pool, const ZipFile *zip, const char *name, const char **text,
                       size_t *n)
{
    const unsigned char *bytes;
    const ZipMember     *member = zip_find(zip, name);
    if (!member)
        return fail(E_FORMAT, "%s lacks %s; install the program again", zip->path, name);
    TRY(zip_content(pool, zip, member, ZIP_CHECK_STORED, &bytes, n));
    *text = (const char *)bytes;
    return OK;
}

Err clip_tokens_open(Pool *pool, ClipTokens *out)
{
    const char *path, *merges = NULL, *entities = NULL;
    size_t      n_merges = 0, n_entities = 0;
    ZipFile     zip;
    TRY(shipped_find(pool, "tokens", ".zip", "file of tokens", "clip", &path));
    TRY(zip_read(pool, path, &zip));
    TRY(member_read(pool, &zip, "merges.txt", &merges, &n_merges));
    TRY(member_read(pool, &zip, "entities.txt", &entities, &n_entities));
    TRY(clip_tokens_parse(pool, "merges.txt of tokens/clip.zip", merges, n_merges, out));
    return html_names_parse(pool, "entities.txt of tokens/clip.zip", entities, n_entities,
                            &out->html);
}

/* ---- words ---- */

typedef struct Joining { /* the tokens of one word, and what may be merged */
    int32_t *token;      /* [n] -1: merged into the one before */
    size_t  *next, *before;
    struct JoiningPair {
        int32_t merge;
        size_t  at;
    } * heap; /* the lowest merge first, of equal ones the leftmost */
    size_t n, n_heap;
} Joining;

static bool pair_less(struct JoiningPair a, struct JoiningPair b)
{
    return a.merge != b.merge ? a.merge < b.merge : a.at < b.at;
}

static void heap_put(Joining *j, struct JoiningPair pair)
{
    size_t i = j->n_heap++;
    for (; i && pair_less(pair, j->heap[(i - 1) / 2]); i = (i - 1) / 2)
        j->heap[i] = j->heap[(i - 1) / 2];
    j->heap[i] = pair;
}

static struct JoiningPair heap_take(Joining *j)
{
    struct JoiningPair first = j->heap[0], last = j->heap[--j->n_heap];
    size_t             i = 0, child;
    while ((child = 2 * i + 1) < j->n_heap) {
        child += child + 1 < j->n_heap && pair_less(j->heap[child + 1], j->heap[child]);
        if (!pair_less(j->heap[child], last))
            break;
        j->heap[i] = j->heap[child];
        i = child;
    }
    j->heap[i] = last;
    return first;
}

/* Notes that the token at i and the one behind it may be merged. */
static void pair_note(const ClipTokens *t, Joining *j, size_t i)
{
    if (j->next[i] >= j->n)
        return;
    int32_t merge = merge_find(t, j->token[i], j->token[j->next[i]]);
    if (merge >= 0)
        heap_put(j, (struct JoiningPair){ merge, i });
}

/* Merges the pair, unless one of the two has been merged with another. */
static void pair_join(const ClipTokens *t, Joining *j, struct JoiningPair pair)
{
    const ClipMerge *m = &t->merges[pair.merge];
    size_t           behind = j->next[pair.at];
    if (j->token[pair.at] != m->left || behind >= j->n || j->token[behind] != m->right)
        return;
    j->token[pair.at] = 2 * CLIP_BYTES + pair.merge;
    j->token[behind] = -1;
    j->next[pair.at] = j->next[behind];
    if (j->next[behind] < j->n)
        j->before[j->next[behind]] = pair.at;
    pair_note(t, j, pair.at);
    if (pair.at)
        pair_note(t, j, j->before[pair.at]);
}

/* A merge makes a token that only later merges join, so taking the lowest merge of all is the same
 * as merging everywhere before looking for the next. */
static void word_join(const ClipTokens *t, Joining *j)
{
    j->n_heap = 0;
    for (size_t i = 0; i < j->n; i++) {
        j->next[i] = i + 1;
        j->before[i] = i - 1;
    }
    for (size_t i = 0; i + 1 < j->n; i++)
        pair_note(t, j, i);
    while (j->n_heap)
        pair_join(t, j, heap_take(j));
}

typedef struct Tokenizing {
    const ClipTokens *tokens;
    Characters        text;
    Joining           joining; /* with room for the longest word */
    int32_t          *to;
    int               n, room;
} Tokenizing;

static void word_tokens(Tokenizing *t, size_t from, size_t end)
{
    Joining *j = &t->joining;
    j->n = 0;
    for (size_t i = from; i < end; i++) {
        char utf8[4];
        int  n = utf8_put(t->text.at[i], utf8);
        for (int k = 0; k < n; k++)
            j->token[j->n++] = byte_token((unsigned char)utf8[k]);
    }
    j->token[j->n - 1] += CLIP_BYTES;
    word_join(t->tokens, j);
    for (size_t i = 0; i < j->n && t->n < t->room; i = j->next[i])
        t->to[t->n++] = j->token[i];
}

/* ---- splitting ---- */

/* Letter case was ignored when the original was made, and the old long s is an s then. */
static bool same_letter(uint32_t c, char ascii)
{
    return c == (uint32_t)ascii || (c == LONG_S && ascii == 's');
}

static size_t begins_with(Characters text, size_t at, const char *word)
{
    size_t n = strlen(word);
    if (n > text.n - at)
        return 0;
    for (size_t i = 0; i < n; i++)
        if (!same_letter(text.at[at + i], word[i]))
            return 0;
    return n;
}

static size_t first_of(Characters text, size_t at, const char *const *words)
{
    size_t n = 0;
    for (; *words && !n; words++)
        n = begins_with(text, at, *words);
    return n;
}

typedef enum ClipKind { CLIP_LETTERS, CLIP_NUMBER, CLIP_SIGNS, CLIP_SPACE } ClipKind;

static ClipKind kind_of_character(uint32_t c)
{
    unsigned bits = unicode_properties(c);
    if (c == YPOGEGRAMMENI) /* no letter, but its capital is one: the original leaves it out */
        return CLIP_SPACE;
    return bits & UNICODE_LETTER   ? CLIP_LETTERS
           : bits & UNICODE_NUMBER ? CLIP_NUMBER
           : bits & UNICODE_SPACE  ? CLIP_SPACE
                                   : CLIP_SIGNS;
}

static const char *const special_words[] = { "<start_of_text>", "<end_of_text>", NULL };
static const char *const short_words[] = { "'s", "'t", "'re", "'ve", "'m", "'ll", "'d", NULL };

static size_t word_length(Characters text, size_t at)
{
    size_t   n = first_of(text, at, short_words);
    ClipKind kind = kind_of_character(text.at[at]);
    if (n || kind == CLIP_NUMBER)
        return n ? n : 1;
    while (at + n < text.n && kind_of_character(text.at[at + n]) == kind)
        n++;
    return n;
}

/* The token of a special word that is written without an s of another kind. */
static bool special_token(Tokenizing *t, size_t at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (t->text.at[at + i] == LONG_S)
            return false;
    t->to[t->n++] = t->text.at[at + 1] == 's' ? CLIP_START : CLIP_END;
    return true;
}

static void words_tokens(Tokenizing *t)
{
    for (size_t at = 0, n; at < t->text.n && t->n < t->room; at += n) {
        n = first_of(t->text, at, special_words);
        if (n && special_token(t, at, n))
            continue;
        n = n ? n : word_length(t->text, at);
        if (kind_of_character(t->text.at[at]) != CLIP_SPACE)
            word_tokens(t, at, at + n);
    }
}

/* ---- the whole ---- */

static Characters spaces_joined(Characters text)
{
    size_t kept = 0;
    for (size_t i = 0; i < text.n; i++) {
        bool space = unicode_properties(text.at[i]) & UNICODE_SPACE;
        if (!space)
            text.at[kept++] = text.at[i];
        else if (kept && text.at[kept - 1] != ' ')
            text.at[kept++] = ' ';
    }
    text.n = kept - (kept && text.at[kept - 1] == ' ');
    return text;
}

static Characters text_clean(Pool *pool, const ClipTokens *tokens, const char *utf8)
{
    Text once = { .pool = pool }, twice = { .pool = pool };
    html_unescape(&tokens->html, utf8, strlen(utf8), &once);
    html_unescape(&tokens->html, once.at, once.n, &twice);
    return characters_lower(pool, spaces_joined(characters_of(pool, twice.at, twice.n)));
}

int clip_tokenize(const ClipTokens *tokens, const char *utf8, int32_t *to, int room)
{
    Pool      *pool = pool_new(NULL, "text");
    Tokenizing t = { .tokens = tokens, .to = to, .n = 1, .room = room };
    t.text = text_clean(pool, tokens, utf8);
    size_t bytes = utf8_bytes(t.text) + 1;
    t.joining = (Joining){ .token = NEWN(pool, int32_t, bytes),
                           .next = NEWN(pool, size_t, bytes),
                           .before = NEWN(pool, size_t, bytes),
                           .heap = pool_alloc(pool, 3 * bytes, sizeof *t.joining.heap) };
    memset(to, 0, (size_t)room * sizeof *to);
    to[0] = CLIP_START;
    words_tokens(&t);
    int n = t.n < room ? t.n + 1 : room;
    to[n - 1] = CLIP_END;
    pool_free(pool);
    return n;
}
