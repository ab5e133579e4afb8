/* replay.c -- one pass per setting, and a second up to its peak to look at the state there. */
#include "torchmem/replay.h"

#include <stdlib.h>
#include <string.h>

#include "torchmem/address_map.h"

enum {
    START_TAG = -2,
    EVENT_NONE = -1,
    MAX_FLIPS = 100,
    MAX_FLIP_EVENTS = 20000000
}; /* the k-th block of the start has the tag -2 - k */

typedef enum ReleaseBy {
    RELEASE_UNKNOWN,
    RELEASE_BY_PROGRAM, /* empty_cache() */
    RELEASE_BY_REQUEST,
    RELEASE_SEEN /* part of the one before */
} ReleaseBy;

typedef struct ReplayPass {
    Pool             *pool;
    const ReplayAll  *all;
    CachingAllocator *allocator;
    AddressMap        blocks; /* recorded address -> our block */
    const SnapBlock **start_blocks;
    int32_t           n_start, cap_start;
    unsigned char    *releases;          /* per event: ReleaseBy */
    int32_t           cause_from, cause; /* releases left to a request, and that request */
    CachingEvent     *ours;              /* kept if wanted */
    int32_t           n_ours, cap_ours;
    bool              keep;
    ReplayRun        *run;
} ReplayPass;

/* ---- the state before the first event ---- */

static Err start_overlap(const SnapSegment *s)
{
    return fail(E_FORMAT, "the recording's blocks in the segment at 0x%llx overlap",
                (unsigned long long)s->address);
}

static void pass_free(ReplayPass *p, CachingSegment *to, int64_t from, int64_t end, bool mapped)
{
    if (end > from)
        caching_add_block(p->allocator, to, from, end - from, 0, BLOCK_FREE, mapped);
}

static Err pass_blocks(ReplayPass *p, CachingSegment *to, const SnapSegment *s)
{
    int64_t at = s->address;
    for (int32_t i = 0; i < s->n_blocks; i++) {
        const SnapBlock *b = &s->blocks[i];
        if (b->address < at)
            return start_overlap(s);
        pass_free(p, to, at, b->address, true);
        CachingBlock *block = caching_add_block(p->allocator, to, b->address, b->bytes,
                                                b->requested_bytes, b->state, true);
        block->tag = START_TAG - p->n_start;
        AddressSlot *slot = address_slot(&p->blocks, b->address);
        slot->block = block;
        slot->tag = block->tag;
        VEC_ADD(p->pool, p->start_blocks, p->n_start, p->cap_start, b);
        at = b->address + b->bytes;
    }
    pass_free(p, to, at, s->address + s->bytes, true);
    return OK;
}

static bool same_range(const SnapSegment *a, const SnapSegment *b)
{
    return b->expandable && a->stream == b->stream && a->small == b->small;
}

/* The lowest address of an expandable segment of which parts are mapped at the start. */
static int64_t range_base(const ReplayAll *all, const SnapSegment *s, int64_t page)
{
    int64_t base = s->address;
    for (int32_t i = 0; i < all->snap->n_events; i++) {
        const CachingEvent *e = &all->snap->events[i].what;
        bool pages = e->action == CACHING_SEGMENT_MAP || e->action == CACHING_SEGMENT_UNMAP;
        if (pages && e->stream == s->stream && e->address < base &&
            (base - e->address) % page == 0 && snapshot_small_pages(all->snap, e) == s->small)
            base = e->address;
    }
    for (int32_t i = 0; i < all->start.n_segments; i++)
        if (all->start.segments[i].address < s->address &&
            all->start.segments[i].address + all->start.segments[i].bytes > base)
            return s->address;
    return base;
}

