/* direct_conv_cuda.cu -- convolutions of 2-byte types by Hopper's tensor cores: how each is cut,
 * and its launch. See direct_conv.h. */
#include "linalg/direct_conv_kernel.h"

#include "linalg/direct_conv_host.h"

#ifdef PLIMSOLL_SM90A
/* A model of the time, fitted to an H200; only the order of the choices matters. A block costs its
 * steps and some 6 us around them, most of which two blocks on a multiprocessor hide from each
 * other. */
static double plan_us(const DirectConv *conv, int64_t tiles, int64_t result, int sms)
{
    /* of 64, 128, 192 and 256 columns; of 64 and 128 where there is no second block */
    static const double step[] = { 0.30, 0.335, 0.43, 0.59 }, alone[] = { 0.25, 0.40 };
    bool   pairs = conv->columns <= 128;
    int    wide = conv->columns / 64 - 1;
    double load = (double)pieces_of(tiles * conv->splits, sms), around = load * (pairs ? 2 : 6);
    double us = load * (double)pieces_of(conv->steps, conv->splits) *
                (pairs && load < 2 ? alone[wide] : step[wide]);
    us += around < 5 ? 5 : around;
    if (conv->splits > 1)
        return us + 3 + (double)(conv->splits * result) * 8 / 5e6;
    return conv->desc.kind == CONV_BACKWARD_WEIGHTS ? us + (double)result * 4 / 3e6 : us;
}
#endif

