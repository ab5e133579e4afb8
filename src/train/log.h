/* log.h -- RUN/log.jsonl: one line of JSON a step (docs/FORMATS.md).
 *
 * It reaches its file every second, and whenever a checkpoint is saved. A run that goes on first
 * cuts off what a killed one logged after its last checkpoint: those steps are done again. */
#ifndef TRAIN_LOG_H
#define TRAIN_LOG_H

#include "base/err.h"
#include "base/pool.h"

#include <stdio.h>

typedef struct RunLog {
    FILE       *to;              /* NULL: there is none */
    const char *path;
    double      flushed;         /* when it last reached its file */
} RunLog;

typedef struct LogLine {
    int64_t       step;
    double        loss, lr, grad_norm, ms;   /* what is not finite, or not known, becomes null */
    const double *validation;    /* NULL: there was none */
} LogLine;

/* Closed with the pool. step: the last one that stays; -1: the log begins anew. */
Err log_open(Pool *pool, RunLog *log, const char *folder, int64_t step);
Err log_add(RunLog *log, const LogLine *line);
Err log_flush(const RunLog *log);

#endif
