/* json_scalar.c -- UTF-8, quoted texts and numbers, as JSON and YAML share them. */
#include "base/json_int.h"

#include "base/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int json_utf8(const char *at, const char *end)
{
    const unsigned char *p = (const unsigned char *)at;
    ptrdiff_t            left = end - at;
    if (left > 0 && p[0] < 0x80)
        return 1;
    if (left > 1 && p[0] >= 0xC2 && p[0] < 0xE0)
        return (p[1] & 0xC0) == 0x80 ? 2 : 0;
    if (left > 2 && (p[0] & 0xF0) == 0xE0) {
        if ((p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xED && p[1] > 0x9F))
            return 0; /* longer than need be; half of a surrogate pair */
        return (p[1] & 0xC0) == 0x80 && (p[2] & 0xC0) == 0x80 ? 3 : 0;
    }
    if (left > 3 && p[0] >= 0xF0 && p[0] < 0xF5) {
        if ((p[0] == 0xF0 && p[1] < 0x90) || (p[0] == 0xF4 && p[1] > 0x8F))
            return 0; /* longer than need be; above U+10FFFF */
        return (p[1] & 0xC0) == 0x80 && (p[2] & 0xC0) == 0x80 && (p[3] & 0xC0) == 0x80 ? 4 : 0;
    }
    return 0;
}

size_t json_utf8_bytes(const char *text, size_t n)
{
    size_t at = 0;
    for (int wide = 1; at < n && wide; at += (size_t)wide)
        wide = text[at] ? json_utf8(text + at, text + n) : 0;
    return at;
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
                         ((slash - ones) & ~slash) | w) &
                        high;
        if (look)
            return p + __builtin_ctzll(look) / 8;
        p += 8;
    }
    while (p < end && (unsigned char)*p >= 0x20 && (unsigned char)*p < 0x80 && *p != '"' &&
           *p != '\\')
        p++;
    return p;
}

/* One escape whose backslash is at *at. */
static Err json_escape(const JsonBuild *b, const char **at, char **to)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char       *p = *at + 1, *name;
    if (p < b->end && *p && (name = strchr(names, *p))) {
        *(*to)++ = values[name - names];
        *at = p + 1;
        return OK;
    }
    if (p == b->end || *p != 'u')
        return json_build_fail(b, *at,
                               "unknown escape; known are \\\" \\\\ \\/ \\b \\f \\n \\r "
                               "\\t and \\u with four hexadecimal digits");
    int c = (int)hex_number(p + 1, b->end, 4);
    if (c < 0)
        return json_build_fail(b, *at, "\\u needs four hexadecimal digits");
    p += 5;
    if (c >= 0xD800 && c < 0xE000) { /* half of a pair that makes one character */
        int low = c < 0xDC00 && b->end - p >= 6 && p[0] == '\\' && p[1] == 'u'
                      ? (int)hex_number(p + 2, b->end, 4)
                      : -1;
        if (low < 0xDC00 || low >= 0xE000)
            return json_build_fail(b, *at,
                                   "\\u%04X is half a character: it needs the other half "
                                   "of its surrogate pair",
                                   (unsigned)c);
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
        p += 6;
    }
    if (c == 0)
        return json_build_fail(b, *at, "\\u0000 is not accepted in texts");
    *to += utf8_put((uint32_t)c, *to);
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
                return json_build_fail(b, p,
                                       "the line ends inside a text; close the quote, or "
                                       "write \\n for a new line");
            return json_build_fail(b, p, "control character inside a text; write it as \\u%04x", c);
        } else {
            int n = json_utf8(p, b->end);
            if (!n)
                return json_build_fail(b, p,
                                       "byte 0x%02X is not valid UTF-8; save the file as "
                                       "UTF-8",
                                       c);
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
    if (escapes) { /* what they stand for is never longer than they are */
        char *plain = NEWN(b->temp, char, length + 1), *to = plain;
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
    char  room[64];
    char *copy = n < sizeof room ? room : NEWN(b->temp, char, n + 1);
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
    static const double power[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
    const char         *p = bytes, *end = bytes + n;
    bool                minus = n && *p == '-', whole = true;
    uint64_t            digits = 0;
    int                 n_digits = 0, scale = 0;
    if (n && (*p == '-' || *p == '+'))
        p++;
    for (; p < end && *p != 'e' && *p != 'E'; p++) {
        if (*p == '.') {
            whole = false;
            continue;
        }
        if (n_digits == 19) /* 19 digits stay below 2^64 */
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
