/* layernorm_cuda.h -- norms over the last axis on CUDA: one run, and who launches its kernels.
 *
 * A row stays in the registers of a few lanes of a warp, of a warp, or of a block, depending on its
 * width, so that every byte is read once; wider rows are reread from the cache. Layer norm is the
 * modulated norm with one weight and bias for all rows; scalar_norm has the number s for a weight
 * and adds rstd * m to xhat.
 *
 * A row's time is memory latency. Where it pays, the packs of the next rows are already being
 * copied to shared memory; each thread copies to places only it reads, so that it waits for its own
 * copies alone.
 *
 * Sums over rows (gradients of weight and bias): rows are divided into slices, none of which
 * crosses the end of a sample of the packed tensor. A block keeps the sums of one slice in
 * registers and writes [2][width], dy * xhat and dy; the slices are added in order, in double.
 *
 *   layernorm_cuda.cu              the operators: slices, workspace, sums of slices
 *   layernorm_rows_cuda.h          what the kernels of both directions share
 *   layernorm_forward_cuda.h       forward kernels, compiled for one type each in
 *                                  layernorm_forward_{f32,bf16,f16}_cuda.cu
 *   layernorm_backward_cuda.h      backward kernels, likewise
 */
#ifndef OPS_NORM_LAYERNORM_CUDA_H
#define OPS_NORM_LAYERNORM_CUDA_H

#include "ops/ops_cuda.h"

enum { ROW_THREADS = 256, BACK_THREADS = 128, BLOCK_ROW_THREADS = 512 };

/* Blocks of BACK_THREADS per multiprocessor in a gradient, by the elements of a row in one lane:
 * each element needs x and g in registers, and two sums unless the weight is a scalar. */
__host__ __device__ constexpr int back_blocks(int numbers, bool scalar)
{
    return scalar ? (numbers <= 16   ? 6
                     : numbers <= 24 ? 4
                                     : 3)
                  : (numbers <= 8    ? 6
                     : numbers <= 16 ? 4
                     : numbers <= 24 ? 3
                                     : 2);
}

__host__ __device__ constexpr int forward_blocks(int numbers, bool scalar)
{
    return scalar ? (numbers >= 20 ? 3 : 5) : numbers >= 20 ? 2 : 3;
}

/* Rows that a thread loads ahead of the current one. They go to shared memory and so cost no
 * registers, of which the sums over rows leave few. */
enum { RING = 2, RING_ROOM = 220 * 1024 }; /* RING_ROOM: bytes for the rings of an SM */

/* Bytes of a block's ring in a gradient: x, dy and the summand of dx per row, and the weight.
 * bytes: of a row in one lane. */
__host__ __device__ constexpr int back_ring(int bytes)
{
    return (3 * RING + 1) * bytes * BACK_THREADS;
}

__host__ __device__ constexpr int ring_blocks(int numbers, int bytes)
{
    int held = numbers <= 8 ? 7 : numbers <= 24 ? 4 : numbers <= 32 ? 3 : 2;
    int room = RING_ROOM / (back_ring(bytes) + 2048);
    return held < room ? held : room;
}

typedef struct RowsCuda { /* one run, forward or backward */
    int64_t     rows, width;
    int64_t     per;                /* rows that share weight and bias */
    int64_t     slices, slice_rows; /* slices of each sample, rows of a slice */
    Type        type, type_w;
    const void *x, *dy, *weight, *bias;
    const void *before; /* added to dx, or NULL */
    int64_t     pitch;  /* elements from one sample's weight to the next's */
    float       plus;   /* added to the weight */
    float       eps;
    bool        scalar;    /* weight and bias are the numbers s and m */
    bool        vectors_w; /* weight and bias are aligned for vector loads */
    int         lanes;     /* of a row */
    void       *y;         /* or dx */
    float      *partial;   /* [samples][slices][2][width, or 1 if scalar]; NULL: not wanted */
} RowsCuda;

/* How a row of `count` packs is spread over the lanes of a warp: with the least waste, then with
 * the fewest packs per lane. packs 0: the row is too long. */
typedef struct Team {
    int lanes, packs;
} Team;

static inline Team team_of(int64_t count)
{
    Team best = { 32, 0 };
    for (int lanes = 32; lanes >= 1; lanes /= 2) {
        int64_t packs = ceil_div(count, lanes);
        bool    may = packs <= (lanes == 32 ? 5 : lanes >= 8 ? 3 : 1);
        if (may && (!best.packs || packs * lanes < best.packs * best.lanes))
            best = Team{ lanes, (int)packs };
    }
    return best;
}

/* Launch the kernels for a run whose x is of that type. */
void rows_forward_f32(const Call *call, RowsCuda job);
void rows_forward_bf16(const Call *call, RowsCuda job);
void rows_forward_f16(const Call *call, RowsCuda job);
void rows_backward_f32(const Call *call, RowsCuda job);
void rows_backward_bf16(const Call *call, RowsCuda job);
void rows_backward_f16(const Call *call, RowsCuda job);

#endif
