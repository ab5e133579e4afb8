/* direct_conv_cuda.cu -- plans and launches convolutions of 2-byte types on Hopper's tensor cores.
 * See direct_conv.h. */
#include "linalg/direct_conv_kernel.h"

#include "linalg/direct_conv_host.h"

/* A model of the time, fitted to an H200; only comparisons matter. A block costs its steps and some
 * 6 us besides, most of which two blocks on a multiprocessor hide from each other. */
static double plan_us(const DirectConv *conv, int64_t tiles, int64_t result, int sms)
{
    /* us per step of 64, 128, 192 and 256 columns; of 64 and 128 without a second block */
    static const double step[] = { 0.30, 0.335, 0.43, 0.59 }, alone[] = { 0.25, 0.40 };
    bool                pairs = conv->columns <= 128;
    int                 wide = conv->columns / 64 - 1;
    double load = (double)ceil_div(tiles * conv->splits, sms), around = load * (pairs ? 2 : 6);
    double us = load * (double)ceil_div(conv->steps, conv->splits) *
                (pairs && load < 2 ? alone[wide] : step[wide]);
    us += around < 5 ? 5 : around;
    if (conv->splits > 1)
        return us + 3 + (double)(conv->splits * result) * 8 / 5e6;
    return conv->desc.kind == CONV_BACKWARD_WEIGHTS ? us + (double)result * 4 / 3e6 : us;
}

extern "C" bool direct_conv_plan(const CudaHandle *handle, const ConvDesc *c, DirectConv *out)
{
    bool    weights = c->kind == CONV_BACKWARD_WEIGHTS, data = c->kind == CONV_BACKWARD_DATA;
    int64_t extent[4] = { c->n, 0, 0, 0 }, taps = product3(c->kernel),
            channels = data ? c->ci : c->co;
    DirectConv conv = { .desc = *c };
    double     best = 1e30;
    if (!cuda_has_sm90a(handle) || (c->type_x != BF16 && c->type_x != F16) ||
        c->type_y != c->type_x || c->type_w != (weights ? F32 : c->type_x) || c->ci % 8 ||
        c->co % 8 || c->ci < MIN_CHANNELS || c->co < MIN_CHANNELS || c->n < 1)
        return false;
    for (int i = 0; i < 3; i++) {
        extent[i + 1] = data ? c->in[i] : c->out[i];
        if (c->stride[i] > (data ? 1 : 2) || c->in[i] < 1 || c->out[i] < 1)
            return false;
    }
    int64_t positions = extent[0] * extent[1] * extent[2] * extent[3];
    int64_t result = weights ? taps * c->ci * c->co : positions * channels;
    if (positions > INT32_MAX / 256 || taps * c->ci * c->co > INT32_MAX)
        return false;
    boxes_choose(weights ? DEEP : ROWS, extent, &conv);
    int64_t blocks = (int64_t)conv.blocks[0] * conv.blocks[1] * conv.blocks[2] * conv.blocks[3];
    conv.steps = (int)(weights ? blocks : taps * ceil_div(data ? c->co : c->ci, DEEP));
    /* Few input channels make narrow tiles, which are slow to fetch, so the columns of all taps may
     * be joined. Layouts: plain, transposed, transposed and joined. */
    int layouts = !weights ? 1 : c->ci % 64 ? 2 : 3;
    for (int layout = 0; layout < layouts; layout++)
        for (conv.columns = 256; conv.columns >= 64; conv.columns -= 64) {
            conv.transposed = layout > 0;
            conv.joined = layout > 1;
            conv.tiles_m = (int)(weights ? ceil_div(conv.transposed ? c->co : c->ci, ROWS)
                                         : blocks);
            conv.tiles_n = (int)ceil_div(
                conv.transposed ? (conv.joined ? taps : 1) * c->ci : channels, conv.columns);
            int64_t tiles = (int64_t)conv.tiles_m * conv.tiles_n *
                            (weights && !conv.joined ? taps : 1);
            for (conv.splits = 1; conv.splits <= MAX_SPLITS; conv.splits++) {
                if (conv.splits > 1 && (conv.steps / conv.splits < MIN_STEPS ||
                                        conv.splits * result > MAX_PARTIAL_BYTES / 4))
                    break;
                double us = plan_us(&conv, tiles, result, handle->sms);
                if (us <= best) { /* of equals the last, joined one is faster */
                    best = us;
                    *out = conv;
                }
            }
        }
    /* No split may be empty. */
    out->splits = (int)ceil_div(out->steps, ceil_div(out->steps, out->splits));
    return true;
}

