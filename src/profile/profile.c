/* profile.c -- plimsoll-profile-1: strict reading, lookup by name, writing. */
#include "profile/profile_int.h"
#include "profile/profile.h"

#include "base/file.h"
#include "base/json_out.h"
#include "base/shipped.h"
#include "ops/ops.h"

#include <stdlib.h>
#include <string.h>

#define PROFILE_FORMAT "plimsoll-profile-1"

static const char *const rate_kinds[] = { "matmul", "conv" };
static const char *const rate_types[] = { "f32", "tf32", "bf16", "f16" };

#define COUNT(list) (int)(sizeof(list) / sizeof *(list))
#define KEYS(...)                                                                                  \
    (const char *const[]){ __VA_ARGS__ }, COUNT(((const char *const[]){ __VA_ARGS__ }))

Err need_amount(const Json *object, const char *key, bool zero, double *out)
{
    TRY(json_need_number(object, key, out));
    if (*out > 1e21 || !(zero ? *out >= 0 : *out >= 1e-9))
        return json_fail(object, json_get(object, key), "'%s' must be %s and at most 1e21", key,
                         zero ? "at least 0" : "above 0");
    return OK;
}

Err need_bytes(const Json *object, const char *key, int64_t *out)
{
    TRY(json_need_int(object, key, out));
    if (*out < 0 || *out > (int64_t)1 << 60)
        return json_fail(object, json_get(object, key), "'%s' must be from 0 to 2^60", key);
    return OK;
}

Err need_words(Pool *pool, const Json *object, const char *key, const char **out)
{
    TRY(json_need_text(object, key, out));
    if (!**out)
        return json_fail(object, json_get(object, key), "'%s' must not be empty", key);
    *out = pool_text(pool, *out);
    return OK;
}

static Err need_choice(const Json *object, const char *key, const char *const *words, int n,
                       int *out)
{
    const char *word;
    TRY(json_need_text(object, key, &word));
    for (*out = 0; *out < n; ++*out)
        if (!strcmp(word, words[*out]))
            return OK;
    const char *near = text_nearest(word, words, n);
    return json_fail(object, json_get(object, key), "'%s' must not be '%s'; did you mean '%s'?",
                     key, word, near ? near : words[0]);
}

static Err need_item(const Json *list, uint32_t i)
{
    return list->items[i].kind == JSON_OBJECT
               ? OK
               : json_fail(list, &list->items[i], "item %u must be an object", i);
}

static Err read_memory(Pool *pool, const Json *root, Profile *profile)
{
    const Json *memory;
    TRY(json_need_object(root, "memory", &memory));
    TRY(json_check_keys(memory, KEYS("total_bytes", "usable_bytes", "runtime_bytes", "origin")));
    TRY(need_bytes(memory, "total_bytes", &profile->total_bytes));
    TRY(need_bytes(memory, "usable_bytes", &profile->usable_bytes));
    TRY(need_bytes(memory, "runtime_bytes", &profile->runtime_bytes));
    if (profile->usable_bytes < 1 || profile->usable_bytes > profile->total_bytes)
        return json_fail(memory, json_get(memory, "usable_bytes"),
                         "'usable_bytes' must be from 1 to total_bytes");
    return need_words(pool, memory, "origin", &profile->memory_origin);
}

static Err read_bandwidth(Pool *pool, const Json *root, Profile *profile)
{
    const Json *bandwidth, *rows;
    TRY(json_need_object(root, "bandwidth", &bandwidth));
    TRY(json_check_keys(bandwidth, KEYS("by_threads", "origin")));
    TRY(need_words(pool, bandwidth, "origin", &profile->bandwidth_origin));
    TRY(json_need_array(bandwidth, "by_threads", &rows));
    if (!rows->n)
        return json_fail(rows, NULL, "'by_threads' must have at least one row");
    for (uint32_t i = 0; i < rows->n; i++) {
        const Json *row = &rows->items[i];
        Bandwidth   b;
        TRY(need_item(rows, i));
        TRY(json_check_keys(row, KEYS("threads", "read", "write", "copy")));
        TRY(need_bytes(row, "threads", &b.threads));
        TRY(need_amount(row, "read", false, &b.read));
        TRY(need_amount(row, "write", false, &b.write));
        TRY(need_amount(row, "copy", false, &b.copy));
        if (i && b.threads <= profile->bandwidth[i - 1].threads)
            return json_fail(row, json_get(row, "threads"), "rows must be in order of 'threads'");
        VEC_ADD(pool, profile->bandwidth, profile->n_bandwidth, profile->cap_bandwidth, b);
    }
    return OK;
}

