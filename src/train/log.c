/* log.c -- writes log.jsonl. Adding an entry allocates nothing. */
#include "train/log.h"

#include "base/clock.h"
#include "base/file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LOG_BUFFER = 1 << 18, LOG_LINE = 512 }; /* bytes; LOG_LINE is more than the longest */

static void log_close(void *arg)
{
    RunLog *log = arg;
    log_flush(log, false);
    close(log->fd);
}

/* Removes the lines after `step`, and an incomplete last line. */
static Err log_truncate(Pool *pool, const char *path, int64_t step)
{
    static const char begin[] = "{\"step\": ";
    char             *text;
    size_t            n, kept = 0;
    if (!file_exists(path))
        return OK;
    TRY(file_check_held(path));
    TRY(file_read(pool, path, &text, &n));
    for (char *end; (end = memchr(text + kept, '\n', n - kept)); kept = (size_t)(end - text) + 1)
        if (strncmp(text + kept, begin, sizeof begin - 1) ||
            strtoll(text + kept + sizeof begin - 1, NULL, 10) > step)
            break;
    return kept == n ? OK : file_write(path, text, kept);
}

Err log_open(Pool *pool, RunLog *log, const char *folder, int64_t step)
{
    *log = (RunLog){ .path = pool_print(pool, "%s/log.jsonl", folder) };
    if (step >= 0)
        TRY(log_truncate(pool, log->path, step));
    TRY(file_open_end(log->path, step < 0, &log->fd));
    log->buffer = pool_alloc(pool, LOG_BUFFER, 1);
    pool_at_free(pool, log_close, log);
    return OK;
}

Err log_flush(RunLog *log, bool durable)
{
    size_t done = 0;
    int    error = 0;
    if (!log->path)
        return OK;
    while (done < log->n && !error) {
        ssize_t sent = write(log->fd, log->buffer + done, log->n - done);
        if (sent > 0)
            done += (size_t)sent;
        else if (sent == 0 || errno != EINTR)
            error = sent == 0 ? EIO : errno;
    }
    memmove(log->buffer, log->buffer + done, log->n - done);
    log->n -= done;
    if (!error && durable && fsync(log->fd) && errno != EINVAL)
        error = errno;
    if (error)
        return file_fail("write", log->path, error);
    if (log->lost) {
        int64_t lost = log->lost;
        log->lost = 0;
        return fail(E_IO, "%s lacks %lld entries: it could not be written for too long", log->path,
                    (long long)lost);
    }
    return OK;
}

static int log_number(char *to, size_t room, const char *key, double number)
{
    /* JSON has no infinity and no NaN */
    return snprintf(to, room, isfinite(number) ? ", \"%s\": %.9g" : ", \"%s\": null", key, number);
}

static int log_time(char *to, size_t room)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return snprintf(to, room, ", \"time\": %lld.%03ld", (long long)now.tv_sec,
                    now.tv_nsec / 1000000);
}

void log_add(RunLog *log, const LogLine *line)
{
    char *at = log->buffer + log->n;
    if (LOG_BUFFER - log->n < LOG_LINE) {
        log_flush(log, false);
        at = log->buffer + log->n;
    }
    if (LOG_BUFFER - log->n < LOG_LINE) {
        log->lost++;
        return;
    }
    at += snprintf(at, LOG_LINE, "{\"step\": %lld", (long long)line->step);
    at += log_number(at, LOG_LINE / 8, "loss", line->loss);
    at += log_number(at, LOG_LINE / 8, "lr", line->lr);
    at += log_number(at, LOG_LINE / 8, "grad_norm", line->grad_norm);
    at += snprintf(at, LOG_LINE / 4, ", \"ms\": %.3f", line->ms);
    if (line->validation)
        at += log_number(at, LOG_LINE / 8, "val_loss", *line->validation);
    if (line->memory_bytes)
        at += snprintf(at, LOG_LINE / 8, ", \"memory_bytes\": %lld", (long long)line->memory_bytes);
    at += log_time(at, LOG_LINE / 8);
    *at++ = '}';
    *at++ = '\n';
    log->n = (size_t)(at - log->buffer);
    if (clock_now() - log->flushed < 1)
        return;
    log->flushed = clock_now(); /* so that the file can be followed; a save reports errors */
    log_flush(log, false);
}
