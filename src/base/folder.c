/* folder.c -- folders: make, lock, tidy, list in natural order. */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

bool folder_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool file_same(const char *a, const char *b)
{
    struct stat one, two;
    return !stat(a, &one) && !stat(b, &two) && one.st_dev == two.st_dev && one.st_ino == two.st_ino;
}

bool folder_within(const char *folder, const char *path)
{
    char up[FILE_PATH_MAX], down[FILE_PATH_MAX];
    if (!folder_exists(path) || !realpath(folder, up) || !realpath(path, down))
        return false;
    size_t n = strlen(down);
    bool   above = n == 1 || (!strncmp(up, down, n) && (!up[n] || up[n] == '/'));
    return !above;
}

int folder_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno == EACCES ? 0 : errno; /* a folder may be written but not listed */
    int error = fsync(fd) == 0 || errno == EINVAL ? 0 : errno;
    close(fd);
    return error;
}

Err folder_make(const char *path)
{
    char   part[FILE_PATH_MAX];
    size_t n = strlen(path);
    if (n >= sizeof part)
        return file_fail("make the folder", path, ENAMETOOLONG);
    if (n == 0)
        return fail(E_IO, "cannot make a folder without a name; give a path");
    memcpy(part, path, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (i < n && part[i] != '/')
            continue;
        part[i] = '\0';
        int error = mkdir(part, 0777) == 0 ? 0 : errno;
        if (error && !folder_exists(part))
            return file_fail("make the folder", part, error == EEXIST ? ENOTDIR : error);
        if (!error) {
            char within[FILE_PATH_MAX];
            file_folder(part, within, sizeof within);
            error = folder_sync(within);
            if (error)
                return file_fail("make the folder", part, error);
        }
        part[i] = path[i];
    }
    return OK;
}

static void folder_unlock(void *fd) { close((int)(intptr_t)fd); }

Err folder_lock(Pool *pool, const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return file_fail("open", path, errno);
    pool_at_free(pool, folder_unlock, (void *)(intptr_t)fd);
    /* a file system without locks: do without */
    if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        return fail(E_IO, "%s is in use by another process; wait for it, or name another folder",
                    path);
    return folder_hold(pool, path);
}

Err folder_try(const char *path)
{
    char at[FILE_PATH_MAX], up[FILE_PATH_MAX];
    if (strlen(path) >= sizeof at)
        return file_fail("make the folder", path, ENAMETOOLONG);
    if (!*path)
        return fail(E_IO, "cannot make a folder without a name; give a path");
    strcpy(at, path);
    while (!file_exists(at) && errno == ENOENT && strcmp(at, ".")) { /* what would hold it */
        file_folder(at, up, sizeof up);
        strcpy(at, up);
    }
    int error = !file_exists(at)               ? errno
                : !folder_exists(at)           ? ENOTDIR
                : access(at, W_OK | X_OK) != 0 ? errno
                                               : 0;
    return error ? file_fail(strcmp(at, path) ? "make the folder" : "write to", path, error) : OK;
}

/* Removes a temporary that nobody writes: its writer is gone, or its process id belongs to another
 * process now and nobody holds its lock. On file systems without locks only the id counts. */
static void file_tidy(int dir, const char *name, pid_t writer)
{
    int fd = -1;
    if (kill(writer, 0) == 0 || errno != ESRCH) {
        fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0)
            return;
        if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
            close(fd);
            return;
        }
    }
    unlinkat(dir, name, 0);
    if (fd >= 0)
        close(fd); /* only now: a waiter for the lock then sees it gone */
}

void folder_tidy(const char *path)
{
    DIR *dir = opendir(path);
    if (!dir)
        return;
    for (struct dirent *entry; (entry = readdir(dir));) {
        long     writer = 0;
        unsigned serial;
        int      end = 0;
        if (sscanf(entry->d_name, ".plimsoll-%ld-%u.tmp%n", &writer, &serial, &end) == 2 && end &&
            !entry->d_name[end] && writer > 0)
            file_tidy(dirfd(dir), entry->d_name, (pid_t)writer);
    }
    closedir(dir);
}

int file_name_order(const char *a, const char *b)
{
    const char *p = a, *q = b;
    while (*p && *q) {
        bool digits = *p >= '0' && *p <= '9' && *q >= '0' && *q <= '9';
        if (!digits) {
            if (*p != *q)
                return (unsigned char)*p < (unsigned char)*q ? -1 : 1;
            p++;
            q++;
            continue;
        }
        p += strspn(p, "0");
        q += strspn(q, "0");
        size_t n = strspn(p, "0123456789"), m = strspn(q, "0123456789");
        int    order = n != m ? (n < m ? -1 : 1) : memcmp(p, q, n);
        if (order)
            return order < 0 ? -1 : 1;
        p += n;
        q += m;
    }
    if (*p || *q)
        return *q ? -1 : 1;
    int order = strcmp(a, b); /* "01" and "1" differ, though they count the same */
    return (order > 0) - (order < 0);
}

static int file_name_compare(const void *a, const void *b)
{
    return file_name_order(*(char *const *)a, *(char *const *)b);
}

Err folder_list(Pool *pool, const char *path, char ***names, int *n)
{
    DIR *dir = opendir(path);
    if (!dir)
        return errno == ENOTDIR ? fail(E_IO, "cannot list %s: it is not a folder", path)
                                : file_fail("list", path, errno);
    char **list = NULL;
    int    count = 0, cap = 0;
    for (struct dirent *entry; errno = 0, (entry = readdir(dir));)
        if (entry->d_name[0] != '.')
            VEC_ADD(pool, list, count, cap, pool_text(pool, entry->d_name));
    int error = errno;
    closedir(dir);
    if (error)
        return file_fail("list", path, error);
    if (count)
        qsort(list, (size_t)count, sizeof *list, file_name_compare);
    *names = list;
    *n = count;
    return OK;
}
