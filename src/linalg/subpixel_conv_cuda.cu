/* subpixel_conv_cuda.cu -- plans and launches sub-pixel convolutions; upsamples the map for those
 * that need another method. See subpixel_conv.h. */
#include "linalg/subpixel_conv_kernel.h"

extern "C" {
#include "linalg/subpixel_conv.h"
}
#include "linalg/direct_conv_host.h"

static int64_t small_of(const SubpixelConv *conv, int axis)
{
    return conv->tiled.desc.in[axis] / conv->up;
}

static int64_t subpixel_taps(int up) { return (int64_t)(up + 2) * (up + 2); }

/* Elements of the tiles' result; for weights that of all taps. */
static int64_t subpixel_result(const SubpixelConv *conv)
{
    const ConvDesc *c = &conv->tiled.desc;
    int64_t         small = c->n * small_of(conv, 1) * small_of(conv, 2);
    return c->kind == CONV_FORWARD         ? small * conv->up * conv->up * c->co
           : c->kind == CONV_BACKWARD_DATA ? small * c->ci
                                           : subpixel_taps(conv->up) * c->ci * c->co;
}

static size_t folded_bytes(const SubpixelConv *conv)
{
    const ConvDesc *c = &conv->tiled.desc;
    int64_t         folded = (int64_t)axis_weights(conv->up) * axis_weights(conv->up);
    return c->kind == CONV_BACKWARD_WEIGHTS ? 0 : (size_t)align_up(folded * c->ci * c->co * 2, 256);
}

static bool subpixel_has_partials(const SubpixelConv *conv)
{
    return conv->tiled.splits > 1 || conv->tiled.desc.kind == CONV_BACKWARD_WEIGHTS;
}

extern "C" size_t subpixel_conv_workspace(const SubpixelConv *conv)
{
    const ConvDesc *c = &conv->tiled.desc;
    int64_t partials = subpixel_has_partials(conv) ? subpixel_result(conv) * conv->tiled.splits : 0;
    int64_t sums = c->kind == CONV_BACKWARD_WEIGHTS
                       ? subpixel_taps(conv->up) * conv->tiled.splits * c->co
                       : 0;
    return folded_bytes(conv) + (size_t)(partials + sums) * sizeof(float);
}

/* A model of the time, as in direct_conv_cuda.cu. */
static double subpixel_us(const SubpixelConv *conv, int64_t tiles, double steps, int sms)
{
    static const double step[] = { 0.29, 0.42, 0.60, 0.75 };
    const DirectConv   *t = &conv->tiled;
    double              load = (double)ceil_div(tiles * t->splits, sms);
    double              around = load * (t->columns <= 128 ? 2 : 4);
    double us = load * steps / t->splits * step[t->columns / 64 - 1] + (around < 4 ? 4 : around);
    return subpixel_has_partials(conv)
               ? us + 3 + (double)(t->splits * subpixel_result(conv)) * 8 / 5e6
               : us;
}

