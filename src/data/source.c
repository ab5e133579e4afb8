/* source.c -- the order of samples, and helpers for all sources.
 *
 * The order is a four-round Feistel network over the next even number of bits, applied until the
 * result lies in [0, n) (cycle walking): a bijection of [0, n) for every key. */
#include "data/source.h"

#include "base/file.h"
#include "base/text.h"
#include "data/pattern.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

int64_t shuffled(int64_t count, uint64_t seed, uint64_t epoch, int64_t place)
{
    uint64_t n = (uint64_t)count, at = (uint64_t)place;
    int      half = 1;
    while ((uint64_t)1 << (2 * half) < n)
        half++;
    uint64_t mask = ((uint64_t)1 << half) - 1;
    do {
        uint64_t left = at >> half, right = at & mask;
        for (uint32_t round = 0; round < 4; round++) {
            uint32_t  word[4];
            RandomKey key = { .seed = seed,
                              .stream = 0x5eed0000u + round,
                              .step = (uint32_t)epoch };
            random_block(key, right, word);
            uint64_t next = left ^ (word[0] & mask);
            left = right;
            right = next;
        }
        at = left << half | right;
    } while (at >= n);
    return (int64_t)at;
}

int64_t source_order(const DataSource *source, uint64_t seed, int64_t drawn)
{
    int64_t n = source->n_samples;
    return shuffled(n, seed, (uint64_t)(drawn / n), drawn % n);
}

int spec_find(const DataSpec *spec, const char *feed)
{
    for (int i = 0; i < spec->n_feeds; i++)
        if (!strcmp(spec->feeds[i].name, feed))
            return i;
    return -1;
}

Err spec_need(const DataSpec *spec, const char *kind, const char *feed, Type type, int rank,
              int *index)
{
    *index = spec_find(spec, feed);
    if (*index < 0)
        return rank ? fail(E_USAGE,
                           "data kind '%s' provides '%s', which is not an input of the model; "
                           "choose another data.kind",
                           kind, feed)
                    : OK;
    const DataFeed *f = &spec->feeds[*index];
    if (f->type != type || (rank && f->shape.rank != rank))
        return fail(E_USAGE,
                    "data kind '%s' provides '%s' as %s of %d axes a sample; the model needs %s %s",
                    kind, feed, type_name(type), rank, type_name(f->type), shape_text(f->shape));
    return OK;
}

void *work_take(Work *work, size_t n)
{
    size_t start = work_start(work);
    REQUIRE(start <= work->n && n <= work->n - start);
    work->used = start + n;
    return work->at + start;
}

Err work_left(const Work *work, const char *path, size_t n)
{
    size_t start = work_start(work);
    if (start > work->n || n > work->n - start)
        return fail(E_IO,
                    "%s has changed since the run began: it needs %zu bytes of memory more, "
                    "and %zu are left; restart the run",
                    path, n, start > work->n ? 0 : work->n - start);
    return OK;
}

Err source_fits(const DataSpec *spec, const DataSource *source)
{
    if (!spec->memory || source->work_bytes <= (size_t)spec->memory)
        return OK;
    return fail(
        E_BUDGET,
        "loading %s%s takes %s of memory, and %s of --loader-memory are left; allow more, or "
        "make the %s smaller",
        source->largest ? "" : "a sample of ", source->largest ? source->largest : spec->path,
        bytes_text((int64_t)source->work_bytes), bytes_text(spec->memory),
        source->largest ? "file" : "samples");
}

Err work_file(Work *work, const char *path, const unsigned char **bytes, size_t *n)
{
    int    fd;
    size_t size, start = work_start(work);
    TRY(file_open_plain(path, &fd, &size));
    if (start > work->n || size > work->n - start) {
        close(fd);
        return fail(E_IO, "%s has grown to %zu bytes since the run began; restart the run", path,
                    size);
    }
    char *to = work_take(work, size);
    Err   err = file_read_at(fd, path, 0, to, size);
    close(fd);
    *bytes = (const unsigned char *)to;
    *n = size;
    return err;
}

bool name_ends(const char *name, const char *ending)
{
    size_t n = strlen(name), m = strlen(ending);
    return n > m && !strcasecmp(name + n - m, ending);
}

Err folder_needed(const char *path)
{
    return folder_exists(path) ? OK
           : file_exists(path) ? fail(E_IO, "%s is a file; name its folder instead", path)
                               : fail(E_IO, "there is no folder %s", path);
}

Err folder_deeper(int *depth, const char *path)
{
    if (--*depth >= 0)
        return OK;
    return fail(E_FORMAT,
                "%s is nested more than %d folders deep; name a folder further down, or "
                "remove links that form a cycle",
                path, FOLDERS_DEEP);
}

bool file_picked(FilePick pick, const char *path)
{
    size_t n = pick.root ? strlen(pick.root) : 0;
    if (!pick.pattern)
        return true;
    if (n && !strncmp(path, pick.root, n))
        for (path += n; *path == '/'; path++) {
        }
    return pattern_matches(pick.pattern, path);
}

