/* plimsoll_torch.c -- PyTorch's allocator for a list of requests: room torchmem behind plimsoll.h.
 */
#include "lib/lib_int.h"

#include <limits.h>

#include "torchmem/caching_allocator.h"

typedef struct TorchReplay {
    CachingAllocator           *a;
    CachingBlock              **of_id; /* NULL: no live block has the id */
    const plimsoll_torch_event *events;
    size_t                      n;
    plimsoll_torch_peak        *peak; /* of the interval now */
    plimsoll_torch_block       *blocks;
} TorchReplay;

static int64_t stat_now(const TorchReplay *r, CachingStatId id)
{
    return caching_stats(r->a)->of[id][STAT_ALL].current;
}

static void peak_start(TorchReplay *r)
{
    *r->peak = (plimsoll_torch_peak){ stat_now(r, STAT_ALLOCATED_BYTES),
                                      stat_now(r, STAT_RESERVED_BYTES), -1, -1 };
}

static void peak_update(TorchReplay *r, size_t event)
{
    int64_t allocated = stat_now(r, STAT_ALLOCATED_BYTES);
    int64_t reserved = stat_now(r, STAT_RESERVED_BYTES);
    if (allocated > r->peak->allocated_bytes) {
        r->peak->allocated_bytes = allocated;
        r->peak->allocated_event = (int64_t)event;
    }
    if (reserved > r->peak->reserved_bytes) {
        r->peak->reserved_bytes = reserved;
        r->peak->reserved_event = (int64_t)event;
    }
}

static Err replay_alloc(TorchReplay *r, size_t i)
{
    const plimsoll_torch_event *e = &r->events[i];
    if (e->bytes <= 0)
        return fail(E_USAGE, "event %zu allocates %lld bytes, must be more than 0", i,
                    (long long)e->bytes);
    if (r->of_id[e->id])
        return fail(E_USAGE, "event %zu allocates id %lld, which is live", i, (long long)e->id);
    CachingBlock *block = caching_alloc(r->a, e->bytes, 0);
    if (!block)
        return fail(E_BUDGET,
                    "event %zu asks for %lld bytes: %lld are allocated, %lld reserved, and no more "
                    "may be reserved",
                    i, (long long)e->bytes, (long long)stat_now(r, STAT_ALLOCATED_BYTES),
                    (long long)stat_now(r, STAT_RESERVED_BYTES));
    r->of_id[e->id] = block;
    if (r->blocks)
        r->blocks[i] = (plimsoll_torch_block){ block->segment->ordinal,
                                               block->address - block->segment->address,
                                               block->bytes };
    return OK;
}

static Err replay_free(TorchReplay *r, size_t i)
{
    int64_t id = r->events[i].id;
    if (!r->of_id[id])
        return fail(E_USAGE, "event %zu frees id %lld, which is not live", i, (long long)id);
    caching_free(r->a, r->of_id[id]);
    caching_free_done(r->a, r->of_id[id]);
    r->of_id[id] = NULL;
    return OK;
}

static Err replay_event(TorchReplay *r, size_t i)
{
    const plimsoll_torch_event *e = &r->events[i];
    int32_t                     n_events;
    if (r->blocks)
        r->blocks[i] = (plimsoll_torch_block){ -1, 0, 0 };
    if (e->action == PLIMSOLL_TORCH_ALLOC || e->action == PLIMSOLL_TORCH_FREE) {
        if (e->id < 0 || (uint64_t)e->id >= r->n)
            return fail(E_USAGE, "event %zu has id %lld, must be from 0 to %zu", i,
                        (long long)e->id, r->n - 1);
        TRY(e->action == PLIMSOLL_TORCH_ALLOC ? replay_alloc(r, i) : replay_free(r, i));
    } else if (e->action == PLIMSOLL_TORCH_MARK) {
        r->peak++;
        peak_start(r);
    } else if (e->action == PLIMSOLL_TORCH_EMPTY) {
        caching_empty(r->a);
    } else {
        return fail(E_USAGE, "event %zu has action %lld, which is none of plimsoll_torch_action", i,
                    (long long)e->action);
    }
    peak_update(r, i);
    caching_events(r->a, &n_events); /* they are not asked for */
    return OK;
}

static Err torch_replay(Pool *pool, const char *settings, int64_t capacity_bytes, TorchReplay *r)
{
    AllocConf      conf;
    CachingMachine machine = { .total_bytes = capacity_bytes, .capacity_bytes = capacity_bytes };
    TRY(alloc_conf_read(settings, &conf));
    if (capacity_bytes < 0)
        return fail(E_USAGE, "the capacity is %lld bytes, must be 0 (no limit) or more",
                    (long long)capacity_bytes);
    if (!r->peak || (!r->events && r->n > 0))
        return fail(E_USAGE, "the pointer to the %s is NULL", r->peak ? "events" : "peaks");
    if (r->n > INT_MAX)
        return fail(E_USAGE, "%zu events are more than can be replayed at once", r->n);
    r->a = caching_new(pool, &conf, &machine);
    r->of_id = NEWN(pool, CachingBlock *, r->n + 1);
    peak_start(r);
    for (size_t i = 0; i < r->n; i++)
        TRY(replay_event(r, i));
    return caching_check(r->a);
}

/* By itself, so that what the guard jumps back over is not in a register of the caller. */
static Err torch_replay_guarded(Pool *pool, const char *settings, int64_t capacity_bytes,
                                TorchReplay *r)
{
    PoolGuard guard;
    Err       err;
    pool_guard(&guard, pool);
    if (!setjmp(guard.at))
        err = torch_replay(pool, settings, capacity_bytes, r);
    else
        err = lib_no_memory();
    pool_unguard(&guard);
    return err;
}

plimsoll_status plimsoll_torch_replay(const char *settings, int64_t capacity_bytes,
                                      const plimsoll_torch_event *events, size_t n,
                                      plimsoll_torch_peak *peaks, plimsoll_torch_block *blocks,
                                      plimsoll_error *error)
{
    TorchReplay replay = { .events = events, .n = n, .peak = peaks, .blocks = blocks };
    Pool       *pool = pool_try("plimsoll_torch_replay");
    if (!pool)
        return lib_status(lib_no_memory(), error);
    Err err = torch_replay_guarded(pool, settings, capacity_bytes, &replay);
    pool_free(pool);
    return lib_status(err, error);
}
