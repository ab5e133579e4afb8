/* plugin_cuda_memory.h -- how much of the GPU's memory this process holds. */
#ifndef DEVICE_PLUGIN_CUDA_MEMORY_H
#define DEVICE_PLUGIN_CUDA_MEMORY_H

#include "base/err.h"

#include <stdint.h>

/* Looks at the GPU at that address on its bus, before this process takes its first byte there. */
void gpu_memory_watch(const char *bus);
Err  gpu_memory_ours(int64_t *used);

#endif
