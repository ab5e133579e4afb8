/* optim_cuda.cu -- accumulation, norm and weight updates on CUDA.
 *
 * An update is bound by memory: each of p, grad, m, v, EMA is read and written once, in one pass.
 * What changes from step to step is read from device memory, so a captured step stays valid. */
#include "ops/optimizer/optim_cuda.h"

__global__ void seed_fill(float *seed, const float *progress, int64_t count)
{
    cuda_begin();
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * blockDim.x)
        seed[i] = progress[PROGRESS_SCALE];
}

extern "C" Err grad_seed_cuda(const Call *call)
{
    int64_t count = shape_count(out_shape(call->node, 0));
    cuda_launch(cuda_stream(call), seed_fill, cuda_blocks(call, count, 32), 32, 0,
                (float *)call->out[0], (const float *)call->in[0], count);
    CUDA_LAUNCHED();
    return OK;
}

/* Sums over micro-batches: as many tensors per launch as its arguments hold. The sum is read from
 * the second micro-batch on. */
enum { ACCUMULATE_BLOCK = 8192, ACCUMULATE_MAX = 640 };

typedef struct Accumulate {
    float  *sum;
    AnyIn   x;
    int64_t count;
    bool    aligned; /* four at a time */
} Accumulate;

typedef struct AccumulateJob {
    Accumulate     of[ACCUMULATE_MAX];
    int32_t        first[ACCUMULATE_MAX + 1]; /* its first block in this launch */
    int32_t        n;
    const int32_t *counters;
} AccumulateJob;

static_assert(sizeof(AccumulateJob) < 32000, "AccumulateJob is passed to a kernel by value");

template <int N>
__device__ __forceinline__ void accumulate_pack(const Accumulate &of, bool fresh, int64_t i)
{
    float x[N], have[N] = { 0 };
    any_get<N>(of.x, i, x);
    if (!fresh)
        get_pack<N>((const float *)of.sum, i, have);
#pragma unroll
    for (int j = 0; j < N; j++)
        x[j] = fresh ? x[j] : have[j] + x[j];
    put_pack<N>(of.sum, i, x);
}

__global__ void __launch_bounds__(ROW_THREADS)
    accumulate_all(const __grid_constant__ AccumulateJob job)
{
    cuda_begin();
    int        at = job_of(job.first, job.n);
    Accumulate of = job.of[at];
    bool       fresh = job.counters[COUNTER_MICRO] == 0;
    int64_t    from = (int64_t)((int32_t)blockIdx.x - job.first[at]) * ACCUMULATE_BLOCK;
    int64_t    to = from + ACCUMULATE_BLOCK < of.count ? from + ACCUMULATE_BLOCK : of.count;
    int64_t    packed = of.aligned ? from + (to - from) / 4 * 4 : from;
    for (int64_t i = from + threadIdx.x * 4; i < packed; i += ROW_THREADS * 4)
        accumulate_pack<4>(of, fresh, i);
    for (int64_t i = packed + threadIdx.x; i < to; i += ROW_THREADS)
        accumulate_pack<1>(of, fresh, i);
}

/* in: sum x counters; out: sum */
extern "C" Err accumulate_all_cuda(const Call *const *calls, int n)
{
    for (int from = 0; from < n; from += ACCUMULATE_MAX) {
        AccumulateJob job = {};
        job.n = n - from < ACCUMULATE_MAX ? n - from : ACCUMULATE_MAX;
        job.counters = (const int32_t *)calls[from]->in[2];
        for (int i = 0; i < job.n; i++) {
            const Call *call = calls[from + i];
            job.of[i] = { (float *)call->out[0], any_in(call, 1),
                          shape_count(out_shape(call->node, 0)),
                          pack_aligned(call->out[0]) && pack_aligned(call->in[1]) };
            if (out_type(call->node, 0) != F32 || !type_is_float(job.of[i].x.type))
                return fail(E_DEVICE,
                            "accumulate: there is no CUDA kernel for a sum other than fp32");
            job.first[i + 1] = job.first[i] + (int32_t)ceil_div(job.of[i].count, ACCUMULATE_BLOCK);
        }
        if (!job.first[job.n])
            continue;
        cuda_launch(cuda_stream(calls[0]), accumulate_all, (unsigned)job.first[job.n], ROW_THREADS,
                    0, job);
        CUDA_LAUNCHED();
    }
    return OK;
}
extern "C" Err accumulate_cuda(const Call *call) { return accumulate_all_cuda(&call, 1); }

