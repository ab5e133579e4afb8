/* caching_allocator.c -- cases computed by hand from PyTorch's rules, and what always holds on random
 * requests. tests/torchmem/gpu_traces.py compares with the allocator itself. */
#include "test.h"

#include "torchmem/caching_allocator.h"

#define MIB ((int64_t)1 << 20)

static Pool *pool;

static CachingAllocator *with(const char *conf_text, int64_t capacity, int64_t total)
{
    AllocConf      conf;
    CachingMachine machine = { .capacity_bytes = capacity, .total_bytes = total };
    CHECK_OK(alloc_conf_read(conf_text, &conf));
    return caching_new(pool, &conf, &machine);
}

static int64_t now(const CachingAllocator *a, CachingStatId id)
{
    return caching_stats(a)->of[id][STAT_ALL].current;
}

static void release(CachingAllocator *a, CachingBlock *block)
{
    caching_free(a, block);
    caching_free_done(a, block);
}

/* the actions since the last call, one letter each: Alloc, Requested, Completed, Segment, Free,
 * Map, Unmap, Oom */
static const char *actions(CachingAllocator *a)
{
    static char         text[256];
    int32_t             n;
    const CachingEvent *events = caching_events(a, &n);
    for (int32_t i = 0; i < n && i < 255; i++)
        text[i] = "ARCSFMUO"[events[i].action];
    text[n < 255 ? n : 255] = '\0';
    return text;
}