static int64_t direct_result(const DirectConv *conv)
{
    const ConvDesc *c = &conv->desc;
    return c->kind == CONV_FORWARD         ? c->n * product3(c->out) * c->co
           : c->kind == CONV_BACKWARD_DATA ? c->n * product3(c->in) * c->ci
                                           : product3(c->kernel) * c->ci * c->co;
}

/* Elements of the partial sums of the result; workspace has these, then partial column sums. */
static int64_t direct_partials(const DirectConv *conv)
{
    return conv->splits == 1 ? 0 : direct_result(conv) * conv->splits;
}

/* Partial column sums of dy, c->co numbers each. */
static int64_t direct_col_sum_rows(const DirectConv *conv)
{
    return (conv->joined ? conv->tiles_n : product3(conv->desc.kernel)) * conv->splits;
}

extern "C" size_t direct_conv_workspace(const DirectConv *conv)
{
    const ConvDesc *c = &conv->desc;
    int64_t         sum_rows = c->kind == CONV_BACKWARD_WEIGHTS ? direct_col_sum_rows(conv) : 0;
    return (size_t)(direct_partials(conv) + sum_rows * c->co) * sizeof(float);
}

/* --- running --- */

#ifdef PLIMSOLL_SM90A

/* dw = before + the partial sums in order; the first blocks add the partial column sums, a warp per
 * column. */
static __global__ void weights_kernel(const float4 *partials, int splits, int sum_rows, int columns,
                                      int sum_blocks, const __grid_constant__ DirectJob job,
                                      float4 *dw, float *sums)
{
    if ((int)blockIdx.x < sum_blocks) {
        col_sums_add(job, sum_rows, columns, sums);
        return;
    }
    int64_t i = (blockIdx.x - (int64_t)sum_blocks) * blockDim.x + threadIdx.x,
            count = job.result / 4;
    if (i >= count)
        return;
    float4 s = partials[i];
    for (int p = 1; p < splits; p++) {
        float4 v = partials[p * count + i];
        s.x += v.x, s.y += v.y, s.z += v.z, s.w += v.w;
    }
    if (job.before) {
        float4 b = ((const float4 *)job.before)[i];
        s.x += b.x, s.y += b.y, s.z += b.z, s.w += b.w;
    }
    dw[i] = s;
}

/* Images (N,D,H,W,C) in boxes of 64 channels; with stride 2 a box has every second position of
 * x. */
static Err map_images(const DirectConv *conv, Type type, int64_t channels, const int64_t *space,
                      const int64_t *stride, const void *p, CUtensorMap *map)
{
    int     every[5] = { 1, (int)stride[2], (int)stride[1], (int)stride[0], 1 };
    int64_t extent[5] = { channels, space[2], space[1], space[0], conv->desc.n };
    int     box[5] = { 64, conv->box[3], conv->box[2], conv->box[1], conv->box[0] };
    return map_make_every(type, 5, extent, NULL, box, every, p, map);
}

template <int KIND, int N, class T>
static Err kernel_run(const CudaHandle *handle, const DirectConv *conv, const CUtensorMap *maps,
                      const DirectJob *job)
{
    static bool ready;
    if (!ready)
        CUDA_TRY(cudaFuncSetAttribute(direct_kernel<KIND, N, T>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, Tile<N>::BYTES));
    ready = true;
    int64_t taps = KIND == CONV_BACKWARD_WEIGHTS && !conv->joined ? product3(conv->desc.kernel) : 1;
    dim3    grid((unsigned)(taps * conv->tiles_m * conv->tiles_n), (unsigned)conv->splits);
    direct_kernel<KIND, N, T>
        <<<grid, THREADS, Tile<N>::BYTES, handle->stream>>>(maps[0], maps[1], maps[2], *job);
    CUDA_TRY(cudaPeekAtLastError());
    return OK;
}

template <int KIND, class T>
static Err tile_run(const CudaHandle *handle, const DirectConv *conv, const CUtensorMap *maps,
                    const DirectJob *job)
{
    return conv->columns == 256   ? kernel_run<KIND, 256, T>(handle, conv, maps, job)
           : conv->columns == 192 ? kernel_run<KIND, 192, T>(handle, conv, maps, job)
           : conv->columns == 128 ? kernel_run<KIND, 128, T>(handle, conv, maps, job)
                                  : kernel_run<KIND, 64, T>(handle, conv, maps, job);
}