/* Norm: a thread block sums NORM_BLOCK elements in double; as many tensors per launch as its
 * arguments hold. One block then adds the partial sums in a fixed order. */
enum { NORM_MAX = 160, NORM_THREADS = 256 };

typedef struct NormJob {
    const float *grad[NORM_MAX];
    int64_t      count[NORM_MAX];
    int32_t      first[NORM_MAX + 1]; /* its first block in this launch */
    int32_t      to[NORM_MAX];        /* where that block's sum goes */
    int32_t      n;
    double      *partial;
} NormJob;

static_assert(sizeof(NormJob) < 4000, "NormJob is passed to a kernel by value");

__global__ void __launch_bounds__(NORM_THREADS) norm_blocks(const __grid_constant__ NormJob job)
{
    cuda_begin();
    __shared__ double sums[32];
    int               at = job_of(job.first, job.n);
    int64_t           from = (int64_t)((int32_t)blockIdx.x - job.first[at]) * NORM_BLOCK;
    int64_t           left = job.count[at] - from, n = left < NORM_BLOCK ? left : NORM_BLOCK;
    const float      *g = job.grad[at] + from;
    double            sum = 0;
    int64_t           packs = (uintptr_t)g % 16 == 0 ? n / 4 : 0;
    for (int64_t i = threadIdx.x; i < packs; i += NORM_THREADS) {
        float4 v = ((const float4 *)g)[i];
        sum += (double)v.x * v.x;
        sum += (double)v.y * v.y;
        sum += (double)v.z * v.z;
        sum += (double)v.w * v.w;
    }
    for (int64_t i = packs * 4 + threadIdx.x; i < n; i += NORM_THREADS)
        sum += (double)g[i] * g[i];
    sum = block_sum_double(sum, sums);
    if (threadIdx.x == 0)
        job.partial[job.to[at] + (int32_t)blockIdx.x - job.first[at]] = sum;
}

__global__ void __launch_bounds__(1024)
    norm_finish(float *norm, const double *partial, int64_t blocks)
{
    cuda_begin();
    __shared__ double sums[32];
    double            sum = 0;
    for (int64_t i = threadIdx.x; i < blocks; i += 1024)
        sum += partial[i];
    sum = block_sum_double(sum, sums);
    if (threadIdx.x == 0)
        *norm = (float)sqrt(sum);
}

Err norm_parts_cuda(const Call *call, const GradSpan *spans, int n, double *partial)
{
    for (int from = 0; from < n; from += NORM_MAX) {
        NormJob job = {};
        job.n = n - from < NORM_MAX ? n - from : NORM_MAX;
        job.partial = partial;
        for (int i = 0; i < job.n; i++) {
            job.grad[i] = spans[from + i].grad;
            job.count[i] = spans[from + i].count;
            job.to[i] = (int32_t)spans[from + i].at;
            job.first[i + 1] = job.first[i] + (int32_t)ceil_div(job.count[i], NORM_BLOCK);
        }
        if (!job.first[job.n])
            continue;
        cuda_launch(cuda_stream(call), norm_blocks, (unsigned)job.first[job.n], NORM_THREADS, 0,
                    job);
        CUDA_LAUNCHED();
    }
    return OK;
}

Err norm_finish_cuda(const Call *call, float *norm, const double *partial, int64_t n)
{
    cuda_launch(cuda_stream(call), norm_finish, 1, 1024, 0, norm, partial, n);
    CUDA_LAUNCHED();
    return OK;
}

