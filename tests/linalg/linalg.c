/* Tests of linalg: every backend against plain loops in double: odd shapes, all kinds, types and
 * layouts; guard bytes around every result and around workspace; the same bits every time; nothing
 * large allocated in a run. */
#include "alloc_count.h"
#include "test.h"

#include "device/amx_unit.h"
#include "linalg/builtin.h"
#include "linalg/linalg.h"
#include "device/convert.h"

#include <stdlib.h>

/* --- guarded buffers --- */

enum { GUARD = 256, FILL = 0xA5 };

typedef struct Buf {
    unsigned char *base, *data;
    size_t         bytes;
} Buf;

static Buf buf_new(size_t bytes, int fill)
{
    Buf b = { .bytes = bytes };
    if (posix_memalign((void **)&b.base, 4096, bytes + 2 * GUARD + 64))
        exit(1);
    b.data = b.base + GUARD;
    memset(b.base, FILL, bytes + 2 * GUARD);
    memset(b.data, fill, bytes);
    return b;
}

static int buf_guarded(const Buf *b)
{
    for (size_t i = 0; i < GUARD; i++)
        if (b->base[i] != FILL || b->data[b->bytes + i] != FILL)
            return 0;
    return 1;
}

static inline double get(Type type, const void *p, int64_t i)
{
    float f;
    if (type == F32)
        return (double)((const float *)p)[i];
    if (type == BF16) { /* the upper half of an fp32, by hand: most of what is read */
        uint32_t bits = (uint32_t)((const uint16_t *)p)[i] << 16;
        memcpy(&f, &bits, sizeof f);
        return (double)f;
    }
    convert_rows(F32, &f, type, (const char *)p + i * type_bytes(type), 1);
    return (double)f;
}

static uint32_t rng_state = 12345;
static uint32_t rng(void) { return rng_state = rng_state * 1664525u + 1013904223u, rng_state >> 8; }
static int64_t  pick(const int64_t *from, size_t n) { return from[rng() % n]; }
#define PICK(...)                                                                                  \
    pick((const int64_t[]){ __VA_ARGS__ }, sizeof(int64_t[]){ __VA_ARGS__ } / sizeof(int64_t))

static Buf buf_random(Type type, int64_t n)
{
    Buf b = buf_new((size_t)(n * type_bytes(type)), 0);
    for (int64_t i = 0; i < n; i++) {
        float f = (float)(rng() & 0xFFFF) / 32768.0f - 1.0f;
        convert_rows(type, b.data + i * type_bytes(type), F32, &f, 1);
    }
    return b;
}

/* What fp32 sums in any order, then one rounding to the type, may differ by. */
static double slack(Type type, double exact, double sum_of_sizes)
{
    double unit = type == F32 ? 0x1p-23 : type == BF16 ? 0x1p-8 : 0x1p-10;
    return 3e-6 * sum_of_sizes + unit * fabs(exact) + 1e-7;
}

/* Runs a primitive twice on fresh workspace full of NaN; the results must be the same bits. */
static int run_guarded(const Prim *prim, PrimArgs args, Buf *out, const Buf *start,
                       const char *what)
{
    Buf       workspace = buf_new(prim->workspace_bytes, 0xFF), again = buf_new(out->bytes, 0);
    int       ok = 1;
    long long n_allocs = 0, largest_alloc = 0; /* of the second run: the first may start threads */
    args.workspace = workspace.data;
    for (int i = 0; i < 2; i++) {
        memcpy(out->data, start->data, out->bytes);
        memset(workspace.data, 0xFF, workspace.bytes);
        alloc_largest = 0;
        n_allocs = alloc_calls;
        Err err = prim->backend->run(prim, &args);
        n_allocs = alloc_calls - n_allocs;
        largest_alloc = alloc_largest;
        ok &= CHECK_INT(err, OK);
        ok &= CHECK(buf_guarded(out)) && CHECK(buf_guarded(&workspace));
        if (i == 0)
            memcpy(again.data, out->data, out->bytes);
    }
    ok &= CHECK(memcmp(again.data, out->data, out->bytes) == 0);
    ok &= CHECK(largest_alloc < 4096);
    if (prim->backend == backend_builtin())
        ok &= CHECK_INT(n_allocs, 0);
    if (!ok)
        fprintf(stderr, "  %s, %s\n", what, prim->impl);
    free(workspace.base);
    free(again.base);
    return ok;
}

/* --- matrix products --- */

static int n_refused, n_done;

