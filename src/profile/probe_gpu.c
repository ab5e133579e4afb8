/* probe_gpu.c -- measures a GPU: the largest arena, bandwidths, transfers, rates of products and
 * convolutions. Kernels run in CUDA graphs, as in a step, and are timed by the host. */
#include "profile/probe.h"

#include "base/clock.h"
#include "base/int_math.h"
#include "base/text.h"

#include <math.h>
#include <string.h>

enum {
    FINEST_BYTES = 16 << 20,
    ARRAY_BYTES = 1 << 30,
    TRANSFER_BYTES = 256 << 20,
    CHUNK_BYTES = 4 << 20,
    N_CHUNKS = TRANSFER_BYTES / CHUNK_BYTES,
    CALLS = 16,
    TRIES = 4
};

typedef struct GpuProbe {
    Pool               *pool;
    const Device       *device;
    const ProbeOptions *o;
    Profile            *profile;
    const char         *origin;
} GpuProbe;

static void gpu_tell(const GpuProbe *p, double done, const char *what)
{
    if (p->o->progress)
        p->o->progress(p->o->progress_arg, done, what);
}

static bool gpu_takes(const Device *device, int64_t bytes)
{
    void *base = NULL;
    if (device->api->alloc(device, bytes, &base))
        return false;
    bool good = !device->api->wait(device);
    device->api->free(device, base);
    return good;
}

/* Finds the largest arena that can be allocated: starts with all free memory, goes down in steps of
 * 1/256, then up again by halving steps. */
static Err gpu_memory(GpuProbe *p)
{
    const Device *device = p->device;
    int64_t       all = device->memory_bytes, step = all / 256, tried = all;
    while (!gpu_takes(device, tried)) {
        tried -= step;
        if (tried <= 0)
            return fail(E_DEVICE,
                        "no memory of %s can be taken; another program may hold it "
                        "(nvidia-smi lists them)",
                        device->model);
    }
    for (step /= 2; tried < all && step >= FINEST_BYTES; step /= 2)
        tried += gpu_takes(device, tried + step) ? step : 0;
    p->profile->total_bytes = device->memory_bytes + device->runtime_bytes;
    p->profile->usable_bytes = tried;
    p->profile->runtime_bytes = device->runtime_bytes;
    p->profile->memory_origin = pool_print(p->pool,
                                           "%s: total as the driver reports it; usable: one arena, "
                                           "allocated and cleared; runtime: context and libraries",
                                           p->origin);
    return OK;
}

/* Copies in both directions at once, in chunks of a value's size. The copies of a step overlap in
 * the same way, and a plan must not expect more (H200: 55 GB/s in one direction, 48 in both). */
static Err gpu_exchange(GpuProbe *p, char *gpu, char *host, void *events[N_CHUNKS][2])
{
    const DeviceQueues *queues = p->device->queues;
    for (int64_t i = 0, at = 0, back = TRANSFER_BYTES; i < N_CHUNKS;
         i++, at += CHUNK_BYTES, back += CHUNK_BYTES) {
        TRY(queues->copy(p->device, COPY_TO_HOST, host + at, gpu + at, CHUNK_BYTES, events[i][0]));
        TRY(queues->copy(p->device, COPY_TO_DEVICE, gpu + back, host + back, CHUNK_BYTES,
                         events[i][1]));
    }
    for (int i = 0; i < 2 * N_CHUNKS; i++)
        TRY(queues->join(p->device, events[i / 2][i % 2]));
    return device_wait(p->device);
}

static Err gpu_transfers(GpuProbe *p)
{
    const DeviceQueues *queues = p->device->queues;
    Pool               *work = pool_new(p->pool, "transfers");
    Arena              *arena = NULL;
    void               *host = NULL, *events[N_CHUNKS][2] = { { NULL } };
    double              best = INFINITY;
    Err                 err = arena_new(work, p->device, 2 * TRANSFER_BYTES, &arena);
    err = err ? err : device_host_bytes(work, p->device, 2 * TRANSFER_BYTES, &host);
    for (int i = 0; i < 2 * N_CHUNKS && !err; i++)
        err = queues->event_new(p->device, &events[i / 2][i % 2]);
    for (int i = 0; i < TRIES && !err; i++) {
        double start = clock_now();
        err = gpu_exchange(p, arena->base, host, events);
        best = fmin(best, clock_now() - start);
    }
    for (int i = 0; i < 2 * N_CHUNKS; i++)
        if (events[i / 2][i % 2])
            queues->event_free(p->device, events[i / 2][i % 2]);
    p->profile->to_host = p->profile->to_device = TRANSFER_BYTES / best;
    p->profile->transfer_origin = pool_print(
        p->pool,
        "%s: pinned memory, per direction with both busy, %d MiB in chunks of %d, best of %d",
        p->origin, TRANSFER_BYTES >> 20, CHUNK_BYTES >> 20, TRIES);
    pool_free(work);
    return err;
}