static int64_t norm_blocks_of(const Node *n, int i)
{
    return ceil_div(shape_count(in_shape(n, i)), NORM_BLOCK);
}

extern "C" Err grad_norm_choose_cuda(const Node *n, const Device *, Choice *choice)
{
    int64_t blocks = 0;
    for (int i = 0; i < n->n_in; i++)
        blocks += norm_blocks_of(n, i);
    choice->workspace_bytes = (size_t)blocks * sizeof(double);
    return OK;
}

extern "C" Err grad_norm_cuda(const Call *call)
{
    const Node *n = call->node;
    double     *partial = (double *)call->workspace;
    int64_t     done = 0;
    for (int from = 0; from < n->n_in; from += NORM_MAX) {
        GradSpan spans[NORM_MAX];
        int      few = n->n_in - from < NORM_MAX ? n->n_in - from : NORM_MAX;
        for (int i = 0; i < few; i++) {
            spans[i] = { (const float *)call->in[from + i], shape_count(in_shape(n, from + i)),
                         done };
            done += norm_blocks_of(n, from + i);
        }
        TRY(norm_parts_cuda(call, spans, few, partial));
    }
    return norm_finish_cuda(call, (float *)call->out[0], partial, done);
}

__global__ void tick_once(float *progress, const float *norm_in, const float *loss, TickAttr attr)
{
    cuda_begin();
    float scale = progress[PROGRESS_SCALE], norm = norm_in ? *norm_in / scale : 0;
    bool  finite = isfinite(norm) && isfinite(*loss);
    float factor = 1 / scale;
    if (attr.clip > 0 && finite) { /* torch.nn.utils.clip_grad_norm_ */
        float clip = attr.clip / (norm + 1e-6f);
        factor *= clip < 1 ? clip : 1;
    }
    progress[PROGRESS_NORM] = norm;
    progress[PROGRESS_FINITE] = finite ? 1.0f : 0.0f;
    progress[PROGRESS_FACTOR] = factor;
    if (finite) {
        double t = (double)(progress[PROGRESS_T] += 1);
        progress[PROGRESS_BIAS1] = (float)(1 - pow((double)attr.beta1, t));
        progress[PROGRESS_BIAS2] = (float)(1 - pow((double)attr.beta2, t));
    }
    if (attr.scaling) { /* halve on overflow, double after a long good run */
        if (!finite) {
            progress[PROGRESS_SCALE] = scale > 1 ? scale / 2 : 1;
            progress[PROGRESS_GOOD] = 0;
        } else if ((progress[PROGRESS_GOOD] += 1) >= attr.growth_interval) {
            progress[PROGRESS_SCALE] = scale < 0x1p24f ? scale * 2 : scale;
            progress[PROGRESS_GOOD] = 0;
        }
    }
}

extern "C" Err tick_cuda(const Call *call)
{
    cuda_launch(cuda_stream(call), tick_once, 1, 1, 0, (float *)call->out[0],
                (const float *)call->in[1], (const float *)call->in[2],
                *ATTR(call->node, TickAttr));
    CUDA_LAUNCHED();
    return OK;
}

typedef struct Update { /* all fp32 but old and p, NULL where absent */
    const void  *old;   /* the parameters; p itself, or elsewhere */
    void        *p;
    const float *grad, *progress, *rates;
    float       *m, *v, *ema, *master;
    int64_t      count;
    UpdateAttr   attr;
    Type         type;    /* of p */
    int32_t      first;   /* its first block in the launch */
    bool         aligned; /* four at a time */
} Update;

