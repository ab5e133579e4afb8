/* yaml.c -- recipes: block structure by indentation, flow collections, scalars of YAML 1.2's core.
 *
 * The cursor is always on a line; yaml_next_line leaves it on the first byte of a line's content,
 * and a block node is known by the column it starts in: "- " takes two columns, so "- a: 1" holds a
 * mapping that starts two columns further right. Section numbers are those of the YAML 1.2.2
 * specification.
 */
#include "base/yaml.h"

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/json_int.h"

typedef struct YamlIn {
    JsonBuild   b;
    const char *at; /* b.end: no line is left */
    const char *line_start;
    uint32_t    line;
    int         depth;
} YamlIn;

static Err yaml_block(YamlIn *in, int column, Json *out);
static Err yaml_flow(YamlIn *in, Json *out);

#define YAML_FAIL(in, ...) json_build_fail(&(in)->b, (in)->at, __VA_ARGS__)

static bool yaml_at_end(const YamlIn *in) { return in->at == in->b.end; }

static bool yaml_is(const YamlIn *in, size_t ahead, char c)
{
    return (size_t)(in->b.end - in->at) > ahead && in->at[ahead] == c;
}

/* Nothing more on the line at this distance: its end, or the end of the text. */
static bool yaml_line_ends(const YamlIn *in, size_t ahead)
{
    return (size_t)(in->b.end - in->at) <= ahead || in->at[ahead] == '\n' ||
           (in->at[ahead] == '\r' && yaml_is(in, ahead + 1, '\n'));
}

static bool yaml_gap(const YamlIn *in, size_t ahead)
{
    return yaml_line_ends(in, ahead) || in->at[ahead] == ' ';
}

static int yaml_column(const YamlIn *in) { return (int)(in->at - in->line_start); }

/* Spaces, then perhaps a comment; tabs would look like spaces and mean something else elsewhere. */
static Err yaml_skip_spaces(YamlIn *in)
{
    bool gap = in->at == in->line_start || in->at[-1] == ' ';
    for (; yaml_is(in, 0, ' ') || yaml_is(in, 0, '\t'); in->at++, gap = true)
        if (*in->at == '\t')
            return YAML_FAIL(in, "a tab; write spaces instead");
    if (yaml_is(in, 0, '#') && gap)
        while (!yaml_line_ends(in, 0))
            in->at++;
    return OK;
}

static void yaml_newline(YamlIn *in)
{
    in->at += *in->at == '\r' ? 2 : 1;
    in->line_start = in->at;
    in->line++;
}

/* On to the next content: past this line's end, comments and blank lines. */
static Err yaml_next_content(YamlIn *in)
{
    TRY(yaml_skip_spaces(in));
    while (!yaml_at_end(in) && yaml_line_ends(in, 0)) {
        yaml_newline(in);
        TRY(yaml_skip_spaces(in));
    }
    return OK;
}

/* The same between the nodes of a block, where the line must be over and '---' would mean more. */
static Err yaml_next_line(YamlIn *in)
{
    TRY(yaml_skip_spaces(in));
    if (!yaml_line_ends(in, 0))
        return YAML_FAIL(in,
                         "unexpected '%.*s' after the value; write one value to a line, or "
                         "put the text in quotes",
                         json_utf8(in->at, in->b.end), in->at);
    TRY(yaml_next_content(in));
    if (in->at == in->line_start && in->b.end - in->at >= 3 && yaml_gap(in, 3) &&
        (!memcmp(in->at, "---", 3) || !memcmp(in->at, "...", 3)))
        return YAML_FAIL(in,
                         "'%.3s': a recipe is one document; put further ones into files of "
                         "their own",
                         in->at);
    return OK;
}

