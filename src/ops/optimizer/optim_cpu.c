/* optim_cpu.c -- accumulation, norm and weight updates on the CPU.
 *
 * An update is bound by memory: each of p, grad, m, v, EMA is read and written once, in one
 * pass. */
#include "device/convert.h"
#include "ops/optimizer/optim.h"
#include "ops/parallel.h"

#include <math.h>
#include <string.h>

Err accumulate_cpu(const Call *call)
{
    const Node    *n = call->node;
    const int32_t *counters = call->in[2];
    bool           first = counters[COUNTER_MICRO] == 0;
    int64_t        count = shape_count(in_shape(n, 0));
    Type           type = in_type(n, 1);
    int            threads = call->device->threads;
    float         *sum = call->out[0];

#pragma omp parallel num_threads(threads)
    {
        float   buffer[ROW_BLOCK];
        int64_t from, to;
        parallel_range(count, ROW_BLOCK, omp_get_thread_num(), threads, &from, &to);
        for (int64_t i = from; i < to; i += ROW_BLOCK) {
            int64_t      m = to - i < ROW_BLOCK ? to - i : ROW_BLOCK;
            const float *x = row_load(type, call->in[1], i, m, buffer);
            if (first)
                memcpy(sum + i, x, (size_t)m * sizeof *x);
            else
                for (int64_t j = 0; j < m; j++)
                    sum[i + j] += x[j];
        }
    }
    return OK;
}

Err grad_seed_cpu(const Call *call)
{
    const float *progress = call->in[0];
    float       *seed = call->out[0];
    int64_t      count = shape_count(out_shape(call->node, 0));
    for (int64_t i = 0; i < count; i++)
        seed[i] = progress[PROGRESS_SCALE];
    return OK;
}

/* Blocks of fixed size are summed in double and added in order: the norm does not depend on the
 * number of threads. */
double norm_block(const float *g, int64_t n)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += (double)g[i] * (double)g[i];
    return sum;
}

static int64_t grad_norm_blocks(const Node *n)
{
    int64_t blocks = 0;
    for (int i = 0; i < n->n_in; i++)
        blocks += ceil_div(shape_count(in_shape(n, i)), BLOCK_ELEMENTS);
    return blocks;
}

Err grad_norm_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    (void)device;
    choice->workspace_bytes = (size_t)grad_norm_blocks(n) * sizeof(double);
    return OK;
}

Err grad_norm_cpu(const Call *call)
{
    const Node *n = call->node;
    double     *partial = call->workspace, total = 0;
    int64_t     first = 0;
    for (int i = 0; i < n->n_in; i++) {
        const float *g = call->in[i];
        int64_t      count = shape_count(in_shape(n, i)), blocks = ceil_div(count, BLOCK_ELEMENTS);
        int          threads = call->device->threads;
#pragma omp parallel for num_threads(threads) schedule(static)
        for (int64_t p = 0; p < blocks; p++)
            partial[first + p] = norm_block(g + p * BLOCK_ELEMENTS,
                                            int_min(count - p * BLOCK_ELEMENTS, BLOCK_ELEMENTS));
        first += blocks;
    }
    for (int64_t p = 0; p < first; p++)
        total += partial[p];
    *(float *)call->out[0] = (float)sqrt(total);
    return OK;
}

Err tick_cpu(const Call *call)
{
    const TickAttr *attr = ATTR(call->node, TickAttr);
    const float    *norm_in = call->in[1], *loss = call->in[2];
    float          *progress = call->out[0];
    float           scale = progress[PROGRESS_SCALE];
    float           norm = norm_in ? *norm_in / scale : 0;
    bool            finite = isfinite(norm) && isfinite(*loss);

    progress[PROGRESS_NORM] = norm;
    progress[PROGRESS_FINITE] = finite ? 1.0f : 0.0f;
    progress[PROGRESS_FACTOR] = 1 / scale;
    if (attr->clip > 0 && finite) { /* torch.nn.utils.clip_grad_norm_ */
        float clip = attr->clip / (norm + 1e-6f);
        progress[PROGRESS_FACTOR] *= clip < 1 ? clip : 1;
    }
    if (finite) {
        double t = (double)(progress[PROGRESS_T] += 1);
        progress[PROGRESS_BIAS1] = (float)(1 - pow((double)attr->beta1, t));
        progress[PROGRESS_BIAS2] = (float)(1 - pow((double)attr->beta2, t));
    }
    if (attr->scaling) { /* halve on overflow, double after a long good run */
        if (!finite) {
            progress[PROGRESS_SCALE] = scale > 1 ? scale / 2 : 1;
            progress[PROGRESS_GOOD] = 0;
        } else if ((progress[PROGRESS_GOOD] += 1) >= attr->growth_interval) {
            progress[PROGRESS_SCALE] = scale < 0x1p24f ? scale * 2 : scale;
            progress[PROGRESS_GOOD] = 0;
        }
    }
    return OK;
}