struct Adam {
    float      factor, step, root, keep, l2;
    __device__ Adam(const Update &u, float rate)
    {
        factor = u.progress[PROGRESS_FACTOR];
        step = rate / u.progress[PROGRESS_BIAS1];
        root = 1 / sqrtf(u.progress[PROGRESS_BIAS2]);
        keep = u.attr.decoupled ? 1 - rate * u.attr.decay : 1;
        l2 = u.attr.decoupled ? 0 : u.attr.decay;
    }
    __device__ void at(const UpdateAttr &a, float &p, float grad, float &m, float &v, bool) const
    {
        float g = grad * factor + l2 * p;
        m = a.beta1 * m + (1 - a.beta1) * g;
        v = a.beta2 * v + (1 - a.beta2) * g * g;
        p = p * keep - step * m / (sqrtf(v) * root + a.eps);
    }
};

struct Sgd {
    float      factor, rate, keep, l2;
    __device__ Sgd(const Update &u, float given)
    {
        factor = u.progress[PROGRESS_FACTOR];
        rate = given;
        keep = u.attr.decoupled ? 1 - rate * u.attr.decay : 1;
        l2 = u.attr.decoupled ? 0 : u.attr.decay;
    }
    __device__ void at(const UpdateAttr &a, float &p, float grad, float &m, float &,
                       bool momentum) const
    {
        float g = grad * factor + l2 * p;
        if (momentum)
            g = m = a.beta1 * m + g;
        p = p * keep - rate * g;
    }
};

template <int N> __device__ __forceinline__ void floats_get(const float *p, int64_t i, float *x)
{
    if (p)
        get_pack<N>(p, i, x);
    else
#pragma unroll
        for (int j = 0; j < N; j++)
            x[j] = 0;
}

template <int N, class Rule>
__device__ __forceinline__ void update_pack(const Update &u, const Rule &rule, bool finite,
                                            float lag, int64_t i)
{
    float p[N], g[N], m[N], v[N], ema[N];
    if (u.master)
        get_pack<N>((const float *)u.master, i, p);
    else
        any_get<N>({ u.old, u.type }, i, p);
    floats_get<N>(u.grad, i, g);
    floats_get<N>(u.m, i, m);
    floats_get<N>(u.v, i, v);
    floats_get<N>(u.ema, i, ema);
    if (finite) {
#pragma unroll
        for (int j = 0; j < N; j++)
            rule.at(u.attr, p[j], g[j], m[j], v[j], u.m != NULL);
        if (u.m)
            put_pack<N>(u.m, i, m);
        if (u.v)
            put_pack<N>(u.v, i, v);
        if (u.master)
            put_pack<N>(u.master, i, p);
    }
    if (u.ema) {
#pragma unroll
        for (int j = 0; j < N; j++) /* decay 0 is a copy, exactly */
            ema[j] = lag == 1 ? p[j] : ema[j] - lag * (ema[j] - p[j]);
        put_pack<N>(u.ema, i, ema);
    }
    any_put<N>({ u.p, u.type }, i, p);
}

/* Blocks of fixed size, and as many tensors per launch as its arguments hold: most tensors of a
 * network are small. */
enum { UPDATE_BLOCK = 8192, UPDATE_MAX = 240 };

typedef struct UpdateJob {
    Update  of[UPDATE_MAX];
    int32_t first[UPDATE_MAX + 1]; /* its first block in this launch */
    int32_t n;
} UpdateJob;

static_assert(sizeof(UpdateJob) < 32000, "UpdateJob is passed to a kernel by value");

template <class Rule>
__global__ void __launch_bounds__(ROW_THREADS) update_all(const __grid_constant__ UpdateJob job)
{
    cuda_begin();
    Update  u = job.of[job_of(job.first, job.n)];
    int64_t from = (int64_t)((int32_t)blockIdx.x - u.first) * UPDATE_BLOCK;
    int64_t to = from + UPDATE_BLOCK < u.count ? from + UPDATE_BLOCK : u.count;
    float   rate = u.rates[RATE_GROUPS + u.attr.group], lag = 1 - u.rates[RATE_EMA_DECAY];
    bool    finite = u.progress[PROGRESS_FINITE] != 0;
    Rule    rule(u, rate);
    int64_t packed = u.aligned ? from + (to - from) / 4 * 4 : from;
    for (int64_t i = from + threadIdx.x * 4; i < packed; i += ROW_THREADS * 4)
        update_pack<4>(u, rule, finite, lag, i);
    for (int64_t i = packed + threadIdx.x; i < to; i += ROW_THREADS)
        update_pack<1>(u, rule, finite, lag, i);
}

