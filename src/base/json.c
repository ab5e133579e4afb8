/* json.c -- the parser: JSON (RFC 8259), strictly, by recursive descent. */
#include "base/json.h"

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/json_int.h"

typedef struct JsonIn {
    JsonBuild   b;
    const char *at;
    uint32_t    line;
    int         flags, depth;
} JsonIn;

static Err json_value(JsonIn *in, Json *out);

static void json_skip(JsonIn *in)
{
    const char *p = in->at, *end = in->b.end;
    for (; p < end; p++) {
        if (*p == '\n')
            in->line++;
        else if (*p != ' ' && *p != '\r' && *p != '\t')
            break;
    }
    in->at = p;
}

static bool json_next_is(const JsonIn *in, char c) { return in->at < in->b.end && *in->at == c; }

/* "expected a value, found 'x'", and what people mean by the commonest finds. */
static Err json_unexpected(const JsonIn *in, const char *expected)
{
    const char *p = in->at;
    if (p == in->b.end)
        return json_build_fail(&in->b, p, "expected %s, but the text ends here", expected);
    int n = json_utf8(p, in->b.end);
    if ((unsigned char)*p < 0x20 || n == 0)
        return json_build_fail(&in->b, p, "expected %s, found the byte 0x%02X", expected,
                               (unsigned char)*p);
    const char *hint = *p == '\''               ? "; write texts in double quotes"
                       : *p == '/' || *p == '#' ? "; JSON has no comments"
                       : *p == '}' || *p == ']' ? "; is there a comma too many before it?"
                                                : "";
    return json_build_fail(&in->b, p, "expected %s, found '%.*s'%s", expected, n, p, hint);
}

static Err json_word(JsonIn *in, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(in->b.end - in->at) < n || memcmp(in->at, word, n) != 0)
        return json_unexpected(in, "a value");
    in->at += n;
    return OK;
}

static Err json_not_finite(JsonIn *in, const char *word, double value, Json *out)
{
    const char *at = in->at;
    TRY(json_word(in, word));
    if (!(in->flags & JSON_ALLOW_NAN))
        return json_build_fail(&in->b, at, "%s is not a JSON number; write a finite number or null",
                               word);
    out->kind = JSON_NUMBER;
    out->number = value;
    return OK;
}

static Err json_number(JsonIn *in, Json *out)
{
    const char *start = in->at, *p = start, *end = in->b.end;
#define DIGIT(p) ((p) < end && *(p) >= '0' && *(p) <= '9')
    if (*p == '-')
        p++;
    if (p < end && *p == 'I')
        return json_not_finite(in, "-Infinity", -(double)INFINITY, out);
    if (!DIGIT(p))
        return json_build_fail(&in->b, start, "a number needs a digit after '-'");
    const char *whole = p;
    while (DIGIT(p))
        p++;
    if (*whole == '0' && p - whole > 1)
        return json_build_fail(&in->b, start, "a number may not start with 0");
    if (p < end && *p == '.') {
        if (!DIGIT(p + 1))
            return json_build_fail(&in->b, start, "a number needs a digit after '.'");
        for (p++; DIGIT(p);)
            p++;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < end && (*p == '-' || *p == '+'))
            p++;
        if (!DIGIT(p))
            return json_build_fail(&in->b, start, "a number needs a digit in its exponent");
        while (DIGIT(p))
            p++;
    }
#undef DIGIT
    in->at = p;
    return json_build_number(&in->b, start, start, (size_t)(p - start), out);
}

static Err json_array(JsonIn *in, Json *out)
{
    uint32_t first = in->b.n;
    in->at++;
    json_skip(in);
    while (!json_next_is(in, ']')) {
        Json item;
        TRY(json_value(in, &item));
        json_build_push(&in->b, NULL, NULL, item);
        json_skip(in);
        if (json_next_is(in, ',')) {
            in->at++;
            json_skip(in);
            if (json_next_is(in, ']'))
                return json_unexpected(in, "a value after ','");
        } else if (!json_next_is(in, ']')) {
            return json_unexpected(in, "',' or ']'");
        }
    }
    in->at++;
    return json_build_close(&in->b, first, out);
}