extern "C" bool subpixel_conv_plan(const CudaHandle *handle, const ConvDesc *c, int64_t up,
                                   SubpixelConv *out)
{
    bool         weights = c->kind == CONV_BACKWARD_WEIGHTS, data = c->kind == CONV_BACKWARD_DATA;
    SubpixelConv conv = { .tiled = { .desc = *c }, .up = (int)up };
    DirectConv  *t = &conv.tiled;
    double       best = 1e30;
    if (!cuda_has_sm90a(handle) || (c->type_x != BF16 && c->type_x != F16) ||
        c->type_y != c->type_x || c->type_w != (weights ? F32 : c->type_x) || c->ci % 8 ||
        c->co % 8 || c->ci < MIN_CHANNELS || c->co < MIN_CHANNELS || c->n < 1 || up < 2 ||
        up > MAX_UP)
        return false;
    int64_t extent[4] = { c->n, 1, small_of(&conv, 1), small_of(&conv, 2) };
    int64_t positions = extent[0] * extent[2] * extent[3], taps = subpixel_taps(conv.up);
    /* Every run folds the weights again; with many channels and few positions that does not pay.
     * For 8x8 maps of 1280 channels it took most of the time. */
    bool    few = c->ci * c->co > 1 << 18 && (positions < c->ci || positions < c->co);
    if (few || positions < 1 || positions > INT32_MAX / 256 || taps * c->ci * c->co > INT32_MAX ||
        (weights && subpixel_result(&conv) > MAX_PARTIAL_BYTES / 4))
        return false;
    boxes_choose(weights ? DEEP : ROWS, extent, t);
    int64_t blocks = (int64_t)t->blocks[0] * t->blocks[2] * t->blocks[3];
    int64_t deep = ceil_div(data ? c->co : c->ci, DEEP);
    int64_t classes = axis_classes(conv.up), folded = axis_weights(conv.up);
    t->steps = (int)(weights ? blocks : data ? taps * deep : 4 * deep);
    for (t->columns = 256; t->columns >= 64; t->columns -= 64) {
        t->tiles_m = (int)(weights ? ceil_div(c->ci, ROWS) : blocks);
        t->tiles_n = (int)ceil_div(data ? c->ci : c->co, t->columns);
        int64_t tiles = (int64_t)t->tiles_m * t->tiles_n *
                        (weights ? taps
                         : data  ? 1
                                 : classes * classes);
        double steps = weights || data
                           ? t->steps
                           : (double)(folded * folded * deep) / (double)(classes * classes);
        for (t->splits = 1; t->splits <= (weights || data ? MAX_SPLITS : 1); t->splits++) {
            if (t->splits > 1 && (t->steps / t->splits < MIN_STEPS ||
                                  t->splits * subpixel_result(&conv) > MAX_PARTIAL_BYTES / 4))
                break;
            double us = subpixel_us(&conv, tiles, steps, handle->sms);
            if (us < best) {
                best = us;
                *out = conv;
            }
        }
    }
    /* No split may be empty. */
    t = &out->tiled;
    t->splits = (int)ceil_div(t->steps, ceil_div(t->steps, t->splits));
    return true;
}

/* --- running --- */

#ifdef PLIMSOLL_SM90A

template <int KIND, int N, class T>
static Err kernel_run(const CudaHandle *handle, const SubpixelConv *conv, const SubpixelMaps *maps,
                      const SubpixelJob *job)
{
    static bool       ready;
    const DirectConv *t = &conv->tiled;
    if (!ready)
        CUDA_TRY(cudaFuncSetAttribute(subpixel_kernel<KIND, N, T>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, Tile<N>::BYTES));
    ready = true;
    int64_t classes = axis_classes(conv->up);
    int64_t times = KIND == CONV_FORWARD         ? classes * classes
                    : KIND == CONV_BACKWARD_DATA ? 1
                                                 : subpixel_taps(conv->up);
    dim3    grid((unsigned)(times * t->tiles_m * t->tiles_n), (unsigned)t->splits);
    subpixel_kernel<KIND, N, T><<<grid, THREADS, Tile<N>::BYTES, handle->stream>>>(*maps, *job);
    CUDA_TRY(cudaPeekAtLastError());
    return OK;
}

template <int KIND, class T>
static Err tile_run(const CudaHandle *handle, const SubpixelConv *conv, const SubpixelMaps *maps,
                    const SubpixelJob *job)
{
    int columns = conv->tiled.columns;
    return columns == 256   ? kernel_run<KIND, 256, T>(handle, conv, maps, job)
           : columns == 192 ? kernel_run<KIND, 192, T>(handle, conv, maps, job)
           : columns == 128 ? kernel_run<KIND, 128, T>(handle, conv, maps, job)
                            : kernel_run<KIND, 64, T>(handle, conv, maps, job);
}