static void one_matmul(const Backend *backend, const MatmulDesc *d, int threads)
{
    Pool *pool = pool_new(NULL, "test");
    Prim *prim;
    char  what[400];
    snprintf(what, sizeof what,
             "%s matmul batch %lld m %lld n %lld k %lld ld %lld %lld %lld strides %lld %lld "
             "%lld types %s %s %s trans %d %d bias %d acc %d threads %d",
             backend->name, (long long)d->batch, (long long)d->m, (long long)d->n, (long long)d->k,
             (long long)d->lda, (long long)d->ldb, (long long)d->ldc, (long long)d->stride_a,
             (long long)d->stride_b, (long long)d->stride_c, type_name(d->type_a),
             type_name(d->type_b), type_name(d->type_c), d->trans_a, d->trans_b, d->bias,
             d->accumulate, threads);
    Err err = backend->matmul(pool, d, threads, &prim);
    if (err) {
        CHECK(err == E_DEVICE && backend != backend_builtin());
        n_refused++;
        pool_free(pool);
        return;
    }
    n_done++;
    int64_t last = d->batch - 1;
    Buf a = buf_random(d->type_a, last * d->stride_a + ((d->trans_a ? d->k : d->m) - 1) * d->lda +
                                      (d->trans_a ? d->m : d->k));
    Buf b = buf_random(d->type_b, last * d->stride_b + ((d->trans_b ? d->n : d->k) - 1) * d->ldb +
                                      (d->trans_b ? d->k : d->n));
    Buf start = buf_random(d->type_c, last * d->stride_c + (d->m - 1) * d->ldc + d->n);
    Buf bias = buf_random(d->bias ? d->type_bias : F32, d->n), c = buf_new(start.bytes, 0);
    run_guarded(
        prim,
        (PrimArgs){ .a = a.data, .b = b.data, .c = c.data, .bias = d->bias ? bias.data : NULL }, &c,
        &start, what);
    int            bad = 0;
    unsigned char *touched = calloc(c.bytes, 1);
    int            size = type_bytes(d->type_c);
    for (int64_t i = 0; i < d->batch; i++)
        for (int64_t y = 0; y < d->m; y++)
            for (int64_t x = 0; x < d->n; x++) {
                double  sum = 0, sizes = 0;
                int64_t at = i * d->stride_c + y * d->ldc + x;
                for (int64_t k = 0; k < d->k; k++) {
                    double p =
                        get(d->type_a, a.data,
                            i * d->stride_a + (d->trans_a ? k * d->lda + y : y * d->lda + k)) *
                        get(d->type_b, b.data,
                            i * d->stride_b + (d->trans_b ? x * d->ldb + k : k * d->ldb + x));
                    sum += p;
                    sizes += fabs(p);
                }
                if (d->bias)
                    sum += get(d->type_bias, bias.data, x), sizes += 1;
                if (d->accumulate)
                    sum += get(d->type_c, start.data, at), sizes += 1;
                double got = get(d->type_c, c.data, at);
                memset(touched + at * size, 1, (size_t)size);
                if (!(fabs(got - sum) <= slack(d->type_c, sum, sizes)) && !bad++)
                    fprintf(stderr, "  at %lld,%lld,%lld: %.9g, exactly %.9g\n", (long long)i,
                            (long long)y, (long long)x, got, sum);
            }
    for (size_t i = 0; i < c.bytes; i++) /* between the rows nothing is written */
        bad += !touched[i] && c.data[i] != start.data[i];
    if (!CHECK_INT(bad, 0))
        fprintf(stderr, "  %s, %s\n", what, prim->impl);
    free(touched);
    free(a.base), free(b.base), free(c.base), free(start.base), free(bias.base);
    pool_free(pool);
}

static void matmul_random(const Backend *backend, int n)
{
    for (int i = 0; i < n; i++) {
        MatmulDesc d = { .batch = PICK(1, 1, 1, 2, 3, 5) };
        d.m = PICK(1, 2, 3, 5, 13, 14, 15, 16, 17, 28, 33, 64, 129, 200);
        d.n = PICK(1, 2, 3, 5, 8, 15, 16, 17, 31, 32, 33, 48, 65, 129, 530);
        d.k = PICK(1, 2, 3, 5, 16, 17, 33, 64, 129, 319, 321, 700);
        if (d.batch * d.m * d.n * d.k > 8000000)
            d.k = 17;
        d.trans_a = rng() & 1, d.trans_b = rng() & 1, d.bias = rng() & 1, d.accumulate = rng() & 1;
        Type t = (Type)(rng() % 2);
        d.type_a = d.type_b = d.type_c = t;
        d.type_bias = F32;
        if (backend == backend_builtin() && rng() % 3 == 0) {
            d.type_a = (Type)(rng() % 3), d.type_b = (Type)(rng() % 3);
            d.type_c = (Type)(rng() % 3), d.type_bias = (Type)(rng() % 3);
        } else if (t == BF16) {
            d.type_c = (Type)(rng() % 2), d.type_bias = (Type)(rng() % 2);
        }
        d.lda = (d.trans_a ? d.m : d.k) + PICK(0, 0, 1, 7);
        d.ldb = (d.trans_b ? d.k : d.n) + PICK(0, 0, 1, 7);
        d.ldc = d.n + PICK(0, 0, 1, 7);
        d.stride_a = (d.trans_a ? d.k : d.m) * d.lda + PICK(0, 0, 5);
        d.stride_b = (d.trans_b ? d.n : d.k) * d.ldb + PICK(0, 0, 5);
        d.stride_c = d.m * d.ldc + PICK(0, 0, 5);
        if (d.batch > 1 && rng() % 3 == 0)
            d.stride_b = 0;
        if (d.batch > 1 && rng() % 5 == 0)
            d.stride_a = 0;
        one_matmul(backend, &d, (int)PICK(1, 2, 3));
    }
}

static MatmulDesc plain(int64_t m, int64_t n, int64_t k, bool ta, bool tb)
{
    return (MatmulDesc){ .batch = 1,
                         .m = m,
                         .n = n,
                         .k = k,
                         .lda = ta ? m : k,
                         .ldb = tb ? k : n,
                         .ldc = n,
                         .trans_a = ta,
                         .trans_b = tb };
}

static void matmul_builtin(void)
{
    matmul_random(backend_builtin(), 400);
    for (int t = 0; t < 4; t++) { /* few results and a long sum: split over k */
        MatmulDesc d = plain(5, 9, 20000, t & 1, t & 2);
        d.bias = true;
        one_matmul(backend_builtin(), &d, 4);
        d.type_c = BF16, d.accumulate = true;
        one_matmul(backend_builtin(), &d, 3);
        d.type_a = d.type_b = BF16;
        one_matmul(backend_builtin(), &d, 2);
        d.m = 48, d.n = 64, d.k = 9000; /* whole tiles, summed in C itself */
        d.lda = d.trans_a ? 48 : 9000, d.ldb = d.trans_b ? 9000 : 64, d.ldc = 80;
        d.type_c = F32, d.bias = false;
        one_matmul(backend_builtin(), &d, 1);
    }
    MatmulDesc tall = plain(3000, 40, 33, false, false), half = tall;
    one_matmul(backend_builtin(), &tall, 2);
    half.type_a = half.type_b = half.type_c = BF16, half.k = 650, half.lda = 650;
    one_matmul(backend_builtin(), &half, 2);
    MatmulDesc empty = plain(4, 5, 0, false, false);
    empty.lda = 1, empty.bias = true;
    one_matmul(backend_builtin(), &empty, 2);
}

