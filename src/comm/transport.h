/* transport.h -- the interface between the program and a plugin that moves bytes between ranks.
 *
 * A transport plugin is a shared library with one message library behind it (plugin_mpi.c, built
 * once for each MPI that has its own binary interface). It starts single sends and receives and
 * tells which are done; everything else (slots, small records, silent ranks) is in this room, the
 * same for every transport. Requests are numbers below what was reserved; the plugin keeps the
 * library's handles. All calls come from one thread.
 */
#ifndef COMM_TRANSPORT_H
#define COMM_TRANSPORT_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum {
    TRANSPORT_FORM = 1,     /* changes with the structs below */
    TRANSPORT_ANY = -1,     /* receive: from any rank */
    TRANSPORT_MAX_TAG = 63, /* tags are 0 to this */
    TRANSPORT_NAME = 128    /* bytes of a library's name and version, with its end */
};

typedef struct TransportHost {
    int form; /* TRANSPORT_FORM of the program */
    Err (*fail)(Err code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
} TransportHost;

typedef struct TransportWorld {
    int  rank, ranks;
    char library[TRANSPORT_NAME];
} TransportWorld;

typedef struct Transport {
    Err (*open)(TransportWorld *world); /* collective */
    Err (*reserve)(int n_requests);     /* allocates; those under way stay */
    /* Messages between two ranks with one tag arrive in the order in which they were sent. */
    Err (*send)(int request, int peer, int tag, const void *data, int64_t bytes);
    Err (*receive)(int request, int peer, int tag, void *data, int64_t bytes);
    /* Moves bytes along; *done: how many of n requests from `first` on ended since last asked */
    Err (*test)(int first, int n, int *done);
    void (*cancel)(int request); /* a receive that nothing was sent for */
    void (*close)(void);         /* collective; nothing may be under way */
    void (*abort)(int code);     /* ends all ranks */
} Transport;

/* What each plugin defines; returns NULL if the form differs. */
typedef const Transport *TransportEntry(const TransportHost *host);
const Transport         *plimsoll_transport(const TransportHost *host);

#endif