/* Ranges of one stream and pool are parts of one expandable segment; between them it is unmapped. */
static Err pass_range(ReplayPass *p, int32_t first)
{
    const SnapStart   *start = &p->all->start;
    const SnapSegment *s = &start->segments[first];
    int64_t            page = s->small ? CACHING_PAGE : p->all->snap->conf.large_segment_bytes;
    int64_t            total = p->all->total_bytes ? p->all->total_bytes : (int64_t)1 << 40;
    int64_t            base = range_base(p->all, s, page), at = base;
    int64_t            end = base + (total + total / 8 + page - 1) / page * page, last = at;
    for (int32_t i = first; i < start->n_segments; i++)
        if (same_range(s, &start->segments[i]))
            last = start->segments[i].address + start->segments[i].bytes;
    for (int32_t i = first; i < start->n_segments; i++)
        if (!same_range(s, &start->segments[i]) && start->segments[i].address >= last &&
            start->segments[i].address < end)
            end = last + (start->segments[i].address - last) / page * page;
    if (end < last)
        end = last;
    CachingSegment *to = caching_add_segment(p->allocator, base, end - base, s->stream, s->small,
                                             page);
    for (int32_t i = first; i < start->n_segments; i++) {
        const SnapSegment *part = &start->segments[i];
        if (!same_range(s, part))
            continue;
        if (part->address < at || (part->address - base) % page || part->bytes % page)
            return start_overlap(part);
        pass_free(p, to, at, part->address, false);
        TRY(pass_blocks(p, to, part));
        at = part->address + part->bytes;
    }
    pass_free(p, to, at, end, false);
    return OK;
}

static Err pass_start(ReplayPass *p)
{
    const SnapStart *start = &p->all->start;
    for (int32_t i = 0; i < start->n_segments; i++) {
        const SnapSegment *s = &start->segments[i];
        bool               done = false;
        for (int32_t k = 0; k < i && s->expandable; k++)
            done = done || same_range(s, &start->segments[k]);
        if (done)
            continue;
        if (s->expandable) {
            TRY(pass_range(p, i));
            continue;
        }
        TRY(pass_blocks(
            p, caching_add_segment(p->allocator, s->address, s->bytes, s->stream, s->small, 0), s));
    }
    return OK;
}

/* ---- events ---- */

static bool is_release(const CachingEvent *e)
{
    return e->action == CACHING_SEGMENT_FREE || e->action == CACHING_SEGMENT_UNMAP;
}

/* The request that may have caused the releases from event i on: the alloc or oom behind them, if
 * only segment events and waits for other streams lie between. -1: none. */
static int32_t release_cause(const MemSnapshot *snap, int32_t i)
{
    bool grew = false;
    for (; i < snap->n_events; i++) {
        const CachingEvent *e = &snap->events[i].what;
        if (e->action == CACHING_SEGMENT_ALLOC || e->action == CACHING_SEGMENT_MAP)
            grew = true;
        else if (!is_release(e) && e->action != CACHING_FREE_COMPLETED)
            return e->action == CACHING_OOM || (grew && e->action == CACHING_ALLOC) ? i : -1;
    }
    return -1;
}

/* Events up to the request `cause` are its own doing. */
static void pass_leave(ReplayPass *p, int32_t from, int32_t cause)
{
    p->cause_from = from;
    p->cause = cause;
}

/* By whom was this memory released: by empty_cache(), or by the allocator before a request? */
static void pass_release(ReplayPass *p, int32_t i)
{
    const MemSnapshot *snap = p->all->snap;
    if (i <= p->cause) /* the request is still to come */
        return;
    int32_t cause = release_cause(snap, i);
    if (p->releases[i] == RELEASE_UNKNOWN) {
        const CachingEvent *e = cause >= 0 ? &snap->events[cause].what : NULL;
        p->releases[i] = e && caching_would_release(p->allocator, e->bytes, e->stream)
                             ? RELEASE_BY_REQUEST
                             : RELEASE_BY_PROGRAM;
    }
    if (p->releases[i] == RELEASE_BY_REQUEST) {
        pass_leave(p, i, cause);
        return;
    }
    caching_empty(p->allocator);
    while (i + 1 < snap->n_events && is_release(&snap->events[i + 1].what))
        p->releases[++i] = RELEASE_SEEN;
}

static bool pass_alloc(ReplayPass *p, int32_t i, const CachingEvent *e)
{
    CachingBlock *block = caching_alloc(p->allocator, e->bytes, e->stream);
    AddressSlot  *slot = address_slot(&p->blocks, e->address);
    slot->block = block;
    slot->tag = i;
    if (!block) {
        p->run->oom_event = i;
        p->run->oom_bytes = e->bytes;
        return false;
    }
    block->tag = i;
    return true;
}

