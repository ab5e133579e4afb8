/* rank_device.h -- a device that is one of several ranks: how they are connected, and what that
 * costs. */
#ifndef PROFILE_RANK_DEVICE_H
#define PROFILE_RANK_DEVICE_H

#include "profile/wire.h"

/* The device becomes one of these ranks. name: a wire profile by name or path; NULL: the one that
 * was measured here, if the device is here, else an assumed one. What its library holds counts as
 * runtime. E_USAGE if the profile lacks a link that these ranks need. */
Err device_join_ranks(Pool *pool, Device *device, Ranks ranks, const char *name);

/* Ranks that share a node unless --per-node says otherwise. */
int device_per_node(const Device *device);

/* How many times as long kernels take because ranks of one node take turns on its processors. */
double device_crowd(const Device *device);

#endif
