/* response.h -- what is answered to one request: the page, JSON, a part of a log, or a sampled file.
 *
 *   TOKEN/                     the page
 *   TOKEN/runs.json            the runs, with their plans
 *   TOKEN/log?run=I&from=N     lines of log.jsonl from byte N on; X-Log: its id, N and the end
 *   TOKEN/samples.json?run=I   folders and files of samples
 *   TOKEN/file/I/samples/...   one of these files */
#ifndef WATCH_RESPONSE_H
#define WATCH_RESPONSE_H

#include "watch/http.h"
#include "watch/runs.h"

typedef struct Response {
    Pool   *pool;
    Text    text; /* what is to be sent; response_more gives the next chunk of a file */
    int     fd;   /* of a file, or -1 */
    int64_t left; /* of the file */
} Response;

/* status: of http_parse. */
void response_make(Response *answer, Runs *runs, const char *token, int status,
                   const HttpRequest *request);
bool response_more(Response *answer); /* false: all was given */
void response_free(Response *answer);

#endif