static Err read_transfer(Pool *pool, const Json *root, Profile *profile)
{
    const Json *transfer = NULL, *launch;
    TRY(json_maybe_object(root, "transfer", &transfer));
    if (transfer) {
        TRY(json_check_keys(transfer, KEYS("to_device", "to_host", "origin")));
        TRY(need_amount(transfer, "to_device", false, &profile->to_device));
        TRY(need_amount(transfer, "to_host", false, &profile->to_host));
        TRY(need_words(pool, transfer, "origin", &profile->transfer_origin));
    } else if (profile->gpu) {
        return json_fail(root, NULL, "a GPU needs 'transfer': {to_device, to_host, origin}");
    }
    TRY(json_need_object(root, "launch", &launch));
    TRY(json_check_keys(launch, KEYS("ns", "origin")));
    TRY(need_amount(launch, "ns", false, &profile->launch_ns));
    return need_words(pool, launch, "origin", &profile->launch_origin);
}

static Err read_rates(Pool *pool, const Json *root, Profile *profile)
{
    const Json *rows;
    TRY(json_need_array(root, "rates", &rows));
    for (uint32_t i = 0; i < rows->n; i++) {
        const Json *row = &rows->items[i];
        Rate        rate;
        int         kind, type;
        TRY(need_item(rows, i));
        TRY(json_check_keys(row, KEYS("kind", "type", "flops", "flops_per_s", "origin")));
        TRY(need_choice(row, "kind", rate_kinds, COUNT(rate_kinds), &kind));
        TRY(need_choice(row, "type", rate_types, COUNT(rate_types), &type));
        TRY(need_amount(row, "flops", true, &rate.flops));
        TRY(need_amount(row, "flops_per_s", false, &rate.flops_per_s));
        TRY(need_words(pool, row, "origin", &rate.origin));
        rate.kind = (RateKind)kind;
        rate.type = rate_types[type];
        VEC_ADD(pool, profile->rates, profile->n_rates, profile->cap_rates, rate);
    }
    return OK;
}

static Err read_digest(const Json *row, const char *name, uint64_t *digest)
{
    const char *text;
    TRY(json_need_text(row, name, &text));
    if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
        return json_fail(row, json_get(row, name), "'%s' must be 16 hexadecimal digits", name);
    *digest = strtoull(text, NULL, 16);
    return OK;
}

static Err read_tight(Pool *pool, const Json *ops, Profile *profile)
{
    const Json *rows = NULL;
    TRY(json_maybe_array(ops, "tight", &rows));
    for (uint32_t i = 0; rows && i < rows->n; i++) {
        const Json *row = &rows->items[i];
        Tightness   tight;
        TRY(need_item(rows, i));
        TRY(json_check_keys(row, KEYS("graph", "saved", "ratio")));
        TRY(read_digest(row, "graph", &tight.graph));
        TRY(need_amount(row, "saved", false, &tight.saved));
        TRY(need_amount(row, "ratio", false, &tight.ratio));
        if (tight.saved > 1)
            return json_fail(row, json_get(row, "saved"), "'saved' is a share and at most 1");
        profile_add_tight(pool, profile, tight);
    }
    return OK;
}

/* An operator that this version does not have is never asked for: its rate does not matter. */
static int rate_of(const char *op)
{
    for (int i = 0; i < OP_COUNT; i++)
        if (!strcmp(ops_all[i]->name, op))
            return ops_all[i]->rate;
    return RATE_MATMUL;
}

