/* plugin_cuda.c -- a GPU as a Device: its memory, its streams, CUDA graphs of whole steps.
 *
 *   cuda_device_open       a GPU that is here: everything that uses device memory outside the arena
 *                          (context, library handles) is allocated now, so that it can be counted
 *   cuda_device_describe   a GPU that is not here: kernels and libraries say how much workspace
 *                          they would need
 */
#include "device/cuda.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "device/bandwidth_cuda.h"
#include "device/plugin_cuda.h"
#include "device/plugin_cuda_memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static CudaHandle *handle_of(const Device *device) { return device->handle; }

/* An error of queued work shows in a later call; the sentence must say so. The runtime keeps an
 * error until it is read: it is cleared here, or the next launch would seem to have failed. */
static Err cuda_fault(const char *doing, cudaError_t err)
{
    cudaGetLastError();
    if (err == cudaErrorMemoryAllocation)
        return fail(E_BUDGET,
                    "%s: the GPU has not enough free memory; use a smaller --budget, or close "
                    "other programs on it (nvidia-smi lists them)",
                    doing);
    return fail(E_DEVICE,
                "%s: the GPU reports '%s' (%s); work queued earlier may be the cause. Nothing of "
                "this step was kept; go on from the last checkpoint",
                doing, cudaGetErrorString(err), cudaGetErrorName(err));
}
#define GPU_TRY(doing, call)                                                                       \
    do {                                                                                           \
        cudaError_t gpu_err_ = (call);                                                             \
        if (gpu_err_ != cudaSuccess)                                                               \
            return cuda_fault(doing, gpu_err_);                                                    \
    } while (0)

static bool gave_up; /* cuda_device_give_up */

void cuda_device_give_up(void) { gave_up = true; }

/* With several ranks the queue may stand until this process has moved bytes, or another rank is lost:
 * the host looks again and again, and does its part meanwhile. */
static Err cuda_wait_meanwhile(const Device *device, cudaError_t (*ask)(void *), void *arg,
                               const char *doing)
{
    const DeviceMeanwhile *meanwhile = device->meanwhile;
    cudaError_t            err;
    meanwhile->begin(meanwhile->arg);
    while ((err = ask(arg)) == cudaErrorNotReady) {
        cudaGetLastError(); /* not an error */
        TRY(meanwhile->turn(meanwhile->arg));
    }
    GPU_TRY(doing, err);
    return OK;
}

static cudaError_t ask_stream(void *stream) { return cudaStreamQuery(stream); }
static cudaError_t ask_event(void *event) { return cudaEventQuery(event); }

static Err cuda_done(const Device *device, const char *doing)
{
    cudaStream_t stream = handle_of(device)->stream;
    if (gave_up)
        return fail(E_DEVICE, "%s: the ranks of this run have ended", doing);
    if (device->meanwhile)
        return cuda_wait_meanwhile(device, ask_stream, stream, doing);
    GPU_TRY(doing, cudaStreamSynchronize(stream));
    return OK;
}

/* Some calls wait for the GPU by themselves, and would not let the host do its part. */
static Err cuda_done_first(const Device *device, const char *doing)
{
    return device->meanwhile ? cuda_done(device, doing) : OK;
}

/* Before something is freed; false: leave it to the end of the process. */
static bool cuda_may_free(const Device *device)
{
    return !gave_up && cuda_done(device, "freeing memory") == OK;
}

static Err cuda_alloc(const Device *device, int64_t bytes, void **base)
{
    TRY(cuda_done_first(device, "allocating the arena"));
    GPU_TRY("allocating the arena", cudaMalloc(base, (size_t)(bytes ? bytes : 1)));
    GPU_TRY("clearing the arena",
            cudaMemsetAsync(*base, 0, (size_t)bytes, handle_of(device)->stream));
    return OK;
}

static void cuda_free(const Device *device, void *base)
{
    if (cuda_may_free(device))
        cudaFree(base);
}

static Err cuda_alloc_host(const Device *device, int64_t bytes, void **base)
{
    TRY(cuda_done_first(device, "allocating pinned host memory"));
    cudaError_t err = cudaMallocHost(base, (size_t)(bytes ? bytes : 1));
    if (err == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        return fail(
            E_BUDGET,
            "%s of host memory cannot be pinned for copies; use a smaller --host-budget, or "
            "a larger --budget, so that less is offloaded",
            bytes_text(bytes));
    }
    GPU_TRY("allocating pinned host memory", err);
    memset(*base, 0, (size_t)bytes);
    return OK;
}

static void cuda_free_host(const Device *device, void *base)
{
    if (cuda_may_free(device))
        cudaFreeHost(base);
}

/* Small writes (step numbers, learning rates) go through pinned slots, so that the host need not
 * wait for the GPU. */