static CachingBlock *pass_block(ReplayPass *p, const CachingEvent *e, CachingState state)
{
    AddressSlot  *slot = address_slot(&p->blocks, e->address);
    CachingBlock *block = slot->block;
    return block && block->tag == slot->tag && block->state == state ? block : NULL;
}

/* A request that failed in the recording. What the program did instead is what follows, so memory
 * that it gets here is given back at once. */
static void pass_oom(ReplayPass *p, const CachingEvent *e)
{
    p->run->n_recorded_ooms++;
    if (!p->all->capacity_bytes && p->run->conf.memory_fraction >= 1)
        return;
    CachingBlock *block = caching_alloc(p->allocator, e->bytes, e->stream);
    if (!block)
        return;
    p->run->n_avoided_ooms++;
    caching_free(p->allocator, block);
    caching_free_done(p->allocator, block);
}

static bool pass_event(ReplayPass *p, int32_t i)
{
    const CachingEvent *e = &p->all->snap->events[i].what;
    CachingBlock       *block;
    switch (e->action) {
    case CACHING_ALLOC: return pass_alloc(p, i, e);
    case CACHING_FREE_REQUESTED:
        if ((block = pass_block(p, e, BLOCK_ALLOCATED)))
            caching_free(p->allocator, block);
        return true;
    case CACHING_FREE_COMPLETED:
        if (i > p->cause && p->releases[i] == RELEASE_BY_REQUEST)
            pass_leave(p, i, release_cause(p->all->snap, i));
        if (i > p->cause && (block = pass_block(p, e, BLOCK_PENDING)))
            caching_free_done(p->allocator, block);
        return true;
    case CACHING_SEGMENT_FREE:
    case CACHING_SEGMENT_UNMAP:
        if (p->releases[i] != RELEASE_SEEN)
            pass_release(p, i);
        return true;
    case CACHING_OOM: pass_oom(p, e); return true;
    case CACHING_SEGMENT_ALLOC:
    case CACHING_SEGMENT_MAP:
    case CACHING_SNAPSHOT:
    case CACHING_ACTIONS: break;
    }
    return true;
}

/* Frees that a retry of the recording waited for and the model did not. */
static void pass_waits(ReplayPass *p)
{
    for (int32_t i = p->cause_from; i < p->cause; i++) {
        const CachingEvent *e = &p->all->snap->events[i].what;
        CachingBlock *block = e->action == CACHING_FREE_COMPLETED ? pass_block(p, e, BLOCK_PENDING)
                                                                  : NULL;
        if (block)
            caching_free_done(p->allocator, block);
    }
}

static void pass_note(ReplayPass *p, int32_t i, int64_t *reserved, int64_t *allocated)
{
    const CachingStats *stats = caching_stats(p->allocator);
    int64_t             r = stats->of[STAT_RESERVED_BYTES][STAT_ALL].peak,
            a = stats->of[STAT_ALLOCATED_BYTES][STAT_ALL].peak;
    int32_t             n;
    const CachingEvent *events = caching_events(p->allocator, &n);
    for (int32_t k = 0; k < n && p->keep; k++)
        VEC_ADD(p->pool, p->ours, p->n_ours, p->cap_ours, events[k]);
    int64_t  point = (int64_t)i * REPLAY_POINTS / p->all->snap->n_events;
    int64_t *reserved_at = &p->run->reserved_line[point],
            *allocated_at = &p->run->allocated_line[point];
    if (stats->of[STAT_RESERVED_BYTES][STAT_ALL].current > *reserved_at)
        *reserved_at = stats->of[STAT_RESERVED_BYTES][STAT_ALL].current;
    if (stats->of[STAT_ALLOCATED_BYTES][STAT_ALL].current > *allocated_at)
        *allocated_at = stats->of[STAT_ALLOCATED_BYTES][STAT_ALL].current;
    if (r > *reserved)
        p->run->reserved_peak_event = i;
    if (a > *allocated)
        p->run->allocated_peak_event = i;
    *reserved = r;
    *allocated = a;
}

