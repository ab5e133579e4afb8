/* caching_expand.c -- expandable segments: ranges of addresses to which pages are added.
 *
 * A range has 1 1/8 times the GPU's memory, so that pages can be taken from its middle and put at
 * its end. Pages are 2 MiB in the small pool and a large segment (20 MiB) in the large pool. A
 * block that is not mapped begins and ends at pages.
 */
#include "torchmem/caching_int.h"

enum { UNKNOWN_TOTAL_LOG2 = 40 }; /* bytes of a GPU of which the size is not known: 1 TiB */

static bool expand_is_free(const CachingBlock *b) { return b && b->state == BLOCK_FREE; }

/* Free and unmapped blocks from b on: do they offer the bytes? */
static bool expand_has_room(const CachingBlock *b, int64_t bytes)
{
    int64_t room = 0;
    for (; room < bytes && expand_is_free(b); b = b->next)
        room += b->bytes;
    return room >= bytes;
}

/* NULL: the request is larger than any range, and so than the GPU. */
static CachingBlock *expand_new_range(CachingAllocator *a, const CachingRequest *r)
{
    int64_t total = a->machine.total_bytes ? a->machine.total_bytes
                                           : (int64_t)1 << UNKNOWN_TOTAL_LOG2;
    int64_t page = r->pool->small ? CACHING_PAGE : a->conf.large_segment_bytes;
    int64_t bytes = (total + total / 8 + page - 1) / page * page;
    if (r->bytes > bytes)
        return NULL;
    CachingSegment *segment = caching_segment_new(a, caching_base(a, bytes), bytes, r->stream,
                                                  r->pool->small, page);
    CachingBlock   *block = caching_block_new(a, segment, segment->address, bytes);
    segment->first = block;
    block->mapped = false;
    block_set_add(a, &r->pool->unmapped, block);
    return block;
}

/* The lowest address at which the request fits if pages are added; a free block may precede them. */
static CachingBlock *expand_place(CachingAllocator *a, const CachingRequest *r)
{
    const BlockSet *unmapped = &r->pool->unmapped;
    for (int32_t i = block_set_from(unmapped, r->stream, 0);
         i < unmapped->n && unmapped->at[i]->segment->stream == r->stream; i++) {
        CachingBlock *b = unmapped->at[i];
        if (expand_is_free(b->prev))
            b = b->prev;
        if (expand_has_room(b, r->bytes))
            return b;
    }
    return expand_new_range(a, r);
}

/* Whole pages for at least `bytes` at the start of an unmapped block. */
static bool expand_map(CachingAllocator *a, CachingBlock *b, int64_t bytes)
{
    CachingSegment *segment = b->segment;
    CachingPool    *pool = caching_pool(a, segment->small);
    int64_t         page = segment->page_bytes, mapped = (bytes + page - 1) / page * page,
            address = b->address;
    if (!caching_driver_has(a, mapped))
        return false;
    block_set_remove(&pool->unmapped, b);
    b->mapped = true;
    if (mapped < b->bytes) {
        CachingBlock *rest = caching_block_new(a, segment, b->address + mapped, b->bytes - mapped);
        rest->mapped = false;
        caching_block_after(rest, b);
        block_set_add(a, &pool->unmapped, rest);
        b->bytes = mapped;
    }
    caching_merge(a, b, b->prev);
    caching_merge(a, b, b->next);
    caching_pool_add(a, pool, b);
    caching_count(a, STAT_RESERVED_BYTES, pool->small, mapped);
    a->stats.num_device_alloc++;
    caching_event(a, CACHING_SEGMENT_MAP, address, mapped, segment->stream);
    return true;
}

CachingBlock *caching_expand(CachingAllocator *a, const CachingRequest *r)
{
    CachingBlock *b = expand_place(a, r);
    if (!b)
        return NULL;
    int64_t first = b->bytes < r->bytes ? b->bytes : r->bytes;
    if (!b->mapped && !expand_map(a, b, first))
        return NULL;
    while (b->bytes < r->bytes) { /* free, then unmapped: the two become one */
        CachingBlock *next = b->next;
        int64_t       missing = r->bytes - b->bytes;
        if (!expand_map(a, next, missing < next->bytes ? missing : next->bytes))
            return NULL;
        b = next;
    }
    block_set_remove(&r->pool->blocks, b);
    return b;
}

static void unmap_rest(CachingAllocator *a, CachingPool *pool, CachingBlock *rest,
                       CachingBlock *prev)
{
    caching_block_after(rest, prev);
    caching_pool_add(a, pool, rest);
}

/* Returns the whole pages of a free block, and the range with its last page. */
void caching_unmap(CachingAllocator *a, CachingBlock *b)
{
    CachingSegment *segment = b->segment;
    CachingPool    *pool = caching_pool(a, segment->small);
    int64_t         page = segment->page_bytes, start = b->address - segment->address,
            end = start + b->bytes;
    int64_t from = (start + page - 1) / page * page, to = end / page * page;
    if (from >= to)
        return;
    block_set_remove(&pool->blocks, b);
    b->address = segment->address + from;
    b->bytes = to - from;
    b->mapped = false;
    if (from > start) {
        CachingBlock *before = caching_block_new(a, segment, segment->address + start,
                                                 from - start);
        CachingBlock *prev = b->prev;
        if (!prev)
            segment->first = before;
        before->prev = prev;
        before->next = b;
        if (prev)
            prev->next = before;
        b->prev = before;
        caching_pool_add(a, pool, before);
    }
    if (end > to)
        unmap_rest(a, pool, caching_block_new(a, segment, segment->address + to, end - to), b);
    caching_merge(a, b, b->prev);
    caching_merge(a, b, b->next);
    block_set_add(a, &pool->unmapped, b);
    caching_count(a, STAT_RESERVED_BYTES, pool->small, from - to);
    a->stats.num_device_free++;
    caching_event(a, CACHING_SEGMENT_UNMAP, segment->address + from, to - from, segment->stream);
    if (!b->prev && !b->next) {
        block_set_remove(&pool->unmapped, b);
        caching_block_unused(a, b);
        caching_segment_drop(a, segment);
    }
}
