/* probe_gpu.c -- what a GPU really has: bytes that can be taken, bandwidths, transfers, rates of
 * products and convolutions. Everything is queued in CUDA graphs, as a step is, and timed from
 * outside. */
#include "profile/probe.h"

#include "base/clock.h"
#include "base/text.h"

#include <math.h>
#include <string.h>

enum {
    FINEST_BYTES = 16 << 20, ARRAY_BYTES = 1 << 30, TRANSFER_BYTES = 256 << 20,
    PIECE_BYTES = 4 << 20, PIECES = TRANSFER_BYTES / PIECE_BYTES,
    CALLS = 16, TRIES = 4
};

typedef struct Gpu {
    Pool         *pool;
    const Device *device;
    const ProbeOptions *o;
    Profile      *profile;
    const char   *origin;
} Gpu;

static void gpu_tell(const Gpu *c, double done, const char *what)
{
    if (c->o->progress)
        c->o->progress(c->o->progress_arg, done, what);
}

static bool gpu_takes(const Device *device, int64_t bytes)
{
    void *base = NULL;
    if (device->api->take(device, bytes, &base))
        return false;
    bool good = !device->api->wait(device);
    device->api->give(device, base);
    return good;
}

/* The largest arena that can be had, found by taking it: from all that is free, down by 1/256 of
 * it, then up again by halves of that. */
static Err gpu_memory(Gpu *c)
{
    const Device *device = c->device;
    int64_t       most = device->memory_bytes, step = most / 256, tried = most;
    while (!gpu_takes(device, tried)) {
        tried -= step;
        if (tried <= 0)
            return fail(E_DEVICE,
                        "no memory of %s can be taken; another program may hold it (nvidia-smi "
                        "lists them)",
                        device->model);
    }
    for (step /= 2; tried < most && step >= FINEST_BYTES; step /= 2)
        tried += gpu_takes(device, tried + step) ? step : 0;
    c->profile->total_bytes = device->memory_bytes + device->runtime_bytes;
    c->profile->usable_bytes = tried;
    c->profile->runtime_bytes = device->runtime_bytes;
    c->profile->memory_origin = pool_print(c->pool,
                                           "%s: total by its driver; usable: one arena, taken and "
                                           "cleared; "
                                           "runtime: context and libraries",
                                           c->origin);
    return OK;
}

/* Both ways at once, in pieces as large as a value: a step's copies out and back overlap, and must
 * not be planned faster than they then are (H200: 55 GB/s one way at a time, 48 so). */
static Err gpu_exchange(Gpu *c, char *gpu, char *host, void *marks[PIECES][2])
{
    const DeviceQueues *queues = c->device->queues;
    for (int64_t i = 0, at = 0, back = TRANSFER_BYTES; i < PIECES;
         i++, at += PIECE_BYTES, back += PIECE_BYTES) {
        TRY(queues->copy(c->device, COPY_TO_HOST, host + at, gpu + at, PIECE_BYTES, marks[i][0]));
        TRY(queues->copy(c->device, COPY_TO_DEVICE, gpu + back, host + back, PIECE_BYTES,
                         marks[i][1]));
    }
    for (int i = 0; i < 2 * PIECES; i++)
        TRY(queues->join(c->device, marks[i / 2][i % 2]));
    return device_wait(c->device);
}

static Err gpu_transfers(Gpu *c)
{
    const DeviceQueues *queues = c->device->queues;
    Pool  *work = pool_new(c->pool, "transfers");
    Arena *arena = NULL;
    void  *host = NULL, *marks[PIECES][2] = { { NULL } };
    double best = INFINITY;
    Err    err = arena_new(work, c->device, 2 * TRANSFER_BYTES, &arena);
    err = err ? err : device_host_bytes(work, c->device, 2 * TRANSFER_BYTES, &host);
    for (int i = 0; i < 2 * PIECES && !err; i++)
        err = queues->event_new(c->device, &marks[i / 2][i % 2]);
    for (int i = 0; i < TRIES && !err; i++) {
        double start = clock_now();
        err = gpu_exchange(c, arena->base, host, marks);
        best = fmin(best, clock_now() - start);
    }
    for (int i = 0; i < 2 * PIECES; i++)
        if (marks[i / 2][i % 2])
            queues->event_free(c->device, marks[i / 2][i % 2]);
    c->profile->to_host = c->profile->to_device = TRANSFER_BYTES / best;
    c->profile->transfer_origin = pool_print(
        c->pool, "%s: pinned memory, each way while both go, %d MiB in pieces of %d, best of %d",
        c->origin, TRANSFER_BYTES >> 20, PIECE_BYTES >> 20, TRIES);
    pool_free(work);
    return err;
}

/* Calls in a row, as one CUDA graph. */
static Err prim_captured(const Device *device, const Prim *prim, const PrimArgs *args,
                         double *seconds)
{
    void *cuda_graph = NULL;
    TRY(prim->backend->run(prim, args));                /* loads its kernels */
    TRY(device->api->capture_begin(device));
    Err err = OK;
    for (int i = 0; i < CALLS && !err; i++)
        err = prim->backend->run(prim, args);
    Err ended = device->api->capture_end(device, &cuda_graph);
    TRY(err ? err : ended);
    *seconds = INFINITY;
    for (int i = 0; i < TRIES && !err; i++) {
        double start = clock_now();
        err = device->api->graph_launch(device, cuda_graph);
        err = err ? err : device_wait(device);
        *seconds = fmin(*seconds, (clock_now() - start) / CALLS);
    }
    device->api->graph_free(device, cuda_graph);
    return err;
}

