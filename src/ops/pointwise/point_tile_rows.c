/* point_tile_rows.c -- rows of a tile: loaded from operands of any strides, stored to results. */
#include "device/convert.h"
#include "ops/pointwise/point_tile.h"

#include <string.h>

static inline float element_f(Type type, const char *p)
{
    float x;
    if (type == F32)
        memcpy(&x, p, 4);
    else
        convert_rows(F32, &x, type, p, 1);
    return x;
}

static inline int32_t element_i(Type type, const char *p)
{
    int32_t x;
    if (type == U8)
        return *(const uint8_t *)p;
    memcpy(&x, p, 4);
    return x;
}

/* A run of n elements that lie next to each other. */
static void run_load(Type type, void *d, const char *src, int64_t n)
{
    if (type == F32 || type == I32)
        memcpy(d, src, (size_t)n * 4);
    else if (type == U8) {
        int32_t       *to = d;
        const uint8_t *from = (const uint8_t *)src;
        for (int64_t i = 0; i < n; i++)
            to[i] = from[i];
    } else
        convert_rows(F32, d, type, src, (size_t)n);
}

void run_fill(void *d, uint32_t bits, int64_t n)
{
    uint32_t *to = d;
    for (int64_t i = 0; i < n; i++)
        to[i] = bits;
}

uint32_t element_bits(Type type, const char *src)
{
    uint32_t bits;
    if (type_is_float(type)) {
        float x = element_f(type, src);
        memcpy(&bits, &x, 4);
    } else
        bits = (uint32_t)element_i(type, src);
    return bits;
}

typedef uint32_t Eight __attribute__((vector_size(32)));
typedef uint16_t EightShort __attribute__((vector_size(16)));

static inline void eight_load(Type type, Eight *to, const char *src)
{
    EightShort narrow;
    if (type == BF16) {
        memcpy(&narrow, src, sizeof narrow);
        *to = __builtin_convertvector(narrow, Eight) << 16;
    } else
        memcpy(to, src, sizeof *to);
}

/* An 8 x 8 square: line i of the source, `stride` bytes apart, becomes column i. */
static inline void square_load(Type type, uint32_t *d, int64_t across, const char *src,
                               int64_t stride)
{
    Eight a[8], b[8];
    for (int i = 0; i < 8; i++)
        eight_load(type, &a[i], src + i * stride);
    for (int i = 0; i < 8; i += 2) {
        b[i] = __builtin_shufflevector(a[i], a[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        b[i + 1] = __builtin_shufflevector(a[i], a[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
    for (int i = 0; i < 8; i += 4)
        for (int k = i; k < i + 2; k++) {
            a[k] = __builtin_shufflevector(b[k], b[k + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            a[k + 2] = __builtin_shufflevector(b[k], b[k + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (int k = 0; k < 4; k++) {
        b[k] = __builtin_shufflevector(a[k], a[k + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        b[k + 4] = __builtin_shufflevector(a[k], a[k + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
    for (int k = 0; k < 8; k++)
        memcpy(d + k * across, &b[k], sizeof b[k]);
}

static void grid_part(Type type, uint32_t *d, int64_t row, const char *src, int64_t rows,
                      int64_t across, int64_t n, int64_t stride)
{
    int64_t size = type_bytes(type);
    if (type == F32 || type == I32) {
        const uint32_t *from = (const uint32_t *)src;
        for (int64_t i = 0; i < n; i++)
            for (int64_t r = 0; r < rows; r++)
                d[r * row + i] = from[r * across + i * stride];
    } else
        for (int64_t i = 0; i < n; i++)
            for (int64_t r = 0; r < rows; r++)
                d[r * row + i] = element_bits(type, src + (r * across + i * stride) * size);
}

/* rows x n elements: element (r, i) is at r * across + i * stride. Rows that lie side by side are
 * transposed by squares: each cache line is read once. */
static void grid_load(Type type, uint32_t *d, const char *src, int64_t rows, int64_t across,
                      int64_t n, int64_t stride)
{
    int64_t size = type_bytes(type), r = 0, i = 0;
    bool    squares = across == 1 && (type == F32 || type == I32 || type == BF16);
    for (; squares && i + 8 <= n; i += 8)
        for (r = 0; r + 8 <= rows; r += 8)
            square_load(type, d + r * n + i, n, src + (r + i * stride) * size, stride * size);
    r = i ? rows / 8 * 8 : 0; /* the squares are rows 0 .. r, columns 0 .. i */
    if (r < rows)
        grid_part(type, d + r * n, n, src + r * across * size, rows - r, across, i ? i : n, stride);
    if (i && i < n)
        grid_part(type, d + i, n, src + i * stride * size, rows, across, n - i, stride);
}

void box_load(const TilePlan *t, const int64_t *n, int i, int a, uint32_t *d, const char *src)
{
    const int64_t *stride = t->stride[i];
    int64_t        run = 1, zeros = 1;
    int            size = type_bytes(t->in_type[i]);
    bool           joined = true, same = true;
    for (int b = t->rank - 1; b >= a; b--) {
        joined &= n[b] == 1 || stride[b] == run;
        same &= n[b] == 1 || stride[b] == 0;
        run *= n[b];
        zeros *= n[b];
    }
    if (joined)
        run_load(t->in_type[i], d, src, run);
    else if (same)
        run_fill(d, element_bits(t->in_type[i], src), zeros);
    else if (a == t->rank - 1)
        grid_load(t->in_type[i], d, src, 1, 0, n[a], stride[a]);
    else if (a == t->rank - 2 && stride[a] > 0 && stride[a + 1] > 1)
        grid_load(t->in_type[i], d, src, n[a], stride[a], n[a + 1], stride[a + 1]);
    else {
        int64_t inner = run / n[a];
        if (stride[a] == 0) { /* once, and then copies, each twice as long */
            box_load(t, n, i, a + 1, d, src);
            for (int64_t have = inner; have < run;) {
                int64_t more = run - have < have ? run - have : have;
                memcpy(d + have, d, (size_t)more * 4);
                have += more;
            }
            return;
        }
        for (int64_t k = 0; k < n[a]; k++)
            box_load(t, n, i, a + 1, d + k * inner, src + k * stride[a] * size);
    }
}

void run_store(Type type, char *d, const void *row, int64_t n)
{
    if (type == F32 || type == I32)
        memcpy(d, row, (size_t)n * 4);
    else if (type == U8) {
        const int32_t *from = row;
        for (int64_t i = 0; i < n; i++)
            d[i] = (char)from[i];
    } else
        convert_rows(type, d, F32, row, (size_t)n);
}

void box_store(const TilePlan *t, const int64_t *n, const int64_t *stride, Type type, int a,
               char *d, const uint32_t *row)
{
    int64_t run = 1;
    bool    joined = true;
    for (int b = t->rank - 1; b >= a; b--) {
        joined &= n[b] == 1 || stride[b] == run;
        run *= n[b];
    }
    if (joined) {
        run_store(type, d, row, run);
        return;
    }
    for (int64_t k = 0; k < n[a]; k++)
        box_store(t, n, stride, type, a + 1, d + k * stride[a] * type_bytes(type),
                  row + k * (run / n[a]));
}
