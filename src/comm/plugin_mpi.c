/* plugin_mpi.c -- MPI as a transport: nonblocking sends and receives, and nothing else.
 *
 * Built once against each mpi.h (cmake/mpi.cmake), because Open MPI and MPICH differ in the types
 * behind the same names. No reduction is asked of the library: the order of its additions depends
 * on sizes, algorithms and topology. */
#include "comm/transport.h"

#include <dlfcn.h>
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const TransportHost *host;
static MPI_Comm             world;
static MPI_Request         *requests;
static int                 *indices; /* of the requests that a test found done */
static int                  n_requests;

static Err mpi_fail(const char *call, int code)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int  n = 0;
    MPI_Error_string(code, text, &n);
    return host->fail(E_DEVICE,
                      "%s: %s; another rank or the network between them may be lost. Nothing of "
                      "this step was kept: continue from the last checkpoint",
                      call, text);
}

#define MPI_TRY(call, name)                                                                        \
    do {                                                                                           \
        int code_ = (call);                                                                        \
        if (code_ != MPI_SUCCESS)                                                                  \
            return mpi_fail(name, code_);                                                          \
    } while (0)

/* A library that was loaded for this plugin alone hides its symbols from the components that it
 * loads itself, and Open MPI's need them. */
static void mpi_show_symbols(void)
{
    Dl_info where;
    int (*anchor)(int *, char ***) = MPI_Init;
    void *at;
    memcpy(&at, &anchor, sizeof at); /* ISO C converts no function pointer to void * */
    if (dladdr(at, &where) && where.dli_fname)
        dlopen(where.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

static Err transport_open(TransportWorld *w)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int  n = 0, given;
    mpi_show_symbols();
    MPI_TRY(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given), "MPI_Init_thread");
    MPI_TRY(MPI_Comm_dup(MPI_COMM_WORLD, &world), "MPI_Comm_dup");
    MPI_TRY(MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    MPI_TRY(MPI_Comm_rank(world, &w->rank), "MPI_Comm_rank");
    MPI_TRY(MPI_Comm_size(world, &w->ranks), "MPI_Comm_size");
    MPI_TRY(MPI_Get_library_version(text, &n), "MPI_Get_library_version");
    for (char *c = text; *c; c++) /* Open MPI: one line with commas; MPICH: a line for each fact */
        *c = *c == '\t' || *c == ' ' ? ' ' : *c;
    snprintf(w->library, sizeof w->library, "%.*s", (int)strcspn(text, ",\n"), text);
    return OK;
}

static Err transport_reserve(int n)
{
    MPI_Request *more = realloc(requests, (size_t)n * sizeof *more);
    requests = more ? more : requests;
    int *places = realloc(indices, (size_t)n * sizeof *places);
    indices = places ? places : indices;
    if (!more || !places)
        return host->fail(E_DEVICE, "no memory for %d requests of transfers", n);
    while (n_requests < n)
        requests[n_requests++] = MPI_REQUEST_NULL;
    return OK;
}

static Err transport_send(int request, int peer, int tag, const void *data, int64_t bytes)
{
    MPI_TRY(MPI_Isend(data, (int)bytes, MPI_BYTE, peer, tag, world, &requests[request]),
            "MPI_Isend");
    return OK;
}

static Err transport_receive(int request, int peer, int tag, void *data, int64_t bytes)
{
    MPI_TRY(MPI_Irecv(data, (int)bytes, MPI_BYTE, peer == TRANSPORT_ANY ? MPI_ANY_SOURCE : peer,
                      tag, world, &requests[request]),
            "MPI_Irecv");
    return OK;
}

static Err transport_test(int first, int n, int *done)
{
    MPI_TRY(MPI_Testsome(n, requests + first, done, indices, MPI_STATUSES_IGNORE), "MPI_Testsome");
    if (*done == MPI_UNDEFINED) /* none is under way */
        *done = 0;
    return OK;
}

static void transport_cancel(int request)
{
    if (requests[request] == MPI_REQUEST_NULL)
        return;
    MPI_Cancel(&requests[request]);
    MPI_Wait(&requests[request], MPI_STATUS_IGNORE);
}

static void transport_close(void)
{
    MPI_Comm_free(&world);
    MPI_Finalize();
    free(requests);
    free(indices);
    requests = NULL;
    indices = NULL;
    n_requests = 0;
}

static void transport_abort(int code) { MPI_Abort(MPI_COMM_WORLD, code); }

const Transport *plimsoll_transport(const TransportHost *program)
{
    static const Transport transport = { transport_open,    transport_reserve, transport_send,
                                         transport_receive, transport_test,    transport_cancel,
                                         transport_close,   transport_abort };
    if (program->form != TRANSPORT_FORM)
        return NULL;
    host = program;
    return &transport;
}
