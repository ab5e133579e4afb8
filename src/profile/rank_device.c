/* rank_device.c -- which wire profile several ranks are planned by. */
#include "profile/rank_device.h"

#include "base/file.h"
#include "base/int_math.h"
#include "profile/profile.h"

#include <omp.h>
#include <string.h>
#include <unistd.h>

enum { GPUS_PER_NODE = 8 };

int device_per_node(const Device *device)
{
    return device->kind == DEVICE_CUDA ? GPUS_PER_NODE : 1;
}

/* A launcher may have bound this rank to some processors; others of the machine are for others. */
static int crowd_cores(const Device *device)
{
    return device->comm ? (int)sysconf(_SC_NPROCESSORS_ONLN) : omp_get_num_procs();
}

double device_crowd(const Device *device)
{
    bool here = device->kind == DEVICE_CPU && !device->described && device->per_node > 1;
    int  cores = here ? crowd_cores(device) : 1, wanted = device->threads * device->per_node;
    return here && wanted > cores ? (double)wanted / cores : 1;
}

/* GPUs on a board of their own are connected by NVLink, others by the bus. */
static const char *wire_of_gpu(const Device *device)
{
    const Profile *profile = device->profile;
    bool           board = strstr(device->model, "SXM") || strstr(device->model, "H200");
    if (!board || !profile)
        return "pcie4";
    return profile->capability >= 9 ? "nvlink4+ib-ndr400" : "nvlink3+ib-hdr200";
}

static const char *wire_assumed(const Device *device, Ranks ranks)
{
    if (device->kind == DEVICE_CUDA)
        return wire_of_gpu(device);
    return ranks.ranks <= ranks.per_node ? "loopback" : "ethernet-100g";
}

/* Measured by probe --wire. One that cannot be read, or lacks a link, is not used. */
static bool wire_measured(Pool *pool, const Device *device, Ranks ranks, Wire **wire)
{
    const char *path = wire_home(pool);
    return device->kind == DEVICE_CPU && !device->described && path && file_exists(path) &&
           !wire_open(pool, path, wire) && !wire_suits(*wire, ranks);
}

Err device_join_ranks(Pool *pool, Device *device, Ranks ranks, const char *name)
{
    Wire *wire;
    ranks.per_node = (int)int_min(ranks.per_node, ranks.ranks);
    if (name || !wire_measured(pool, device, ranks, &wire)) {
        TRY(wire_open(pool, name ? name : wire_assumed(device, ranks), &wire));
        wire->assumed = !name;
    }
    TRY(wire_suits(wire, ranks));
    device->ranks = ranks.ranks;
    device->per_node = ranks.per_node;
    device->wire = wire;
    if (device->kind != DEVICE_CUDA)
        return OK;
    device->wire_bytes = wire_held_bytes(wire, ranks);
    device->runtime_bytes += device->wire_bytes;
    device->memory_bytes -= device->wire_bytes;
    return OK;
}