static Err read_ops(Pool *pool, const Json *root, Profile *profile)
{
    const Json *ops = NULL, *rows;
    TRY(json_maybe_object(root, "ops", &ops));
    if (!ops)
        return OK;
    TRY(json_check_keys(ops, KEYS("times", "tight", "origin")));
    TRY(read_tight(pool, ops, profile));
    TRY(need_words(pool, ops, "origin", &profile->ops_origin));
    TRY(json_need_array(ops, "times", &rows));
    for (uint32_t i = 0; i < rows->n; i++) {
        const Json *row = &rows->items[i];
        OpTime      op = { 0 };
        TRY(need_item(rows, i));
        TRY(json_check_keys(row, KEYS("op", "type", "key", "graph", "flops", "bytes", "ns")));
        TRY(need_words(pool, row, "op", &op.op));
        op.rate = rate_of(op.op);
        TRY(need_words(pool, row, "type", &op.type));
        TRY(read_digest(row, "key", &op.key));
        TRY(read_digest(row, "graph", &op.graph));
        TRY(need_amount(row, "flops", true, &op.flops));
        TRY(need_amount(row, "bytes", true, &op.bytes));
        TRY(need_amount(row, "ns", false, &op.ns));
        VEC_ADD(pool, profile->ops, profile->n_ops, profile->cap_ops, op);
    }
    profile_ready(pool, profile);
    for (int32_t i = 1; i < profile->n_ops; i++)
        if (profile->ops[i].key == profile->ops[i - 1].key &&
            profile->ops[i].graph == profile->ops[i - 1].graph)
            return json_fail(rows, NULL, "two times have the key %016llx in one graph",
                             (unsigned long long)profile->ops[i].key);
    return OK;
}

static Err profile_from(Pool *pool, const Json *root, Profile **out)
{
    static const char *const kinds[] = { "cpu", "cuda" };
    Profile                 *profile = NEW(pool, Profile);
    const char              *format;
    int                      kind;
    TRY(json_need_text(root, "format", &format));
    if (strcmp(format, PROFILE_FORMAT))
        return json_fail(root, json_get(root, "format"), "the format is '%s', not " PROFILE_FORMAT,
                         format);
    TRY(json_check_keys(root, KEYS("format", "name", "title", "kind", "compute_capability",
                                   "threads", "library", "memory", "bandwidth", "transfer",
                                   "launch", "rates", "ops")));
    TRY(need_words(pool, root, "name", &profile->name));
    TRY(need_words(pool, root, "title", &profile->title));
    TRY(need_choice(root, "kind", kinds, COUNT(kinds), &kind));
    profile->gpu = kind == 1;
    TRY(json_maybe_number(root, "compute_capability", &profile->capability));
    TRY(json_maybe_int(root, "threads", &profile->threads));
    if (profile->threads < 0 || profile->threads > 4096)
        return json_fail(root, json_get(root, "threads"), "'threads' must be from 0 to 4096");
    profile->library = "";
    TRY(json_maybe_text(root, "library", &profile->library));
    profile->library = pool_text(pool, profile->library);
    TRY(read_memory(pool, root, profile));
    TRY(read_bandwidth(pool, root, profile));
    TRY(read_transfer(pool, root, profile));
    TRY(read_rates(pool, root, profile));
    TRY(read_ops(pool, root, profile));
    *out = profile;
    return OK;
}

Err profile_parse(Pool *pool, const char *name, const char *bytes, size_t n, Profile **profile)
{
    Pool       *work = pool_new(NULL, "profile");
    const Json *root;
    Err         err = json_parse(work, name, bytes, n, 0, &root);
    if (!err)
        err = profile_from(pool, root, profile);
    pool_free(work);
    return err;
}

Err profile_read(Pool *pool, const char *path, Profile **profile)
{
    Pool  *work = pool_new(NULL, "profile file");
    char  *bytes;
    size_t n;
    Err    err = file_read(work, path, &bytes, &n);
    if (!err)
        err = profile_parse(pool, path, bytes, n, profile);
    pool_free(work);
    return err;
}

Err profile_open(Pool *pool, const char *name, Profile **profile)
{
    const char *path;
    TRY(shipped_find(pool, "profiles", ".json", "device", name, &path));
    return profile_read(pool, path, profile);
}

const char *profile_home(Pool *pool, const char *device)
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    if (config && *config == '/')
        return pool_print(pool, "%s/plimsoll/%s.json", config, device);
    return home && *home ? pool_print(pool, "%s/.config/plimsoll/%s.json", home, device) : NULL;
}

