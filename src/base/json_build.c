/* json_build.c -- the tree under construction: stack, interned keys, texts and numbers. */
#include "base/json_int.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>

enum { INDEX_FROM = 12, FIRST_SLOTS = 64, FIRST_BLOCK = 1024, MOST_BLOCK = 64 * 1024 };

void json_build_init(JsonBuild *b, Pool *pool, Pool *scratch, const char *name, Err wrong,
                     const char *bytes, size_t n)
{
    *b = (JsonBuild){ .pool = pool, .scratch = scratch, .start = bytes, .end = bytes + n,
                      .n_slots = FIRST_SLOTS, .block_bytes = FIRST_BLOCK };
    b->keys = NEWN(scratch, JsonKey *, b->n_slots);
    b->source = NEW(pool, JsonSource);
    *b->source = (JsonSource){ pool_text(pool, name), wrong };
}

Err json_build_fail(const JsonBuild *b, const char *at, const char *fmt, ...)
{
    char    text[512];
    int     line = 1, column = 1;
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    for (const char *p = b->start; p < at; p++) {
        if (*p == '\n') {
            line++;
            column = 1;
        } else if (((unsigned char)*p & 0xC0) != 0x80) {    /* characters, not bytes */
            column++;
        }
    }
    return fail(E_FORMAT, "%s:%d:%d: %s", b->source->name, line, column, text);
}

/* Memory of the tree, cut from blocks: the pool itself rounds every piece up to 16 bytes. */
static char *json_build_cut(JsonBuild *b, size_t bytes, size_t align)
{
    size_t skip = (size_t)(-(uintptr_t)b->block) & (align - 1);
    if (bytes + skip > b->left) {
        if (bytes > MOST_BLOCK / 4)
            return pool_alloc(b->pool, bytes, 1);
        while (b->block_bytes < bytes)
            b->block_bytes *= 2;
        b->block = pool_alloc(b->pool, b->block_bytes, 1);
        b->left = b->block_bytes;
        if (b->block_bytes < MOST_BLOCK)
            b->block_bytes *= 2;
        skip = 0;
    }
    char *p = b->block + skip;
    b->block += skip + bytes;
    b->left -= skip + bytes;
    return p;
}

const char *json_build_text(JsonBuild *b, const char *bytes, size_t n)
{
    char *text = json_build_cut(b, n + 1, 1);
    memcpy(text, bytes, n);
    text[n] = '\0';
    return text;
}

uint32_t json_key_hash(const char *bytes, size_t n)
{
    uint64_t hash = n * 0x9E3779B97F4A7C15u;
    for (; n; ) {
        uint64_t word = 0;
        size_t   take = n < 8 ? n : 8;
        memcpy(&word, bytes, take);
        hash = (hash ^ word) * 0xD6E8FEB86659FD93u;
        hash ^= hash >> 32;
        bytes += take;
        n -= take;
    }
    return (uint32_t)hash;
}

static JsonKey **json_key_slot(JsonKey **keys, uint32_t n_slots, uint32_t hash, const char *bytes,
                               size_t n)
{
    uint32_t i = hash & (n_slots - 1);
    while (keys[i] &&
           (keys[i]->hash != hash || keys[i]->n != n || memcmp(keys[i]->text, bytes, n) != 0))
        i = (i + 1) & (n_slots - 1);
    return &keys[i];
}

static void json_keys_double(JsonBuild *b)
{
    JsonKey **old = b->keys;
    uint32_t  n_old = b->n_slots;
    b->n_slots *= 2;
    b->keys = NEWN(b->scratch, JsonKey *, b->n_slots);
    for (uint32_t i = 0; i < n_old; i++)
        if (old[i])
            *json_key_slot(b->keys, b->n_slots, old[i]->hash, old[i]->text, old[i]->n) = old[i];
}

const char *json_build_key(JsonBuild *b, const char *bytes, size_t n)
{
    uint32_t  hash = json_key_hash(bytes, n);
    JsonKey **slot = json_key_slot(b->keys, b->n_slots, hash, bytes, n);
    if (!*slot) {
        if (2 * ++b->n_keys > b->n_slots) {
            json_keys_double(b);
            slot = json_key_slot(b->keys, b->n_slots, hash, bytes, n);
        }
        JsonKey *key = (JsonKey *)(void *)json_build_cut(b, sizeof *key + n + 1, _Alignof(JsonKey));
        *key = (JsonKey){ .hash = hash, .n = (uint32_t)n };
        memcpy(key->text, bytes, n);
        key->text[n] = '\0';
        *slot = key;
    }
    return (*slot)->text;
}

