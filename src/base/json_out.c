/* json_out.c -- the writer: commas, indentation, escapes, shortest numbers. */
#include "base/json_out.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_int.h"

enum { OPEN_OBJECT = 1, OPEN_FILLED = 2 }; /* bits of JsonOut.open */

static void json_put_text(void *to, const char *bytes, size_t n) { text_addn(to, bytes, n); }

static void json_put_stream(void *to, const char *bytes, size_t n) { fwrite(bytes, 1, n, to); }

static void json_put_file(void *to, const char *bytes, size_t n) { file_out_add(to, bytes, n); }

void json_out_text(JsonOut *o, Text *to, JsonStyle style)
{
    *o = (JsonOut){ .put = json_put_text, .to = to, .pretty = style == JSON_PRETTY };
}

void json_out_stream(JsonOut *o, FILE *to, JsonStyle style)
{
    *o = (JsonOut){ .put = json_put_stream, .to = to, .pretty = style == JSON_PRETTY };
}

void json_out_file(JsonOut *o, FileOut *to, JsonStyle style)
{
    *o = (JsonOut){ .put = json_put_file, .to = to, .pretty = style == JSON_PRETTY };
}

static void json_puts(JsonOut *o, const char *text) { o->put(o->to, text, strlen(text)); }

static void json_line(JsonOut *o)
{
    static const char spaces[] = "\n                                ";
    int               left = 2 * o->depth, n = left < 32 ? left : 32;
    o->put(o->to, spaces, 1 + (size_t)n);
    for (left -= n; left > 0; left -= n) {
        n = left < 32 ? left : 32;
        o->put(o->to, spaces + 1, (size_t)n);
    }
}

static void json_quote(JsonOut *o, const char *p, size_t n)
{
    const char *end = p + n, *from = p;
    json_puts(o, "\"");
    while (p < end) {
        unsigned char c = (unsigned char)*p;
        if (c >= 0x20 && c < 0x80 && c != '"' && c != '\\') {
            p++;
            continue;
        }
        int wide = c >= 0x80 ? json_utf8(p, end) : 0;
        if (wide) {
            p += wide;
            continue;
        }
        char              room[8];
        static const char names[] = "\"\\bfnrt", values[] = "\"\\\b\f\n\r\t";
        const char       *name = c ? strchr(values, c) : NULL;
        o->put(o->to, from, (size_t)(p - from));
        if (name)
            snprintf(room, sizeof room, "\\%c", names[name - values]);
        else if (c >= 0x80)
            snprintf(room, sizeof room, "\xEF\xBF\xBD");
        else
            snprintf(room, sizeof room, "\\u%04x", c);
        json_puts(o, room);
        from = ++p;
    }
    o->put(o->to, from, (size_t)(p - from));
    json_puts(o, "\"");
}

/* What stands before every value: comma, new line, key. */
static void json_before(JsonOut *o, const char *key)
{
    REQUIRE(!o->done);
    if (o->depth == 0) {
        REQUIRE(!key);
        o->done = true; /* one value to a text; json_out_object reopens it */
        return;
    }
    unsigned char *open = &o->open[o->depth - 1];
    REQUIRE(!key == !(*open & OPEN_OBJECT));
    if (*open & OPEN_FILLED)
        json_puts(o, o->pretty && o->row ? ", " : ",");
    *open |= OPEN_FILLED;
    if (o->pretty && !o->row)
        json_line(o);
    if (key) {
        json_quote(o, key, strlen(key));
        json_puts(o, o->pretty ? ": " : ":");
    }
}

static void json_open(JsonOut *o, const char *key, unsigned char kind, bool row)
{
    json_before(o, key);
    REQUIRE(o->depth < JSON_MAX_DEPTH);
    o->done = false;
    o->open[o->depth++] = kind;
    if (row && !o->row)
        o->row = o->depth;
    json_puts(o, kind & OPEN_OBJECT ? "{" : "[");
}

