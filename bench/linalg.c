/* linalg.c -- GFLOP/s of the builtin backend beside oneDNN's, on shapes of our models.
 *
 *   bench_linalg [THREADS [SECONDS [WORD]]] [--json FILE]     default: all processors, 0.3 s a case;
 *                                             only cases whose names contain WORD
 *
 * Best and median of repeated runs. The work is counted as 2*m*n*k; convolutions include padding.
 */
#include "results_file.h"

#include "base/clock.h"
#include "linalg/linalg.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct Case {
    const char *name;
    int64_t     m, n, k; /* matrix product, or 0 */
    bool        trans_a, trans_b;
    int64_t     batch;
    ConvDesc    conv;
} Case;

#define GEMM(m, n, k)                                                                              \
    {                                                                                              \
#m "x" #n "x" #k, m, n, k, false, false, 1, { 0 }                                          \
    }
#define GEMM_NT(m, n, k)                                                                           \
    {                                                                                              \
#m "x" #n "x" #k " NT", m, n, k, false, true, 1, { 0 }                                     \
    }
#define GEMM_TN(m, n, k)                                                                           \
    {                                                                                              \
#m "x" #n "x" #k " TN", m, n, k, true, false, 1, { 0 }                                     \
    }
#define BATCH(b, m, n, k, tb)                                                                      \
    {                                                                                              \
#b " x " #m "x" #n "x" #k, m, n, k, false, tb, b, { 0 }                                    \
    }
