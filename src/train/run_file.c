/* run_file.c -- writes and reads RUN/run.json. */
#include "train/run_file.h"

#include "base/file.h"
#include "base/json_out.h"

#include <stdio.h>
#include <string.h>

#define RUN_FORMAT "plimsoll-run-1"

/* The keys of the texts, each beside its place. */
typedef struct RunKey {
    const char  *key;
    const char **to;
} RunKey;

enum { N_KEYS = 10 };

static void run_keys(RunFile *f, RunKey keys[N_KEYS])
{
    const RunKey all[N_KEYS] = { { "device", &f->device },
                                 { "backend", &f->backend },
                                 { "budget", &f->budget },
                                 { "host_budget", &f->host_budget },
                                 { "loader_memory", &f->loader_memory },
                                 { "allow", &f->allow },
                                 { "given", &f->given },
                                 { "cache", &f->cache },
                                 { "shard", &f->shard },
                                 { "bucket", &f->bucket } };
    memcpy(keys, all, sizeof all);
}

Err run_file_write(const char *run, const RunFile *file)
{
    RunFile copy = *file;
    RunKey  keys[N_KEYS];
    char    path[FILE_PATH_MAX];
    FileOut out;
    JsonOut o;
    run_keys(&copy, keys);
    snprintf(path, sizeof path, "%s/run.json", run);
    TRY(file_out_init(&out, path));
    json_out_file(&o, &out, JSON_PRETTY);
    json_out_object(&o, NULL);
    json_out_string(&o, "format", RUN_FORMAT);
    for (int i = 0; i < N_KEYS; i++)
        if (*keys[i].to)
            json_out_string(&o, keys[i].key, *keys[i].to);
    if (copy.threads)
        json_out_int(&o, "threads", copy.threads);
    if (copy.check_ranks >= 0)
        json_out_int(&o, "check_ranks", copy.check_ranks);
    if (copy.patience > 0)
        json_out_number(&o, "patience", copy.patience);
    if (copy.text.encoder) {
        json_out_object(&o, "text");
        text_space_out(&o, &copy.text);
        json_out_end(&o);
    }
    json_out_end(&o);
    return file_out_done(&out, json_out_done(&o));
}

Err run_file_read(Pool *pool, const char *run, RunFile *file)
{
    const char *path = pool_print(pool, "%s/run.json", run), *format;
    const Json *root, *text;
    RunKey      keys[N_KEYS];
    *file = (RunFile){ .check_ranks = -1 };
    run_keys(file, keys);
    if (!file_exists(path))
        return OK;
    TRY(json_read(pool, path, 0, &root));
    TRY(json_need_text(root, "format", &format));
    if (strcmp(format, RUN_FORMAT))
        return json_fail(root, json_get(root, "format"), "the format is '%s', not " RUN_FORMAT,
                         format);
    for (int i = 0; i < N_KEYS; i++) {
        TRY(json_maybe_text(root, keys[i].key, keys[i].to));
        *keys[i].to = *keys[i].to ? pool_text(pool, *keys[i].to) : NULL;
    }
    TRY(json_maybe_int(root, "threads", &file->threads));
    if (file->threads < 0 || file->threads > INT32_MAX)
        return json_fail(root, json_get(root, "threads"), "'threads' must be 1 or more");
    TRY(json_maybe_int(root, "check_ranks", &file->check_ranks));
    TRY(json_maybe_number(root, "patience", &file->patience));
    if (file->patience < 0)
        return json_fail(root, json_get(root, "patience"), "'patience' must be above 0");
    if (!json_get(root, "text"))
        return OK;
    TRY(json_need_object(root, "text", &text));
    return text_space_in(pool, text, &file->text);
}

Err run_cache(Pool *pool, const char *run, const char **cache)
{
    RunFile file;
    TRY(run_file_read(pool, run, &file));
    *cache = file.cache ? file.cache : pool_print(pool, "%s/cache", run);
    return OK;
}

Err run_text(Pool *pool, const char *run, TextSpace *text)
{
    RunFile file;
    TRY(run_file_read(pool, run, &file));
    *text = file.text;
    return OK;
}
