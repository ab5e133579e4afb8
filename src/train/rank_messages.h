/* rank_messages.h -- one rank speaks for all.
 *
 * Every rank would print the same messages. So rank 0 alone prints, and the others' stderr is kept
 * back; a line that rank 0 does not have is printed by rank 0 under the name of the rank that has
 * it. With one rank nothing changes. */
#ifndef TRAIN_RANK_MESSAGES_H
#define TRAIN_RANK_MESSAGES_H

#include "comm/comm.h"

void rank_messages_begin(Pool *pool, const Comm *comm);
/* Collective: compares the lines since the last call, and prints those of single ranks. */
Err  rank_messages_tell(Pool *pool, Comm *comm);
void rank_messages_end(void); /* from here on every rank prints again */

#endif
