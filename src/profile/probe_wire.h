/* probe_wire.h -- measures what connects the ranks of a run: links inside a machine and between
 * machines, and how much of moving goes on while a rank computes. */
#ifndef PROFILE_PROBE_WIRE_H
#define PROFILE_PROBE_WIRE_H

#include "comm/comm.h"
#include "profile/wire.h"

/* Collective; takes some seconds. Every rank gets the same profile. Its name is left to the
 * caller. E_USAGE with one rank. */
Err probe_wire(Pool *pool, Comm *comm, Wire *wire);

#endif
