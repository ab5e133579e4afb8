/* options.c -- reads options by their table, prints help, and shows progress. */
#include "cli/cli.h"

#include "base/terminal.h"
#include "base/text.h"
#include "device/memory.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const Option *option_find(const Command *command, const char *name, size_t n)
{
    for (const Option *o = command->options; o->name; o++)
        if (strlen(o->name) == n && !memcmp(o->name, name, n))
            return o;
    return NULL;
}

static Err option_unknown(const Command *command, const char *word)
{
    const char *names[64];
    int         n = 0;
    for (const Option *o = command->options; o->name && n < 64; o++)
        names[n++] = o->name;
    const char *near = text_nearest(word + strspn(word, "-"), names, n);
    if (near)
        return fail(E_USAGE, "%s has no option '%s'; did you mean '%s%s'?", command->name, word,
                    near[1] ? "--" : "-", near);
    return fail(E_USAGE, "%s has no option '%s'; see plimsoll %s --help", command->name, word,
                command->name);
}

static const char *dashes(const Option *o) { return o->name[1] ? "--" : "-"; }

static Err option_set(const Option *o, const char *value)
{
    char *end = NULL;
    errno = 0;
    switch (o->kind) {
    case OPT_FLAG: *(bool *)o->to = true; return OK;
    case OPT_TEXT: *(const char **)o->to = value; return OK;
    case OPT_INT:
    case OPT_NATURAL:
    case OPT_COUNT: {
        int64_t *number = o->to;
        *number = strtoll(value, &end, 10);
        if (end == value || *end || errno)
            return fail(E_USAGE, "%s%s takes a whole number, not '%s'", dashes(o), o->name, value);
        if (o->kind == OPT_NATURAL && *number < 0)
            return fail(E_USAGE, "%s%s takes 0 or more, not %s", dashes(o), o->name, value);
        if (o->kind == OPT_COUNT && *number < 1)
            return fail(E_USAGE, "%s%s takes 1 or more, not %s", dashes(o), o->name, value);
        if (o->kind == OPT_COUNT && *number > INT32_MAX)
            return fail(E_USAGE, "%s%s takes at most %d, not %s", dashes(o), o->name, INT32_MAX,
                        value);
        return OK;
    }
    case OPT_NUMBER:
    case OPT_SECONDS: {
        double *number = o->to;
        *number = strtod(value, &end);
        if (end == value || *end || errno || !isfinite(*number))
            return fail(E_USAGE, "--%s takes a number, not '%s'", o->name, value);
        if (o->kind == OPT_SECONDS && *number <= 0)
            return fail(E_USAGE, "--%s takes seconds, more than 0, not %s", o->name, value);
        return OK;
    }
    case OPT_LIST: {
        TextList *list = o->to;
        if (list->n == (int)(sizeof list->items / sizeof *list->items))
            return fail(E_USAGE, "--%s is given more than %d times", o->name, list->n);
        list->items[list->n++] = value;
        return OK;
    }
    }
    return OK;
}

Err options_read(const Command *command, int argc, char **argv, char **args, int *n_args,
                 bool *help)
{
    *n_args = 0;
    for (int i = 0; i < argc; i++) {
        char *word = argv[i];
        if (word[0] != '-' || !word[1]) { /* an argument, as is "-" alone */
            args[(*n_args)++] = word;
            continue;
        }
        if (!strcmp(word, "--")) {
            while (++i < argc)
                args[(*n_args)++] = argv[i];
            break;
        }
        if (!strcmp(word, "--help") || !strcmp(word, "-h")) {
            *help = true;
            return OK;
        }
        bool          is_long = word[1] == '-';
        const char   *name = word + (is_long ? 2 : 1);
        size_t        n = is_long ? strcspn(name, "=") : 1;
        const Option *o = option_find(command, name, n);
        if (!o || (is_long && n == 1 && o->name[1] == '\0' && name[1] != '\0' && name[1] != '='))
            return option_unknown(command, word);
        const char *value = NULL;
        if (is_long && name[n] == '=')
            value = name + n + 1;
        else if (!is_long && name[1])
            value = name + 1; /* -ofile */
        if (o->kind == OPT_FLAG && value)
            return fail(E_USAGE, "--%s takes no value", o->name);
        if (o->kind != OPT_FLAG && !value) {
            if (i + 1 >= argc)
                return fail(E_USAGE, "%s needs a value: %s", word, o->help);
            value = argv[++i];
        }
        TRY(option_set(o, value));
    }
    return OK;
}