static bool update_aligned(const Update &u)
{
    const void *all[] = { u.old, u.p, u.grad, u.m, u.v, u.ema, u.master };
    bool        aligned = true;
    for (const void *p : all)
        aligned = aligned && pack_aligned(p);
    return aligned;
}

/* in: p grad m v ema master progress rates; out: p m v ema master */
static Update update_of(const Call *call, bool second)
{
    const Node *n = call->node;
    Update      u = { call->in[0],
                      call->out[0],
                      (const float *)call->in[1],
                      (const float *)call->in[6],
                      (const float *)call->in[7],
                      (float *)call->out[1],
                 second ? (float *)call->out[2] : NULL,
                      (float *)call->out[3],
                      (float *)call->out[4],
                      shape_count(in_shape(n, 0)),
                      *ATTR(n, UpdateAttr),
                      in_type(n, 0) };
    u.aligned = update_aligned(u);
    return u;
}

static Update update_of_span(const UpdateSpan &span, int64_t count)
{
    Update u = { span.in, span.out, span.grad,   span.progress, span.rates, span.m,
                 span.v,  span.ema, span.master, count,         *span.attr, span.type };
    u.aligned = update_aligned(u);
    return u;
}

static void update_add(UpdateJob *job, Update u)
{
    u.first = job->first[job->n];
    job->of[job->n++] = u;
    job->first[job->n] = u.first + (int32_t)ceil_div(u.count, UPDATE_BLOCK);
}

template <class Rule> static Err update_launch(const Call *call, const UpdateJob *job)
{
    if (job->first[job->n])
        cuda_launch(cuda_stream(call), update_all<Rule>, (unsigned)job->first[job->n], ROW_THREADS,
                    0, *job);
    CUDA_LAUNCHED();
    return OK;
}

template <class Rule> static Err update_cuda(const Call *const *calls, int n, bool second)
{
    for (int from = 0; from < n; from += UPDATE_MAX) {
        UpdateJob job = {};
        for (int i = from; i < n && i < from + UPDATE_MAX; i++)
            update_add(&job, update_of(calls[i], second));
        TRY(update_launch<Rule>(calls[0], &job));
    }
    return OK;
}

Err update_spans_cuda(const Call *call, const UpdateSpan *spans, const int64_t *counts, int n)
{
    for (int from = 0; from < n; from += UPDATE_MAX) {
        UpdateJob job = {};
        for (int i = from; i < n && i < from + UPDATE_MAX; i++)
            update_add(&job, update_of_span(spans[i], counts[i]));
        TRY(spans->sgd ? update_launch<Sgd>(call, &job) : update_launch<Adam>(call, &job));
    }
    return OK;
}

extern "C" Err adam_all_cuda(const Call *const *calls, int n)
{
    return update_cuda<Adam>(calls, n, true);
}
extern "C" Err sgd_all_cuda(const Call *const *calls, int n)
{
    return update_cuda<Sgd>(calls, n, false);
}
extern "C" Err adam_cuda(const Call *call) { return adam_all_cuda(&call, 1); }
extern "C" Err sgd_cuda(const Call *call) { return sgd_all_cuda(&call, 1); }

CUDA_KERNEL(accumulate, .run = accumulate_cuda, .run_all = accumulate_all_cuda)
CUDA_KERNEL(grad_seed, .run = grad_seed_cuda)
CUDA_KERNEL(grad_norm, .choose = grad_norm_choose_cuda, .run = grad_norm_cuda)
CUDA_KERNEL(tick, .run = tick_cuda)
CUDA_KERNEL(adam, .run = adam_cuda, .run_all = adam_all_cuda)
CUDA_KERNEL(sgd, .run = sgd_cuda, .run_all = sgd_all_cuda)
