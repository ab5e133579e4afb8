/* shipped.c -- where the program's own files are. */
#include "base/shipped.h"

#include "base/file.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_PLACES = 4 };

static void shipped_places(Pool *pool, const char *folder, const char *places[N_PLACES])
{
    char    program[4096] = "";
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n > 0)
        *strrchr(program, '/') = '\0';
    places[0] = folder;
    places[1] = pool_print(pool, "%s/%s", program, folder);
    places[2] = pool_print(pool, "%s/../%s", program, folder);
    places[3] = pool_print(pool, "%s/../share/plimsoll/%s", program, folder);
}

Err shipped_list(Pool *pool, const char *folder, const char *ext, char ***names, int *n)
{
    const char *places[N_PLACES];
    size_t      end = strlen(ext);
    *n = 0;
    shipped_places(pool, folder, places);
    for (int place = 0; place < N_PLACES && !*n; place++) {
        char **all = NULL;
        int    n_all = 0;
        if (folder_exists(places[place]))
            TRY(folder_list(pool, places[place], &all, &n_all));
        for (int i = 0; i < n_all; i++) {
            size_t length = strlen(all[i]);
            if (length <= end || strcmp(all[i] + length - end, ext))
                continue;
            all[i][length - end] = '\0';
            all[(*n)++] = all[i];
        }
        *names = all;
    }
    return OK;
}

/* "; there are a, b and 3 more": as many as one sentence holds. */
static const char *shipped_words(Pool *pool, char **names, int n)
{
    Text text = { .pool = pool };
    int  i = 0;
    for (; i < n && text.n < 160; i++)
        text_add(&text, "%s%s", i ? ", " : "; there are ", names[i]);
    if (i < n)
        text_add(&text, " and %d more", n - i);
    return text.at;
}

/* The same bytes in both files; false also if one of them cannot be read. */
static bool shipped_equal(const char *a, const char *b)
{
    Pool   *pool = pool_new(NULL, "shipped");
    MapFile one, two;
    bool    equal = !file_map(pool, a, &one) && !file_map(pool, b, &two) && one.n == two.n &&
                 !memcmp(one.bytes, two.bytes, one.n);
    pool_free(pool);
    return equal;
}

/* A file of the current folder may come from anywhere, a shipped one not: which one was taken is
 * said where both could be meant and they differ, once. */
static void shipped_say(Pool *pool, const char *what, const char *taken, const char *const *places,
                        const char *name, const char *ext)
{
    static _Thread_local char said[FILE_PATH_MAX];
    struct stat               mine, theirs;
    if (stat(taken, &mine) || !strcmp(said, taken))
        return;
    for (int i = 1; i < N_PLACES; i++) {
        const char *shipped = pool_print(pool, "%s/%s%s", places[i], name, ext);
        if (stat(shipped, &theirs))
            continue;
        if ((mine.st_dev == theirs.st_dev && mine.st_ino == theirs.st_ino) ||
            shipped_equal(taken, shipped))
            return;
        fprintf(stderr, "%s: using %s in the current folder, not the one that is shipped\n", what,
                taken);
        snprintf(said, sizeof said, "%s", taken);
        return;
    }
}

Err shipped_find(Pool *pool, const char *folder, const char *ext, const char *what,
                 const char *name, const char **path)
{
    const char *places[N_PLACES];
    *path = name;
    if (!strcmp(name, "-")) /* the standard input */
        return OK;
    shipped_places(pool, folder, places);
    for (int i = -1; i < N_PLACES; i++) {
        *path = i < 0 ? name : pool_print(pool, "%s/%s%s", places[i], name, ext);
        if (file_exists(*path) && !folder_exists(*path)) {
            if (i <= 0)
                shipped_say(pool, what, *path, places, name, ext);
            return OK;
        }
    }
    char **names;
    int    n;
    TRY(shipped_list(pool, folder, ext, &names, &n));
    const char *near = text_nearest(name, (const char *const *)names, n);
    if (folder_exists(name))
        return fail(E_USAGE, "%s is a folder, not a %s; give a name or a file", name, what);
    if (near)
        return fail(E_USAGE, "there is no %s '%s'; did you mean '%s'?", what, name, near);
    if (!n)
        return fail(E_USAGE,
                    "there is no file '%s', and no folder %s/ with %ss here or beside the program",
                    name, folder, what);
    return fail(E_USAGE, "there is no %s or file '%s'%s", what, name,
                shipped_words(pool, names, n));
}