static Err json_object(JsonIn *in, Json *out)
{
    uint32_t first = in->b.n, n;
    in->at++;
    json_skip(in);
    while (!json_next_is(in, '}')) {
        const char *key, *key_at = in->at;
        uint32_t    line = in->line;
        Json        value;
        if (!json_next_is(in, '"'))
            return json_unexpected(in, "a key in double quotes");
        TRY(json_build_quoted(&in->b, &in->at, true, &key, &n));
        json_skip(in);
        if (!json_next_is(in, ':'))
            return json_unexpected(in, "':' after the key");
        in->at++;
        json_skip(in);
        TRY(json_value(in, &value));
        value.line = line & 0xFFFFFFF;
        json_build_push(&in->b, key, key_at, value);
        json_skip(in);
        if (json_next_is(in, ',')) {
            in->at++;
            json_skip(in);
            if (json_next_is(in, '}'))
                return json_unexpected(in, "a key after ','");
        } else if (!json_next_is(in, '}')) {
            return json_unexpected(in, "',' or '}'");
        }
    }
    in->at++;
    return json_build_close(&in->b, first, out);
}

static Err json_value(JsonIn *in, Json *out)
{
    *out = (Json){ .line = in->line & 0xFFFFFFF };
    if (in->at == in->b.end)
        return json_unexpected(in, "a value");
    switch (*in->at) {
    case '{':
    case '[': {
        bool object = *in->at == '{';
        if (in->depth == JSON_MAX_DEPTH)
            return json_build_fail(&in->b, in->at,
                                   "more than %d arrays and objects within each "
                                   "other",
                                   JSON_MAX_DEPTH);
        out->kind = object ? JSON_OBJECT : JSON_ARRAY;
        in->depth++;
        TRY(object ? json_object(in, out) : json_array(in, out));
        in->depth--;
        return OK;
    }
    case '"': {
        uint32_t n;
        TRY(json_build_quoted(&in->b, &in->at, false, &out->text, &n));
        out->kind = JSON_TEXT;
        out->n = n;
        return OK;
    }
    case 't':
        out->kind = JSON_BOOL;
        out->truth = true;
        return json_word(in, "true");
    case 'f': out->kind = JSON_BOOL; return json_word(in, "false");
    case 'n': return json_word(in, "null");
    case 'N': return json_not_finite(in, "NaN", (double)NAN, out);
    case 'I': return json_not_finite(in, "Infinity", (double)INFINITY, out);
    case '-':
    case '0':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7':
    case '8':
    case '9': return json_number(in, out);
    default: return json_unexpected(in, "a value");
    }
}

static Err json_document(JsonIn *in, const Json **out)
{
    Json root;
    if (in->b.end - in->at >= 3 && !memcmp(in->at, "\xEF\xBB\xBF", 3))
        return json_build_fail(&in->b, in->at,
                               "the text starts with a byte order mark; save it as "
                               "UTF-8 without one");
    json_skip(in);
    TRY(json_value(in, &root));
    json_skip(in);
    if (in->at < in->b.end)
        return json_unexpected(in, "the end after the value");
    *out = json_build_root(&in->b, root);
    return OK;
}

Err json_parse(Pool *pool, const char *name, const char *bytes, size_t n, int flags,
               const Json **out)
{
    if (n > UINT32_MAX)
        return fail(E_FORMAT, "%s: %zu bytes are more than 4 GiB, the limit for JSON", name, n);
    JsonIn in = { .at = bytes, .line = 1, .flags = flags };
    Pool  *temp = pool_new(NULL, "json workspace");
    json_build_init(&in.b, pool, temp, name, E_FORMAT, bytes, n);
    Err err = json_document(&in, out);
    pool_free(temp);
    return err;
}

Err json_read(Pool *pool, const char *path, int flags, const Json **out)
{
    Pool  *temp = pool_new(NULL, "json text");
    char  *bytes;
    size_t n;
    Err    err = file_read(temp, path, &bytes, &n);
    if (!err)
        err = json_parse(pool, path, bytes, n, flags, out);
    pool_free(temp);
    return err;
}
