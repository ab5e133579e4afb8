/* profile.c -- every shipped profile loads and names the origin of its numbers; bad files are
 * refused with the line; a written profile reads back the same; predicted time never falls as work
 * grows. */
#include "profile/profile.h"

#include "base/file.h"
#include "base/shipped.h"
#include "base/text.h"
#include "test.h"

#include <stdlib.h>
#include <unistd.h>

static Pool *pool;

static const char small[] =
    "{\"format\": \"plimsoll-profile-1\", \"name\": \"n\", \"title\": \"t\", \"kind\": \"cpu\", "
    "\"threads\": 2,\n"
    " \"memory\": {\"total_bytes\": 100, \"usable_bytes\": 90, \"runtime_bytes\": 5, \"origin\": "
    "\"o\"},\n"
    " \"bandwidth\": {\"by_threads\": [{\"threads\": 1, \"read\": 1e9, \"write\": 1e9, \"copy\": "
    "1e9}], \"origin\": \"o\"},\n"
    " \"launch\": {\"ns\": 100, \"origin\": \"o\"},\n"
    " \"rates\": [{\"kind\": \"matmul\", \"type\": \"f32\", \"flops\": 1e3, \"flops_per_s\": 1e9, "
    "\"origin\": \"o\"},\n"
    "            {\"kind\": \"matmul\", \"type\": \"f32\", \"flops\": 1e9, \"flops_per_s\": 1e11, "
    "\"origin\": \"o\"}],\n"
    " \"ops\": {\"origin\": \"o\", \"times\": [\n"
    "   {\"op\": \"linear\", \"type\": \"f32\", \"graph\": \"0000000000000001\", \"key\": "
    "\"00000000000000aa\", \"flops\": 1e4, \"bytes\": 10, \"ns\": 5000},\n"
    "   {\"op\": \"linear\", \"type\": \"f32\", \"graph\": \"0000000000000001\", \"key\": "
    "\"00000000000000ab\", \"flops\": 1e6, \"bytes\": 10, \"ns\": 90000},\n"
    "   {\"op\": \"linear\", \"type\": \"f32\", \"graph\": \"0000000000000001\", \"key\": "
    "\"00000000000000ac\", \"flops\": 2e6, \"bytes\": 10, \"ns\": 70000},\n"
    "   {\"op\": \"linear\", \"type\": \"f32\", \"graph\": \"0000000000000001\", \"key\": "
    "\"00000000000000ad\", \"flops\": 1e8, \"bytes\": 10, \"ns\": 900000}],\n"
    "   \"tight\": [{\"graph\": \"0000000000000001\", \"saved\": 0.5, \"ratio\": 0.8}]}}\n";

/* The small profile with the first `old` replaced. */
static char *with(const char *old, const char *new)
{
    const char *at = strstr(small, old);
    CHECK(at != NULL);
    Text text = { .pool = pool };
    text_addn(&text, small, at ? (size_t)(at - small) : 0);
    text_add(&text, "%s%s", new, at ? at + strlen(old) : "");
    return text.at;
}

static Err parse(const char *text, Profile **profile)
{
    return profile_parse(pool, "p.json", text, strlen(text), profile);
}

static void refused(const char *old, const char *new, const char *says)
{
    Profile *profile;
    Err      err = parse(with(old, new), &profile);
    CHECK_INT(err, E_FORMAT);
    if (!CHECK(err && strstr(err_text(), says) != NULL))
        fprintf(stderr, "  %s -> %s said: %s\n", old, new, err ? err_text() : "nothing");
}

