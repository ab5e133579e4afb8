/* html_text.c -- reads the names of characters, and replaces references to them. */
#include "text/html_text.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/unicode.h"

enum { NAME_MAX_CHARACTERS = 32, LAST_CODE = 0x10ffff };

/* ---- names ---- */

static int name_order(const char *a, size_t n, const HtmlName *b)
{
    int order = memcmp(a, b->name, n < b->n ? n : b->n);
    return order ? order : n < b->n ? -1 : n > b->n;
}

/* "3c 20d2" */
static const char *characters_read(Pool *pool, const char *codes, const char *end)
{
    Text  text = { .pool = pool };
    char  utf8[4];
    char *after = NULL;
    for (const char *at = codes; at < end; at = after) {
        unsigned long c = strtoul(at, &after, 16);
        if (after == at || after > end || c > LAST_CODE || !c)
            return NULL;
        text_addn(&text, utf8, (size_t)utf8_put((uint32_t)c, utf8));
    }
    return text.at;
}

static Err name_add(Pool *pool, const char *file, int line, const char *at, const char *end,
                    HtmlNames *out)
{
    const char *space = memchr(at, ' ', (size_t)(end - at));
    HtmlName    name = { .name = at, .n = space ? (size_t)(space - at) : 0 };
    name.text = space ? characters_read(pool, space + 1, end) : NULL;
    if (!name.n || !name.text)
        return fail(E_FORMAT, "%s, line %d: not a name and its characters, as in 'lt; 3c'", file,
                    line);
    if (out->n && name_order(name.name, name.n, &out->list[out->n - 1]) <= 0)
        return fail(E_FORMAT, "%s, line %d: the names are not in order", file, line);
    VEC_ADD(pool, out->list, out->n, out->cap, name);
    return OK;
}

Err html_names_parse(Pool *pool, const char *file, const char *text, size_t n, HtmlNames *out)
{
    const char *copy = pool_textn(pool, text, n), *at = copy;
    *out = (HtmlNames){ 0 };
    for (int line = 1; at < copy + n; line++) {
        const char *end = memchr(at, '\n', (size_t)(copy + n - at));
        end = end ? end : copy + n;
        TRY(name_add(pool, file, line, at, end, out));
        at = end + 1;
    }
    return OK;
}

static const HtmlName *name_find(const HtmlNames *names, const char *name, size_t n)
{
    int32_t low = 0, high = names->n;
    while (low < high) {
        int32_t middle = (low + high) / 2;
        int     order = name_order(name, n, &names->list[middle]);
        if (!order)
            return &names->list[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* ---- references ---- */

static bool ends_name(char c) { return memchr("\t\n\f <&#;", c, 8) != NULL; }

/* Bytes of the name that begins here: up to 32 characters and a semicolon. */
static size_t name_bytes(const char *at, size_t left)
{
    size_t n = 0;
    for (int characters = 0; n < left && !ends_name(at[n]); n++)
        if (((unsigned char)at[n] & 0xc0) != 0x80 && ++characters > NAME_MAX_CHARACTERS)
            break;
    return n + (n && n < left && at[n] == ';');
}

/* The whole name if it is known, else the longest known one that it begins with. */
static size_t name_replace(const HtmlNames *names, const char *at, size_t left, Text *out)
{
    size_t whole = name_bytes(at, left);
    for (size_t n = whole; n > 1; n--) {
        const HtmlName *name = name_find(names, at, n);
        if (name) {
            text_addn(out, name->text, strlen(name->text));
            return n;
        }
    }
    return 0;
}

/* Codes that browsers read as Windows-1252, and those that no text may have: 0. */
static uint32_t code_of(uint32_t code)
{
    static const uint16_t windows[] = { 0x20ac, 0x81,   0x201a, 0x192,  0x201e, 0x2026, 0x2020,
                                        0x2021, 0x2c6,  0x2030, 0x160,  0x2039, 0x152,  0x8d,
                                        0x17d,  0x8f,   0x90,   0x2018, 0x2019, 0x201c, 0x201d,
                                        0x2022, 0x2013, 0x2014, 0x2dc,  0x2122, 0x161,  0x203a,
                                        0x153,  0x9d,   0x17e,  0x178 };
    if (code >= 0x80 && code < 0xa0)
        return windows[code - 0x80];
    if (!code || code > LAST_CODE || (code >= 0xd800 && code < 0xe000))
        return 0xfffd;
    bool space = code == '\t' || code == '\n' || code == '\f' || code == '\r';
    bool none = (code < ' ' && !space) || code == 0x7f || (code & 0xfffe) == 0xfffe ||
                (code >= 0xfdd0 && code < 0xfdf0);
    return none ? 0 : code;
}

/* "#60;", "#x3c" */
static size_t number_replace(const char *at, size_t left, Text *out)
{
    bool     hex = left > 1 && (at[1] == 'x' || at[1] == 'X');
    size_t   n = hex ? 2 : 1, first = n;
    uint32_t code = 0;
    char     utf8[4];
    for (; n < left && at[n]; n++) {
        const char *digits = "0123456789abcdef", *digit = strchr(digits, at[n] | 0x20);
        bool        decimal = at[n] >= '0' && at[n] <= '9';
        if (!decimal && (!hex || !digit || at[n] < 'A'))
            break;
        code = code * (hex ? 16 : 10) + (uint32_t)(digit - digits);
        code = code > LAST_CODE ? LAST_CODE + 1 : code;
    }
    if (n == first)
        return 0;
    code = code_of(code);
    if (code)
        text_addn(out, utf8, (size_t)utf8_put(code, utf8));
    return n + (n < left && at[n] == ';');
}

void html_unescape(const HtmlNames *names, const char *text, size_t n, Text *out)
{
    text_addn(out, "", 0);
    for (size_t at = 0; at < n;) {
        const char *found = memchr(text + at, '&', n - at);
        size_t      plain = found ? (size_t)(found - text) - at : n - at;
        text_addn(out, text + at, plain);
        at += plain;
        if (at == n)
            return;
        at++;
        size_t left = n - at;
        size_t taken = left && text[at] == '#' ? number_replace(text + at, left, out)
                                               : name_replace(names, text + at, left, out);
        if (!taken)
            text_addn(out, "&", 1);
        at += taken;
    }
}
