/* rank_command.h -- a command whose process may be one of several ranks. */
#ifndef CLI_RANK_COMMAND_H
#define CLI_RANK_COMMAND_H

#include "cli/model_options.h"
#include "comm/comm.h"

typedef Err RankCommand(Pool *pool, Comm *comm, int n_args, char **args);

/* Finds the ranks, runs the command on all, and ends them together; rank 0 alone prints. library: of
 * --mpi, or NULL. `options` must be the same on all, but for those that concern one rank alone. */
Err rank_command(Pool *pool, const char *library, const Option *options, RankCommand *command,
                 int n_args, char **args);

/* The words of such a command were wrong: the other ranks, which may have had others, are told.
 * Returns err. */
Err rank_command_refused(Pool *pool, const Command *command, Err err);

/* For commands that do not plan for ranks: the threads of each, unless the user says; and, once the
 * model is open, what all must agree on. NULL if there is one rank, else `comm`. err: of opening. */
void rank_command_threads(const Comm *comm, ModelOptions *model);
Err  rank_command_share(Pool *pool, Comm *comm, const Recipe *recipe, Device *device, Err err,
                        Comm **shared);

#define MPI_OPTION(library_)                                                                       \
    {                                                                                              \
        "mpi", OPT_TEXT, &(library_), "LIBRARY",                                                   \
            "openmpi or mpich; default: the one of mpirun or srun", GROUP_RANKS                    \
    }

#endif