/* What YAML has and recipes do not, with what to write instead; OK if none of it is here. */
static Err yaml_no_extras(const YamlIn *in)
{
    static const struct {
        char        c;
        const char *say;
    } extras[] = {
        { '&', "anchors (&name) are not read; write the value where it is needed" },
        { '*', "aliases (*name) are not read; write the value itself, or quote a text that starts "
               "with '*'" },
        { '!', "tags (!name) are not read; leave the tag out, or quote a text that starts with "
               "'!'" },
        { '|', "block texts (|) are not read; write the text on one line in double quotes, with "
               "\\n" },
        { '>', "block texts (>) are not read; write the text on one line in double quotes" },
        { '%', "directives (%) are not read; leave the line out, or quote a text that starts with "
               "'%'" },
        { '@', "a text may not start with '@'; put it in quotes" },
        { '`', "a text may not start with '`'; put it in quotes" },
    };
    for (size_t i = 0; i < sizeof extras / sizeof *extras; i++)
        if (yaml_is(in, 0, extras[i].c))
            return YAML_FAIL(in, "%s", extras[i].say);
    if (yaml_is(in, 0, '?') && yaml_gap(in, 1))
        return YAML_FAIL(in, "complex keys (?) are not read; write 'key: value'");
    return OK;
}

static size_t yaml_digits(const char *p, const char *end, bool underscores)
{
    const char *start = p;
    while (p < end &&
           ((*p >= '0' && *p <= '9') || (underscores && *p == '_' && p > start && p[-1] != '_' &&
                                         p + 1 < end && p[1] >= '0' && p[1] <= '9')))
        p++;
    return (size_t)(p - start);
}

static bool yaml_one_of(const char *text, size_t n, const char *const *words)
{
    for (; *words; words++)
        if (strlen(*words) == n && !memcmp(*words, text, n))
            return true;
    return false;
}

/* [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?   (10.3.2), 1_000 besides. */
static bool yaml_is_number(const char *p, const char *end)
{
    if (p < end && (*p == '-' || *p == '+'))
        p++;
    size_t whole = yaml_digits(p, end, true);
    p += whole;
    if (p < end && *p == '.') {
        size_t part = yaml_digits(p + 1, end, false);
        if (whole + part == 0)
            return false;
        p += 1 + part;
    } else if (!whole) {
        return false;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < end && (*p == '-' || *p == '+'))
            p++;
        size_t digits = yaml_digits(p, end, false);
        if (!digits)
            return false;
        p += digits;
    }
    return p == end;
}

/* A plain scalar by the core schema (10.3.2), less 0x and 0o. */
static Err yaml_plain_value(YamlIn *in, const char *text, size_t n, Json *out)
{
    static const char *const nulls[] = { "null", "Null", "NULL", "~", "", NULL };
    static const char *const trues[] = { "true", "True", "TRUE", NULL };
    static const char *const falses[] = { "false", "False", "FALSE", NULL };
    static const char *const nans[] = { ".nan", ".NaN", ".NAN", NULL };
    static const char *const infinities[] = { ".inf", ".Inf", ".INF", NULL };
    size_t                   sign = n && (*text == '-' || *text == '+');
    if (yaml_one_of(text, n, nulls))
        return OK;
    if (yaml_one_of(text, n, trues) || yaml_one_of(text, n, falses)) {
        out->kind = JSON_BOOL;
        out->truth = *text == 't' || *text == 'T';
        return OK;
    }
    if (yaml_one_of(text, n, nans) || yaml_one_of(text + sign, n - sign, infinities)) {
        out->kind = JSON_NUMBER;
        out->number = yaml_one_of(text, n, nans) ? (double)NAN
                      : *text == '-'             ? -(double)INFINITY
                                                 : (double)INFINITY;
        return OK;
    }
    if (yaml_is_number(text, text + n)) {
        const char *underscore = memchr(text, '_', n);
        if (!underscore)
            return json_build_number(&in->b, text, text, n, out);
        char  *copy = NEWN(in->b.temp, char, n);
        size_t length = 0;
        for (size_t i = 0; i < n; i++)
            if (text[i] != '_')
                copy[length++] = text[i];
        return json_build_number(&in->b, text, copy, length, out);
    }
    out->kind = JSON_TEXT;
    out->text = json_build_text(&in->b, text, n);
    out->n = (uint32_t)n;
    return OK;
}

