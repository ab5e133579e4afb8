/* main.c -- finds the command, runs it, and reports a failure once. */
#include "cli/rank_command.h"

#include "base/file.h"
#include "base/terminal.h"
#include "base/text.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static Err main_run(Pool *pool, int argc, char **argv)
{
    if (argc < 2) {
        commands_help(stderr);
        return fail(E_USAGE, "give one of the commands above");
    }
    const char *name = argv[1];
    if (!strcmp(name, "--version") || !strcmp(name, "-V") || !strcmp(name, "version")) {
        printf("plimsoll " PLIMSOLL_VERSION "\n");
        return OK;
    }
    if (!strcmp(name, "--help") || !strcmp(name, "-h"))
        name = "help";
    const Command *command = command_find(name);
    char         **args = NEWN(pool, char *, argc);
    int            n_args = 0;
    bool           help = false;
    if (!command)
        return command_unknown(name);
    Err err = options_read(command, argc - 2, argv + 2, args, &n_args, &help);
    if (err)
        return rank_command_refused(pool, command, err);
    if (!help)
        return command->run(pool, n_args, args);
    command_help(stdout, command);
    return OK;
}

/* Opens /dev/null in place of closed standard streams. Otherwise the first file that is opened
 * would get such a number, and messages would be written into a log or a checkpoint. stdout is
 * opened for reading only, so that a result that nobody can read is still a failure. */
static void main_hold_streams(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 2 ? O_WRONLY : O_RDONLY) != fd)
            return;
}

/* How often a waiting thread looks before it sleeps. libgomp's own 300,000 are milliseconds, which on
 * a busy machine the thread it waits for would need; none at all costs a wake-up at every parallel
 * loop. libgomp reads it while it is loaded, so the program starts itself again. Measured:
 * docs/user/PERFORMANCE.md, "On a shared machine". */
#define SPIN_COUNT "1000"

static void main_wait_briefly(char **argv)
{
    if (getenv("GOMP_SPINCOUNT") || getenv("OMP_WAIT_POLICY") ||
        setenv("GOMP_SPINCOUNT", SPIN_COUNT, 0))
        return;
    execv("/proc/self/exe", argv);
    unsetenv("GOMP_SPINCOUNT"); /* it could not be started again: threads then spin for long */
}

int main(int argc, char **argv)
{
    main_wait_briefly(argv);
    main_hold_streams();
    file_map_guard();
    signal(SIGXFSZ, SIG_IGN); /* a file size limit then is an error, like a full disk */
    Pool *pool = pool_new(NULL, "process");
    Err   err = main_run(pool, argc, argv);
    if (!err && (fflush(stdout) || ferror(stdout)))
        err = fail(E_IO, "the output could not be written");
    progress_end();
    if (err && *err_text()) /* of several ranks, one has the sentence */
        fprintf(stderr, "plimsoll: %s\n", err_text());
    pool_free(pool);
    return err_exit_code(err);
}
