/* runs.h -- what the files of a run say, for the page. Nothing here writes, locks or trains: a run
 * is watched while it runs, after it has ended, and after it was killed. */
#ifndef WATCH_RUNS_H
#define WATCH_RUNS_H

#include "base/text.h"

#include <stdbool.h>

enum { WATCH_RUNS = 64 }; /* runs of one folder that are shown */

typedef struct RunView {
    char       *name;
    const char *path;
    int         fd;                           /* the folder */
    Pool       *plan_pool;                    /* what was read from plan.json and recipe.yaml */
    int64_t     plan_version, recipe_version; /* of those files, to see that they changed */
    const char *model, *device, *precision;
    int64_t     steps, batch, accumulate, planned_bytes, budget_bytes;
} RunView;

typedef struct Runs {
    Pool       *pool;
    const char *root;
    bool        one; /* root is a run itself, not a folder of runs */
    RunView     list[WATCH_RUNS];
    int         n;
} Runs;

/* E_USAGE if the folder is no run and holds none. */
Err runs_open(Pool *pool, const char *root, Runs *runs);

/* Each appends JSON; the run is known. */
void runs_json(Text *to, Runs *runs);
void run_samples_json(Text *to, const RunView *run);

typedef struct LogPart {
    long long from, end, id; /* bytes; id: another one means that the file is another */
} LogPart;

/* Whole lines of the log from byte `from` on, at most `most` bytes. */
void run_log(Text *to, const RunView *run, long long from, size_t most, LogPart *part);

/* Opens samples/NAME or samples/STEP/NAME of a run, never through a link. -1: there is none. */
int         run_file_open(const RunView *run, const char *path, size_t n, int64_t *bytes);
const char *run_file_type(const char *path, size_t n); /* by its ending; NULL: it is not served */

#endif