/* 'text' with '' for a quote (7.3.2), on one line. */
static Err yaml_single_quoted(YamlIn *in, bool is_key, const char **text, uint32_t *n)
{
    const char *open = in->at++, *from = in->at;
    bool        doubled = false;
    for (;; in->at++) {
        if (yaml_line_ends(in, 0))
            return json_build_fail(&in->b, open,
                                   "this text has no closing quote on its line; "
                                   "write ' inside it as ''");
        if (*in->at == '\'') {
            if (!yaml_is(in, 1, '\''))
                break;
            doubled = true;
            in->at++;
        }
    }
    size_t length = (size_t)(in->at++ - from);
    if (doubled) {
        char *copy = NEWN(in->b.temp, char, length), *to = copy;
        for (size_t i = 0; i < length; i++) {
            *to++ = from[i];
            i += from[i] == '\'';
        }
        from = copy;
        length = (size_t)(to - copy);
    }
    *text = is_key ? json_build_key(&in->b, from, length) : json_build_text(&in->b, from, length);
    *n = (uint32_t)length;
    return OK;
}

static Err yaml_quoted(YamlIn *in, bool is_key, const char **text, uint32_t *n)
{
    if (*in->at == '\'')
        return yaml_single_quoted(in, is_key, text, n);
    return json_build_quoted(&in->b, &in->at, is_key, text, n);
}

static bool yaml_at_quote(const YamlIn *in) { return yaml_is(in, 0, '"') || yaml_is(in, 0, '\''); }

/* A mark that stands for itself: a gap follows, or, inside a flow collection, one of its marks. */
static bool yaml_mark(const YamlIn *in, size_t ahead, char mark, bool flow)
{
    return yaml_is(in, ahead, mark) &&
           (yaml_gap(in, ahead + 1) || (flow && strchr(",[]{}", in->at[ahead + 1])));
}

/* Bytes of the plain scalar here: to ": ", " #", the end of the line, or a mark of flow (7.3.3). */
static Err yaml_plain_length(const YamlIn *in, bool flow, size_t *length)
{
    size_t n = 0, last = 0;
    for (; !yaml_line_ends(in, n) && !yaml_mark(in, n, ':', flow); n++) {
        char c = in->at[n];
        if (c == '\t')
            return json_build_fail(&in->b, in->at + n,
                                   "a tab; write spaces instead, or put the "
                                   "text in double quotes with \\t");
        if ((flow && strchr(",[]{}", c)) || (c == '#' && n > 0 && in->at[n - 1] == ' '))
            break;
        if (c != ' ')
            last = n + 1;
    }
    *length = last;
    return OK;
}

/* Marks that cannot begin a plain scalar. */
static Err yaml_plain_start(const YamlIn *in, bool flow)
{
    TRY(yaml_no_extras(in));
    if (strchr(",[]{}#", *in->at))
        return YAML_FAIL(in, "unexpected '%c'; put a text that starts with it in quotes", *in->at);
    if (yaml_mark(in, 0, '-', flow))
        return YAML_FAIL(in, "a list item may not stand here; start it on a line of its own, or "
                             "write [a, b]");
    if (yaml_mark(in, 0, ':', flow))
        return YAML_FAIL(in, "a key is missing before ':'");
    return OK;
}

