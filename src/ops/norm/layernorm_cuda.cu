/* layernorm_cuda.cu -- norms over the last axis on CUDA: slices of rows, and the operators
 * (layernorm_cuda.h). */
#include "ops/norm/layernorm_cuda.h"

extern "C" {
#include "ops/norm/groupnorm.h"
#include "ops/norm/layernorm.h"
}

/* Blocks for sums over rows: as many as the GPU holds at once. The workspace depends on this
 * number, so it follows from the shape alone, not from how a pointer is aligned. */
static int64_t rows_blocks(const RowsCuda *job, int sms)
{
    int  wide = 16 / (int)type_bytes(job->type), v = job->width % wide == 0 ? wide
                                                     : job->width % 4 == 0  ? 4
                                                                            : 1;
    Team team = team_of(job->width / v);
    int  numbers = team.packs * v, bytes = numbers * (int)type_bytes(job->type);
    return (int64_t)sms * (!team.packs             ? 4
                           : v > 1 && !job->scalar ? ring_blocks(numbers, bytes)
                                                   : back_blocks(numbers, job->scalar));
}

static RowsCuda rows_of(const Node *n, int64_t samples, int sms, bool scalar)
{
    const int64_t min_rows = BACK_THREADS / 32; /* of a slice: one for each warp */
    Shape         x = in_shape(n, 0);
    RowsCuda      job = {};
    job.width = dim(x, -1);
    job.rows = shape_count(x) / job.width;
    job.per = job.rows / samples;
    job.type = in_type(n, 0);
    job.type_w = F32;
    job.scalar = scalar;
    job.eps = ATTR(n, LayernormAttr)->eps;
    int64_t want = rows_blocks(&job, sms) / samples, max_slices = ceil_div(job.per, min_rows);
    want = want < 1 ? 1 : want; /* one block more than fits would double the time */
    job.slice_rows = ceil_div(job.per, want < max_slices ? want : max_slices);
    job.slices = ceil_div(job.per, job.slice_rows);
    return job;
}

static size_t rows_bytes(const RowsCuda *job)
{
    return (size_t)(job->rows / job->per * job->slices * 2 * (job->scalar ? 1 : job->width)) *
           sizeof(float);
}

/* Where the sums over slices go. */
typedef struct Totals {
    const float *partial;
    int64_t      slices, width, columns; /* columns: of a sample's output row */
    int64_t      at[2];                  /* first columns of dy * xhat and of dy */
    Type         type;
    void        *out[2]; /* may be the same; NULL: not wanted */
    bool         packed; /* one output for both, with zeros between them */
} Totals;

/* threads (32, up to 32), blocks (columns / 32, samples) */
__global__ void __launch_bounds__(1024) rows_totals(Totals to)
{
    cuda_begin();
    __shared__ double sums[32][33];
    int64_t           sample = blockIdx.y, column = blockIdx.x * (int64_t)32 + threadIdx.x, c = -1;
    int               part = 0;
    for (int i = 0; i < 2; i++)
        if (column >= to.at[i] && column < to.at[i] + to.width) {
            part = i;
            c = column - to.at[i];
        }
    const float *from = to.partial + (sample * to.slices * 2 + part) * to.width + c;
    int          slices = c >= 0 ? (int)to.slices : 0;
    double       sum = 0;
#pragma unroll 8
    for (int i = threadIdx.y; i < slices; i += (int)blockDim.y)
        sum += (double)from[2 * i * to.width];
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    void *out = part ? to.out[1] : to.out[0];
    if (threadIdx.y || column >= to.columns || !out)
        return;
    for (int i = 1; i < (int)blockDim.y; i++)
        sum += sums[i][threadIdx.x];
    int64_t at = to.packed ? sample * to.columns + column : c;
    if (to.type == F32)
        put((float *)out, at, (float)sum);
    else if (to.type == BF16)
        put((bf16 *)out, at, (float)sum);
    else
        put((f16 *)out, at, (float)sum);
}

static Err rows_no_kernel(const Call *call, Type type)
{
    return fail(E_DEVICE, "%s: no CUDA kernel for type %d", call->node->op->name, (int)type);
}