static void write_rates(JsonOut *o, const Profile *profile)
{
    json_out_array(o, "rates");
    for (int32_t i = 0; i < profile->n_rates; i++) {
        const Rate *rate = &profile->rates[i];
        json_out_object_row(o, NULL);
        json_out_string(o, "kind", rate_kinds[rate->kind]);
        json_out_string(o, "type", rate->type);
        json_out_number(o, "flops", rate->flops);
        json_out_number(o, "flops_per_s", rate->flops_per_s);
        json_out_string(o, "origin", rate->origin);
        json_out_end(o);
    }
    json_out_end(o);
}

static void write_digest(JsonOut *o, const char *name, uint64_t digest)
{
    char text[24];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)digest);
    json_out_string(o, name, text);
}

static void write_ops(JsonOut *o, const Profile *profile)
{
    if (!profile->ops_origin)
        return;
    json_out_object(o, "ops");
    json_out_string(o, "origin", profile->ops_origin);
    json_out_array(o, "times");
    for (int32_t i = 0; i < profile->n_ops; i++) {
        const OpTime *op = &profile->ops[i];
        json_out_object_row(o, NULL);
        json_out_string(o, "op", op->op);
        json_out_string(o, "type", op->type);
        write_digest(o, "key", op->key);
        write_digest(o, "graph", op->graph);
        json_out_number(o, "flops", op->flops);
        json_out_number(o, "bytes", op->bytes);
        json_out_number(o, "ns", op->ns);
        json_out_end(o);
    }
    json_out_end(o);
    json_out_array(o, "tight");
    for (int32_t i = 0; i < profile->n_tight; i++) {
        json_out_object_row(o, NULL);
        write_digest(o, "graph", profile->tight[i].graph);
        json_out_number(o, "saved", profile->tight[i].saved);
        json_out_number(o, "ratio", profile->tight[i].ratio);
        json_out_end(o);
    }
    json_out_end(o);
    json_out_end(o);
}

Err profile_write(const Profile *profile, const char *path)
{
    FileOut file;
    JsonOut o;
    TRY(file_out_init(&file, path));
    json_out_file(&o, &file, JSON_PRETTY);
    json_out_object(&o, NULL);
    json_out_string(&o, "format", PROFILE_FORMAT);
    json_out_string(&o, "name", profile->name);
    json_out_string(&o, "title", profile->title);
    json_out_string(&o, "kind", profile->gpu ? "cuda" : "cpu");
    if (profile->capability > 0)
        json_out_number(&o, "compute_capability", profile->capability);
    json_out_int(&o, "threads", profile->threads);
    json_out_string(&o, "library", profile->library);
    json_out_object(&o, "memory");
    json_out_int(&o, "total_bytes", profile->total_bytes);
    json_out_int(&o, "usable_bytes", profile->usable_bytes);
    json_out_int(&o, "runtime_bytes", profile->runtime_bytes);
    json_out_string(&o, "origin", profile->memory_origin);
    json_out_end(&o);
    json_out_object(&o, "bandwidth");
    json_out_string(&o, "origin", profile->bandwidth_origin);
    json_out_array(&o, "by_threads");
    for (int32_t i = 0; i < profile->n_bandwidth; i++) {
        json_out_object_row(&o, NULL);
        json_out_int(&o, "threads", profile->bandwidth[i].threads);
        json_out_number(&o, "read", profile->bandwidth[i].read);
        json_out_number(&o, "write", profile->bandwidth[i].write);
        json_out_number(&o, "copy", profile->bandwidth[i].copy);
        json_out_end(&o);
    }
    json_out_end(&o);
    json_out_end(&o);
    if (profile->transfer_origin) {
        json_out_object(&o, "transfer");
        json_out_number(&o, "to_device", profile->to_device);
        json_out_number(&o, "to_host", profile->to_host);
        json_out_string(&o, "origin", profile->transfer_origin);
        json_out_end(&o);
    }
    json_out_object(&o, "launch");
    json_out_number(&o, "ns", profile->launch_ns);
    json_out_string(&o, "origin", profile->launch_origin);
    json_out_end(&o);
    write_rates(&o, profile);
    write_ops(&o, profile);
    json_out_end(&o);
    return file_out_done(&file, json_out_done(&o));
}
