/* Tests of torchmem/alloc_conf: settings as PyTorch's documentation writes them, and refusals. */
#include "test.h"

#include "torchmem/alloc_conf.h"

#define MIB ((int64_t)1 << 20)

static void defaults(void)
{
    AllocConf conf;
    CHECK_OK(alloc_conf_read(NULL, &conf));
    CHECK(!memcmp(&conf, &alloc_conf_default, sizeof conf));
    CHECK_OK(alloc_conf_read("", &conf));
    CHECK_INT(conf.max_split_bytes, INT64_MAX);
    CHECK_INT(conf.large_segment_bytes, 20 * MIB);
    CHECK(!conf.expandable);
}

static void values(void)
{
    AllocConf conf;
    CHECK_OK(alloc_conf_read("expandable_segments:True, max_split_size_mb:128,"
                             "garbage_collection_threshold:0.8 , per_process_memory_fraction:1,"
                             "max_non_split_rounding_mb:0,large_segment_size_mb:32",
                             &conf));
    CHECK(conf.expandable);
    CHECK_INT(conf.max_split_bytes, 128 * MIB);
    CHECK_NEAR(conf.gc_threshold, 0.8, 0);
    CHECK_NEAR(conf.memory_fraction, 1, 0);
    CHECK_INT(conf.max_rounding_bytes, 0);
    CHECK_INT(conf.large_segment_bytes, 32 * MIB);
    /* keys that move no block, and keys of other versions */
    CHECK_OK(alloc_conf_read("pinned_use_background_threads:True,some_new_key:[a:1,b:2],"
                             "backend:native,max_split_size_mb:20",
                             &conf));
    CHECK_INT(conf.max_split_bytes, 20 * MIB);
}

static void divisions(void)
{
    AllocConf conf;
    CHECK_OK(alloc_conf_read("roundup_power2_divisions:4", &conf));
    for (int i = 0; i < CONF_INTERVALS; i++)
        CHECK_INT(conf.roundup_divisions[i], 4);
    CHECK_OK(alloc_conf_read("roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", &conf));
    CHECK_INT(conf.roundup_divisions[0], 1); /* below the first bound as at it */
    CHECK_INT(conf.roundup_divisions[8], 1); /* 256 MiB */
    CHECK_INT(conf.roundup_divisions[9], 2);
    CHECK_INT(conf.roundup_divisions[10], 4);
    CHECK_INT(conf.roundup_divisions[11], 8);
    CHECK_INT(conf.roundup_divisions[CONF_INTERVALS - 1], 8);
}

static void refused(void)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        { "max_split_size_mb", "':' is expected at ''" },
        { "max_split_size_mb:", "a word is missing" },
        { "max_split_size_mb:128;expandable_segments:True", "max_split_size_mb takes" },
        { "max_split_size_mb:19", "max_split_size_mb takes 20 or more (MiB), not '19'" },
        { "max_split_size_mb:-1", "max_split_size_mb takes a whole number, not '-1'" },
        { "large_segment_size_mb:10", "large_segment_size_mb takes 11 or more" },
        { "garbage_collection_threshold:1", "takes a number between 0 and 1, not '1'" },
        { "garbage_collection_threshold:nan", "takes a number between 0 and 1" },
        { "per_process_memory_fraction:0", "takes a number above 0 and up to 1, not '0'" },
        { "expandable_segments:true", "expandable_segments takes True or False, not 'true'" },
        { "roundup_power2_divisions:3", "takes powers of two, not '3'" },
        { "roundup_power2_divisions:[3:4]", "takes bounds that are powers of two (MiB), not '3'" },
        { "roundup_power2_divisions:[4:4", "']' is expected" },
        { "backend:cudaMallocAsync", "only backend:native can be replayed" },
        { "expandable_segments:True max_split_size_mb:20", "',' is expected" },
    };
    AllocConf conf;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_INT(alloc_conf_read(rows[i].text, &conf), E_USAGE);
        if (!strstr(err_text(), rows[i].says))
            CHECK_TEXT(err_text(), rows[i].says);
    }
}

int main(void)
{
    RUN(defaults);
    RUN(values);
    RUN(divisions);
    RUN(refused);
    return test_end();
}
