/* snapshot.c -- reads the pickle; unknown keys are ignored, because versions add some. */
#include "torchmem/snapshot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

enum { ADDRESS_BITS = 56, SIZE_BITS = 50 }; /* no GPU has more; sums of them stay within int64 */

typedef struct SnapIn {
    Pool       *pool;
    const char *path;
} SnapIn;

static Err snap_wrong(const SnapIn *in, const char *what)
{
    return fail(E_FORMAT,
                "%s: %s; is it a file of torch.cuda.memory._dump_snapshot with "
                "_record_memory_history on?",
                in->path, what);
}

static int64_t snap_int(const Pickle *from, const char *key)
{
    const Pickle *value = pickle_get(from, key);
    return value && (value->kind == PICKLE_INT || value->kind == PICKLE_BOOL) ? value->integer : 0;
}

static bool snap_in_range(int64_t address, int64_t bytes)
{
    return address >= 0 && !(address >> ADDRESS_BITS) && bytes > 0 && !(bytes >> SIZE_BITS);
}

static bool snap_is(const Pickle *from, const char *key, const char *text)
{
    const Pickle *value = pickle_get(from, key);
    return value && pickle_is_text(value, text);
}

static const Pickle *snap_list(const Pickle *from, const char *key)
{
    const Pickle *value = pickle_get(from, key);
    return value && value->kind == PICKLE_LIST ? value : NULL;
}

static Err snap_block(const SnapIn *in, const Pickle *from, SnapBlock *out)
{
    *out = (SnapBlock){ .address = snap_int(from, "address"),
                        .bytes = snap_int(from, "size"),
                        .requested_bytes = snap_int(from, "requested_size"),
                        .frames = snap_list(from, "frames") };
    if (snap_is(from, "state", "inactive"))
        out->state = BLOCK_FREE;
    else if (snap_is(from, "state", "active_allocated"))
        out->state = BLOCK_ALLOCATED;
    else if (snap_is(from, "state", "active_pending_free") ||
             snap_is(from, "state", "active_awaiting_free"))
        out->state = BLOCK_PENDING;
    else
        return snap_wrong(in, "a block has no known state");
    if (!snap_in_range(out->address, out->bytes) || out->bytes % CACHING_MIN_BLOCK)
        return snap_wrong(in, "a block's size is no multiple of 512");
    return OK;
}

static bool snap_is_private(const Pickle *segment)
{
    const Pickle *id = pickle_get(segment, "segment_pool_id");
    for (uint32_t i = 0; i < 2; i++) {
        const Pickle *number = id ? pickle_item(id, i) : NULL;
        if (number && number->kind == PICKLE_INT && number->integer)
            return true;
    }
    return false;
}

static Err snap_segment(const SnapIn *in, const Pickle *from, SnapSegment *out)
{
    const Pickle *blocks = snap_list(from, "blocks");
    int64_t       next = snap_int(from, "address");
    if (!blocks)
        return snap_wrong(in, "a segment has no blocks");
    *out = (SnapSegment){ .address = next,
                          .bytes = snap_int(from, "total_size"),
                          .stream = snap_int(from, "stream"),
                          .small = snap_is(from, "segment_type", "small"),
                          .expandable = snap_int(from, "is_expandable"),
                          .blocks = NEWN(in->pool, SnapBlock, blocks->n + 1),
                          .n_blocks = (int32_t)blocks->n };
    for (uint32_t i = 0; i < blocks->n; i++) {
        SnapBlock *block = &out->blocks[i];
        TRY(snap_block(in, blocks->items[i], block));
        if (!block->address) /* before 2.1 blocks had no address */
            block->address = next;
        if (block->address != next)
            return snap_wrong(in, "the blocks of a segment do not follow each other");
        next += block->bytes;
    }
    if (next != out->address + out->bytes)
        return snap_wrong(in, "the blocks of a segment do not fill it");
    return OK;
}

static int snap_by_address(const void *a, const void *b)
{
    int64_t x = ((const SnapSegment *)a)->address, y = ((const SnapSegment *)b)->address;
    return (x > y) - (x < y);
}

