/* caching_allocator.c -- requests, blocks and segments; see the header for what holds.
 *
 * The functions follow c10/cuda/CUDACachingAllocator.cpp in order and effect, because equal events
 * in equal order are the claim. Private pools (CUDA graphs, MemPool) are not modelled.
 */
#include "torchmem/caching_int.h"

#include <string.h>

#define MIN_LARGE ((int64_t)10 << 20) /* from here on a request gets a segment of its own size */

const char *const caching_action_names[CACHING_ACTIONS] = { "alloc",          "free_requested",
                                                            "free_completed", "segment_alloc",
                                                            "segment_free",   "segment_map",
                                                            "segment_unmap",  "oom",
                                                            "snapshot" };

const char *const caching_stat_names[CACHING_STAT_COUNT] = {
#define X(name, text) text,
    CACHING_STATS(X)
#undef X
};

/* ---- sets ---- */

typedef struct SetKey {
    int64_t stream, bytes, address;
    int32_t segment; /* its ordinal */
} SetKey;

static SetKey set_key(const CachingBlock *b)
{
    return (SetKey){ b->segment->stream, b->bytes, b->address, b->segment->ordinal };
}

static int set_order(const BlockSet *set, const CachingBlock *b, SetKey key)
{
    /* streams are pointers in PyTorch, and compared as such */
    uint64_t s = (uint64_t)b->segment->stream, t = (uint64_t)key.stream;
    if (s != t)
        return s < t ? -1 : 1;
    if (!set->by_address && b->bytes != key.bytes)
        return b->bytes < key.bytes ? -1 : 1;
    if (set->oldest_first && b->segment->ordinal != key.segment)
        return b->segment->ordinal < key.segment ? -1 : 1;
    return b->address < key.address ? -1 : b->address > key.address;
}