void json_out_object(JsonOut *o, const char *key) { json_open(o, key, OPEN_OBJECT, false); }

void json_out_array(JsonOut *o, const char *key) { json_open(o, key, 0, false); }

void json_out_row(JsonOut *o, const char *key) { json_open(o, key, 0, true); }

void json_out_object_row(JsonOut *o, const char *key) { json_open(o, key, OPEN_OBJECT, true); }

void json_out_end(JsonOut *o)
{
    REQUIRE(o->depth > 0);
    unsigned char open = o->open[--o->depth];
    if (o->pretty && !o->row && (open & OPEN_FILLED))
        json_line(o);
    if (o->row == o->depth + 1)
        o->row = 0;
    json_puts(o, open & OPEN_OBJECT ? "}" : "]");
    o->done = o->depth == 0;
}

void json_out_null(JsonOut *o, const char *key)
{
    json_before(o, key);
    json_puts(o, "null");
}

void json_out_bool(JsonOut *o, const char *key, bool value)
{
    json_before(o, key);
    json_puts(o, value ? "true" : "false");
}

void json_out_int(JsonOut *o, const char *key, int64_t value)
{
    char room[24];
    snprintf(room, sizeof room, "%lld", (long long)value);
    json_before(o, key);
    json_puts(o, room);
}

int json_number_text(char *room, double value)
{
    if (isnan(value))
        return snprintf(room, 32, "\"NaN\"");
    if (isinf(value))
        return snprintf(room, 32, value < 0 ? "\"-Infinity\"" : "\"Infinity\"");
    int n = 0;
    for (int digits = 15; digits <= 17; digits++) {
        n = snprintf(room, 32, "%.*g", digits, value);
        if (strtod(room, NULL) == value)
            break;
    }
    if (!strpbrk(room, ".e"))
        n += snprintf(room + n, (size_t)(32 - n), ".0");
    return n;
}

void json_out_number(JsonOut *o, const char *key, double value)
{
    char room[32];
    int  n = json_number_text(room, value);
    json_before(o, key);
    o->put(o->to, room, (size_t)n);
}

static void json_out_stringn(JsonOut *o, const char *key, const char *value, size_t n)
{
    json_before(o, key);
    json_quote(o, value, n);
}

void json_out_string(JsonOut *o, const char *key, const char *value)
{
    if (value)
        json_out_stringn(o, key, value, strlen(value));
    else
        json_out_null(o, key);
}

void json_out_value(JsonOut *o, const char *key, const Json *value)
{
    switch ((JsonKind)value->kind) {
    case JSON_NULL: json_out_null(o, key); break;
    case JSON_BOOL: json_out_bool(o, key, value->truth); break;
    case JSON_INT: json_out_int(o, key, value->integer); break;
    case JSON_NUMBER: json_out_number(o, key, value->number); break;
    case JSON_TEXT: json_out_stringn(o, key, value->text, value->n); break;
    case JSON_ARRAY:
        json_out_array(o, key);
        for (uint32_t i = 0; i < value->n; i++)
            json_out_value(o, NULL, &value->items[i]);
        json_out_end(o);
        break;
    case JSON_OBJECT:
        json_out_object(o, key);
        for (uint32_t i = 0; i < value->n; i++)
            json_out_value(o, value->members[i].key, &value->members[i].value);
        json_out_end(o);
        break;
    }
}

Err json_out_done(JsonOut *o)
{
    REQUIRE(o->done && o->depth == 0);
    if (o->pretty)
        json_puts(o, "\n");
    if (o->put == json_put_stream) {
        errno = 0;
        if (fflush(o->to) != 0 || ferror((FILE *)o->to))
            return fail(E_IO, "cannot write the JSON output: %s",
                        errno ? strerror(errno) : "an earlier write failed");
    }
    return OK; /* a FileOut says so itself, in file_out_done */
}
