/* plugin_cuda_nccl.c -- NCCL's sends and receives, in groups. Nothing else is asked of it: the order
 * of its reductions' additions depends on sizes, algorithms and topology. */
#include "comm/plugin_cuda_queue.h"

#include <assert.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NCCL's types, declared here so that its header is not needed; where it is, they are compared. */
enum { NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7, NCCL_INT8 = 0, NCCL_OLDEST = 21000 };

typedef struct NcclId {
    char bytes[QUEUE_ID];
} NcclId;

#if __has_include(<nccl.h>)
#include <nccl.h>
static_assert(sizeof(NcclId) == sizeof(ncclUniqueId), "passed by value");
static_assert((int)ncclSuccess == NCCL_SUCCESS && (int)ncclInProgress == NCCL_IN_PROGRESS &&
                  (int)ncclInt8 == NCCL_INT8,
              "NCCL's numbers");
static_assert(sizeof(ncclResult_t) == sizeof(int) && sizeof(ncclDataType_t) == sizeof(int),
              "passed as int");
#endif

static struct {
    void *library, *comm;
    int (*version)(int *version);
    int (*unique_id)(NcclId *id);
    int (*init)(void **comm, int ranks, NcclId id, int rank);
    int (*abort)(void *comm);
    int (*async_error)(void *comm, int *error);
    int (*group_start)(void);
    int (*group_end)(void);
    int (*send)(const void *data, size_t n, int type, int peer, void *comm, cudaStream_t stream);
    int (*receive)(void *data, size_t n, int type, int peer, void *comm, cudaStream_t stream);
    const char *(*error_text)(int error);
    const char *(*last_error)(void *comm); /* NULL: older than 2.13 */
} nccl;

static Err nccl_fail(const char *call, int error)
{
    const char *more = nccl.last_error ? nccl.last_error(NULL) : "";
    return fail(E_DEVICE,
                "%s: %s%s%s; another rank or the network between them may be lost "
                "(NCCL_DEBUG=WARN says more). Nothing of this step was kept: continue from the "
                "last checkpoint",
                call, nccl.error_text(error), more && *more ? ": " : "", more ? more : "");
}

#define NCCL_TRY(call, name)                                                                       \
    do {                                                                                           \
        int nccl_err_ = (call);                                                                    \
        if (nccl_err_ != NCCL_SUCCESS)                                                             \
            return nccl_fail(name, nccl_err_);                                                     \
    } while (0)

/* PLIMSOLL_NCCL names another file, or none. */
static void *nccl_load(char why[QUEUE_WHY])
{
    const char *named = getenv("PLIMSOLL_NCCL");
    if (named && !strcmp(named, "none")) {
        snprintf(why, QUEUE_WHY, "PLIMSOLL_NCCL is none");
        return NULL;
    }
    void *library = dlopen(named && *named ? named : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        snprintf(why, QUEUE_WHY, "NCCL is not installed: %.200s", dlerror());
    return library;
}

static bool nccl_symbols(void *library)
{
    struct {
        void      **to;
        const char *name;
    } all[] = {
        { (void **)&nccl.version, "ncclGetVersion" },
        { (void **)&nccl.unique_id, "ncclGetUniqueId" },
        { (void **)&nccl.init, "ncclCommInitRank" },
        { (void **)&nccl.abort, "ncclCommAbort" },
        { (void **)&nccl.async_error, "ncclCommGetAsyncError" },
        { (void **)&nccl.group_start, "ncclGroupStart" },
        { (void **)&nccl.group_end, "ncclGroupEnd" },
        { (void **)&nccl.send, "ncclSend" },
        { (void **)&nccl.receive, "ncclRecv" },
        { (void **)&nccl.error_text, "ncclGetErrorString" },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        *all[i].to = dlsym(library, all[i].name);
        if (!*all[i].to)
            return false;
    }
    *(void **)&nccl.last_error = dlsym(library, "ncclGetLastError");
    return true;
}

int nccl_find(char why[QUEUE_WHY])
{
    int version = 0;
    if (!nccl.library)
        nccl.library = nccl_load(why);
    if (!nccl.library)
        return 0;
    if (!nccl_symbols(nccl.library) || nccl.version(&version) || version < NCCL_OLDEST) {
        snprintf(why, QUEUE_WHY, "its NCCL is older than 2.10");
        return 0;
    }
    return version;
}

Err nccl_id(void *id)
{
    NCCL_TRY(nccl.unique_id(id), "ncclGetUniqueId");
    return OK;
}

Err nccl_open(const void *id, int rank, int ranks)
{
    NcclId copy;
    memcpy(&copy, id, sizeof copy);
    if (!nccl.comm)
        NCCL_TRY(nccl.init(&nccl.comm, ranks, copy, rank), "ncclCommInitRank");
    return OK;
}

static Err nccl_group(cudaStream_t stream, const CommPart *sends, int n_sends,
                      const CommPart *receives, int n_receives)
{
    for (int i = 0; i < n_sends; i++)
        NCCL_TRY(nccl.send(sends[i].data, (size_t)sends[i].bytes, NCCL_INT8, sends[i].peer,
                           nccl.comm, stream),
                 "ncclSend");
    for (int i = 0; i < n_receives; i++)
        NCCL_TRY(nccl.receive(receives[i].data, (size_t)receives[i].bytes, NCCL_INT8,
                              receives[i].peer, nccl.comm, stream),
                 "ncclRecv");
    return OK;
}

Err nccl_move(cudaStream_t stream, const CommPart *sends, int n_sends, const CommPart *receives,
              int n_receives)
{
    NCCL_TRY(nccl.group_start(), "ncclGroupStart");
    Err err = nccl_group(stream, sends, n_sends, receives, n_receives);
    int ended = nccl.group_end(); /* always, or the next group would lie within this one */
    TRY(err);
    NCCL_TRY(ended, "ncclGroupEnd");
    return OK;
}

Err nccl_look(void)
{
    int error = NCCL_SUCCESS;
    if (nccl.comm && !nccl.async_error(nccl.comm, &error) && error != NCCL_SUCCESS &&
        error != NCCL_IN_PROGRESS)
        return nccl_fail("NCCL", error);
    return OK;
}

static void *nccl_abort(void *arg)
{
    nccl.abort(arg);
    return NULL;
}

/* Its kernels leave the GPU. The call itself may wait for CUDA graphs that are never freed, so it has
 * a thread of its own, which ends with the process. */
void nccl_give_up(void)
{
    pthread_t thread;
    if (nccl.comm && !pthread_create(&thread, NULL, nccl_abort, nccl.comm))
        pthread_detach(thread);
    nccl.comm = NULL;
}
