/* weights_hash.h -- one number for the weights that a session computes with. */
#ifndef TRAIN_WEIGHTS_HASH_H
#define TRAIN_WEIGHTS_HASH_H

#include "exec/session.h"

/* Of the names and numbers (fp32, disk order) of all parameters, in any order. A parameter's number
 * is the rounded one where the session holds it in fewer bits. */
Err weights_hash(Pool *pool, Session *session, uint64_t *hash);

#endif