/* Replays up to and with event `last`. */
static Err pass_run(ReplayPass *p, const CachingMachine *machine, int32_t last)
{
    p->blocks.pool = p->pool;
    p->cause = EVENT_NONE;
    p->allocator = caching_new(p->pool, &p->run->conf, machine);
    p->run->reserved_peak_event = p->run->allocated_peak_event = EVENT_NONE;
    p->run->oom_event = EVENT_NONE;
    p->run->n_recorded_ooms = p->run->n_avoided_ooms = 0;
    TRY(pass_start(p));
    const CachingStats *stats = caching_stats(p->allocator);
    int64_t             reserved = stats->of[STAT_RESERVED_BYTES][STAT_ALL].peak;
    int64_t             allocated = stats->of[STAT_ALLOCATED_BYTES][STAT_ALL].peak;
    for (int32_t i = 0; i <= last; i++) {
        bool served = pass_event(p, i);
        if (i == p->cause)
            pass_waits(p);
        pass_note(p, i, &reserved, &allocated);
        if (!served)
            break;
    }
    p->run->stats = *stats;
    return caching_check(p->allocator);
}

/* ---- at the peaks ---- */

static int gap_order(const void *a, const void *b)
{
    int64_t x = ((const ReplayGap *)a)->segment_free_bytes,
            y = ((const ReplayGap *)b)->segment_free_bytes;
    return x != y ? (x < y ? 1 : -1)
                  : ((const ReplayGap *)a)->segment - ((const ReplayGap *)b)->segment;
}

static ReplayGap gap_of(const CachingSegment *s)
{
    ReplayGap gap = { .segment = s->ordinal,
                      .stream = s->stream,
                      .small = s->small,
                      .expandable = s->page_bytes > 0 };
    for (const CachingBlock *b = s->first; b; b = b->next) {
        gap.segment_bytes += b->mapped ? b->bytes : 0;
        if (b->state != BLOCK_FREE || !b->mapped)
            continue;
        gap.segment_free_bytes += b->bytes;
        gap.n_gaps++;
        if (b->bytes > gap.largest_bytes) {
            gap.largest_bytes = b->bytes;
            gap.offset = b->address - s->address;
        }
    }
    return gap;
}

static void peak_gaps(ReplayPass *p, ReplayRun *run)
{
    ReplayGap          *gaps = NULL;
    int32_t             n = 0, cap = 0;
    const CachingStats *stats = caching_stats(p->allocator);
    run->unused_bytes = stats->of[STAT_RESERVED_BYTES][STAT_ALL].current -
                        stats->of[STAT_ALLOCATED_BYTES][STAT_ALL].current;
    for (const CachingSegment *s = caching_segments(p->allocator); s; s = s->after) {
        ReplayGap gap = gap_of(s);
        if (gap.segment_free_bytes)
            VEC_ADD(p->pool, gaps, n, cap, gap);
    }
    if (n)
        qsort(gaps, (size_t)n, sizeof *gaps, gap_order);
    run->n_gaps = n < REPLAY_GAPS ? n : REPLAY_GAPS;
    for (int32_t i = 0; i < run->n_gaps; i++)
        run->gaps[i] = gaps[i];
}

static int line_by_text(const void *a, const void *b)
{
    return strcmp(((const ReplayLine *)a)->line, ((const ReplayLine *)b)->line);
}

static int line_by_bytes(const void *a, const void *b)
{
    const ReplayLine *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes ? 1 : -1) : strcmp(x->line, y->line);
}

static const Pickle *block_frames(const ReplayPass *p, const CachingBlock *b)
{
    return b->tag >= 0           ? p->all->snap->events[b->tag].frames
           : b->tag <= START_TAG ? p->start_blocks[START_TAG - b->tag]->frames
                                 : NULL;
}