/* --- convolutions --- */

static int64_t at5(const int64_t size[3], int64_t c, int64_t n, int64_t d, int64_t h, int64_t w,
                   int64_t ch)
{
    return (((n * size[0] + d) * size[1] + h) * size[2] + w) * c + ch;
}

/* Where the input lies that an output reads through a tap. */
static int64_t place(const ConvDesc *d, int axis, int64_t out, int64_t tap)
{
    return out * d->stride[axis] - d->pad_lo[axis] + tap * conv_dilation(d, axis);
}

/* Adds every product of the convolution to the result, in double; the one form serves all kinds. */
static void conv_exact(const ConvDesc *d, const Buf *x, const Buf *w, const Buf *y, double *sum,
                       double *sizes)
{
    for (int64_t n = 0; n < d->n; n++)
        for (int64_t od = 0; od < d->out[0]; od++)
            for (int64_t oh = 0; oh < d->out[1]; oh++)
                for (int64_t ow = 0; ow < d->out[2]; ow++)
                    for (int64_t kd = 0; kd < d->kernel[0]; kd++)
                        for (int64_t kh = 0; kh < d->kernel[1]; kh++)
                            for (int64_t kw = 0; kw < d->kernel[2]; kw++) {
                                int64_t id = place(d, 0, od, kd), ih = place(d, 1, oh, kh),
                                        iw = place(d, 2, ow, kw);
                                if (id < 0 || ih < 0 || iw < 0 || id >= d->in[0] ||
                                    ih >= d->in[1] || iw >= d->in[2])
                                    continue;
                                int64_t few = d->ci / conv_groups(d);
                                for (int64_t i = 0; i < few; i++)
                                    for (int64_t o = 0; o < d->co; o++) {
                                        int64_t from = o / (d->co / conv_groups(d)) * few + i;
                                        int64_t xi = at5(d->in, d->ci, n, id, ih, iw, from),
                                                yi = at5(d->out, d->co, n, od, oh, ow, o);
                                        int64_t wi = at5(d->kernel, few * d->co, 0, kd, kh, kw,
                                                         i * d->co + o);
                                        int64_t to = d->kind == CONV_FORWARD         ? yi
                                                     : d->kind == CONV_BACKWARD_DATA ? xi
                                                                                     : wi;
                                        double  p = (d->kind == CONV_BACKWARD_DATA
                                                         ? 1
                                                         : get(d->type_x, x->data, xi)) *
                                                   (d->kind == CONV_BACKWARD_WEIGHTS
                                                        ? 1
                                                        : get(d->type_w, w->data, wi)) *
                                                   (d->kind == CONV_FORWARD
                                                        ? 1
                                                        : get(d->type_y, y->data, yi));
                                        sum[to] += p;
                                        sizes[to] += fabs(p);
                                    }
                            }
}

static int64_t volume(const int64_t s[3]) { return s[0] * s[1] * s[2]; }

static void one_conv(const Backend *backend, ConvDesc d, int threads)
{
    Pool *pool = pool_new(NULL, "test");
    Prim *prim;
    char  what[500];
    for (int i = 0; i < 3; i++)
        d.out[i] = (d.in[i] + d.pad_lo[i] + d.pad_hi[i] - conv_reach(d.kernel[i], d.dilation[i])) /
                       d.stride[i] +
                   1;
    snprintf(what, sizeof what,
             "%s conv kind %d groups %lld dilation %lld %lld %lld n %lld c %lld->%lld in %lld %lld "
             "%lld k %lld %lld %lld s %lld %lld "
             "%lld pad %lld %lld %lld, %lld %lld %lld types %s %s %s bias %d threads %d",
             backend->name, d.kind, (long long)d.groups, (long long)d.dilation[0],
             (long long)d.dilation[1], (long long)d.dilation[2], (long long)d.n, (long long)d.ci,
             (long long)d.co, (long long)d.in[0], (long long)d.in[1], (long long)d.in[2],
             (long long)d.kernel[0], (long long)d.kernel[1], (long long)d.kernel[2],
             (long long)d.stride[0], (long long)d.stride[1], (long long)d.stride[2],
             (long long)d.pad_lo[0], (long long)d.pad_lo[1], (long long)d.pad_lo[2],
             (long long)d.pad_hi[0], (long long)d.pad_hi[1], (long long)d.pad_hi[2],
             type_name(d.type_x), type_name(d.type_w), type_name(d.type_y), d.bias, threads);
    Err err = backend->conv(pool, &d, threads, &prim);
    if (err) {
        if (!CHECK(err == E_DEVICE && backend != backend_builtin()))
            fprintf(stderr, "  %s: %s\n", what, err_text());
        n_refused++;
        pool_free(pool);
        return;
    }
    n_done++;
    int64_t nx = d.n * volume(d.in) * d.ci, ny = d.n * volume(d.out) * d.co,
            nw = volume(d.kernel) * d.ci / conv_groups(&d) * d.co;
    Buf  x = buf_random(d.type_x, nx), y = buf_random(d.type_y, ny), w = buf_random(d.type_w, nw);
    Buf  bias = buf_random(d.bias ? d.type_bias : F32, d.co);
    Buf *out = d.kind == CONV_FORWARD ? &y : d.kind == CONV_BACKWARD_DATA ? &x : &w;
    Type to = d.kind == CONV_FORWARD         ? d.type_y
              : d.kind == CONV_BACKWARD_DATA ? d.type_x
                                             : d.type_w;
    int64_t n_out = d.kind == CONV_FORWARD ? ny : d.kind == CONV_BACKWARD_DATA ? nx : nw;
    Buf     start = buf_new(out->bytes, 0xFF); /* NaN: every element must be written */
    run_guarded(
        prim,
        (PrimArgs){ .a = x.data, .b = w.data, .c = y.data, .bias = d.bias ? bias.data : NULL }, out,
        &start, what);
    double *sum = calloc((size_t)n_out, 8), *sizes = calloc((size_t)n_out, 8);
    conv_exact(&d, &x, &w, &y, sum, sizes);
    int bad = 0;
    for (int64_t i = 0; i < n_out; i++) {
        if (d.bias)
            sum[i] += get(d.type_bias, bias.data, i % d.co), sizes[i] += 1;
        double got = get(to, out->data, i);
        if (!(fabs(got - sum[i]) <= slack(to, sum[i], sizes[i])) && !bad++)
            fprintf(stderr, "  at %lld: %.9g, exactly %.9g\n", (long long)i, got, sum[i]);
    }
    if (!CHECK_INT(bad, 0))
        fprintf(stderr, "  %s, %s\n", what, prim->impl);
    free(sum), free(sizes);
    free(x.base), free(y.base), free(w.base), free(bias.base), free(start.base);
    pool_free(pool);
}

