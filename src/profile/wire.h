/* wire.h -- a wire profile: what moving bytes between the ranks of a run costs.
 *
 * Profiles of common links are shipped (profiles/wires/NAME.json), and `plimsoll probe --wire`
 * writes one for the machines it runs on. The format is plimsoll-wire-1, docs/user/FORMATS.md.
 *
 * Ranks of one machine, a node, reach each other by the link `inside`, all others by `between`. In
 * a transfer every rank sends a part to every other rank and receives one from it, over both links
 * at once. It takes as long as the slower of the two:
 *
 *   latency + messages * message_ns + bytes / bytes_per_ns
 */
#ifndef PROFILE_WIRE_H
#define PROFILE_WIRE_H

#include "device/device.h"

typedef struct WireLink {
    double      latency_ns;   /* of one message, until it has arrived */
    double      message_ns;   /* more for each message that a rank sends */
    double      bytes_per_ns; /* that a rank sends while it receives as many; 0: no such link */
    bool        shared;       /* bytes_per_ns is that of a node, which its ranks share */
    int64_t     peer_bytes;   /* that the library holds for each rank at the other end */
    const char *origin;
} WireLink;

struct Wire {
    const char *name, *title;
    WireLink    inside, between;
    double      hidden; /* 0 to 1: the share of moving that goes on while kernels run */
    const char *hidden_origin;
    int64_t     held_bytes; /* that the library holds outside the arena, without peer_bytes */
    const char *held_origin;
    bool        assumed; /* nobody named it, and nothing was measured: not part of the file */
};

/* Ranks of a run, and how many of them share a node. */
typedef struct Ranks {
    int ranks, per_node;
} Ranks;

enum { RANKS_MAX = 1 << 16 };

Err         wire_parse(Pool *pool, const char *name, const char *bytes, size_t n, Wire **wire);
Err         wire_open(Pool *pool, const char *name, Wire **wire); /* a name or a path */
Err         wire_write(const Wire *wire, const char *path);
/* Where probe writes the profile of these machines, and every command looks for it. NULL if there
 * is no home folder. */
const char *wire_home(Pool *pool);

/* E_USAGE if the profile lacks a link that these ranks need. */
Err     wire_suits(const Wire *wire, Ranks ranks);
/* A transfer in which each rank sends at most part_bytes to each other rank. */
double  wire_transfer_ns(const Wire *wire, Ranks ranks, int64_t part_bytes);
/* Until all ranks have a record of that size from each (comm_all). */
double  wire_records_ns(const Wire *wire, Ranks ranks, int64_t record_bytes);
/* What the library holds outside the arena of each rank. */
int64_t wire_held_bytes(const Wire *wire, Ranks ranks);

#endif
