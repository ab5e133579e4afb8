/* rank_command.c -- opens and ends the ranks around a command. */
#include "cli/rank_command.h"

#include "comm/agree.h"
#include "comm/launcher.h"
#include "comm/queue.h"
#include "train/rank_messages.h"
#include "train/rank_run.h"
#include "train/ranks.h"

#include <stdio.h>
#include <string.h>

static const Option *rank_options; /* of the command that runs */

Err rank_command(Pool *pool, const char *library, const Option *options, RankCommand *command,
                 int n_args, char **args)
{
    Comm *comm;
    rank_options = options;
    if (library && strcmp(library, "openmpi") && strcmp(library, "mpich"))
        return fail(E_USAGE, "--mpi is openmpi or mpich, not %s", library);
    TRY(comm_open_by(pool, library, &comm));
    rank_messages_begin(pool, comm);
    Err err = comm_end(comm, command(pool, comm, n_args, args));
    rank_messages_end();
    return err;
}

static const Option *option_find(const Option *options, const char *name)
{
    while (options->name && strcmp(options->name, name))
        options++;
    return options->name ? options : NULL;
}

Err rank_command_refused(Pool *pool, const Command *command, Err err)
{
    Launcher launcher = launcher_find();
    char     sentence[1024];
    Comm    *comm;
    if (!option_find(command->options, "mpi") || !launcher.library || launcher.ranks < 2)
        return err;
    snprintf(sentence, sizeof sentence, "%s", err_text());
    TRY(comm_open(pool, &comm));
    return comm_end(comm, comm_agree(comm, fail(err, "%s", sentence)));
}

/* What a rank prints, how long it waits, where its machine keeps files; and what is compared as
 * a fact of its own. */
static bool option_is_own(const Option *o)
{
    static const char *const own[] = { "quiet",   "json",   "patience", "mpi",          "data",
                                       "threads", "device", "backend",  "loader-memory" };
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (!strcmp(o->name, own[i]))
            return true;
    return o->kind == OPT_LIST; /* --set: part of the recipe */
}

/* Paths may differ from machine to machine; whether one is given may not. */
static bool option_is_path(const Option *o)
{
    static const char *const paths[] = { "DIR", "FILE", "PATH", "RUN" };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (!strcmp(o->argument, paths[i]))
            return true;
    return false;
}

static const char *option_said(Pool *pool, const Option *o)
{
    const char *text;
    switch (o->kind) {
    case OPT_FLAG: return *(const bool *)o->to ? "it" : "not";
    case OPT_TEXT:
        text = *(const char *const *)o->to;
        return !text ? "none" : option_is_path(o) && strcmp(text, "none") ? "one" : text;
    case OPT_INT:
    case OPT_NATURAL:
    case OPT_COUNT: return pool_print(pool, "%lld", (long long)*(const int64_t *)o->to);
    case OPT_NUMBER:
    case OPT_SECONDS: return pool_print(pool, "%.17g", *(const double *)o->to);
    case OPT_LIST: break;
    }
    return "";
}

static Err rank_command_options(Pool *pool, Comm *comm)
{
    CommFact *facts = NULL;
    int32_t   n = 0, cap = 0;
    for (const Option *o = rank_options; o->name; o++)
        if (!option_is_own(o))
            VEC_ADD(pool, facts, n, cap,
                    ((CommFact){ pool_print(pool, "%s%s", o->name[1] ? "--" : "-", o->name),
                                 option_said(pool, o), "give the same options to all" }));
    return comm_same(comm, facts, n);
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
    TRY(comm_agree(comm, rank_command_device(comm, err)));
    TRY(rank_command_options(pool, comm));
    TRY(ranks_agree(pool, comm, &facts, OK));
    device->comm = *shared;
    return comm_queue_open(comm, device);
}