static Err rows_run_forward(const Call *call, RowsCuda job)
{
    job.x = call->in[0];
    job.y = call->out[0];
    switch (job.type) {
    case F32: rows_forward_f32(call, job); break;
    case BF16: rows_forward_bf16(call, job); break;
    case F16: rows_forward_f16(call, job); break;
    default: return rows_no_kernel(call, job.type);
    }
    CUDA_LAUNCHED();
    return OK;
}

/* in: x ... dy, and after dy the summand of dx or none */
static Err rows_run_backward(const Call *call, RowsCuda job, int dy, bool sums)
{
    if (in_type(call->node, dy) != job.type)
        return fail(E_DEVICE, "%s: x and dy differ in type, which has no CUDA kernel",
                    call->node->op->name);
    job.x = call->in[0];
    job.dy = call->in[dy];
    job.before = call->in[dy + 1];
    job.y = call->out[0];
    job.partial = sums ? (float *)call->workspace : NULL;
    switch (job.type) {
    case F32: rows_backward_f32(call, job); break;
    case BF16: rows_backward_bf16(call, job); break;
    case F16: rows_backward_f16(call, job); break;
    default: return rows_no_kernel(call, job.type);
    }
    CUDA_LAUNCHED();
    return OK;
}

static Err rows_run_totals(const Call *call, const RowsCuda *job, Totals to)
{
    to.partial = (const float *)call->workspace;
    to.slices = job->slices;
    to.width = job->scalar ? 1 : job->width;
    dim3     blocks((unsigned)ceil_div(to.columns, 32), (unsigned)(job->rows / job->per));
    /* many blocks: small enough that all run at once; few: all loads in flight */
    unsigned rows = blocks.x * blocks.y > (unsigned)cuda_handle(call)->sms ? 8 : 32;
    cuda_launch(cuda_stream(call), rows_totals, blocks, dim3(32, rows), 0, to);
    CUDA_LAUNCHED();
    return OK;
}

static int sms_of(const Device *device) { return ((const CudaHandle *)device->handle)->sms; }

/* ---- layernorm ---- */

static RowsCuda layernorm_rows(const Call *call)
{
    RowsCuda job = rows_of(call->node, 1, cuda_handle(call)->sms, false);
    if (in_given(call->node, 1))
        job.type_w = in_type(call->node, 1);
    job.weight = call->in[1];
    return job;
}

extern "C" Err layernorm_cuda(const Call *call)
{
    RowsCuda job = layernorm_rows(call);
    job.type_w = norm_affine_type(call->node, 1);
    job.bias = call->in[2];
    return rows_run_forward(call, job);
}

static bool layernorm_sums(const Node *n)
{
    return ATTR(n, LayernormAttr)->wants[1] || ATTR(n, LayernormAttr)->wants[2];
}

extern "C" Err layernorm_grad_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    RowsCuda job = rows_of(n, 1, sms_of(device), false);
    choice->workspace_bytes = layernorm_sums(n) ? rows_bytes(&job) : 0;
    choice->name = "builtin";
    return OK;
}

extern "C" Err layernorm_grad_cuda(const Call *call)
{
    RowsCuda job = layernorm_rows(call);
    bool     sums = layernorm_sums(call->node);
    TRY(rows_run_backward(call, job, 2, sums));
    if (!sums)
        return OK;
    Totals to = {};
    to.columns = 2 * job.width;
    to.at[1] = job.width;
    to.type = F32;
    to.out[0] = call->out[1];
    to.out[1] = call->out[2];
    return rows_run_totals(call, &job, to);
}

/* ---- layernorm_modulate ---- */

static RowsCuda modulate_rows(const Node *n, const void *packed, int sms)
{
    const LayernormAttr *attr = ATTR(n, LayernormAttr);
    Shape                shape = in_shape(n, 1);
    RowsCuda             job = rows_of(n, shape.dim[0], sms, false);
    size_t               bytes = in_type(n, 1) == F32 ? 4 : 2;
    job.type_w = in_type(n, 1);
    job.pitch = shape.dim[1];
    job.plus = 1;
    job.weight = (const char *)packed + (size_t)attr->scale_at * bytes;
    job.bias = (const char *)packed + (size_t)attr->shift_at * bytes;
    return job;
}

