/* devices.c -- devices by name: this machine, or one that a profile describes. */
#include "profile/devices.h"

#include "base/file.h"
#include "base/shipped.h"
#include "device/isa.h"
#include "device/memory.h"
#include "linalg/linalg.h"
#include "profile/profile.h"

#include <ctype.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

static const char *cpu_model(Pool *pool)
{
    FILE       *file = fopen("/proc/cpuinfo", "r");
    char        line[256];
    const char *model = "unknown processor";
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, "model name", 10) && strchr(line, ':')) {
            char *text = strchr(line, ':') + 2;
            text[strcspn(text, "\n")] = '\0';
            model = pool_text(pool, text);
            break;
        }
    if (file)
        fclose(file);
    return model;
}

Err device_cpu(Pool *pool, const DeviceOptions *options, Device **out)
{
    static const DeviceOptions defaults = { 0 };
    if (!options)
        options = &defaults;
    Device      *device = NEW(pool, Device);
    int          cores = omp_get_num_procs();
    MemoryLimits limits = memory_limits();

    if (options->threads < 0 || options->threads > 4096)
        return fail(E_USAGE, "--threads must be from 1 to 4096, not %d; this machine has %d cores",
                    options->threads, cores);
    device->kind = DEVICE_CPU;
    device->name = "cpu";
    device->model = cpu_model(pool);
    device->threads = options->threads ? options->threads : cores;
    device->align = 64;
    device->memory_bytes = memory_left(&limits);
    omp_set_dynamic(0);
    omp_set_num_threads(device->threads);

    if (options->backend && strcmp(options->backend, "builtin") &&
        strcmp(options->backend, "onednn"))
        return fail(E_USAGE, "unknown backend '%s'; there are 'onednn' and 'builtin'",
                    options->backend);
    bool builtin = options->backend && !strcmp(options->backend, "builtin");
    device->backend = builtin ? backend_builtin() : backend_dnnl();
    if (!device->backend) {
        if (options->backend)
            return fail(E_DEVICE,
                        "the onednn backend cannot be used: %s; install libdnnl and build again, "
                        "or use --backend builtin",
                        backend_why());
        device->backend = backend_builtin();
    }
    device->library = pool_print(pool, "%s %s, %s", device->backend->name, device->backend->version,
                                 isa_name());
    *out = device;
    return OK;
}

/* This machine's profile, if there is one that was measured with the current libraries and
 * threads. */
static void device_local_profile(Pool *pool, Device *device)
{
    const char *path = profile_home(pool, device->name);
    Profile    *profile;
    if (!path || !file_exists(path))
        return;
    if (profile_read(pool, path, &profile))
        device->profile_note = pool_print(pool, "%s; run plimsoll probe to write it again",
                                          err_text());
    else if (strcmp(profile->title, device->model))
        device->profile_note = pool_print(pool, "%s is for another %s (%s)", path,
                                          device->kind == DEVICE_CPU ? "processor" : "GPU",
                                          profile->title);
    else if (strcmp(profile->library, device->library) || profile->threads != device->threads)
        device->profile_note = pool_print(pool, "%s was measured with %s and %lld threads", path,
                                          profile->library, (long long)profile->threads);
    else
        device->profile = profile;
}

static Err device_processor(Pool *pool, const Profile *profile, const DeviceOptions *options,
                            Device **out)
{
    DeviceOptions with = *options;
    if (with.threads && profile->threads && with.threads != profile->threads)
        return fail(
            E_USAGE,
            "the profile %s holds for %lld threads, not %d; omit --threads, or run plimsoll "
            "probe with it",
            profile->name, (long long)profile->threads, with.threads);
    with.threads = profile->threads ? (int)profile->threads : with.threads;
    TRY(device_cpu(pool, &with, out));
    Device *device = *out;
    device->described = strcmp(profile->title, device->model) != 0;
    device->profile = profile;
    if (device->described) { /* for this machine, the memory free now counts */
        device->name = profile->name;
        device->model = profile->title;
        device->memory_bytes = profile->usable_bytes;
    }
    return OK;
}

/* The GPU's description, as cuDNN writes it, lies beside its profile if there was access to such
 * a GPU. With it, algorithms and their workspaces can be chosen without the GPU. */
static void device_described_kernels(Pool *pool, const Profile *profile,
                                     const DeviceOptions *options, Device *device)
{
    const char *path;
    char       *json;
    size_t      n;
    if (shipped_find(pool, "profiles", ".cudnn", "description",
                     pool_print(pool, "%s-device", profile->name), &path) ||
        file_read(pool, path, &json, &n))
        return;
    if (device_cuda_kernels(pool, options, json, device))
        device->profile_note = pool_print(pool, "workspaces are not included: %s", err_text());
}