static void peak_lines(Pool *pool, ReplayPass *p, ReplayRun *run)
{
    ReplayLine *lines = NULL;
    int32_t     n = 0, cap = 0, n_joined = 0;
    for (const CachingSegment *s = caching_segments(p->allocator); s; s = s->after)
        for (const CachingBlock *b = s->first; b; b = b->next)
            if (b->state == BLOCK_ALLOCATED)
                VEC_ADD(p->pool, lines, n, cap,
                        (ReplayLine){ .line = snapshot_line(p->pool, block_frames(p, b)),
                                      .bytes = b->bytes,
                                      .largest_bytes = b->bytes,
                                      .n = 1 });
    run->n_live = n;
    if (n)
        qsort(lines, (size_t)n, sizeof *lines, line_by_text);
    for (int32_t i = 0; i < n; i++) {
        ReplayLine *to = n_joined ? &lines[n_joined - 1] : NULL;
        if (!to || strcmp(to->line, lines[i].line)) {
            lines[n_joined++] = lines[i];
            continue;
        }
        to->bytes += lines[i].bytes;
        to->n++;
        if (lines[i].bytes > to->largest_bytes)
            to->largest_bytes = lines[i].bytes;
    }
    if (n_joined)
        qsort(lines, (size_t)n_joined, sizeof *lines, line_by_bytes);
    run->n_lines = n_joined < REPLAY_LINES ? n_joined : REPLAY_LINES;
    for (int32_t i = 0; i < run->n_lines; i++) {
        run->lines[i] = lines[i];
        run->lines[i].line = pool_text(pool, lines[i].line);
    }
}

static Err run_peaks(Pool *pool, const ReplayPass *model, const CachingMachine *machine,
                     ReplayRun *run)
{
    for (int peak = 0; peak < 2; peak++) {
        ReplayRun  temporary = { .conf = run->conf };
        ReplayPass p = { .pool = pool_new(pool, "peak"),
                         .all = model->all,
                         .releases = model->releases,
                         .run = &temporary };
        TRY(pass_run(&p, machine, peak ? run->allocated_peak_event : run->reserved_peak_event));
        if (peak)
            peak_lines(pool, &p, run);
        else
            peak_gaps(&p, run);
        pool_free(p.pool);
    }
    return OK;
}

/* ---- the recording's own settings: the check of the model ---- */

static bool event_equal(const CachingEvent *a, const CachingEvent *b)
{
    return a->action == b->action && a->bytes == b->bytes && a->stream == b->stream &&
           (a->action == CACHING_OOM || a->address == b->address);
}

static const CachingBlock *block_at(const CachingAllocator *a, int64_t address)
{
    for (const CachingSegment *s = caching_segments(a); s; s = s->after)
        if (address >= s->address && address < s->address + s->bytes)
            for (const CachingBlock *b = s->first; b; b = b->next)
                if (b->address == address)
                    return b;
    return NULL;
}

/* Every block of the recorded end, and no other. */
static const char *end_difference(Pool *pool, const ReplayPass *p)
{
    const MemSnapshot *snap = p->all->snap;
    int64_t            recorded = 0, ours = 0;
    for (int32_t i = 0; i < snap->n_segments; i++) {
        const SnapSegment *s = &snap->segments[i];
        for (int32_t k = 0; k < s->n_blocks; k++) {
            const SnapBlock    *r = &s->blocks[k];
            const CachingBlock *b = block_at(p->allocator, r->address);
            recorded++;
            if (!b || b->bytes != r->bytes || b->state != r->state)
                return pool_print(pool,
                                  "segment of %lld bytes, offset %lld: %lld bytes, state %d "
                                  "recorded; %lld bytes, state %d in the model",
                                  (long long)s->bytes, (long long)(r->address - s->address),
                                  (long long)r->bytes, r->state, b ? (long long)b->bytes : 0LL,
                                  b ? (int)b->state : -1);
        }
    }
    for (const CachingSegment *s = caching_segments(p->allocator); s; s = s->after)
        for (const CachingBlock *b = s->first; b; b = b->next)
            ours += b->mapped;
    return recorded == ours ? ""
                            : pool_print(pool, "%lld blocks recorded, %lld in the model",
                                         (long long)recorded, (long long)ours);
}

static void check_events(Pool *pool, const ReplayPass *p, ReplayDifference *out)
{
    const MemSnapshot *snap = p->all->snap;
    int32_t            n = 0;
    while (n < snap->n_events && n < p->n_ours && event_equal(&snap->events[n].what, &p->ours[n]))
        n++;
    out->n_events = snap->n_events;
    out->n_equal = n;
    out->equal = n == snap->n_events && n == p->n_ours;
    out->recorded = out->ours = (CachingEvent){ .action = CACHING_ACTIONS };
    if (n < snap->n_events)
        out->recorded = snap->events[n].what;
    if (n < p->n_ours)
        out->ours = p->ours[n];
    out->end_text = end_difference(pool, p);
    out->ends_equal = !*out->end_text;
}