extern "C" bool direct_conv_plan(const CudaHandle *handle, const ConvDesc *c, DirectConv *out)
{
#ifdef PLIMSOLL_SM90A
    bool       weights = c->kind == CONV_BACKWARD_WEIGHTS, data = c->kind == CONV_BACKWARD_DATA;
    int64_t extent[4] = { c->n, 0, 0, 0 }, taps = product3(c->kernel),
            channels = data ? c->ci : c->co;
    DirectConv conv = { .desc = *c };
    double     best = 1e30;
    if (handle->capability != 90 || (c->type_x != BF16 && c->type_x != F16) ||
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
    conv.steps = (int)(weights ? blocks : taps * pieces_of(data ? c->co : c->ci, DEEP));
    /* Few input channels make narrow tiles, which wait for their boxes: all taps' go side by side.
     */
    int ways = !weights ? 1 : c->ci % 64 ? 2 : 3;
    for (int way = 0; way < ways; way++)
        for (conv.columns = 256; conv.columns >= 64; conv.columns -= 64) {
            conv.turned = way > 0;
            conv.joined = way > 1;
            conv.tiles_m = (int)(weights ? pieces_of(conv.turned ? c->co : c->ci, ROWS) : blocks);
            conv.tiles_n = (int)pieces_of(conv.turned ? (conv.joined ? taps : 1) * c->ci : channels,
                                          conv.columns);
            int64_t tiles = (int64_t)conv.tiles_m * conv.tiles_n *
                            (weights && !conv.joined ? taps : 1);
            for (conv.splits = 1; conv.splits <= MAX_SPLITS; conv.splits++) {
                if (conv.splits > 1 && (conv.steps / conv.splits < MIN_STEPS ||
                                        conv.splits * result > MAX_PIECES / 4))
                    break;
                double us = plan_us(&conv, tiles, result, handle->sms);
                if (us <= best) {                /* turned and joined are a little faster */
                    best = us;
                    *out = conv;
                }
            }
        }
    /* No piece may be empty. */
    out->splits = (int)pieces_of(out->steps, pieces_of(out->steps, out->splits));
    return true;
#else
    (void)handle, (void)c, (void)out;
    return false;
#endif
}

static int64_t direct_result(const DirectConv *conv)
{
    const ConvDesc *c = &conv->desc;
    return c->kind == CONV_FORWARD         ? c->n * product3(c->out) * c->co
           : c->kind == CONV_BACKWARD_DATA ? c->n * product3(c->in) * c->ci
                                           : product3(c->kernel) * c->ci * c->co;
}

/* Pieces, then lines of column sums. */
static int64_t direct_pieces(const DirectConv *conv)
{
    return conv->splits == 1 ? 0 : direct_result(conv) * conv->splits;
}

static int64_t direct_lines(const DirectConv *conv)
{
    return (conv->joined ? conv->tiles_n : product3(conv->desc.kernel)) * conv->splits;
}

extern "C" size_t direct_conv_workspace(const DirectConv *conv)
{
    const ConvDesc *c = &conv->desc;
    int64_t lines = c->kind == CONV_BACKWARD_WEIGHTS ? direct_lines(conv) : 0;
    return (size_t)(direct_pieces(conv) + lines * c->co) * sizeof(float);
}

/* --- doing it --- */

#ifdef PLIMSOLL_SM90A

/* dw = before + the pieces in order, likewise; the first blocks add the lines of column sums, a
 * warp each. */
static __global__ void weights_kernel(const float4 *parts, int pieces, int lines, int columns,
                                      int sum_blocks, const __grid_constant__ Job job, float4 *dw,
                                      float *sums)
{
    if ((int)blockIdx.x < sum_blocks) {
        lines_sum(job, lines, columns, sums);
        return;
    }
    int64_t i = (blockIdx.x - (int64_t)sum_blocks) * blockDim.x + threadIdx.x,
            count = job.result / 4;
    if (i >= count)
        return;
    float4 s = parts[i];
    for (int p = 1; p < pieces; p++) {
        float4 v = parts[p * count + i];
        s.x += v.x, s.y += v.y, s.z += v.z, s.w += v.w;
    }
    if (job.before) {
        float4 b = ((const float4 *)job.before)[i];
        s.x += b.x, s.y += b.y, s.z += b.z, s.w += b.w;
    }
    dw[i] = s;
}

/* Images (N,D,H,W,C): boxes of 64 channels; of x where y has fewer positions, every second. */
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
                      const Job *job)
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
static Err columns_run(const CudaHandle *handle, const DirectConv *conv, const CUtensorMap *maps,
                       const Job *job)
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
    int64_t taps = product3(c->kernel), weight[3] = { c->co, c->ci, taps };
    bool    weights = c->kind == CONV_BACKWARD_WEIGHTS, data = c->kind == CONV_BACKWARD_DATA;
    const int64_t *space = data ? c->in : c->out, close[3] = { 1, 1, 1 };
    CUtensorMap    maps[3] = {};
    Job job = { .way = data ? -1 : 1,
                .tiles_n = conv->tiles_n,
                .tiles_m = conv->tiles_m,
                .steps = conv->steps,
                .per_split = (int)pieces_of(conv->steps, conv->splits),
                .turned = conv->turned,
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
    job.deep_blocks = (int)pieces_of(data ? c->co : c->ci, DEEP);
    job.rows = (int)(conv->turned ? c->co : c->ci);
    job.columns = (int)(conv->joined   ? taps * c->ci
                        : conv->turned ? c->ci
                        : data         ? c->ci
                                       : c->co);
    void *out = weights ? w : data ? x : y;
    job.out = job.direct ? (float *)out : (float *)args->workspace;
    job.before = job.direct ? args->before : NULL;
    job.sums = args->sums ? (float *)args->workspace + direct_pieces(conv) : NULL;
    job.sums_before = args->sums_before;
    if (weights) {
        TRY(map_images(conv, c->type_x, c->ci, c->in, c->stride, x, &maps[conv->turned ? 1 : 0]));
        TRY(map_images(conv, c->type_x, c->co, c->out, close, y, &maps[conv->turned ? 0 : 1]));
        TRY((columns_run<CONV_BACKWARD_WEIGHTS, T>(handle, conv, maps, &job)));
    } else {
        int box[3] = { 64, data ? conv->columns : 64, 1 };
        TRY(map_images(conv, c->type_x, data ? c->co : c->ci, data ? c->out : c->in, c->stride,
                       data ? y : x, &maps[0]));
        TRY(map_make(c->type_x, 3, weight, NULL, box, w, &maps[1]));
        TRY(map_images(conv, c->type_x, data ? c->ci : c->co, space, close, out, &maps[2]));
        TRY(data ? (columns_run<CONV_BACKWARD_DATA, T>(handle, conv, maps, &job))
                 : (columns_run<CONV_FORWARD, T>(handle, conv, maps, &job)));
    }
    unsigned      blocks = job.direct ? 0 : (unsigned)pieces_of(job.result / 4, 256);
    unsigned      sum_blocks = job.sums ? (unsigned)pieces_of(c->co, 256 / 32) : 0;
    const float4 *parts = (const float4 *)args->workspace;
    job.before = args->before;
    if (blocks + sum_blocks == 0)
        return OK;
    if (weights)
        weights_kernel<<<blocks + sum_blocks, 256, 0, handle->stream>>>(
            parts, conv->splits, (int)direct_lines(conv), (int)c->co, (int)sum_blocks, job,
            (float4 *)out, args->sums);
    else
        pieces_kernel<<<blocks, 256, 0, handle->stream>>>(parts, conv->splits, job, (T *)out);
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
    return fail(E_DEVICE, "this build has no kernels for Hopper");
#endif
}
