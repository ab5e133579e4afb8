/* snapshot.c -- fuzz target: a recording of PyTorch's allocator is refused, or replayed under several settings; and
 * those settings as text. The input is used as a file, as settings, and as choices of segments and events, so that
 * the fuzzer gets past the pickle. */
#include "torchmem/replay.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

enum { SEGMENTS = 4, BLOCKS = 4, EVENTS = 40, SETTINGS_MAX = 200 };
#define MIB ((int64_t)1 << 20)

typedef struct Choices {
    const unsigned char *at, *end;
} Choices;

static unsigned choose(Choices *c, unsigned n) { return c->at < c->end ? *c->at++ % n : 0; }

/* ---- pickles ---- */

static void put_text(Text *to, const char *text)
{
    uint32_t n = (uint32_t)strlen(text);
    text_addn(to, "X", 1);
    text_addn(to, (const char *)&n, 4);
    text_addn(to, text, n);
}

static void put_int(Text *to, const char *key, int64_t number)
{
    put_text(to, key);
    text_addn(to, "\x8a\x08", 2);
    text_addn(to, (const char *)&number, 8);
}

static void put_word(Text *to, const char *key, const char *word)
{
    put_text(to, key);
    put_text(to, word);
}

/* ---- a recording ---- */

static const int64_t sizes[] = { 512,  1024,     1 * MIB,  2 * MIB,  20 * MIB,         26 * MIB,
                                 1000, 12 * MIB, 30 * MIB, 18 * MIB, (int64_t)1 << 49, 0,
                                 -512, 5 * MIB };
enum { N_SIZES = sizeof sizes / sizeof *sizes };

static int64_t place(Choices *c)
{
    return ((int64_t)0x7f00 << 32) + (int64_t)choose(c, 8) * (32 * MIB) +
           (choose(c, 3) ? 0 : sizes[choose(c, 6)]);
}

static void put_segments(Choices *c, Text *to)
{
    static const char *const states[] = { "inactive", "active_allocated", "active_pending_free" };
    text_addn(to, "](", 2);
    for (unsigned s = choose(c, SEGMENTS); s > 0; s--) {
        int64_t at = place(c), total = 0, bytes[BLOCKS];
        int     n = 1 + (int)choose(c, BLOCKS);
        for (int i = 0; i < n; i++)
            total += bytes[i] = sizes[choose(c, N_SIZES)] / 512 * 512;
        text_addn(to, "}(", 2);
        put_int(to, "device", choose(c, 16) == 1);
        put_int(to, "address", at);
        put_int(to, "total_size", total);
        put_int(to, "stream", choose(c, 8) == 1);
        put_word(to, "segment_type", choose(c, 2) ? "large" : "small");
        put_int(to, "is_expandable", choose(c, 4) == 1);
        put_text(to, "blocks");
        text_addn(to, "](", 2);
        for (int i = 0; i < n; i++) {
            text_addn(to, "}(", 2);
            put_int(to, "address", at);
            put_int(to, "size", bytes[i]);
            put_int(to, "requested_size", bytes[i]);
            put_word(to, "state", states[choose(c, 3)]);
            text_addn(to, "u", 1);
            at += bytes[i];
        }
        text_addn(to, "eu", 2);
    }
    text_addn(to, "e", 1);
}

static void put_events(Choices *c, Text *to)
{
    text_addn(to, "](](", 4);
    for (unsigned i = 1 + choose(c, EVENTS); i > 0; i--) {
        int64_t at = place(c);
        text_addn(to, "}(", 2);
        put_word(to, "action", caching_action_names[choose(c, CACHING_ACTIONS)]);
        put_int(to, "addr", at);
        put_int(to, "device_free", at);
        put_int(to, "size", sizes[choose(c, N_SIZES)]);
        put_int(to, "stream", choose(c, 8) == 1);
        text_addn(to, "u", 1);
    }
    text_addn(to, "ee", 2);
}

static void put_recording(Choices *c, Text *to)
{
    text_addn(to, "\x80\x02}(", 4);
    put_text(to, "segments");
    put_segments(c, to);
    put_text(to, "device_traces");
    put_events(c, to);
    if (choose(c, 2)) {
        put_text(to, "allocator_settings");
        text_addn(to, "}(", 2);
        put_int(to, "max_split_size", (int64_t)choose(c, 4) * 20 * MIB);
        put_int(to, "expandable_segments", choose(c, 2));
        put_text(to, "garbage_collection_threshold");
        text_addn(to, choose(c, 2) ? "G\x3f\xe0\0\0\0\0\0\0" : "G\x7f\xf8\0\0\0\0\0\0", 9);
        put_text(to, "roundup_power2_divisions");
        text_addn(to, "}(", 2);
        put_int(to, "1", (int64_t)choose(c, 9) - 1);
        put_int(to, "16", (int64_t)choose(c, 9) - 1);
        text_addn(to, "uu", 2);
    }
    text_addn(to, "u.", 2);
}

static void try_recording(const void *bytes, size_t n, const char *settings)
{
    Pool       *pool = pool_new(NULL, "fuzz");
    MemSnapshot snap;
    ReplayAll   all;
    AllocConf   conf;
    const char *confs[] = { "expandable_segments:True", "max_split_size_mb:21", settings };
    if (snapshot_parse(pool, "fuzz", bytes, n, -1, &snap) == OK)
        for (int64_t total = 0; total <= 64 * MIB; total += 64 * MIB) {
            ReplayOptions how = { .total_bytes = total,
                                  .confs = confs,
                                  .n_confs = alloc_conf_read(settings, &conf) ? 2 : 3 };
            if (replay_all(pool, &snap, &how, &all) == OK)
                for (int i = 0; i < all.n_runs; i++) {
                    const CachingStats *s = &all.runs[i].stats;
                    REQUIRE(s->of[STAT_ALLOCATED_BYTES][STAT_ALL].peak <=
                            s->of[STAT_RESERVED_BYTES][STAT_ALL].peak);
                }
        }
    pool_free(pool);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    Pool   *pool = pool_new(NULL, "fuzz");
    Text    text = { .pool = pool };
    Choices c = { bytes, bytes + n };
    char   *settings = pool_textn(pool, (const char *)bytes, n < SETTINGS_MAX ? n : SETTINGS_MAX);
    try_recording(bytes, n, settings);
    put_recording(&c, &text);
    size_t left = (size_t)(c.end - c.at);
    settings = pool_textn(pool, (const char *)c.at, left < SETTINGS_MAX ? left : SETTINGS_MAX);
    try_recording(text.at, text.n, settings);
    pool_free(pool);
    return 0;
}