const Option *option_of_group(const Option *from, OptionGroup group)
{
    while (from->name && from->group != group)
        from++;
    return from->name ? from : NULL;
}

const char *option_group_title(OptionGroup group)
{
    static const char *const titles[OPTION_GROUPS] = { [GROUP_COMMAND] = "",
                                                       [GROUP_MODEL] = "model, device and memory",
                                                       [GROUP_RANKS] = "several ranks" };
    return titles[group];
}

static void option_help(FILE *to, const Option *o)
{
    char left[64];
    snprintf(left, sizeof left, "%s%s%s%s", dashes(o), o->name, o->argument ? " " : "",
             o->argument ? o->argument : "");
    fprintf(to, "  %-26s %s\n", left, o->help);
}

void command_help(FILE *to, const Command *command)
{
    fprintf(to, "plimsoll %s %s\n  %s\n", command->name, command->arguments, command->summary);
    for (OptionGroup group = 0; group < OPTION_GROUPS; group++) {
        const Option *o = option_of_group(command->options, group);
        if (o && group != GROUP_COMMAND)
            fprintf(to, "\n%s\n", option_group_title(group));
        else if (o)
            fprintf(to, "\n");
        for (; o; o = option_of_group(o + 1, group))
            option_help(to, o);
    }
}

void commands_help(FILE *to)
{
    fprintf(to, "plimsoll " PLIMSOLL_VERSION
                ": explain, fit and train models within a memory budget\n\n");
    for (int i = 0; commands[i]; i++)
        fprintf(to, "  plimsoll %s %s\n      %s\n", commands[i]->name, commands[i]->arguments,
                commands[i]->summary);
    fprintf(to, "\n  plimsoll help COMMAND shows its options, plimsoll help recipe every key of a "
                "recipe.\n"
                "  Exit codes: 0 done, 1 failed, 2 wrong usage, 3 does not fit the budget.\n");
}

static const char kept_word[] = "%kept";

bool budget_is_of_kept(const char *text)
{
    size_t n = strlen(text), word = sizeof kept_word - 1;
    return n > word && !strcmp(text + n - word, kept_word);
}

Err budget_of_kept(const char *text, int64_t kept_bytes, int64_t *bytes)
{
    char share[64];
    if (strlen(text) >= sizeof share)
        return fail(E_USAGE, "'%s' is not a size", text);
    snprintf(share, sizeof share, "%.*s%%", (int)(strlen(text) - (sizeof kept_word - 1)), text);
    TRY(bytes_read(share, kept_bytes > 0 ? kept_bytes : 1, bytes)); /* of 0 bytes: 1 byte */
    return *bytes > 0 ? OK : fail(E_USAGE, "--budget must be more than 0 bytes");
}

Err loader_memory_read(const char *text, int64_t *bytes)
{
    MemoryLimits limits = memory_limits();
    TRY(bytes_read(text, limits.total, bytes));
    return *bytes > 0 ? OK : fail(E_USAGE, "--loader-memory must be more than 0 bytes");
}

void show_planning(void *unused, double done, const char *text)
{
    (void)unused;
    show_progress("planning", done, text);
}

void show_progress(const char *verb, double done, const char *text)
{
    static double highest; /* never backwards: a search may begin several times */
    highest = done > highest ? done : highest;
    if (done < 1) {
        progress_show("  %s %3.0f%%  %s", verb, 100 * highest, text);
        return;
    }
    highest = 0;
    progress_clear();
}

void next_command(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fflush(stdout); /* after the result */
    fprintf(stderr, "next: plimsoll ");
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
}