/* A key and its ':'; whether there is one here was seen by yaml_has_key. */
static Err yaml_key(YamlIn *in, bool flow, const char **key)
{
    uint32_t n;
    if (yaml_at_quote(in)) {
        TRY(yaml_quoted(in, true, key, &n));
        TRY(yaml_skip_spaces(in));
    } else {
        size_t length;
        TRY(yaml_plain_start(in, flow));
        TRY(yaml_plain_length(in, flow, &length));
        if (length == 2 && !memcmp(in->at, "<<", 2))
            return YAML_FAIL(in, "merge keys (<<) are not read; write the keys out");
        *key = json_build_key(&in->b, in->at, length);
        in->at += length;
        TRY(yaml_skip_spaces(in));
    }
    return OK;
}

static Err yaml_deeper(YamlIn *in)
{
    if (++in->depth > JSON_MAX_DEPTH)
        return YAML_FAIL(in, "more than %d lists and mappings within each other", JSON_MAX_DEPTH);
    return OK;
}

/* One entry of {a: 1}; a quoted key may be followed by ':' without a space, as in JSON. */
static Err yaml_flow_entry(YamlIn *in)
{
    const char *key, *key_at = in->at;
    bool        quoted = yaml_at_quote(in);
    uint32_t    line = in->line;
    Json        value = { 0 };
    TRY(yaml_key(in, true, &key));
    if (!yaml_is(in, 0, ':') || !(quoted || yaml_mark(in, 0, ':', true)))
        return YAML_FAIL(in, "expected ': ' and a value after the key '%.100s'", key);
    in->at++;
    TRY(yaml_next_content(in));
    if (!yaml_is(in, 0, ',') && !yaml_is(in, 0, '}'))
        TRY(yaml_flow(in, &value));
    value.line = line & 0xFFFFFFF;
    json_build_push(&in->b, key, key_at, value);
    return OK;
}

static Err yaml_flow_collection(YamlIn *in, Json *out)
{
    const char *open = in->at;
    bool        map = *open == '{';
    char        close = map ? '}' : ']';
    uint32_t    first = in->b.n;
    out->kind = map ? JSON_OBJECT : JSON_ARRAY;
    TRY(yaml_deeper(in));
    in->at++;
    TRY(yaml_next_content(in));
    while (!yaml_is(in, 0, close)) {
        Json item;
        if (yaml_at_end(in))
            return json_build_fail(&in->b, open, "this '%c' is never closed by '%c'", *open, close);
        if (map) {
            TRY(yaml_flow_entry(in));
        } else {
            TRY(yaml_flow(in, &item));
            json_build_push(&in->b, NULL, NULL, item);
        }
        TRY(yaml_next_content(in));
        if (yaml_is(in, 0, ',')) {
            in->at++;
            TRY(yaml_next_content(in));
        } else if (yaml_is(in, 0, ':') && !map) {
            return YAML_FAIL(in, "'key: value' inside [ ]; write [{key: value}]");
        } else if (!yaml_is(in, 0, close) && !yaml_at_end(in)) {
            return YAML_FAIL(in, "expected ',' or '%c'", close);
        }
    }
    in->at++;
    in->depth--;
    return json_build_close(&in->b, first, out);
}

/* A scalar, quoted or plain, that ends on this line. */
static Err yaml_scalar(YamlIn *in, bool flow, Json *out)
{
    if (yaml_at_quote(in)) {
        uint32_t n;
        TRY(yaml_quoted(in, false, &out->text, &n));
        out->kind = JSON_TEXT;
        out->n = n;
        return OK;
    }
    size_t length;
    TRY(yaml_plain_start(in, flow));
    TRY(yaml_plain_length(in, flow, &length));
    TRY(yaml_plain_value(in, in->at, length, out));
    in->at += length;
    if (!flow && yaml_is(in, 0, ':'))
        return YAML_FAIL(in, "': ' inside a value; put the text in quotes, or start the mapping "
                             "on a line of its own");
    return OK;
}

static Err yaml_flow(YamlIn *in, Json *out)
{
    *out = (Json){ .line = in->line & 0xFFFFFFF };
    if (yaml_at_end(in))
        return YAML_FAIL(in, "expected a value, but the text ends here");
    return yaml_is(in, 0, '[') || yaml_is(in, 0, '{') ? yaml_flow_collection(in, out)
                                                      : yaml_scalar(in, true, out);
}

