/* npy.h -- one array in one file, as numpy.save writes it (numpy.lib.format, versions 1.0 to 3.0).
 *
 * Reading maps the file; the data pointer is good until the pool is freed. Little endian, C order
 * only: the error for any other file gives the line of Python that converts it.
 */
#ifndef BASE_NPY_H
#define BASE_NPY_H

#include "base/err.h"
#include "base/file.h"
#include "base/pool.h"

/*        name  descr  bytes */
#define NPY_LIST(X)                                                                                \
    X(F4, "f4", 4)                                                                                 \
    X(F8, "f8", 8)                                                                                 \
    X(F2, "f2", 2)                                                                                 \
    X(I1, "i1", 1)                                                                                 \
    X(I2, "i2", 2)                                                                                 \
    X(I4, "i4", 4)                                                                                 \
    X(I8, "i8", 8)                                                                                 \
    X(U1, "u1", 1)                                                                                 \
    X(U2, "u2", 2)                                                                                 \
    X(B1, "b1", 1)

typedef enum NpyType {
#define X(name, descr, bytes) NPY_##name,
    NPY_LIST(X)
#undef X
        NPY_COUNT
} NpyType;

enum { NPY_MAX_RANK = 32 };

typedef struct Npy {
    NpyType     type;
    int         rank;
    int64_t     shape[NPY_MAX_RANK];
    int64_t     count; /* elements */
    const void *data;
    size_t      n_bytes;
} Npy;

Err  npy_read(Pool *pool, const char *path, Npy *out);
Err  npy_parse(const char *name, const void *bytes, size_t n, Npy *out);
/* The header alone, for numbers that are added as they are made. */
void npy_head_add(FileOut *out, NpyType type, int rank, const int64_t *shape);
Err  npy_write(const char *path, NpyType type, int rank, const int64_t *shape, const void *data);

size_t      npy_type_bytes(NpyType type);
const char *npy_type_name(NpyType type); /* "f4" */

#endif
