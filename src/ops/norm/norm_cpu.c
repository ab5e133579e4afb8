/* norm_cpu.c -- division of work, statistics and sums for all norms over channels-last maps. */
#include "ops/norm/norm_cpu.h"

#include "device/convert.h"
#include "ops/parallel.h"

#include <math.h>

enum { NORM_BLOCK = 2048 }; /* elements: a block and its columns fit the first-level cache */

NormPlan norm_plan(int64_t samples, int64_t pixels, int64_t channels, int64_t groups, bool may_fold,
                   int threads)
{
    /* whole vectors, at least 128 columns */
    int64_t fold = 16 * ceil_div(8, channels);
    if (!may_fold || channels >= 64 || pixels < 4 * fold)
        fold = 1;
    int64_t wide = fold * channels, rows = NORM_BLOCK / wide, all = samples * pixels;
    return (NormPlan){
        .samples = samples,
        .pixels = pixels,
        .channels = channels,
        .groups = groups,
        .fold = fold,
        .wide = wide,
        .rows = rows > 8 ? rows : 8,
        .threads = parallel_threads(threads, all),
    };
}

static int64_t norm_slots(const NormPlan *plan) { return plan->samples + plan->threads - 1; }

/* Floats of one thread's stages: none when every row is fp32, which is used in place. */
static int64_t norm_stage_floats(const NormPlan *plan, NormNeeds needs)
{
    return needs.type == F32 ? 0 : needs.stages * plan->rows * plan->wide;
}

size_t norm_work_bytes(const NormPlan *plan, NormNeeds needs)
{
    int64_t doubles = 2 * norm_slots(plan) * plan->wide;
    if (needs.totals)
        doubles += 2 * plan->samples * plan->channels;
    int64_t floats = plan->threads * (NORM_VECTORS * plan->wide + norm_stage_floats(plan, needs));
    return (size_t)doubles * sizeof(double) + (size_t)floats * sizeof(float);
}

NormWork norm_work(const NormPlan *plan, NormNeeds needs, void *workspace)
{
    NormWork work = { .stage_floats = norm_stage_floats(plan, needs) };
    int64_t  n_totals = needs.totals ? plan->samples * plan->channels : 0;
    work.one = workspace;
    work.two = work.one + norm_slots(plan) * plan->wide;
    work.total_one = work.two + norm_slots(plan) * plan->wide;
    work.total_two = work.total_one + n_totals;
    work.vectors = (float *)(work.total_two + n_totals);
    work.stages = work.vectors + plan->threads * NORM_VECTORS * plan->wide;
    return work;
}

float *norm_stage(const NormPlan *plan, const NormWork *work, int thread, int i)
{
    return work->stages + thread * work->stage_floats + i * plan->rows * plan->wide;
}

float *norm_vector(const NormPlan *plan, const NormWork *work, int thread, int i)
{
    return work->vectors + (thread * NORM_VECTORS + i) * plan->wide;
}

static NormSpan norm_span_at(const NormPlan *plan, int thread, int64_t first, int64_t end)
{
    NormSpan span = { .first = first, .end = end };
    if (first < end) {
        span.sample = first / plan->pixels;
        int64_t sample_end = (span.sample + 1) * plan->pixels;
        span.count = (sample_end < end ? sample_end : end) - first;
        span.slot = span.sample + thread;
    }
    return span;
}

NormSpan norm_span_first(const NormPlan *plan, int thread)
{
    int64_t from, to;
    parallel_range(plan->samples * plan->pixels, 1, thread, plan->threads, &from, &to);
    return norm_span_at(plan, thread, from, to);
}

NormSpan norm_span_next(const NormPlan *plan, NormSpan span)
{
    return norm_span_at(plan, (int)(span.slot - span.sample), span.first + span.count, span.end);
}

bool norm_block_next(const NormPlan *plan, const NormSpan *span, NormBlock *block)
{
    int64_t full = span->count / plan->fold, rest = span->count % plan->fold;
    if (block->rows == 0)
        block->first = span->first * plan->channels;
    block->first += block->rows * block->cols;
    block->done += block->rows;
    if (block->done < full) {
        block->rows = full - block->done < plan->rows ? full - block->done : plan->rows;
        block->cols = plan->wide;
        return true;
    }
    block->rows = 1; /* the last pixels, fewer than a row */
    block->cols = rest * plan->channels;
    return block->done == full && rest > 0;
}

