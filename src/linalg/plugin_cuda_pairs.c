/* plugin_cuda_pairs.c -- products of 2-byte numbers whose width is 4 more than a multiple of 8, two
 * rows at a time.
 *
 * The library's fast kernels need every width to be a multiple of 8, whatever the leading
 * dimension: a width of 468 takes three times as long as one of 480. But two contiguous rows are
 * one row of 2 x 468, which is a multiple of 8. Of the product of these long rows only the diagonal
 * blocks are needed:
 *
 *     [ x0 | x1 ] [ W 0 ]     [ y0 | y1 ]       left:   columns of y0, but its last 4
 *                 [ 0 W ]  =                    right:  columns of y1, but its first 4
 *                                               middle: these 8, from all of x0 and x1
 *
 * Each of the three products reads a width rounded up to 8; the 4 extra numbers meet zeros in a
 * copy of the weight. For a weight's gradient, even and odd rows are two products of the rounded
 * width, whose relevant blocks are added. */
#include "linalg/plugin_cuda_linalg.h"

#include "base/int_math.h"

enum { LEFT, RIGHT, MIDDLE, PRODUCTS };

struct CudaPairs {
    const CudaHandle *handle;
    MatmulDesc        desc;
    bool              gradient; /* of a weight: the sum runs over the rows of both factors */
    PairsWeight       weight;
    CudaMatmul       *product[PRODUCTS]; /* NULL: none; a gradient has LEFT only */
    size_t            library;           /* workspace of the products, bytes */
};

enum { UNIT = 8 };

static int64_t over(int64_t width) { return width % UNIT; } /* 4 or 0 */

static size_t align(size_t bytes) { return align_bytes(bytes, 256); }

static bool may_pair(int64_t a, int64_t b)
{
    return a % 4 == 0 && b % 4 == 0 && (over(a) || over(b)) && a >= 16 && b >= 16;
}

/* The gain must exceed the cost of the additional launches. */
static bool is_large(const MatmulDesc *d)
{
    return (double)d->m * (double)d->n * (double)d->k >= (double)(1 << 29);
}

static bool is_gradient(const MatmulDesc *d)
{
    return d->trans_a && !d->trans_b && d->type_c == F32 && !d->bias && d->k % 2 == 0 &&
           d->lda == d->m && d->ldb == d->n && d->ldc == d->n && may_pair(d->m, d->n);
}

static bool is_rows(const MatmulDesc *d)
{
    return !d->trans_a && d->type_c == d->type_a && d->m % 2 == 0 && d->lda == d->k &&
           d->ldc == d->n && d->ldb == (d->trans_b ? d->k : d->n) && may_pair(d->k, d->n);
}

bool cuda_pairs_pay(const MatmulDesc *d)
{
    return d->batch == 1 && d->type_a == d->type_b && d->type_a != F32 && is_large(d) &&
           (is_gradient(d) || is_rows(d));
}

/* The block of a pair's weight that a product uses: its columns of input and output. */
static PairsBlock block_of(const MatmulDesc *d, int product)
{
    int64_t k = d->k, n = d->n;
    if (product == LEFT)
        return (PairsBlock){ 0, k + over(k), 0, n - over(n) };
    if (product == RIGHT)
        return (PairsBlock){ k - over(k), k + over(k), n + over(n), n - over(n) };
    return (PairsBlock){ 0, 2 * k, n - over(n), 2 * over(n) };
}

static MatmulDesc product_desc(const MatmulDesc *d, int product)
{
    MatmulDesc p = *d;
    PairsBlock b = block_of(d, product);
    if (is_gradient(d)) {
        p.m = d->m + over(d->m), p.n = d->n + over(d->n), p.k = d->k / 2;
        p.lda = 2 * d->m, p.ldb = 2 * d->n, p.ldc = p.n;
        p.accumulate = false;
    } else {
        p.m = d->m / 2, p.n = b.n, p.k = b.k;
        p.lda = 2 * d->k, p.ldb = d->trans_b ? b.k : b.n, p.ldc = 2 * d->n;
    }
    return p;
}