extern "C" Err layernorm_modulate_cuda(const Call *call)
{
    return rows_run_forward(call, modulate_rows(call->node, call->in[1], cuda_handle(call)->sms));
}

extern "C" Err layernorm_modulate_grad_choose_cuda(const Node *n, const Device *device,
                                                   Choice *choice)
{
    RowsCuda job = rows_of(n, in_shape(n, 1).dim[0], sms_of(device), false);
    choice->workspace_bytes = ATTR(n, LayernormAttr)->wants[1] ? rows_bytes(&job) : 0;
    choice->name = "builtin";
    return OK;
}

extern "C" Err layernorm_modulate_grad_cuda(const Call *call)
{
    const LayernormAttr *attr = ATTR(call->node, LayernormAttr);
    RowsCuda             job = modulate_rows(call->node, call->in[1], cuda_handle(call)->sms);
    TRY(rows_run_backward(call, job, 2, attr->wants[1]));
    if (!attr->wants[1])
        return OK;
    Totals to = {};
    to.columns = job.pitch;
    to.at[0] = attr->scale_at;
    to.at[1] = attr->shift_at;
    to.type = out_type(call->node, 1);
    to.out[0] = to.out[1] = call->out[1];
    to.packed = true;
    return rows_run_totals(call, &job, to);
}

/* ---- scalar_norm ---- */

static RowsCuda scalar_rows(const Node *n, int sms)
{
    RowsCuda job = rows_of(n, 1, sms, true);
    job.eps = 0;
    return job;
}

/* m and s must be of one type, as they are in all models here. */
static Err scalar_numbers(const Call *call, RowsCuda *job)
{
    if (in_type(call->node, 1) != in_type(call->node, 2))
        return fail(E_DEVICE, "%s: m and s differ in type, which has no CUDA kernel",
                    call->node->op->name);
    job->type_w = in_type(call->node, 1);
    job->bias = call->in[1];
    job->weight = call->in[2];
    return OK;
}

extern "C" Err scalar_norm_cuda(const Call *call)
{
    RowsCuda job = scalar_rows(call->node, cuda_handle(call)->sms);
    TRY(scalar_numbers(call, &job));
    return rows_run_forward(call, job);
}

static bool scalar_sums(const Node *n)
{
    return ATTR(n, LayernormAttr)->wants[1] || ATTR(n, LayernormAttr)->wants[2];
}

extern "C" Err scalar_norm_grad_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    RowsCuda job = scalar_rows(n, sms_of(device));
    choice->workspace_bytes = scalar_sums(n) ? rows_bytes(&job) : 0;
    choice->name = "builtin";
    return OK;
}

extern "C" Err scalar_norm_grad_cuda(const Call *call)
{
    RowsCuda job = scalar_rows(call->node, cuda_handle(call)->sms);
    TRY(scalar_numbers(call, &job));
    TRY(rows_run_backward(call, job, 3, scalar_sums(call->node)));
    if (!scalar_sums(call->node))
        return OK;
    Totals to = {};
    to.columns = 2;
    to.at[1] = 1;
    to.type = F32;
    to.out[0] = call->out[2]; /* s takes the weight's place */
    to.out[1] = call->out[1];
    return rows_run_totals(call, &job, to);
}

CUDA_KERNEL(layernorm, .run = layernorm_cuda)
CUDA_KERNEL(layernorm_grad, .choose = layernorm_grad_choose_cuda, .run = layernorm_grad_cuda)
CUDA_KERNEL(layernorm_modulate, .run = layernorm_modulate_cuda)
CUDA_KERNEL(layernorm_modulate_grad, .choose = layernorm_modulate_grad_choose_cuda,
            .run = layernorm_modulate_grad_cuda)
CUDA_KERNEL(scalar_norm, .run = scalar_norm_cuda)
CUDA_KERNEL(scalar_norm_grad, .choose = scalar_norm_grad_choose_cuda, .run = scalar_norm_grad_cuda)
