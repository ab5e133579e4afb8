/* builtin.h -- what the parts of the own provider share; for its own files and blas.c
 * only. */
#ifndef LINALG_BUILTIN_H
#define LINALG_BUILTIN_H

#include "linalg/linalg.h"

typedef struct BuiltinPrim BuiltinPrim;
struct BuiltinPrim {
    Prim   head;
    void (*run)(const BuiltinPrim *prim, const PrimArgs *args);
};

/* The jobs of a primitive, one a thread. */
typedef void BuiltinJob(const BuiltinPrim *prim, const PrimArgs *args, int job);
void builtin_jobs(const BuiltinPrim *prim, const PrimArgs *args, int threads, BuiltinJob *job_run);

Err conv_builtin(Pool *pool, const ConvDesc *desc, int threads, Prim **prim);
Err conv_builtin_lean(Pool *pool, const ConvDesc *desc, int threads, Prim **prim);

/* Where the own provider is the faster one (docs/PERFORMANCE.md), by shape alone, so that a plan is
 * the same on every run: wide results of short sums, written once; weight gradients of wide strided
 * convolutions. */
bool builtin_pays_matmul(const MatmulDesc *desc);
bool builtin_pays_conv(const ConvDesc *desc);

/* Convolutions onto a few channels, which are the own provider's whoever else is there. */
bool  conv_thin_fits(const ConvDesc *desc, int threads);
Prim *conv_thin(Pool *pool, const ConvDesc *desc, int threads);

/* 3 x 3 convolutions between many channels by Winograd's method: the own provider's too. */
bool  conv_wino_fits(const ConvDesc *desc, int threads);
Prim *conv_wino(Pool *pool, const ConvDesc *desc, int threads);

/* bf16 convolutions between few channels, by a primitive that does conv_widened(desc) in fp32
 * (conv_widen.c). */
bool        conv_widen_fits(const ConvDesc *desc);
ConvDesc    conv_widened(const ConvDesc *desc);
Prim       *conv_widen(Pool *pool, const ConvDesc *desc, const Prim *inner, int threads);
const Backend *conv_widen_backend(void);

#endif
