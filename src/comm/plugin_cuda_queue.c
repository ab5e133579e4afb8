/* plugin_cuda_queue.c -- transfers between ranks as a branch of the kernels' stream.
 *
 *   kernels   pack ----------> backward ----------> fold
 *                \                                 /
 *   queue         begin -- copies or NCCL -- end --
 */
#include "comm/plugin_cuda_queue.h"

#include "device/plugin_cuda.h"

#include <string.h>

static struct {
    cudaStream_t stream; /* NULL: not open */
    cudaEvent_t  begun;
    cudaEvent_t  ended[COMM_SLOTS];
    unsigned    *counts; /* pinned */
} queue;

static cudaStream_t kernels_of(const Device *device)
{
    return ((const CudaHandle *)device->handle)->stream;
}

/* Its kernels go first where both wait for multiprocessors: other ranks wait for them. */
static Err queue_open(const Device *device, int slots)
{
    int lowest, highest;
    (void)device;
    REQUIRE(slots <= COMM_SLOTS);
    if (queue.stream)
        return OK;
    CUDA_TRY(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
    CUDA_TRY(cudaStreamCreateWithPriority(&queue.stream, cudaStreamNonBlocking, highest));
    CUDA_TRY(cudaEventCreateWithFlags(&queue.begun, cudaEventDisableTiming));
    for (int i = 0; i < slots; i++)
        CUDA_TRY(cudaEventCreateWithFlags(&queue.ended[i], cudaEventDisableTiming));
    CUDA_TRY(cudaMallocHost((void **)&queue.counts, COUNTS * sizeof *queue.counts));
    memset(queue.counts, 0, COUNTS * sizeof *queue.counts);
    return OK;
}

static void queue_place(const Device *device, char place[QUEUE_PLACE])
{
    int number = 0;
    (void)device;
    memset(place, 0, QUEUE_PLACE);
    if (cudaGetDevice(&number) || cudaDeviceGetPCIBusId(place, QUEUE_PLACE - 1, number))
        cudaGetLastError();
}

static Err queue_begin(const Device *device)
{
    CUDA_TRY(cudaEventRecord(queue.begun, kernels_of(device)));
    CUDA_TRY(cudaStreamWaitEvent(queue.stream, queue.begun, 0));
    return OK;
}

static Err queue_end(const Device *device, int slot)
{
    (void)device;
    CUDA_TRY(cudaEventRecord(queue.ended[slot], queue.stream));
    return OK;
}

static Err queue_join(const Device *device, int slot)
{
    CUDA_TRY(cudaStreamWaitEvent(kernels_of(device), queue.ended[slot], 0));
    return OK;
}

static Err queue_copy(const Device *device, void *to, const void *from, size_t bytes)
{
    (void)device;
    CUDA_TRY(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, queue.stream));
    return OK;
}

static Err queue_call(const Device *device, void (*function)(void *), void *arg)
{
    (void)device;
    CUDA_TRY(cudaLaunchHostFunc(queue.stream, function, arg));
    return OK;
}

static void queue_give_up(const Device *device)
{
    (void)device;
    cuda_device_give_up();
    nccl_give_up();
}

static Err queue_direct_open(const Device *device, const void *id, int rank, int ranks)
{
    struct cudaPointerAttributes where; /* a new thread has no device yet */
    (void)device;
    CUDA_TRY(cudaPointerGetAttributes(&where, queue.counts));
    CUDA_TRY(cudaSetDevice(where.device));
    return nccl_open(id, rank, ranks);
}

static Err queue_direct(const Device *device, const CommPart *sends, int n_sends,
                        const CommPart *receives, int n_receives)
{
    (void)device;
    TRY(cuda_queue_count(queue.stream, &queue.counts[COUNT_BEGUN]));
    TRY(nccl_move(queue.stream, sends, n_sends, receives, n_receives));
    return cuda_queue_count(queue.stream, &queue.counts[COUNT_ENDED]);
}

static Err queue_direct_look(bool *under_way, unsigned *ended)
{
    const volatile unsigned *counts = queue.counts;
    *ended = counts[COUNT_ENDED];
    *under_way = counts[COUNT_BEGUN] != *ended;
    return nccl_look();
}

const struct QueueApi cuda_queue_api = {
    .open = queue_open,
    .place = queue_place,
    .begin = queue_begin,
    .end = queue_end,
    .join = queue_join,
    .copy = queue_copy,
    .call = queue_call,
    .give_up = queue_give_up,
    .direct_find = nccl_find,
    .direct_id = nccl_id,
    .direct_open = queue_direct_open,
    .direct = queue_direct,
    .direct_look = queue_direct_look,
};
