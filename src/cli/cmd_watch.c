/* cmd_watch.c -- `watch`: a page with a run's curves, samples, memory and time left. */
#include "cli/model_options.h"

#include "base/file.h"
#include "base/stop.h"
#include "base/text.h"
#include "watch/server.h"

static struct {
    int64_t port;
} opt;

static const Option options[] = { { "port", OPT_NATURAL, &opt.port, "N",
                                    "port of 127.0.0.1 to listen on; default: any free port" },
                                  { 0 } };

enum { MAX_PORT = 65535 };

static Err cmd_watch_run(Pool *pool, int n_args, char **args)
{
    Runs   *runs = NEW(pool, Runs);
    Server *server = NEW(pool, Server);
    if (n_args != 1)
        return fail(E_USAGE, "watch takes one run, or a folder of runs: plimsoll watch RUN");
    if (opt.port > MAX_PORT)
        return fail(E_USAGE, "--port takes 0 to %d, not %lld", MAX_PORT, (long long)opt.port);
    if (file_exists(args[0]) && !folder_exists(args[0])) {
        const char *path;
        return run_recipe(pool, args[0], &path); /* fails, and names the run */
    }
    TRY(runs_open(pool, args[0], runs));
    TRY(server_open(pool, runs, (int)opt.port, server));
    stop_on_interrupt("\n");
    printf("watching %s at http://127.0.0.1:%d/%s/\n", args[0], server->port, server->token);
    print_sentence(stdout,
                   "Open this address in a browser on this machine; ^C ends. On another "
                   "machine, run ssh -L %d:127.0.0.1:%d HOST first, then open the same address",
                   server->port, server->port);
    fflush(stdout);
    return server_run(server);
}

const Command cmd_watch = { "watch", "RUN [--port N]",
                            "show a run in the browser: curves, samples, memory, time left",
                            options, cmd_watch_run };
