/* http.h -- one HTTP request, as a browser sends it.
 *
 * Only what the page needs is read: a GET without a body, its target and its Host. Everything else
 * is refused with a status; nothing is guessed. */
#ifndef WATCH_HTTP_H
#define WATCH_HTTP_H

#include <stdbool.h>
#include <stddef.h>

enum { HTTP_HEAD_MAX = 8192, HTTP_FIELDS_MAX = 100 }; /* bytes of a request's head; its fields */

typedef struct HttpText { /* bytes of the request, not terminated */
    const char *at;
    size_t      n;
} HttpText;

typedef struct HttpRequest {
    HttpText path, query; /* of the target: before and after '?', as sent */
    HttpText host;        /* without the port */
} HttpRequest;

/* 0: the head is not whole yet; 200: read; otherwise the status to refuse it with. */
int http_parse(const char *bytes, size_t n, HttpRequest *request);

const char *http_reason(int status);
bool        http_is(HttpText span, const char *text);
/* The number after KEY= in a query; false: there is none, or it is not from 0 to `most`. */
bool        query_number(HttpText query, const char *key, long long most, long long *number);

#endif