static Err snap_apart(const SnapIn *in, MemSnapshot *out)
{
    if (out->n_segments)
        qsort(out->segments, (size_t)out->n_segments, sizeof *out->segments, snap_by_address);
    for (int32_t i = 1; i < out->n_segments; i++)
        if (out->segments[i].address < out->segments[i - 1].address + out->segments[i - 1].bytes)
            return snap_wrong(in, "two segments overlap");
    return OK;
}

static Err snap_segments(const SnapIn *in, const Pickle *root, MemSnapshot *out)
{
    const Pickle *list = snap_list(root, "segments");
    if (!list)
        return snap_wrong(in, "it has no list of segments");
    out->segments = NEWN(in->pool, SnapSegment, list->n + 1);
    out->private_segments = NEWN(in->pool, SnapSegment, list->n + 1);
    for (uint32_t i = 0; i < list->n; i++) {
        const Pickle *from = list->items[i];
        if (snap_int(from, "device") != out->device)
            continue;
        if (snap_is_private(from)) {
            out->private_bytes += snap_int(from, "total_size");
            TRY(snap_segment(in, from, &out->private_segments[out->n_private++]));
            continue;
        }
        TRY(snap_segment(in, from, &out->segments[out->n_segments]));
        out->n_segments++;
    }
    return snap_apart(in, out);
}

static int snap_action(const Pickle *entry)
{
    for (int i = 0; i < CACHING_ACTIONS; i++)
        if (snap_is(entry, "action", caching_action_names[i]))
            return i;
    return -1;
}

/* Events of private pools carry their id from 2.12 on; before, only their address tells. */
static bool snap_event_is_private(const MemSnapshot *snap, const Pickle *entry)
{
    int64_t address = snap_int(entry, "addr");
    for (int32_t i = 0; i < snap->n_private; i++) {
        const SnapSegment *s = &snap->private_segments[i];
        if (address >= s->address && address < s->address + s->bytes)
            return true;
    }
    const Pickle *id = pickle_get(entry, "pool_id");
    const Pickle *a = id ? pickle_item(id, 0) : NULL, *b = id ? pickle_item(id, 1) : NULL;
    return a && b && a->kind == PICKLE_INT && b->kind == PICKLE_INT && (a->integer || b->integer);
}

static Err snap_events(const SnapIn *in, const Pickle *trace, MemSnapshot *out)
{
    out->events = NEWN(in->pool, SnapEvent, trace->n + 1);
    for (uint32_t i = 0; i < trace->n; i++) {
        const Pickle *entry = trace->items[i];
        int           action = snap_action(entry);
        if (action == CACHING_SNAPSHOT || snap_event_is_private(out, entry))
            continue;
        if (action < 0) {
            if (pickle_get(entry, "action")) /* user_defined and what later versions add */
                continue;
            return snap_wrong(in, "an event has no action");
        }
        CachingEvent what = { .action = (CachingAction)action,
                              .address = snap_int(entry,
                                                  action == CACHING_OOM ? "device_free" : "addr"),
                              .bytes = snap_int(entry, "size"),
                              .stream = snap_int(entry, "stream") };
        if (!snap_in_range(what.address, what.bytes))
            return snap_wrong(in, "an event has no size");
        out->events[out->n_events++] = (SnapEvent){ what, snap_list(entry, "frames") };
    }
    return OK;
}

static Err snap_trace(const SnapIn *in, const Pickle *root, int device, MemSnapshot *out,
                      const Pickle **trace)
{
    const Pickle *traces = snap_list(root, "device_traces");
    if (!traces)
        return snap_wrong(in, "it has no traces");
    if (device >= 0 && (uint32_t)device >= traces->n)
        return fail(E_USAGE, "%s has traces of %u devices; device %d is not among them", in->path,
                    traces->n, device);
    for (uint32_t i = 0; device < 0 && i < traces->n; i++)
        if (traces->items[i]->n > traces->items[out->device]->n)
            out->device = (int32_t)i;
    if (device >= 0)
        out->device = device;
    *trace = pickle_item(traces, (uint32_t)out->device);
    if (!*trace || (*trace)->kind != PICKLE_LIST || !(*trace)->n)
        return snap_wrong(in, "it has no events");
    return OK;
}

