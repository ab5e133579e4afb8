/* cmd_help.c -- `help`: the commands, the options of one, and the keys of a recipe. */
#include "cli/manual.h"

#include "report/recipe_pages.h"

#include <string.h>

static struct {
    bool        markdown, man;
    const char *completion;
} opt;

static const Option options[] = {
    { "md", OPT_FLAG, &opt.markdown, NULL, "with recipe: print Markdown" },
    { "man", OPT_FLAG, &opt.man, NULL, "print a man page: plimsoll help train --man | man -l -" },
    { "completion", OPT_TEXT, &opt.completion, "SHELL",
      "print the completion script of bash, zsh or fish" },
    { 0 }
};

static Err help_recipe(Pool *pool, const char *system)
{
    const ModelDef *only = system ? model_find(system) : NULL;
    Text            text = { .pool = pool };
    if (system && !only) {
        const char **names = NEWN(pool, const char *, models_count);
        for (int i = 0; i < models_count; i++)
            names[i] = models_all[i]->name;
        const char *near = text_nearest(system, names, models_count);
        return near ? fail(E_USAGE, "there is no system '%s'; did you mean '%s'?", system, near)
                    : fail(E_USAGE, "there is no system '%s'; plimsoll help recipe lists them",
                           system);
    }
    recipe_reference(&text, only, opt.markdown);
    fputs(text.at + strspn(text.at, "\n"), stdout);
    return OK;
}

static Err help_man(Pool *pool, const char *name)
{
    Text           text = { .pool = pool };
    const Command *command = name ? command_find(name) : NULL;
    if (name && !command && strcmp(name, "recipe"))
        return command_unknown(name);
    if (name && !command)
        manual_recipe(&text);
    else
        manual_page(&text, command);
    fputs(text.at, stdout);
    return OK;
}

static Err cmd_help_run(Pool *pool, int n_args, char **args)
{
    bool recipe = n_args > 0 && !strcmp(args[0], "recipe");
    Text text = { .pool = pool };
    if (opt.completion && n_args == 0) {
        TRY(completion_write(&text, opt.completion));
        fputs(text.at, stdout);
        return OK;
    }
    if (n_args > (recipe ? 2 : 1))
        return fail(E_USAGE,
                    "help takes a command, or recipe and a system: plimsoll help recipe unet");
    if (opt.markdown && !recipe)
        return fail(E_USAGE, "--md is for plimsoll help recipe");
    if (opt.man)
        return help_man(pool, n_args ? args[0] : NULL);
    if (recipe)
        return help_recipe(pool, n_args > 1 ? args[1] : NULL);
    if (!n_args) {
        commands_help(stdout);
        return OK;
    }
    const Command *command = command_find(args[0]);
    if (!command)
        return command_unknown(args[0]);
    command_help(stdout, command);
    return OK;
}

const Command cmd_help = { "help", "[COMMAND | recipe [SYSTEM]]",
                           "show all commands, the options of one, or the keys of recipes", options,
                           cmd_help_run };