static bool yaml_at_item(const YamlIn *in) { return yaml_is(in, 0, '-') && yaml_gap(in, 1); }

/* Whether "key:" stands here. */
static Err yaml_has_key(YamlIn *in, bool *has)
{
    const char *start = in->at, *key;
    *has = false;
    if (yaml_is(in, 0, '[') || yaml_is(in, 0, '{'))
        return OK;
    if (yaml_at_quote(in)) {
        uint32_t n;
        TRY(yaml_quoted(in, true, &key, &n));
        TRY(yaml_skip_spaces(in));
        *has = yaml_mark(in, 0, ':', false);
    } else {
        size_t n;
        TRY(yaml_plain_length(in, false, &n));
        while (yaml_is(in, n, ' '))
            n++;
        *has = yaml_mark(in, n, ':', false);
    }
    in->at = start;
    return OK;
}

/* What follows "key:" or "-": on the same line, or deeper on the next ones, or nothing: null. */
static Err yaml_value_after(YamlIn *in, int parent, bool list_may_align, Json *out)
{
    uint32_t line = in->line;
    TRY(yaml_skip_spaces(in));
    if (!yaml_line_ends(in, 0)) {
        *out = (Json){ .line = in->line & 0xFFFFFFF };
        if (yaml_is(in, 0, '[') || yaml_is(in, 0, '{'))
            TRY(yaml_flow_collection(in, out));
        else
            TRY(yaml_scalar(in, false, out));
        return yaml_next_line(in);
    }
    TRY(yaml_next_line(in));
    int column = yaml_column(in);
    if (!yaml_at_end(in) &&
        (column > parent || (list_may_align && column == parent && yaml_at_item(in))))
        return yaml_block(in, column, out);
    *out = (Json){ .line = line & 0xFFFFFFF };
    return OK;
}

/* After one entry of a block at this column: is there another? Deeper lines belong to nothing. */
static Err yaml_more(const YamlIn *in, int column, bool *more)
{
    *more = !yaml_at_end(in) && yaml_column(in) == column;
    if (!yaml_at_end(in) && yaml_column(in) > column)
        return YAML_FAIL(in,
                         "this line is indented by %d, the lines it belongs to by %d; align "
                         "it, or put a text of several lines on one line in quotes",
                         yaml_column(in), column);
    return OK;
}

static Err yaml_mapping(YamlIn *in, int column, Json *out)
{
    uint32_t first = in->b.n;
    out->kind = JSON_OBJECT;
    for (bool more = true; more;) {
        const char *key, *key_at = in->at;
        uint32_t    line = in->line;
        bool        has;
        Json        value;
        TRY(yaml_no_extras(in));
        if (yaml_at_item(in))
            return YAML_FAIL(in, "a list item where a key is expected; indent it below its key, or "
                                 "write 'key: value'");
        TRY(yaml_has_key(in, &has));
        if (!has)
            return YAML_FAIL(in, "expected 'key: value', with a space after the colon");
        TRY(yaml_key(in, false, &key));
        in->at++;
        TRY(yaml_value_after(in, column, true, &value));
        value.line = line & 0xFFFFFFF;
        json_build_push(&in->b, key, key_at, value);
        TRY(yaml_more(in, column, &more));
    }
    return json_build_close(&in->b, first, out);
}