static void bad_files(void)
{
    Profile *profile;
    CHECK_OK(parse(small, &profile));
    refused("plimsoll-profile-1", "plimsoll-profile-2", "not plimsoll-profile-1");
    refused("\"title\"", "\"tilte\"", "did you mean 'title'");
    refused("\"cpu\"", "\"cpi\"", "did you mean 'cpu'");
    refused("\"cpu\"", "\"cuda\"", "needs 'transfer'");
    refused("\"usable_bytes\": 90", "\"usable_bytes\": 101", "p.json:2");
    refused("\"usable_bytes\": 90", "\"usable_bytes\": 0", "from 1 to total_bytes");
    refused("\"total_bytes\": 100", "\"total_bytes\": -100", "from 0 to 2^60");
    refused("\"runtime_bytes\": 5", "\"runtime_bytes\": 5.5", "p.json:2");
    refused("\"origin\": \"o\"", "\"origin\": \"\"", "must not be empty");
    refused("\"origin\": \"o\"", "\"orogin\": \"o\"", "did you mean 'origin'");
    refused("\"read\": 1e9", "\"read\": 0", "must be above 0");
    refused("\"copy\": 1e9", "\"copy\": 1e300", "at most 1e21");
    refused("[{\"threads\": 1, \"read\": 1e9, \"write\": 1e9, \"copy\": 1e9}]", "[]",
            "at least one row");
    refused("[{\"threads\": 1, \"read\": 1e9, \"write\": 1e9, \"copy\": 1e9}]", "[7]",
            "must be an object");
    refused("\"kind\": \"matmul\"", "\"kind\": \"matmil\"", "did you mean 'matmul'");
    refused("\"type\": \"f32\"", "\"type\": \"f33\"", "did you mean 'f32'");
    refused("\"threads\": 2", "\"threads\": -1", "from 0 to 4096");
    refused("00000000000000ab", "00000000000000aa", "two times have the key");
    refused("00000000000000ab", "xyz", "16 hexadecimal digits");
    refused("00000000000000ab", "-000000000000ab1", "16 hexadecimal digits");
    refused("\"ns\": 5000", "\"ns\": 0", "must be above 0");
    refused("\"saved\": 0.5", "\"saved\": 1.5", "is a share");
    refused("\"saved\": 0.5", "\"saved\": 0", "must be above 0");
    refused("\"ratio\": 0.8", "\"ration\": 0.8", "did you mean 'ratio'");
    refused("[{\"graph\": \"0000000000000001\", \"saved\"", "[3, {\"saved\"", "must be an object");
    refused("\"launch\"", "\"lunch\"", "did you mean 'launch'");
    for (size_t n = 0; n + 2 < sizeof small; n++) /* truncated anywhere: an error, never a crash */
        CHECK(profile_parse(pool, "cut", small, n, &profile) == E_FORMAT);
}

static void written_reads_back(void)
{
    Profile    *a, *b;
    const char *path = "profile-test.json";
    CHECK_OK(parse(small, &a));
    CHECK_OK(profile_write(a, path));
    CHECK_OK(profile_read(pool, path, &b));
    CHECK_TEXT(b->name, "n");
    CHECK_INT(b->threads, 2);
    CHECK_INT(b->usable_bytes, 90);
    CHECK_INT(b->n_ops, 4);
    CHECK_INT(b->n_rates, 2);
    CHECK(b->ops[1].key == 0xab && b->ops[1].ns == 90000);
    CHECK_TEXT(b->rates[1].origin, "o");
    CHECK_INT(b->n_tight, 1);
    CHECK(b->tight[0].graph == 1 && b->tight[0].saved == 0.5 && b->tight[0].ratio == 0.8);
    unlink(path);
    CHECK_INT(profile_read(pool, path, &b), E_IO);
}

static double time_of(const Profile *p, const char *op, uint64_t key, double flops,
                      TimeBasis *basis)
{
    return profile_ns(
        p, &(OpTime){ .key = key, .op = op, .type = "f32", .flops = flops, .bytes = 10 }, basis);
}

/* A model without a measurement: factor 1. Otherwise linear, and constant beyond what was
 * measured. */