#define CONV(text, n_, i, o, d, h, w, kd, kh, kw, s, p)                                            \
    {                                                                                              \
        text, 0, 0, 0, false, false, 0,                                                            \
        {                                                                                          \
            .n = n_, .ci = i, .co = o, .in = { d, h, w }, .kernel = { kd, kh, kw },                \
            .stride = { d > 1 ? s : 1, h > 1 ? s : 1, s },                                         \
            .pad_lo = { kd > 1 ? p : 0, kh > 1 ? p : 0, p }, .pad_hi = {                           \
                kd > 1 ? p : 0,                                                                    \
                kh > 1 ? p : 0,                                                                    \
                p                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

static const Case cases[] = {
    GEMM(1024, 1024, 1024),
    GEMM_NT(1024, 1024, 1024),
    GEMM_TN(1024, 1024, 1024),
    GEMM(192, 468, 1872),
    GEMM(192, 1872, 468),
    GEMM(16384, 128, 1152),
    GEMM(16384, 1152, 128),
    GEMM(128, 1152, 16384),
    GEMM_TN(128, 1152, 16384),
    GEMM(8, 1152, 384),
    GEMM_NT(8, 1152, 384),
    GEMM(1, 1536, 256),
    GEMM(4096, 4, 320),
    GEMM(4096, 320, 4),
    GEMM_NT(256, 1152, 1152),
    BATCH(16, 1024, 1024, 64, true),
    BATCH(16, 1024, 64, 1024, false),
    BATCH(16, 128, 1024, 64, true),
    CONV("conv 128-128 3x3 32x256", 2, 128, 128, 1, 32, 256, 1, 3, 3, 1, 1),
    CONV("conv 320-320 3x3 16x16", 2, 320, 320, 1, 16, 16, 1, 3, 3, 1, 1),
    CONV("conv 256-256 3x3 64x64", 1, 256, 256, 1, 64, 64, 1, 3, 3, 1, 1),
    CONV("conv 512-512 3x3 32x32", 1, 512, 512, 1, 32, 32, 1, 3, 3, 1, 1),
    CONV("conv 128-128 3x3 8x8", 1, 128, 128, 1, 8, 8, 1, 3, 3, 1, 1),
    CONV("conv 128-128 3x3 16x16", 1, 128, 128, 1, 16, 16, 1, 3, 3, 1, 1),
    CONV("conv 64-64 3x3 32x32", 1, 64, 64, 1, 32, 32, 1, 3, 3, 1, 1),
    CONV("conv 32-32 3x3 32x64", 2, 32, 32, 1, 32, 64, 1, 3, 3, 1, 1),
    CONV("conv 48-48 3x3 32x64", 2, 48, 48, 1, 32, 64, 1, 3, 3, 1, 1),
    CONV("conv 32-96 3x3 32x64", 2, 32, 96, 1, 32, 64, 1, 3, 3, 1, 1),
    CONV("conv 100-100 3x3 32x64", 2, 100, 100, 1, 32, 64, 1, 3, 3, 1, 1),
    CONV("conv 3-128 3x3 64x128", 2, 3, 128, 1, 64, 128, 1, 3, 3, 1, 1),
    CONV("conv 128-3 3x3 64x128", 2, 128, 3, 1, 64, 128, 1, 3, 3, 1, 1),
    CONV("conv 1-32 3x3 64x128", 2, 1, 32, 1, 64, 128, 1, 3, 3, 1, 1),
    CONV("conv 128-256 3x3 /2 32x64", 2, 128, 256, 1, 32, 64, 1, 3, 3, 2, 1),
    CONV("conv 256-256 1x1 32x64", 2, 256, 256, 1, 32, 64, 1, 1, 1, 1, 0),
    CONV("conv1d 64-64 3 L16384", 1, 64, 64, 1, 1, 16384, 1, 1, 3, 1, 1),
    CONV("conv3d 64-64 3x3x3 8x16x16", 1, 64, 64, 8, 16, 16, 3, 3, 3, 1, 1),
};

/* A single thread is timed by its CPU clock, so that other processes matter less. */
static double now(int threads)
{
    struct timespec t;
    if (threads > 1)
        return clock_now();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *filled(int64_t n, Type type)
{
    void *p = aligned_alloc(64, ((size_t)(n * type_bytes(type)) + 127) / 64 * 64);
    for (int64_t i = 0; i < n; i++)
        if (type == F32)
            ((float *)p)[i] = (float)(i % 251) / 251.0f - 0.5f;
        else
            ((uint16_t *)p)[i] = (uint16_t)(0x3E00 + i % 251);
    return p;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static ResultsFile results;

/* Prints "best (median) implementation workspace" of one primitive, or that it is refused. */
static void show(const char *name, const char *pass, Type type, Err err, const Prim *prim,
                 PrimArgs args, double flops, int threads, double seconds)
{
    enum { MAX_RUNS = 10000 };
    static double took[MAX_RUNS];
    int           n = 0;
    if (err) {
        printf(" | %14s %-32s", "-", "refused");
        return;
    }
    args.workspace = aligned_alloc(64, (prim->workspace_bytes + 127) / 64 * 64);
    prim->backend->run(prim, &args);
    for (double end = clock_now() + seconds; n < 3 || (clock_now() < end && n < MAX_RUNS);) {
        double start = now(threads);
        prim->backend->run(prim, &args);
        took[n++] = now(threads) - start;
    }
    qsort(took, (size_t)n, sizeof *took, ascending);
    printf(" | %6.1f (%6.1f) %-25s %6zu KiB", flops / took[0] / 1e9, flops / took[n / 2] / 1e9,
           prim->impl, prim->workspace_bytes >> 10);
    JsonOut *row = results_row(&results, name);
    json_out_string(row, "variant", prim->backend->name);
    json_out_string(row, "precision", type == F32 ? "fp32" : type_name(type));
    if (*pass)
        json_out_string(row, "pass", pass);
    results_figure(row, "gflops", flops / took[0] / 1e9);
    results_figure(row, "median_gflops", flops / took[n / 2] / 1e9);
    json_out_end(row);
    free(args.workspace);
}

static void bench_matmul(const Case *c, Type type, int threads, double seconds)
{
    MatmulDesc     d = { .batch = c->batch,
                         .m = c->m,
                         .n = c->n,
                         .k = c->k,
                         .trans_a = c->trans_a,
                         .trans_b = c->trans_b,
                         .lda = c->trans_a ? c->m : c->k,
                         .ldb = c->trans_b ? c->k : c->n,
                         .ldc = c->n,
                         .stride_a = c->m * c->k,
                         .stride_b = c->k * c->n,
                         .stride_c = c->m * c->n,
                         .type_a = type,
                         .type_b = type,
                         .type_c = type };
    PrimArgs       args = { .a = filled(d.batch * d.stride_a, type),
                            .b = filled(d.batch * d.stride_b, type),
                            .c = filled(d.batch * d.stride_c, type) };
    const Backend *both[] = { backend_builtin(), backend_dnnl() };
    printf("%-26s %-4s      ", c->name, type_name(type));
    for (int i = 0; i < 2; i++) {
        Pool *pool = pool_new(NULL, "bench");
        Prim *prim = NULL;
        Err   err = both[i] ? both[i]->matmul(pool, &d, threads, &prim) : E_DEVICE;
        show(c->name, "", type, err, prim, args,
             2.0 * (double)(c->batch * c->m * c->n) * (double)c->k, threads, seconds);
        pool_free(pool);
    }
    printf("\n");
    free(args.a), free(args.b), free(args.c);
}

static void bench_conv(const Case *c, Type type, int threads, double seconds)
{
    static const char *const kinds[] = { "fwd", "data", "wgt" };
    ConvDesc                 d = c->conv;
    int64_t                  in = d.n * d.ci, out = d.n * d.co, taps = 1;
    for (int i = 0; i < 3; i++) {
        d.out[i] = (d.in[i] + d.pad_lo[i] + d.pad_hi[i] - d.kernel[i]) / d.stride[i] + 1;
        in *= d.in[i], out *= d.out[i], taps *= d.kernel[i];
    }
    d.type_x = d.type_w = d.type_y = type;
    PrimArgs       args = { .a = filled(in, type),
                            .b = filled(taps * d.ci * d.co, type),
                            .c = filled(out, type) };
    const Backend *both[] = { backend_builtin(), backend_dnnl() };
    for (int kind = 0; kind < 3; kind++) {
        d.kind = (ConvKind)kind;
        printf("%-26s %-4s %-4s ", c->name, type_name(type), kinds[kind]);
        for (int i = 0; i < 2; i++) {
            Pool *pool = pool_new(NULL, "bench");
            Prim *prim = NULL;
            Err   err = both[i] ? both[i]->conv(pool, &d, threads, &prim) : E_DEVICE;
            show(c->name, kinds[kind], type, err, prim, args,
                 2.0 * (double)out * (double)(taps * d.ci), threads, seconds);
            pool_free(pool);
        }
        printf("\n");
    }
    free(args.a), free(args.b), free(args.c);
}

/* One thread, operands in cache, as in attention's inner products. */
static void bench_tiles(double seconds)
{
    static const int64_t sizes[][3] = {
        { 64, 64, 64 }, { 128, 128, 64 }, { 128, 64, 128 }, { 128, 128, 128 }
    };
    for (int i = 0; i < 4; i++)
        for (int trans = 0; trans < 2; trans++) {
            int64_t m = sizes[i][0], n = sizes[i][1], k = sizes[i][2];
            float  *a = filled(m * k, F32), *b = filled(k * n, F32), *c = filled(m * n, F32);
            void   *workspace = aligned_alloc(64, (gemm_tile_workspace(m, n, k) + 63) / 64 * 64);
            double  best = 1e9;
            for (double end = clock_now() + seconds; clock_now() < end;) {
                double start = now(1);
                for (int j = 0; j < 20; j++)
                    gemm_tile(false, trans, m, n, k, 1.0f, a, k, b, trans ? k : n, 0.0f, c, n,
                              workspace);
                double took = (now(1) - start) / 20;
                best = took < best ? took : best;
            }
            printf("tile %lldx%lldx%lld %s, 1 thread: %.1f GFLOP/s\n", (long long)m, (long long)n,
                   (long long)k, trans ? "NT" : "NN", 2.0 * (double)(m * n * k) / best / 1e9);
            free(a), free(b), free(c), free(workspace);
        }
}

int main(int argc, char **argv)
{
    results_begin(&results, &argc, argv, "bench_linalg", "gflops: the best run.");
    int         threads = argc > 1 ? atoi(argv[1]) : omp_get_max_threads();
    double      seconds = argc > 2 ? atof(argv[2]) : 0.3;
    const char *word = argc > 3 ? argv[3] : "";
    printf("%d threads; builtin %s; onednn %s; GFLOP/s best (median), implementation, workspace\n",
           threads, backend_builtin()->version,
           backend_dnnl() ? backend_dnnl()->version : backend_why());
    if (strstr("tile", word))
        bench_tiles(seconds);
    for (int type = F32; type <= BF16; type++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            if (strstr(cases[i].name, word)) {
                if (cases[i].m)
                    bench_matmul(&cases[i], (Type)type, threads, seconds);
                else
                    bench_conv(&cases[i], (Type)type, threads, seconds);
                fflush(stdout);
            }
    results_end(&results);
    return 0;
}
