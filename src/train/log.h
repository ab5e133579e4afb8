/* log.h -- RUN/log.jsonl: one line of JSON per step (docs/user/FORMATS.md).
 *
 * The log is written every second, and made durable with every checkpoint. If the disk is full, the
 * entries wait in memory for the next attempt; once there is no room for more, the newest are left
 * out and counted. A resumed run first removes the entries after its checkpoint, because it repeats
 * those steps. */
#ifndef TRAIN_LOG_H
#define TRAIN_LOG_H

#include "base/err.h"
#include "base/pool.h"

#include <stdbool.h>

typedef struct RunLog {
    int         fd;
    const char *path;   /* NULL: no log */
    char       *buffer; /* entries that are not written yet */
    size_t      n;
    int64_t     lost;    /* entries left out because the buffer was full */
    double      flushed; /* time of the last attempt to write */
} RunLog;

typedef struct LogLine {
    int64_t       step;
    double        loss, lr, grad_norm, ms; /* written as null if not finite or not known */
    const double *validation;              /* NULL: none at this step */
    int64_t       memory_bytes;            /* highest use of the arena so far; 0: as before */
} LogLine;

/* Closed with the pool. step: the last entry to keep; -1: starts a new log. */
Err  log_open(Pool *pool, RunLog *log, const char *folder, int64_t step);
void log_add(RunLog *log, const LogLine *line);
/* E_IO: the entries are kept, and the next call tries again. durable: they survive a power cut. */
Err  log_flush(RunLog *log, bool durable);

#endif