/* Mean and squared deviations of a block, by column, joined with those of the rows before it. */
static void norm_block_moments(const float *x, const NormBlock *block,
                               float *restrict mean_of_block, float *restrict deviation,
                               double *restrict mean, double *restrict squares)
{
    int64_t rows = block->rows, cols = block->cols;
    float   part = 1.0f / (float)rows;
    for (int64_t c = 0; c < cols; c++)
        mean_of_block[c] = deviation[c] = 0;
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4) {
        const float *x0 = x + r * cols, *x1 = x0 + cols, *x2 = x1 + cols, *x3 = x2 + cols;
#pragma omp simd
        for (int64_t c = 0; c < cols; c++)
            mean_of_block[c] += (x0[c] + x1[c]) + (x2[c] + x3[c]);
    }
    for (; r < rows; r++)
#pragma omp simd
        for (int64_t c = 0; c < cols; c++)
            mean_of_block[c] += x[r * cols + c];
    for (int64_t c = 0; c < cols; c++)
        mean_of_block[c] *= part;

    for (r = 0; r + 4 <= rows; r += 4) {
        const float *x0 = x + r * cols, *x1 = x0 + cols, *x2 = x1 + cols, *x3 = x2 + cols;
#pragma omp simd
        for (int64_t c = 0; c < cols; c++) {
            float m = mean_of_block[c], a = x0[c] - m, b = x1[c] - m, d = x2[c] - m, e = x3[c] - m;
            deviation[c] += (a * a + b * b) + (d * d + e * e);
        }
    }
    for (; r < rows; r++)
#pragma omp simd
        for (int64_t c = 0; c < cols; c++) {
            float d = x[r * cols + c] - mean_of_block[c];
            deviation[c] += d * d;
        }

    double share = (double)rows / (double)(block->done + rows), both = (double)block->done * share;
    for (int64_t c = 0; c < cols; c++) {
        double delta = (double)mean_of_block[c] - mean[c];
        mean[c] += delta * share;
        squares[c] += (double)deviation[c] + delta * delta * both;
    }
}

/* How many rows column c of a span has. */
static double norm_rows_of(const NormPlan *plan, const NormSpan *span, int64_t column)
{
    int64_t rest = span->count % plan->fold * plan->channels;
    return (double)(span->count / plan->fold + (column < rest));
}

/* The span of a sample in a thread's range; .count == 0 if there is none. */
static NormSpan norm_span_of(const NormPlan *plan, int64_t thread, int64_t sample)
{
    int64_t from, to, start = sample * plan->pixels;
    if (thread >= plan->threads)
        return (NormSpan){ 0 };
    parallel_range(plan->samples * plan->pixels, 1, (int)thread, plan->threads, &from, &to);
    if (from >= start + plan->pixels || to <= start)
        return (NormSpan){ 0 };
    return norm_span_at(plan, (int)thread, from > start ? from : start, to);
}

/* All spans of a sample, in order of threads. */
static NormSpan norm_sample_first(const NormPlan *plan, int64_t sample)
{
    for (int64_t thread = sample * plan->threads / plan->samples;; thread++) {
        NormSpan span = norm_span_of(plan, thread, sample);
        if (span.count)
            return span;
    }
}

static NormSpan norm_sample_next(const NormPlan *plan, NormSpan span)
{
    return norm_span_of(plan, span.slot - span.sample + 1, span.sample);
}

/* One group of one sample, from all its spans: first the mean, then deviations from it. */
static void norm_join_group(const NormPlan *plan, const NormWork *work, int64_t sample,
                            int64_t group, double eps, float *statistics)
{
    int64_t width = plan->channels / plan->groups;
    double  count = (double)plan->pixels * (double)width, sum = 0, squares = 0;
    for (NormSpan p = norm_sample_first(plan, sample); p.count; p = norm_sample_next(plan, p))
        for (int64_t at = group * width; at < plan->wide; at += plan->channels)
            for (int64_t c = at; c < at + width; c++)
                sum += norm_rows_of(plan, &p, c) * work->one[p.slot * plan->wide + c];
    double mean = sum / count;
    for (NormSpan p = norm_sample_first(plan, sample); p.count; p = norm_sample_next(plan, p))
        for (int64_t at = group * width; at < plan->wide; at += plan->channels)
            for (int64_t c = at; c < at + width; c++) {
                double delta = work->one[p.slot * plan->wide + c] - mean;
                squares += work->two[p.slot * plan->wide + c];
                squares += norm_rows_of(plan, &p, c) * delta * delta;
            }
    statistics[0] = (float)mean;
    statistics[1] = (float)(1 / sqrt(squares / count + eps));
}

