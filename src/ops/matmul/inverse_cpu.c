/* inverse_cpu.c -- inverses and determinants on the CPU: one matrix after another in each thread. */
#include "ops/matmul/inverse.h"

#include "ops/parallel.h"

#include <math.h>

/* A matrix in fp64, and which row each was exchanged with. */
static size_t work_bytes(int64_t n) { return (size_t)(n * n + n) * sizeof(double); }

static int threads_of(const Device *device, Shape x)
{
    return parallel_threads(device->threads, x.dim[0]);
}

Err inverse_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    Shape x = in_shape(n, 0);
    choice->workspace_bytes = (size_t)threads_of(device, x) * work_bytes(x.dim[1]);
    return OK;
}

static void exchange_rows(double *a, int64_t n, int64_t i, int64_t k)
{
    for (int64_t j = 0; i != k && j < n; j++) {
        double held = a[i * n + j];
        a[i * n + j] = a[k * n + j];
        a[k * n + j] = held;
    }
}

static void exchange_columns(double *a, int64_t n, int64_t i, int64_t k)
{
    for (int64_t r = 0; i != k && r < n; r++) {
        double held = a[r * n + i];
        a[r * n + i] = a[r * n + k];
        a[r * n + k] = held;
    }
}

/* Column k becomes that of the inverse, row k is divided by the pivot. */
static void eliminate(double *a, int64_t n, int64_t k)
{
    double pivot = a[k * n + k];
    a[k * n + k] = 1;
    for (int64_t j = 0; j < n; j++)
        a[k * n + j] /= pivot;
    for (int64_t i = 0; i < n; i++) {
        double factor = a[i * n + k];
        if (i == k || factor == 0)
            continue;
        a[i * n + k] = 0;
        for (int64_t j = 0; j < n; j++)
            a[i * n + j] -= factor * a[k * n + j];
    }
}

/* In place. The determinant is the product of the pivots, its sign also changes with each exchange. */
static void invert(double *a, double *taken, int64_t n, float *log_abs, float *sign)
{
    double sum = 0, side = 1;
    for (int64_t k = 0; k < n; k++) {
        int64_t row = k;
        for (int64_t i = k + 1; i < n; i++)
            if (fabs(a[i * n + k]) > fabs(a[row * n + k]))
                row = i;
        double pivot = a[row * n + k];
        taken[k] = (double)row;
        exchange_rows(a, n, k, row);
        sum += log(fabs(pivot));
        side *= (pivot > 0) - (pivot < 0);
        side = row != k ? -side : side;
        eliminate(a, n, k);
    }
    for (int64_t k = n - 1; k >= 0; k--)
        exchange_columns(a, n, k, (int64_t)taken[k]);
    *log_abs = (float)sum;
    *sign = (float)side;
}

Err inverse_cpu(const Call *call)
{
    Shape        s = in_shape(call->node, 0);
    int64_t      n = s.dim[1], all = n * n;
    const float *x = call->in[0];
    float       *y = call->out[0], *log_abs = call->out[1], *sign = call->out[2];
    int          threads = threads_of(call->device, s);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t b = 0; b < s.dim[0]; b++) {
        double *a = (double *)((char *)call->workspace +
                               (size_t)omp_get_thread_num() * work_bytes(n));
        for (int64_t i = 0; i < all; i++)
            a[i] = (double)x[b * all + i];
        invert(a, a + all, n, &log_abs[b], &sign[b]);
        for (int64_t i = 0; i < all; i++)
            y[b * all + i] = (float)a[i];
    }
    return OK;
}

Err log_det_grad_cpu(const Call *call)
{
    Shape        s = in_shape(call->node, 0);
    int64_t      n = s.dim[1], rows = s.dim[0] * n;
    const float *y = call->in[0], *dlog = call->in[1];
    float       *dx = call->out[0];
    int          threads = parallel_threads(call->device->threads, rows);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        int64_t b = r / n, i = r % n;
        for (int64_t j = 0; j < n; j++)
            dx[r * n + j] = dlog[b] * y[(b * n + j) * n + i];
    }
    return OK;
}
