/* snapshot.h -- a recording of PyTorch's allocator: torch.cuda.memory._dump_snapshot("x.pickle").
 *
 * The file lists the segments at its end and the events before it, each with the frames that caused
 * it. What lay where before the first event follows from both: a block whose first event is a free,
 * and a block at the end that no event allocated, were there from the start.
 */
#ifndef TORCHMEM_SNAPSHOT_H
#define TORCHMEM_SNAPSHOT_H

#include "base/pickle.h"
#include "torchmem/caching_allocator.h"

typedef struct SnapBlock {
    int64_t       address, bytes, requested_bytes;
    CachingState  state;
    const Pickle *frames; /* innermost first; NULL: not recorded */
} SnapBlock;

typedef struct SnapSegment {
    int64_t    address, bytes, stream;
    bool       small, expandable; /* expandable: one range of mapped pages */
    SnapBlock *blocks;            /* by address; of a start: live ones only */
    int32_t    n_blocks;
} SnapSegment;

typedef struct SnapEvent {
    CachingEvent  what;
    const Pickle *frames;
} SnapEvent;

typedef struct MemSnapshot {
    int32_t      device;
    SnapSegment *segments; /* at the end */
    int32_t      n_segments;
    SnapEvent   *events;
    int32_t      n_events;
    AllocConf    conf;             /* of the recording */
    const char  *conf_text;        /* PYTORCH_CUDA_ALLOC_CONF, "" if it was not set */
    SnapSegment *private_segments; /* of CUDA graphs and MemPools: they are left out */
    int32_t      n_private;
    int64_t      private_bytes;
} MemSnapshot;

/* device < 0: the one with the most events. */
Err snapshot_read(Pool *pool, const char *path, int device, MemSnapshot *out);
/* Frames and texts stay in the pool; the bytes are not needed again. */
Err snapshot_parse(Pool *pool, const char *name, const void *bytes, size_t n, int device,
                   MemSnapshot *out);

typedef struct SnapStart { /* before the first event */
    SnapSegment *segments;
    int32_t      n_segments, cap_segments;
} SnapStart;

void snapshot_start(Pool *pool, const MemSnapshot *snap, SnapStart *out);

/* Are the pages of a segment_map or segment_unmap event those of a small pool? */
bool snapshot_small_pages(const MemSnapshot *snap, const CachingEvent *pages);

/* The program's line: the innermost frame of a Python file outside of torch, "file.py:12 name"; ""
 * if there is none. */
const char *snapshot_line(Pool *pool, const Pickle *frames);

#endif
