/* point_source.h -- a pointwise program as CUDA C, and its compilation with NVRTC.
 *
 * Needs neither a GPU nor CUDA's headers: a plan can be made, and its kernels compiled, anywhere.
 */
#ifndef OPS_POINTWISE_POINT_SOURCE_H
#define OPS_POINTWISE_POINT_SOURCE_H

#include "ops/pointwise/pointwise.h"

enum { POINT_KERNELS = 1 + 2 * POINT_RESULTS };

typedef struct PointKernel { /* one launch; every kernel takes all operands, results, workspace */
    char     name[16];
    unsigned grid[2], block[2];
} PointKernel;

typedef struct PointSource {
    PointKernel kernel[POINT_KERNELS];
    int         n_kernels;
    int64_t     workspace_bytes; /* partial sums */
    const char *text;
} PointSource;

/* For a GPU with so many multiprocessors; at most max_width elements are read at a time, as far as
 * addresses are aligned. pool NULL: launches and workspace only, no text. */
void point_source(Pool *pool, const Node *n, int multiprocessors, int max_width,
                  PointSource *source);

/* Machine code for compute capability 90, from the cache or by NVRTC. *cached may be NULL. */
Err point_compile(Pool *pool, const char *text, int capability, const void **code, size_t *n,
                  bool *cached);

/* Is NVRTC here? */
bool point_compiler(void);

#endif
