/* pace.c -- measures a few kernels, keeps and finds the answer. */
#include "profile/pace.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/json_out.h"
#include "device/memory.h"
#include "profile/node_time.h"
#include "profile/probe.h"
#include "profile/quiet.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PACE_FORMAT "plimsoll-pace-2"

enum {
    PACE_PRODUCT = 256,           /* rows and columns */
    PACE_SIDE = 32,               /* of a convolved map */
    PACE_WIDTH = 64,              /* its channels */
    PACE_BYTES = 32 << 20,        /* more than caches hold */
    PACE_MEMORY = 3 * PACE_BYTES, /* of which two arrays are copied */
    PACE_LARGEST = 100            /* how far from the roofline is believed, either way */
};

/* ---- measuring ---- */

/* Rates of these sizes, as a probe would measure them. */
static double pace_rate(const Profile *measured, RateKind kind, double flops)
{
    double best = 0, nearest = INFINITY;
    for (int32_t i = 0; i < measured->n_rates; i++) {
        const Rate *rate = &measured->rates[i];
        double      apart = fabs(log(rate->flops / flops));
        if (rate->kind == kind && !strcmp(rate->type, "f32") && apart < nearest) {
            nearest = apart;
            best = rate->flops_per_s;
        }
    }
    return best;
}

static double pace_ratio(const Device *device, double flops, double bytes, double seconds)
{
    return seconds * 1e9 / plain_ns(device, flops, bytes);
}

static double pace_bounded(double ratio)
{
    return fmin(fmax(ratio, 1.0 / PACE_LARGEST), PACE_LARGEST);
}

/* Of a large kernel and a small one, which is less efficient. */
static double pace_of_rate(const Device *device, const Profile *measured, RateKind kind,
                           double large, double small)
{
    double a = pace_ratio(device, large, 0, large / pace_rate(measured, kind, large)),
           b = pace_ratio(device, small, 0, small / pace_rate(measured, kind, small));
    return pace_bounded(sqrt(a * b));
}

Err pace_measure(Pool *pool, const Device *device, Pace *pace)
{
    Pool        *work = pool_new(pool, "pace");
    Profile     *measured = NEW(work, Profile);
    ProbeOptions how = { .bandwidth_bytes = PACE_BYTES, .seconds = 0.02, .only_fp32 = true };
    double       product = 2.0 * PACE_PRODUCT * PACE_PRODUCT * PACE_PRODUCT,
           conv = 2.0 * 9 * PACE_SIDE * PACE_SIDE * PACE_WIDTH * PACE_WIDTH;
    how.largest_flops = fmax(product, conv);
    Quiet quiet = quiet_begin();
    *pace = (Pace){ 0 };
    TRY(probe_rates(work, device, &how, measured));
    double moved = 2.0 * PACE_BYTES, rate = measured->bandwidth[measured->n_bandwidth - 1].copy;
    pace->of[RATE_MATMUL] = pace_of_rate(device, measured, RATE_MATMUL, product, product / 64);
    pace->of[RATE_CONV] = pace_of_rate(device, measured, RATE_CONV, conv, conv / 16);
    pace->of[RATE_KINDS] = pace_bounded(pace_ratio(device, 0, moved, moved / rate));
    if (quiet_end(quiet, device->threads))
        pace->mean = cbrt(pace->of[RATE_MATMUL] * pace->of[RATE_CONV] * pace->of[RATE_KINDS]);
    pool_free(work);
    return OK;
}

/* ---- keeping ---- */

static const char *pace_path(Pool *pool, const Device *device)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const char *folder = cache && *cache == '/' ? pool_print(pool, "%s/plimsoll", cache)
                         : home && *home        ? pool_print(pool, "%s/.cache/plimsoll", home)
                                                : NULL;
    uint64_t    key = hash_text(hash_text(HASH_EMPTY, device->model), device->library);
    return folder ? pool_print(pool, "%s/pace-%016llx-%d.json", folder, (unsigned long long)key,
                               device->threads)
                  : NULL;
}

static const char *const pace_keys[] = { "products", "convolutions", "bytes" };

/* mean 0: it is not there, or not of this machine. */
static Pace pace_read(Pool *pool, const char *path, const Device *device)
{
    const Json *json;
    const char *format, *model, *library;
    Pace        pace = { 0 };
    if (!file_exists(path) || json_read(pool, path, 0, &json) ||
        json_need_text(json, "format", &format) || json_need_text(json, "model", &model) ||
        json_need_text(json, "library", &library) || json_need_number(json, "pace", &pace.mean))
        return (Pace){ 0 };
    bool same = !strcmp(format, PACE_FORMAT) && !strcmp(model, device->model) &&
                !strcmp(library, device->library) && pace.mean == pace_bounded(pace.mean);
    for (int i = 0; same && i <= RATE_KINDS; i++)
        same = !json_need_number(json, pace_keys[i], &pace.of[i]) &&
               pace.of[i] == pace_bounded(pace.of[i]);
    return same ? pace : (Pace){ 0 };
}

Err pace_keep(Pool *pool, const Device *device, const Pace *pace)
{
    char        folder[FILE_PATH_MAX];
    const char *path = pace_path(pool, device);
    FileOut     out;
    JsonOut     o;
    if (!path)
        return OK;
    file_folder(path, folder, sizeof folder);
    TRY(folder_make(folder));
    TRY(file_out_init(&out, path));
    json_out_file(&o, &out, JSON_PRETTY);
    json_out_object(&o, NULL);
    json_out_string(&o, "format", PACE_FORMAT);
    json_out_string(&o, "model", device->model);
    json_out_string(&o, "library", device->library);
    json_out_int(&o, "threads", device->threads);
    json_out_number(&o, "pace", pace->mean);
    for (int i = 0; i <= RATE_KINDS; i++)
        json_out_number(&o, pace_keys[i], pace->of[i]);
    json_out_end(&o);
    return file_out_done(&out, json_out_done(&o));
}

Err pace_find(Pool *pool, Device *device)
{
    if (device->kind != DEVICE_CPU || device->profile || device->described)
        return OK;
    const char *path = pace_path(pool, device);
    if (!path)
        return OK;
    Pace         pace = pace_read(pool, path, device);
    MemoryLimits limits = memory_limits();
    if (pace.mean <= 0 && memory_left(&limits) < PACE_MEMORY)
        return OK;
    if (pace.mean <= 0) {
        TRY(pace_measure(pool, device, &pace));
        /* that it cannot be kept is no failure: it is measured again */
        Err unused = pace.mean > 0 ? pace_keep(pool, device, &pace) : OK;
        (void)unused;
    }
    if (pace.mean <= 0)
        return OK;
    Profile *profile = NEW(pool, Profile);
    *profile = (Profile){ .name = device->name, .title = device->model, .pace = pace.mean };
    memcpy(profile->pace_of, pace.of, sizeof pace.of);
    device->profile = profile;
    return OK;
}
