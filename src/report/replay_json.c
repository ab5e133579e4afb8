/* replay_json.c -- `plimsoll replay --json`. */
#include "report/replay_pages.h"

#include "base/json_out.h"

static void json_stats(JsonOut *o, const CachingStats *stats)
{
    static const char *const pools[STAT_POOLS] = { "all", "small_pool", "large_pool" };
    json_out_object(o, "stats");
    for (int i = 0; i < CACHING_STAT_COUNT; i++)
        for (int p = 0; p < STAT_POOLS; p++) {
            char key[64];
            snprintf(key, sizeof key, "%s.%s.current", caching_stat_names[i], pools[p]);
            json_out_int(o, key, stats->of[i][p].current);
            snprintf(key, sizeof key, "%s.%s.peak", caching_stat_names[i], pools[p]);
            json_out_int(o, key, stats->of[i][p].peak);
        }
    json_out_int(o, "num_alloc_retries", stats->num_alloc_retries);
    json_out_int(o, "num_ooms", stats->num_ooms);
    json_out_int(o, "num_device_alloc", stats->num_device_alloc);
    json_out_int(o, "num_device_free", stats->num_device_free);
    json_out_end(o);
}

static void json_gaps(JsonOut *o, const ReplayRun *run)
{
    json_out_array(o, "fragmentation");
    for (int32_t i = 0; i < run->n_gaps; i++) {
        const ReplayGap *gap = &run->gaps[i];
        json_out_object_row(o, NULL);
        json_out_int(o, "segment", gap->segment);
        json_out_string(o, "pool", gap->small ? "small" : "large");
        json_out_bool(o, "expandable", gap->expandable);
        json_out_int(o, "stream", gap->stream);
        json_out_int(o, "segment_bytes", gap->segment_bytes);
        json_out_int(o, "free_bytes", gap->segment_free_bytes);
        json_out_int(o, "gaps", gap->n_gaps);
        json_out_int(o, "largest_bytes", gap->largest_bytes);
        json_out_int(o, "largest_offset", gap->offset);
        json_out_end(o);
    }
    json_out_end(o);
}

static void json_lines(JsonOut *o, const ReplayRun *run)
{
    json_out_array(o, "live_at_peak");
    for (int32_t i = 0; i < run->n_lines; i++) {
        json_out_object_row(o, NULL);
        json_out_string(o, "line", *run->lines[i].line ? run->lines[i].line : NULL);
        json_out_int(o, "bytes", run->lines[i].bytes);
        json_out_int(o, "blocks", run->lines[i].n);
        json_out_int(o, "largest_bytes", run->lines[i].largest_bytes);
        json_out_end(o);
    }
    json_out_end(o);
}

static void json_run(JsonOut *o, const ReplayAll *all, const ReplayRun *run)
{
    const CachingStats *stats = &run->stats;
    json_out_object(o, NULL);
    json_out_string(o, "conf", run->name);
    json_out_int(o, "reserved_peak_bytes", stats->of[STAT_RESERVED_BYTES][STAT_ALL].peak);
    json_out_int(o, "allocated_peak_bytes", stats->of[STAT_ALLOCATED_BYTES][STAT_ALL].peak);
    json_out_int(o, "saved_bytes", replay_saved(all, run));
    json_out_int(o, "unused_at_peak_bytes", run->unused_bytes);
    json_out_int(o, "reserved_peak_event", run->reserved_peak_event);
    json_out_int(o, "allocated_peak_event", run->allocated_peak_event);
    json_out_bool(o, "fits", run->oom_event < 0);
    if (run->oom_event >= 0) {
        json_out_int(o, "oom_event", run->oom_event);
        json_out_int(o, "oom_request_bytes", run->oom_bytes);
    }
    json_out_int(o, "ooms_recorded", run->n_recorded_ooms);
    json_out_int(o, "ooms_avoided", run->n_avoided_ooms);
    json_stats(o, stats);
    json_gaps(o, run);
    json_out_int(o, "live_blocks_at_peak", run->n_live);
    json_lines(o, run);
    json_out_end(o);
}

static void json_event(JsonOut *o, const char *key, const CachingEvent *e)
{
    if (e->action == CACHING_ACTIONS) { /* the sequence ended */
        json_out_null(o, key);
        return;
    }
    json_out_object_row(o, key);
    json_out_string(o, "action", caching_action_names[e->action]);
    json_out_int(o, "address", e->address);
    json_out_int(o, "bytes", e->bytes);
    json_out_int(o, "stream", e->stream);
    json_out_end(o);
}

static void json_check(JsonOut *o, const ReplayDifference *check)
{
    json_out_object(o, "check");
    json_out_int(o, "events", check->n_events);
    json_out_int(o, "events_equal", check->n_equal);
    json_out_bool(o, "all_equal", check->equal);
    json_out_bool(o, "end_equal", check->ends_equal);
    if (!check->equal) {
        json_event(o, "first_recorded", &check->recorded);
        json_event(o, "first_replayed", &check->ours);
    }
    if (!check->ends_equal)
        json_out_string(o, "end_difference", check->end_text);
    json_out_end(o);
}

Err replay_json(FILE *to, const ReplayAll *all)
{
    JsonOut o;
    json_out_stream(&o, to, JSON_PRETTY);
    json_out_object(&o, NULL);
    json_out_int(&o, "device", all->snap->device);
    json_out_int(&o, "events", all->snap->n_events);
    json_out_int(&o, "reserved_at_start_bytes", all->start_bytes);
    json_out_int(&o, "private_pools_bytes", all->snap->private_bytes);
    if (all->capacity_bytes)
        json_out_int(&o, "capacity_bytes", all->capacity_bytes);
    else
        json_out_null(&o, "capacity_bytes");
    json_check(&o, &all->check);
    json_out_array(&o, "runs");
    for (int32_t i = 0; i < all->n_runs; i++)
        json_run(&o, all, &all->runs[i]);
    json_out_end(&o);
    json_out_end(&o);
    return json_out_done(&o);
}