/* The mean time of CALLS calls in one CUDA graph. */
static Err prim_captured(const Device *device, const Prim *prim, const PrimArgs *args,
                         double *seconds)
{
    void *cuda_graph = NULL;
    TRY(prim->backend->run(prim, args)); /* loads the kernels */
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

static Err gpu_prim(GpuProbe *p, const Device *device, RateKind kind, const char *type,
                    const Prim *prim, size_t a, size_t b, size_t y, double flops)
{
    Pool  *work = pool_new(p->pool, "rate");
    size_t sizes[] = { a, b, y, prim->workspace_bytes }, at[4], all = 0;
    double seconds = 1;
    Arena *arena = NULL;
    for (int i = 0; i < 4; i++) {
        at[i] = all;
        all += align_bytes(sizes[i], 256);
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
    VEC_ADD(p->pool, p->profile->rates, p->profile->n_rates, p->profile->cap_rates,
            (Rate){ kind, type, flops, flops / seconds,
                    pool_print(p->pool, "%s, implementation %s", p->origin, prim->impl) });
    return OK;
}

static Err gpu_matmuls(GpuProbe *p, const Device *device, Type type, const char *name)
{
    for (int64_t n = 128; n <= 8192; n *= 2) {
        MatmulDesc  desc = probe_matmul_desc(n, type);
        const Prim *prim;
        size_t      bytes = (size_t)(n * n * type_bytes(type));
        TRY(linalg_matmul(device->backend, &desc, device->threads, &prim));
        TRY(gpu_prim(p, device, RATE_MATMUL, name, prim, bytes, bytes, bytes,
                     2.0 * (double)(n * n * n)));
    }
    return OK;
}

/* 3x3 convolutions over maps of 8 images, from small to large. */
static Err gpu_convs(GpuProbe *p, const Device *device, Type type, const char *name)
{
    static const int64_t sizes[][2] = { { 8, 64 },   { 16, 64 },  { 16, 128 }, { 32, 128 },
                                        { 32, 256 }, { 64, 256 }, { 64, 512 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int64_t     side = sizes[i][0], width = sizes[i][1], n = 8;
        ConvDesc    desc = probe_conv_desc(n, side, width, type);
        const Prim *prim;
        size_t      image = (size_t)(n * side * side * width * type_bytes(type));
        TRY(linalg_conv(device->backend, &desc, device->threads, &prim));
        TRY(gpu_prim(p, device, RATE_CONV, name, prim, image,
                     (size_t)(9 * width * width * type_bytes(type)), image,
                     2.0 * 9 * (double)(n * side * side * width * width)));
    }
    return OK;
}

Err probe_gpu(Pool *pool, const Device *device, const Device *tf32, const ProbeOptions *options,
              Profile *profile)
{
    static const struct {
        Type        type;
        const char *name;
    } kinds[] = {
        { F32, "f32" },
        { F32, "tf32" },
        { BF16, "bf16" },
        { F16, "f16" },
    };
    static const ProbeOptions defaults = { 0 };
    REQUIRE(device->api && device->queues);
    GpuProbe  p = { .pool = pool,
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
    gpu_tell(&p, 0.1, "memory");
    TRY(gpu_memory(&p));
    gpu_tell(&p, 0.3, "bandwidth");
    TRY(device->api->measure(device, ARRAY_BYTES, &bandwidth, &profile->launch_ns));
    VEC_ADD(pool, profile->bandwidth, profile->n_bandwidth, profile->cap_bandwidth, bandwidth);
    profile->bandwidth_origin = pool_print(pool, "%s: built-in kernels over arrays of %lld bytes",
                                           p.origin, (long long)ARRAY_BYTES);
    profile->launch_origin = pool_print(pool, "%s: an empty launch, mean over a CUDA graph of many",
                                        p.origin);
    gpu_tell(&p, 0.4, "transfers");
    TRY(gpu_transfers(&p));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const Device *by = strcmp(kinds[i].name, "tf32") ? device : tf32;
        gpu_tell(&p, 0.5 + 0.1 * (double)i, kinds[i].name);
        TRY(gpu_matmuls(&p, by, kinds[i].type, kinds[i].name));
        TRY(gpu_convs(&p, by, kinds[i].type, kinds[i].name));
    }
    return OK;
}
