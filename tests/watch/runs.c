/* Tests of watch/runs: which folders are runs, whole lines of a log that grows, and which files of a
 * run may be opened. */
#include "folder.h"
#include "test.h"

#include "watch/runs.h"

#include <fcntl.h>
#include <unistd.h>

static const char root[] = "watch_runs";

static void write_text(Pool *pool, const char *path, const char *text)
{
    FileOut out;
    CHECK_OK(file_out_init(&out, pool_print(pool, "%s/%s", root, path)));
    file_out_add(&out, text, strlen(text));
    CHECK_OK(file_out_done(&out, OK));
}

static void folders_make(Pool *pool)
{
    static const char *const names[] = { "",   "/a",         "/a/samples", "/a/samples/000100",
                                         "/b", "/b/samples", "/no_run" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        CHECK_OK(folder_make(pool_print(pool, "%s%s", root, names[i])));
    folder_clear(pool, root);
    write_text(pool, "a/recipe.yaml", "system: unet\nsteps: 400\n");
    write_text(pool, "b/recipe.yaml", "system: unet\n");
    write_text(pool, "no_run/notes.txt", "nothing\n");
}

static void found(void)
{
    Pool *pool = pool_new(NULL, "runs");
    Runs  many, one;
    Text  json = { .pool = pool };
    folders_make(pool);
    CHECK_OK(runs_open(pool, root, &many));
    CHECK_INT(many.n, 2);
    CHECK(!many.one);
    CHECK_OK(runs_open(pool, pool_print(pool, "%s/a/", root), &one));
    CHECK(one.one);
    CHECK_TEXT(one.list[0].name, "a");
    runs_json(&json, &one);
    CHECK(strstr(json.at, "\"steps\":400") || strstr(json.at, "\"steps\": 400"));
    CHECK(strstr(json.at, "\"running\":false") || strstr(json.at, "\"running\": false"));
    CHECK_INT(runs_open(pool, pool_print(pool, "%s/no_run", root), &one), E_USAGE);
    CHECK_INT(runs_open(pool, pool_print(pool, "%s/none", root), &one), E_USAGE);
    pool_free(pool);
}

static const char *log_from(Pool *pool, const Runs *runs, long long from, size_t most,
                            LogPart *part)
{
    Text text = { .pool = pool };
    run_log(&text, &runs->list[0], from, most, part);
    return text.at;
}

static void whole_lines(void)
{
    Pool   *pool = pool_new(NULL, "runs");
    Runs    runs;
    LogPart part;
    folders_make(pool);
    CHECK_OK(runs_open(pool, pool_print(pool, "%s/a", root), &runs));
    CHECK_TEXT(log_from(pool, &runs, 0, 100, &part), ""); /* no log yet */
    CHECK_INT(part.id, 0);
    write_text(pool, "a/log.jsonl", "{\"step\": 1}\n{\"step\": 2}\n{\"st");
    CHECK_TEXT(log_from(pool, &runs, 0, 100, &part), "{\"step\": 1}\n{\"step\": 2}\n");
    CHECK_INT(part.end, 24);
    CHECK_TEXT(log_from(pool, &runs, 24, 100, &part), ""); /* its line is not whole */
    CHECK_INT(part.end, 24);
    CHECK_TEXT(log_from(pool, &runs, 0, 20, &part), "{\"step\": 1}\n");
    CHECK_INT(part.end, 12);
    CHECK_TEXT(log_from(pool, &runs, 12, 100, &part), "{\"step\": 2}\n");
    CHECK_TEXT(log_from(pool, &runs, 1000, 100, &part), "{\"step\": 1}\n{\"step\": 2}\n");
    CHECK_INT(part.from, 0); /* the log is shorter than what was asked for: from its beginning */
    pool_free(pool);
}

static int opened(const Runs *runs, const char *path, int64_t *bytes)
{
    int fd = run_file_open(&runs->list[0], path, strlen(path), bytes);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* Only files of samples/ and of its folders, and never through a link. */
static void files(void)
{
    static const char *const refused[] = {
        "recipe.yaml",
        "samples",
        "samples/",
        "samples/000100",
        "samples/../recipe.yaml",
        "samples/000100/../../recipe.yaml",
        "samples//a.png",
        "/samples/a.png",
        "samples/000100/x/a.png",
        "samples/.hidden.png",
        "samples/link.png",
        "samples/linked/a.png",
        "samples/a.png/",
        "samples/none.png",
    };
    Pool   *pool = pool_new(NULL, "runs");
    Runs    runs;
    int64_t bytes = 0;
    folders_make(pool);
    write_text(pool, "a/samples/a.png", "12345");
    write_text(pool, "a/samples/000100/a.png", "123");
    write_text(pool, "a/samples/.hidden.png", "1");
    unlink(pool_print(pool, "%s/a/samples/link.png", root));
    unlink(pool_print(pool, "%s/a/samples/linked", root));
    CHECK_INT(symlink("a.png", pool_print(pool, "%s/a/samples/link.png", root)), 0);
    CHECK_INT(symlink("000100", pool_print(pool, "%s/a/samples/linked", root)), 0);
    CHECK_OK(runs_open(pool, pool_print(pool, "%s/a", root), &runs));
    CHECK(opened(&runs, "samples/a.png", &bytes));
    CHECK_INT(bytes, 5);
    CHECK(opened(&runs, "samples/000100/a.png", &bytes));
    CHECK_INT(bytes, 3);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (!CHECK(!opened(&runs, refused[i], &bytes)))
            fprintf(stderr, "  %s was opened\n", refused[i]);
    CHECK_TEXT(run_file_type("samples/a.png", 13), "image/png");
    CHECK(!run_file_type("samples/a.html", 14));
    CHECK(!run_file_type(".png", 4)); /* no name before it */
    unlink(pool_print(pool, "%s/a/samples/link.png", root));
    unlink(pool_print(pool, "%s/a/samples/linked", root));
    pool_free(pool);
}

int main(void)
{
    RUN(found);
    RUN(whole_lines);
    RUN(files);
    return test_end();
}