static void conv_types(const Backend *backend, ConvDesc *d)
{
    Type t = (Type)(rng() % 2);
    d->bias = d->kind == CONV_FORWARD && (rng() & 1);
    d->type_x = d->type_w = d->type_y = d->type_bias = t;
    if (backend == backend_builtin() && rng() % 3 == 0) {
        d->type_x = (Type)(rng() % 3), d->type_w = (Type)(rng() % 3);
        d->type_y = (Type)(rng() % 3), d->type_bias = (Type)(rng() % 3);
    } else if (t == BF16 && rng() % 2) {
        *(d->kind == CONV_FORWARD         ? &d->type_y
          : d->kind == CONV_BACKWARD_DATA ? &d->type_x
                                          : &d->type_w) = F32;
        d->type_bias = F32;
    }
}

/* Groups, dilated taps, padding that is negative at the end. */
static void conv_random_groups(const Backend *backend, int n)
{
    for (int i = 0; i < n; i++) {
        ConvDesc d = { .kind = (ConvKind)(rng() % 3), .n = PICK(1, 1, 2, 3) };
        d.groups = PICK(1, 2, 4, 5);
        d.ci = d.groups * PICK(1, 2, 3, 5, 16, 17), d.co = d.groups * PICK(1, 2, 3, 4, 16, 33);
        if (rng() % 2) { /* depthwise */
            d.groups = PICK(1, 3, 8, 15, 16, 17, 32, 40, 67, 100, 150);
            d.ci = d.groups, d.co = d.groups * PICK(1, 1, 1, 2, 3);
        }
        int axes = (int)PICK(1, 2, 2, 2, 3);
        for (int a = 0; a < 3; a++) {
            bool flat = a < 3 - axes;
            d.kernel[a] = flat ? 1 : PICK(1, 2, 3, 3, 3, 4, 5, 7, 9);
            d.stride[a] = flat ? 1 : PICK(1, 1, 1, 2, 2, 3, 4);
            d.dilation[a] = flat ? 0 : PICK(0, 1, 1, 2, 3, 4);
            int64_t reach = conv_reach(d.kernel[a], d.dilation[a]);
            d.pad_lo[a] = flat ? 0 : (int64_t)(rng() % (uint64_t)reach);
            d.pad_hi[a] = flat ? 0 : (int64_t)(rng() % (uint64_t)reach) - (rng() % 8 == 0);
            d.in[a] = flat ? 1 : PICK(1, 2, 3, 5, 7, 8, 17, 33);
            if (axes == 3 && d.in[a] > 8)
                d.in[a] = 8;
            if (d.in[a] + d.pad_lo[a] + d.pad_hi[a] < reach)
                d.in[a] = reach + 1;
        }
        while (d.n * volume(d.in) * d.ci / d.groups * d.co * volume(d.kernel) > 6000000 &&
               d.kernel[1] > 1)
            d.in[1] = d.kernel[1] = d.stride[1] = 1, d.pad_lo[1] = d.pad_hi[1] = 0;
        conv_types(backend, &d);
        one_conv(backend, d, (int)PICK(1, 2, 3));
    }
}

static void conv_random(const Backend *backend, int n)
{
    for (int i = 0; i < n; i++) {
        ConvDesc d = { .kind = (ConvKind)(rng() % 3), .n = PICK(1, 1, 2, 3) };
        d.ci = PICK(1, 2, 3, 4, 5, 16, 17, 33, 64);
        d.co = PICK(1, 2, 3, 4, 5, 16, 17, 33, 64, 130);
        bool deep = rng() % 4 == 0;
        for (int a = 0; a < 3; a++) {
            bool flat = a == 0 && !deep;
            d.kernel[a] = flat ? 1 : PICK(1, 2, 3, 3, 3, 4, 5, 7);
            d.stride[a] = flat ? 1 : PICK(1, 1, 1, 2, 2, 3, 4);
            d.pad_lo[a] = flat ? 0 : (int64_t)(rng() % (uint64_t)(d.kernel[a] + (rng() % 8 == 0)));
            d.pad_hi[a] = flat ? 0 : (int64_t)(rng() % (uint64_t)d.kernel[a]);
            d.in[a] = flat ? 1 : PICK(1, 2, 3, 5, 7, 8, 17);
            if (d.in[a] + d.pad_lo[a] + d.pad_hi[a] < d.kernel[a])
                d.in[a] = d.kernel[a];
        }
        if (deep && d.in[0] > 7)
            d.in[0] = 7;
        if (d.n * volume(d.in) * d.ci * d.co * volume(d.kernel) > 6000000)
            d.ci = 3, d.co = d.co > 17 ? 17 : d.co;
        conv_types(backend, &d);
        one_conv(backend, d, (int)PICK(1, 2, 3));
    }
}

