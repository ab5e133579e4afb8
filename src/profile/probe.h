/* probe.h -- what this processor or GPU really does: bandwidth, products and convolutions by type
 * and size.
 *
 * Times are the best of several: everything else on the machine can only add to them.
 */
#ifndef PROFILE_PROBE_H
#define PROFILE_PROBE_H

#include "linalg/linalg.h"
#include "profile/profile.h"

typedef struct ProbeOptions {
    int64_t bandwidth_bytes;     /* of each array; well above the caches. 0: 128 MiB */
    double  largest_flops;       /* of one product; 0: 2.2e9 */
    double  seconds;             /* for each size; 0: 0.03 */
    void  (*progress)(void *arg, double done, const char *text);
    void   *progress_arg;
} ProbeOptions;

/* Fills name, title, threads, library, bandwidth, launch and rates; memory is the caller's. */
Err probe_rates(Pool *pool, const Device *device, const ProbeOptions *options, Profile *profile);

/* The same of a GPU, its memory and its transfers to the host included; tf32: the GPU opened so.
 * The name is the caller's. */
Err probe_gpu(Pool *pool, const Device *device, const Device *tf32, const ProbeOptions *options,
               Profile *profile);

/* What both time: a product of square factors; a 3x3 convolution of n square maps, as many channels
 * out as in. */
MatmulDesc probe_matmul_desc(int64_t n, Type type);
ConvDesc   probe_conv_desc(int64_t n, int64_t side, int64_t width, Type type);

#endif
