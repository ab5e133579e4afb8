/* devices.h -- opens a device: this machine's processor or GPU, or one that a profile describes. */
#ifndef PROFILE_DEVICES_H
#define PROFILE_DEVICES_H

#include "device/device.h"

/* This machine's processor, with the backend that the options name, or the best available. */
Err device_cpu(Pool *pool, const DeviceOptions *options, Device **device);

/* name: "cpu" (or NULL) or "cuda": this machine, with the profile that `plimsoll probe` wrote for
 * it. Otherwise the name of a shipped profile or the path of a profile: the GPU or processor that
 * it describes. */
Err device_open(Pool *pool, const char *name, const DeviceOptions *options, Device **device);

/* Memory outside the arena: measured in this process, which holds an arena of arena_bytes. For a
 * GPU without an arena it is the expected amount (device_expect). */
int64_t device_runtime_bytes(const Device *device, int64_t arena_bytes);
/* Reserves the memory that the CUDA graphs of so many launches, and their kernels, are known to
 * need outside the arena of a GPU. */
void    device_expect(Device *device, int64_t launches);

/* A GPU of an older generation than the kernels are made for: it can be planned for, never run. */
#define MIN_CAPABILITY 8.0
bool device_planned_only(const Device *device);

#endif
