/* runs.c -- finds runs, and reads their plans and recipes again when they change. */
#include "watch/runs.h"

#include "base/file.h"
#include "base/json_out.h"
#include "base/yaml.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_run(const char *path)
{
    Pool *pool = pool_new(NULL, "look");
    bool  run = file_exists(pool_print(pool, "%s/recipe.yaml", path));
    pool_free(pool);
    return run;
}

static void run_close(void *arg)
{
    RunView *run = arg;
    close(run->fd);
    pool_free(run->plan_pool);
}

static void runs_add(Runs *runs, const char *name, const char *path)
{
    RunView *run = &runs->list[runs->n];
    for (int i = 0; i < runs->n; i++)
        if (!strcmp(runs->list[i].path, path))
            return;
    if (runs->n == WATCH_RUNS)
        return;
    *run = (RunView){ .fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) };
    if (run->fd < 0)
        return;
    run->name = pool_text(runs->pool, name);
    run->path = pool_text(runs->pool, path);
    run->plan_pool = pool_new(NULL, "plan");
    pool_at_free(runs->pool, run_close, run);
    runs->n++;
}

/* Runs that began since are added. */
static void runs_scan(Runs *runs)
{
    Pool  *pool = pool_new(NULL, "scan");
    char **names;
    int    n = 0;
    if (!runs->one && !folder_list(pool, runs->root, &names, &n))
        for (int i = 0; i < n; i++) {
            const char *path = pool_print(pool, "%s/%s", runs->root, names[i]);
            if (folder_exists(path) && is_run(path))
                runs_add(runs, names[i], path);
        }
    pool_free(pool);
}

Err runs_open(Pool *pool, const char *root, Runs *runs)
{
    *runs = (Runs){ .pool = pool, .root = pool_text(pool, root), .one = is_run(root) };
    if (!folder_exists(root))
        return fail(E_USAGE, "there is no folder %s; plimsoll train MODEL --out %s makes a run",
                    root, text_word(pool, root));
    if (runs->one) {
        const char *end = root + strlen(root);
        while (end > root + 1 && end[-1] == '/')
            end--;
        const char *name = end;
        while (name > root && name[-1] != '/')
            name--;
        runs_add(runs, pool_textn(pool, name, (size_t)(end - name)), root);
    }
    runs_scan(runs);
    return runs->n ? OK
                   : fail(E_USAGE,
                          "%s is not a run and holds none: it has no recipe.yaml (plimsoll train "
                          "MODEL --out RUN makes one)",
                          root);
}

/* ---- plan.json and recipe.yaml ---- */

static int64_t file_version(const RunView *run, const char *name)
{
    struct stat s;
    if (fstatat(run->fd, name, &s, AT_SYMLINK_NOFOLLOW) || !S_ISREG(s.st_mode))
        return 0;
    uint64_t version = (uint64_t)s.st_mtim.tv_sec * 1000000007 + (uint64_t)s.st_mtim.tv_nsec +
                       (uint64_t)s.st_ino * 31 + (uint64_t)s.st_size;
    return (int64_t)(version >> 1);
}

static const char *text_of(Pool *pool, const Json *object, const char *key)
{
    const Json *value = json_get(object, key);
    return value && value->kind == JSON_TEXT ? pool_text(pool, value->text) : NULL;
}

static int64_t int_of(const Json *object, const char *key, int64_t otherwise)
{
    const Json *value = json_get(object, key);
    return value && value->kind == JSON_INT ? value->integer : otherwise;
}

