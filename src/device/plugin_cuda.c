/* plugin_cuda.c -- a card as a Device: its bytes, its queue, recordings of whole steps.
 *
 *   plimsoll_cuda_open       a card that is here: everything that takes device memory outside the
 *                            arena (context, library handles) is taken now, so that it can be
 *                            counted
 *   plimsoll_cuda_describe   a card that is not: kernels and libraries say what scratch they would
 *                            want
 */
#include "device/cuda.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "device/device.h"
#include "device/plugin_cuda_blas.h"
#include "device/plugin_cuda_memory.h"
#include "device/probe_cuda.h"

#include <cublasLt.h>
#include <cudnn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static CudaHandle *handle_of(const Device *device) { return device->handle; }

/* A fault of queued work is found by a later call; its sentence must say so. The runtime keeps a
 * refusal until somebody asks: taken here, or the next launch would be blamed for it. */
static Err cuda_fault(const char *doing, cudaError_t err)
{
    cudaGetLastError();
    if (err == cudaErrorMemoryAllocation)
        return fail(E_BUDGET,
                    "%s: the card has not enough free memory; another program may hold some "
                    "(nvidia-smi "
                    "lists them), or use a smaller --budget",
                    doing);
    return fail(E_DEVICE,
                "%s: the card reports '%s' (%s); work queued earlier may be the cause. Nothing of "
                "this step "
                "was kept; go on from the last checkpoint",
                doing, cudaGetErrorString(err), cudaGetErrorName(err));
}
#define CARD_TRY(doing, call)                                        \
    do {                                                             \
        cudaError_t card_err_ = (call);                              \
        if (card_err_ != cudaSuccess)                                \
            return cuda_fault(doing, card_err_);                     \
    } while (0)

static Err cuda_take(const Device *device, int64_t bytes, void **base)
{
    CARD_TRY("taking the arena", cudaMalloc(base, (size_t)(bytes ? bytes : 1)));
    CARD_TRY("clearing the arena",
             cudaMemsetAsync(*base, 0, (size_t)bytes, handle_of(device)->stream));
    return OK;
}

static void cuda_give(const Device *device, void *base)
{
    cudaStreamSynchronize(handle_of(device)->stream);
    cudaFree(base);
}

static Err cuda_take_host(const Device *device, int64_t bytes, void **base)
{
    (void)device;
    cudaError_t err = cudaMallocHost(base, (size_t)(bytes ? bytes : 1));
    if (err == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        return fail(E_BUDGET,
                    "%s of the host's memory cannot be pinned for copies; use a smaller "
                    "--host-budget, or a larger "
                    "--budget, so that less is kept there",
                    bytes_text(bytes));
    }
    CARD_TRY("taking pinned host memory", err);
    memset(*base, 0, (size_t)bytes);
    return OK;
}

static void cuda_give_host(const Device *device, void *base)
{
    cudaStreamSynchronize(handle_of(device)->stream);
    cudaFreeHost(base);
}

/* Small writes (step numbers, rates) go through pinned slots, so that the host need not wait for
 * the card. */
enum { SLOTS = 64, SLOT_BYTES = 1024 };
static struct { char *slots; int next; } small;

static Err cuda_write_small(cudaStream_t stream, void *to, const void *from, size_t bytes)
{
    if (small.next == SLOTS) {
        CARD_TRY("copying to the card", cudaStreamSynchronize(stream));
        small.next = 0;
    }
    char *slot = small.slots + small.next++ * SLOT_BYTES;
    memcpy(slot, from, bytes);
    CARD_TRY("copying to the card",
             cudaMemcpyAsync(to, slot, bytes, cudaMemcpyHostToDevice, stream));
    return OK;
}

static Err cuda_write(const Device *device, void *to, const void *from, size_t bytes)
{
    if (bytes <= SLOT_BYTES)
        return cuda_write_small(handle_of(device)->stream, to, from, bytes);
    CARD_TRY("copying to the card",
             cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, handle_of(device)->stream));
    CARD_TRY("copying to the card", cudaStreamSynchronize(handle_of(device)->stream));
    return OK;
}

static Err cuda_read(const Device *device, void *to, const void *from, size_t bytes)
{
    CARD_TRY("reading from the card",
             cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, handle_of(device)->stream));
    CARD_TRY("reading from the card", cudaStreamSynchronize(handle_of(device)->stream));
    return OK;
}

static Err cuda_wait(const Device *device)
{
    CARD_TRY("running the step", cudaStreamSynchronize(handle_of(device)->stream));
    return OK;
}

