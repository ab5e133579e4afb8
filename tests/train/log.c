/* log.c -- a run's log: what is written, what a resumed run removes, and a full disk. */
#include "folder.h"
#include "test.h"

#include "base/text.h"
#include "train/log.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static Pool      *pool;
static const char folder[] = "log_test", path[] = "log_test/log.jsonl";

/* Opens the log, keeping entries up to `step`, and adds steps from..to. */
static void add(int64_t from, int64_t to, int64_t step)
{
    Pool  *run = pool_new(pool, "run");
    RunLog log;
    CHECK_OK(log_open(run, &log, folder, step));
    for (int64_t i = from; i <= to; i++)
        log_add(&log, &(LogLine){ .step = i, .loss = 1.0 / 3, .lr = 1e-3, .ms = 2 });
    CHECK_OK(log_flush(&log, false));
    pool_free(run);
}

/* "1 2 3": the steps in the log, one per line; '?' for any other line. */
static const char *steps(void)
{
    Text   text = { .pool = pool };
    char  *bytes;
    size_t n;
    CHECK_OK(file_read(pool, path, &bytes, &n));
    for (char *line = bytes, *end; *line; line = end + 1) {
        long long step;
        end = strchr(line, '\n');
        if (!end || sscanf(line, "{\"step\": %lld, \"loss\"", &step) != 1) {
            text_add(&text, "?");
            break;
        }
        text_add(&text, "%s%lld", text.n ? " " : "", step);
    }
    return text.n ? text.at : "";
}

static void lines(void)
{
    char  *bytes;
    size_t n;
    double seen = 0.25;
    RunLog log;
    folder_clear(pool, folder);
    CHECK_OK(folder_make(folder));
    Pool *run = pool_new(pool, "run");
    CHECK_OK(log_open(run, &log, folder, -1));
    log_add(&log, &(LogLine){ 7, 0.5, 1e-3, 2, 1.25, NULL, 4096 });
    log_add(&log, &(LogLine){ 8, NAN, 0, INFINITY, 0, &seen, 0 });
    pool_free(run); /* closes and flushes it */
    CHECK_OK(file_read(pool, path, &bytes, &n));
    double       times[2] = { 0 };
    const double now = (double)time(NULL);
    for (int i = 0; i < 2; i++) { /* the lines without their times */
        char *at = strstr(bytes, ", \"time\": ");
        CHECK(at != NULL);
        if (at)
            times[i] = strtod(at + 10, &at),
            memmove(strstr(bytes, ", \"time\": "), at, strlen(at) + 1);
    }
    CHECK_TEXT(bytes,
               "{\"step\": 7, \"loss\": 0.5, \"lr\": 0.001, \"grad_norm\": 2, \"ms\": 1.250, "
               "\"memory_bytes\": 4096}\n"
               "{\"step\": 8, \"loss\": null, \"lr\": 0, \"grad_norm\": null, \"ms\": 0.000, "
               "\"val_loss\": 0.25}\n");
    CHECK(times[0] > now - 60 && times[0] <= times[1] && times[1] < now + 2);
}

static void going_on(void)
{
    folder_clear(pool, folder);
    add(1, 5, 0); /* nothing to remove: there is no file */
    CHECK_TEXT(steps(), "1 2 3 4 5");
    add(4, 6, 3);
    CHECK_TEXT(steps(), "1 2 3 4 5 6");
    add(7, 7, 6);
    CHECK_TEXT(steps(), "1 2 3 4 5 6 7");

    char  *bytes;
    size_t n;
    CHECK_OK(file_read(pool, path, &bytes, &n));
    CHECK_OK(file_write(path, bytes, n - 4)); /* killed within a line */
    add(7, 8, 7);
    CHECK_TEXT(steps(), "1 2 3 4 5 6 7 8");
    static const char torn[] =
        "{\"step\": 1, \"loss\": 2}\nsomething\n{\"step\": 2, \"loss\": 2}\n";
    CHECK_OK(file_write(path, torn, sizeof torn - 1));
    add(2, 2, 9); /* all after a line that is no log entry is removed */
    CHECK_TEXT(steps(), "1 2");
    add(1, 1, 0); /* all entries are removed */
    CHECK_TEXT(steps(), "1");
    add(1, 2, -1);
    CHECK_TEXT(steps(), "1 2");
}