/* What cannot be read is left out: the page says what it knows. */
static void run_look(RunView *run)
{
    int64_t     plan = file_version(run, "plan.json"), recipe = file_version(run, "recipe.yaml");
    const Json *root;
    if (plan == run->plan_version && recipe == run->recipe_version)
        return;
    Pool *kept = pool_new(NULL, "plan"), *work = pool_new(NULL, "read");
    run->model = run->device = run->precision = NULL;
    run->steps = run->batch = run->accumulate = run->planned_bytes = run->budget_bytes = 0;
    if (plan && !json_read(work, pool_print(work, "%s/plan.json", run->path), 0, &root)) {
        const Json *levers = json_get(root, "levers");
        run->model = text_of(kept, root, "model");
        run->device = text_of(kept, json_get(root, "device"), "name");
        run->precision = text_of(kept, levers, "precision");
        run->batch = int_of(levers, "batch", 0);
        run->accumulate = int_of(levers, "accumulate", 0);
        run->planned_bytes = int_of(root, "arena_bytes", 0);
        run->budget_bytes = int_of(root, "budget_bytes", 0);
    }
    if (recipe && !yaml_read(work, pool_print(work, "%s/recipe.yaml", run->path), &root))
        run->steps = int_of(root, "steps", 0);
    pool_free(work);
    pool_free(run->plan_pool);
    run->plan_pool = kept;
    run->plan_version = plan;
    run->recipe_version = recipe;
}

/* Does a process hold the run's folder, as train does? Asked without taking the lock, which would
 * turn a train away that starts at this moment. */
static bool run_is_held(const RunView *run)
{
    struct stat        s;
    char               line[256], kind[16];
    unsigned long long inode;
    bool               held = false;
    FILE              *locks = fopen("/proc/locks", "re");
    if (!locks)
        return false;
    if (!fstat(run->fd, &s))
        while (!held && fgets(line, sizeof line, locks))
            held = sscanf(line, "%*s %15s %*s %*s %*s %*x:%*x:%llu", kind, &inode) == 2 &&
                   !strcmp(kind, "FLOCK") && inode == (unsigned long long)s.st_ino;
    fclose(locks);
    return held;
}

void runs_json(Text *to, Runs *runs)
{
    JsonOut o;
    runs_scan(runs);
    json_out_text(&o, to, JSON_COMPACT);
    json_out_object(&o, NULL);
    json_out_string(&o, "version", PLIMSOLL_VERSION);
    json_out_string(&o, "folder", runs->root);
    json_out_array(&o, "runs");
    for (int i = 0; i < runs->n; i++) {
        RunView *run = &runs->list[i];
        run_look(run);
        json_out_object(&o, NULL);
        json_out_string(&o, "name", run->name);
        json_out_string(&o, "path", run->path);
        json_out_bool(&o, "running", run_is_held(run));
        json_out_string(&o, "model", run->model);
        json_out_string(&o, "device", run->device);
        json_out_string(&o, "precision", run->precision);
        json_out_int(&o, "steps", run->steps);
        json_out_int(&o, "batch", run->batch);
        json_out_int(&o, "accumulate", run->accumulate);
        json_out_int(&o, "planned_bytes", run->planned_bytes);
        json_out_int(&o, "budget_bytes", run->budget_bytes);
        json_out_end(&o);
    }
    json_out_end(&o);
    json_out_end(&o);
    json_out_done(&o);
}

/* ---- the log ---- */

void run_log(Text *to, const RunView *run, long long from, size_t most, LogPart *part)
{
    struct stat s;
    int         fd = openat(run->fd, "log.jsonl", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    *part = (LogPart){ 0 };
    text_addn(to, "", 0);
    if (fd < 0 || fstat(fd, &s) || !S_ISREG(s.st_mode)) {
        if (fd >= 0)
            close(fd);
        return;
    }
    part->id = (long long)s.st_ino;
    part->from = part->end = from <= (long long)s.st_size ? from : 0;
    size_t  n = (size_t)(s.st_size - part->from);
    char   *bytes = pool_alloc(to->pool, (n < most ? n : most) + 1, 1);
    ssize_t got = pread(fd, bytes, n < most ? n : most, (off_t)part->from);
    close(fd);
    while (got > 0 && bytes[got - 1] != '\n') /* a line that is not whole yet */
        got--;
    if (got > 0)
        text_addn(to, bytes, (size_t)got);
    part->end += got > 0 ? got : 0;
}

/* ---- samples ---- */

enum { SAMPLE_FOLDERS = 200 }; /* the newest are listed */

static const struct {
    const char *ending, *type;
} file_types[] = { { ".png", "image/png" },   { ".gif", "image/gif" },   { ".wav", "audio/wav" },
                   { ".webp", "image/webp" }, { ".webm", "video/webm" }, { ".mp4", "video/mp4" } };

const char *run_file_type(const char *path, size_t n)
{
    for (size_t i = 0; i < sizeof file_types / sizeof *file_types; i++) {
        size_t length = strlen(file_types[i].ending);
        if (n > length && !memcmp(path + n - length, file_types[i].ending, length))
            return file_types[i].type;
    }
    return NULL;
}

/* Letters, digits and -_. without a dot in front. */
static bool plain_name(const char *name, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!((name[i] >= 'a' && name[i] <= 'z') || (name[i] >= 'A' && name[i] <= 'Z') ||
              (name[i] >= '0' && name[i] <= '9') || name[i] == '-' || name[i] == '_' ||
              (name[i] == '.' && i)))
            return false;
    return n > 0 && n < 200;
}

