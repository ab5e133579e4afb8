/* wire.c -- plimsoll-wire-1: reading, lookup by name, writing; times of transfers. */
#include "profile/profile_int.h"
#include "profile/wire.h"

#include "base/file.h"
#include "base/int_math.h"
#include "base/json_out.h"
#include "base/shipped.h"
#include "profile/profile.h"

#include <math.h>
#include <string.h>

#define WIRE_FORMAT "plimsoll-wire-1"
#define KEYS(...)                                                                                  \
    (const char *const[]){ __VA_ARGS__ },                                                          \
        (int)(sizeof(const char *const[]){ __VA_ARGS__ } / sizeof(const char *))

enum { WIRE_MESSAGE = 4 << 20 }; /* longer parts travel as several messages (comm/comm.c) */

/* ---- the file ---- */

static Err read_link(Pool *pool, const Json *root, const char *key, WireLink *link)
{
    const Json *object = NULL;
    double      bytes_per_s;
    TRY(json_maybe_object(root, key, &object));
    if (!object)
        return OK;
    TRY(json_check_keys(
        object, KEYS("latency_us", "message_us", "bytes_per_s", "shared", "peer_bytes", "origin")));
    TRY(need_amount(object, "latency_us", true, &link->latency_ns));
    TRY(need_amount(object, "message_us", true, &link->message_ns));
    TRY(need_amount(object, "bytes_per_s", false, &bytes_per_s));
    TRY(json_maybe_bool(object, "shared", &link->shared));
    TRY(need_bytes(object, "peer_bytes", &link->peer_bytes));
    link->latency_ns *= 1e3;
    link->message_ns *= 1e3;
    link->bytes_per_ns = bytes_per_s * 1e-9;
    return need_words(pool, object, "origin", &link->origin);
}

static Err read_hidden(Pool *pool, const Json *root, Wire *wire)
{
    const Json *object;
    TRY(json_need_object(root, "hidden", &object));
    TRY(json_check_keys(object, KEYS("share", "origin")));
    TRY(need_amount(object, "share", true, &wire->hidden));
    if (wire->hidden > 1)
        return json_fail(object, json_get(object, "share"), "'share' must be from 0 to 1");
    return need_words(pool, object, "origin", &wire->hidden_origin);
}

static Err read_held(Pool *pool, const Json *root, Wire *wire)
{
    const Json *object;
    TRY(json_need_object(root, "held", &object));
    TRY(json_check_keys(object, KEYS("bytes", "origin")));
    TRY(need_bytes(object, "bytes", &wire->held_bytes));
    return need_words(pool, object, "origin", &wire->held_origin);
}

static Err wire_from(Pool *pool, const Json *root, Wire **out)
{
    Wire       *wire = NEW(pool, Wire);
    const char *format;
    TRY(json_need_text(root, "format", &format));
    if (strcmp(format, WIRE_FORMAT))
        return json_fail(root, json_get(root, "format"), "the format is '%s', not " WIRE_FORMAT,
                         format);
    TRY(json_check_keys(root,
                        KEYS("format", "name", "title", "inside", "between", "hidden", "held")));
    TRY(need_words(pool, root, "name", &wire->name));
    TRY(need_words(pool, root, "title", &wire->title));
    TRY(read_link(pool, root, "inside", &wire->inside));
    TRY(read_link(pool, root, "between", &wire->between));
    if (wire->inside.bytes_per_ns <= 0 && wire->between.bytes_per_ns <= 0)
        return json_fail(root, NULL, "there must be 'inside', 'between' or both");
    TRY(read_hidden(pool, root, wire));
    TRY(read_held(pool, root, wire));
    *out = wire;
    return OK;
}

Err wire_parse(Pool *pool, const char *name, const char *bytes, size_t n, Wire **wire)
{
    Pool       *work = pool_new(NULL, "wire");
    const Json *root;
    Err         err = json_parse(work, name, bytes, n, 0, &root);
    if (!err)
        err = wire_from(pool, root, wire);
    pool_free(work);
    return err;
}

Err wire_open(Pool *pool, const char *name, Wire **wire)
{
    Pool       *work = pool_new(NULL, "wire file");
    const char *path;
    char       *bytes;
    size_t      n;
    Err         err = shipped_find(work, "profiles/wires", ".json", "wire profile", name, &path);
    err = err ? err : file_read(work, path, &bytes, &n);
    err = err ? err : wire_parse(pool, path, bytes, n, wire);
    pool_free(work);
    return err;
}

