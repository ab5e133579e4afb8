/* probe.c -- measures the rates of this processor. */
#include "profile/probe.h"

#include "base/clock.h"

#include <math.h>
#include <omp.h>
#include <string.h>

typedef struct Prober {
    Pool         *pool;
    const Device *device;
    ProbeOptions  o;
    Profile      *profile;
    const char   *origin;
    int           done, steps;
} Prober;

static void prober_tell(Prober *p, const char *what)
{
    p->done++;
    if (p->o.progress)
        p->o.progress(p->o.progress_arg, (double)p->done / (double)(p->steps + 1), what);
}

/* The range of this thread: the kernels divide their work in the same way. */
static void thread_range(int64_t n, int64_t *from, int64_t *to)
{
    int64_t threads = omp_get_num_threads(), thread = omp_get_thread_num();
    *from = n * thread / threads;
    *to = n * (thread + 1) / threads;
}

static double read_all(const double *a, int64_t n, int threads)
{
    double sum = 0;
#pragma omp parallel num_threads(threads) reduction(+ : sum)
    {
        int64_t from, to;
        double  sums[16] = { 0 }; /* enough chains that loads, not additions, limit */
        thread_range(n / 16, &from, &to);
        for (int64_t i = from * 16; i < to * 16; i += 16)
            for (int k = 0; k < 16; k++)
                sums[k] += a[i + k];
        for (int k = 0; k < 16; k++)
            sum += sums[k];
    }
    return sum;
}

static void write_all(double *a, int64_t n, int threads, double value)
{
#pragma omp parallel num_threads(threads)
    {
        int64_t from, to;
        thread_range(n, &from, &to);
        for (int64_t i = from; i < to; i++)
            a[i] = value;
    }
}

static void copy_all(double *restrict a, const double *restrict b, int64_t n, int threads)
{
#pragma omp parallel num_threads(threads)
    {
        int64_t from, to;
        thread_range(n, &from, &to);
        memcpy(a + from, b + from, (size_t)(to - from) * sizeof *a);
    }
}

static void probe_bandwidth(Prober *p)
{
    enum { TRIES = 4 };
    Pool   *work = pool_new(NULL, "bandwidth");
    int64_t n = p->o.bandwidth_bytes / (int64_t)sizeof(double) / 16 * 16;
    double *a = NEWN(work, double, n), *b = NEWN(work, double, n), sink = 0;
    write_all(a, n, p->device->threads, 1);
    write_all(b, n, p->device->threads, 2);
    for (int threads = 1;;
         threads = threads * 2 < p->device->threads ? threads * 2 : p->device->threads) {
        double read = INFINITY, write = INFINITY, copy = INFINITY,
               bytes = (double)n * sizeof(double);
        for (int i = 0; i < TRIES; i++) {
            double t0 = clock_now();
            sink += read_all(a, n, threads);
            double t1 = clock_now();
            write_all(b, n, threads, sink + i);
            double t2 = clock_now();
            copy_all(a, b, n, threads);
            double t3 = clock_now();
            read = fmin(read, t1 - t0);
            write = fmin(write, t2 - t1);
            copy = fmin(copy, t3 - t2);
        }
        VEC_ADD(p->pool, p->profile->bandwidth, p->profile->n_bandwidth, p->profile->cap_bandwidth,
                (Bandwidth){ threads, bytes / read, bytes / write, 2 * bytes / copy });
        prober_tell(p, "bandwidth");
        if (threads == p->device->threads)
            break;
    }
    pool_free(work);
}

static void probe_launch(Prober *p)
{
    enum { TRIES = 200 };
    double best = INFINITY;
    for (int i = 0; i < TRIES; i++) {
        int    entered = 0;
        double start = clock_now();
#pragma omp parallel num_threads(p->device->threads) reduction(+ : entered)
        entered++;
        double ns = (clock_now() - start) * 1e9;
        if (entered > 0 && ns < best)
            best = ns;
    }
    p->profile->launch_ns = best > 1 ? best : 1;
    p->profile->launch_origin = pool_print(p->pool, "%s: an empty parallel region, best of %d",
                                           p->origin, TRIES);
}

static Err prim_seconds(Prober *p, const Prim *prim, const PrimArgs *args, double *best)
{
    double end = clock_now() + p->o.seconds;
    TRY(prim->backend->run(prim, args)); /* first touches */
    *best = INFINITY;
    for (int i = 0; i < 3 || clock_now() < end; i++) {
        double start = clock_now();
        TRY(prim->backend->run(prim, args));
        *best = fmin(*best, clock_now() - start);
    }
    return OK;
}