static Err yaml_sequence(YamlIn *in, int column, Json *out)
{
    uint32_t first = in->b.n;
    out->kind = JSON_ARRAY;
    for (bool more = true; more;) {
        Json item;
        bool has = false;
        in->at++;
        TRY(yaml_skip_spaces(in));
        if (!yaml_line_ends(in, 0) && !yaml_at_item(in))
            TRY(yaml_has_key(in, &has));
        if (has || yaml_at_item(in)) /* "- key: value", "- - item": a block on this line */
            TRY(yaml_block(in, yaml_column(in), &item));
        else
            TRY(yaml_value_after(in, column, false, &item));
        json_build_push(&in->b, NULL, NULL, item);
        TRY(yaml_more(in, column, &more));
        more = more && yaml_at_item(in); /* a key in this column is of the mapping around */
    }
    return json_build_close(&in->b, first, out);
}

/* The node that starts here, in this column; leaves the cursor on the first line after it. */
static Err yaml_block(YamlIn *in, int column, Json *out)
{
    bool has;
    *out = (Json){ .line = in->line & 0xFFFFFFF };
    TRY(yaml_deeper(in));
    if (yaml_at_item(in)) {
        TRY(yaml_sequence(in, column, out));
    } else {
        TRY(yaml_no_extras(in));
        TRY(yaml_has_key(in, &has));
        if (has)
            TRY(yaml_mapping(in, column, out));
        else
            TRY(yaml_value_after(in, column, false, out));
    }
    in->depth--;
    return OK;
}

/* The whole text is UTF-8 without controls, so that the parser need not look again. */
static Err yaml_check_bytes(YamlIn *in)
{
    if (in->b.end - in->at >= 3 && !memcmp(in->at, "\xEF\xBB\xBF", 3))
        return YAML_FAIL(in, "the text starts with a byte order mark; save it as UTF-8 without "
                             "one");
    const char *start = in->at;
    while (!yaml_at_end(in)) {
        unsigned char c = (unsigned char)*in->at;
        int           n = json_utf8(in->at, in->b.end);
        if (n == 0)
            return YAML_FAIL(in, "byte 0x%02X is not valid UTF-8; save the file as UTF-8", c);
        bool line_end = c == '\n' || (c == '\r' && yaml_is(in, 1, '\n'));
        if ((c < 0x20 && c != '\t' && !line_end) || c == 0x7F)
            return YAML_FAIL(in, "control character 0x%02X; remove it", c);
        in->at += n;
    }
    in->at = start;
    return OK;
}

static Err yaml_document(YamlIn *in, const Json **out)
{
    Json root = { .line = 1 };
    TRY(yaml_check_bytes(in));
    TRY(yaml_next_content(in));
    if (in->at == in->line_start && in->b.end - in->at >= 3 && !memcmp(in->at, "---", 3) &&
        yaml_gap(in, 3)) {
        in->at += 3;
        TRY(yaml_skip_spaces(in));
        if (!yaml_line_ends(in, 0))
            return YAML_FAIL(in, "write '---' alone on its line");
        TRY(yaml_next_line(in));
    }
    if (!yaml_at_end(in))
        TRY(yaml_block(in, yaml_column(in), &root));
    if (!yaml_at_end(in))
        return YAML_FAIL(in, "this line belongs to nothing above it; align it with the first key "
                             "or item");
    *out = json_build_root(&in->b, root);
    return OK;
}

Err yaml_parse(Pool *pool, const char *name, const char *bytes, size_t n, const Json **out)
{
    if (n > INT32_MAX)
        return fail(E_FORMAT, "%s: %zu bytes are too many for a recipe", name, n);
    YamlIn in = { .at = bytes, .line_start = bytes, .line = 1 };
    Pool  *temp = pool_new(NULL, "yaml workspace");
    json_build_init(&in.b, pool, temp, name, E_USAGE, bytes, n);
    Err err = yaml_document(&in, out);
    pool_free(temp);
    return err;
}

Err yaml_read(Pool *pool, const char *path, const Json **out)
{
    Pool  *temp = pool_new(NULL, "yaml text");
    char  *bytes;
    size_t n;
    Err    err = file_read(temp, path, &bytes, &n);
    if (!err)
        err = yaml_parse(pool, path, bytes, n, out);
    pool_free(temp);
    return err;
}
