/* replay.h -- the requests of a recording under other settings of the allocator.
 *
 * Each request and each free of the recording is given to a new allocator, in order. Under the
 * settings of the recording its events must be the recorded ones: that is the check of the model,
 * and it is always made. What was there before the first event stays where it was.
 *
 *  1. An empty_cache() of the program is repeated under every setting. A release by the allocator
 *     itself, before a request that did not fit, is left to the model.
 *  2. Without a known memory size no request fails.
 */
#ifndef TORCHMEM_REPLAY_H
#define TORCHMEM_REPLAY_H

#include "torchmem/snapshot.h"

enum { REPLAY_GAPS = 10, REPLAY_LINES = 20, REPLAY_POINTS = 400 };

typedef struct ReplayGap { /* free bytes inside of a segment, at the peak of reserved memory */
    int32_t segment;
    int64_t segment_bytes, segment_free_bytes, largest_bytes, offset; /* of the largest gap */
    int64_t stream;
    int32_t n_gaps;
    bool    small, expandable;
} ReplayGap;

typedef struct ReplayLine { /* live at the peak of allocated memory */
    const char *line;       /* of the program; "" if the recording has none */
    int64_t     bytes, largest_bytes;
    int32_t     n;
} ReplayLine;

typedef struct ReplayDifference { /* the first event that is not as recorded */
    int32_t      n_events, n_equal;
    bool         equal, ends_equal; /* all events; all blocks of all segments at the end */
    CachingEvent recorded, ours;
    const char  *end_text; /* the first block at the end that differs; "" if none does */
} ReplayDifference;

typedef struct ReplayRun {
    const char  *name; /* the text of the settings */
    AllocConf    conf;
    CachingStats stats;
    int32_t      reserved_peak_event, allocated_peak_event; /* -1: before the first */
    int32_t      oom_event; /* a request that was recorded as served and fails here; -1: none */
    int64_t      oom_bytes;
    int32_t      n_recorded_ooms, n_avoided_ooms; /* recorded failures that are served here */
    int64_t      unused_bytes; /* reserved, but not allocated, at the peak of reserved memory */
    ReplayGap    gaps[REPLAY_GAPS]; /* segments with the most free bytes then */
    int32_t      n_gaps;
    ReplayLine   lines[REPLAY_LINES]; /* what was live at the allocated peak, most bytes first */
    int32_t      n_lines, n_live;
    int64_t      reserved_line[REPLAY_POINTS]; /* over the events, the most of each part */
    int64_t      allocated_line[REPLAY_POINTS];
} ReplayRun;

typedef struct ReplayAll {
    const MemSnapshot *snap;
    SnapStart          start;
    int64_t            start_bytes;    /* reserved before the first event */
    int64_t            capacity_bytes; /* that segments could have; 0: unknown */
    bool               capacity_from_oom;
    bool               oldest_first; /* as CachingMachine has it; the recording's events tell */
    int64_t            total_bytes;
    ReplayDifference   check;
    ReplayRun         *runs; /* [0]: the settings of the recording */
    int32_t            n_runs;
} ReplayAll;

typedef struct ReplayOptions {
    int64_t            total_bytes;    /* memory of the GPU; 0: unknown */
    int64_t            capacity_bytes; /* that segments could have; 0: from an oom, or no limit */
    const char        *recorded;       /* settings of the recording, in place of the file's; NULL */
    const char *const *confs;          /* to be tried */
    int                n_confs;
} ReplayOptions;

Err replay_all(Pool *pool, MemSnapshot *snap, const ReplayOptions *how, ReplayAll *out);

#endif