static void conv_fixed(const Backend *backend)
{
    static const ConvDesc shapes[] = {
        { .n = 2,
          .ci = 16,
          .co = 32,
          .in = { 1, 9, 33 },
          .kernel = { 1, 3, 3 },
          .stride = { 1, 1, 1 },
          .pad_lo = { 0, 1, 1 },
          .pad_hi = { 0, 1, 1 } },
        { .n = 1,
          .ci = 32,
          .co = 64,
          .in = { 1, 16, 16 },
          .kernel = { 1, 3, 3 },
          .stride = { 1, 2, 2 },
          .pad_lo = { 0, 0, 0 },
          .pad_hi = { 0, 1, 1 } },
        { .n = 1,
          .ci = 3,
          .co = 48,
          .in = { 4, 16, 16 },
          .kernel = { 2, 4, 4 },
          .stride = { 2, 4, 4 } },
        { .n = 2,
          .ci = 64,
          .co = 64,
          .in = { 1, 1, 200 },
          .kernel = { 1, 1, 3 },
          .stride = { 1, 1, 1 },
          .pad_lo = { 0, 0, 2 } },
        { .n = 1,
          .ci = 128,
          .co = 3,
          .in = { 1, 17, 19 },
          .kernel = { 1, 3, 3 },
          .stride = { 1, 1, 1 },
          .pad_lo = { 0, 1, 1 },
          .pad_hi = { 0, 1, 1 } },
        { .n = 1,
          .ci = 100,
          .co = 100,
          .in = { 1, 8, 9 },
          .kernel = { 1, 1, 1 },
          .stride = { 1, 1, 1 } },
        { .n = 2,
          .ci = 24,
          .co = 80,
          .in = { 1, 7, 61 },
          .kernel = { 1, 3, 3 },
          .stride = { 1, 2, 2 },
          .pad_lo = { 0, 1, 1 },
          .pad_hi = { 0, 1, 1 } },
        { .n = 2,
          .ci = 5,
          .co = 7,
          .in = { 1, 9, 9 },
          .kernel = { 1, 1, 1 },
          .stride = { 1, 3, 3 } },
        { .n = 1,
          .ci = 32,
          .co = 32,
          .in = { 5, 6, 7 },
          .kernel = { 3, 3, 3 },
          .stride = { 1, 2, 1 },
          .pad_lo = { 1, 1, 1 },
          .pad_hi = { 1, 1, 1 } },
        { .n = 1,
          .ci = 1,
          .co = 1,
          .in = { 1, 1, 1 },
          .kernel = { 1, 1, 1 },
          .stride = { 1, 1, 1 } },
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int kind = 0; kind < 3; kind++)
            for (int type = F32; type <= BF16; type++) {
                ConvDesc d = shapes[i];
                d.kind = (ConvKind)kind;
                d.type_x = d.type_w = d.type_y = (Type)type;
                d.bias = kind == CONV_FORWARD;
                one_conv(backend, d, 2);
                if (kind == CONV_BACKWARD_WEIGHTS && type == BF16) {
                    d.type_w = F32; /* as training has it */
                    one_conv(backend, d, 2);
                }
            }
}

/* To few channels: several blocks of rows, parts that end within an image, paddings wider than
 * the kernel's reach, results wider and narrower than what they come from. */
static void conv_onto_few(void)
{
    static const ConvDesc shapes[] = {
        { .n = 2,
          .ci = 3,
          .co = 16,
          .in = { 1, 29, 23 },
          .kernel = { 1, 3, 3 },
          .pad_lo = { 0, 1, 1 },
          .pad_hi = { 0, 1, 1 } },
        { .n = 3,
          .ci = 4,
          .co = 17,
          .in = { 1, 21, 400 },
          .kernel = { 1, 2, 5 },
          .pad_lo = { 0, 0, 4 },
          .pad_hi = { 0, 2, 0 } },
        { .n = 1,
          .ci = 1,
          .co = 40,
          .in = { 5, 20, 3 },
          .kernel = { 1, 5, 3 },
          .pad_lo = { 0, 5, 3 },
          .pad_hi = { 0, 7, 0 } },
        { .n = 20, .ci = 2, .co = 33, .in = { 1, 5, 6 }, .kernel = { 1, 3, 1 } },
        { .n = 40,
          .ci = 3,
          .co = 16,
          .in = { 1, 1, 9 },
          .kernel = { 1, 1, 3 },
          .pad_lo = { 0, 0, 1 },
          .pad_hi = { 0, 0, 1 } },
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int threads = 1; threads <= 3; threads++)
            for (int forward = 0; forward < 2; forward++) {
                ConvDesc    d = shapes[i];
                const Prim *prim;
                d.kind = forward ? CONV_FORWARD : CONV_BACKWARD_DATA;
                d.type_x = d.type_w = d.type_y = F32;
                for (int axis = 0; axis < 3; axis++) {
                    d.stride[axis] = 1;
                    d.out[axis] = d.in[axis] + d.pad_lo[axis] + d.pad_hi[axis] - d.kernel[axis] + 1;
                }
                if (forward)
                    d.ci = shapes[i].co, d.co = shapes[i].ci, d.bias = threads == 2;
                CHECK_OK(linalg_conv(backend_dnnl(), &d, threads, &prim));
                CHECK(!strcmp(prim->impl, "builtin:thin"));
                one_conv(backend_builtin(), d, threads);
            }
}

/* By Winograd's method: sizes odd and even, paddings of all kinds, channels that do not fill a
 * panel or a block, one thread and several; few channels use plain windows. */