enum { SLOTS = 64, SLOT_BYTES = 1024 };
static struct {
    char *slots;
    int   next;
} small;

static Err cuda_write_small(const Device *device, void *to, const void *from, size_t bytes)
{
    cudaStream_t stream = handle_of(device)->stream;
    if (small.next == SLOTS) {
        TRY(cuda_done(device, "copying to the GPU"));
        small.next = 0;
    }
    char *slot = small.slots + small.next++ * SLOT_BYTES;
    memcpy(slot, from, bytes);
    GPU_TRY("copying to the GPU", cudaMemcpyAsync(to, slot, bytes, cudaMemcpyHostToDevice, stream));
    return OK;
}

static Err cuda_write(const Device *device, void *to, const void *from, size_t bytes)
{
    if (bytes <= SLOT_BYTES)
        return cuda_write_small(device, to, from, bytes);
    TRY(cuda_done_first(device, "copying to the GPU"));
    GPU_TRY("copying to the GPU",
            cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, handle_of(device)->stream));
    return cuda_done(device, "copying to the GPU");
}

static Err cuda_read(const Device *device, void *to, const void *from, size_t bytes)
{
    TRY(cuda_done_first(device, "reading from the GPU"));
    GPU_TRY("reading from the GPU",
            cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, handle_of(device)->stream));
    return cuda_done(device, "reading from the GPU");
}

static Err cuda_wait(const Device *device) { return cuda_done(device, "running the step"); }

/* --- host transfers: a branch of the kernels' stream that begins at the copy and ends where it is
 * joined --- */

