/* http.c -- parses the head of a request (RFC 9112), strictly. */
#include "watch/http.h"

#include <string.h>
#include <strings.h>

bool http_is(HttpText span, const char *text)
{
    return span.n == strlen(text) && !memcmp(span.at, text, span.n);
}

static bool is_token(char c) /* of a method or of a field's name */
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

/* The line at *at without its end; moves behind it. False: it does not end. */
static bool line_next(const char *bytes, size_t n, size_t *at, HttpText *line)
{
    const char *end = memchr(bytes + *at, '\n', n - *at);
    if (!end)
        return false;
    *line = (HttpText){ bytes + *at, (size_t)(end - (bytes + *at)) };
    *at += line->n + 1;
    if (line->n && line->at[line->n - 1] == '\r')
        line->n--;
    return true;
}

/* GET /path?query HTTP/1.1 */
static int parse_target(HttpText line, HttpRequest *r)
{
    const char *space = memchr(line.at, ' ', line.n),
               *last = space ? memrchr(line.at, ' ', line.n) : NULL;
    if (!space || space == last)
        return 400;
    HttpText method = { line.at, (size_t)(space - line.at) },
             target = { space + 1, (size_t)(last - space - 1) },
             version = { last + 1, line.n - (size_t)(last + 1 - line.at) };
    for (size_t i = 0; i < method.n; i++)
        if (!is_token(method.at[i]))
            return 400;
    if (version.n != 8 || memcmp(version.at, "HTTP/1.", 7) ||
        (version.at[7] != '0' && version.at[7] != '1'))
        return version.n >= 5 && !memcmp(version.at, "HTTP/", 5) ? 505 : 400;
    if (!method.n || !target.n || *target.at != '/')
        return 400;
    for (size_t i = 0; i < target.n; i++)
        if (target.at[i] <= ' ' || target.at[i] == 127)
            return 400;
    const char *mark = memchr(target.at, '?', target.n);
    r->path = (HttpText){ target.at, mark ? (size_t)(mark - target.at) : target.n };
    r->query = mark ? (HttpText){ mark + 1, target.n - r->path.n - 1 } : (HttpText){ target.at, 0 };
    return http_is(method, "GET") ? 200 : 405;
}

/* host:port; [::1]:port */
static int parse_host(HttpText value, HttpRequest *r)
{
    size_t n = value.n && *value.at == '[' ? 0 : value.n;
    for (size_t i = 0; i < value.n; i++) {
        char c = value.at[i];
        if (!is_token(c) && !strchr("[]:", c))
            return 400;
        if (c == ']')
            n = i + 1;
    }
    const char *colon = memchr(value.at + (*value.at == '[' ? n : 0), ':',
                               value.n - (*value.at == '[' ? n : 0));
    if (r->host.at || !n)
        return 400; /* twice, or without an end */
    if (*value.at != '[' && colon)
        n = (size_t)(colon - value.at);
    r->host = (HttpText){ value.at, n };
    return 200;
}

static int parse_field(HttpText line, HttpRequest *r)
{
    const char *colon = memchr(line.at, ':', line.n);
    if (!colon || colon == line.at)
        return 400;
    HttpText name = { line.at, (size_t)(colon - line.at) },
             value = { colon + 1, line.n - name.n - 1 };
    for (size_t i = 0; i < name.n; i++)
        if (!is_token(name.at[i]))
            return 400;
    while (value.n && strchr(" \t", *value.at) && *value.at)
        value.at++, value.n--;
    while (value.n && (value.at[value.n - 1] == ' ' || value.at[value.n - 1] == '\t'))
        value.n--;
    for (size_t i = 0; i < value.n; i++)
        if ((unsigned char)value.at[i] < ' ' && value.at[i] != '\t')
            return 400;
    if (name.n == 4 && !strncasecmp(name.at, "host", 4))
        return value.n ? parse_host(value, r) : 400;
    if ((name.n == 14 && !strncasecmp(name.at, "content-length", 14) && !http_is(value, "0")) ||
        (name.n == 17 && !strncasecmp(name.at, "transfer-encoding", 17)))
        return 413;
    return 200;
}

int http_parse(const char *bytes, size_t n, HttpRequest *r)
{
    size_t   at = 0;
    HttpText line;
    *r = (HttpRequest){ 0 };
    if (!line_next(bytes, n, &at, &line))
        return n >= HTTP_HEAD_MAX ? 414 : 0;
    int status = parse_target(line, r);
    if (status != 200)
        return status;
    for (int fields = 0;; fields++) {
        if (!line_next(bytes, n, &at, &line))
            return n >= HTTP_HEAD_MAX ? 431 : 0;
        if (!line.n)
            return r->host.at ? 200 : 400;
        status = fields < HTTP_FIELDS_MAX ? parse_field(line, r) : 431;
        if (status != 200)
            return status;
    }
}

const char *http_reason(int status)
{
    static const struct {
        int         status;
        const char *reason;
    } all[] = { { 200, "OK" },
                { 400, "Bad Request" },
                { 403, "Forbidden" },
                { 404, "Not Found" },
                { 405, "Method Not Allowed" },
                { 413, "Content Too Large" },
                { 414, "URI Too Long" },
                { 431, "Request Header Fields Too Large" },
                { 505, "HTTP Version Not Supported" } };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].status == status)
            return all[i].reason;
    return "Internal Server Error";
}

bool query_number(HttpText query, const char *key, long long most, long long *number)
{
    size_t      n_key = strlen(key);
    const char *at = query.at, *end = query.at + query.n;
    for (; at < end; at++) {
        const char *next = memchr(at, '&', (size_t)(end - at));
        next = next ? next : end;
        if ((size_t)(next - at) > n_key && !memcmp(at, key, n_key) && at[n_key] == '=') {
            *number = 0;
            for (at += n_key + 1; at < next && *at >= '0' && *at <= '9' && *number <= most; at++)
                *number = 10 * *number + (*at - '0');
            return at == next && at[-1] != '=' && *number <= most;
        }
        at = next;
    }
    return false;
}
