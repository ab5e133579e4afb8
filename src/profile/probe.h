/* probe.h -- measures this processor or GPU: bandwidth, and products and convolutions by type and
 * size.
 *
 * Times are the best of several, because other programs can only add to them.
 */
#ifndef PROFILE_PROBE_H
#define PROFILE_PROBE_H

#include "linalg/linalg.h"
#include "profile/profile.h"

typedef struct ProbeOptions {
    int64_t bandwidth_bytes; /* of each array, well above the caches; 0: 128 MiB */
    double  largest_flops;   /* of one product; 0: 2.2e9 */
    double  seconds;         /* for each size; 0: 0.03 */
    bool    only_fp32;       /* no other types */
    void (*progress)(void *arg, double done, const char *text);
    void *progress_arg;
} ProbeOptions;

/* Fills name, title, threads, library, bandwidth, launch and rates. The caller fills memory. */
Err probe_rates(Pool *pool, const Device *device, const ProbeOptions *options, Profile *profile);

/* The same for a GPU, with its memory and its transfers to the host. tf32: the same GPU, opened
 * with TF32. The caller sets the name. */
Err probe_gpu(Pool *pool, const Device *device, const Device *tf32, const ProbeOptions *options,
              Profile *profile);

/* What both measure: a product of square matrices, and a 3x3 convolution of n square maps with as
 * many channels out as in. */
MatmulDesc probe_matmul_desc(int64_t n, Type type);
ConvDesc   probe_conv_desc(int64_t n, int64_t side, int64_t width, Type type);

#endif
