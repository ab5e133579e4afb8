/* slow_wire.c -- a test aid: a link that is slower than the one that is there.
 *
 * Preloaded into a run over MPI (LD_PRELOAD), it stands between the plugin and the library and holds
 * back what has arrived, as a link of SLOW_WIRE bytes per second would: what a rank receives comes
 * one message after the other. Nothing else changes; the program does not know of it. Requests that
 * were received are reported as done later, without any work of a processor. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    SLOW_MAX = 4096,   /* receives under way */
    SLOW_LAST_TAG = 19 /* transfers (comm.h: COMM_SLOTS); above are words and records */
};

typedef struct SlowMessage {
    MPI_Request *request; /* NULL: free */
    double       due;
    int          arrived; /* the library has reported it; the program not yet */
} SlowMessage;

static SlowMessage messages[SLOW_MAX];
static int         n_messages; /* places in use, free ones between them included */
static double      slow_free;  /* when the link is free again */

static double slow_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double slow_rate(void)
{
    static double rate;
    const char   *text = getenv("SLOW_WIRE");
    if (rate <= 0)
        rate = text ? strtod(text, NULL) : 0;
    if (rate <= 0) {
        fprintf(stderr, "slow_wire: set SLOW_WIRE to bytes per second\n");
        exit(2);
    }
    return rate;
}

static SlowMessage *slow_place(const MPI_Request *request)
{
    for (int i = 0; i < n_messages; i++)
        if (messages[i].request == request)
            return &messages[i];
    return NULL;
}

static void slow_add(MPI_Request *request, double bytes)
{
    SlowMessage *m = slow_place(NULL);
    if (!m && n_messages == SLOW_MAX) {
        fprintf(stderr, "slow_wire: more than %d receives at once\n", SLOW_MAX);
        exit(2);
    }
    m = m ? m : &messages[n_messages++];
    slow_free = (slow_free > slow_now() ? slow_free : slow_now()) + bytes / slow_rate();
    *m = (SlowMessage){ request, slow_free, 0 };
}

int MPI_Irecv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    int size = 0, code = PMPI_Irecv(data, count, type, from, tag, comm, request);
    PMPI_Type_size(type, &size);
    if (code == MPI_SUCCESS && tag <= SLOW_LAST_TAG)
        slow_add(request, (double)count * size);
    return code;
}

/* Keeps back what is not due, and adds what has become due since it arrived. */
int MPI_Testsome(int n, MPI_Request requests[], int *n_done, int done[], MPI_Status statuses[])
{
    int found = 0, code = PMPI_Testsome(n, requests, &found, done, statuses), kept = 0;
    found = found == MPI_UNDEFINED ? 0 : found;
    for (int i = 0; i < found; i++) {
        SlowMessage *m = slow_place(&requests[done[i]]);
        if (m)
            m->arrived = 1;
        else
            done[kept++] = done[i];
    }
    for (int i = 0; i < n_messages; i++) {
        SlowMessage *m = &messages[i];
        if (!m->request || m->request < requests || m->request >= requests + n || !m->arrived ||
            m->due > slow_now())
            continue;
        done[kept++] = (int)(m->request - requests);
        m->request = NULL;
    }
    *n_done = kept;
    return code;
}
