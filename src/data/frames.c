/* frames.c -- numbers of .npy files. */
#include "data/frames.h"

#include "base/file.h"
#include "device/convert.h"

#include <math.h>
#include <string.h>

float npy_number(const Npy *a, int64_t i) /* memcpy: numbers need not be aligned */
{
    const char *at = (const char *)a->data + i * (int64_t)npy_type_bytes(a->type);
    union {
        double   d;
        float    f;
        uint16_t u2;
        int16_t  i2;
        int32_t  i4;
        int64_t  i8;
    } x;
    switch (a->type) {
    case NPY_F8: memcpy(&x.d, at, 8); return (float)x.d;
    case NPY_F2: convert_rows(F32, &x.f, F16, memcpy(&x.u2, at, 2), 1); return x.f;
    case NPY_I8: memcpy(&x.i8, at, 8); return (float)x.i8;
    case NPY_I4: memcpy(&x.i4, at, 4); return (float)x.i4;
    case NPY_I2: memcpy(&x.i2, at, 2); return (float)x.i2;
    case NPY_U2: memcpy(&x.u2, at, 2); return (float)x.u2;
    case NPY_I1: return (float)*(const int8_t *)at;
    case NPY_U1: return (float)*(const uint8_t *)at;
    case NPY_B1: return (float)(*at != 0);
    default: memcpy(&x.f, at, 4); return x.f;
    }
}

int64_t npy_whole(const Npy *a, int64_t i)
{
    int64_t x = 0; /* little endian */
    memcpy(&x, (const char *)a->data + i * (int64_t)npy_type_bytes(a->type),
           npy_type_bytes(a->type));
    switch (a->type) {
    case NPY_I4: return (int32_t)x;
    case NPY_I2: return (int16_t)x;
    case NPY_I1: return (int8_t)x;
    default: return x;
    }
}

bool npy_floats(const Npy *a)
{
    return a->type == NPY_F4 || a->type == NPY_F8 || a->type == NPY_F2;
}

Err npy_within(const char *path, const Npy *a, double max)
{
    for (int64_t i = 0; i < a->count; i++) {
        double x = (double)npy_number(a, i);
        if (!(fabs(x) <= max))
            return isfinite(x) ? fail(E_FORMAT, "%s holds %g; its numbers must be within -%g..%g",
                                      path, x, floor(max), floor(max))
                               : fail(E_FORMAT, "%s: number %lld is not finite (%g)", path,
                                      (long long)i, x);
    }
    return OK;
}

Err npy_load(const char *path, Work *work, Npy *array)
{
    const unsigned char *bytes;
    size_t               n;
    TRY(work_file(work, path, &bytes, &n));
    return npy_parse(path, bytes, n, array);
}

Err npy_look(const char *path, double max, Npy *array, size_t *file_bytes)
{
    Pool   *pool = pool_new(NULL, "npy");
    MapFile file;
    Err     err = file_map(pool, path, &file);
    err = err ? err : npy_parse(path, file.bytes, file.n, array);
    if (!err && max > 0 && npy_floats(array))
        err = npy_within(path, array, max);
    if (!err && file_bytes)
        *file_bytes = file.n;
    pool_free(pool);
    array->data = NULL;
    return err;
}