static JsonKey *json_key_of(const char *text)
{
    return (JsonKey *)(void *)((uintptr_t)text - offsetof(JsonKey, text));
}

void json_build_push(JsonBuild *b, const char *key, const char *key_at, Json value)
{
    if (b->n == b->cap) {
        size_t old = b->cap * sizeof *b->stack;
        b->cap = b->cap ? 2 * b->cap : 64;
        b->stack = pool_grow(b->scratch, b->stack, old, b->cap * sizeof *b->stack);
    }
    b->stack[b->n++] = (JsonWaiting){ key, key_at, value };
}

uint32_t json_index_slots(uint32_t n_members)
{
    uint32_t slots = 0;
    if (n_members >= INDEX_FROM)
        for (slots = 16; slots < 2 * (uint64_t)n_members && slots < 1u << 31; )
            slots *= 2;
    return slots;
}

/* Each key remembers the last object that was closed with it, so a key seen twice shows at once. */
static Err json_build_no_twins(JsonBuild *b, const JsonWaiting *waiting, uint32_t n)
{
    uint32_t serial = ++b->n_objects;
    for (uint32_t i = 0; i < n; i++) {
        JsonKey *key = json_key_of(waiting[i].key);
        if (key->last_object == serial)
            return json_build_fail(b, waiting[i].key_at, "the key '%.100s' is here a second time; "
                                   "keep one of the two", key->text);
        key->last_object = serial;
    }
    return OK;
}

static void json_build_index(JsonMember *members, uint32_t n, uint32_t *index, uint32_t slots)
{
    for (uint32_t m = 0; m < n; m++) {
        uint32_t i = json_key_of(members[m].key)->hash & (slots - 1);
        while (index[i])
            i = (i + 1) & (slots - 1);
        index[i] = m + 1;
    }
}

Err json_build_close(JsonBuild *b, uint32_t first, Json *out)
{
    const JsonWaiting *waiting = b->stack ? b->stack + first : NULL;
    uint32_t n = b->n - first, slots = 0;
    size_t   size = sizeof(Json);
    if (out->kind == JSON_OBJECT) {
        TRY(json_build_no_twins(b, waiting, n));
        slots = json_index_slots(n);
        size = sizeof(JsonMember);
    }
    JsonSource **head = (JsonSource **)(void *)json_build_cut(
        b, sizeof *head + n * size + slots * sizeof(uint32_t), _Alignof(Json));
    *head = b->source;
    if (out->kind == JSON_OBJECT) {
        JsonMember *members = (JsonMember *)(void *)(head + 1);
        for (uint32_t i = 0; i < n; i++)
            members[i] = (JsonMember){ waiting[i].key, waiting[i].value };
        if (slots)
            json_build_index(members, n, (uint32_t *)(void *)(members + n), slots);
        out->members = members;
    } else {
        Json *items = (Json *)(void *)(head + 1);
        for (uint32_t i = 0; i < n; i++)
            items[i] = waiting[i].value;
        out->items = items;
    }
    out->n = n;
    b->n = first;
    return OK;
}

const Json *json_build_root(JsonBuild *b, Json value)
{
    Json *root = NEW(b->pool, Json);
    *root = value;
    return root;
}

int json_utf8(const char *at, const char *end)
{
    const unsigned char *p = (const unsigned char *)at;
    ptrdiff_t left = end - at;
    if (left > 0 && p[0] < 0x80)
        return 1;
    if (left > 1 && p[0] >= 0xC2 && p[0] < 0xE0)
        return (p[1] & 0xC0) == 0x80 ? 2 : 0;
    if (left > 2 && (p[0] & 0xF0) == 0xE0) {
        if ((p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xED && p[1] > 0x9F))
            return 0;                        /* longer than need be; half of a surrogate pair */
        return (p[1] & 0xC0) == 0x80 && (p[2] & 0xC0) == 0x80 ? 3 : 0;
    }
    if (left > 3 && p[0] >= 0xF0 && p[0] < 0xF5) {
        if ((p[0] == 0xF0 && p[1] < 0x90) || (p[0] == 0xF4 && p[1] > 0x8F))
            return 0;                        /* longer than need be; above U+10FFFF */
        return (p[1] & 0xC0) == 0x80 && (p[2] & 0xC0) == 0x80 && (p[3] & 0xC0) == 0x80 ? 4 : 0;
    }
    return 0;
}

