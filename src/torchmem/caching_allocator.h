/* caching_allocator.h -- a model of PyTorch's CUDA caching allocator (versions 2.6 to 2.13).
 *
 * It takes the requests that a program made and says which block of which segment each was given,
 * what was asked of the driver, and what torch.cuda.memory_stats would have counted. No memory is
 * touched: addresses are numbers.
 *
 *   CachingAllocator *a = caching_new(pool, &conf, &machine);
 *   CachingBlock *x = caching_alloc(a, 4096, 0);     NULL: out of memory
 *   caching_free(a, x);                              the program let go of it
 *   caching_free_done(a, x);                         its last use on other streams is over
 *
 * What always holds:
 *  1. The blocks of a segment tile it, in the order of addresses; two free neighbours are one block
 *     if both are mapped or both are not.
 *  2. A free block is in its pool's set, ordered by stream, size and address (oldest_first: stream,
 *     size, segment and address); the first that is large enough is taken. A request never takes a
 *     block of another stream or pool.
 *  3. Sizes and addresses within a segment are multiples of 512.
 *  4. Every change is an event, in PyTorch's order; segments are numbered by their creation.
 *
 * Addresses of new segments come from `bases` (a recording); without one each lies above all before.
 */
#ifndef TORCHMEM_CACHING_ALLOCATOR_H
#define TORCHMEM_CACHING_ALLOCATOR_H

#include <stdbool.h>

#include "base/pool.h"
#include "torchmem/alloc_conf.h"

typedef enum CachingAction {
    CACHING_ALLOC,
    CACHING_FREE_REQUESTED,
    CACHING_FREE_COMPLETED,
    CACHING_SEGMENT_ALLOC,
    CACHING_SEGMENT_FREE,
    CACHING_SEGMENT_MAP,
    CACHING_SEGMENT_UNMAP,
    CACHING_OOM,
    CACHING_SNAPSHOT,
    CACHING_ACTIONS
} CachingAction;
extern const char *const caching_action_names[CACHING_ACTIONS]; /* as in snapshots */

typedef struct CachingEvent {
    CachingAction action;
    int64_t       address; /* of an oom: what the device had free */
    int64_t       bytes, stream;
} CachingEvent;

typedef struct CachingMachine {
    int64_t        total_bytes;    /* of the GPU: what memory_fraction is a share of; 0: unknown */
    int64_t        capacity_bytes; /* that the driver gives to segments; 0: without limit */
    const int64_t *bases;          /* addresses of segment_alloc and segment_map events, or NULL */
    int32_t        n_bases;
    bool           oldest_first; /* PyTorch 2.13: of equal blocks the oldest segment's */
} CachingMachine;

typedef enum CachingState { BLOCK_FREE, BLOCK_ALLOCATED, BLOCK_PENDING } CachingState;

typedef struct CachingBlock   CachingBlock;
typedef struct CachingSegment CachingSegment;

struct CachingBlock {
    CachingSegment *segment;
    CachingBlock   *prev, *next; /* within the segment */
    int64_t         address, bytes, requested_bytes;
    int64_t         freed_at; /* count of searches when it became free */
    int64_t         tag;      /* the caller's */
    CachingState    state;    /* pending: free, but in use on another stream */
    bool            mapped;
};

struct CachingSegment {      /* one cudaMalloc, or one range of addresses that grows */
    int32_t         ordinal; /* in the order of creation */
    int64_t         address, bytes, stream;
    int64_t         page_bytes; /* of an expandable one; else 0 */
    bool            small;
    CachingBlock   *first;
    CachingSegment *before, *after; /* live segments, in the order of creation */
};

typedef struct CachingStat {
    int64_t current, peak;
} CachingStat;

/* clang-format off */
#define CACHING_STATS(X)                                                                           \
    X(ALLOCATION, "allocation") X(SEGMENT, "segment") X(ACTIVE, "active")                          \
    X(INACTIVE_SPLIT, "inactive_split") X(ALLOCATED_BYTES, "allocated_bytes")                      \
    X(RESERVED_BYTES, "reserved_bytes") X(ACTIVE_BYTES, "active_bytes")                            \
    X(INACTIVE_SPLIT_BYTES, "inactive_split_bytes") X(REQUESTED_BYTES, "requested_bytes")
/* clang-format on */

typedef enum CachingStatId {
#define X(name, text) STAT_##name,
    CACHING_STATS(X)
#undef X
        CACHING_STAT_COUNT
} CachingStatId;
extern const char *const caching_stat_names[CACHING_STAT_COUNT];

enum { STAT_ALL, STAT_SMALL_POOL, STAT_LARGE_POOL, STAT_POOLS };

typedef struct CachingStats { /* as torch.cuda.memory_stats: <stat>.<pool>.<current|peak> */
    CachingStat of[CACHING_STAT_COUNT][STAT_POOLS];
    int64_t     num_alloc_retries, num_ooms, num_device_alloc, num_device_free;
} CachingStats;

typedef struct CachingAllocator CachingAllocator;

CachingAllocator *caching_new(Pool *pool, const AllocConf *conf, const CachingMachine *machine);

CachingBlock *caching_alloc(CachingAllocator *a, int64_t bytes, int64_t stream); /* bytes > 0 */
void          caching_free(CachingAllocator *a, CachingBlock *block);
void          caching_free_done(CachingAllocator *a, CachingBlock *block);
void          caching_empty(CachingAllocator *a); /* torch.cuda.empty_cache() */
/* Would caching_alloc return cached memory to the driver first? */
bool          caching_would_release(CachingAllocator *a, int64_t bytes, int64_t stream);

/* State that was there before the first event, as a snapshot lists it: a segment (page_bytes > 0:
 * an expandable one), then its blocks by rising address. They cause no events; peaks start there.
 */
CachingSegment *caching_add_segment(CachingAllocator *a, int64_t address, int64_t bytes,
                                    int64_t stream, bool small, int64_t page_bytes);
CachingBlock   *caching_add_block(CachingAllocator *a, CachingSegment *segment, int64_t address,
                                  int64_t bytes, int64_t requested_bytes, CachingState state,
                                  bool mapped);

/* What it did since the last call. */
const CachingEvent *caching_events(CachingAllocator *a, int32_t *n);

const CachingStats   *caching_stats(const CachingAllocator *a);
const CachingSegment *caching_segments(const CachingAllocator *a); /* the oldest; NULL: none */
int64_t               caching_round(const AllocConf *conf, int64_t bytes); /* size of a request */
/* bytes that a segment for a rounded size takes, unless it is expandable */
int64_t               caching_segment_bytes(const AllocConf *conf, int64_t rounded_bytes);
Err caching_check(const CachingAllocator *a); /* the invariants 1 to 3 and the accounting */

enum { CACHING_MIN_BLOCK = 512, CACHING_SMALL = 1 << 20, CACHING_PAGE = 2 << 20 };

#endif