typedef struct UpdateRow { /* one block of a parameter and its state, as fp32 */
    float       *p, *m, *v;
    const float *grad;
} UpdateRow;

static void adam_row(UpdateRow r, int64_t n, const UpdateAttr *a, float rate, const float *progress)
{
    float factor = progress[PROGRESS_FACTOR], step = rate / progress[PROGRESS_BIAS1];
    float root = 1 / sqrtf(progress[PROGRESS_BIAS2]);
    float keep = a->decoupled ? 1 - rate * a->decay : 1, l2 = a->decoupled ? 0 : a->decay;
    float beta1 = a->beta1, beta2 = a->beta2, eps = a->eps;
    for (int64_t i = 0; i < n; i++) {
        float p = r.p[i], g = r.grad[i] * factor + l2 * p;
        float m = beta1 * r.m[i] + (1 - beta1) * g;
        float v = beta2 * r.v[i] + (1 - beta2) * g * g;
        r.m[i] = m;
        r.v[i] = v;
        r.p[i] = p * keep - step * m / (sqrtf(v) * root + eps);
    }
}

static void sgd_row(UpdateRow r, int64_t n, const UpdateAttr *a, float rate, const float *progress)
{
    float factor = progress[PROGRESS_FACTOR];
    float keep = a->decoupled ? 1 - rate * a->decay : 1, l2 = a->decoupled ? 0 : a->decay;
    for (int64_t i = 0; i < n; i++) {
        float g = r.grad[i] * factor + l2 * r.p[i];
        if (r.m)
            g = r.m[i] = a->beta1 * r.m[i] + g;
        r.p[i] = r.p[i] * keep - rate * g;
    }
}

/* Reads and writes elements [i, i + n), at most ROW_BLOCK of them. */
static void update_block(const UpdateSpan *s, int64_t i, int64_t n)
{
    float  buffer[ROW_BLOCK], rate = s->rates[RATE_GROUPS + s->attr->group];
    float  lag = 1 - s->rates[RATE_EMA_DECAY];
    float *p = s->master ? s->master + i : row_open(s->type, s->out, i, buffer), *ema = s->ema;
    if (!s->master && s->type != F32)
        row_load(s->type, s->in, i, n, buffer);
    else if (!s->master && s->in != s->out)
        memcpy(p, (const float *)s->in + i, (size_t)n * sizeof *p);
    if (s->progress[PROGRESS_FINITE] != 0)
        (s->sgd ? sgd_row : adam_row)(
            (UpdateRow){ p, s->m ? s->m + i : NULL, s->v ? s->v + i : NULL, s->grad + i }, n,
            s->attr, rate, s->progress);
    if (ema && lag == 1) /* decay 0 is a copy, exactly */
        memcpy(ema + i, p, (size_t)n * sizeof *p);
    else if (ema)
        for (int64_t j = i; j < i + n; j++)
            ema[j] -= lag * (ema[j] - p[j - i]);
    if (s->type != F32)
        row_store(s->type, s->out, i, n, p);
    else if (s->master)
        memcpy((float *)s->out + i, p, (size_t)n * sizeof *p);
}

void update_span(const UpdateSpan *span, int64_t count, int threads)
{
#pragma omp parallel num_threads(threads)
    {
        int64_t from, to;
        parallel_range(count, ROW_BLOCK, omp_get_thread_num(), threads, &from, &to);
        for (int64_t i = from; i < to; i += ROW_BLOCK)
            update_block(span, i, to - i < ROW_BLOCK ? to - i : ROW_BLOCK);
    }
}

static Err update_cpu(const Call *call, bool sgd)
{
    update_span(&(UpdateSpan){ .type = in_type(call->node, 0),
                               .in = call->in[0],
                               .out = call->out[0],
                               .grad = call->in[1],
                               .m = call->out[1],
                               .v = call->out[2],
                               .ema = call->out[3],
                               .master = call->out[4],
                               .progress = call->in[6],
                               .rates = call->in[7],
                               .attr = ATTR(call->node, UpdateAttr),
                               .sgd = sgd },
                shape_count(in_shape(call->node, 0)), call->device->threads);
    return OK;
}

Err adam_cpu(const Call *call) { return update_cpu(call, false); }
Err sgd_cpu(const Call *call) { return update_cpu(call, true); }