/* --- host transfers: a branch that leaves the kernels' stream at the copy and comes back where it
 * is joined --- */

static Err cuda_mark_new(const Device *device, void **mark)
{
    cudaEvent_t event;
    (void)device;
    CARD_TRY("preparing host transfers", cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    *mark = event;
    return OK;
}

static void cuda_mark_free(const Device *device, void *mark)
{
    (void)device;
    cudaEventDestroy(mark);
}

static Err cuda_copy(const Device *device, CopyWay way, void *to, const void *from, size_t bytes,
                     void *mark)
{
    CudaHandle  *handle = handle_of(device);
    cudaStream_t queue = handle->copies[way];
    CARD_TRY("starting a host transfer", cudaEventRecord(mark, handle->stream));
    CARD_TRY("starting a host transfer", cudaStreamWaitEvent(queue, mark, 0));
    CARD_TRY("starting a host transfer",
             cudaMemcpyAsync(to, from, bytes,
                             way == COPY_TO_HOST ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice,
                             queue));
    CARD_TRY("starting a host transfer", cudaEventRecord(mark, queue));
    return OK;
}

static Err cuda_join(const Device *device, void *mark)
{
    CARD_TRY("joining a host transfer", cudaStreamWaitEvent(handle_of(device)->stream, mark, 0));
    return OK;
}

static const DeviceQueues queues = {
    .mark_new = cuda_mark_new, .mark_free = cuda_mark_free, .copy = cuda_copy, .join = cuda_join,
};

/* --- recordings: CUDA graphs --- */

static Err cuda_record_begin(const Device *device)
{
    CARD_TRY("recording the step",
             cudaStreamBeginCapture(handle_of(device)->stream, cudaStreamCaptureModeRelaxed));
    return OK;
}

static Err cuda_record_end(const Device *device, void **recording)
{
    cudaGraph_t     graph = NULL;
    cudaGraphExec_t exec = NULL;
    CARD_TRY("recording the step", cudaStreamEndCapture(handle_of(device)->stream, &graph));
    cudaError_t err = cudaGraphInstantiate(&exec, graph, 0);
    cudaGraphDestroy(graph);
    CARD_TRY("recording the step", err);
    CARD_TRY("recording the step", cudaGraphUpload(exec, handle_of(device)->stream));
    *recording = exec;
    return OK;
}

typedef struct Place {           /* in a recording: what comes next follows these nodes */
    size_t          n;
    cudaGraphNode_t nodes[];
} Place;

static Err cuda_record_place(const Device *device, Pool *pool, void **out)
{
    enum cudaStreamCaptureStatus status;
    const cudaGraphNode_t       *nodes = NULL;
    size_t                       n = 0;
    cudaStream_t                 stream = handle_of(device)->stream;
    CARD_TRY("recording the step",
             cudaStreamGetCaptureInfo(stream, &status, NULL, NULL, &nodes, NULL, &n));
    Place *place = pool_alloc(pool, 1, sizeof *place + n * sizeof *nodes);
    place->n = n;
    memcpy(place->nodes, nodes, n * sizeof *nodes);
    *out = place;
    return OK;
}

static bool places_have(void *const *places, int n, cudaGraphNode_t node)
{
    for (int p = 0; p < n; p++) {
        const Place *place = places[p];
        for (size_t i = 0; i < place->n; i++)
            if (place->nodes[i] == node)
                return true;
    }
    return false;
}

/* A place may share nodes with those before it: each is followed once. */
static Err cuda_record_after(const Device *device, void *const *places, int n)
{
    cudaStream_t stream = handle_of(device)->stream;
    CARD_TRY("recording the step",
             cudaStreamUpdateCaptureDependencies(stream, NULL, NULL, 0,
                                                 cudaStreamSetCaptureDependencies));
    for (int p = 0; p < n; p++) {
        Place *place = places[p];
        for (size_t i = 0; i < place->n; i++)
            if (!places_have(places, p, place->nodes[i]))
                CARD_TRY("recording the step",
                         cudaStreamUpdateCaptureDependencies(stream, &place->nodes[i], NULL, 1,
                                                             cudaStreamAddCaptureDependencies));
    }
    return OK;
}

static Err cuda_replay(const Device *device, void *recording)
{
    CARD_TRY("running the step", cudaGraphLaunch(recording, handle_of(device)->stream));
    return OK;
}

static void cuda_forget(const Device *device, void *recording)
{
    cudaStreamSynchronize(handle_of(device)->stream);
    cudaGraphExecDestroy(recording);
}

static Err cuda_used(const Device *device, int64_t *used)
{
    CARD_TRY("asking for the memory in use", cudaStreamSynchronize(handle_of(device)->stream));
    return card_memory_ours(used);
}

/* --- the card's clock: events as nodes of a recording --- */

static Err cuda_stamp_new(const Device *device, void **stamp)
{
    cudaEvent_t event;
    (void)device;
    CARD_TRY("preparing to measure", cudaEventCreate(&event));
    *stamp = event;
    return OK;
}

static Err cuda_stamp(const Device *device, void *stamp)
{
    cudaStream_t stream = handle_of(device)->stream;
    enum cudaStreamCaptureStatus status;
    CARD_TRY("measuring", cudaStreamIsCapturing(stream, &status));
    CARD_TRY("measuring", cudaEventRecordWithFlags(stamp, stream,
                                                   status == cudaStreamCaptureStatusNone
                                                       ? cudaEventRecordDefault
                                                       : cudaEventRecordExternal));
    return OK;
}

static Err cuda_stamp_wait(const Device *device, void *stamp)
{
    (void)device;
    CARD_TRY("running the step", cudaEventSynchronize(stamp));
    return OK;
}

static Err cuda_stamp_ns(const Device *device, void *from, void *to, double *ns)
{
    float ms;
    (void)device;
    CARD_TRY("measuring", cudaEventElapsedTime(&ms, from, to));
    *ns = (double)ms * 1e6;
    return OK;
}

/* One launch among many of a recording: the time of 2,000 that do nothing, less that of 1,000. */
static Err cuda_recorded_ns(const Device *device, int n, double *ns)
{
    void *recording;
    TRY(cuda_record_begin(device));
    for (int i = 0; i < n; i++)
        TRY(cuda_nothing(handle_of(device)->stream));
    TRY(cuda_record_end(device, &recording));
    *ns = INFINITY;
    for (int i = 0; i < 5; i++) {
        double start = clock_now();
        TRY(cuda_replay(device, recording));
        TRY(cuda_wait(device));
        *ns = fmin(*ns, (clock_now() - start) * 1e9);
    }
    cuda_forget(device, recording);
    return OK;
}

static Err cuda_measure(const Device *device, int64_t bytes, Bandwidth *bandwidth,
                        double *launch_ns)
{
    double few, many;
    TRY(cuda_recorded_ns(device, 1000, &few));
    TRY(cuda_recorded_ns(device, 2000, &many));
    *launch_ns = fmax(1, (many - few) / 1000);
    return cuda_bandwidth(handle_of(device), bytes, bandwidth);
}

const void *cuda_kernel(const char *op_name);        /* ops/plugin_cuda.c */

static const DeviceApi api = {
    .kernel = cuda_kernel, .take = cuda_take, .give = cuda_give, .take_host = cuda_take_host,
    .give_host = cuda_give_host, .write = cuda_write, .read = cuda_read, .wait = cuda_wait,
    .record_begin = cuda_record_begin, .record_end = cuda_record_end, .replay = cuda_replay,
    .forget = cuda_forget,
    .record_place = cuda_record_place, .record_after = cuda_record_after,
    .used_bytes = cuda_used, .stamp_new = cuda_stamp_new, .stamp_free = cuda_mark_free,
    .stamp = cuda_stamp,
    .stamp_wait = cuda_stamp_wait, .stamp_ns = cuda_stamp_ns, .measure = cuda_measure,
};

/* Contexts and handles live as long as the process: taking them twice would count them twice. */
static struct {
    bool       open;
    CudaHandle handle;
    struct cudaDeviceProp card;
    char       library[128];
} state;

static Err cuda_card(void)
{
    int count = 0, driver = 0;
    cudaError_t err = cudaGetDeviceCount(&count);
    if (err == cudaErrorInsufficientDriver) {
        cudaDriverGetVersion(&driver);
        return fail(E_DEVICE,
                    "the NVIDIA driver is missing or older than CUDA %d.%d needs (it offers "
                    "%d.%d); update it, or "
                    "use --device cpu",
                    CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10, driver / 1000,
                    driver % 1000 / 10);
    }
    if (err != cudaSuccess || count == 0)
        return fail(E_DEVICE,
                    "no CUDA card here (%s); use --device cpu, or plan for a card by its profile's "
                    "name",
                    err ? cudaGetErrorString(err) : "the driver lists none");
    CUDA_TRY(cudaGetDeviceProperties(&state.card, 0));
    if (state.card.major < 8)
        return fail(E_DEVICE,
                    "%s has compute capability %d.%d; 8.0 (A100, RTX 30) or newer is needed",
                    state.card.name, state.card.major, state.card.minor);
    return OK;
}

Err plimsoll_cuda_open(Pool *pool, const DeviceOptions *options, Device *device);
Err plimsoll_cuda_describe(Pool *pool, const DeviceOptions *options, const char *json,
                           Device *device);

Err plimsoll_cuda_describe(Pool *pool, const DeviceOptions *options, const char *json,
                           Device *device)
{
    static const DeviceApi planning = { .kernel = cuda_kernel };
    CudaHandle *handle = pool_alloc(pool, 1, sizeof *handle);
    const Json *card;
    int64_t     sms, version;
    TRY(json_parse(pool, "the card's description", json, strlen(json), 0, &card));
    TRY(json_need_int(card, "multiProcessorCount", &sms));
    TRY(json_need_int(card, "deviceVer", &version));
    handle->sms = (int)sms;
    handle->capability = (int)(version / 10);
    handle->tf32 = options->tf32;
    if (handle->sms < 1 || handle->capability < 80)
        return fail(E_FORMAT,
                    "a card of %d multiprocessors and capability %d cannot be planned for",
                    handle->sms, handle->capability);
    TRY(cudnn_describe(json, &handle->described));
    snprintf(state.library, sizeof state.library, "CUDA %d.%d, cuDNN %zu, cuBLASLt %zu",
             CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10, cudnnGetVersion(),
             cublasLtGetVersion());
    device->library = state.library;
    device->blas = cuda_blas(handle);
    device->tf32 = options->tf32;
    device->api = &planning;
    device->handle = handle;
    return OK;
}

Err plimsoll_cuda_open(Pool *pool, const DeviceOptions *options, Device *device)
{
    size_t  free_bytes, total;
    int64_t ours;
    if (!state.open) {
        char bus[32];
        TRY(cuda_card());
        CUDA_TRY(cudaDeviceGetPCIBusId(bus, sizeof bus, 0));
        card_memory_watch(bus);
        CARD_TRY("opening the card", cudaSetDevice(0));
        CARD_TRY("opening the card",
                 cudaStreamCreateWithFlags(&state.handle.stream, cudaStreamNonBlocking));
        for (int way = 0; way < 2; way++)
            CARD_TRY("opening the card",
                     cudaStreamCreateWithFlags(&state.handle.copies[way], cudaStreamNonBlocking));
        CARD_TRY("opening the card", cudaMallocHost((void **)&small.slots, SLOTS * SLOT_BYTES));
        cublasLtHandle_t blaslt;
        cudnnHandle_t    cudnn;
        if (cublasLtCreate(&blaslt) != CUBLAS_STATUS_SUCCESS)
            return fail(E_DEVICE,
                        "cuBLASLt %zu cannot start on this card; its driver may be too old",
                        cublasLtGetVersion());
        if (cudnnCreate(&cudnn) != CUDNN_STATUS_SUCCESS ||
            cudnnSetStream(cudnn, state.handle.stream))
            return fail(E_DEVICE, "cuDNN %zu cannot start on this card; its driver may be too old",
                        cudnnGetVersion());
        state.handle.blaslt = blaslt;
        state.handle.cudnn = cudnn;
        state.handle.sms = state.card.multiProcessorCount;
        state.handle.capability = state.card.major * 10 + state.card.minor;
        snprintf(state.library, sizeof state.library, "CUDA %d.%d, cuDNN %zu, cuBLASLt %zu",
                 CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10, cudnnGetVersion(),
                 cublasLtGetVersion());
        state.open = true;
    }
    CARD_TRY("asking for free memory", cudaMemGetInfo(&free_bytes, &total));
    TRY(card_memory_ours(&ours));
    CudaHandle *handle = pool_alloc(pool, 1, sizeof *handle);
    *handle = state.handle;
    handle->tf32 = options->tf32;
    *device = (Device){ .kind = DEVICE_CUDA,
                        .name = "cuda",
                        .model = state.card.name,
                        .library = state.library,
                        .threads = 1,
                        .align = 256,
                        .memory_bytes = (int64_t)free_bytes,
                        .runtime_bytes = ours,
                        .blas = cuda_blas(handle),
                        .tf32 = options->tf32,
                        .api = &api,
                        .queues = &queues,
                        .handle = handle };
    return OK;
}
