/* session_int.h -- between session.c and weights.c. */
#ifndef EXEC_SESSION_INT_H
#define EXEC_SESSION_INT_H

#include "exec/session.h"

/* Host bytes for all of a persistent value: its own in the arena where the host can touch them,
 * else one shared room (session_is_staged) that session_read and session_write copy from and to. */
void *session_room(Session *session, int32_t value);
bool  session_is_staged(const Session *session);

#endif
