/* main.c -- finds the command, runs it, says what went wrong, once. */
#include "cli/cli.h"

#include "base/text.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>

static const Command *const commands[] = {
    &cmd_explain, &cmd_fit,   &cmd_compare, &cmd_train,
    &cmd_sample,  &cmd_probe, &cmd_plan,    &cmd_layout,
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void main_help(FILE *to)
{
    fprintf(to, "plimsoll " PLIMSOLL_VERSION ": know, fit and train within a memory budget\n\n");
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(to, "  plimsoll %s %s\n      %s\n", commands[i]->name, commands[i]->arguments,
                commands[i]->summary);
    fprintf(to, "\n  plimsoll COMMAND --help shows its options. Exit codes: 0 done, 1 failed, 2 "
                "wrong usage,\n"
                "  3 does not fit the budget.\n");
}

static Err main_run(Pool *pool, int argc, char **argv)
{
    const char *names[N_COMMANDS];
    for (int i = 0; i < N_COMMANDS; i++)
        names[i] = commands[i]->name;
    if (argc < 2) {
        main_help(stderr);
        return fail(E_USAGE, "say what to do: one of the commands above");
    }
    if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "version")) {
        printf("plimsoll " PLIMSOLL_VERSION "\n");
        return OK;
    }
    bool wants_help = !strcmp(argv[1], "help") || !strcmp(argv[1], "--help") ||
                      !strcmp(argv[1], "-h");
    if (wants_help && argc < 3) {
        main_help(stdout);
        return OK;
    }
    const char *word = argv[wants_help ? 2 : 1];
    for (int i = 0; i < N_COMMANDS; i++) {
        if (strcmp(word, names[i]))
            continue;
        char **args = NEWN(pool, char *, argc);
        int    n_args = 0;
        bool   help = wants_help;
        if (!help)
            TRY(options_read(commands[i], argc - 2, argv + 2, args, &n_args, &help));
        if (help) {
            command_help(stdout, commands[i]);
            return OK;
        }
        return commands[i]->run(pool, n_args, args);
    }
    const char *near = text_nearest(word, names, N_COMMANDS);
    return near ? fail(E_USAGE, "there is no command '%s'; did you mean '%s'?", word, near)
                : fail(E_USAGE, "there is no command '%s'; plimsoll help lists them", word);
}

/* What is closed would be the number of the first file that is opened, and what is said to people
 * would go into it: a log, a checkpoint. Results that nobody can read still fail. */
static void main_hold_streams(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 2 ? O_WRONLY : O_RDONLY) != fd)
            return;
}

int main(int argc, char **argv)
{
    main_hold_streams();
    signal(SIGXFSZ, SIG_IGN);  /* a file size limit is then an error like a full disk */
    Pool *pool = pool_new(NULL, "process");
    Err   err = main_run(pool, argc, argv);
    if (!err && (fflush(stdout) || ferror(stdout)))
        err = fail(E_IO, "the output could not be written");
    if (err)
        fprintf(stderr, "plimsoll: %s\n", err_text());
    pool_free(pool);
    return err_exit_code(err);
}
