/* pad_mode_cuda.cu -- padding by any rule, and its gradient, on CUDA. */
#include "ops/reduce/rows_cuda.h"
#include "ops/elementwise/units_cuda.h"

extern "C" {
#include "device/convert.h"
#include "ops/arrange/pad_mode.h"
}

typedef struct PadModeJob {
    int     rank; /* axes from the innermost padded one outwards */
    PadMode mode;
    int64_t x[MAX_RANK], y[MAX_RANK], before[MAX_RANK];
    int64_t inner, count; /* units of one step along the innermost of them; of all */
    uint4   value;        /* 16 bytes of it */
} PadModeJob;

static PadModeJob pad_job(const PadAttr *pad, PadMode mode, Shape x, Shape y)
{
    PadModeJob job = {};
    int        axis = x.rank - 1;
    job.mode = mode;
    job.inner = 1;
    while (axis > 0 && !pad->before[axis] && !pad->after[axis])
        job.inner *= x.dim[axis--];
    for (; axis >= 0; axis--) {
        job.x[job.rank] = x.dim[axis];
        job.y[job.rank] = y.dim[axis];
        job.before[job.rank++] = pad->before[axis];
    }
    return job;
}

static void value_fill(Type type, float value, void *bytes) /* 16 of them */
{
    int32_t  whole = (int32_t)value;
    uint16_t half = type == BF16 ? f32_to_bf16(value) : __half_as_ushort(__float2half_rn(value));
    uint8_t  byte = (uint8_t)value;
    void    *one = type == F32   ? (void *)&value
                   : type == I32 ? (void *)&whole
                   : type == U8  ? (void *)&byte
                                 : (void *)&half;
    for (int i = 0; i < 16; i += type_bytes(type))
        memcpy((char *)bytes + i, one, (size_t)type_bytes(type));
}

template <class U>
__global__ void __launch_bounds__(ROW_THREADS)
    pad_mode_units(U *__restrict__ y, const U *__restrict__ x, PadModeJob job)
{
    cuda_begin();
    U value;
    memcpy(&value, &job.value, sizeof value);
    for (int64_t i = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; i < job.count;
         i += (int64_t)gridDim.x * ROW_THREADS) {
        int64_t column, left = divided(i, job.inner, &column), source = 0, stride = 1;
        bool    inside = true;
#pragma unroll
        for (int a = 0; a < MAX_RANK; a++)
            if (a < job.rank) {
                int64_t index;
                left = divided(left, job.y[a], &index);
                index = pad_source(job.mode, index, job.before[a], job.x[a]);
                inside = inside && index >= 0;
                source += index * stride;
                stride *= job.x[a];
            }
        y[i] = inside ? x[source * job.inner + column] : value;
    }
}

extern "C" Err pad_mode_cuda(const Call *call)
{
    const Node        *n = call->node;
    const PadModeAttr *at = ATTR(n, PadModeAttr);
    Type               type = in_type(n, 0);
    PadModeJob         job = pad_job(&at->pad, at->mode, in_shape(n, 0), out_shape(n, 0));
    int                size = type_bytes(type),
        unit = unit_of_pointer(unit_of_pointer(unit_of(16, job.inner * size), call->in[0]),
                               call->out[0]);
    value_fill(type, at->value, &job.value);
    unit = unit < size ? size : unit;
    job.inner = job.inner * size / unit;
    job.count = shape_count(out_shape(n, 0)) * size / unit;
    WITH_UNIT(unit, U,
              cuda_launch(cuda_stream(call), pad_mode_units<U>,
                          cuda_blocks(call, job.count, ROW_THREADS), ROW_THREADS, 0,
                          (U *)call->out[0], (const U *)call->in[0], job);)
    CUDA_LAUNCHED();
    return OK;
}

/* Adds all rows of dy that show a row of x, axis by axis from the outermost on. */
template <int AXIS>
__device__ __forceinline__ void hits_add(const PadModeJob &job, AnyIn          dy,
                                         const int64_t (&p)[MAX_RANK], int64_t row, int64_t column,
                                         float *sum)
{
    if constexpr (AXIS >= 0) {
        if (AXIS >= job.rank) {
            hits_add<AXIS - 1>(job, dy, p, row, column, sum);
            return;
        }
        PadHits hits = pad_hits(job.mode, p[AXIS], job.before[AXIS], job.x[AXIS], job.y[AXIS]);
        for (int64_t k = 0; k < hits.n; k++)
            hits_add<AXIS - 1>(job, dy, p,
                               row * job.y[AXIS] + pad_hit(&hits, p[AXIS], job.before[AXIS], k),
                               column, sum);
    } else {
        float x;
        any_get<1>(dy, row * job.inner + column, &x);
        *sum += x;
    }
}

__global__ void __launch_bounds__(ROW_THREADS) pad_mode_sums(AnyOut dx, AnyIn dy, PadModeJob job)
{
    cuda_begin();
    for (int64_t i = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; i < job.count;
         i += (int64_t)gridDim.x * ROW_THREADS) {
        int64_t p[MAX_RANK] = { 0 }, column, left = divided(i, job.inner, &column);
        float   sum = 0;
#pragma unroll
        for (int a = 0; a < MAX_RANK; a++)
            if (a < job.rank)
                left = divided(left, job.x[a], &p[a]);
        hits_add<MAX_RANK - 1>(job, dy, p, 0, column, &sum);
        any_put<1>(dx, i, &sum);
    }
}

extern "C" Err pad_mode_grad_cuda(const Call *call)
{
    const PadGradAttr *at = ATTR(call->node, PadGradAttr);
    PadModeJob         job = pad_job(&at->pad, at->mode, at->x, in_shape(call->node, 0));
    job.count = shape_count(at->x);
    cuda_launch(cuda_stream(call), pad_mode_sums, cuda_blocks(call, job.count, ROW_THREADS),
                ROW_THREADS, 0, any_out(call, 0), any_in(call, 0), job);
    CUDA_LAUNCHED();
    return OK;
}

CUDA_KERNEL(pad_mode, .run = pad_mode_cuda)
CUDA_KERNEL(pad_mode_grad, .run = pad_mode_grad_cuda)
