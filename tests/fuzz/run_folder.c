/* run_folder.c -- fuzz target: the small files of a run's folder, which may come from somebody else. run.json
 * and text.json are refused, or written and read again as the same; of log.jsonl whole lines up to the
 * checkpoint stay; watch shows any recipe.yaml, plan.json and log. The first byte chooses the file. */
#include "train/log.h"
#include "train/run_file.h"
#include "watch/runs.h"

#include "base/file.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FOLDER "fuzz_run"

static void put(const char *name, const void *bytes, size_t n)
{
    char path[64];
    snprintf(path, sizeof path, FOLDER "/%s", name);
    REQUIRE(file_write(path, n ? bytes : "", n) == OK);
}

static bool same(const char *a, const char *b) { return a && b ? !strcmp(a, b) : a == b; }

static void options(Pool *pool)
{
    RunFile one, two;
    if (run_file_read(pool, FOLDER, &one)) {
        REQUIRE(*err_text());
        return;
    }
    REQUIRE(one.threads >= 0 && one.patience >= 0);
    REQUIRE(run_file_write(FOLDER, &one) == OK);
    REQUIRE(run_file_read(pool, FOLDER, &two) == OK);
    REQUIRE(same(one.device, two.device) && same(one.budget, two.budget));
    REQUIRE(same(one.cache, two.cache) && one.threads == two.threads);
    REQUIRE(same(one.text.encoder, two.text.encoder) && one.text.hash == two.text.hash);
}

static void texts(Pool *pool)
{
    TextSpace one, two;
    if (text_space_read(pool, FOLDER, &one) || !one.encoder)
        return;
    REQUIRE(text_space_write(FOLDER, &one) == OK);
    REQUIRE(text_space_read(pool, FOLDER, &two) == OK);
    REQUIRE(text_space_same(&one, &two));
}

static void log_kept(Pool *pool)
{
    RunLog log;
    char  *text;
    size_t n;
    REQUIRE(log_open(pool, &log, FOLDER, 7) == OK);
    REQUIRE(file_read(pool, FOLDER "/log.jsonl", &text, &n) == OK);
    for (size_t at = 0; at < n; at = (size_t)((char *)memchr(text + at, '\n', n - at) - text) + 1)
        REQUIRE(memchr(text + at, '\n', n - at) && !strncmp(text + at, "{\"step\": ", 9));
}

static void watched(Pool *pool)
{
    Runs    runs;
    LogPart part;
    Text    text = { .pool = pool };
    put("plan.json", "{}", 2);
    if (runs_open(pool, FOLDER, &runs))
        return;
    runs_json(&text, &runs);
    run_log(&text, &runs.list[0], 0, 1000, &part);
    REQUIRE(part.from <= part.end && part.end <= 1000);
    for (int i = 0; i < runs.n; i++) {
        close(runs.list[i].fd);
        pool_free(runs.list[i].plan_pool);
    }
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    static const char *const names[] = { "run.json", "text.json", "log.jsonl", "recipe.yaml",
                                         "plan.json" };
    enum { N_NAMES = sizeof names / sizeof *names };
    Pool *pool = pool_new(NULL, "fuzz");
    int   kind = n ? bytes[0] % N_NAMES : 0;
    REQUIRE(folder_make(FOLDER) == OK);
    put("recipe.yaml", "steps: 3\n", 9);
    put(names[kind], bytes + (n > 0), n - (n > 0));
    if (kind == 0)
        options(pool);
    else if (kind == 1)
        texts(pool);
    else {
        if (kind == 2)
            log_kept(pool);
        watched(pool);
    }
    pool_free(pool);
    for (int i = 0; i < N_NAMES; i++) {
        char path[64];
        snprintf(path, sizeof path, FOLDER "/%s", names[i]);
        remove(path);
    }
    (void)rmdir(FOLDER);
    return 0;
}