static void write_link(JsonOut *o, const char *key, const WireLink *link)
{
    if (link->bytes_per_ns <= 0)
        return;
    json_out_object(o, key);
    json_out_number(o, "latency_us", link->latency_ns * 1e-3);
    json_out_number(o, "message_us", link->message_ns * 1e-3);
    json_out_number(o, "bytes_per_s", link->bytes_per_ns * 1e9);
    json_out_bool(o, "shared", link->shared);
    json_out_int(o, "peer_bytes", link->peer_bytes);
    json_out_string(o, "origin", link->origin);
    json_out_end(o);
}

Err wire_write(const Wire *wire, const char *path)
{
    FileOut file;
    JsonOut o;
    TRY(file_out_init(&file, path));
    json_out_file(&o, &file, JSON_PRETTY);
    json_out_object(&o, NULL);
    json_out_string(&o, "format", WIRE_FORMAT);
    json_out_string(&o, "name", wire->name);
    json_out_string(&o, "title", wire->title);
    write_link(&o, "inside", &wire->inside);
    write_link(&o, "between", &wire->between);
    json_out_object(&o, "hidden");
    json_out_number(&o, "share", wire->hidden);
    json_out_string(&o, "origin", wire->hidden_origin);
    json_out_end(&o);
    json_out_object(&o, "held");
    json_out_int(&o, "bytes", wire->held_bytes);
    json_out_string(&o, "origin", wire->held_origin);
    json_out_end(&o);
    json_out_end(&o);
    return file_out_done(&file, json_out_done(&o));
}

const char *wire_home(Pool *pool) { return profile_home(pool, "wire"); }

/* ---- times ---- */

typedef struct WireEnds { /* of one rank: other ranks on its node, and elsewhere */
    int64_t here, away;
} WireEnds;

static WireEnds wire_ends(Ranks r)
{
    int64_t node = int_min(r.per_node, r.ranks);
    return (WireEnds){ node - 1, r.ranks - node };
}

Err wire_suits(const Wire *wire, Ranks ranks)
{
    WireEnds ends = wire_ends(ranks);
    if (ends.here && wire->inside.bytes_per_ns <= 0)
        return fail(E_USAGE,
                    "the wire profile %s has no link inside a node, and %d ranks share one: give "
                    "--per-node 1, or another --wire",
                    wire->name, (int)ends.here + 1);
    if (ends.away && wire->between.bytes_per_ns <= 0)
        return fail(E_USAGE,
                    "the wire profile %s has no link between nodes, and %d ranks with %d per node "
                    "need one: give --per-node %d, or another --wire",
                    wire->name, ranks.ranks, ranks.per_node, ranks.ranks);
    return OK;
}

static double link_ns(const WireLink *link, int64_t node, int64_t peers, int64_t part_bytes)
{
    double bytes = (double)(peers * part_bytes) * (double)(link->shared ? node : 1);
    double messages = (double)(peers * int_max(ceil_div(part_bytes, WIRE_MESSAGE), 1));
    return peers ? link->latency_ns + messages * link->message_ns + bytes / link->bytes_per_ns : 0;
}

double wire_transfer_ns(const Wire *wire, Ranks ranks, int64_t part_bytes)
{
    WireEnds ends = wire_ends(ranks);
    return fmax(link_ns(&wire->inside, ends.here + 1, ends.here, part_bytes),
                link_ns(&wire->between, ends.here + 1, ends.away, part_bytes));
}

/* In each round a rank sends what it has to one other rank: one record, then two, then four. */
double wire_records_ns(const Wire *wire, Ranks ranks, int64_t record_bytes)
{
    WireEnds ends = wire_ends(ranks);
    double   ns = 0;
    for (int64_t have = 1; have < ranks.ranks; have *= 2) {
        int64_t bytes = int_min(have, ranks.ranks - have) * record_bytes;
        ns += link_ns(ends.away ? &wire->between : &wire->inside, ends.here + 1, 1, bytes);
    }
    return ns;
}

int64_t wire_held_bytes(const Wire *wire, Ranks ranks)
{
    WireEnds ends = wire_ends(ranks);
    return wire->held_bytes + ends.here * wire->inside.peer_bytes +
           ends.away * wire->between.peer_bytes;
}
