/* snapshot_start.c -- what lay where before the first event of a recording.
 *
 * Segments: those of the end, with segment events undone from the last to the first. Live blocks:
 * blocks of the end that no event allocated, and blocks whose first event is a free. The latter's
 * sizes are rounded requests; in the large pool a block may also hold a rest of up to 1 MiB that
 * was not worth a split. No free block of the large pool is that small, so a gap that is belongs to
 * the block before it.
 */
#include "torchmem/snapshot.h"

#include <stdlib.h>

#include "torchmem/address_map.h"

typedef struct StartIn {
    Pool              *pool;
    const MemSnapshot *snap;
    SnapStart         *out;
    SnapBlock         *live;
    int32_t            n_live, cap_live;
} StartIn;

static void start_add(StartIn *in, SnapSegment segment)
{
    SnapStart *out = in->out;
    segment.blocks = NULL;
    segment.n_blocks = 0;
    VEC_ADD(in->pool, out->segments, out->n_segments, out->cap_segments, segment);
}

/* Takes [from, to) out of a list of segments or mapped ranges. */
static void start_cut(StartIn *in, int64_t from, int64_t to)
{
    SnapStart *out = in->out;
    for (int32_t i = 0; i < out->n_segments; i++) {
        SnapSegment *s = &out->segments[i], old = *s;
        int64_t      end = old.address + old.bytes;
        if (old.address >= to || end <= from)
            continue;
        if (old.address < from) {
            s->bytes = from - old.address;
        } else { /* the last takes its place, and is looked at next */
            *s = out->segments[--out->n_segments];
            i--;
        }
        if (end > to) {
            old.address = to;
            old.bytes = end - to;
            start_add(in, old);
        }
    }
}

/* 20 MiB may be ten pages of the small pool: what lay nearest to them tells. */
bool snapshot_small_pages(const MemSnapshot *snap, const CachingEvent *pages)
{
    int64_t nearest = INT64_MAX;
    bool    small = false;
    if (pages->bytes % snap->conf.large_segment_bytes)
        return true;
    for (int32_t i = 0; i < snap->n_events; i++) {
        const CachingEvent *e = &snap->events[i].what;
        int64_t             distance = llabs(e->address - pages->address);
        if (e->action > CACHING_FREE_COMPLETED || e->stream != pages->stream || distance >= nearest)
            continue;
        nearest = distance;
        small = caching_round(&snap->conf, e->bytes) <= CACHING_SMALL;
    }
    for (int32_t i = 0; i < snap->n_segments; i++) {
        const SnapSegment *s = &snap->segments[i];
        int64_t            distance = llabs(s->address - pages->address);
        if (!s->expandable || s->stream != pages->stream || distance >= nearest)
            continue;
        nearest = distance;
        small = s->small;
    }
    return small;
}

static void start_undo_segments(StartIn *in)
{
    const MemSnapshot *snap = in->snap;
    for (int32_t i = 0; i < snap->n_segments; i++)
        start_add(in, snap->segments[i]);
    for (int32_t i = snap->n_events; i-- > 0;) {
        const CachingEvent *e = &snap->events[i].what;
        bool                unmap = e->action == CACHING_SEGMENT_UNMAP;
        if (e->action == CACHING_SEGMENT_ALLOC || e->action == CACHING_SEGMENT_MAP)
            start_cut(in, e->address, e->address + e->bytes);
        else if (unmap || e->action == CACHING_SEGMENT_FREE)
            start_add(in, (SnapSegment){ .address = e->address,
                                         .bytes = e->bytes,
                                         .stream = e->stream,
                                         .expandable = unmap,
                                         .small = unmap ? snapshot_small_pages(snap, e)
                                                        : e->bytes == CACHING_PAGE });
    }
}

static int start_by_address(const void *a, const void *b)
{
    int64_t x = ((const SnapSegment *)a)->address, y = ((const SnapSegment *)b)->address;
    return (x > y) - (x < y);
}

static int live_by_address(const void *a, const void *b)
{
    int64_t x = ((const SnapBlock *)a)->address, y = ((const SnapBlock *)b)->address;
    return (x > y) - (x < y);
}

