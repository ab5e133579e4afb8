/* http.c -- requests that are read, requests that are refused, and how numbers are read. */
#include "test.h"

#include "watch/http.h"

#include <stdlib.h>

static int status(const char *text)
{
    HttpRequest r;
    return http_parse(text, strlen(text), &r);
}

static void good(void)
{
    static const char text[] = "GET /abc/log?run=3&from=120 HTTP/1.1\r\nHost:  localhost:80 \r\n"
                               "Accept: */*\r\nCookie: a=b; c=\"d\"\r\n\r\n";
    HttpRequest       r;
    long long         n = -1;
    CHECK_INT(http_parse(text, strlen(text), &r), 200);
    CHECK(http_is(r.path, "/abc/log"));
    CHECK(http_is(r.query, "run=3&from=120"));
    CHECK(http_is(r.host, "localhost"));
    CHECK(query_number(r.query, "from", 1000, &n));
    CHECK_INT(n, 120);
    CHECK(query_number(r.query, "run", 3, &n));
    CHECK_INT(n, 3);
    CHECK(!query_number(r.query, "run", 2, &n));
    CHECK(!query_number(r.query, "ru", 9, &n));
    CHECK_INT(status("GET / HTTP/1.0\nHost: a\n\n"), 200);
    CHECK_INT(status("GET / HTTP/1.1\r\nHost: [::1]:80\r\nContent-Length: 0\r\n\r\n"), 200);
    for (size_t k = 0; k < strlen(text); k++) {
        char *part = malloc(k + 1);
        memcpy(part, text, k);
        CHECK_INT(http_parse(part, k, &r), 0);
        free(part);
    }
}

static void refused(void)
{
    CHECK_INT(status("POST / HTTP/1.1\r\nHost: a\r\n\r\n"), 405);
    CHECK_INT(status("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n"), 405);
    CHECK_INT(status("GET / HTTP/2.0\r\nHost: a\r\n\r\n"), 505);
    CHECK_INT(status("GET / HTTP/1.1\r\n\r\n"), 400);                       /* no host */
    CHECK_INT(status("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), 400); /* two */
    CHECK_INT(status("GET / HTTP/1.1\r\nHost: a b\r\n\r\n"), 400);
    CHECK_INT(status("GET / HTTP/1.1\r\nHost : a\r\n\r\n"), 400); /* smuggling */
    CHECK_INT(status("GET / HTTP/1.1\r\nHost: a\r\n folded: b\r\n\r\n"), 400);
    CHECK_INT(status("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
    CHECK_INT(status("GET  / HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
    CHECK_INT(status("GET /\r\nHost: a\r\n\r\n"), 400);
    CHECK_INT(status("\x16\x03\x01\x02\n\n"), 400); /* TLS */
    CHECK_INT(status("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"), 413);
    CHECK_INT(status("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"), 413);
}

static void too_long(void)
{
    static char text[HTTP_HEAD_MAX + 1];
    HttpRequest r;
    memset(text, 'a', HTTP_HEAD_MAX);
    CHECK_INT(http_parse(text, HTTP_HEAD_MAX, &r), 414);
    memcpy(text, "GET / HTTP/1.1\r\n", 16);
    CHECK_INT(http_parse(text, HTTP_HEAD_MAX, &r), 431);
    size_t n = 16;
    while (n + 6 < HTTP_HEAD_MAX)
        n += (size_t)sprintf(text + n, "a: b\r\n");
    CHECK_INT(http_parse(text, n, &r), 431); /* fields */
}

int main(void)
{
    RUN(good);
    RUN(refused);
    RUN(too_long);
    return test_end();
}
