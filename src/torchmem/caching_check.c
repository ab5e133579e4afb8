/* caching_check.c -- goes through the allocator's state block by block and counts everything anew. */
#include "torchmem/caching_int.h"

static Err check_block(const CachingSegment *s, const CachingBlock *b, int64_t expected)
{
    if (b->segment != s || b->address != expected || b->bytes <= 0)
        return fail(E_PLAN, "segment %d: a block at offset %lld, but the one before ends at %lld",
                    s->ordinal, (long long)(b->address - s->address),
                    (long long)(expected - s->address));
    if ((b->address - s->address) % CACHING_MIN_BLOCK || b->bytes % CACHING_MIN_BLOCK)
        return fail(E_PLAN, "segment %d: the block at offset %lld with %lld bytes is not aligned",
                    s->ordinal, (long long)(b->address - s->address), (long long)b->bytes);
    if (b->next && b->next->prev != b)
        return fail(E_PLAN, "segment %d: the blocks are not linked both ways", s->ordinal);
    if (b->next && b->state == BLOCK_FREE && b->next->state == BLOCK_FREE &&
        b->mapped == b->next->mapped)
        return fail(E_PLAN, "segment %d: two free blocks lie side by side at offset %lld",
                    s->ordinal, (long long)(b->address - s->address));
    if (!b->mapped && ((b->address - s->address) % s->page_bytes || b->bytes % s->page_bytes))
        return fail(E_PLAN, "segment %d: unmapped bytes that are not whole pages", s->ordinal);
    return OK;
}

static void count_block(CachingStats *sum, const CachingSegment *s, const CachingBlock *b)
{
    int  pools[2] = { STAT_ALL, s->small ? STAT_SMALL_POOL : STAT_LARGE_POOL };
    bool split = !s->page_bytes && b->state == BLOCK_FREE && (b->prev || b->next);
    for (int i = 0; i < 2; i++) {
        int     p = pools[i];
        int64_t held = b->state != BLOCK_FREE, live = b->state == BLOCK_ALLOCATED;
        sum->of[STAT_RESERVED_BYTES][p].current += b->mapped ? b->bytes : 0;
        sum->of[STAT_ALLOCATION][p].current += live;
        sum->of[STAT_ALLOCATED_BYTES][p].current += live * b->bytes;
        sum->of[STAT_ACTIVE][p].current += held;
        sum->of[STAT_ACTIVE_BYTES][p].current += held * b->bytes;
        sum->of[STAT_REQUESTED_BYTES][p].current += held * b->requested_bytes;
        sum->of[STAT_INACTIVE_SPLIT][p].current += split;
        sum->of[STAT_INACTIVE_SPLIT_BYTES][p].current += split ? b->bytes : 0;
        sum->of[STAT_SEGMENT][p].current += !s->page_bytes && !b->prev;
    }
}

static Err check_set(const BlockSet *set, bool mapped, bool small, int32_t expected)
{
    if (set->n != expected)
        return fail(E_PLAN, "a pool lists %d free blocks, the segments have %d", set->n, expected);
    for (int32_t i = 0; i < set->n; i++)
        if (set->at[i]->state != BLOCK_FREE || set->at[i]->mapped != mapped ||
            set->at[i]->segment->small != small)
            return fail(E_PLAN, "a pool lists a block that is not its own");
    return OK;
}

static Err check_apart(const CachingAllocator *a)
{
    for (const CachingSegment *s = a->first; s; s = s->after)
        for (const CachingSegment *t = s->after; t; t = t->after)
            if (s->address < t->address + t->bytes && t->address < s->address + s->bytes)
                return fail(E_PLAN, "segments %d and %d overlap", s->ordinal, t->ordinal);
    return OK;
}

Err caching_check(const CachingAllocator *a)
{
    CachingStats sum = { 0 };
    int32_t      n_free[2][2] = { { 0 } };
    TRY(check_apart(a));
    for (const CachingSegment *s = a->first; s; s = s->after) {
        int64_t at = s->address;
        if (!s->first || s->first->prev)
            return fail(E_PLAN, "segment %d has lost its first block", s->ordinal);
        for (const CachingBlock *b = s->first; b; b = b->next) {
            TRY(check_block(s, b, at));
            at += b->bytes;
            count_block(&sum, s, b);
            n_free[s->small][b->mapped] += b->state == BLOCK_FREE;
        }
        if (at != s->address + s->bytes)
            return fail(E_PLAN, "segment %d: its blocks do not fill it", s->ordinal);
    }
    for (int small = 0; small < 2; small++) {
        const CachingPool *pool = small ? &a->small : &a->large;
        TRY(check_set(&pool->blocks, true, small, n_free[small][1]));
        TRY(check_set(&pool->unmapped, false, small, n_free[small][0]));
    }
    for (int i = 0; i < CACHING_STAT_COUNT; i++)
        for (int p = 0; p < STAT_POOLS; p++)
            if (sum.of[i][p].current != a->stats.of[i][p].current)
                return fail(E_PLAN, "%s of pool %d is counted as %lld and adds up to %lld",
                            caching_stat_names[i], p, (long long)a->stats.of[i][p].current,
                            (long long)sum.of[i][p].current);
    return OK;
}
