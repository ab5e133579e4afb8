/* plugin_cuda_memory.h -- how much of the card's memory this process holds. */
#ifndef DEVICE_PLUGIN_CUDA_MEMORY_H
#define DEVICE_PLUGIN_CUDA_MEMORY_H

#include "base/err.h"

#include <stdint.h>

/* Looks at the card at that address on its bus, before this process takes its first byte there. */
void card_memory_watch(const char *bus);
Err  card_memory_ours(int64_t *used);

#endif