static Err gpu_prim(Gpu *c, const Device *device, RateKind kind, const char *type,
                     const Prim *prim, size_t a, size_t b, size_t y, double flops)
{
    Pool    *work = pool_new(c->pool, "rate");
    size_t   sizes[] = { a, b, y, prim->workspace_bytes }, at[4], all = 0;
    double   seconds = 1;
    Arena   *arena = NULL;
    for (int i = 0; i < 4; i++) {
        at[i] = all;
        all += (sizes[i] + 255) / 256 * 256;
    }
    Err err = arena_new(work, device, (int64_t)all, &arena);
    if (!err) {
        char    *base = arena->base;
        PrimArgs args = {
            .a = base + at[0], .b = base + at[1], .c = base + at[2], .workspace = base + at[3]
        };
        err = prim_captured(device, prim, &args, &seconds);
    }
    pool_free(work);
    TRY(err);
    VEC_ADD(c->pool, c->profile->rates, c->profile->n_rates, c->profile->cap_rates,
            (Rate){ kind, type, flops, flops / seconds,
                    pool_print(c->pool, "%s, implementation %s", c->origin, prim->impl) });
    return OK;
}

static Err gpu_matmuls(Gpu *c, const Device *device, Type type, const char *name)
{
    for (int64_t n = 128; n <= 8192; n *= 2) {
        MatmulDesc  desc = probe_matmul_desc(n, type);
        const Prim *prim;
        size_t      bytes = (size_t)(n * n * type_bytes(type));
        TRY(linalg_matmul(device->backend, &desc, device->threads, &prim));
        TRY(gpu_prim(c, device, RATE_MATMUL, name, prim, bytes, bytes, bytes,
                      2.0 * (double)(n * n * n)));
    }
    return OK;
}

/* 3x3 over maps of 8 images: width grows as the side shrinks, as down a U-Net; then the widest map
 * of all. */
static Err gpu_convs(Gpu *c, const Device *device, Type type, const char *name)
{
    static const int64_t sizes[][2] = { { 8, 64 },   { 16, 64 },  { 16, 128 }, { 32, 128 },
                                        { 32, 256 }, { 64, 256 }, { 64, 512 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int64_t     side = sizes[i][0], width = sizes[i][1], n = 8;
        ConvDesc    desc = probe_conv_desc(n, side, width, type);
        const Prim *prim;
        size_t      image = (size_t)(n * side * side * width * type_bytes(type));
        TRY(linalg_conv(device->backend, &desc, device->threads, &prim));
        TRY(gpu_prim(c, device, RATE_CONV, name, prim, image,
                      (size_t)(9 * width * width * type_bytes(type)), image,
                      2.0 * 9 * (double)(n * side * side * width * width)));
    }
    return OK;
}

Err probe_gpu(Pool *pool, const Device *device, const Device *tf32, const ProbeOptions *options,
               Profile *profile)
{
    static const struct { Type type; const char *name; } kinds[] = {
        { F32, "f32" }, { F32, "tf32" }, { BF16, "bf16" }, { F16, "f16" },
    };
    static const ProbeOptions defaults = { 0 };
    REQUIRE(device->api && device->queues);
    Gpu c = { .pool = pool,
               .device = device,
               .o = options ? options : &defaults,
               .profile = profile,
               .origin = pool_print(pool, "measured on an %s with %s", device->model,
                                    device->library) };
    Bandwidth bandwidth = { 0 };
    profile->gpu = true;
    profile->title = device->model;
    profile->threads = device->threads;
    profile->library = device->library;
    profile->n_bandwidth = profile->n_rates = 0;
    gpu_tell(&c, 0.1, "memory");
    TRY(gpu_memory(&c));
    gpu_tell(&c, 0.3, "bandwidth");
    TRY(device->api->measure(device, ARRAY_BYTES, &bandwidth, &profile->launch_ns));
    VEC_ADD(pool, profile->bandwidth, profile->n_bandwidth, profile->cap_bandwidth, bandwidth);
    profile->bandwidth_origin = pool_print(pool, "%s: own kernels over arrays of %lld bytes",
                                           c.origin, (long long)ARRAY_BYTES);
    profile->launch_origin = pool_print(
        pool, "%s: one launch that does nothing among many of a recording", c.origin);
    gpu_tell(&c, 0.4, "transfers");
    TRY(gpu_transfers(&c));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const Device *by = strcmp(kinds[i].name, "tf32") ? device : tf32;
        gpu_tell(&c, 0.5 + 0.1 * (double)i, kinds[i].name);
        TRY(gpu_matmuls(&c, by, kinds[i].type, kinds[i].name));
        TRY(gpu_convs(&c, by, kinds[i].type, kinds[i].name));
    }
    return OK;
}
