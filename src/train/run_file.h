/* run_file.h -- RUN/run.json: how a run was started, so that --resume needs no option repeated, and
 * which encoder its texts went through (docs/user/FORMATS.md). */
#ifndef TRAIN_RUN_FILE_H
#define TRAIN_RUN_FILE_H

#include "data/text_space.h"

typedef struct RunFile { /* options as the user gave them; NULL or 0: not given */
    const char *device, *backend, *budget, *host_budget, *loader_memory, *allow, *given, *cache;
    const char *shard, *bucket;       /* of several ranks */
    int64_t     threads, check_ranks; /* check_ranks below 0: not given */
    double      patience;
    TextSpace   text; /* of the feed `text` */
} RunFile;

Err run_file_write(const char *run, const RunFile *file);
/* A run of an older version has no such file: all is NULL then. */
Err run_file_read(Pool *pool, const char *run, RunFile *file);
/* What embedded the texts that the run is trained on. */
Err run_text(Pool *pool, const char *run, TextSpace *text);
/* The folder with the run's decoded video and audio: the one it was started with, or RUN/cache. */
Err run_cache(Pool *pool, const char *run, const char **cache);

#endif
