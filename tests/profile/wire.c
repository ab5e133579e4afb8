/* wire.c -- every shipped wire profile loads and names where its figures come from; bad files are
 * refused; a written profile reads back the same; times of transfers by hand. */
#include "profile/profile.h"
#include "profile/rank_device.h"

#include "base/file.h"
#include "base/shipped.h"
#include "base/text.h"
#include "test.h"

#include <unistd.h>

static Pool *pool;

static const char small[] =
    "{\"format\": \"plimsoll-wire-1\", \"name\": \"n\", \"title\": \"t\",\n"
    " \"inside\": {\"latency_us\": 1, \"message_us\": 0.5, \"bytes_per_s\": 4e9, \"shared\": true, "
    "\"peer_bytes\": 100, \"origin\": \"o\"},\n"
    " \"between\": {\"latency_us\": 10, \"message_us\": 2, \"bytes_per_s\": 1e9, \"peer_bytes\": "
    "7, "
    "\"origin\": \"o\"},\n"
    " \"hidden\": {\"share\": 0.25, \"origin\": \"o\"},\n"
    " \"held\": {\"bytes\": 1000, \"origin\": \"o\"}}\n";

static char *with(const char *old, const char *new)
{
    const char *at = strstr(small, old);
    Text        text = { .pool = pool };
    CHECK(at != NULL);
    text_addn(&text, small, at ? (size_t)(at - small) : 0);
    text_add(&text, "%s%s", new, at ? at + strlen(old) : "");
    return text.at;
}

static Err parse(const char *text, Wire **wire)
{
    return wire_parse(pool, "w.json", text, strlen(text), wire);
}

static void refused(const char *old, const char *new, const char *says)
{
    Wire *wire;
    CHECK_INT(parse(with(old, new), &wire), E_FORMAT);
    if (!CHECK(strstr(err_text(), says) != NULL))
        fprintf(stderr, "  %s -> %s said: %s\n", old, new, err_text());
}

static void bad_files(void)
{
    Wire *wire;
    CHECK_OK(parse(small, &wire));
    refused("plimsoll-wire-1", "plimsoll-wire-2", "not plimsoll-wire-1");
    refused("\"title\"", "\"tilte\"", "did you mean 'title'");
    refused("\"latency_us\": 1,", "\"latency_us\": -1,", "w.json:2");
    refused("\"bytes_per_s\": 4e9", "\"bytes_per_s\": 0", "must be above 0");
    refused("\"shared\": true", "\"shared\": 1", "w.json:2");
    refused("\"peer_bytes\": 7", "\"peer_bytes\": -7", "from 0 to 2^60");
    refused("\"origin\": \"o\"", "\"origin\": \"\"", "must not be empty");
    refused("\"share\": 0.25", "\"share\": 1.25", "from 0 to 1");
    refused("\"inside\"", "\"inside_\"", "did you mean 'inside'");
}

static Wire *small_wire(void)
{
    Wire *wire = NULL;
    REQUIRE(parse(small, &wire) == OK);
    return wire;
}

static void one_link(const char *drop, Ranks bad, Ranks good, const char *says)
{
    Wire *wire = small_wire();
    *(strcmp(drop, "inside") ? &wire->between : &wire->inside) = (WireLink){ 0 };
    CHECK_OK(wire_suits(wire, good));
    CHECK_INT(wire_suits(wire, bad), E_USAGE);
    if (!CHECK(strstr(err_text(), says) != NULL))
        fprintf(stderr, "  said: %s\n", err_text());
}

static void links_that_are_missing(void)
{
    one_link("inside", (Ranks){ 4, 2 }, (Ranks){ 4, 1 }, "--per-node 1");
    one_link("between", (Ranks){ 4, 2 }, (Ranks){ 4, 4 }, "--per-node 4");
}

