/* events.h -- RUN/tensorboard: what TensorBoard shows of a run (docs/user/FORMATS.md).
 *
 * Scalars of every step, and the images and audio that were sampled, as event files: records
 * (records.h) of protocol buffers. As with the log, nothing is allocated after events_open, entries
 * wait in memory while the disk is full, and a resumed run first removes what comes after its
 * checkpoint. It then goes on in a new file, so that a TensorBoard that already reads the old one
 * goes on too. */
#ifndef TRAIN_EVENTS_H
#define TRAIN_EVENTS_H

#include "base/err.h"
#include "base/pool.h"

#include <stdbool.h>

typedef struct Events {
    int            fd;
    const char    *path;   /* NULL: no events are written */
    unsigned char *buffer; /* records that are not written yet */
    size_t         n;
    int64_t        lost;    /* records left out because the buffer was full */
    double         flushed; /* time of the last attempt to write */
} Events;

typedef struct Scalar {
    const char *tag;
    double      value;
} Scalar;

/* Closed with the pool. step: the last step whose scalars are kept; -1: starts anew. sampled: the
 * samples of that step are kept too. */
Err  events_open(Pool *pool, Events *events, const char *run, int64_t step, bool sampled);
/* n: at most 8; tags of at most 32 bytes */
void events_scalars(Events *events, int64_t step, const Scalar *scalars, int n);
/* A PNG or WAV file that was sampled, by its ending; any other file is left out. */
Err  events_sample(Events *events, int64_t step, const char *path);
Err  events_flush(Events *events, bool durable);

/* How many of an event file's bytes a run resumed at `step` keeps. *n_kept: events among them. */
size_t events_kept(const unsigned char *bytes, size_t n, int64_t step, bool sampled,
                   int64_t *n_kept);

#endif