static void conv_by_winograd(void)
{
    static const ConvDesc shapes[] = {
        { .n = 1,
          .ci = 64,
          .co = 64,
          .in = { 1, 32, 32 },
          .pad_lo = { 0, 1, 1 },
          .pad_hi = { 0, 1, 1 } },
        { .n = 3,
          .ci = 80,
          .co = 144,
          .in = { 1, 19, 23 },
          .pad_lo = { 0, 1, 1 },
          .pad_hi = { 0, 1, 1 } },
        { .n = 2, .ci = 144, .co = 80, .in = { 1, 26, 37 } },
        { .n = 5,
          .ci = 352,
          .co = 64,
          .in = { 1, 17, 16 },
          .pad_lo = { 0, 0, 2 },
          .pad_hi = { 0, 2, 0 } },
        { .n = 1,
          .ci = 64,
          .co = 352,
          .in = { 1, 1, 520 },
          .pad_lo = { 0, 2, 3 },
          .pad_hi = { 0, 2, 1 } },
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int kind = CONV_FORWARD; kind <= CONV_BACKWARD_WEIGHTS; kind++) {
            ConvDesc    d = shapes[i];
            int         threads = 1 + ((int)i + kind) % 3;
            const Prim *prim;
            d.kind = (ConvKind)kind;
            d.type_x = d.type_w = d.type_y = d.type_bias = F32;
            d.bias = kind == CONV_FORWARD && i % 2;
            for (int axis = 0; axis < 3; axis++) {
                d.kernel[axis] = axis ? 3 : 1;
                d.stride[axis] = 1;
                d.out[axis] = d.in[axis] + d.pad_lo[axis] + d.pad_hi[axis] - d.kernel[axis] + 1;
            }
            if (kind == CONV_BACKWARD_WEIGHTS) /* their blocks divide evenly among one or two */
                threads = 1 + (int)i % 2;
            CHECK_OK(linalg_conv(backend_dnnl(), &d, threads, &prim));
            CHECK_TEXT(prim->impl, "builtin:winograd");
            one_conv(backend_builtin(), d, threads);
            CHECK_OK(linalg_conv(backend_lean(), &d, threads, &prim));
            CHECK_TEXT(prim->impl, "builtin:window");
            d.ci = 8;
            CHECK_OK(linalg_conv(backend_builtin(), &d, threads, &prim));
            CHECK_TEXT(prim->impl, "builtin:window");
        }
}

/* The same of bf16, by larger tiles. */
static void conv_by_winograd_bf16(void)
{
    static const ConvDesc shapes[] = {
        { .n = 1,
          .ci = 64,
          .co = 64,
          .in = { 1, 32, 32 },
          .pad_lo = { 0, 1, 1 },
          .pad_hi = { 0, 1, 1 } },
        { .n = 3,
          .ci = 80,
          .co = 144,
          .in = { 1, 19, 23 },
          .pad_lo = { 0, 1, 1 },
          .pad_hi = { 0, 1, 1 } },
        { .n = 2, .ci = 144, .co = 80, .in = { 1, 26, 38 } },
        { .n = 5,
          .ci = 352,
          .co = 64,
          .in = { 1, 16, 20 },
          .pad_lo = { 0, 0, 2 },
          .pad_hi = { 0, 2, 0 } },
        { .n = 1,
          .ci = 64,
          .co = 96,
          .in = { 1, 16, 124 },
          .pad_lo = { 0, 2, 2 },
          .pad_hi = { 0, 2, 2 } },
    };
    if (amx_unit() != AMX_VECTORS) {
        SKIP("this processor or build has no vectors of bf16 pairs");
        return;
    }
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int kind = CONV_FORWARD; kind <= CONV_BACKWARD_WEIGHTS; kind++) {
            ConvDesc    d = shapes[i];
            int         threads = 1 + ((int)i + kind) % 3;
            const Prim *prim;
            d.kind = (ConvKind)kind;
            d.type_x = d.type_w = d.type_y = BF16;
            d.type_bias = i % 3 ? BF16 : F32;
            d.bias = kind == CONV_FORWARD && i % 2;
            for (int axis = 0; axis < 3; axis++) {
                d.kernel[axis] = axis ? 3 : 1;
                d.stride[axis] = 1;
                d.out[axis] = d.in[axis] + d.pad_lo[axis] + d.pad_hi[axis] - d.kernel[axis] + 1;
            }
            if (kind == CONV_BACKWARD_WEIGHTS) /* fp32, as training has it */
                d.type_w = F32, threads = 1 + (int)i % 2;
            CHECK_OK(linalg_conv(backend_dnnl(), &d, threads, &prim));
            CHECK_TEXT(prim->impl, "builtin:winograd_bf16");
            one_conv(backend_builtin(), d, threads);
            d.pad_lo[1] = 3, d.pad_hi[1] = 1; /* the first row would see padding only */
            CHECK(!conv_wino_bf16_fits(&d, threads));
        }
}

