/* log.c -- a run's log: what is written, what a resumed run removes, and a full disk. */
#include "folder.h"
#include "test.h"

#include "base/text.h"
#include "train/log.h"

#include <math.h>
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
        CHECK_OK(log_add(&log, &(LogLine){ .step = i, .loss = 1.0 / 3, .lr = 1e-3, .ms = 2 }));
    CHECK_OK(log_flush(&log));
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
    CHECK_OK(log_add(&log, &(LogLine){ 7, 0.5, 1e-3, 2, 1.25, NULL }));
    CHECK_OK(log_add(&log, &(LogLine){ 8, NAN, 0, INFINITY, 0, &seen }));
    pool_free(run);                          /* closes and flushes it */
    CHECK_OK(file_read(pool, path, &bytes, &n));
    CHECK_TEXT(bytes,
               "{\"step\": 7, \"loss\": 0.5, \"lr\": 0.001, \"grad_norm\": 2, \"ms\": 1.250}\n"
               "{\"step\": 8, \"loss\": null, \"lr\": 0, \"grad_norm\": null, \"ms\": 0.000, "
               "\"val_loss\": 0.25}\n");
}

static void going_on(void)
{
    folder_clear(pool, folder);
    add(1, 5, 0);                            /* nothing to remove: there is no file */
    CHECK_TEXT(steps(), "1 2 3 4 5");
    add(4, 6, 3);
    CHECK_TEXT(steps(), "1 2 3 4 5 6");
    add(7, 7, 6);
    CHECK_TEXT(steps(), "1 2 3 4 5 6 7");

    char  *bytes;
    size_t n;
    CHECK_OK(file_read(pool, path, &bytes, &n));
    CHECK_OK(file_write(path, bytes, n - 4));        /* killed within a line */
    add(7, 8, 7);
    CHECK_TEXT(steps(), "1 2 3 4 5 6 7 8");
    static const char torn[] =
        "{\"step\": 1, \"loss\": 2}\nsomething\n{\"step\": 2, \"loss\": 2}\n";
    CHECK_OK(file_write(path, torn, sizeof torn - 1));
    add(2, 2, 9);                            /* all after a line that is no log entry is removed */
    CHECK_TEXT(steps(), "1 2");
    add(1, 1, 0);                            /* all entries are removed */
    CHECK_TEXT(steps(), "1");
    add(1, 2, -1);
    CHECK_TEXT(steps(), "1 2");
}

/* Lines are buffered: the failure is reported when they are flushed, and every time after. */
static void full_disk(void)
{
    RunLog log;
    Err    err = OK;
    folder_clear(pool, folder);
    if (!file_exists("/dev/full") || symlink("/dev/full", path) != 0)
        return;
    Pool *run = pool_new(pool, "run");
    CHECK_OK(log_open(run, &log, folder, -1));
    for (int64_t i = 1; i < 5000 && !err; i++)
        err = log_add(&log, &(LogLine){ .step = i });
    CHECK_INT(err ? err : log_flush(&log), E_IO);
    CHECK(strstr(err_text(), "log.jsonl") && strstr(err_text(), "free some space"));
    CHECK_INT(log_flush(&log), E_IO);
    pool_free(run);
    CHECK_OK(file_remove(path));
}

int main(void)
{
    pool = pool_new(NULL, "test");
    RUN(lines);
    RUN(going_on);
    RUN(full_disk);
    folder_clear(pool, folder);
    pool_free(pool);
    return test_end();
}