/* The small map, and the large one sub-pixel by sub-pixel. */
static Err maps_make(const SubpixelConv *conv, const void *small, const char *large,
                     const void *folded, SubpixelMaps *maps)
{
    const ConvDesc *c = &conv->tiled.desc;
    const int      *b = conv->tiled.box;
    int             up = conv->up, box[5] = { 64, b[3], b[2], 1, b[0] };
    int64_t         h = small_of(conv, 1), w = small_of(conv, 2), row = up * w * c->co;
    int64_t         of_x[5] = { c->ci, w, h, 1, c->n }, of_y[5] = { c->co, w, h, 1, c->n };
    int64_t         between[4] = { up * c->co, up * row, up * h * row, up * h * row };
    TRY(map_make(c->type_x, 5, of_x, NULL, box, small, &maps->small));
    for (int a = 0; a < up * up; a++)
        TRY(map_make(c->type_x, 5, of_y, between, box, large + 2 * (a / up * row + a % up * c->co),
                     &maps->pixel[a]));
    if (c->kind == CONV_BACKWARD_WEIGHTS)
        return OK;
    int64_t of_w[3] = { c->co, c->ci, (int64_t)axis_weights(up) * axis_weights(up) };
    int     box_w[3] = { 64, c->kind == CONV_BACKWARD_DATA ? conv->tiled.columns : 64, 1 };
    return map_make(c->type_x, 3, of_w, NULL, box_w, folded, &maps->weights);
}

template <class T>
static Err subpixel_run(const CudaHandle *handle, const SubpixelConv *conv, const DirectArgs *args)
{
    const DirectConv *t = &conv->tiled;
    const ConvDesc   *c = &t->desc;
    bool         weights = c->kind == CONV_BACKWARD_WEIGHTS, data = c->kind == CONV_BACKWARD_DATA;
    int64_t      count = c->ci * c->co;
    T           *folded = (T *)args->workspace;
    float       *partials = (float *)((char *)args->workspace + folded_bytes(conv));
    SubpixelMaps maps = {};
    SubpixelJob  subpixels = { .job = { .extent = { (int)c->n, 1, (int)small_of(conv, 1),
                                                    (int)small_of(conv, 2) } },
                               .up = conv->up };
    DirectJob   &job = subpixels.job;
    for (int i = 0; i < 4; i++)
        job.box[i] = t->box[i], job.blocks[i] = t->blocks[i];
    job.rows = (int)c->ci;
    job.columns = (int)(data ? c->ci : c->co);
    job.tiles_n = t->tiles_n, job.tiles_m = t->tiles_m, job.steps = t->steps;
    job.per_split = (int)ceil_div(t->steps, t->splits);
    job.deep_blocks = (int)ceil_div(data ? c->co : c->ci, DEEP);
    job.direct = !subpixel_has_partials(conv);
    job.result = subpixel_result(conv);
    job.bias = args->bias, job.bias_type = c->type_bias;
    job.out = partials;
    TRY(maps_make(conv, args->x, (const char *)args->y, folded, &maps));
    if (!weights) {
        int  across = axis_weights(conv->up);
        dim3 grid((unsigned)ceil_div(count / 2, 256), (unsigned)(across * across));
        subpixel_weights<<<grid, 256, 0, handle->stream>>>((const T *)args->w, count, conv->up,
                                                           folded);
        CUDA_TRY(cudaPeekAtLastError());
    } else if (args->sums) {
        job.sums = partials + job.result * t->splits;
        job.sums_before = args->sums_before;
    }
    TRY(weights ? (tile_run<CONV_BACKWARD_WEIGHTS, T>(handle, conv, &maps, &subpixels))
        : data  ? (tile_run<CONV_BACKWARD_DATA, T>(handle, conv, &maps, &subpixels))
                : (tile_run<CONV_FORWARD, T>(handle, conv, &maps, &subpixels)));
    const float4 *partials4 = (const float4 *)partials;
    if (weights) {
        unsigned sum_blocks = job.sums ? (unsigned)ceil_div(c->co, 256 / 32) : 0;
        unsigned blocks = (unsigned)ceil_div(9 * count / 4, 256);
        job.before = args->before;
        subpixel_weights_sum<<<blocks + sum_blocks, 256, 0, handle->stream>>>(
            partials4, t->splits, (int)c->co, (int)sum_blocks, subpixels, count / 4,
            (float4 *)args->w, args->sums);
    } else if (!job.direct) {
        unsigned blocks = (unsigned)ceil_div(job.result / 4, 256);
        partials_kernel<<<blocks, 256, 0, handle->stream>>>(partials4, t->splits, job,
                                                            (T *)args->x);
    }
    CUDA_TRY(cudaPeekAtLastError());
    return OK;
}

