/* queue_gpu.c -- a GPU's queue for transfers, in a CUDA graph: copies through host memory with a call of
 * the host, and NCCL with one rank, which sends to itself. Skipped without a GPU. */
#include "comm/queue_api.h"
#include "profile/devices.h"

#include "test.h"

#include <stdlib.h>
#include <string.h>

enum { N = 1 << 20, LAUNCHES = 20 };

static Pool   *pool;
static Device *gpu;
static char   *from, *to; /* on the GPU */

static void fill(char *host, int seed)
{
    for (int i = 0; i < N; i++)
        host[i] = (char)(i * 7 + seed + (i >> 9));
}

/* Launches a captured transfer with other bytes each time. */
static void check_launches(void *graph, const char *what)
{
    char *host = pool_alloc(pool, 2, N);
    int   wrong = 0;
    for (int k = 0; k < LAUNCHES; k++) {
        fill(host, k);
        CHECK_OK(device_write(gpu, from, host, N));
        CHECK_OK(gpu->api->graph_launch(gpu, graph));
        CHECK_OK(device_read(gpu, host + N, to, N));
        wrong += memcmp(host, host + N, N) != 0;
    }
    CHECK_INT(wrong, 0);
    fprintf(stderr, "  %s: %d launches of a CUDA graph\n", what, LAUNCHES);
    gpu->api->graph_free(gpu, graph);
}

static int  calls;
static void called(void *arg) { calls += *(int *)arg; }

static Err capture_staged(const QueueApi *q, char *room, void **graph)
{
    static int one = 1;
    TRY(gpu->api->capture_begin(gpu));
    TRY(q->begin(gpu));
    TRY(q->copy(gpu, room, from, N));
    TRY(q->call(gpu, called, &one));
    TRY(q->copy(gpu, to, room, N));
    TRY(q->end(gpu, 3));
    TRY(q->join(gpu, 3));
    return gpu->api->capture_end(gpu, graph);
}

static void bytes_go_through_host_memory(void)
{
    void *room, *graph;
    CHECK_OK(device_host_bytes(pool, gpu, N, &room));
    CHECK_OK(capture_staged(gpu->transfers, room, &graph));
    check_launches(graph, "host memory");
    CHECK_INT(calls, LAUNCHES);
}

static Err capture_direct(const QueueApi *q, void **graph)
{
    CommPart send = { 0, from, N }, receive = { 0, to, N };
    TRY(gpu->api->capture_begin(gpu));
    TRY(q->begin(gpu));
    TRY(q->direct(gpu, &send, 1, &receive, 1));
    TRY(q->end(gpu, 4));
    TRY(q->join(gpu, 4));
    return gpu->api->capture_end(gpu, graph);
}

static void nccl_in_a_cuda_graph(void)
{
    const QueueApi *q = gpu->transfers;
    char            why[QUEUE_WHY], id[QUEUE_ID];
    int             version = q->direct_find(why);
    int64_t         before, after;
    unsigned        ended;
    bool            under_way;
    void           *graph;
    if (!version) {
        SKIP(why);
        return;
    }
    CHECK_OK(gpu->api->used_bytes(gpu, &before));
    CHECK_OK(q->direct_id(id));
    CHECK_OK(q->direct_open(gpu, id, 0, 1));
    CHECK_OK(capture_direct(q, &graph));
    check_launches(graph, "NCCL with one rank");
    CHECK_OK(gpu->api->used_bytes(gpu, &after));
    CHECK_OK(q->direct_look(&under_way, &ended));
    CHECK_INT(ended, LAUNCHES);
    CHECK(!under_way);
    fprintf(stderr, "  NCCL %d holds %lld bytes of the GPU\n", version,
            (long long)(after - before));
}

int main(void)
{
    void *room;
    pool = pool_new(NULL, "gpu");
    if (device_open(pool, "cuda", NULL, &gpu)) {
        SKIP("there is no GPU");
        return test_end();
    }
    CHECK_OK(gpu->api->alloc(gpu, 2 * N, &room));
    from = room;
    to = from + N;
    CHECK_OK(gpu->transfers->open(gpu, COMM_SLOTS));
    RUN(bytes_go_through_host_memory);
    RUN(nccl_in_a_cuda_graph);
    gpu->api->free(gpu, room);
    pool_free(pool);
    return test_end();
}