static Err snap_divisions(const SnapIn *in, const Pickle *settings, AllocConf *conf)
{
    const Pickle *table = pickle_get(settings, "roundup_power2_divisions");
    for (int i = 0; table && i < CONF_INTERVALS; i++) {
        char key[16];
        snprintf(key, sizeof key, "%d", 1 << i);
        int64_t n = snap_int(table, key);
        if (n < 0 || n > INT32_MAX || (n & (n - 1)))
            return snap_wrong(in, "roundup_power2_divisions is no power of two");
        conf->roundup_divisions[i] = (int32_t)n;
    }
    return OK;
}

/* The text may be older than what _set_allocator_settings changed; the figures are current. */
static Err snap_settings(const SnapIn *in, const Pickle *root, MemSnapshot *out)
{
    const Pickle *settings = pickle_get(root, "allocator_settings");
    const Pickle *text = settings ? pickle_get(settings, "PYTORCH_CUDA_ALLOC_CONF") : NULL;
    out->conf_text = text && text->kind == PICKLE_TEXT ? text->bytes : "";
    TRY(alloc_conf_read(out->conf_text, &out->conf));
    if (!settings)
        return OK;
    const Pickle *gc = pickle_get(settings, "garbage_collection_threshold");
    if (pickle_get(settings, "max_split_size")) {
        int64_t bytes = snap_int(settings, "max_split_size");
        out->conf.max_split_bytes = bytes > 0 ? bytes : INT64_MAX;
    }
    if (gc && gc->kind == PICKLE_FLOAT && !(gc->number >= 0 && gc->number < 1))
        return snap_wrong(in, "garbage_collection_threshold is no share of the memory");
    if (gc && gc->kind == PICKLE_FLOAT)
        out->conf.gc_threshold = gc->number;
    if (pickle_get(settings, "expandable_segments"))
        out->conf.expandable = snap_int(settings, "expandable_segments");
    return snap_divisions(in, settings, &out->conf);
}

Err snapshot_parse(Pool *pool, const char *name, const void *bytes, size_t n, int device,
                   MemSnapshot *out)
{
    SnapIn     in = { pool, name };
    PickleTree tree;
    *out = (MemSnapshot){ .conf = alloc_conf_default };
    TRY(pickle_parse(pool, name, bytes, n, &tree));
    if (!pickle_dict(tree.root))
        return snap_wrong(&in, "it is no dictionary");
    const Pickle *trace = NULL;
    TRY(snap_trace(&in, tree.root, device, out, &trace));
    TRY(snap_segments(&in, tree.root, out));
    TRY(snap_events(&in, trace, out));
    return snap_settings(&in, tree.root, out);
}

Err snapshot_read(Pool *pool, const char *path, int device, MemSnapshot *out)
{
    MapFile file;
    TRY(file_map(pool, path, &file));
    return snapshot_parse(pool, path, file.bytes, file.n, device, out);
}

/* ---- frames ---- */

static bool frame_is_users(const char *file)
{
    size_t n = strlen(file);
    return n > 3 && !strcmp(file + n - 3, ".py") && !strstr(file, "/torch/") &&
           !strstr(file, "<frozen") && !strstr(file, "/importlib/");
}

const char *snapshot_line(Pool *pool, const Pickle *frames)
{
    for (uint32_t i = 0; frames && i < frames->n; i++) {
        const Pickle *file = pickle_get(frames->items[i], "filename"),
                     *name = pickle_get(frames->items[i], "name");
        if (!file || file->kind != PICKLE_TEXT || !frame_is_users(file->bytes))
            continue;
        return pool_print(pool, "%s:%lld%s%s", file->bytes,
                          (long long)snap_int(frames->items[i], "line"),
                          name && name->kind == PICKLE_TEXT ? " " : "",
                          name && name->kind == PICKLE_TEXT ? name->bytes : "");
    }
    return "";
}