static void tight_arenas(void)
{
    Profile *p;
    CHECK_OK(parse(small, &p));
    CHECK_NEAR(profile_tight(p, 2, 0.4), 1, 0);
    CHECK_NEAR(profile_tight(p, 1, 0), 1, 0);
    CHECK_NEAR(profile_tight(p, 1, -0.1), 1, 0);
    CHECK_NEAR(profile_tight(p, 1, 0.25), 0.9, 1e-12);
    CHECK_NEAR(profile_tight(p, 1, 0.5), 0.8, 1e-12);
    CHECK_NEAR(profile_tight(p, 1, 0.9), 0.8, 1e-12);
    profile_add_tight(pool, p, (Tightness){ 1, 0.5, 1.2 }); /* replaced, not a second one */
    profile_add_tight(pool, p, (Tightness){ 2, 0.2, 0.5 });
    CHECK_INT(p->n_tight, 2);
    CHECK_NEAR(profile_tight(p, 1, 0.5), 1.2, 1e-12);
    CHECK_NEAR(profile_tight(p, 2, 0.1), 0.75, 1e-12);
}

static void times(void)
{
    Profile  *p;
    TimeBasis basis;
    CHECK_OK(parse(small, &p));
    CHECK_NEAR(time_of(p, "linear", 0xac, 1, &basis), 70000, 0); /* measured: that number */
    CHECK_INT(basis, TIME_MEASURED);
    double before = 0;
    for (double flops = 1; flops < 1e12; flops *= 1.07) {
        double ns = time_of(p, "linear", 1, flops, &basis);
        CHECK_INT(basis, TIME_FAMILY);
        CHECK(ns >= before * (1 - 1e-12) && isfinite(ns) && ns > 0);
        before = ns;
    }
    CHECK_NEAR(time_of(p, "linear", 1, 1e4, &basis), 5000, 1e-6); /* through the points */
    double pooled = sqrt(90000.0 * 70000.0); /* two points that fall are pooled */
    CHECK_NEAR(time_of(p, "linear", 1, 1e6, &basis), pooled, 1e-4);
    CHECK_NEAR(time_of(p, "linear", 1, 2e6, &basis), pooled, 1e-4);
    OpTime alike = p->ops[0]; /* the same work by another algorithm */
    alike.key ^= 0x1000;
    CHECK_NEAR(profile_ns(p, &alike, &basis), p->ops[0].ns, 1e-9);
    CHECK_INT(basis, TIME_FAMILY);
    OpTime other = { .key = 1, .op = "linear", .type = "bf16", .flops = 1e4, .bytes = 10 };
    /* measured in fp32 only: its efficiency */
    CHECK_NEAR(profile_ns(p, &other, &basis), 5000, 1e-6);
    CHECK_INT(basis, TIME_FAMILY);
    other.op = "linea";
    profile_ns(p, &other, &basis);
    CHECK_INT(basis, TIME_ROOFLINE);
    other.op = "linear_grad";
    profile_ns(p, &other, &basis);
    CHECK_INT(basis, TIME_ROOFLINE);
    double roofline = time_of(p, "gelu", 1, 1e9, &basis);
    CHECK_INT(basis, TIME_ROOFLINE);
    CHECK_NEAR(roofline, 100 + 1e9 / 1e11 * 1e9, 1);
    CHECK_NEAR(profile_roofline_ns(p, RATE_MATMUL, "f32", 0, 1000), 100 + 1000, 1e-6);
    CHECK_NEAR(profile_roofline_ns(p, RATE_MATMUL, "i32", 0, 0), 100, 1e-9);
    before = 0;
    for (double flops = 1; flops < 1e12; flops *= 1.07) {
        double ns = profile_roofline_ns(p, RATE_MATMUL, "f32", flops, 10);
        CHECK(ns >= before);
        before = ns;
    }
    profile_add_op(pool, p,
                   (OpTime){ .key = 0xac,
                             .graph = 1,
                             .op = "linear",
                             .type = "f32",
                             .flops = 2e6,
                             .bytes = 10,
                             .ns = 95000 });
    profile_ready(pool, p);
    CHECK_INT(p->n_ops, 4); /* replaced, not a second one */
    CHECK_NEAR(time_of(p, "linear", 1, 1e6, &basis), 90000, 1e-6);
    CHECK_NEAR(time_of(p, "linear", 0xac, 1, &basis), 95000, 0);
    OpTime op = { .key = 0xac,
                  .graph = 2,
                  .op = "linear",
                  .type = "f32",
                  .flops = 2e6,
                  .bytes = 10,
                  .ns = 85000 };
    profile_add_op(pool, p, op); /* the same call in another model */
    profile_ready(pool, p);
    CHECK_INT(p->n_ops, 5);
    CHECK_NEAR(profile_ns(p, &op, &basis), 85000, 0);
    op.graph = 1;
    CHECK_NEAR(profile_ns(p, &op, &basis), 95000, 0);
    op.graph = 3; /* in neither: the mean */
    CHECK_NEAR(profile_ns(p, &op, &basis), 90000, 1e-6);
    CHECK_INT(basis, TIME_MEASURED);
}

