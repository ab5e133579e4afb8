/* commands.c -- the list of commands. */
#include "cli/cli.h"

#include "base/text.h"

#include <string.h>

const Command *const commands[] = {
    &cmd_explain, &cmd_fit,      &cmd_compare,  &cmd_encode,     &cmd_train,  &cmd_watch,
    &cmd_sample,  &cmd_evaluate, &cmd_compress, &cmd_decompress, &cmd_export, &cmd_probe,
    &cmd_plan,    &cmd_layout,   &cmd_replay,   &cmd_list,       &cmd_help,   NULL
};
enum { N_COMMANDS = sizeof commands / sizeof *commands - 1 };

const Command *command_find(const char *name)
{
    for (int i = 0; i < N_COMMANDS; i++)
        if (!strcmp(name, commands[i]->name))
            return commands[i];
    return NULL;
}

Err command_unknown(const char *name)
{
    const char *names[N_COMMANDS];
    for (int i = 0; i < N_COMMANDS; i++)
        names[i] = commands[i]->name;
    const char *near = text_nearest(name, names, N_COMMANDS);
    return near ? fail(E_USAGE, "there is no command '%s'; did you mean '%s'?", name, near)
                : fail(E_USAGE, "there is no command '%s'; plimsoll help lists them", name);
}
