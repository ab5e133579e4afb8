/* builtin.h -- shared by the files of the built-in backend; for these and linalg.c only. */
#ifndef LINALG_BUILTIN_H
#define LINALG_BUILTIN_H

#include "linalg/linalg.h"

typedef struct BuiltinPrim BuiltinPrim;
struct BuiltinPrim {
    Prim head;
    void (*run)(const BuiltinPrim *prim, const PrimArgs *args);
};

/* Runs the jobs of a primitive, one per thread. */
typedef void BuiltinJob(const BuiltinPrim *prim, const PrimArgs *args, int job);
void builtin_jobs(const BuiltinPrim *prim, const PrimArgs *args, int threads, BuiltinJob *job_run);

/* Backward data along one axis: what the positions of dx with the remainder `rest` modulo the stride
 * s read. Position rest + s u reads, through taps first + jump j (j < taps), dy at base + u - apart
 * j. */
typedef struct ConvResidue {
    int64_t positions, taps, first, jump, base, apart;
} ConvResidue;
ConvResidue conv_residue_of(const ConvDesc *desc, int axis, int64_t rest);

Err conv_builtin(Pool *pool, const ConvDesc *desc, int threads, Prim **prim);
Err conv_builtin_lean(Pool *pool, const ConvDesc *desc, int threads, Prim **prim);

/* Where the built-in backend is faster than oneDNN (docs/dev/CPU.md). The rule looks at the shape
 * only, so that every run makes the same plan: wide results of short sums, written once; gradients
 * of wide strided convolutions. */
bool builtin_pays_matmul(const MatmulDesc *desc);
bool builtin_pays_conv(const ConvDesc *desc);

/* Convolutions to a few channels: built-in, whichever backend is preferred. */
bool  conv_thin_fits(const ConvDesc *desc, int threads);
Prim *conv_thin(Pool *pool, const ConvDesc *desc, int threads);

/* 3 x 3 convolutions between many channels by Winograd's method: built-in too. */
bool  conv_wino_fits(const ConvDesc *desc, int threads);
Prim *conv_wino(Pool *pool, const ConvDesc *desc, int threads);

/* The same of bf16 operands, where vectors multiply them. */
bool  conv_wino_bf16_fits(const ConvDesc *desc, int threads);
Prim *conv_wino_bf16(Pool *pool, const ConvDesc *desc, int threads);

/* Depthwise convolutions (conv_depth.c); pays: where the built-in kernels are faster than oneDNN's,
 * which are fast for images, forward and, in bf16 or with few taps, for data. */
bool  conv_depth_fits(const ConvDesc *desc);
bool  conv_depth_pays(const ConvDesc *desc);
Prim *conv_depth(Pool *pool, const ConvDesc *desc, int threads);

/* bf16 convolutions between few channels, by a primitive that computes conv_widened(desc) in fp32
 * (conv_widen.c). */
bool           conv_widen_fits(const ConvDesc *desc);
ConvDesc       conv_widened(const ConvDesc *desc);
Prim          *conv_widen(Pool *pool, const ConvDesc *desc, const Prim *inner, int threads);
const Backend *conv_widen_backend(void);

#endif
