/* feeds.h -- host buffers of a graph's inputs, filled from a source or from a given file. */
#ifndef TRAIN_FEEDS_H
#define TRAIN_FEEDS_H

#include "base/safetensors.h"
#include "data/source.h"
#include "exec/session.h"

typedef struct FeedBuffer {
    const char *name;
    Type        type;
    Shape       shape;
    void       *bytes;
    const SafeTensor *given;     /* (steps, ...) */
} FeedBuffer;

typedef struct Feeds {
    FeedBuffer       *list;
    int32_t           n, cap;
    int64_t           bytes;     /* of all buffers */
    const DataSource *source;
    uint64_t          seed;
} Feeds;

/* One buffer per feed node of the part, given to the session for good. */
Err feeds_new(Pool *pool, Session *session, Part part, Feeds *feeds);
Err feeds_from_file(Pool *pool, Feeds *feeds, const char *path, int64_t *n_rows);
Err feeds_fill(Feeds *feeds, int64_t micro_batch, int64_t drawn);    /* micro_batch counts over the whole run */

#endif
