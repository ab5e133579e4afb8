/* alloc_conf.h -- the settings of PyTorch's CUDA caching allocator, from the text of
 * PYTORCH_CUDA_ALLOC_CONF or PYTORCH_ALLOC_CONF.
 *
 *   expandable_segments:True,max_split_size_mb:128,roundup_power2_divisions:[256:1,512:2,>:8]
 *
 * Keys that do not change where blocks lie (pinned_*, release_lock_on_cudamalloc, ...) are accepted
 * and ignored, as is any other key: versions add keys. backend:cudaMallocAsync is refused, because
 * that allocator is the driver's.
 */
#ifndef TORCHMEM_ALLOC_CONF_H
#define TORCHMEM_ALLOC_CONF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { CONF_INTERVALS = 16 }; /* of roundup_power2_divisions: [1, 2) MiB, [2, 4) MiB, ... */

typedef struct AllocConf {
    int64_t max_split_bytes; /* INT64_MAX: every block may be split */
    int64_t
        max_rounding_bytes; /* a request of max_split_bytes or more takes no block larger by it */
    int64_t large_segment_bytes;
    double  gc_threshold;    /* share of the memory cap; 0: no collection */
    double  memory_fraction; /* cap as a share of the GPU's memory; 1: none */
    bool    expandable;
    int32_t roundup_divisions[CONF_INTERVALS]; /* 0 or 1: round to 512 bytes */
} AllocConf;

extern const AllocConf alloc_conf_default;

/* NULL and "" are the defaults. E_USAGE names the key that is wrong and what it takes. */
Err alloc_conf_read(const char *text, AllocConf *out);

#endif