static bool product_needed(const MatmulDesc *d, int product)
{
    return is_gradient(d) ? product == LEFT : product != MIDDLE || over(d->n);
}

static size_t library_bytes(const MatmulDesc *d)
{
    size_t max = 0;
    for (int i = 0; i < PRODUCTS; i++)
        if (product_needed(d, i)) {
            MatmulDesc p = product_desc(d, i);
            size_t     bytes = cuda_matmul_workspace(&p);
            max = bytes > max ? bytes : max;
        }
    return align(max);
}

/* Places the copies of the weight in workspace; returns the bytes of all workspace. */
static size_t weight_place(const MatmulDesc *d, PairsWeight *w)
{
    size_t at = library_bytes(d);
    *w = (PairsWeight){ .k = d->k,
                        .n = d->n,
                        .transposed = d->trans_b,
                        .bias_bytes = d->bias ? type_bytes(d->type_bias) : 0 };
    for (int i = 0; i < PRODUCTS; i++)
        if (product_needed(d, i)) {
            PairsBlock b = block_of(d, i);
            w->block[w->n_blocks] = b;
            w->at[w->n_blocks] = at;
            at += align((size_t)(b.k * b.n) * 2);
            w->bias_at[w->n_blocks++] = at;
            at += align((size_t)(b.n * w->bias_bytes));
        }
    return at;
}

static size_t gradient_bytes(const MatmulDesc *d) /* of even or odd rows */
{
    return align((size_t)((d->m + over(d->m)) * (d->n + over(d->n))) * sizeof(float));
}

size_t cuda_pairs_workspace(const MatmulDesc *d)
{
    PairsWeight w;
    return is_gradient(d) ? library_bytes(d) + 2 * gradient_bytes(d) : weight_place(d, &w);
}

Err cuda_pairs_new(Pool *pool, const CudaHandle *handle, const MatmulDesc *d, CudaPairs **out)
{
    CudaPairs *pairs = NEW(pool, CudaPairs);
    pairs->handle = handle;
    pairs->desc = *d;
    pairs->gradient = is_gradient(d);
    pairs->library = library_bytes(d);
    if (!pairs->gradient)
        weight_place(d, &pairs->weight);
    for (int i = 0; i < PRODUCTS; i++)
        if (product_needed(d, i)) {
            MatmulDesc p = product_desc(d, i);
            TRY(cuda_matmul_new(pool, handle, &p, &pairs->product[i]));
        }
    *out = pairs;
    return OK;
}

static Err gradient_run(const CudaPairs *pairs, const char *a, const char *b, const float *before,
                        float *c, char *workspace)
{
    const MatmulDesc *d = &pairs->desc;
    int64_t           over_m = over(d->m), over_n = over(d->n);
    char             *even = workspace + pairs->library, *odd = even + gradient_bytes(d);
    TRY(cuda_matmul_run(pairs->product[LEFT], a, b, NULL, NULL, even, workspace));
    TRY(cuda_matmul_run(pairs->product[LEFT], a + 2 * (d->m - over_m), b + 2 * (d->n - over_n),
                        NULL, NULL, odd, workspace));
    return cuda_pairs_sum(pairs->handle->stream, (const float *)even, (const float *)odd, d->m,
                          d->n, over_m, over_n, before, c);
}

Err cuda_pairs_run(const CudaPairs *pairs, const void *a, const void *b, const void *bias,
                   const void *before, void *c, void *workspace)
{
    const PairsWeight *w = &pairs->weight;
    char              *room = workspace;
    if (pairs->gradient)
        return gradient_run(pairs, a, b, before, c, workspace);
    TRY(cuda_pairs_weight(pairs->handle->stream, w, b, bias, room));
    for (int i = 0; i < w->n_blocks; i++)
        TRY(cuda_matmul_run(pairs->product[i], (const char *)a + 2 * w->block[i].from_k,
                            room + w->at[i], bias ? room + w->bias_at[i] : NULL,
                            before ? (const char *)before + 2 * w->block[i].from_n : NULL,
                            (char *)c + 2 * w->block[i].from_n, workspace));
    return OK;
}
