/* replay.c -- recordings made with the model itself, from the start and from the middle: a replay
 * under the same settings must find every event and every block again. */
#include "test.h"

#include "torchmem/replay.h"

#define MIB ((int64_t)1 << 20)

enum { LIVE = 50, STEPS = 600 };

static Pool *pool;

typedef struct Rng {
    uint64_t state;
} Rng;

static uint32_t random_below(Rng *rng, uint32_t n) /* SplitMix64 */
{
    uint64_t z = rng->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ z >> 31) >> 32) % n;
}

static int64_t random_size(Rng *rng)
{
    switch (random_below(rng, 3)) {
    case 0: return 1 + (int64_t)random_below(rng, (uint32_t)(MIB + 2000));
    case 1: return 1 + MIB + (int64_t)random_below(rng, (uint32_t)(12 * MIB));
    default: return 10 * MIB + (int64_t)random_below(rng, (uint32_t)(150 * MIB));
    }
}

typedef struct Program { /* what asks for memory, and what was seen of it */
    CachingAllocator *a;
    CachingBlock     *live[LIVE], *later;
    Rng               rng;
    MemSnapshot       snap;
    int32_t           cap;
} Program;

static void step(Program *p)
{
    uint32_t k = random_below(&p->rng, LIVE);
    if (p->later && (p->later->state != BLOCK_PENDING)) {
        p->later = NULL;
    } else if (p->later && random_below(&p->rng, 4) == 0) {
        caching_free_done(p->a, p->later);
        p->later = NULL;
    }
    if (random_below(&p->rng, 150) == 0) {
        caching_empty(p->a);
        p->later = NULL;
    }
    if (!p->live[k]) {
        p->live[k] = caching_alloc(p->a, random_size(&p->rng), random_below(&p->rng, 2));
        return;
    }
    caching_free(p->a, p->live[k]);
    if (!p->later && random_below(&p->rng, 10) == 0)
        p->later = p->live[k];
    else
        caching_free_done(p->a, p->live[k]);
    p->live[k] = NULL;
}

static void record(Program *p)
{
    int32_t             n;
    const CachingEvent *events = caching_events(p->a, &n);
    for (int32_t i = 0; i < n; i++)
        VEC_ADD(pool, p->snap.events, p->snap.n_events, p->cap, (SnapEvent){ events[i], NULL });
}

/* The segments as a snapshot lists them: ranges of mapped blocks. */
static void list_segments(Program *p)
{
    MemSnapshot *snap = &p->snap;
    int32_t      cap = 0, cap_blocks = 0;
    for (const CachingSegment *s = caching_segments(p->a); s; s = s->after) {
        bool open = false;
        for (const CachingBlock *b = s->first; b; b = b->next) {
            if (!b->mapped) {
                open = false;
                continue;
            }
            if (!open) {
                VEC_ADD(pool, snap->segments, snap->n_segments, cap,
                        (SnapSegment){ .address = b->address,
                                       .stream = s->stream,
                                       .small = s->small,
                                       .expandable = s->page_bytes > 0 });
                cap_blocks = 0;
            }
            SnapSegment *to = &snap->segments[snap->n_segments - 1];
            open = true;
            to->bytes += b->bytes;
            VEC_ADD(pool, to->blocks, to->n_blocks, cap_blocks,
                    (SnapBlock){ b->address, b->bytes, b->requested_bytes, b->state, NULL });
        }
    }
}

static void reproduces(void)
{
    static const struct {
        const char *conf;
        bool        ages; /* how long blocks were free matters: not seen from the middle */
    } confs[] = { { "", false },
                  { "expandable_segments:True", false },
                  { "max_split_size_mb:40", false },
                  { "roundup_power2_divisions:8", false },
                  { "per_process_memory_fraction:0.3", false },
                  { "expandable_segments:True,per_process_memory_fraction:0.3", false },
                  { "max_split_size_mb:40,per_process_memory_fraction:0.3", false },
                  { "garbage_collection_threshold:0.6,per_process_memory_fraction:0.3", true } };
    int64_t n_ooms = 0, n_starts = 0, n_middle = 0, n_unlike = 0;
    for (size_t c = 0; c < sizeof confs / sizeof *confs; c++)
        for (uint64_t seed = 0; seed < 12; seed++) {
            CachingMachine machine = { .total_bytes = 4000 * MIB };
            Program        p = { .rng = { seed * 100 + c } };
            ReplayOptions  how = { .total_bytes = machine.total_bytes };
            ReplayAll      all;
            const char    *other = "expandable_segments:True";
            how.confs = &other;
            how.n_confs = 1;
            CHECK_OK(alloc_conf_read(confs[c].conf, &p.snap.conf));
            p.snap.conf_text = confs[c].conf;
            p.a = caching_new(pool, &p.snap.conf, &machine);
            bool middle = seed % 2 && !confs[c].ages;
            for (int i = 0; i < (middle ? STEPS : 0); i++)
                step(&p);
            int32_t n;
            caching_events(p.a, &n);
            for (int i = 0; i < STEPS; i++) {
                step(&p);
                record(&p);
            }
            list_segments(&p);
            n_ooms += caching_stats(p.a)->num_ooms;
            CHECK_OK(replay_all(pool, &p.snap, &how, &all));
            n_starts += all.start_bytes > 0;
            bool equal = all.check.equal && all.check.ends_equal;
            n_middle += middle;
            n_unlike += middle && !equal;
            if (middle && !equal)
                continue;
            if (!CHECK(equal))
                fprintf(stderr, "  '%s', seed %d: event %d: %s recorded, %s replayed; %s\n",
                        confs[c].conf, (int)seed, all.check.n_equal,
                        caching_action_names[all.check.recorded.action % CACHING_ACTIONS],
                        caching_action_names[all.check.ours.action % CACHING_ACTIONS],
                        all.check.end_text);
            for (int i = 0; i < CACHING_STAT_COUNT; i++)
                CHECK_INT(all.runs[0].stats.of[i][STAT_ALL].current,
                          caching_stats(p.a)->of[i][STAT_ALL].current);
        }
    CHECK(n_ooms > 0);
    CHECK(n_starts > 30);
    /* A block that was there from the start may have held a rest of up to 1 MiB. If it was freed
     * before anything was placed behind it, its size is not in the recording. */
    CHECK_INT(n_middle, 42);
    CHECK(n_unlike <= 2);
}

int main(void)
{
    pool = pool_new(NULL, "test");
    RUN(reproduces);
    pool_free(pool);
    return test_end();
}
