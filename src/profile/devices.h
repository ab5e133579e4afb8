/* devices.h -- opening a device: this machine, its GPU, or a machine that a profile describes. */
#ifndef PROFILE_DEVICES_H
#define PROFILE_DEVICES_H

#include "device/device.h"

/* This machine's processor, with the backend that the options name, or the best there is. */
Err device_cpu(Pool *pool, const DeviceOptions *options, Device **device);

/* By name: "cpu" (or NULL): this machine, with the profile that `plimsoll probe` left for it;
 * "cuda"; else a shipped profile's name or a profile's path: a GPU, or a processor, as that
 * describes it. */
Err device_open(Pool *pool, const char *name, const DeviceOptions *options, Device **device);

/* What lies outside the arena: measured in this process, which holds an arena of that many bytes;
 * of a GPU, while none is held, what is stated (device_expect). */
int64_t device_runtime_bytes(const Device *device, int64_t arena_bytes);
/* A GPU also holds CUDA graphs of the launches of a step, and the kernels they need, outside the
 * arena: what so many are known to take is stated and kept free from here on. */
void    device_expect(Device *device, int64_t launches);

#endif
