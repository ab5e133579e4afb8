/* blas_own.h -- what the parts of the own provider share; for blas_own.c and conv_own.c only. */
#ifndef DEVICE_BLAS_OWN_H
#define DEVICE_BLAS_OWN_H

#include "device/blas.h"

typedef struct OwnPrim OwnPrim;
struct OwnPrim {
    Prim   head;
    void (*run)(const OwnPrim *prim, const PrimArgs *args);
};

Err conv_own(Pool *pool, const ConvDesc *desc, int threads, Prim **prim);

#endif
