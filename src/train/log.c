/* log.c -- writes log.jsonl. Adding an entry allocates nothing. */
#include "train/log.h"

#include "base/clock.h"
#include "base/file.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LOG_BUFFER = 1 << 16 };

static void log_close(void *to)
{
    fclose(to);
}

/* Removes the lines after `step`, and an incomplete last line. */
static Err log_truncate(Pool *pool, const char *path, int64_t step)
{
    static const char begin[] = "{\"step\": ";
    char  *text;
    size_t n, kept = 0;
    if (!file_exists(path))
        return OK;
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
    log->to = fopen(log->path, step >= 0 ? "a" : "w");
    if (!log->to)
        return file_fail("write", log->path, errno);
    setvbuf(log->to, pool_alloc(pool, LOG_BUFFER, 1), _IOFBF, LOG_BUFFER);
    pool_at_free(pool, log_close, log->to);
    return OK;
}

Err log_flush(const RunLog *log)
{
    errno = 0;
    if (!log->to || (fflush(log->to) == 0 && !ferror(log->to)))
        return OK;
    return file_fail("write", log->path, errno ? errno : EIO);
}

static void log_number(FILE *to, const char *key, double number)
{
    /* JSON has no infinity and no NaN */
    fprintf(to, isfinite(number) ? ", \"%s\": %.9g" : ", \"%s\": null", key, number);
}

Err log_add(RunLog *log, const LogLine *line)
{
    fprintf(log->to, "{\"step\": %lld", (long long)line->step);
    log_number(log->to, "loss", line->loss);
    log_number(log->to, "lr", line->lr);
    log_number(log->to, "grad_norm", line->grad_norm);
    fprintf(log->to, ", \"ms\": %.3f", line->ms);
    if (line->validation)
        log_number(log->to, "val_loss", *line->validation);
    fputs("}\n", log->to);
    if (clock_now() - log->flushed < 1)
        return OK;
    log->flushed = clock_now();                      /* so that the file can be followed */
    return log_flush(log);
}