#endif

extern "C" Err subpixel_conv_run(const CudaHandle *handle, const SubpixelConv *conv,
                                 const DirectArgs *args)
{
#ifdef PLIMSOLL_SM90A
    return conv->tiled.desc.type_x == BF16 ? subpixel_run<__nv_bfloat16>(handle, conv, args)
                                           : subpixel_run<__half>(handle, conv, args);
#else
    (void)handle, (void)conv, (void)args;
    return fail(E_DEVICE, "this build has no kernels for Hopper; build the plugin for sm_90a");
#endif
}

/* --- upsampling --- */

enum { MAP_THREADS = 256, MAP_BLOCKS = 132 * 16 };

template <class T>
static __global__ void enlarge_kernel(const T *x, int64_t count, int64_t width, int64_t channels,
                                      int64_t up, T *to)
{
    for (int64_t i = blockIdx.x * (int64_t)MAP_THREADS + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * MAP_THREADS) {
        int64_t c = i % channels, pixel = i / channels, w = pixel % (width * up);
        int64_t row = pixel / (width * up) / up;
        to[i] = x[(row * width + w / up) * channels + c];
    }
}

static __device__ __forceinline__ float as_float(float x) { return x; }
static __device__ __forceinline__ float as_float(__nv_bfloat16 x) { return __bfloat162float(x); }
static __device__ __forceinline__ float as_float(__half x) { return __half2float(x); }

template <class T>
static __global__ void gather_kernel(const T *large, int64_t count, int64_t width, int64_t channels,
                                     int64_t up, T *dx)
{
    for (int64_t i = blockIdx.x * (int64_t)MAP_THREADS + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * MAP_THREADS) {
        int64_t c = i % channels, pixel = i / channels, w = pixel % width, row = pixel / width;
        float   sum = 0;
        for (int64_t k = 0; k < up * up; k++)
            sum += as_float(
                large[((row * up + k / up) * width * up + w * up + k % up) * channels + c]);
        dx[i] = (T)sum;
    }
}

static unsigned map_blocks(int64_t count)
{
    int64_t need = ceil_div(count, MAP_THREADS);
    return (unsigned)(need < 1 ? 1 : need < MAP_BLOCKS ? need : MAP_BLOCKS);
}

/* rows: of the small map, over all images */
extern "C" Err cuda_enlarge(cudaStream_t stream, Type type, const void *x, int64_t rows,
                            int64_t width, int64_t channels, int64_t up, void *to)
{
    int64_t  count = rows * up * width * up * channels;
    unsigned blocks = map_blocks(count);
    if (type == F32)
        enlarge_kernel<<<blocks, MAP_THREADS, 0, stream>>>((const uint32_t *)x, count, width,
                                                           channels, up, (uint32_t *)to);
    else
        enlarge_kernel<<<blocks, MAP_THREADS, 0, stream>>>((const uint16_t *)x, count, width,
                                                           channels, up, (uint16_t *)to);
    CUDA_TRY(cudaPeekAtLastError());
    return OK;
}

extern "C" Err cuda_gather(cudaStream_t stream, Type type, const void *large, int64_t rows,
                           int64_t width, int64_t channels, int64_t up, void *dx)
{
    int64_t  count = rows * width * channels;
    unsigned blocks = map_blocks(count);
    if (type == F32)
        gather_kernel<<<blocks, MAP_THREADS, 0, stream>>>((const float *)large, count, width,
                                                          channels, up, (float *)dx);
    else if (type == BF16)
        gather_kernel<<<blocks, MAP_THREADS, 0, stream>>>((const __nv_bfloat16 *)large, count,
                                                          width, channels, up, (__nv_bfloat16 *)dx);
    else
        gather_kernel<<<blocks, MAP_THREADS, 0, stream>>>((const __half *)large, count, width,
                                                          channels, up, (__half *)dx);
    CUDA_TRY(cudaPeekAtLastError());
    return OK;
}