static void times_by_hand(void)
{
    const Wire *wire = small_wire();
    /* two ranks on one machine: one message of 8,000 bytes each, over 4 bytes/ns for both */
    CHECK_NEAR(wire_transfer_ns(wire, (Ranks){ 2, 2 }, 8000), 1000 + 500 + 2 * 8000 / 4., 1e-9);
    /* each on its own: 1 byte/ns for each */
    CHECK_NEAR(wire_transfer_ns(wire, (Ranks){ 2, 1 }, 8000), 10000 + 2000 + 8000, 1e-9);
    /* four, two on each machine: the two parts to the other machine take longest */
    CHECK_NEAR(wire_transfer_ns(wire, (Ranks){ 4, 2 }, 8000), 10000 + 2 * 2000 + 2 * 8000, 1e-9);
    /* 9 MiB are three messages */
    CHECK_NEAR(wire_transfer_ns(wire, (Ranks){ 2, 1 }, 9 << 20), 10000 + 3 * 2000 + (9 << 20),
               1e-6);
    /* nothing to move: the messages are still sent */
    CHECK_NEAR(wire_transfer_ns(wire, (Ranks){ 2, 1 }, 0), 12000, 1e-9);
    /* records: 1, 2, then 1 of 5 ranks */
    CHECK_NEAR(wire_records_ns(wire, (Ranks){ 5, 1 }, 8), 3 * 12000 + 4 * 8, 1e-9);
    CHECK_NEAR(wire_records_ns(wire, (Ranks){ 1, 1 }, 8), 0, 0);
    CHECK_INT(wire_held_bytes(wire, (Ranks){ 4, 2 }), 1000 + 100 + 2 * 7);
}

static bool same_link(const WireLink *a, const WireLink *b)
{
    return a->latency_ns == b->latency_ns && a->message_ns == b->message_ns &&
           a->bytes_per_ns == b->bytes_per_ns && a->shared == b->shared &&
           a->peer_bytes == b->peer_bytes && !strcmp(a->origin, b->origin);
}

static void reads_back(void)
{
    const char *path = pool_print(pool, "test-wire-%d.json", (int)getpid());
    Wire       *wire = small_wire(), *again;
    CHECK_OK(wire_write(wire, path));
    CHECK_OK(wire_open(pool, path, &again));
    CHECK(same_link(&wire->inside, &again->inside));
    CHECK(same_link(&wire->between, &again->between));
    CHECK_NEAR(again->hidden, 0.25, 0);
    CHECK_INT(again->held_bytes, 1000);
    unlink(path);
}

static void shipped_profiles(void)
{
    char **names;
    int    n;
    CHECK_OK(shipped_list(pool, "profiles/wires", ".json", &names, &n));
    CHECK(n >= 5);
    for (int i = 0; i < n; i++) {
        Wire *wire;
        CHECK_OK(wire_open(pool, names[i], &wire));
        CHECK_TEXT(wire->name, names[i]);
        CHECK(wire->inside.bytes_per_ns > 0);
    }
    Wire *none;
    CHECK_INT(wire_open(pool, "loopbak", &none), E_USAGE);
    CHECK(strstr(err_text(), "did you mean 'loopback'") != NULL);
}

static const char *joined(DeviceKind kind, const char *model, Ranks ranks)
{
    Profile profile = { .capability = 9 };
    Device  device = { .kind = kind,
                       .model = model,
                       .described = true,
                       .threads = 1,
                       .profile = &profile,
                       .memory_bytes = (int64_t)1 << 40 };
    CHECK_OK(device_join_ranks(pool, &device, ranks, NULL));
    CHECK(device.wire->assumed);
    CHECK_INT(device.ranks, ranks.ranks);
    CHECK_INT(device.memory_bytes + device.runtime_bytes, (int64_t)1 << 40);
    CHECK_INT(device.runtime_bytes > 0, kind == DEVICE_CUDA);
    return device.wire->name;
}

/* Without --wire: by what the device is. */
static void assumed(void)
{
    CHECK_TEXT(joined(DEVICE_CPU, "a processor", (Ranks){ 2, 2 }), "loopback");
    CHECK_TEXT(joined(DEVICE_CPU, "a processor", (Ranks){ 2, 1 }), "ethernet-100g");
    CHECK_TEXT(joined(DEVICE_CUDA, "NVIDIA H200", (Ranks){ 16, 8 }), "nvlink4+ib-ndr400");
    CHECK_TEXT(joined(DEVICE_CUDA, "NVIDIA L4", (Ranks){ 2, 8 }), "pcie4");
}

int main(void)
{
    pool = pool_new(NULL, "test");
    RUN(bad_files);
    RUN(links_that_are_missing);
    RUN(times_by_hand);
    RUN(reads_back);
    RUN(shipped_profiles);
    RUN(assumed);
    pool_free(pool);
    return test_end();
}