/* On a full disk, here a limit on the size of files, entries wait; once there is room again, none is
 * missing. */
static void full_disk(void)
{
    RunLog        log;
    struct rlimit before, little = { 4096, RLIM_INFINITY };
    folder_clear(pool, folder);
    CHECK_OK(folder_make(folder));
    Pool *run = pool_new(pool, "run");
    CHECK_OK(log_open(run, &log, folder, -1));
    signal(SIGXFSZ, SIG_IGN);
    CHECK_INT(getrlimit(RLIMIT_FSIZE, &before), 0);
    little.rlim_max = before.rlim_max;
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &little), 0);
    for (int64_t i = 1; i <= 1000; i++)
        log_add(&log, &(LogLine){ .step = i });
    CHECK_INT(log_flush(&log, true), E_IO);
    CHECK(strstr(err_text(), "log.jsonl") && strstr(err_text(), "file size limit"));
    CHECK_INT(log_flush(&log, true), E_IO);
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &before), 0);
    CHECK_OK(log_flush(&log, true));
    pool_free(run);
    const char *all = steps();
    CHECK(!strchr(all, '?') && strlen(all) > 4 && !strcmp(all + strlen(all) - 8, "999 1000"));
    CHECK_INT(log.lost, 0);
}

/* More than fits in memory: the newest are left out, and that is said once. */
static void full_for_long(void)
{
    RunLog        log;
    struct rlimit before, none;
    folder_clear(pool, folder);
    CHECK_OK(folder_make(folder));
    Pool *run = pool_new(pool, "run");
    CHECK_OK(log_open(run, &log, folder, -1));
    CHECK_INT(getrlimit(RLIMIT_FSIZE, &before), 0);
    none = (struct rlimit){ 0, before.rlim_max };
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &none), 0);
    for (int64_t i = 1; i <= 10000; i++)
        log_add(&log, &(LogLine){ .step = i });
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &before), 0);
    CHECK(log.lost > 1000);
    CHECK_INT(log_flush(&log, true), E_IO);
    CHECK(strstr(err_text(), "lacks") != NULL);
    CHECK_OK(log_flush(&log, true));
    log_add(&log, &(LogLine){ .step = 10001 });
    pool_free(run);
    const char *all = steps();
    CHECK(!strchr(all, '?') && !strcmp(all + strlen(all) - 6, " 10001"));
}

/* A link in a folder from elsewhere could name any file of the user. */
static void links(void)
{
    RunLog log;
    char  *bytes;
    size_t n;
    folder_clear(pool, folder);
    CHECK_OK(folder_make(folder));
    CHECK_OK(file_write("log_test_mine", "mine", 4));
    CHECK_INT(symlink("../log_test_mine", path), 0);
    CHECK_INT(log_open(pool, &log, folder, -1), E_IO);
    CHECK(strstr(err_text(), "log.jsonl: it is a link") != NULL);
    Pool *run = pool_new(pool, "run");
    CHECK_OK(folder_lock(run, folder));
    CHECK_INT(log_open(pool, &log, folder, 3), E_IO);
    CHECK(strstr(err_text(), "is a link") != NULL);
    pool_free(run);
    CHECK_OK(file_read(pool, "log_test_mine", &bytes, &n));
    CHECK_TEXT(bytes, "mine");
    CHECK_OK(file_remove("log_test_mine"));
}

int main(void)
{
    pool = pool_new(NULL, "test");
    RUN(lines);
    RUN(going_on);
    RUN(full_disk);
    RUN(full_for_long);
    RUN(links);
    folder_clear(pool, folder);
    pool_free(pool);
    return test_end();
}
