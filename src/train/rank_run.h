/* rank_run.h -- what a training run does differently with several ranks. */
#ifndef TRAIN_RANK_RUN_H
#define TRAIN_RANK_RUN_H

#include "comm/comm.h"
#include "fit/fit.h"

/* Does this rank print, log and write for all? comm NULL: there is only one. */
bool rank_leads(const Comm *comm);

/* The recipe as these ranks run it; E_USAGE if they cannot. shard below 0: the default level. */
Err rank_recipe(Pool *pool, const Recipe *recipe, const Comm *comm, int shard, int64_t bucket_bytes,
                const Recipe **ranked);

/* Every rank gets the plan that rank 0 made. err: of making it, at rank 0. */
Err rank_share_plan(Pool *pool, Comm *comm, Err err, const Recipe *asked, const Device *device,
                    bool given_noise, FitResult *fit);

/* Results are spread over ranks by their numbers: rank r has `each` of n from r * each on, the last
 * ones perhaps beyond n, so that all ranks do the same. comm NULL: there is one rank. */
typedef struct RankPart {
    int64_t first, each;
} RankPart;

RankPart rank_part(const Comm *comm, int64_t n);
int      rank_number(const Comm *comm);
int      rank_count(const Comm *comm);

/* Collects so many bytes of each rank at rank 0, in the order of ranks; all: NULL elsewhere. The
 * first allocates what the second needs. */
Err rank_collect_prepare(Comm *comm, int64_t bytes);
Err rank_collect(Comm *comm, const void *mine, int64_t bytes, void *all);

/* Ranks of the run on the machine that has most of them. */
int rank_per_node(const Comm *comm);

/* This rank's number among those of its machine. */
int rank_place(const Comm *comm);

/* Threads of each rank that shares this machine with others of the run. */
int rank_threads(const Comm *comm);

#endif