/* ---- what is known of the machine ---- */

static int64_t grown(const CachingEvent *e)
{
    bool up = e->action == CACHING_SEGMENT_ALLOC || e->action == CACHING_SEGMENT_MAP;
    return up ? e->bytes : is_release(e) ? -e->bytes : 0;
}

/* A request that failed tells what could be had: less than it asked for, and no more than the
 * driver had free. */
static void find_capacity(ReplayAll *all)
{
    const MemSnapshot *snap = all->snap;
    int64_t            reserved = all->start_bytes, peak = reserved, capacity = 0;
    for (int32_t i = 0; i < snap->n_events; i++) {
        const CachingEvent *e = &snap->events[i].what;
        reserved += grown(e);
        if (reserved > peak)
            peak = reserved;
        if (e->action != CACHING_OOM)
            continue;
        int64_t asked = caching_segment_bytes(&snap->conf, e->bytes) - 1;
        int64_t had = reserved + (e->address < asked ? e->address : asked);
        if (!capacity || had < capacity)
            capacity = had;
    }
    all->capacity_from_oom = capacity > 0;
    all->capacity_bytes = capacity && capacity < peak ? peak : capacity;
}

/* Undone events may contradict the segments, in a file that was damaged or cut. */
static Err start_check(const SnapStart *start)
{
    int64_t end = 0;
    for (int32_t i = 0; i < start->n_segments; i++) {
        const SnapSegment *s = &start->segments[i];
        bool               good = s->address >= end && s->bytes % CACHING_MIN_BLOCK == 0;
        for (int32_t k = 0; k < s->n_blocks; k++)
            good = good && (s->blocks[k].address - s->address) % CACHING_MIN_BLOCK == 0;
        if (!good)
            return fail(E_FORMAT,
                        "the events contradict the segment at 0x%llx; is the file complete?",
                        (unsigned long long)s->address);
        end = s->address + s->bytes;
    }
    return OK;
}

static void start_sum(ReplayAll *all)
{
    for (int32_t i = 0; i < all->start.n_segments; i++)
        all->start_bytes += all->start.segments[i].bytes;
}

static CachingMachine recorded_machine(Pool *pool, const ReplayAll *all)
{
    const MemSnapshot *snap = all->snap;
    int64_t           *bases = NEWN(pool, int64_t, snap->n_events + 1);
    int32_t            n = 0;
    for (int32_t i = 0; i < snap->n_events; i++)
        if (grown(&snap->events[i].what) > 0)
            bases[n++] = snap->events[i].what.address;
    return (CachingMachine){ .total_bytes = all->total_bytes,
                             .capacity_bytes = all->capacity_bytes,
                             .bases = bases,
                             .n_bases = n,
                             .oldest_first = all->oldest_first };
}

static void decide_anew(const ReplayAll *all, unsigned char *releases, int32_t from)
{
    for (int32_t k = from; k < all->snap->n_events; k++)
        releases[k] = RELEASE_UNKNOWN;
}

/* Two things look alike in a recording, and only what follows tells: empty_cache() right before a
 * request, and the allocator's own release for it; a free that was completed before a request, and
 * one that its retry waited for, which is not searched again. Corrects the decision before the
 * first difference; false: there is none to correct. */
static bool flip_release(const ReplayAll *all, unsigned char *releases)
{
    const SnapEvent *events = all->snap->events;
    int32_t          n = all->check.n_equal, i = n < all->snap->n_events ? n : n - 1;
    if (all->check.equal || i < 0)
        return false;
    for (int32_t k = i; k >= 0 && release_cause(all->snap, k) >= n; k--)
        if (releases[k] == RELEASE_BY_REQUEST && is_release(&events[k].what)) {
            releases[k] = RELEASE_BY_PROGRAM;
            decide_anew(all, releases, k + 1);
            return true;
        }
    while (i > 0 && events[i].what.action != CACHING_FREE_COMPLETED &&
           release_cause(all->snap, i - 1) >= n)
        i--;
    while (i > 0 && events[i].what.action == CACHING_FREE_COMPLETED &&
           releases[i] == RELEASE_BY_REQUEST)
        i--;
    if (events[i].what.action != CACHING_FREE_COMPLETED || release_cause(all->snap, i) < n)
        return false;
    releases[i] = RELEASE_BY_REQUEST;
    decide_anew(all, releases, n);
    return true;
}