template <class T>
static Err direct_run(const CudaHandle *handle, const DirectConv *conv, const DirectArgs *args)
{
    const ConvDesc *c = &conv->desc;
    void           *x = args->x, *w = args->w, *y = args->y;
    int64_t         taps = product3(c->kernel), weight[3] = { c->co, c->ci, taps };
    bool           weights = c->kind == CONV_BACKWARD_WEIGHTS, data = c->kind == CONV_BACKWARD_DATA;
    const int64_t *space = data ? c->in : c->out, close[3] = { 1, 1, 1 };
    CUtensorMap    maps[3] = {};
    DirectJob      job = { .tap_sign = data ? -1 : 1,
                           .tiles_n = conv->tiles_n,
                           .tiles_m = conv->tiles_m,
                           .steps = conv->steps,
                           .per_split = (int)ceil_div(conv->steps, conv->splits),
                           .transposed = conv->transposed,
                           .joined = conv->joined,
                           .direct = conv->splits == 1,
                           .result = direct_result(conv),
                           .bias = args->bias,
                           .bias_type = c->type_bias };
    job.extent[0] = (int)c->n;
    for (int i = 0; i < 4; i++) {
        job.box[i] = conv->box[i], job.blocks[i] = conv->blocks[i];
        if (i < 3) {
            job.extent[i + 1] = (int)space[i], job.kernel[i] = (int)c->kernel[i];
            job.stride[i] = (int)c->stride[i];
            job.shift[i] = (int)(data ? c->pad_lo[i] : -c->pad_lo[i]);
        }
    }
    job.deep_blocks = (int)ceil_div(data ? c->co : c->ci, DEEP);
    job.rows = (int)(conv->transposed ? c->co : c->ci);
    job.columns = (int)(conv->joined       ? taps * c->ci
                        : conv->transposed ? c->ci
                        : data             ? c->ci
                                           : c->co);
    void *out = weights ? w : data ? x : y;
    job.out = job.direct ? (float *)out : (float *)args->workspace;
    job.before = job.direct ? args->before : NULL;
    job.sums = args->sums ? (float *)args->workspace + direct_partials(conv) : NULL;
    job.sums_before = args->sums_before;
    if (weights) {
        TRY(map_images(conv, c->type_x, c->ci, c->in, c->stride, x,
                       &maps[conv->transposed ? 1 : 0]));
        TRY(map_images(conv, c->type_x, c->co, c->out, close, y, &maps[conv->transposed ? 0 : 1]));
        TRY((tile_run<CONV_BACKWARD_WEIGHTS, T>(handle, conv, maps, &job)));
    } else {
        int box[3] = { 64, data ? conv->columns : 64, 1 };
        TRY(map_images(conv, c->type_x, data ? c->co : c->ci, data ? c->out : c->in, c->stride,
                       data ? y : x, &maps[0]));
        TRY(map_make(c->type_x, 3, weight, NULL, box, w, &maps[1]));
        TRY(map_images(conv, c->type_x, data ? c->ci : c->co, space, close, out, &maps[2]));
        TRY(data ? (tile_run<CONV_BACKWARD_DATA, T>(handle, conv, maps, &job))
                 : (tile_run<CONV_FORWARD, T>(handle, conv, maps, &job)));
    }
    unsigned      blocks = job.direct ? 0 : (unsigned)ceil_div(job.result / 4, 256);
    unsigned      sum_blocks = job.sums ? (unsigned)ceil_div(c->co, 256 / 32) : 0;
    const float4 *partials = (const float4 *)args->workspace;
    job.before = args->before;
    if (blocks + sum_blocks == 0)
        return OK;
    if (weights)
        weights_kernel<<<blocks + sum_blocks, 256, 0, handle->stream>>>(
            partials, conv->splits, (int)direct_col_sum_rows(conv), (int)c->co, (int)sum_blocks,
            job, (float4 *)out, args->sums);
    else
        partials_kernel<<<blocks, 256, 0, handle->stream>>>(partials, conv->splits, job, (T *)out);
    CUDA_TRY(cudaPeekAtLastError());
    return OK;
}

#endif

extern "C" Err direct_conv_run(const CudaHandle *handle, const DirectConv *conv,
                               const DirectArgs *args)
{
#ifdef PLIMSOLL_SM90A
    return conv->desc.type_x == BF16 ? direct_run<__nv_bfloat16>(handle, conv, args)
                                     : direct_run<__half>(handle, conv, args);
#else
    (void)handle, (void)conv, (void)args;
    return fail(E_DEVICE, "this build has no kernels for Hopper; build the plugin for sm_90a");
#endif
}
