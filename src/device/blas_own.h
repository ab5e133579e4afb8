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

Err conv_own(Pool *pool, const ConvDesc *desc, int threads, Prim **prim);

/* Convolutions onto a few channels, which are the own provider's whoever else is there. */
bool  conv_thin_fits(const ConvDesc *desc, int threads);
Prim *conv_thin(Pool *pool, const ConvDesc *desc, int threads);

#endif
