/* response.c -- makes answers. */
#include "watch/response.h"

#include "report/page_bytes.h"
#include "watch/watch_bytes.h"

#include <string.h>
#include <unistd.h>

enum { MAX_LOG = 4 << 20, FILE_CHUNK = 1 << 16 };
static const int64_t MAX_FILE = (int64_t)1 << 30;

/* The page may show and fetch what is here, and nothing else. */
static const char security[] =
    "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n"
    "Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n"
    "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; script-src "
    "'unsafe-inline'; img-src 'self' data:; media-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'\r\nConnection: close\r\n";

static void response_head(Response *a, int status, const char *type, int64_t n, const char *more)
{
    text_add(&a->text, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %lld\r\n%s%s\r\n",
             status, http_reason(status), type, (long long)n, more, security);
}

static void response_status(Response *a, int status)
{
    const char *reason = http_reason(status);
    response_head(a, status, "text/plain; charset=utf-8", (int64_t)strlen(reason) + 1,
                  status == 405 ? "Allow: GET\r\n" : "");
    text_add(&a->text, "%s\n", reason);
}

static void response_body(Response *a, const char *type, const Text *body, const char *more)
{
    response_head(a, 200, type, (int64_t)body->n, more);
    text_addn(&a->text, body->at ? body->at : "", body->n);
}

/* The page with {{css}} and {{js}} filled in. */
static void response_page(Response *a)
{
    Text        body = { .pool = a->pool };
    const char *at = (const char *)watch_html, *end = at + watch_html_n;
    while (at < end) {
        const char *mark = memmem(at, (size_t)(end - at), "{{", 2);
        text_addn(&body, at, (size_t)((mark ? mark : end) - at));
        if (!mark)
            break;
        if (!strncmp(mark, "{{css}}", 7)) {
            text_addn(&body, (const char *)page_css, page_css_n);
            text_addn(&body, (const char *)watch_css, watch_css_n);
        } else {
            text_addn(&body, (const char *)watch_js, watch_js_n);
        }
        at = (const char *)memmem(mark, (size_t)(end - mark), "}}", 2) + 2;
    }
    response_body(a, "text/html; charset=utf-8", &body, "");
}

static void response_log(Response *a, const RunView *run, HttpText query)
{
    long long from = 0;
    LogPart   part;
    Text      body = { .pool = a->pool };
    query_number(query, "from", (long long)1 << 52, &from);
    run_log(&body, run, from, MAX_LOG, &part);
    response_body(a, "text/plain; charset=utf-8", &body,
                  pool_print(a->pool, "X-Log: %lld %lld %lld\r\n", part.id, part.from, part.end));
}

/* I/samples/... */
static void response_file(Response *a, Runs *runs, HttpText path)
{
    long long   run = 0;
    size_t      n = 0;
    const char *type = run_file_type(path.at, path.n);
    for (; n < path.n && path.at[n] >= '0' && path.at[n] <= '9' && run < runs->n; n++)
        run = 10 * run + (path.at[n] - '0');
    if (!n || n >= path.n || path.at[n] != '/' || run >= runs->n || !type) {
        response_status(a, 404);
        return;
    }
    a->fd = run_file_open(&runs->list[run], path.at + n + 1, path.n - n - 1, &a->left);
    if (a->fd < 0 || a->left > MAX_FILE)
        response_status(a, 404);
    else
        response_head(a, 200, type, a->left, "");
    if (a->left > MAX_FILE)
        a->left = 0;
}

/* The path behind /TOKEN. False: it has another token. Every digit is compared, so that the time it
 * takes says nothing. */
static bool token_path(HttpText *path, const char *token)
{
    size_t n = strlen(token);
    int    differs = 0;
    if (path->n < n + 2 || path->at[n + 1] != '/')
        return false;
    for (size_t i = 0; i < n; i++)
        differs |= path->at[i + 1] ^ token[i];
    *path = (HttpText){ path->at + n + 1, path->n - n - 1 };
    return !differs;
}

static void response_path(Response *a, Runs *runs, HttpText path, HttpText query)
{
    static const char file[] = "/file/";
    long long         run = 0;
    Text              body = { .pool = a->pool };
    bool              known = query_number(query, "run", WATCH_RUNS - 1, &run) && run < runs->n;
    if (http_is(path, "/")) {
        response_page(a);
    } else if (http_is(path, "/runs.json")) {
        runs_json(&body, runs);
        response_body(a, "application/json", &body, "");
    } else if (http_is(path, "/log") && known) {
        response_log(a, &runs->list[run], query);
    } else if (http_is(path, "/samples.json") && known) {
        run_samples_json(&body, &runs->list[run]);
        response_body(a, "application/json", &body, "");
    } else if (path.n > sizeof file && !memcmp(path.at, file, sizeof file - 1)) {
        response_file(a, runs, (HttpText){ path.at + sizeof file - 1, path.n - (sizeof file - 1) });
    } else {
        response_status(a, 404);
    }
}

void response_make(Response *a, Runs *runs, const char *token, int status, const HttpRequest *r)
{
    HttpText path = r->path;
    *a = (Response){ .pool = pool_new(NULL, "answer"), .fd = -1 };
    a->text.pool = a->pool;
    if (status != 200)
        response_status(a, status);
    else if (!http_is(r->host, "127.0.0.1") && !http_is(r->host, "localhost"))
        response_status(a, 403);
    else if (!token_path(&path, token))
        response_status(a, 404);
    else
        response_path(a, runs, path, r->query);
}

bool response_more(Response *a)
{
    if (a->fd < 0 || !a->left)
        return false;
    Pool   *pool = pool_new(NULL, "answer"); /* the chunk before is gone */
    char   *bytes = pool_alloc(pool, FILE_CHUNK, 1);
    ssize_t got = read(a->fd, bytes, a->left < FILE_CHUNK ? (size_t)a->left : FILE_CHUNK);
    pool_free(a->pool);
    a->pool = pool;
    a->text = (Text){ .pool = pool };
    a->left = got > 0 ? a->left - got : 0; /* a file that shrinks ends early: the browser sees it */
    text_addn(&a->text, bytes, got > 0 ? (size_t)got : 0);
    return got > 0;
}

void response_free(Response *a)
{
    if (a->fd >= 0)
        close(a->fd);
    pool_free(a->pool);
}