/* The first byte that is not plain ASCII text: a quote, a backslash, a control or part of a longer
 * character. Eight bytes at a time: the high bit of a byte is set where it needs a look. */
static const char *json_plain_end(const char *p, const char *end)
{
    const uint64_t ones = 0x0101010101010101u, high = 0x8080808080808080u;
    while (end - p >= 8) {
        uint64_t w, quote, slash;
        memcpy(&w, p, 8);
        quote = w ^ (ones * '"');
        slash = w ^ (ones * '\\');
        uint64_t look = (((w - ones * 0x20) & ~w) | ((quote - ones) & ~quote) |
                         ((slash - ones) & ~slash) | w) & high;
        if (look)
            return p + __builtin_ctzll(look) / 8;
        p += 8;
    }
    while (p < end && (unsigned char)*p >= 0x20 && (unsigned char)*p < 0x80 && *p != '"' &&
           *p != '\\')
        p++;
    return p;
}

static int json_hex4(const char *p, const char *end)
{
    int value = 0;
    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int  digit = c >= '0' && c <= '9' ? c - '0'
                   : c >= 'a' && c <= 'f' ? c - 'a' + 10
                   : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

static char *json_utf8_put(char *to, int c)
{
    if (c < 0x80) {
        *to++ = (char)c;
    } else if (c < 0x800) {
        *to++ = (char)(0xC0 | c >> 6);
        *to++ = (char)(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
        *to++ = (char)(0xE0 | c >> 12);
        *to++ = (char)(0x80 | (c >> 6 & 0x3F));
        *to++ = (char)(0x80 | (c & 0x3F));
    } else {
        *to++ = (char)(0xF0 | c >> 18);
        *to++ = (char)(0x80 | (c >> 12 & 0x3F));
        *to++ = (char)(0x80 | (c >> 6 & 0x3F));
        *to++ = (char)(0x80 | (c & 0x3F));
    }
    return to;
}

/* One escape whose backslash is at *at. */
static Err json_escape(const JsonBuild *b, const char **at, char **to)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *p = *at + 1, *name;
    if (p < b->end && *p && (name = strchr(names, *p))) {
        *(*to)++ = values[name - names];
        *at = p + 1;
        return OK;
    }
    if (p == b->end || *p != 'u')
        return json_build_fail(b, *at, "unknown escape; known are \\\" \\\\ \\/ \\b \\f \\n \\r "
                               "\\t and \\u with four hexadecimal digits");
    int c = json_hex4(p + 1, b->end);
    if (c < 0)
        return json_build_fail(b, *at, "\\u needs four hexadecimal digits");
    p += 5;
    if (c >= 0xD800 && c < 0xE000) {         /* half of a pair that makes one character */
        int low = c < 0xDC00 && b->end - p >= 6 && p[0] == '\\' && p[1] == 'u'
                ? json_hex4(p + 2, b->end) : -1;
        if (low < 0xDC00 || low >= 0xE000)
            return json_build_fail(b, *at, "\\u%04X is half a character: it needs the other half "
                                   "of its surrogate pair", (unsigned)c);
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
        p += 6;
    }
    if (c == 0)
        return json_build_fail(b, *at, "\\u0000 is not accepted in texts");
    *to = json_utf8_put(*to, c);
    *at = p;
    return OK;
}

/* Finds the closing quote of the text that starts at p, and whether it has escapes. */
static Err json_quoted_end(const JsonBuild *b, const char *p, const char **close, bool *escapes)
{
    const char *open = p - 1;
    *escapes = false;
    for (;;) {
        p = json_plain_end(p, b->end);
        if (p == b->end)
            return json_build_fail(b, open, "this text has no closing quote");
        unsigned char c = (unsigned char)*p;
        if (c == '"')
            break;
        if (c == '\\') {
            *escapes = true;
            p += b->end - p > 1 && p[1] >= 0x20 && p[1] < 0x7F ? 2 : 1;
        } else if (c < 0x20) {
            if (c == '\n' || c == '\r')
                return json_build_fail(b, p, "the line ends inside a text; close the quote, or "
                                       "write \\n for a new line");
            return json_build_fail(b, p, "control character inside a text; write it as \\u%04x", c);
        } else {
            int n = json_utf8(p, b->end);
            if (!n)
                return json_build_fail(b, p, "byte 0x%02X is not valid UTF-8; save the file as "
                                       "UTF-8", c);
            p += n;
        }
    }
    *close = p;
    return OK;
}

Err json_build_quoted(JsonBuild *b, const char **at, bool is_key, const char **text, uint32_t *n)
{
    const char *p = *at + 1, *close = p;
    bool        escapes;
    TRY(json_quoted_end(b, p, &close, &escapes));
    size_t length = (size_t)(close - p);
    *at = close + 1;
    if (escapes) {                           /* what they stand for is never longer than they are */
        char *plain = NEWN(b->scratch, char, length + 1), *to = plain;
        while (p < close) {
            if (*p == '\\')
                TRY(json_escape(b, &p, &to));
            else
                *to++ = *p++;
        }
        p = plain;
        length = (size_t)(to - plain);
    }
    *text = is_key ? json_build_key(b, p, length) : json_build_text(b, p, length);
    *n = (uint32_t)length;
    return OK;
}

/* Everything that is not a small whole number or a short decimal: strtod, on a copy that ends. */
static Err json_number_slow(JsonBuild *b, const char *at, const char *bytes, size_t n, Json *out)
{
    char        room[64];
    char       *copy = n < sizeof room ? room : NEWN(b->scratch, char, n + 1);
    memcpy(copy, bytes, n);
    copy[n] = '\0';
    out->kind = JSON_NUMBER;
    out->number = strtod(copy, NULL);
    if (!isfinite(out->number))
        return json_build_fail(b, at, "%.40s%s is too large for a number", copy,
                               n > 40 ? "..." : "");
    return OK;
}

Err json_build_number(JsonBuild *b, const char *at, const char *bytes, size_t n, Json *out)
{
    static const double power[] = {
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
        1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22
    };
    const char *p = bytes, *end = bytes + n;
    bool        minus = n && *p == '-', whole = true;
    uint64_t    digits = 0;
    int         n_digits = 0, scale = 0;
    if (n && (*p == '-' || *p == '+'))
        p++;
    for (; p < end && *p != 'e' && *p != 'E'; p++) {
        if (*p == '.') {
            whole = false;
            continue;
        }
        if (n_digits == 19)                  /* 19 digits stay below 2^64 */
            return json_number_slow(b, at, bytes, n, out);
        digits = digits * 10 + (uint64_t)(*p - '0');
        n_digits += digits != 0;
        scale -= !whole;
    }
    if (p < end && end - p <= 5) {
        int  exponent = 0;
        bool down = p[1] == '-';
        for (p += 1 + (p[1] == '-' || p[1] == '+'); p < end; p++)
            exponent = exponent * 10 + (*p - '0');
        scale += down ? -exponent : exponent;
        whole = false;
    }
    if (p < end)
        return json_number_slow(b, at, bytes, n, out);
    if (whole && !(minus && digits == 0) && digits <= (uint64_t)INT64_MAX + minus) {
        out->kind = JSON_INT;
        out->integer = minus ? (int64_t)(0 - digits) : (int64_t)digits;
        return OK;
    }
    /* A power of ten up to 10^22 and an integer up to 2^53 are exact, so one rounding remains
     * (Clinger, "How to read floating point numbers accurately", 1990). */
    if (digits <= 1ull << 53 && scale >= -22 && scale <= 22) {
        double value = scale < 0 ? (double)digits / power[-scale] : (double)digits * power[scale];
        out->kind = JSON_NUMBER;
        out->number = minus ? -value : value;
        return OK;
    }
    return json_number_slow(b, at, bytes, n, out);
}