static void single_requests(void)
{
    static const struct {
        int64_t request, segment, allocated;
    } cases[] = {
        { 1, 2097152, 512 },
        { 1048576, 2097152, 1048576 },
        { 1048577, 20971520, 1049088 },
        { 10485248, 20971520, 10485248 },
        { 10485760, 10485760, 10485760 },
        { 15204352, 16777216, 15204352 },
        { 16043213, 16777216, 16777216 },
        { 20447232, 20971520, 20971520 },
        { 33554432, 33554432, 33554432 },
        { 8519680, 20971520, 8519680 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CachingAllocator *a = with("", 0, 0);
        CachingBlock     *b = caching_alloc(a, cases[i].request, 0);
        CHECK_INT(now(a, STAT_RESERVED_BYTES), cases[i].segment);
        CHECK_INT(now(a, STAT_ALLOCATED_BYTES), cases[i].allocated);
        CHECK_INT(now(a, STAT_REQUESTED_BYTES), cases[i].request);
        CHECK_INT(b->bytes, cases[i].allocated);
        CHECK_TEXT(actions(a), "SA");
        CHECK_OK(caching_check(a));
    }
}

static void rounding(void)
{
    AllocConf conf;
    CHECK_OK(alloc_conf_read("roundup_power2_divisions:4", &conf));
    CHECK_INT(caching_round(&conf, 1200), 1536);
    CHECK_INT(caching_round(&conf, 5 * MIB + 1), 6 * MIB);
    CHECK_INT(caching_round(&conf, 300 * MIB), 320 * MIB);
    CHECK_INT(caching_round(&conf, 256 * MIB), 256 * MIB);
    CHECK_OK(alloc_conf_read("roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", &conf));
    CHECK_INT(conf.roundup_divisions[0], 1);
    CHECK_INT(conf.roundup_divisions[8], 1);
    CHECK_INT(conf.roundup_divisions[9], 2);
    CHECK_INT(conf.roundup_divisions[10], 4);
    CHECK_INT(conf.roundup_divisions[15], 8);
    CHECK_INT(caching_round(&conf, 600 * MIB), 768 * MIB);
    CHECK_INT(caching_round(&conf, 100 * MIB + 1), 100 * MIB + 512);
}

/* The smallest block that is large enough; of equal ones the lowest. */
static void best_fit(void)
{
    CachingAllocator *a = with("", 0, 0);
    CachingBlock     *x[6];
    for (int i = 0; i < 6; i++)
        x[i] = caching_alloc(a, (i % 2 ? 3 : 2 + i / 2) * MIB, 0);
    caching_alloc(a, 2 * MIB, 0); /* the rest of 20 MiB */
    int64_t low = x[1]->address, mid = x[3]->address;
    for (int i = 0; i < 6; i++)
        CHECK_INT(x[i]->segment->ordinal, 0);
    release(a, x[3]); /* 3 MiB holes at x[3] and x[1] */
    release(a, x[1]);
    CachingBlock *y = caching_alloc(a, 2 * MIB, 0);
    CHECK_INT(y->address, low);
    CHECK_INT(y->bytes, 3 * MIB); /* 1 MiB is not worth a split */
    y = caching_alloc(a, 2 * MIB - 512, 0);
    CHECK_INT(y->address, mid);
    CHECK_INT(y->bytes, 2 * MIB - 512); /* 1 MiB + 512 is */
    CHECK_OK(caching_check(a));
}

static void streams_and_pools(void)
{
    CachingAllocator *a = with("", 0, 0);
    CachingBlock     *x = caching_alloc(a, 100, 0);
    release(a, x);
    CachingBlock *y = caching_alloc(a, 100, 7), *z = caching_alloc(a, 2 * MIB, 0);
    CHECK_INT(y->segment->ordinal, 1);
    CHECK_INT(z->segment->ordinal, 2);
    CHECK_INT(caching_alloc(a, 100, 0)->segment->ordinal, 0);
    CHECK_INT(now(a, STAT_SEGMENT), 3);
    CHECK_OK(caching_check(a));
}

/* A block in use on another stream is active but not allocated, and no neighbour. */
static void deferred_free(void)
{
    CachingAllocator *a = with("", 0, 0);
    CachingBlock     *x = caching_alloc(a, 4 * MIB, 0), *y = caching_alloc(a, 4 * MIB, 0);
    caching_free(a, x);
    CHECK_INT(now(a, STAT_ALLOCATED_BYTES), 4 * MIB);
    CHECK_INT(now(a, STAT_ACTIVE_BYTES), 8 * MIB);
    release(a, y);
    CHECK_INT(now(a, STAT_INACTIVE_SPLIT_BYTES), 16 * MIB);
    CHECK_OK(caching_check(a));
    caching_free_done(a, x);
    CHECK_INT(now(a, STAT_INACTIVE_SPLIT), 0); /* one whole free segment */
    CHECK_TEXT(actions(a), "SAARRCC");
    caching_empty(a);
    CHECK_TEXT(actions(a), "F");
    CHECK_INT(now(a, STAT_RESERVED_BYTES), 0);
    CHECK(!caching_segments(a));
}

static void max_split(void)
{
    CachingAllocator *a = with("max_split_size_mb:64", 0, 0);
    CachingBlock     *x = caching_alloc(a, 119 * MIB, 0);
    release(a, x);
    CHECK_INT(caching_alloc(a, 60 * MIB, 0)->segment->ordinal, 1); /* not from 120 MiB */
    x = caching_alloc(a, 100 * MIB + 1, 0);
    CHECK_INT(x->segment->ordinal, 0);
    CHECK_INT(x->bytes, 120 * MIB);
    release(a, x);
    x = caching_alloc(a, 100 * MIB, 0); /* 20 MiB more is too much */
    CHECK_INT(x->segment->ordinal, 2);
    CHECK_OK(caching_check(a));
}

/* Enough cached blocks of max_split_size and more go first; then all, and then it fails. */
static void out_of_memory(void)
{
    CachingAllocator *a = with("max_split_size_mb:32", 200 * MIB, 0);
    CachingBlock     *x = caching_alloc(a, 40 * MIB, 0), *y = caching_alloc(a, 100 * MIB, 0),
                 *z = caching_alloc(a, 10 * MIB, 0);
    release(a, x);
    release(a, y);
    release(a, z);
    actions(a);
    CHECK(caching_would_release(a, 140 * MIB, 0));
    x = caching_alloc(a, 140 * MIB, 0); /* 100 + 40 MiB are released, the 10 MiB stay */
    CHECK_TEXT(actions(a), "FFSA");
    CHECK_INT(caching_stats(a)->num_alloc_retries, 0);
    y = caching_alloc(a, 60 * MIB, 0);
    CHECK_TEXT(actions(a), "FSA");
    CHECK_INT(caching_stats(a)->num_alloc_retries, 1);
    CHECK(!caching_alloc(a, 1, 0));
    CHECK_TEXT(actions(a), "O");
    CHECK_INT(caching_stats(a)->num_ooms, 1);
    CHECK_INT(caching_stats(a)->num_alloc_retries, 2);
    CHECK_OK(caching_check(a));
}

static void garbage(void)
{
    CachingAllocator *a = with("garbage_collection_threshold:0.5,per_process_memory_fraction:0.5",
                               0, 400 * MIB);
    CachingBlock     *x = caching_alloc(a, 60 * MIB, 0), *y = caching_alloc(a, 30 * MIB, 0);
    release(a, x);
    CHECK_INT(caching_alloc(a, 20 * MIB, 0)->segment->ordinal, 0); /* x is split */
    release(a, y);
    actions(a);
    caching_alloc(a, 70 * MIB, 0); /* 90 MiB reserved, 100 are allowed */
    CHECK_TEXT(actions(a), "SA");
    caching_alloc(a, 60 * MIB, 1); /* 160 > 100: y is the only whole segment that is free */
    CHECK_TEXT(actions(a), "FSA");
    CHECK_OK(caching_check(a));
}

static void expandable(void)
{
    CachingAllocator *a = with("expandable_segments:True", 0, 1000 * MIB);
    CachingBlock     *x = caching_alloc(a, 30 * MIB, 0);
    CHECK_INT(now(a, STAT_RESERVED_BYTES), 40 * MIB);
    CHECK_INT(now(a, STAT_ALLOCATED_BYTES), 30 * MIB);
    CHECK_INT(now(a, STAT_SEGMENT), 0);
    CachingBlock *y = caching_alloc(a, 35 * MIB, 0); /* starts in the free 10 MiB */
    CHECK_INT(y->address - x->address, 30 * MIB);
    CHECK_INT(now(a, STAT_RESERVED_BYTES), 80 * MIB);
    CHECK_TEXT(actions(a), "MAMA");
    CachingBlock *s = caching_alloc(a, 100, 0);
    CHECK_INT(s->segment->ordinal, 1);
    CHECK_INT(now(a, STAT_RESERVED_BYTES), 82 * MIB);
    release(a, x);
    actions(a);
    caching_empty(
        a); /* page 0 of the first; pages that hold y stay; the end of y's last page too */
    CHECK_TEXT(actions(a), "U");
    CHECK_INT(now(a, STAT_RESERVED_BYTES), 62 * MIB);
    x = caching_alloc(a, 25 * MIB, 0); /* the lowest place: page 0 and the free 10 MiB behind it */
    CHECK_INT(x->address, x->segment->address);
    CHECK_INT(now(a, STAT_RESERVED_BYTES), 82 * MIB);
    CHECK_OK(caching_check(a));
    release(a, x);
    release(a, y);
    release(a, s);
    caching_empty(a);
    CHECK_INT(now(a, STAT_RESERVED_BYTES), 0);
    CHECK(!caching_segments(a)); /* ranges without a page are returned */
}

/* A request above the GPU's memory, known or not, leaves nothing behind. */
static void larger_than_a_range(void)
{
    int64_t total[] = { 1000 * MIB, 0 };
    for (int i = 0; i < 2; i++) {
        CachingAllocator *a = with("expandable_segments:True", 0, total[i]);
        CHECK(!caching_alloc(a, (int64_t)1 << 49, 0));
        CHECK_TEXT(actions(a), "O");
        CHECK(!caching_segments(a));
        CHECK(caching_alloc(a, 30 * MIB, 0) != NULL);
        CHECK_OK(caching_check(a));
    }
}

static void settings(void)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        { "max_split_size_mb", "allocator settings 'max_split_size_mb': ':' is expected at ''" },
        { "max_split_size_mb:5", "max_split_size_mb takes 20 or more (MiB), not '5'" },
        { "expandable_segments:yes", "expandable_segments takes True or False, not 'yes'" },
        { "garbage_collection_threshold:1",
          "garbage_collection_threshold takes a number between 0 and 1, not '1'" },
        { "roundup_power2_divisions:3", "roundup_power2_divisions takes powers of two, not '3'" },
        { "backend:cudaMallocAsync", "backend:cudaMallocAsync is not PyTorch's own allocator; only "
                                     "backend:native can be replayed" },
    };
    AllocConf conf;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_INT(alloc_conf_read(bad[i].text, &conf), E_USAGE);
        CHECK_TEXT(err_text(), bad[i].says);
    }
    CHECK_OK(alloc_conf_read(" expandable_segments:True , max_split_size_mb:128,pinned_reserve_"
                             "segment_size_mb:1,large_segment_size_mb:32",
                             &conf));
    CHECK(conf.expandable);
    CHECK_INT(conf.max_split_bytes, 128 * MIB);
    CHECK_INT(conf.large_segment_bytes, 32 * MIB);
}

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

