/* frames.c -- .npy frames and range images. */
#include "data/frames.h"

#include "base/file.h"

#include <math.h>
#include <string.h>

Err npy_numbers(const char *path, const Npy *a)
{
    if (a->type == NPY_F4 || a->type == NPY_F8 || a->type == NPY_U1 || a->type == NPY_U2 ||
        a->type == NPY_I2)
        return OK;
    return fail(E_FORMAT,
                "%s holds %s; float32, float64, uint8, uint16 and int16 are read "
                "(x.astype('float32') in numpy)",
                path, npy_type_name(a->type));
}

float npy_number(const Npy *a,
                 int64_t i) /* a file may begin its numbers anywhere: copied, not cast */
{
    const char *at = (const char *)a->data + i * (int64_t)npy_type_bytes(a->type);
    double      d;
    float       f;
    uint16_t    u;
    int16_t     s;
    switch (a->type) {
    case NPY_F8: memcpy(&d, at, 8); return (float)d;
    case NPY_U1: return (float)*(const uint8_t *)at;
    case NPY_U2: memcpy(&u, at, 2); return (float)u;
    case NPY_I2: memcpy(&s, at, 2); return (float)s;
    default:     memcpy(&f, at, 4); return f;
    }
}

Err npy_within(const char *path, const Npy *a, double most)
{
    for (int64_t i = 0; i < a->count; i++) {
        double x = (double)npy_number(a, i);
        if (!(fabs(x) <= most))
            return isfinite(x) ? fail(E_FORMAT, "%s holds %g; its numbers belong within -%g..%g",
                                      path, x, floor(most), floor(most))
                               : fail(E_FORMAT, "%s: its number %lld is not finite (%g)", path,
                                      (long long)i, x);
    }
    return OK;
}

Err npy_load(const char *path, Work *work, Npy *array)
{
    const unsigned char *bytes;
    size_t               n;
    TRY(work_file(work, path, &bytes, &n));
    TRY(npy_parse(path, bytes, n, array));
    return npy_numbers(path, array);
}

Err npy_look(const char *path, double most, Npy *array, size_t *file_bytes)
{
    Pool   *pool = pool_new(NULL, "npy");
    MapFile file;
    Err     err = file_map(pool, path, &file);
    err = err ? err : npy_parse(path, file.bytes, file.n, array);
    err = err ? err : npy_numbers(path, array);
    if (!err && most > 0 && (array->type == NPY_F4 || array->type == NPY_F8))
        err = npy_within(path, array, most);
    if (!err && file_bytes)
        *file_bytes = file.n;
    pool_free(pool);
    array->data = NULL;
    return err;
}

void range_scale(const Npy *metres, double low, double high, float *to, uint8_t *valid)
{
    double span = high > low ? high - low : 1;
    for (int64_t i = 0; i < metres->count; i++) {
        double r = (double)npy_number(metres, i), level = 0;
        bool   good = r > 0 && isfinite(r);
        if (good)
            level = floor(255 * fmin(fmax((r - low) / span, 0), 1));
        to[i] = (float)(level / 255 * 2 - 1);
        if (valid)
            valid[i] = good;
    }
}
