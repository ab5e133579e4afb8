/* session_ranks.h -- a session's part in a run of several ranks: what its transfers need, and state
 * that is divided among the ranks. */
#ifndef EXEC_SESSION_RANKS_H
#define EXEC_SESSION_RANKS_H

#include "exec/copies.h"
#include "exec/session.h"

/* Tells comm how large the session's transfers get, and allocates the buffer for whole parameters.
 * Does nothing with one rank. */
Err session_open_ranks(Session *session);

/* Loading a gathered value to these bytes. */
Err session_build_gather(Session *session, const Value *whole, void *to, Gather *gather);
Err session_gather(Session *session, const Gather *gather);      /* starts it */
Err session_gather_join(Session *session, const Gather *gather); /* waits for it */

/* Every rank gives all elements of the parameter, in arena order and fp32; each keeps its own. */
Err session_put_shard(Session *session, const Param *param, int32_t value, const float *all);
/* Collects the elements, in their own type, at rank `to`, or at all ranks if it is below 0. All ranks
 * call it. *all is the session's buffer, or NULL at ranks that get nothing. */
Err session_collect(Session *session, const Param *param, int32_t value, int to, const void **all);
/* The buffer for all elements of the largest such parameter. */
float *session_shard_buffer(Session *session);

#endif