static int open_below(int at, const char *name, size_t n, bool folder)
{
    char text[200];
    if (!plain_name(name, n))
        return -1;
    memcpy(text, name, n);
    text[n] = '\0';
    return openat(at, text,
                  O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | (folder ? O_DIRECTORY : 0));
}

int run_file_open(const RunView *run, const char *path, size_t n, int64_t *bytes)
{
    static const char begin[] = "samples/";
    size_t            n_begin = sizeof begin - 1;
    struct stat       s;
    if (n <= n_begin || memcmp(path, begin, n_begin))
        return -1;
    const char *name = path + n_begin, *end = path + n, *slash = memchr(name, '/', n - n_begin);
    int         folder = open_below(run->fd, "samples", n_begin - 1, true), fd = -1;
    if (folder >= 0 && slash) {
        int inner = open_below(folder, name, (size_t)(slash - name), true);
        close(folder);
        folder = inner;
        name = slash + 1;
    }
    if (folder >= 0) {
        fd = open_below(folder, name, (size_t)(end - name), false);
        close(folder);
    }
    if (fd >= 0 && (fstat(fd, &s) || !S_ISREG(s.st_mode))) {
        close(fd);
        fd = -1;
    }
    *bytes = fd >= 0 ? (int64_t)s.st_size : 0;
    return fd;
}

static void samples_of(JsonOut *o, Pool *pool, const char *path, const char *name)
{
    char **files;
    int    n = 0;
    if (folder_list(pool, path, &files, &n))
        return;
    json_out_object(o, NULL);
    json_out_string(o, "folder", name);
    json_out_row(o, "files");
    for (int i = 0; i < n; i++)
        if (plain_name(files[i], strlen(files[i])) && run_file_type(files[i], strlen(files[i])))
            json_out_string(o, NULL, files[i]);
    json_out_end(o);
    json_out_end(o);
}

void run_samples_json(Text *to, const RunView *run)
{
    JsonOut     o;
    Pool       *pool = pool_new(NULL, "samples");
    const char *root = pool_print(pool, "%s/samples", run->path);
    char      **names;
    int         n = 0, first = 0, folders = 0;
    json_out_text(&o, to, JSON_COMPACT);
    json_out_array(&o, NULL);
    if (folder_exists(root) && !folder_list(pool, root, &names, &n)) {
        for (int i = 0; i < n; i++)
            folders += folder_exists(pool_print(pool, "%s/%s", root, names[i]));
        first = folders > SAMPLE_FOLDERS ? folders - SAMPLE_FOLDERS : 0;
        for (int i = 0; i < n; i++) {
            const char *path = pool_print(pool, "%s/%s", root, names[i]);
            if (folder_exists(path) && plain_name(names[i], strlen(names[i])) && first-- <= 0)
                samples_of(&o, pool, path, names[i]);
        }
        samples_of(&o, pool, root, "");
    }
    json_out_end(&o);
    json_out_done(&o);
    pool_free(pool);
}
