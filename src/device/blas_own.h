/* blas_own.h -- what the parts of the own provider share; for its own files and blas.c
 * only. */
#ifndef DEVICE_BLAS_OWN_H
#define DEVICE_BLAS_OWN_H

#include "device/blas.h"

typedef struct OwnPrim OwnPrim;
struct OwnPrim {
    Prim   head;
    void (*run)(const OwnPrim *prim, const PrimArgs *args);
};

/* The jobs of a primitive, one a thread. */
typedef void OwnJob(const OwnPrim *prim, const PrimArgs *args, int job);
void own_jobs(const OwnPrim *prim, const PrimArgs *args, int threads, OwnJob *job_run);

Err conv_own(Pool *pool, const ConvDesc *desc, int threads, Prim **prim);
Err conv_own_lean(Pool *pool, const ConvDesc *desc, int threads, Prim **prim);

/* Where the own provider is the faster one (docs/PERFORMANCE.md), by shape alone, so that a plan is
 * the same on every run: wide results of short sums, written once; weight gradients of wide strided
 * convolutions. */
bool own_pays_matmul(const MatmulDesc *desc);
bool own_pays_conv(const ConvDesc *desc);

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
const Blas *conv_widen_blas(void);

#endif