void norm_statistics(const NormPlan *plan, const NormWork *work, Type type, const void *x,
                     double eps, float *statistics)
{
    int    thread = omp_get_thread_num();
    float *stage = norm_stage(plan, work, thread, 0);
    float *mean_of_block = norm_vector(plan, work, thread, 0);
    float *deviation = norm_vector(plan, work, thread, 1);
    for (NormSpan p = norm_span_first(plan, thread); p.count; p = norm_span_next(plan, p)) {
        double *mean = work->one + p.slot * plan->wide, *squares = work->two + p.slot * plan->wide;
        memset(mean, 0, (size_t)plan->wide * sizeof *mean);
        memset(squares, 0, (size_t)plan->wide * sizeof *squares);
        for (NormBlock b = { 0 }; norm_block_next(plan, &p, &b);)
            norm_block_moments(row_load(type, x, b.first, b.rows * b.cols, stage), &b,
                               mean_of_block, deviation, mean, squares);
    }
#pragma omp barrier
#pragma omp for schedule(static)
    for (int64_t i = 0; i < plan->samples * plan->groups; i++)
        norm_join_group(plan, work, i / plan->groups, i % plan->groups, eps, statistics + 2 * i);
}

void norm_add_sums(const NormPlan *plan, const NormWork *work, const NormSpan *span,
                   const NormBlock *block, const float *one, const float *two)
{
    double *sum_one = work->one + span->slot * plan->wide;
    double *sum_two = work->two + span->slot * plan->wide;
    if (block->done == 0) {
        memset(sum_one, 0, (size_t)plan->wide * sizeof *sum_one);
        memset(sum_two, 0, (size_t)plan->wide * sizeof *sum_two);
    }
    for (int64_t c = 0; c < block->cols; c++) {
        sum_one[c] += (double)one[c];
        sum_two[c] += (double)two[c];
    }
}

void norm_totals(const NormPlan *plan, const NormWork *work)
{
#pragma omp barrier
#pragma omp for schedule(static)
    for (int64_t n = 0; n < plan->samples; n++) {
        double *one = work->total_one + n * plan->channels;
        double *two = work->total_two + n * plan->channels;
        memset(one, 0, (size_t)plan->channels * sizeof *one);
        memset(two, 0, (size_t)plan->channels * sizeof *two);
        for (NormSpan p = norm_sample_first(plan, n); p.count; p = norm_sample_next(plan, p))
            for (int64_t at = 0; at < plan->wide; at += plan->channels)
                for (int64_t c = 0; c < plan->channels; c++) {
                    one[c] += work->one[p.slot * plan->wide + at + c];
                    two[c] += work->two[p.slot * plan->wide + at + c];
                }
    }
}

void norm_affine_grads(const NormPlan *plan, const NormWork *work, float *dweight, float *dbias)
{
#pragma omp for schedule(static) nowait
    for (int64_t c = 0; c < plan->channels; c++) {
        double one = 0, two = 0;
        for (int64_t n = 0; n < plan->samples; n++) {
            one += work->total_one[n * plan->channels + c];
            two += work->total_two[n * plan->channels + c];
        }
        if (dbias)
            dbias[c] = (float)one;
        if (dweight)
            dweight[c] = (float)two;
    }
}

/* The first `channels` columns, repeated over a whole row. */
static void norm_repeat(const NormPlan *plan, float *wide)
{
    for (int64_t c = plan->channels; c < plan->wide; c++)
        wide[c] = wide[c - plan->channels];
}

void norm_spread_statistics(const NormPlan *plan, const float *statistics, int64_t sample,
                            float *mean, float *rstd)
{
    int64_t      width = plan->channels / plan->groups;
    const float *of_group = statistics + 2 * sample * plan->groups;
    for (int64_t g = 0; g < plan->groups; g++, of_group += 2)
        for (int64_t c = g * width; c < (g + 1) * width; c++) {
            mean[c] = of_group[0];
            rstd[c] = of_group[1];
        }
    norm_repeat(plan, mean);
    norm_repeat(plan, rstd);
}

void norm_spread_affine(const NormPlan *plan, Type type, const void *values, float absent,
                        float *wide)
{
    if (values)
        convert_rows(F32, wide, type, values, (size_t)plan->channels);
    else
        for (int64_t c = 0; c < plan->channels; c++)
            wide[c] = absent;
    norm_repeat(plan, wide);
}

void norm_spread_means(const NormPlan *plan, const NormWork *work, int64_t sample,
                       const float *weight, float *mean_one, float *mean_two)
{
    int64_t       width = plan->channels / plan->groups;
    double        count = (double)plan->pixels * (double)width;
    const double *one = work->total_one + sample * plan->channels;
    const double *two = work->total_two + sample * plan->channels;
    for (int64_t g = 0; g < plan->groups; g++) {
        double sum_one = 0, sum_two = 0;
        for (int64_t c = g * width; c < (g + 1) * width; c++) {
            sum_one += (double)weight[c] * one[c];
            sum_two += (double)weight[c] * two[c];
        }
        for (int64_t c = g * width; c < (g + 1) * width; c++) {
            mean_one[c] = (float)(sum_one / count);
            mean_two[c] = (float)(sum_two / count);
        }
    }
    norm_repeat(plan, mean_one);
    norm_repeat(plan, mean_two);
}
