/* cli.h -- what a command is: a name, a table of options, and a function that does the work.
 *
 * main.c finds the command, fills the option variables from the table and runs it. It prints the
 * sentence of a failure once and turns it into the exit code (0 done, 1 failed, 2 wrong usage, 3
 * does not fit). */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "base/err.h"
#include "base/pool.h"

#include <stdbool.h>
#include <stdio.h>

typedef enum OptionKind {
    OPT_FLAG,    /* bool *            --json */
    OPT_TEXT,    /* const char **     --device cpu */
    OPT_INT,     /* int64_t *         --effort -1 */
    OPT_NATURAL, /* int64_t *         --steps 200: 0 or more */
    OPT_COUNT,   /* int64_t *         --batch 4: 1 to 2^31 - 1 */
    OPT_NUMBER,  /* double *          --guidance 2.5 */
    OPT_SECONDS, /* double *          --time-limit 2.5: more than 0 */
    OPT_LIST,    /* TextList *        --set a=1 --set b=2, in order */
} OptionKind;

typedef struct TextList {
    const char *items[64];
    int         n;
} TextList;

typedef enum OptionGroup {                /* under one heading in --help and the man page */
                           GROUP_COMMAND, /* of the command alone; without a heading */
                           GROUP_MODEL,   /* of every command that opens a model */
                           GROUP_RANKS,
                           OPTION_GROUPS
} OptionGroup;

typedef struct Option {
    const char *name; /* without the dashes; one letter: -o */
    OptionKind  kind;
    void       *to;
    const char *argument; /* placeholder of the value in --help; NULL for flags */
    const char *help;
    OptionGroup group;
} Option;

/* The first option of a group, and the one after another of the same group; NULL: none. */
const Option *option_of_group(const Option *from, OptionGroup group);
const char   *option_group_title(OptionGroup group);

/* Options of every search; SEARCH_OPTIONS are their rows, for a SearchOptions called o. */
typedef struct SearchOptions {
    int64_t effort, seed;
    double  time_limit; /* seconds; 0: none */
} SearchOptions;

#define SEARCH_OPTIONS(o, moves)                                                                   \
    { "effort", OPT_NATURAL, &(o).effort, "N", moves },                                            \
        { "time-limit", OPT_SECONDS, &(o).time_limit, "S", "end the search after S seconds" },     \
    {                                                                                              \
        "seed", OPT_INT, &(o).seed, "N", "seed of the search"                                      \
    }

/* --budget 80%kept is a share of what everything kept needs; 80% is one of a device's memory. */
bool budget_is_of_kept(const char *text);
Err  budget_of_kept(const char *text, int64_t kept_bytes, int64_t *bytes);

/* --loader-memory SIZE: more than 0 bytes. */
#define LOADER_MEMORY "1GiB"
Err loader_memory_read(const char *text, int64_t *bytes);

enum { WHAT_IF_SECONDS = 60 }; /* time limit of --what-if, unless --time-limit is given */

typedef struct Command {
    const char   *name, *arguments, *summary;
    const Option *options; /* ends with a NULL name */
    Err (*run)(Pool *pool, int n_args, char **args);
} Command;

extern const Command cmd_compare, cmd_compress, cmd_decompress, cmd_encode, cmd_evaluate,
    cmd_explain, cmd_export, cmd_fit, cmd_help, cmd_layout, cmd_list, cmd_plan, cmd_probe,
    cmd_replay, cmd_sample, cmd_train, cmd_watch;
extern const Command *const commands[]; /* in the order of the help; NULL at the end */
const Command              *command_find(const char *name);    /* NULL if there is none */
Err                         command_unknown(const char *name); /* E_USAGE, with the nearest name */

/* Fills option variables and returns the remaining words. *help is set on --help or -h. */
Err  options_read(const Command *command, int argc, char **argv, char **args, int *n_args,
                  bool *help);
void command_help(FILE *to, const Command *command);
void commands_help(FILE *to); /* the list of commands */

/* The command that usually follows, on stderr, after a result for people. */
void next_command(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Progress as one line on a terminal (terminal_draws), erased when done >= 1; show_planning has the
 * form that the planner calls. */
void show_progress(const char *verb, double done, const char *text);
void show_planning(void *unused, double done, const char *text);

#endif