/* An operator that was not measured, and its kin that was: the roofline is a lower bound, and must
 * not make the operator win. */
static void kin(void)
{
    Profile  *p;
    TimeBasis basis;
    CHECK_OK(parse(small, &p));
    OpTime call = {
        .key = 1, .graph = 1, .op = "linear_other", .type = "f32", .flops = 1e4, .bytes = 10
    };
    double floor_ns = profile_ns(p, &call, &basis);
    CHECK_INT(basis, TIME_ROOFLINE);
    call.kin = "never seen either";
    CHECK_NEAR(profile_ns(p, &call, &basis), floor_ns, 0);
    CHECK_INT(basis, TIME_ROOFLINE);
    call.kin = "linear";
    CHECK_NEAR(profile_ns(p, &call, &basis), 5000, 1e-6); /* as far from its roofline as the kin */
    CHECK_INT(basis, TIME_FAMILY);
    double before = 0;
    for (double flops = 1; flops < 1e12; flops *= 1.07) {
        call.flops = flops;
        double ns = profile_ns(p, &call, &basis);
        CHECK(ns >= before * (1 - 1e-12));
        before = ns;
        for (int32_t i = 0; i < p->n_ops; i++) /* pooled points may be below some calls */
            CHECK(strcmp(p->ops[i].op, "linear") || p->ops[i].flops > flops || ns >= p->ops[i].ns);
    }
    call.flops = 1e4;
    profile_add_op(pool, p,
                   (OpTime){ .key = 7,
                             .graph = 1,
                             .op = "linear_other",
                             .type = "f32",
                             .flops = 1e4,
                             .bytes = 10,
                             .ns = 300 });
    profile_ready(pool, p);
    CHECK_NEAR(profile_ns(p, &call, &basis), 300, 1e-9); /* measured itself */
}

/* Other batches of a measured call keep its distance from the roofline, whatever the family does:
 * n shares of it are not faster than the whole, and a multiple is not slower than its shares. */
static void batches(void)
{
    Profile  *p;
    TimeBasis basis;
    CHECK_OK(parse(small, &p));
    OpTime slow = { .key = 0xae,
                    .graph = 1,
                    .op = "linear",
                    .type = "f32",
                    .flops = 3e7,
                    .bytes = 3e3,
                    .ns = 5e6 }; /* far behind its family */
    profile_add_op(pool, p, slow);
    profile_ready(pool, p);
    for (int n = 2; n <= 16; n++) {
        OpTime share = slow, many = slow;
        share.key = many.key = 1;
        share.flops /= n;
        share.bytes = share.bytes / n + 50; /* every share reads the weights */
        many.flops *= n;
        many.bytes = many.bytes * n - 50 * (n - 1);
        CHECK(n * profile_ns(p, &share, &basis) >= slow.ns * (1 - 1e-12));
        CHECK_INT(basis, TIME_FAMILY);
        CHECK(profile_ns(p, &many, &basis) <= n * slow.ns * (1 + 1e-12));
        share.graph = 9; /* a model that was not measured: the family */
        CHECK(n * profile_ns(p, &share, &basis) < slow.ns);
    }
}

