/* rank_command.c -- opens and ends the ranks around a command. */
#include "cli/rank_command.h"

#include "comm/queue.h"
#include "train/rank_messages.h"
#include "train/rank_run.h"
#include "train/ranks.h"

#include <string.h>

Err rank_command(Pool *pool, const char *library, RankCommand *command, int n_args, char **args)
{
    Comm *comm;
    if (library && strcmp(library, "openmpi") && strcmp(library, "mpich"))
        return fail(E_USAGE, "--mpi is openmpi or mpich, not %s", library);
    TRY(comm_open_by(pool, library, &comm));
    rank_messages_begin(pool, comm);
    Err err = comm_end(comm, command(pool, comm, n_args, args));
    rank_messages_end();
    return err;
}

void rank_command_threads(const Comm *comm, ModelOptions *model)
{
    model->place = rank_place(comm);
    if (comm_ranks(comm) > 1 && !model->threads)
        model->threads = rank_threads(comm);
}

Err rank_command_share(Pool *pool, Comm *comm, const Recipe *recipe, Device *device, Err err,
                       Comm **shared)
{
    RankFacts facts = { .recipe = recipe, .device = device };
    *shared = comm_ranks(comm) > 1 ? comm : NULL;
    TRY(ranks_agree(pool, comm, &facts, err));
    device->comm = *shared;
    return comm_queue_open(comm, device);
}