static Err probe_prim(Prober *p, RateKind kind, Type type, const Prim *prim, size_t a, size_t b,
                      size_t c, double flops)
{
    Pool  *work = pool_new(NULL, "rate");
    double seconds = 0;
    size_t sizes[4] = { a, b, c, prim->workspace_bytes };
    char  *at[4];
    for (int i = 0; i < 4; i++) { /* 64-byte aligned, as in an arena */
        char *bytes = pool_alloc(work, sizes[i] + 64, 1);
        at[i] = bytes + (64 - (uintptr_t)bytes % 64) % 64;
    }
    Err err = prim_seconds(
        p, prim, &(PrimArgs){ .a = at[0], .b = at[1], .c = at[2], .workspace = at[3] }, &seconds);
    pool_free(work);
    TRY(err);
    VEC_ADD(p->pool, p->profile->rates, p->profile->n_rates, p->profile->cap_rates,
            (Rate){ kind, type_name(type), flops, flops / seconds,
                    pool_print(p->pool, "%s, implementation %s", p->origin, prim->impl) });
    prober_tell(p, kind == RATE_MATMUL ? "matrix products" : "convolutions");
    return OK;
}

MatmulDesc probe_matmul_desc(int64_t n, Type type)
{
    return (MatmulDesc){ .batch = 1,
                         .m = n,
                         .n = n,
                         .k = n,
                         .lda = n,
                         .ldb = n,
                         .ldc = n,
                         .type_a = type,
                         .type_b = type,
                         .type_c = type,
                         .type_bias = type };
}

static Err probe_matmul(Prober *p, Type type)
{
    for (int64_t n = 32; 2.0 * (double)(n * n * n) <= p->o.largest_flops; n *= 2) {
        MatmulDesc  desc = probe_matmul_desc(n, type);
        const Prim *prim;
        size_t      bytes = (size_t)(n * n * type_bytes(type));
        TRY(linalg_matmul(p->device->backend, &desc, p->device->threads, &prim));
        TRY(probe_prim(p, RATE_MATMUL, type, prim, bytes, bytes, bytes, 2.0 * (double)(n * n * n)));
    }
    return OK;
}

ConvDesc probe_conv_desc(int64_t n, int64_t side, int64_t width, Type type)
{
    return (ConvDesc){ .kind = CONV_FORWARD,
                       .n = n,
                       .ci = width,
                       .co = width,
                       .in = { 1, side, side },
                       .out = { 1, side, side },
                       .kernel = { 1, 3, 3 },
                       .stride = { 1, 1, 1 },
                       .pad_lo = { 0, 1, 1 },
                       .pad_hi = { 0, 1, 1 },
                       .type_x = type,
                       .type_w = type,
                       .type_y = type,
                       .type_bias = type };
}

static Err probe_conv(Prober *p, Type type)
{
    for (int64_t side = 8, width = 16;; side *= 2, width = width < 128 ? width * 2 : width) {
        double flops = 2.0 * 9 * (double)(side * side * width * width);
        if (flops > p->o.largest_flops)
            return OK;
        ConvDesc    desc = probe_conv_desc(1, side, width, type);
        const Prim *prim;
        size_t      image = (size_t)(side * side * width * type_bytes(type));
        TRY(linalg_conv(p->device->backend, &desc, p->device->threads, &prim));
        TRY(probe_prim(p, RATE_CONV, type, prim, image,
                       (size_t)(9 * width * width * type_bytes(type)), image, flops));
    }
}

Err probe_rates(Pool *pool, const Device *device, const ProbeOptions *options, Profile *profile)
{
    static const Type types[] = { F32, BF16, F16 };
    REQUIRE(device->kind == DEVICE_CPU && device->threads > 0);
    Prober p = { .pool = pool,
                 .device = device,
                 .o = options ? *options : (ProbeOptions){ 0 },
                 .profile = profile,
                 .steps = 3 * 10 + 3 };
    p.o.bandwidth_bytes = p.o.bandwidth_bytes ? p.o.bandwidth_bytes : (int64_t)128 << 20;
    p.o.largest_flops = p.o.largest_flops > 0 ? p.o.largest_flops : 2.2e9;
    p.o.seconds = p.o.seconds > 0 ? p.o.seconds : 0.03;
    p.origin = pool_print(pool, "measured on %s with %s, %d threads", device->model,
                          device->library, device->threads);

    profile->name = "cpu";
    profile->title = device->model;
    profile->threads = device->threads;
    profile->library = device->library;
    profile->bandwidth_origin = pool_print(pool, "%s: arrays of %lld bytes, best of 4", p.origin,
                                           (long long)p.o.bandwidth_bytes);
    profile->n_bandwidth = profile->n_rates = 0;
    probe_launch(&p);
    probe_bandwidth(&p);
    for (size_t i = 0; i < (p.o.only_fp32 ? 1 : sizeof types / sizeof *types); i++) {
        TRY(probe_matmul(&p, types[i]));
        TRY(probe_conv(&p, types[i]));
    }
    return OK;
}