static bool is_run(const char *folder)
{
    char path[FILE_PATH_MAX];
    int  n = snprintf(path, sizeof path, "%s/recipe.yaml", folder);
    return n < (int)sizeof path && file_exists(path);
}

/* The folder of a run that is being started has nothing in it yet. */
static bool is_new(Pool *pool, const char *folder)
{
    char **names;
    int    n;
    return folder_exists(folder) && !folder_list(pool, folder, &names, &n) && !n;
}

bool folder_of_runs(const char *path)
{
    const char *slash = strrchr(path, '/');
    char      **names;
    int         n;
    bool        some = is_run(path);
    if (some || strcmp(slash ? slash + 1 : path, "runs") != 0)
        return some;
    Pool *pool = pool_new(NULL, "runs");
    if (!folder_list(pool, path, &names, &n))
        for (int i = 0; i < n && !some; i++) {
            const char *run = pool_print(pool, "%s/%s", path, names[i]);
            some = is_run(run) || is_new(pool, run);
        }
    pool_free(pool);
    return some;
}

/* Adds the files with one of these endings; the last ending is NULL. */
static Err files_walk(Pool *pool, const char *folder, FilePick pick, const char *const *endings,
                      int depth, PathList *list)
{
    char **names;
    int    n;
    TRY(folder_list(pool, folder, &names, &n));
    for (int i = 0; i < n; i++) {
        const char *path = pool_print(pool, "%s/%s", folder, names[i]);
        int         deeper = depth;
        if (folder_within(folder, path)) {
            if (folder_of_runs(path))
                continue;
            TRY(folder_deeper(&deeper, path));
            TRY(files_walk(pool, path, pick, endings, deeper, list));
            continue;
        }
        for (int k = 0; endings[k] && file_picked(pick, path); k++)
            if (name_ends(names[i], endings[k]) && !folder_exists(path))
                VEC_ADD(pool, list->paths, list->n, list->cap, path);
    }
    return OK;
}

Err files_list(Pool *pool, const char *path, FilePick pick, const char *const *endings,
               const char *what, PathList *list)
{
    *list = (PathList){ 0 };
    if (!file_exists(path))
        return fail(E_IO, "there is no folder or file %s", path);
    if (!folder_exists(path)) {
        VEC_ADD(pool, list->paths, list->n, list->cap, pool_text(pool, path));
        return OK;
    }
    TRY(files_walk(pool, path, pick, endings, FOLDERS_DEEP, list));
    return list->n ? OK : files_none(pool, path, pick, what);
}

static bool is_among(const char *name, const char *const *endings)
{
    for (; endings && *endings; endings++)
        if (name_ends(name, *endings))
            return true;
    return false;
}

const char *files_unread(Pool *pool, const char *path, const char *const *read)
{
    static const char *const endings[] = { ".webp", ".avif", ".heic", ".jxl", ".jp2", ".bmp",
                                           ".gif",  ".tif",  ".tiff", ".exr", ".ppm", ".pgm",
                                           ".mp4",  ".mkv",  ".webm", ".mov", ".avi", ".mp3",
                                           ".flac", ".ogg",  ".opus", ".m4a", ".aac", ".aiff",
                                           ".aif",  ".wma",  NULL };
    Pool                    *local = pool_new(NULL, "files_unread");
    const char              *sentence = NULL;
    PathList                 list = { 0 };
    int32_t                  n = 0;
    if (folder_exists(path) &&
        files_walk(local, path, (FilePick){ 0 }, endings, FOLDERS_DEEP, &list))
        list.n = 0;
    for (int32_t i = 0; i < list.n; i++)
        if (!is_among(list.paths[i], read))
            list.paths[n++] = list.paths[i];
    if (n)
        sentence = pool_print(pool,
                              "%s%s in a format that is not read: convert images and frames "
                              "to PNG or JPEG, audio to WAV",
                              list.paths[0],
                              n == 1 ? " is" : pool_print(local, " and %d more are", n - 1));
    pool_free(local);
    return sentence;
}

Err files_none(Pool *pool, const char *path, FilePick pick, const char *what)
{
    const char *unread = files_unread(pool, path, NULL);
    return fail(E_FORMAT, "%s holds no %s%s%s%s%s", path, what,
                pick.pattern ? " that match data.pattern " : "", pick.pattern ? pick.pattern : "",
                unread ? "; " : "", unread ? unread : "");
}

int32_t span_find(const int64_t *first, size_t stride, int32_t n, int64_t id)
{
    int32_t low = 0, high = n;
    while (high - low > 1) {
        int32_t mid = low + (high - low) / 2;
        if (*(const int64_t *)(const void *)((const char *)first + (size_t)mid * stride) <= id)
            low = mid;
        else
            high = mid;
    }
    return low;
}