static int32_t set_find(const BlockSet *set, SetKey key)
{
    int32_t low = 0, high = set->n;
    while (low < high) {
        int32_t mid = low + (high - low) / 2;
        if (set_order(set, set->at[mid], key) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

int32_t block_set_from(const BlockSet *set, int64_t stream, int64_t bytes)
{
    return set_find(set, (SetKey){ stream, bytes, INT64_MIN, -1 });
}

void block_set_add(CachingAllocator *a, BlockSet *set, CachingBlock *block)
{
    int32_t i = set_find(set, set_key(block));
    VEC_ADD(a->pool, set->at, set->n, set->cap, block);
    memmove(set->at + i + 1, set->at + i, (size_t)(set->n - 1 - i) * sizeof *set->at);
    set->at[i] = block;
}

void block_set_remove(BlockSet *set, CachingBlock *block)
{
    int32_t i = set_find(set, set_key(block));
    REQUIRE(i < set->n && set->at[i] == block);
    memmove(set->at + i, set->at + i + 1, (size_t)(set->n - 1 - i) * sizeof *set->at);
    set->n--;
}

/* ---- records ---- */

CachingPool *caching_pool(CachingAllocator *a, bool small) { return small ? &a->small : &a->large; }

void caching_event(CachingAllocator *a, CachingAction action, int64_t address, int64_t bytes,
                   int64_t stream)
{
    CachingEvent event = { action, address, bytes, stream };
    VEC_ADD(a->pool, a->events, a->n_events, a->cap_events, event);
    if (action == CACHING_SEGMENT_ALLOC || action == CACHING_SEGMENT_MAP)
        a->n_mapped++;
}

void caching_count(CachingAllocator *a, CachingStatId id, bool small, int64_t change)
{
    int which[2] = { STAT_ALL, small ? STAT_SMALL_POOL : STAT_LARGE_POOL };
    for (int i = 0; i < 2; i++) {
        CachingStat *stat = &a->stats.of[id][which[i]];
        stat->current += change;
        if (stat->current > stat->peak)
            stat->peak = stat->current;
    }
}

CachingBlock *caching_block_new(CachingAllocator *a, CachingSegment *segment, int64_t address,
                                int64_t bytes)
{
    CachingBlock *block = a->unused;
    if (block)
        a->unused = block->next;
    else
        block = NEW(a->pool, CachingBlock);
    *block = (CachingBlock){
        .segment = segment, .address = address, .bytes = bytes, .mapped = true, .tag = -1
    };
    return block;
}

void caching_block_unused(CachingAllocator *a, CachingBlock *block)
{
    block->next = a->unused;
    a->unused = block;
}

void caching_block_after(CachingBlock *block, CachingBlock *prev)
{
    block->prev = prev;
    block->next = prev->next;
    if (prev->next)
        prev->next->prev = block;
    prev->next = block;
}

void caching_pool_add(CachingAllocator *a, CachingPool *pool, CachingBlock *block)
{
    block->freed_at = pool->n_searches;
    block_set_add(a, &pool->blocks, block);
}

CachingSegment *caching_segment_new(CachingAllocator *a, int64_t address, int64_t bytes,
                                    int64_t stream, bool small, int64_t page_bytes)
{
    CachingSegment *segment = NEW(a->pool, CachingSegment);
    *segment = (CachingSegment){ .ordinal = a->n_segments++,
                                 .address = address,
                                 .bytes = bytes,
                                 .stream = stream,
                                 .page_bytes = page_bytes,
                                 .small = small,
                                 .before = a->last };
    *(a->last ? &a->last->after : &a->first) = segment;
    a->last = segment;
    if (address + bytes > a->top)
        a->top = address + bytes;
    return segment;
}

void caching_segment_drop(CachingAllocator *a, CachingSegment *segment)
{
    *(segment->before ? &segment->before->after : &a->first) = segment->after;
    *(segment->after ? &segment->after->before : &a->last) = segment->before;
}

static bool base_is_free(const CachingAllocator *a, int64_t from, int64_t bytes)
{
    for (const CachingSegment *s = a->first; s; s = s->after)
        if (s->address < from + bytes && from < s->address + s->bytes)
            return false;
    return true;
}

/* The recording's next address, or else one above all others. */
int64_t caching_base(CachingAllocator *a, int64_t bytes)
{
    if (a->n_mapped < a->machine.n_bases && base_is_free(a, a->machine.bases[a->n_mapped], bytes))
        return a->machine.bases[a->n_mapped];
    return (a->top + CACHING_PAGE) / CACHING_PAGE * CACHING_PAGE;
}

bool caching_driver_has(const CachingAllocator *a, int64_t bytes)
{
    int64_t reserved = a->stats.of[STAT_RESERVED_BYTES][STAT_ALL].current;
    return !a->machine.capacity_bytes || reserved + bytes <= a->machine.capacity_bytes;
}

/* ---- sizes ---- */

static int size_log2(int64_t bytes) { return 63 - __builtin_clzll((unsigned long long)bytes); }

int64_t caching_round(const AllocConf *conf, int64_t bytes)
{
    if (bytes < CACHING_MIN_BLOCK)
        return CACHING_MIN_BLOCK;
    int     log = size_log2(bytes), interval = log < 20 ? 0 : log - 20;
    int64_t divisions =
        conf->roundup_divisions[interval < CONF_INTERVALS ? interval : CONF_INTERVALS - 1];
    if (divisions > 1 && bytes > CACHING_MIN_BLOCK * divisions) {
        int64_t floor = (int64_t)1 << log, step = floor >> size_log2(divisions);
        return bytes == floor ? bytes : (bytes + step - 1) / step * step;
    }
    return (bytes + CACHING_MIN_BLOCK - 1) / CACHING_MIN_BLOCK * CACHING_MIN_BLOCK;
}

int64_t caching_segment_bytes(const AllocConf *conf, int64_t rounded_bytes)
{
    if (rounded_bytes <= CACHING_SMALL)
        return CACHING_PAGE;
    if (rounded_bytes < MIN_LARGE)
        return conf->large_segment_bytes;
    return (rounded_bytes + CACHING_PAGE - 1) / CACHING_PAGE * CACHING_PAGE;
}

static CachingRequest request_of(CachingAllocator *a, int64_t bytes, int64_t stream)
{
    int64_t rounded = caching_round(&a->conf, bytes);
    return (CachingRequest){ .pool = caching_pool(a, rounded <= CACHING_SMALL),
                             .bytes = rounded,
                             .segment_bytes = caching_segment_bytes(&a->conf, rounded),
                             .stream = stream };
}

/* ---- releasing ---- */

static bool block_is_split(const CachingBlock *b) { return b->prev || b->next; }

static void release_block(CachingAllocator *a, CachingPool *pool, CachingBlock *block)
{
    CachingSegment *segment = block->segment;
    a->stats.num_device_free++;
    caching_event(a, CACHING_SEGMENT_FREE, block->address, block->bytes, segment->stream);
    caching_count(a, STAT_SEGMENT, pool->small, -1);
    caching_count(a, STAT_RESERVED_BYTES, pool->small, -block->bytes);
    block_set_remove(&pool->blocks, block);
    caching_segment_drop(a, segment);
    caching_block_unused(a, block);
}

/* Whole segments first; then the pages of expandable ones, as unmapping changes the set. */
static void release_pool(CachingAllocator *a, CachingPool *pool)
{
    CachingBlock **expandable = NULL;
    int32_t        n = 0, cap = 0;
    Pool          *temp = pool_new(a->pool, "release");
    for (int32_t i = 0; i < pool->blocks.n;) {
        CachingBlock *block = pool->blocks.at[i];
        if (!block->segment->page_bytes && !block_is_split(block)) {
            release_block(a, pool, block);
            continue;
        }
        if (block->segment->page_bytes)
            VEC_ADD(temp, expandable, n, cap, block);
        i++;
    }
    for (int32_t i = 0; i < n; i++)
        caching_unmap(a, expandable[i]);
    pool_free(temp);
}

/* With max_split_size: one cached block of the stream that is large enough, or the largest ones. */
static bool release_oversize(CachingAllocator *a, const CachingRequest *r)
{
    BlockSet *set = &r->pool->blocks;
    int64_t   max_split = a->conf.max_split_bytes, wanted = r->bytes, released = 0;
    if (max_split == INT64_MAX)
        return false;
    if (wanted < max_split)
        wanted = max_split;
    int32_t i = block_set_from(set, r->stream, wanted);
    if (i < set->n && set->at[i]->segment->stream == r->stream &&
        !set->at[i]->segment->page_bytes) {
        release_block(a, r->pool, set->at[i]);
        return true;
    }
    while (i-- > 0 && released < wanted) {
        CachingBlock *block = set->at[i];
        if (block->bytes < max_split || block->segment->stream != r->stream)
            break;
        if (block->segment->page_bytes)
            continue;
        released += block->bytes;
        release_block(a, r->pool, block);
    }
    return released >= wanted;
}

/* Frees segments of the large pool that were not used for longer than the average, until enough is
 * reclaimed. */
static void collect_garbage(CachingAllocator *a)
{
    BlockSet *set = &a->large.blocks;
    int64_t   reserved = a->stats.of[STAT_RESERVED_BYTES][STAT_ALL].current,
            threshold = (int64_t)(a->conf.gc_threshold * (double)a->cap_bytes), reclaimed = 0,
            total_age = 0, n = 0;
    bool freed = true;
    if (reserved <= threshold)
        return;
    for (int32_t i = 0; i < set->n; i++)
        if (!block_is_split(set->at[i])) {
            total_age += a->large.n_searches - set->at[i]->freed_at;
            n++;
        }
    while (reclaimed < reserved - threshold && freed && n > 0) {
        double average = (double)total_age / (double)n;
        freed = false;
        for (int32_t i = 0; i < set->n;) {
            CachingBlock *block = set->at[i];
            int64_t       age = a->large.n_searches - block->freed_at;
            if (block_is_split(block) || block->segment->page_bytes || (double)age < average) {
                i++;
                continue;
            }
            freed = true;
            reclaimed += block->bytes;
            total_age -= age;
            n--;
            release_block(a, &a->large, block);
        }
    }
}

/* ---- freeing ---- */

int64_t caching_merge(CachingAllocator *a, CachingBlock *dst, CachingBlock *src)
{
    if (!src || src->state != BLOCK_FREE || src->mapped != dst->mapped)
        return 0;
    CachingPool *pool = caching_pool(a, src->segment->small);
    int64_t      bytes = src->bytes;
    block_set_remove(src->mapped ? &pool->blocks : &pool->unmapped, src);
    if (dst->prev == src) {
        dst->address = src->address;
        dst->prev = src->prev;
        *(dst->prev ? &dst->prev->next : &dst->segment->first) = dst;
    } else {
        dst->next = src->next;
        if (dst->next)
            dst->next->prev = dst;
    }
    dst->bytes += bytes;
    caching_block_unused(a, src);
    return bytes;
}

static void free_block(CachingAllocator *a, CachingBlock *block)
{
    CachingPool *pool = caching_pool(a, block->segment->small);
    int64_t      bytes = block->bytes, n_split = 0, split_bytes = 0;
    caching_event(a, CACHING_FREE_COMPLETED, block->address, block->requested_bytes,
                  block->segment->stream);
    block->state = BLOCK_FREE;
    CachingBlock *neighbours[2] = { block->prev, block->next };
    for (int i = 0; i < 2; i++) {
        int64_t merged = caching_merge(a, block, neighbours[i]);
        n_split -= merged > 0;
        split_bytes -= merged;
    }
    caching_pool_add(a, pool, block);
    if (block_is_split(block)) {
        n_split++;
        split_bytes += block->bytes;
    }
    if (!block->segment->page_bytes) {
        caching_count(a, STAT_INACTIVE_SPLIT, pool->small, n_split);
        caching_count(a, STAT_INACTIVE_SPLIT_BYTES, pool->small, split_bytes);
    }
    caching_count(a, STAT_ACTIVE, pool->small, -1);
    caching_count(a, STAT_ACTIVE_BYTES, pool->small, -bytes);
    caching_count(a, STAT_REQUESTED_BYTES, pool->small, -block->requested_bytes);
    block->tag = -1;
    block->requested_bytes = 0;
}

void caching_free(CachingAllocator *a, CachingBlock *block)
{
    bool small = block->segment->small;
    REQUIRE(block->state == BLOCK_ALLOCATED);
    caching_count(a, STAT_ALLOCATION, small, -1);
    caching_count(a, STAT_ALLOCATED_BYTES, small, -block->bytes);
    caching_event(a, CACHING_FREE_REQUESTED, block->address, block->requested_bytes,
                  block->segment->stream);
    block->state = BLOCK_PENDING;
    VEC_ADD(a->pool, a->pending, a->n_pending, a->cap_pending, block);
}

void caching_free_done(CachingAllocator *a, CachingBlock *block)
{
    int32_t i = a->n_pending - 1;
    REQUIRE(block->state == BLOCK_PENDING);
    while (a->pending[i] != block)
        i--;
    memmove(a->pending + i, a->pending + i + 1,
            (size_t)(a->n_pending - 1 - i) * sizeof *a->pending);
    a->n_pending--;
    free_block(a, block);
}

void caching_empty(CachingAllocator *a)
{
    for (int32_t i = 0; i < a->n_pending; i++)
        free_block(a, a->pending[i]);
    a->n_pending = 0;
    release_pool(a, &a->large);
    release_pool(a, &a->small);
}

/* ---- allocating ---- */

static int64_t expanded_bytes(const CachingBlock *b)
{
    return b->bytes + (b->next && !b->next->mapped ? b->next->bytes : 0);
}

/* A block that borders unmapped pages counts with them: a larger block that does not is better. */
static int32_t best_expandable(const BlockSet *set, int32_t i, int64_t stream)
{
    while (set->at[i]->segment->page_bytes && i + 1 < set->n &&
           set->at[i + 1]->segment->stream == stream &&
           expanded_bytes(set->at[i + 1]) < expanded_bytes(set->at[i]))
        i++;
    return i;
}

static CachingBlock *find_free(const CachingAllocator *a, const CachingRequest *r)
{
    const BlockSet *set = &r->pool->blocks;
    int64_t         max_split = a->conf.max_split_bytes;
    int32_t         i = block_set_from(set, r->stream, r->bytes);
    if (i == set->n || set->at[i]->segment->stream != r->stream)
        return NULL;
    if (set->at[i]->segment->page_bytes && a->conf.expandable) {
        i = best_expandable(set, i, r->stream);
    } else if (set->at[i]->segment->page_bytes) { /* expandable_segments was switched off */
        while (i < set->n && set->at[i]->segment->page_bytes &&
               set->at[i]->segment->stream == r->stream)
            i++;
        if (i == set->n || set->at[i]->segment->stream != r->stream)
            return NULL;
    }
    if (r->bytes < max_split && set->at[i]->bytes >= max_split)
        return NULL;
    if (r->bytes >= max_split && set->at[i]->bytes >= r->bytes + a->conf.max_rounding_bytes)
        return NULL;
    return set->at[i];
}

static bool collects(const CachingAllocator *a)
{
    return a->cap_bytes != INT64_MAX && a->conf.gc_threshold > 0;
}

static CachingBlock *take_free(CachingAllocator *a, const CachingRequest *r)
{
    if (collects(a))
        r->pool->n_searches++;
    CachingBlock *block = find_free(a, r);
    if (block)
        block_set_remove(&r->pool->blocks, block);
    return block;
}

static bool within_cap(const CachingAllocator *a, const CachingRequest *r)
{
    return a->stats.of[STAT_RESERVED_BYTES][STAT_ALL].current + r->segment_bytes <= a->cap_bytes;
}

static CachingBlock *new_segment(CachingAllocator *a, const CachingRequest *r)
{
    if (!within_cap(a, r))
        return NULL;
    if (a->conf.expandable)
        return caching_expand(a, r);
    if (!caching_driver_has(a, r->segment_bytes))
        return NULL;
    CachingSegment *segment = caching_segment_new(a, caching_base(a, r->segment_bytes),
                                                  r->segment_bytes, r->stream, r->pool->small, 0);
    segment->first = caching_block_new(a, segment, segment->address, segment->bytes);
    caching_count(a, STAT_SEGMENT, r->pool->small, 1);
    caching_count(a, STAT_RESERVED_BYTES, r->pool->small, segment->bytes);
    a->stats.num_device_alloc++;
    caching_event(a, CACHING_SEGMENT_ALLOC, segment->address, segment->bytes, r->stream);
    return segment->first;
}

static CachingBlock *get_segment(CachingAllocator *a, const CachingRequest *r)
{
    if (collects(a))
        collect_garbage(a);
    CachingBlock *block = new_segment(a, r);
    if (!block && release_oversize(a, r))
        block = new_segment(a, r);
    if (block)
        return block;
    caching_empty(a);
    a->stats.num_alloc_retries++;
    return new_segment(a, r);
}

static bool should_split(const CachingAllocator *a, const CachingRequest *r,
                         const CachingBlock *block)
{
    int64_t rest = block->bytes - r->bytes;
    return r->pool->small || a->conf.expandable
               ? rest >= CACHING_MIN_BLOCK
               : r->bytes < a->conf.max_split_bytes && rest > CACHING_SMALL;
}

/* The low end goes to the request; the rest returns to the pool. */
static CachingBlock *split(CachingAllocator *a, const CachingRequest *r, CachingBlock *rest)
{
    bool          was_split = block_is_split(rest), small = r->pool->small;
    CachingBlock *block = caching_block_new(a, rest->segment, rest->address, r->bytes);
    block->prev = rest->prev;
    block->next = rest;
    *(block->prev ? &block->prev->next : &block->segment->first) = block;
    rest->prev = block;
    rest->address += r->bytes;
    rest->bytes -= r->bytes;
    caching_pool_add(a, r->pool, rest);
    if (!block->segment->page_bytes) {
        caching_count(a, STAT_INACTIVE_SPLIT_BYTES, small, was_split ? -block->bytes : rest->bytes);
        caching_count(a, STAT_INACTIVE_SPLIT, small, !was_split);
    }
    return block;
}

static void hand_out(CachingAllocator *a, CachingBlock *block, int64_t requested)
{
    bool small = block->segment->small;
    block->state = BLOCK_ALLOCATED;
    block->requested_bytes = requested;
    caching_event(a, CACHING_ALLOC, block->address, requested, block->segment->stream);
    caching_count(a, STAT_ALLOCATION, small, 1);
    caching_count(a, STAT_ALLOCATED_BYTES, small, block->bytes);
    caching_count(a, STAT_ACTIVE, small, 1);
    caching_count(a, STAT_ACTIVE_BYTES, small, block->bytes);
    caching_count(a, STAT_REQUESTED_BYTES, small, requested);
}

static int64_t driver_free(const CachingAllocator *a)
{
    int64_t left = a->machine.capacity_bytes;
    return left ? left - a->stats.of[STAT_RESERVED_BYTES][STAT_ALL].current : 0;
}

CachingBlock *caching_alloc(CachingAllocator *a, int64_t bytes, int64_t stream)
{
    REQUIRE(bytes > 0);
    CachingRequest r = request_of(a, bytes, stream);
    CachingBlock  *block = take_free(a, &r);
    if (!block)
        block = get_segment(a, &r);
    if (!block) {
        caching_event(a, CACHING_OOM, driver_free(a), r.bytes, stream);
        a->stats.num_ooms++;
        return NULL;
    }
    if (should_split(a, &r, block)) {
        block = split(a, &r, block);
    } else if (block_is_split(block) && !block->segment->page_bytes) {
        caching_count(a, STAT_INACTIVE_SPLIT_BYTES, r.pool->small, -block->bytes);
        caching_count(a, STAT_INACTIVE_SPLIT, r.pool->small, -1);
    }
    hand_out(a, block, bytes);
    return block;
}

bool caching_would_release(CachingAllocator *a, int64_t bytes, int64_t stream)
{
    CachingRequest r = request_of(a, bytes, stream);
    int64_t        reserved = a->stats.of[STAT_RESERVED_BYTES][STAT_ALL].current;
    if (find_free(a, &r))
        return false;
    if (collects(a) && reserved > (int64_t)(a->conf.gc_threshold * (double)a->cap_bytes))
        return true;
    return !within_cap(a, &r) || !caching_driver_has(a, r.segment_bytes);
}

/* ---- making one, and looking into it ---- */

CachingAllocator *caching_new(Pool *pool, const AllocConf *conf, const CachingMachine *machine)
{
    CachingAllocator *a = NEW(pool, CachingAllocator);
    a->pool = pool;
    a->conf = *conf;
    a->machine = *machine;
    a->cap_bytes = conf->memory_fraction < 1 && machine->total_bytes
                       ? (int64_t)(conf->memory_fraction * (double)machine->total_bytes)
                       : INT64_MAX;
    a->small.small = true;
    a->small.unmapped.by_address = a->large.unmapped.by_address = true;
    a->small.blocks.oldest_first = a->large.blocks.oldest_first = machine->oldest_first;
    return a;
}

CachingSegment *caching_add_segment(CachingAllocator *a, int64_t address, int64_t bytes,
                                    int64_t stream, bool small, int64_t page_bytes)
{
    CachingSegment *segment = caching_segment_new(a, address, bytes, stream, small, page_bytes);
    if (!page_bytes) {
        caching_count(a, STAT_SEGMENT, small, 1);
        caching_count(a, STAT_RESERVED_BYTES, small, bytes);
    }
    return segment;
}

CachingBlock *caching_add_block(CachingAllocator *a, CachingSegment *segment, int64_t address,
                                int64_t bytes, int64_t requested_bytes, CachingState state,
                                bool mapped)
{
    CachingPool  *pool = caching_pool(a, segment->small);
    CachingBlock *block = caching_block_new(a, segment, address, bytes), *last = segment->first;
    while (last && last->next)
        last = last->next;
    if (last)
        caching_block_after(block, last);
    else
        segment->first = block;
    block->mapped = mapped;
    block->state = state;
    block->requested_bytes = requested_bytes;
    if (segment->page_bytes && mapped)
        caching_count(a, STAT_RESERVED_BYTES, pool->small, bytes);
    if (state == BLOCK_FREE) {
        if (mapped)
            caching_pool_add(a, pool, block);
        else
            block_set_add(a, &pool->unmapped, block);
        if (!segment->page_bytes && bytes < segment->bytes) {
            caching_count(a, STAT_INACTIVE_SPLIT, pool->small, 1);
            caching_count(a, STAT_INACTIVE_SPLIT_BYTES, pool->small, bytes);
        }
        return block;
    }
    caching_count(a, STAT_ACTIVE, pool->small, 1);
    caching_count(a, STAT_ACTIVE_BYTES, pool->small, bytes);
    caching_count(a, STAT_REQUESTED_BYTES, pool->small, requested_bytes);
    if (state == BLOCK_ALLOCATED) {
        caching_count(a, STAT_ALLOCATION, pool->small, 1);
        caching_count(a, STAT_ALLOCATED_BYTES, pool->small, bytes);
    } else {
        VEC_ADD(a->pool, a->pending, a->n_pending, a->cap_pending, block);
    }
    return block;
}

const CachingEvent *caching_events(CachingAllocator *a, int32_t *n)
{
    *n = a->n_events;
    a->n_events = 0;
    return a->events;
}

const CachingStats   *caching_stats(const CachingAllocator *a) { return &a->stats; }
const CachingSegment *caching_segments(const CachingAllocator *a) { return a->first; }