/* Random requests: the state is checked throughout, and nothing remains at the end. */
static void random_requests(void)
{
    static const char *const confs[] = { "",
                                         "expandable_segments:True",
                                         "max_split_size_mb:40",
                                         "roundup_power2_divisions:8",
                                         ("garbage_collection_threshold:0.6,"
                                          "per_process_memory_fraction:0.5"),
                                         "expandable_segments:True,max_split_size_mb:40" };
    enum { LIVE = 60, STEPS = 1500 };
    int n_ooms = 0;
    for (size_t c = 0; c < sizeof confs / sizeof *confs; c++)
        for (uint64_t seed = 0; seed < 8; seed++) {
            Rng               rng = { seed };
            CachingAllocator *a = with(confs[c], seed % 2 ? 1500 * MIB : 0, 4000 * MIB);
            CachingBlock     *live[LIVE] = { NULL }, *later = NULL;
            Err               err = OK;
            for (int i = 0; i < STEPS && !err; i++) {
                uint32_t k = random_below(&rng, LIVE);
                if (live[k] && random_below(&rng, 10) == 0 && !later) {
                    caching_free(a, later = live[k]);
                    live[k] = NULL;
                } else if (live[k]) {
                    release(a, live[k]);
                    live[k] = NULL;
                } else {
                    live[k] = caching_alloc(a, random_size(&rng), random_below(&rng, 2));
                    n_ooms += !live[k];
                }
                if (later && later->state != BLOCK_PENDING) {
                    later = NULL; /* a retry waited for it */
                } else if (later && random_below(&rng, 4) == 0) {
                    caching_free_done(a, later);
                    later = NULL;
                }
                if (random_below(&rng, 200) == 0) {
                    caching_empty(a);
                    later = NULL;
                }
                err = caching_check(a);
            }
            CHECK_OK(err);
            for (int k = 0; k < LIVE; k++)
                if (live[k])
                    release(a, live[k]);
            caching_empty(a);
            CHECK(!caching_segments(a));
            for (int i = 0; i < CACHING_STAT_COUNT; i++)
                CHECK_INT(now(a, (CachingStatId)i), 0);
        }
    CHECK(n_ooms > 0);
}

int main(void)
{
    pool = pool_new(NULL, "test");
    RUN(single_requests);
    RUN(rounding);
    RUN(best_fit);
    RUN(streams_and_pools);
    RUN(deferred_free);
    RUN(max_split);
    RUN(out_of_memory);
    RUN(garbage);
    RUN(expandable);
    RUN(larger_than_a_range);
    RUN(settings);
    RUN(random_requests);
    pool_free(pool);
    return test_end();
}