static Err replay_recorded(Pool *pool, ReplayAll *all, unsigned char *releases)
{
    CachingMachine machine = recorded_machine(pool, all);
    for (int flips = 0;; flips++) {
        ReplayPass p = { .pool = pool_new(pool, "recorded"),
                         .all = all,
                         .releases = releases,
                         .keep = true,
                         .run = &all->runs[0] };
        TRY(pass_run(&p, &machine, all->snap->n_events - 1));
        check_events(pool, &p, &all->check);
        if ((int64_t)flips * all->snap->n_events > MAX_FLIP_EVENTS || flips == MAX_FLIPS ||
            !flip_release(all, releases)) {
            TRY(run_peaks(pool, &p, &machine, &all->runs[0]));
            pool_free(p.pool);
            return OK;
        }
        pool_free(p.pool);
    }
}

/* A recording does not name its version of PyTorch. If its events are not those of the order of
 * addresses, they may be those of the order of segments. */
static Err replay_either_order(Pool *pool, ReplayAll *all, unsigned char *releases)
{
    TRY(replay_recorded(pool, all, releases));
    if (all->check.equal)
        return OK;
    ReplayDifference check = all->check;
    ReplayRun        run = all->runs[0];
    size_t           n = (size_t)all->snap->n_events + 1;
    unsigned char   *before = memcpy(NEWN(pool, unsigned char, n), releases, n);
    all->oldest_first = true;
    decide_anew(all, releases, 0);
    TRY(replay_recorded(pool, all, releases));
    if (all->check.n_equal > check.n_equal)
        return OK;
    all->oldest_first = false;
    all->check = check;
    all->runs[0] = run;
    memcpy(releases, before, n);
    return OK;
}

static Err replay_conf(Pool *pool, const ReplayAll *all, unsigned char *releases, ReplayRun *run)
{
    CachingMachine machine = { .total_bytes = all->total_bytes,
                               .capacity_bytes = all->capacity_bytes,
                               .oldest_first = all->oldest_first };
    ReplayPass p = { .pool = pool_new(pool, "conf"), .all = all, .releases = releases, .run = run };
    TRY(pass_run(&p, &machine, all->snap->n_events - 1));
    TRY(run_peaks(pool, &p, &machine, run));
    pool_free(p.pool);
    return OK;
}

Err replay_all(Pool *pool, MemSnapshot *snap, const ReplayOptions *how, ReplayAll *out)
{
    unsigned char *releases = NEWN(pool, unsigned char, snap->n_events + 1);
    *out = (ReplayAll){ .snap = snap,
                        .total_bytes = how->total_bytes,
                        .runs = NEWN(pool, ReplayRun, how->n_confs + 1),
                        .n_runs = how->n_confs + 1 };
    if (how->recorded) {
        TRY(alloc_conf_read(how->recorded, &snap->conf));
        snap->conf_text = how->recorded;
    }
    for (int i = 0; i < how->n_confs; i++) {
        out->runs[i + 1].name = how->confs[i];
        TRY(alloc_conf_read(how->confs[i], &out->runs[i + 1].conf));
    }
    snapshot_start(pool, snap, &out->start);
    TRY(start_check(&out->start));
    start_sum(out);
    find_capacity(out);
    if (how->capacity_bytes) {
        out->capacity_bytes = how->capacity_bytes;
        out->capacity_from_oom = false;
    }
    out->runs[0].name = snap->conf_text;
    out->runs[0].conf = snap->conf;
    TRY(replay_either_order(pool, out, releases));
    for (int i = 1; i < out->n_runs; i++)
        TRY(replay_conf(pool, out, releases, &out->runs[i]));
    return OK;
}
