/* rank_command.c -- opens and ends the ranks around a command. */
#include "cli/rank_command.h"

#include "comm/queue.h"
#include "train/rank_messages.h"
#include "train/rank_run.h"
#include "train/ranks.h"

#include <stdio.h>
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

/* A device that one of several ranks lacks is a mistake of who started them. */
static Err rank_command_device(const Comm *comm, Err err)
{
    char sentence[1024];
    if (err != E_DEVICE || comm_ranks(comm) == 1)
        return err;
    snprintf(sentence, sizeof sentence, "%s", err_text());
    return fail(E_USAGE, "%s", sentence);
}

Err rank_command_share(Pool *pool, Comm *comm, const Recipe *recipe, Device *device, Err err,
                       Comm **shared)
{
    RankFacts facts = { .recipe = recipe, .device = device };
    *shared = comm_ranks(comm) > 1 ? comm : NULL;
    TRY(ranks_agree(pool, comm, &facts, rank_command_device(comm, err)));
    device->comm = *shared;
    return comm_queue_open(comm, device);
}
