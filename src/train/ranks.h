/* ranks.h -- what the ranks of a run agree on beside the numbers that they compute.
 *
 * Before step 1 all must run the same program on the same kind of device with the same recipe, plan
 * and data, because every rank plans for itself what the others will send. In each step a signal at
 * any rank counts for all, so that all end at the same step. Every so many steps all compare a
 * digest of the parameters, which must be the same to the bit. With one rank nothing happens. */
#ifndef TRAIN_RANKS_H
#define TRAIN_RANKS_H

#include "comm/comm.h"
#include "fit/fit.h"
#include "train/feeds.h"

enum { RANKS_CHECK_EVERY = 1000 }; /* steps */

typedef struct RankFacts {
    const Recipe    *recipe; /* as given */
    const Device    *device;
    const FitResult *fit;   /* NULL: not compared */
    Feeds           *feeds; /* opened, not yet prefetching; NULL: not compared */
} RankFacts;

/* err: of what this rank prepared so far. E_USAGE on all ranks if they differ, or the first error
 * of any rank; rank 0 has the sentence. Otherwise prints what only single ranks had to say
 * (rank_messages.h). Collective, as all below. */
Err ranks_agree(Pool *pool, Comm *comm, const RankFacts *facts, Err err);

/* E_USAGE if ranks would use the checkpoints of different steps. */
Err ranks_agree_step(Comm *comm, int64_t step);

/* What this rank found at this place of its phase, or NULL; out comes what was found at the first
 * place, and by which rank. */
Err ranks_first_found(Pool *pool, Comm *comm, int32_t place, const char **found);

/* Signals of this rank in, those of any rank out. */
Err ranks_signals(Comm *comm, bool *stop, bool *save);

/* The parameters after a step: E_DEVICE where ranks differ, which a faulty machine causes. Takes a
 * tenth of a second for 1 GB. */
typedef struct RankCheck RankCheck;
Err ranks_check_new(Pool *pool, Comm *comm, Session *session, int64_t every, RankCheck **check);
Err ranks_check(RankCheck *check, int64_t step);
/* The same before step 1: E_USAGE. Divided parameters, which ranks have parts of, are not compared. */
Err ranks_check_start(RankCheck *check);

#endif