/* Updates share a launch, so the smallest have times near 0. A large one that also keeps an average
 * is predicted from the large one without, not from a small one with an average. */
static void updates(void)
{
    Profile  *p;
    TimeBasis basis;
    CHECK_OK(parse(small, &p));
    OpTime small_kept = {
        .key = 0xb0, .graph = 1, .op = "adam", .type = "bf16", .flops = 8e3, .bytes = 2e4, .ns = 1
    };
    OpTime large = { .key = 0xb1,
                     .graph = 1,
                     .op = "adam",
                     .type = "bf16",
                     .flops = 8e8,
                     .bytes = 1.6e9,
                     .ns = 4e5 };
    profile_add_op(pool, p, small_kept);
    profile_add_op(pool, p, large);
    profile_ready(pool, p);
    OpTime large_kept = large;
    large_kept.key = 0xb2;
    large_kept.bytes = 2e9;
    double ns = profile_ns(p, &large_kept, &basis);
    CHECK_INT(basis, TIME_FAMILY);
    CHECK(ns >= large.ns && ns <= 1.3 * large.ns);
}

static void shipped(void)
{
    char **names;
    int    n, seen = 0;
    CHECK_OK(shipped_list(pool, SOURCE_DIR "/profiles", ".json", &names, &n));
    for (int i = 0; i < n; i++) {
        Profile *p;
        CHECK_OK(
            profile_read(pool, pool_print(pool, SOURCE_DIR "/profiles/%s.json", names[i]), &p));
        CHECK_TEXT(p->name, names[i]);
        CHECK(p->total_bytes >= p->usable_bytes && p->n_rates > 0);
        CHECK(strlen(p->memory_origin) > 20 && strlen(p->bandwidth_origin) > 20 &&
              strlen(p->launch_origin) > 20);
        for (int32_t r = 0; r < p->n_rates; r++)
            CHECK(strlen(p->rates[r].origin) > 20);
        if (p->gpu && strcmp(p->name, "h200")) /* the one measured GPU */
            CHECK(!strstr(p->memory_origin, "measured on an") &&
                  strstr(p->memory_origin, "not measured"));
        seen++;
    }
    CHECK(seen >= 17);
}

static void unknown_names(void)
{
    Profile *p;
    CHECK(!chdir(SOURCE_DIR));
    CHECK_OK(profile_open(pool, "h200", &p));
    CHECK_INT(p->usable_bytes, 149524542576); /* as it was measured last */
    CHECK_INT(profile_open(pool, "rtx3090", &p), E_USAGE);
    CHECK(strstr(err_text(), "did you mean 'rtx-3090'") != NULL);
    CHECK_INT(profile_open(pool, "", &p), E_USAGE);
    CHECK_INT(profile_open(pool, "profiles", &p), E_USAGE); /* a folder is no profile */
    CHECK_INT(profile_open(pool, "README.md", &p), E_FORMAT);
    CHECK_INT(profile_open(pool, "profiles/h200-device.cudnn", &p), E_FORMAT);
}

static void home(void)
{
    setenv("XDG_CONFIG_HOME", "/x", 1);
    CHECK_TEXT(profile_home(pool, "cpu"), "/x/plimsoll/cpu.json");
    setenv("XDG_CONFIG_HOME", "relative", 1); /* the standard: not absolute, not used */
    setenv("HOME", "/h", 1);
    CHECK_TEXT(profile_home(pool, "cuda"), "/h/.config/plimsoll/cuda.json");
    unsetenv("HOME");
    CHECK(profile_home(pool, "cpu") == NULL);
}

int main(void)
{
    pool = pool_new(NULL, "test");
    RUN(bad_files);
    RUN(written_reads_back);
    RUN(times);
    RUN(kin);
    RUN(batches);
    RUN(updates);
    RUN(tight_arenas);
    RUN(shipped);
    RUN(unknown_names);
    RUN(home);
    pool_free(pool);
    return test_end();
}
