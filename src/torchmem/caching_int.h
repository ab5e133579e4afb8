/* caching_int.h -- what the files of the caching allocator share. */
#ifndef TORCHMEM_CACHING_INT_H
#define TORCHMEM_CACHING_INT_H

#include "torchmem/caching_allocator.h"

typedef struct BlockSet { /* ordered by (stream, size, address), by (stream, size,
                            * segment, address) or by (stream, address) */
    CachingBlock **at;
    int32_t        n, cap;
    bool           by_address, oldest_first;
} BlockSet;

typedef struct CachingPool {
    BlockSet blocks, unmapped;
    bool     small;
    int64_t  n_searches; /* counted while collection is on: the ages of blocks */
} CachingPool;

struct CachingAllocator {
    Pool           *pool;
    AllocConf       conf;
    CachingMachine  machine;
    int64_t         top;       /* no segment ever lay above */
    int64_t         cap_bytes; /* of memory_fraction; INT64_MAX: none */
    CachingPool     small, large;
    CachingSegment *first, *last;
    CachingBlock   *unused; /* block records to be used again */
    CachingBlock  **pending;
    int32_t         n_pending, cap_pending;
    CachingEvent   *events;
    int32_t         n_events, cap_events;
    int32_t         n_segments, n_mapped; /* ever made; segment_alloc and segment_map events */
    CachingStats    stats;
};

typedef struct CachingRequest {
    CachingPool *pool;
    int64_t      bytes, segment_bytes, stream; /* rounded; what a segment would take */
} CachingRequest;

void    block_set_add(CachingAllocator *a, BlockSet *set, CachingBlock *block);
void    block_set_remove(BlockSet *set, CachingBlock *block);
int32_t block_set_from(const BlockSet *set, int64_t stream, int64_t bytes); /* first not below */

CachingPool    *caching_pool(CachingAllocator *a, bool small);
CachingBlock   *caching_block_new(CachingAllocator *a, CachingSegment *segment, int64_t address,
                                  int64_t bytes);
void            caching_block_unused(CachingAllocator *a, CachingBlock *block);
void            caching_block_after(CachingBlock *block, CachingBlock *prev); /* links it in */
void            caching_pool_add(CachingAllocator *a, CachingPool *pool, CachingBlock *block);
/* joins a free neighbour to dst; the bytes it brought, or 0 */
int64_t         caching_merge(CachingAllocator *a, CachingBlock *dst, CachingBlock *src);
CachingSegment *caching_segment_new(CachingAllocator *a, int64_t address, int64_t bytes,
                                    int64_t stream, bool small, int64_t page_bytes);
void            caching_segment_drop(CachingAllocator *a, CachingSegment *segment);
int64_t         caching_base(CachingAllocator *a, int64_t bytes); /* of a new segment */
bool            caching_driver_has(const CachingAllocator *a, int64_t bytes);
void caching_event(CachingAllocator *a, CachingAction action, int64_t address, int64_t bytes,
                   int64_t stream);
void caching_count(CachingAllocator *a, CachingStatId id, bool small, int64_t change);

/* caching_expand.c */
CachingBlock *caching_expand(CachingAllocator *a, const CachingRequest *r); /* NULL: no memory */
void          caching_unmap(CachingAllocator *a, CachingBlock *block);

#endif
