/* rank_run.c -- the plan of several ranks, and who does what. */
#include "train/rank_run.h"

#include "base/int_math.h"
#include "comm/agree.h"

#include <string.h>
#include <unistd.h>

bool rank_leads(const Comm *comm) { return !comm || comm_rank(comm) == 0; }

int rank_number(const Comm *comm) { return comm ? comm_rank(comm) : 0; }
int rank_count(const Comm *comm) { return comm ? comm_ranks(comm) : 1; }

RankPart rank_part(const Comm *comm, int64_t n)
{
    int64_t each = ceil_div(n, rank_count(comm));
    return (RankPart){ rank_number(comm) * each, each };
}

Err rank_collect_prepare(Comm *comm, int64_t bytes)
{
    int ranks = rank_count(comm);
    return ranks > 1 ? comm_prepare(comm, ranks + 1, (ranks + 1) * bytes) : OK;
}

Err rank_collect(Comm *comm, const void *mine, int64_t bytes, void *all)
{
    int      ranks = rank_count(comm);
    CommPart parts[ranks], own = { 0, (void *)mine, bytes };
    for (int r = 0; r < ranks; r++)
        parts[r] = (CommPart){ r, all ? (char *)all + r * bytes : NULL, bytes };
    if (ranks == 1) {
        memcpy(all, mine, (size_t)bytes);
        return OK;
    }
    TRY(rank_collect_prepare(comm, bytes));
    TRY(comm_start(comm, 0, &own, 1, parts, rank_leads(comm) ? ranks : 0));
    return comm_wait(comm, 0);
}

Err rank_recipe(Pool *pool, const Recipe *recipe, const Comm *comm, int shard, int64_t bucket_bytes,
                const Recipe **ranked)
{
    *ranked = recipe;
    if (comm_ranks(comm) == 1)
        return OK;
    Recipe *copy = recipe_copy(pool, recipe);
    TRY(recipe_check_ranks(recipe, comm_ranks(comm)));
    copy->levers.ranks = comm_ranks(comm);
    copy->levers.shard = shard < 0 ? SHARD_DEFAULT : shard;
    copy->levers.bucket = bucket_bytes;
    *ranked = copy;
    return OK;
}

static Err plan_parse(Pool *pool, const char *text, size_t n, const Recipe *asked,
                      const Device *device, bool given_noise, FitResult *fit)
{
    const Json *root;
    TRY(json_parse(pool, "the plan of rank 0", text, n, 0, &root));
    return fit_from_json(pool, root, asked, device, given_noise, fit);
}

Err rank_share_plan(Pool *pool, Comm *comm, Err err, const Recipe *asked, const Device *device,
                    bool given_noise, FitResult *fit)
{
    Text text = { .pool = pool };
    if (comm_ranks(comm) == 1)
        return err;
    if (!err && rank_leads(comm))
        err = fit_text(&text, asked, fit);
    TRY(comm_follow(comm, 0, err));
    int64_t n = (int64_t)text.n;
    TRY(comm_share(comm, 0, &n, sizeof n));
    char *bytes = rank_leads(comm) ? text.at : pool_alloc(pool, (size_t)n + 1, 1);
    TRY(comm_share(comm, 0, bytes, n));
    if (!rank_leads(comm))
        err = plan_parse(pool, bytes, (size_t)n, asked, device, given_noise, fit);
    return comm_agree(comm, err);
}

/* Ranks on the same machine. */
static int rank_neighbours(const Comm *comm, int rank)
{
    int here = 0;
    for (int r = 0; r < comm_ranks(comm); r++)
        here += !strcmp(comm_host(comm, r), comm_host(comm, rank));
    return here;
}

int rank_per_node(const Comm *comm)
{
    int most = 1;
    for (int r = 0; r < comm_ranks(comm); r++)
        most = (int)int_max(most, rank_neighbours(comm, r));
    return most;
}

int rank_place(const Comm *comm)
{
    int place = 0, me = comm_rank(comm);
    for (int r = 0; r < me; r++)
        place += !strcmp(comm_host(comm, r), comm_host(comm, me));
    return place;
}

int rank_threads(const Comm *comm)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int  here = rank_neighbours(comm, comm_rank(comm));
    return cores > here ? (int)(cores / here) : 1;
}
