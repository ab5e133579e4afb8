/* weight_elements.c -- the elements of a file's tensors, of any type and strides, as our numbers. */
#include "import/exported_int.h"
#include "import/lower.h"

#include <math.h>
#include <string.h>

static double half_value(uint16_t h)
{
    int    exponent = h >> 10 & 31, fraction = h & 1023;
    double x = !exponent       ? ldexp(fraction, -24)
               : exponent < 31 ? ldexp(fraction + 1024, exponent - 25)
                               : (fraction ? NAN : INFINITY);
    return h >> 15 ? -x : x;
}

static double bfloat_value(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float    f;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

/* Elements may lie at any address of the file. */
double exported_float(ExportedType type, const char *p)
{
    float    f;
    double   d;
    uint16_t h;
    switch (type) {
    case EX_F32: memcpy(&f, p, 4); return (double)f;
    case EX_F64: memcpy(&d, p, 8); return d;
    case EX_F16: memcpy(&h, p, 2); return half_value(h);
    case EX_BF16: memcpy(&h, p, 2); return bfloat_value(h);
    default: return 0;
    }
}

int64_t exported_int(ExportedType type, const char *p)
{
    int64_t i8;
    int32_t i4;
    int16_t i2;
    switch (type) {
    case EX_I64: memcpy(&i8, p, 8); return i8;
    case EX_I32: memcpy(&i4, p, 4); return i4;
    case EX_I16: memcpy(&i2, p, 2); return i2;
    case EX_I8: return *(const signed char *)p;
    default: return *(const unsigned char *)p;
    }
}

/* Walks a stored tensor in its own order of axes. */
static void weight_walk(const ExportedWeight *w, void (*each)(void *to, int64_t i, const char *p),
                        void                 *to)
{
    int64_t index[VIEW_RANK] = { 0 }, n = 1;
    int     bytes = exported_type_bytes(w->type);
    for (int a = 0; a < w->rank; a++)
        n *= w->size[a];
    for (int64_t i = 0; i < n; i++) {
        int64_t at = w->offset;
        for (int a = 0; a < w->rank; a++)
            at += index[a] * w->stride[a];
        each(to, i, (const char *)w->storage + at * bytes);
        for (int a = w->rank - 1; a >= 0 && ++index[a] == w->size[a]; a--)
            index[a] = 0;
    }
}

typedef struct Reading {
    ExportedType type;
    float       *floats;
    HostArray   *array, *imag;
} Reading;

static void read_float(void *to, int64_t i, const char *p)
{
    Reading *r = to;
    if (type_complex(r->type)) { /* pairs */
        ExportedType part = type_part(r->type);
        r->floats[2 * i] = (float)exported_float(part, p);
        r->floats[2 * i + 1] = (float)exported_float(part, p + exported_type_bytes(part));
        return;
    }
    r->floats[i] = type_floats(r->type) ? (float)exported_float(r->type, p)
                                        : (float)exported_int(r->type, p);
}

static void read_element(void *to, int64_t i, const char *p)
{
    Reading *r = to;
    if (r->imag) {
        ExportedType part = type_part(r->type);
        r->array->f[i] = exported_float(part, p);
        r->imag->f[i] = exported_float(part, p + exported_type_bytes(part));
        return;
    }
    if (r->array->integer)
        r->array->i[i] = exported_int(r->type, p);
    else
        r->array->f[i] = exported_float(r->type, p);
}

void weight_floats(const ExportedWeight *w, float *to)
{
    weight_walk(w, read_float, &(Reading){ .type = w->type, .floats = to });
}

void weight_arrays(const ExportedWeight *w, HostArray *to, HostArray *imag)
{
    weight_walk(w, read_element, &(Reading){ .type = w->type, .array = to, .imag = imag });
}