/* Copies between GPU and host run at the profile's rates, or at that of the slowest bus in common
 * use (PCIe 3.0 x16, about 12 GB/s). */
static void device_transfers(Device *device)
{
    const Profile *profile = device->profile;
    device->to_host = profile && profile->to_host > 0 ? profile->to_host * 1e-9 : 12;
    device->to_device = profile && profile->to_device > 0 ? profile->to_device * 1e-9 : 12;
}

static Device *device_described(Pool *pool, const Profile *profile, const DeviceOptions *options)
{
    Device *device = NEW(pool, Device);
    *device = (Device){
        .kind = DEVICE_CUDA,
        .name = profile->name,
        .model = profile->title,
        .library = *profile->library ? profile->library : "no libraries",
        .threads = 1,
        .align = 256,
        .memory_bytes = profile->usable_bytes,
        .runtime_bytes = profile->runtime_bytes,
        .profile = profile,
        .tf32 = options->tf32,
        .described = true,
    };
    device_described_kernels(pool, profile, options, device);
    device_transfers(device);
    return device;
}

/* The shipped profile with the name of this machine's GPU: "NVIDIA H200" is h200. */
static void device_shipped_profile(Pool *pool, Device *device)
{
    static const char *const brands[] = { "NVIDIA ", "GeForce " };
    const char              *model = device->model;
    Profile                 *profile;
    for (int i = 0; i < 2; i++)
        if (!strncmp(model, brands[i], strlen(brands[i])))
            model += strlen(brands[i]);
    char *name = pool_text(pool, model);
    for (char *c = name; *c; c++)
        *c = *c == ' ' ? '-' : (char)tolower((unsigned char)*c);
    if (!profile_open(pool, name, &profile) && profile->gpu)
        device->profile = profile;
    else
        device->profile_note = pool_print(pool, "there is no profile called %s", name);
}

/* Pinned pages cannot be swapped out, so at most three quarters of the free memory are used. Whole
 * GiB, so that a plan does not change with every program that starts. */
static int64_t device_pinnable(void)
{
    MemoryLimits limits = memory_limits();
    int64_t      some = memory_left(&limits) / 4 * 3 >> 30 << 30;
    return some > 0 ? some : 1 << 30;
}

Err device_open(Pool *pool, const char *name, const DeviceOptions *options, Device **device)
{
    static const DeviceOptions defaults = { 0 };
    Profile                   *profile;
    if (!options)
        options = &defaults;
    if (!name || !strcmp(name, "cpu")) {
        TRY(device_cpu(pool, options, device));
        device_local_profile(pool, *device);
        return OK;
    }
    if (!strcmp(name, "cuda")) {
        TRY(device_cuda(pool, options, device));
        device_local_profile(pool, *device);
        if (!(*device)->profile)
            device_shipped_profile(pool, *device);
        device_transfers(*device);
        (*device)->host_bytes = device_pinnable();
        return OK;
    }
    TRY(profile_open(pool, name, &profile));
    if (!profile->gpu)
        return device_processor(pool, profile, options, device);
    *device = device_described(pool, profile, options);
    return OK;
}

/* An upper bound on the growth that NVML reported on an H200 once a step was captured: 2 MB for 57
 * launches (an edge processor), 5 for 280 (DiT3D-Tiny), 11 for 532 (DiT3D-S), 21 for 726
 * (lag-32x6), 27 for 1,250 (DiT3D-XL), 40 for 5,000, and 118 for those with copies to the host
 * (STDiff). */
enum { CUDA_GRAPH_BYTES = 3 << 20, LAUNCH_BYTES = 24 << 10 };

void device_expect(Device *device, int64_t launches)
{
    int64_t bytes = CUDA_GRAPH_BYTES + LAUNCH_BYTES * launches;
    if (device->kind != DEVICE_CUDA)
        return;
    device->runtime_bytes += bytes;
    device->memory_bytes -= bytes;
}

int64_t device_runtime_bytes(const Device *device, int64_t arena_bytes)
{
    if (device->kind == DEVICE_CUDA && (device->described || !arena_bytes))
        return device->runtime_bytes;
    if (device->described)
        return device->profile->runtime_bytes;
    int64_t used = resident_bytes();
    if (device->kind != DEVICE_CPU && device->api->used_bytes(device, &used))
        return device->runtime_bytes;
    return used > arena_bytes ? used - arena_bytes : 0;
}

bool device_planned_only(const Device *device)
{
    const Profile *profile = device->profile;
    return device->kind == DEVICE_CUDA && profile && profile->capability > 0 &&
           profile->capability < MIN_CAPABILITY;
}