/* Shapes on either side of the rule by which the built-in backend is preferred to oneDNN. */
static void builtin_where_it_pays(void)
{
    static const struct {
        int64_t m, n, k;
        bool    builtin;
    } products[] = {
        { 16384, 1152, 128, true }, { 4096, 1024, 384, true }, { 4096, 1024, 385, false },
        { 4095, 1024, 128, false }, { 65536, 128, 64, false }, { 1, 1, 1, false },
    };
    if (!backend_dnnl())
        return;
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        MatmulDesc  d = { .batch = 1,
                          .m = products[i].m,
                          .n = products[i].n,
                          .k = products[i].k,
                          .lda = products[i].k,
                          .ldb = products[i].n,
                          .ldc = products[i].n,
                          .type_a = F32,
                          .type_b = F32,
                          .type_c = F32 };
        const Prim *prim;
        CHECK_OK(linalg_matmul(backend_dnnl(), &d, 2, &prim));
        CHECK_INT(prim->backend == backend_builtin(), products[i].builtin);
    }
    for (int64_t channels = 64; channels <= 128; channels += 64)
        for (int64_t stride = 1; stride <= 2; stride++) {
            ConvDesc    d = { .kind = CONV_BACKWARD_WEIGHTS,
                              .n = 1,
                              .ci = channels,
                              .co = 128,
                              .in = { 1, 14, 14 },
                              .out = { 1, 14 / stride, 14 / stride },
                              .kernel = { 1, 3, 3 },
                              .stride = { 1, stride, stride },
                              .pad_lo = { 0, 1, 1 },
                              .pad_hi = { 0, 2 - stride, 2 - stride } };
            const Prim *prim;
            CHECK_OK(linalg_conv(backend_dnnl(), &d, 2, &prim));
            CHECK_INT(prim->backend == backend_builtin(), channels == 128 && stride == 2);
            d.type_x = d.type_y = BF16; /* its gradient stays fp32 */
            CHECK_OK(linalg_conv(backend_dnnl(), &d, 2, &prim));
            CHECK_INT(prim->backend == backend_builtin(), !backend_dnnl()->bf16_pays);
            d.kind = CONV_BACKWARD_DATA;
            d.type_y = d.type_x = F32;
            d.in[2] = 32, d.out[2] = 32 / stride;
            CHECK_OK(linalg_conv(backend_dnnl(), &d, 2, &prim));
            CHECK_INT(prim->backend == backend_builtin(), stride == 2 || conv_wino_fits(&d, 2));
        }
    for (int i = 0; i < 8; i++) { /* few positions and many weights */
        int64_t     samples = 2 + i % 2, channels = i & 2 ? 256 : 128;
        ConvDesc    d = { .kind = i & 4 ? CONV_BACKWARD_DATA : CONV_FORWARD,
                          .n = samples,
                          .ci = 256,
                          .co = channels,
                          .in = { 1, 8, 8 },
                          .out = { 1, 4, 4 },
                          .kernel = { 1, 3, 3 },
                          .stride = { 1, 2, 2 },
                          .pad_lo = { 0, 1, 1 } };
        const Prim *prim;
        CHECK_OK(linalg_conv(backend_dnnl(), &d, 2, &prim));
        CHECK_INT(prim->backend == backend_builtin(), samples == 2 && channels == 256);
    }
}

/* A backend that is the one the rules choose. */
static Err chosen_conv(Pool *unused, const ConvDesc *desc, int threads, Prim **prim)
{
    (void)unused;
    const Prim *chosen;
    TRY(linalg_conv(backend_dnnl(), desc, threads, &chosen));
    *prim = (Prim *)chosen;
    return OK;
}

/* bf16 between few channels is computed in fp32 by oneDNN, some images at a time, where its bf16
 * does not pay: one image at a time, several, all at once; weight gradients of either type. */
static void thin_bf16(void)
{
    static const Backend chosen = { .name = "chosen", .conv = chosen_conv };
    static const struct {
        int64_t n, ci, co, size;
        bool    builtin;
    } shapes[] = {
        { 2, 3, 6, 10, false },   { 6, 16, 16, 40, false }, { 7, 5, 1, 61, false },
        { 2, 16, 3, 150, false }, { 2, 12, 17, 10, true },
    };
    if (!backend_dnnl() || backend_dnnl()->bf16_pays)
        return;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int64_t stride = 1; stride <= 2; stride++)
            for (ConvKind kind = CONV_FORWARD; kind <= CONV_BACKWARD_WEIGHTS; kind++) {
                int64_t  out = (shapes[i].size + 2 - 4) / stride + 1;
                ConvDesc d = { .kind = kind,
                               .n = shapes[i].n,
                               .ci = shapes[i].ci,
                               .co = shapes[i].co,
                               .in = { 1, shapes[i].size, shapes[i].size },
                               .out = { 1, out, out },
                               .kernel = { 1, 4, 4 },
                               .stride = { 1, stride, stride },
                               .pad_lo = { 0, 1, 1 },
                               .pad_hi = { 0, 1, 1 },
                               .type_x = BF16,
                               .type_w = BF16,
                               .type_y = BF16,
                               .bias = kind == CONV_FORWARD && stride == 2,
                               .type_bias = BF16 };
                if (kind == CONV_BACKWARD_WEIGHTS && stride == 1)
                    d.type_w = F32;
                const Prim *prim;
                CHECK_OK(linalg_conv(backend_dnnl(), &d, 2, &prim));
                CHECK_INT(!strstr(prim->impl, "as f32"), shapes[i].builtin);
                one_conv(&chosen, d, 2);
            }
}

static void conv_of_builtin(void)
{
    conv_fixed(backend_builtin());
    conv_random(backend_builtin(), 350);
    conv_random_groups(backend_builtin(), 400);
}

/* --- oneDNN, the cache, refusals, the tile --- */

static void of_dnnl(void)
{
    const Backend *dnnl = backend_dnnl();
    if (!dnnl) {
        printf("oneDNN not tested: %s\n", backend_why());
        CHECK(strlen(backend_why()) > 0);
        return;
    }
    CHECK_TEXT(backend_why(), "");
    n_done = n_refused = 0;
    matmul_random(dnnl, 200);
    conv_fixed(dnnl);
    conv_random(dnnl, 200);
    conv_random_groups(dnnl, 300);
    printf("onednn %s: %d done, %d left to own\n", dnnl->version, n_done, n_refused);
    CHECK(n_done > 0);
}

