/* plugin_cuda_pointwise.c -- pointwise programs on a GPU: kernels compiled from generated source. */
#include "base/hash.h"
#include "device/cuda.h"
#include "ops/cuda_kernel.h"
#include "ops/pointwise/point_source.h"

#include <string.h>

typedef struct LoadedCode { /* machine code on the GPU; stays as long as the process */
    uint64_t           hash[2];
    cudaLibrary_t      library;
    struct LoadedCode *next;
} LoadedCode;

static LoadedCode *loaded;
static Pool       *loaded_pool;

typedef struct PointLaunches {
    int          n;
    cudaKernel_t kernel[POINT_KERNELS];
    PointKernel  shape[POINT_KERNELS];
} PointLaunches;

static Err code_load(Pool *pool, const char *text, int capability, cudaLibrary_t *library)
{
    uint64_t    one = hash_text(HASH_EMPTY, text), two = hash_text(one, text);
    const void *code;
    size_t      n;
    for (LoadedCode *l = loaded; l; l = l->next)
        if (l->hash[0] == one && l->hash[1] == two) {
            *library = l->library;
            return OK;
        }
    TRY(point_compile(pool, text, capability, &code, &n, NULL));
    CUDA_TRY(cudaLibraryLoadData(library, code, NULL, NULL, 0, NULL, NULL, 0));
    if (!loaded_pool)
        loaded_pool = pool_new(NULL, "pointwise kernels");
    LoadedCode *l = NEW(loaded_pool, LoadedCode);
    *l = (LoadedCode){ .hash = { one, two }, .library = *library, .next = loaded };
    loaded = l;
    return OK;
}

/* How many elements may be read at a time: addresses must be multiples of so many. */
static int widest(const Call *call)
{
    const PointwiseAttr *p = ATTR(call->node, PointwiseAttr);
    int                  width = 8;
    for (int i = 0; i < p->n_in; i++)
        while (width > 1 &&
               (uintptr_t)call->in[i] % (size_t)(width * type_bytes(in_type(call->node, i))))
            width /= 2;
    for (int r = 0; r < p->n_results; r++)
        while (width > 1 &&
               (uintptr_t)call->out[r] % (size_t)(width * type_bytes(p->result[r].type)))
            width /= 2;
    return width;
}

static Err pointwise_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    const CudaHandle *handle = device->handle;
    PointSource       source;
    point_source(NULL, n, handle->sms, 8, &source);
    choice->workspace_bytes = (size_t)source.workspace_bytes;
    return OK;
}

static Err pointwise_prepare_cuda(Pool *pool, Call *call)
{
    const CudaHandle *handle = call->device->handle;
    Pool             *temporary = pool_new(pool, "pointwise source");
    PointLaunches    *launches = NEW(pool, PointLaunches);
    PointSource       source;
    cudaLibrary_t     library = NULL;
    point_source(temporary, call->node, handle->sms, widest(call), &source);
    Err err = code_load(temporary, source.text, handle->capability, &library);
    pool_free(temporary);
    TRY(err);
    launches->n = source.n_kernels;
    for (int i = 0; i < source.n_kernels; i++) {
        struct cudaFuncAttributes loaded_now; /* asking loads it: not while a step is captured */
        launches->shape[i] = source.kernel[i];
        CUDA_TRY(cudaLibraryGetKernel(&launches->kernel[i], library, source.kernel[i].name));
        CUDA_TRY(cudaFuncGetAttributes(&loaded_now, (const void *)launches->kernel[i]));
    }
    call->prepared = launches;
    return OK;
}

/* Does the next launch join branches of a CUDA graph? It then starts after all have ended. */
static bool joins(cudaStream_t stream)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    size_t                       ahead = 0;
    cudaError_t err = cudaStreamGetCaptureInfo(stream, &status, NULL, NULL, NULL, NULL, &ahead);
    return err != cudaSuccess || (status == cudaStreamCaptureStatusActive && ahead > 1);
}

static Err pointwise_cuda(const Call *call)
{
    const CudaHandle    *handle = call->device->handle;
    const PointLaunches *launches = call->prepared;
    const PointwiseAttr *p = ATTR(call->node, PointwiseAttr);
    void                *sums = call->workspace, *args[POINT_INPUTS_MAX + POINT_RESULTS + 1];
    int                  n = 0;
    for (int i = 0; i < p->n_in; i++)
        args[n++] = &call->in[i];
    for (int r = 0; r < p->n_results; r++)
        args[n++] = &call->out[r];
    args[n++] = &sums;
    for (int i = 0; i < launches->n; i++) {
        const PointKernel  *k = &launches->shape[i];
        cudaLaunchAttribute early = { .id = cudaLaunchAttributeProgrammaticStreamSerialization };
        early.val.programmaticStreamSerializationAllowed = 1; /* device/launch_cuda.h */
        cudaLaunchConfig_t config = { .gridDim = { k->grid[0], k->grid[1], 1 },
                                      .blockDim = { k->block[0], k->block[1], 1 },
                                      .stream = handle->stream,
                                      .attrs = &early };
        config.numAttrs = handle->capability == 90 && !joins(handle->stream) ? 1 : 0;
        CUDA_TRY(cudaLaunchKernelExC(&config, (const void *)launches->kernel[i], args));
    }
    return OK;
}

CUDA_KERNEL(pointwise, .choose = pointwise_choose_cuda, .prepare = pointwise_prepare_cuda,
            .run = pointwise_cuda)