static Err cuda_copy_event_new(const Device *device, void **out)
{
    cudaEvent_t event;
    (void)device;
    GPU_TRY("preparing host transfers", cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    *out = event;
    return OK;
}

static void cuda_event_free(const Device *device, void *event)
{
    (void)device;
    cudaEventDestroy(event);
}

static Err cuda_copy(const Device *device, CopyDirection way, void *to, const void *from,
                     size_t bytes, void *event)
{
    CudaHandle  *handle = handle_of(device);
    cudaStream_t queue = handle->copies[way];
    GPU_TRY("starting a host transfer", cudaEventRecord(event, handle->stream));
    GPU_TRY("starting a host transfer", cudaStreamWaitEvent(queue, event, 0));
    GPU_TRY("starting a host transfer",
            cudaMemcpyAsync(to, from, bytes,
                            way == COPY_TO_HOST ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice,
                            queue));
    GPU_TRY("starting a host transfer", cudaEventRecord(event, queue));
    return OK;
}

static Err cuda_join(const Device *device, void *event)
{
    GPU_TRY("joining a host transfer", cudaStreamWaitEvent(handle_of(device)->stream, event, 0));
    return OK;
}

static const DeviceQueues queues = {
    .event_new = cuda_copy_event_new,
    .event_free = cuda_event_free,
    .copy = cuda_copy,
    .join = cuda_join,
};

/* --- CUDA graphs --- */

static Err cuda_capture_begin(const Device *device)
{
    TRY(cuda_done_first(device, "capturing the step"));
    GPU_TRY("capturing the step",
            cudaStreamBeginCapture(handle_of(device)->stream, cudaStreamCaptureModeRelaxed));
    return OK;
}

static Err cuda_capture_end(const Device *device, void **cuda_graph)
{
    cudaGraph_t     graph = NULL;
    cudaGraphExec_t exec = NULL;
    GPU_TRY("capturing the step", cudaStreamEndCapture(handle_of(device)->stream, &graph));
    /* with several ranks, transfers keep the priority of the queue that they were captured in */
    unsigned    flags = device->meanwhile ? cudaGraphInstantiateFlagUseNodePriority : 0;
    cudaError_t err = cudaGraphInstantiate(&exec, graph, flags);
    cudaGraphDestroy(graph);
    GPU_TRY("capturing the step", err);
    GPU_TRY("capturing the step", cudaGraphUpload(exec, handle_of(device)->stream));
    *cuda_graph = exec;
    return OK;
}

typedef struct CapturePoint { /* during a capture: what comes next depends on these nodes */
    size_t          n;
    cudaGraphNode_t nodes[];
} CapturePoint;

static Err cuda_capture_point(const Device *device, Pool *pool, void **out)
{
    enum cudaStreamCaptureStatus status;
    const cudaGraphNode_t       *nodes = NULL;
    size_t                       n = 0;
    cudaStream_t                 stream = handle_of(device)->stream;
    GPU_TRY("capturing the step",
            cudaStreamGetCaptureInfo(stream, &status, NULL, NULL, &nodes, NULL, &n));
    CapturePoint *point = pool_alloc(pool, 1, sizeof *point + n * sizeof *nodes);
    point->n = n;
    memcpy(point->nodes, nodes, n * sizeof *nodes);
    *out = point;
    return OK;
}

static bool points_have(void *const *points, int n, cudaGraphNode_t node)
{
    for (int p = 0; p < n; p++) {
        const CapturePoint *point = points[p];
        for (size_t i = 0; i < point->n; i++)
            if (point->nodes[i] == node)
                return true;
    }
    return false;
}

/* Points may share nodes; each node is added as a dependency once. */
static Err cuda_capture_after(const Device *device, void *const *points, int n)
{
    cudaStream_t stream = handle_of(device)->stream;
    GPU_TRY("capturing the step", cudaStreamUpdateCaptureDependencies(
                                      stream, NULL, NULL, 0, cudaStreamSetCaptureDependencies));
    for (int p = 0; p < n; p++) {
        CapturePoint *point = points[p];
        for (size_t i = 0; i < point->n; i++)
            if (!points_have(points, p, point->nodes[i]))
                GPU_TRY("capturing the step",
                        cudaStreamUpdateCaptureDependencies(stream, &point->nodes[i], NULL, 1,
                                                            cudaStreamAddCaptureDependencies));
    }
    return OK;
}

static Err cuda_graph_launch(const Device *device, void *cuda_graph)
{
    GPU_TRY("running the step", cudaGraphLaunch(cuda_graph, handle_of(device)->stream));
    return OK;
}

static void cuda_graph_free(const Device *device, void *cuda_graph)
{
    if (cuda_may_free(device))
        cudaGraphExecDestroy(cuda_graph);
}

static Err cuda_used(const Device *device, int64_t *used)
{
    TRY(cuda_done(device, "asking for the memory in use"));
    return gpu_memory_ours(used);
}

/* --- the GPU's clock: events as nodes of a CUDA graph --- */

static Err cuda_event_new(const Device *device, void **out)
{
    cudaEvent_t event;
    (void)device;
    GPU_TRY("preparing to measure", cudaEventCreate(&event));
    *out = event;
    return OK;
}

static Err cuda_event(const Device *device, void *event)
{
    cudaStream_t                 stream = handle_of(device)->stream;
    enum cudaStreamCaptureStatus status;
    GPU_TRY("measuring", cudaStreamIsCapturing(stream, &status));
    GPU_TRY("measuring", cudaEventRecordWithFlags(event, stream,
                                                  status == cudaStreamCaptureStatusNone
                                                      ? cudaEventRecordDefault
                                                      : cudaEventRecordExternal));
    return OK;
}

static Err cuda_event_wait(const Device *device, void *event)
{
    if (device->meanwhile)
        return cuda_wait_meanwhile(device, ask_event, event, "running the step");
    GPU_TRY("running the step", cudaEventSynchronize(event));
    return OK;
}

static Err cuda_event_ns(const Device *device, void *from, void *to, double *ns)
{
    float ms;
    (void)device;
    GPU_TRY("measuring", cudaEventElapsedTime(&ms, from, to));
    *ns = (double)ms * 1e6;
    return OK;
}

/* The time of a CUDA graph of n empty kernels. */
static Err cuda_graph_ns(const Device *device, int n, double *ns)
{
    void *cuda_graph;
    TRY(cuda_capture_begin(device));
    for (int i = 0; i < n; i++)
        TRY(cuda_nothing(handle_of(device)->stream));
    TRY(cuda_capture_end(device, &cuda_graph));
    *ns = INFINITY;
    for (int i = 0; i < 5; i++) {
        double start = clock_now();
        TRY(cuda_graph_launch(device, cuda_graph));
        TRY(cuda_wait(device));
        *ns = fmin(*ns, (clock_now() - start) * 1e9);
    }
    cuda_graph_free(device, cuda_graph);
    return OK;
}

static Err cuda_measure(const Device *device, int64_t bytes, Bandwidth *bandwidth,
                        double *launch_ns)
{
    enum { FEW = 1000, MANY = 2000 }; /* the difference leaves out what every graph costs */
    double few, many;
    TRY(cuda_graph_ns(device, FEW, &few));
    TRY(cuda_graph_ns(device, MANY, &many));
    *launch_ns = fmax(1, (many - few) / (MANY - FEW));
    return cuda_bandwidth(handle_of(device), bytes, bandwidth);
}

static const DeviceApi api = {
    .alloc = cuda_alloc,
    .free = cuda_free,
    .alloc_host = cuda_alloc_host,
    .free_host = cuda_free_host,
    .write = cuda_write,
    .read = cuda_read,
    .wait = cuda_wait,
    .capture_begin = cuda_capture_begin,
    .capture_end = cuda_capture_end,
    .graph_launch = cuda_graph_launch,
    .graph_free = cuda_graph_free,
    .capture_point = cuda_capture_point,
    .capture_after = cuda_capture_after,
    .used_bytes = cuda_used,
    .event_new = cuda_event_new,
    .event_free = cuda_event_free,
    .event = cuda_event,
    .event_wait = cuda_event_wait,
    .event_ns = cuda_event_ns,
    .measure = cuda_measure,
};

/* Context and handles live as long as the process; opening them twice would count them twice. */
static struct {
    bool                  open;
    int                   number; /* its number among those that this process sees */
    CudaHandle            handle;
    struct cudaDeviceProp gpu;
} state;

static Err cuda_gpu(int place)
{
    int         count = 0, driver = 0;
    cudaError_t err = cudaGetDeviceCount(&count);
    if (err == cudaErrorInsufficientDriver) {
        cudaDriverGetVersion(&driver);
        return fail(E_DEVICE,
                    "the NVIDIA driver is missing or older than CUDA %d.%d needs (it offers "
                    "%d.%d); update it, or use --device cpu",
                    CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10, driver / 1000,
                    driver % 1000 / 10);
    }
    if (err != cudaSuccess || count == 0)
        return fail(E_DEVICE,
                    "no CUDA GPU here (%s); use --device cpu, or plan for a GPU by its profile's "
                    "name",
                    err ? cudaGetErrorString(err) : "the driver lists none");
    state.number = place % count;
    CUDA_TRY(cudaGetDeviceProperties(&state.gpu, state.number));
    if (state.gpu.major < 8)
        return fail(E_DEVICE,
                    "%s has compute capability %d.%d; 8.0 (A100, RTX 30) or newer is needed",
                    state.gpu.name, state.gpu.major, state.gpu.minor);
    return OK;
}

Err cuda_device_describe(Pool *pool, const DeviceOptions *options, const char *json,
                         const CudaParts *parts, Device *device)
{
    static const DeviceApi planning = { 0 };
    CudaHandle            *handle = pool_alloc(pool, 1, sizeof *handle);
    const Json            *gpu;
    int64_t                sms, version;
    TRY(json_parse(pool, "the GPU's description", json, strlen(json), 0, &gpu));
    TRY(json_need_int(gpu, "multiProcessorCount", &sms));
    TRY(json_need_int(gpu, "deviceVer", &version));
    handle->sms = (int)sms;
    handle->capability = (int)(version / 10);
    handle->tf32 = options->tf32;
    if (handle->sms < 1 || handle->capability < 80)
        return fail(E_FORMAT,
                    "the description of the GPU gives %d multiprocessors and compute capability "
                    "%d; plans need at least 1 and 80",
                    handle->sms, handle->capability);
    TRY(parts->libraries_describe(handle, json));
    device->library = parts->versions();
    device->backend = parts->backend(handle);
    device->kernels = parts->kernels;
    device->tf32 = options->tf32;
    device->api = &planning;
    device->handle = handle;
    return OK;
}

Err cuda_device_open(Pool *pool, const DeviceOptions *options, const CudaParts *parts,
                     Device *device)
{
    size_t  free_bytes, total;
    int64_t ours;
    if (!state.open) {
        char bus[32];
        TRY(cuda_gpu(options->place));
        CUDA_TRY(cudaDeviceGetPCIBusId(bus, sizeof bus, state.number));
        gpu_memory_watch(bus);
        GPU_TRY("opening the GPU", cudaSetDevice(state.number));
        GPU_TRY("opening the GPU",
                cudaStreamCreateWithFlags(&state.handle.stream, cudaStreamNonBlocking));
        for (int direction = 0; direction < 2; direction++)
            GPU_TRY("opening the GPU", cudaStreamCreateWithFlags(&state.handle.copies[direction],
                                                                 cudaStreamNonBlocking));
        GPU_TRY("opening the GPU", cudaMallocHost((void **)&small.slots, SLOTS * SLOT_BYTES));
        TRY(parts->libraries_open(&state.handle));
        state.handle.sms = state.gpu.multiProcessorCount;
        state.handle.capability = state.gpu.major * 10 + state.gpu.minor;
        state.open = true;
    }
    GPU_TRY("asking for free memory", cudaMemGetInfo(&free_bytes, &total));
    TRY(gpu_memory_ours(&ours));
    CudaHandle *handle = pool_alloc(pool, 1, sizeof *handle);
    *handle = state.handle;
    handle->tf32 = options->tf32;
    *device = (Device){ .kind = DEVICE_CUDA,
                        .name = "cuda",
                        .model = state.gpu.name,
                        .library = parts->versions(),
                        .threads = 1,
                        .align = 256,
                        .memory_bytes = (int64_t)free_bytes,
                        .runtime_bytes = ours,
                        .backend = parts->backend(handle),
                        .kernels = parts->kernels,
                        .tf32 = options->tf32,
                        .api = &api,
                        .queues = &queues,
                        .transfers = parts->transfers,
                        .handle = handle };
    return OK;
}
