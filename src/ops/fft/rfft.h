/* rfft.h -- real Fourier transforms along the length axis, and the tables that all users of fft.h
 * share.
 *
 * Tables are constants of the graph, one for each kind and length. So their bytes are part of the
 * plan, and all layers of one length read the same table.
 */
#ifndef OPS_FFT_RFFT_H
#define OPS_FFT_RFFT_H

#include "ir/op.h"
#include "ops/fft/fft.h"

typedef struct RfftAttr {
    int64_t n;           /* samples */
    float   edge, inner; /* factors of frequencies 0 and n/2, and of those between */
} RfftAttr;

Tensor rfft(Tensor x);             /* (B,L,C) -> (B,L/2+1,C,2), as torch.fft.rfft; f32 */
Tensor irfft(Tensor x, int64_t n); /* (B,n/2+1,C,2) -> (B,n,C), as torch.fft.irfft; f32 */

Tensor fft_table(Graph *graph, FftKind kind, int64_t n);
/* A constant of the whole model with this name, created on first use. */
Tensor table_once(Graph *graph, const char *name, int64_t floats, int64_t n,
                  void (*fill)(int64_t n, float *data));

/* Fails with the nearest valid length if n is not valid. */
Err fft_check_length(const char *op, int64_t n);

Err rfft_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err rfft_cpu(const Call *call);
Err irfft_cpu(const Call *call);

#endif