static void cached(void)
{
    MatmulDesc  d = plain(17, 33, 65, false, true), e;
    const Prim *a, *b, *c;
    memset(&e, 0x77, sizeof e); /* padding differs, meaning does not */
    e.batch = 1, e.m = 17, e.n = 33, e.k = 65, e.lda = e.ldb = 65, e.ldc = 33;
    e.stride_a = 9, e.stride_b = e.stride_c = 0, e.type_a = e.type_b = e.type_c = F32;
    e.trans_a = false, e.trans_b = true, e.bias = e.accumulate = false;
    CHECK_OK(linalg_matmul(backend_builtin(), &d, 2, &a));
    CHECK_OK(linalg_matmul(NULL, &e, 2, &b));
    CHECK_OK(linalg_matmul(backend_builtin(), &d, 1, &c));
    CHECK(a == b);
    CHECK(a != c);
    for (int i = 1; i < 600; i++) { /* the table grows */
        d.m = i;
        CHECK_OK(linalg_matmul(backend_builtin(), &d, 2, &c));
    }
    d.m = 17;
    CHECK_OK(linalg_matmul(backend_builtin(), &d, 2, &c));
    CHECK(a == c);
    d.type_a = d.type_b = F16; /* oneDNN 2 has none: falls back */
    CHECK_OK(linalg_matmul(backend_dnnl(), &d, 2, &c));
    CHECK_TEXT(c->backend->name, "builtin");
}

static void refusals(void)
{
    const Prim *prim;
    MatmulDesc  d = plain(3, 4, 5, false, false);
    ConvDesc    c = { .n = 1,
                      .ci = 1,
                      .co = 1,
                      .in = { 1, 5, 5 },
                      .out = { 1, 5, 5 },
                      .kernel = { 1, 3, 3 },
                      .stride = { 1, 1, 1 } };
    d.ldc = 3;
    CHECK_INT(linalg_matmul(NULL, &d, 1, &prim), E_SHAPE);
    d.ldc = 4, d.type_a = I32;
    CHECK_INT(linalg_matmul(NULL, &d, 1, &prim), E_SHAPE);
    d.type_a = F32, d.m = 0;
    CHECK_INT(linalg_matmul(NULL, &d, 1, &prim), E_SHAPE);
    CHECK_INT(linalg_conv(NULL, &c, 1, &prim), E_SHAPE);
    CHECK(strstr(err_text(), "along H") != NULL);
    c.out[1] = c.out[2] = 3;
    CHECK_INT(linalg_conv(NULL, &c, 1, &prim), OK);
    c.kind = CONV_BACKWARD_DATA, c.bias = true;
    CHECK_INT(linalg_conv(NULL, &c, 1, &prim), E_SHAPE);
    c.bias = false, c.stride[2] = 0;
    CHECK_INT(linalg_conv(NULL, &c, 1, &prim), E_SHAPE);
}

static void tiles(void)
{
    static const int64_t sizes[] = { 1, 2, 7, 14, 15, 16, 33, 64, 70, 128 };
    for (int round = 0; round < 200; round++) {
        int64_t m = pick(sizes, 10), n = pick(sizes, 10),
                k = round % 20 == 0 ? 650 : pick(sizes, 10);
        bool    ta = rng() & 1, tb = rng() & 1;
        float   alpha = round & 1 ? 1.0f : -0.37f, beta = round % 3 == 0   ? 0.0f
                                                          : round % 3 == 1 ? 1.0f
                                                                           : 0.5f;
        int64_t lda = (ta ? m : k) + PICK(0, 3), ldb = (tb ? k : n) + PICK(0, 3),
                ldc = n + PICK(0, 3);
        Buf a = buf_random(F32, ((ta ? k : m) - 1) * lda + (ta ? m : k));
        Buf b = buf_random(F32, ((tb ? n : k) - 1) * ldb + (tb ? k : n));
        Buf c = buf_random(F32, (m - 1) * ldc + n), start = buf_new(c.bytes, 0);
        Buf workspace = buf_new(gemm_tile_workspace(m, n, k), 0xFF);
        memcpy(start.data, c.data, c.bytes);
        if (beta == 0.0f) /* then C is not read: NaN in it is harmless */
            for (int64_t y = 0; y < m; y++)
                memset(c.data + 4 * y * ldc, 0xFF, 4 * (size_t)n);
        const float *fa = (float *)a.data, *fb = (float *)b.data, *fs = (float *)start.data;
        float       *fc = (float *)c.data;
        gemm_tile(ta, tb, m, n, k, alpha, fa, lda, fb, ldb, beta, fc, ldc, workspace.data);
        CHECK(buf_guarded(&c) && buf_guarded(&workspace));
        int bad = 0;
        for (int64_t y = 0; y < m; y++)
            for (int64_t x = 0; x < ldc && y * ldc + x < (m - 1) * ldc + n; x++) {
                double sum = x < n ? (double)beta * (double)fs[y * ldc + x]
                                   : (double)fs[y * ldc + x],
                       sizes_sum = 1;
                for (int64_t i = 0; x < n && i < k; i++) {
                    double p = (double)fa[ta ? i * lda + y : y * lda + i] *
                               (double)fb[tb ? x * ldb + i : i * ldb + x];
                    sum += (double)alpha * p;
                    sizes_sum += fabs(p);
                }
                bad += !(fabs((double)fc[y * ldc + x] - sum) <= slack(F32, sum, sizes_sum));
            }
        CHECK_INT(bad, 0);
        free(a.base), free(b.base), free(c.base), free(start.base), free(workspace.base);
    }
}

int main(int argc, char **argv)
{
    bool builtin = argc > 1 && !strcmp(argv[1], "builtin"); /* leave out oneDNN */
    RUN(tiles);
    RUN(matmul_builtin);
    RUN(conv_of_builtin);
    RUN(conv_onto_few);
    RUN(conv_by_winograd);
    RUN(conv_by_winograd_bf16);
    RUN(builtin_where_it_pays);
    RUN(thin_bf16);
    RUN(cached);
    RUN(refusals);
    if (!builtin)
        RUN(of_dnnl);
    return test_end();
}
