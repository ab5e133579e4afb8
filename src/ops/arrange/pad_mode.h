/* pad_mode.h -- padding with a value, by reflection, by repeating edges or around a circle; roll. */
#ifndef OPS_ARRANGE_PAD_MODE_H
#define OPS_ARRANGE_PAD_MODE_H

#include "ir/op.h"
#include "ops/arrange/arrange.h"

typedef enum PadMode { PAD_CONSTANT, PAD_REFLECT, PAD_REPLICATE, PAD_CIRCULAR } PadMode;

typedef struct PadModeAttr {
    PadAttr pad;
    PadMode mode;
    float   value;
} PadModeAttr;

/* Negative widths remove elements first. Reflection needs widths below the extent, a circle at most
 * the extent. `value` is for PAD_CONSTANT. */
Tensor pad_mode(Tensor x, PadAttr attr, PadMode mode, float value);
/* y[i] = x[(i - shift) mod n] along every axis; shift has one number per axis. */
Tensor roll(Tensor x, const int64_t *shift);

typedef struct PadGradAttr {
    PadAttr pad;
    PadMode mode;
    Shape   x;
    Type    type;
} PadGradAttr;

/* Index of x that output index i along an axis of extent n shows; -1: the value. */
#ifdef __CUDACC__
__host__ __device__
#endif
    static inline int64_t
    pad_source(PadMode mode, int64_t i, int64_t before, int64_t n)
{
    int64_t p = i - before;
    if (p >= 0 && p < n)
        return p;
    switch (mode) {
    case PAD_REFLECT: return p < 0 ? -p : 2 * (n - 1) - p;
    case PAD_REPLICATE: return p < 0 ? 0 : n - 1;
    case PAD_CIRCULAR: return p < 0 ? p + n : p - n;
    default: return -1;
    }
}

/* The output indices that show index p of x: p itself, and runs on either side. */
typedef struct PadHits {
    int64_t n, left_n, left, right;
} PadHits;

#ifdef __CUDACC__
__host__ __device__
#endif
    static inline PadHits
    pad_hits(PadMode mode, int64_t p, int64_t before, int64_t n, int64_t total)
{
    PadHits hits = { 1, 0, 0, 0 };
    int64_t first = before + n, right_n = 0; /* first: behind x */
    if (mode == PAD_REPLICATE) {
        hits.left_n = p == 0 ? before : 0;
        right_n = p == n - 1 ? total - first : 0;
        hits.right = first;
    } else if (mode != PAD_CONSTANT) {
        hits.left = mode == PAD_REFLECT ? before - p : p + before - n;
        hits.right = mode == PAD_REFLECT ? before + 2 * (n - 1) - p : p + first;
        hits.left_n = hits.left >= 0 && hits.left < before;
        right_n = hits.right >= first && hits.right < total;
    }
    hits.n += hits.left_n + right_n;
    return hits;
}

#ifdef __CUDACC__
__host__ __device__
#endif
    static inline int64_t
    pad_hit(const PadHits *hits, int64_t p, int64_t before, int64_t k)
{
    return k == 0              ? p + before
           : k <= hits->left_n ? hits->left + k - 1
                               : hits->right + k - 1 - hits->left_n;
}

Err pad_mode_cpu(const Call *call);
Err pad_mode_grad_cpu(const Call *call);

#endif
