/* log.h -- RUN/log.jsonl: one line of JSON per step (docs/user/FORMATS.md).
 *
 * The log is flushed every second and before every checkpoint. A resumed run first removes the
 * entries after its checkpoint, because it repeats those steps. */
#ifndef TRAIN_LOG_H
#define TRAIN_LOG_H

#include "base/err.h"
#include "base/pool.h"

#include <stdio.h>

typedef struct RunLog {
    FILE       *to;              /* NULL: no log */
    const char *path;
    double      flushed;         /* time of the last flush */
} RunLog;

typedef struct LogLine {
    int64_t       step;
    double        loss, lr, grad_norm, ms;   /* written as null if not finite or not known */
    const double *validation;    /* NULL: none at this step */
} LogLine;

/* Closed with the pool. step: the last entry to keep; -1: starts a new log. */
Err log_open(Pool *pool, RunLog *log, const char *folder, int64_t step);
Err log_add(RunLog *log, const LogLine *line);
Err log_flush(const RunLog *log);

#endif
