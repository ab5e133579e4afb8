/* http.c -- fuzz target: what is read from a request lies within it, and more bytes never change an
 * answer that was given. The input is used as a request, and after a good first line. */
#include "base/err.h"
#include "watch/http.h"

#include <stdlib.h>
#include <string.h>

static void within(HttpText s, const char *bytes, size_t n)
{
    REQUIRE(s.at >= bytes && s.at <= bytes + n && s.n <= (size_t)(bytes + n - s.at));
}

static void fuzz_request(const char *bytes, size_t n)
{
    HttpRequest r, part;
    long long   number;
    int         whole = http_parse(bytes, n, &r);
    if (whole == 200) {
        within(r.path, bytes, n);
        within(r.query, bytes, n);
        within(r.host, bytes, n);
        REQUIRE(*r.path.at == '/' && r.host.n);
        if (query_number(r.query, "run", 63, &number))
            REQUIRE(number >= 0 && number <= 63);
    }
    for (size_t k = 0; k < n; k++) {
        char *copy = malloc(k + 1); /* reading behind it is noticed */
        memcpy(copy, bytes, k);
        int early = http_parse(copy, k, &part);
        REQUIRE(early == 0 || early == whole);
        free(copy);
        if (early)
            break;
    }
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    static const char line[] = "GET /0123/log?run=1&from=2 HTTP/1.1\r\nHost: localhost:8080\r\n";
    char             *copy = malloc(sizeof line + n);
    fuzz_request((const char *)bytes, n);
    memcpy(copy, line, sizeof line - 1);
    if (n)
        memcpy(copy + sizeof line - 1, bytes, n);
    fuzz_request(copy, sizeof line - 1 + n);
    free(copy);
    return 0;
}
