/* manual.c -- man pages. */
#include "cli/manual.h"

#include "report/recipe_pages.h"

#include <ctype.h>
#include <string.h>

/* Text as roff shows it: no line of it is a request, and a minus is a minus. */
static void roff(Text *to, const char *text)
{
    for (const char *c = text; *c; c++) {
        if ((c == text || c[-1] == '\n') && (*c == '.' || *c == '\''))
            text_add(to, "\\&");
        if (*c == '\\')
            text_add(to, "\\e");
        else if (*c == '-')
            text_add(to, "\\-");
        else
            text_addn(to, c, 1);
    }
}

static void roff_line(Text *to, const char *before, const char *text)
{
    text_add(to, "%s", before);
    roff(to, text);
    text_add(to, "\n");
}

static void manual_head(Text *to, const char *name, int section, const char *summary)
{
    text_add(to, ".TH \"%s\" %d \"\" \"plimsoll " PLIMSOLL_VERSION "\"\n.SH NAME\n", name, section);
    roff(to, name);
    text_add(to, " \\- ");
    roff(to, summary);
    text_add(to, "\n");
}

static void manual_option(Text *to, const Option *o)
{
    text_add(to, ".TP\n\\fB");
    roff(to, o->name[1] ? "--" : "-");
    roff(to, o->name);
    text_add(to, "\\fR");
    if (o->argument)
        text_add(to, " \\fI%s\\fR", o->argument);
    text_add(to, "\n%c", toupper((unsigned char)*o->help));
    roff(to, o->help + 1);
    text_add(to, ".\n");
}

static void manual_options(Text *to, const Command *command)
{
    if (command->options->name)
        text_add(to, ".SH OPTIONS\n");
    for (OptionGroup group = 0; group < OPTION_GROUPS; group++) {
        const Option *o = option_of_group(command->options, group);
        if (o && group != GROUP_COMMAND)
            text_add(to, ".SS %s\n", option_group_title(group));
        for (; o; o = option_of_group(o + 1, group))
            manual_option(to, o);
    }
}

static void manual_end(Text *to)
{
    text_add(to,
             ".SH EXIT STATUS\n.TP\n0\nDone.\n.TP\n1\nFailed.\n.TP\n2\nWrong usage.\n.TP\n3\nDoes "
             "not fit the budget.\n.SH SEE ALSO\n");
    for (int i = 0; commands[i]; i++)
        text_add(to, "\\fBplimsoll\\-%s\\fR(1), ", commands[i]->name);
    text_add(to, "\\fBplimsoll\\-recipe\\fR(5)\n");
}

void manual_page(Text *to, const Command *command)
{
    if (command) {
        manual_head(to, pool_print(to->pool, "plimsoll-%s", command->name), 1, command->summary);
        text_add(to, ".SH SYNOPSIS\n\\fBplimsoll %s\\fR ", command->name);
        roff_line(to, "", command->arguments);
        manual_options(to, command);
        manual_end(to);
        return;
    }
    manual_head(to, "plimsoll", 1, "explain, fit and train models within a memory budget");
    text_add(to, ".SH SYNOPSIS\n\\fBplimsoll\\fR \\fICOMMAND\\fR ...\n.SH DESCRIPTION\nSays to the "
                 "byte what a training step of a neural network needs, finds the fastest plan "
                 "within a budget, and follows it exactly.\n.SH COMMANDS\n");
    for (int i = 0; commands[i]; i++) {
        text_add(to, ".TP\n\\fB%s\\fR ", commands[i]->name);
        roff_line(to, "", commands[i]->arguments);
        text_add(to, "%c", toupper((unsigned char)*commands[i]->summary));
        roff(to, commands[i]->summary + 1);
        text_add(to, ".\n");
    }
    text_add(to, ".SH OPTIONS\n.TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nShow the commands, or the "
                 "options of one.\n.TP\n\\fB\\-V\\fR, \\fB\\-\\-version\\fR\nPrint the version.\n");
    manual_end(to);
}

void manual_recipe(Text *to)
{
    Text keys = { .pool = to->pool };
    recipe_reference(&keys, NULL, false);
    manual_head(to, "plimsoll-recipe", 5, "what is trained, and how");
    text_add(to,
             ".SH DESCRIPTION\nA recipe is a YAML file. Below is every key with its default, its "
             "type and range, and its meaning; a key that is left out has its default. \\fB"
             "\\-\\-set KEY=VALUE\\fR overrides one on the command line.\n.SH KEYS\n.nf\n");
    roff(to, keys.at + strspn(keys.at, "\n"));
    text_add(to, ".fi\n.SH SEE ALSO\n\\fBplimsoll\\fR(1)\n");
}
