/* plugin_cuda_memory.h -- how much of the GPU's memory this process holds. */
#ifndef DEVICE_PLUGIN_CUDA_MEMORY_H
#define DEVICE_PLUGIN_CUDA_MEMORY_H

#include "base/err.h"

#include <stdint.h>

/* Called before this process first uses the GPU at that PCI address. */
void gpu_memory_watch(const char *bus);
Err  gpu_memory_ours(int64_t *used);

#endif