static void start_live(StartIn *in)
{
    const MemSnapshot *snap = in->snap;
    AddressMap         seen = { .pool = pool_new(in->pool, "seen") };
    for (int32_t i = 0; i < snap->n_events; i++) {
        const CachingEvent *e = &snap->events[i].what;
        bool freed = e->action == CACHING_FREE_REQUESTED || e->action == CACHING_FREE_COMPLETED;
        if (!freed && e->action != CACHING_ALLOC)
            continue;
        AddressSlot *slot = address_slot(&seen, e->address);
        if (freed && !slot->tag)
            VEC_ADD(in->pool, in->live, in->n_live, in->cap_live,
                    (SnapBlock){ .address = e->address,
                                 .bytes = caching_round(&snap->conf, e->bytes),
                                 .requested_bytes = e->bytes,
                                 .state = e->action == CACHING_FREE_REQUESTED ? BLOCK_ALLOCATED
                                                                              : BLOCK_PENDING,
                                 .frames = snap->events[i].frames });
        slot->tag = 1;
    }
    for (int32_t i = 0; i < snap->n_segments; i++)
        for (int32_t k = 0; k < snap->segments[i].n_blocks; k++) {
            const SnapBlock *b = &snap->segments[i].blocks[k];
            if (b->state != BLOCK_FREE && !address_slot(&seen, b->address)->tag)
                VEC_ADD(in->pool, in->live, in->n_live, in->cap_live, *b);
        }
    pool_free(seen.pool);
    if (in->n_live)
        qsort(in->live, (size_t)in->n_live, sizeof *in->live, live_by_address);
}

/* Index of the last live block that begins at or before the address; -1: none. */
static int32_t live_before(const StartIn *in, int64_t address)
{
    int32_t low = 0, high = in->n_live;
    while (low < high) {
        int32_t mid = low + (high - low) / 2;
        if (in->live[mid].address <= address)
            low = mid + 1;
        else
            high = mid;
    }
    return low - 1;
}

/* The first request that is served from the free bytes behind a block begins where the block ends,
 * unless the block was freed before: so the rest that it held is known. */
static void start_rests(StartIn *in)
{
    unsigned char *known = NEWN(in->pool, unsigned char, in->n_live + 1);
    for (int32_t i = 0; i < in->snap->n_events; i++) {
        const CachingEvent *e = &in->snap->events[i].what;
        int32_t             k = e->action == CACHING_ALLOC || e->action == CACHING_FREE_COMPLETED
                                    ? live_before(in, e->address)
                                    : -1;
        if (k < 0 || known[k])
            continue;
        SnapBlock *b = &in->live[k];
        int64_t    rest = e->address - (b->address + b->bytes);
        if (e->action == CACHING_ALLOC && b->bytes > CACHING_SMALL && rest > 0 &&
            rest <= CACHING_SMALL)
            b->bytes += rest;
        known[k] = e->action == CACHING_ALLOC || e->address == b->address;
    }
}

/* Rests that were not worth a split belong to their block. */
static void start_widen(const MemSnapshot *snap, SnapSegment *s)
{
    int64_t end = s->address + s->bytes;
    for (int32_t i = 0; i < s->n_blocks && !s->small && !s->expandable; i++) {
        SnapBlock *b = &s->blocks[i];
        int64_t    next = i + 1 < s->n_blocks ? s->blocks[i + 1].address : end;
        int64_t    gap = next - (b->address + b->bytes);
        if (gap <= CACHING_SMALL || b->bytes >= snap->conf.max_split_bytes)
            b->bytes += gap;
    }
}

/* Pages side by side are one range. */
static void start_join(SnapStart *out)
{
    int32_t n = 0;
    for (int32_t i = 0; i < out->n_segments; i++) {
        SnapSegment *s = &out->segments[i], *to = n ? &out->segments[n - 1] : NULL;
        if (to && s->expandable && to->expandable && s->small == to->small &&
            s->stream == to->stream && to->address + to->bytes == s->address)
            to->bytes += s->bytes;
        else
            out->segments[n++] = *s;
    }
    out->n_segments = n;
}

void snapshot_start(Pool *pool, const MemSnapshot *snap, SnapStart *out)
{
    StartIn in = { .pool = pool, .snap = snap, .out = out };
    int32_t k = 0;
    *out = (SnapStart){ 0 };
    start_undo_segments(&in);
    start_live(&in);
    start_rests(&in);
    if (out->n_segments)
        qsort(out->segments, (size_t)out->n_segments, sizeof *out->segments, start_by_address);
    start_join(out);
    for (int32_t i = 0; i < out->n_segments && in.n_live; i++) {
        SnapSegment *s = &out->segments[i];
        while (k < in.n_live && in.live[k].address < s->address)
            k++; /* outside of any known segment: a private pool's */
        s->blocks = in.live + k;
        while (k < in.n_live && in.live[k].address + in.live[k].bytes <= s->address + s->bytes)
            k++;
        s->n_blocks = (int32_t)(in.live + k - s->blocks);
        start_widen(snap, s);
    }
}
