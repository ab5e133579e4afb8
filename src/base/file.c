/* file.c -- reading and atomic writing of files; mapping is in file_map.c. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *file_remedy(int error)
{
    switch (error) {
    case ENOSPC:
    case EDQUOT: return "; free some space or choose another folder";
    case EFBIG: return "; the file size limit was reached (see ulimit -f), or the file system's";
    case EACCES:
    case EPERM: return "; check the permissions of the file and its folder";
    case EROFS: return "; choose a folder that can be written";
    case EISDIR: return "; give the name of a file";
    case ENOTDIR: return "; a part of the path is a file, not a folder";
    case EMFILE:
    case ENFILE: return "; close some programs or raise the limit (see ulimit -n)";
    default: return "";
    }
}

void file_folder(const char *path, char *folder, size_t room)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        snprintf(folder, room, ".");
    else
        snprintf(folder, room, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

static _Thread_local int last_error;

int file_error(void)
{
    int error = last_error;
    last_error = 0;
    return error;
}

Err file_fail(const char *tried, const char *path, int error)
{
    last_error = error;
    char folder[FILE_PATH_MAX];
    file_folder(path, folder, sizeof folder);
    if (error == ENOENT && !folder_exists(folder))
        return fail(E_IO, "cannot %s %s: its folder %s does not exist; make it first", tried, path,
                    folder);
    if (error == ENOENT && !*path)
        return fail(E_IO, "cannot %s a file without a name; give a path", tried);
    return fail(E_IO, "cannot %s %s: %s%s", tried, path, strerror(error), file_remedy(error));
}

Err file_open_plain(const char *path, int *fd, size_t *n)
{
    struct stat info = { 0 };
    *n = 0;
    /* a pipe would wait for somebody to write */
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0)
        return file_fail("read", path, errno);
    Err err = fstat(*fd, &info)       ? file_fail("read", path, errno)
              : S_ISDIR(info.st_mode) ? file_fail("read", path, EISDIR)
              : !S_ISREG(info.st_mode)
                  ? fail(E_IO, "cannot read %s: it is a device or pipe; copy it to a file first",
                         path)
                  : OK;
    if (err)
        close(*fd);
    *n = (size_t)info.st_size;
    return err;
}

static Err file_too_long(const char *path, size_t max)
{
    return fail(E_IO, "cannot read %s: it has more than %zu bytes, the limit for such a file", path,
                max);
}

/* All that follows in an open file, of which `known` bytes are expected. */
static Err file_read_rest(Pool *pool, int fd, const char *path, size_t known, size_t max,
                          char **bytes, size_t *n)
{
    /* One byte more than the file has, so that its end shows without growing; pipes say 0. */
    size_t cap = known + 2, used = 0;
    char  *at = pool_alloc(pool, cap, 1);
    for (;;) {
        if (used + 1 == cap) {
            at = pool_grow(pool, at, used, cap < 4096 ? 8192 : 2 * cap);
            cap = cap < 4096 ? 8192 : 2 * cap;
        }
        ssize_t got = read(fd, at + used, cap - 1 - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return file_fail("read", path, errno);
        if (got == 0)
            break;
        used += (size_t)got;
        if (used > max)
            return file_too_long(path, max);
    }
    at[used] = '\0';
    *bytes = at;
    *n = used;
    return OK;
}

Err file_read_within(Pool *pool, const char *path, size_t max, char **bytes, size_t *n)
{
    int    fd;
    size_t known;
    if (!strcmp(path, "-"))
        return file_read_rest(pool, STDIN_FILENO, path, 0, max, bytes, n);
    TRY(file_open_plain(path, &fd, &known));
    Err err = known > max ? file_too_long(path, max)
                          : file_read_rest(pool, fd, path, known, max, bytes, n);
    close(fd);
    return err;
}

Err file_read(Pool *pool, const char *path, char **bytes, size_t *n)
{
    return file_read_within(pool, path, FILE_READ_MAX, bytes, n);
}

Err file_read_at(int fd, const char *path, size_t offset, void *to, size_t n)
{
    while (n) {
        ssize_t got = pread(fd, to, n, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return file_fail("read", path, errno);
        if (got == 0)
            return fail(E_IO, "%s became shorter while it was read", path);
        to = (char *)to + got;
        offset += (size_t)got;
        n -= (size_t)got;
    }
    return OK;
}

/* A name that no other process or thread uses; its length does not depend on the file's name. */
static int file_open_temp(FileOut *out)
{
    static atomic_uint serial;
    char               folder[FILE_PATH_MAX];
    file_folder(out->path, folder, sizeof folder);
    for (int i = 0; i < 100; i++) {
        int n = snprintf(out->temp, sizeof out->temp, "%s/.plimsoll-%ld-%u.tmp", folder,
                         (long)getpid(), atomic_fetch_add(&serial, 1));
        if (n >= (int)sizeof out->temp) {
            errno = ENAMETOOLONG;
            return -1;
        }
        int fd = open(out->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno == EEXIST)
            continue;
        /* the lock shows that somebody is writing; a process id does not suffice, since in
         * containers every program may be number 1 (folder_tidy) */
        if (fd < 0 || flock(fd, LOCK_EX) != 0 || file_exists(out->temp))
            return fd;
        close(fd); /* folder_tidy removed it before it was locked */
    }
    return -1;
}

/* ---- held folders ---- */

typedef struct HeldFolder {
    struct HeldFolder *next;
    const char        *path;
} HeldFolder;

static HeldFolder     *held_folders;
static pthread_mutex_t held_lock = PTHREAD_MUTEX_INITIALIZER;

static void folder_release(void *arg)
{
    pthread_mutex_lock(&held_lock);
    HeldFolder **at = &held_folders;
    while (*at != arg)
        at = &(*at)->next;
    *at = (*at)->next;
    pthread_mutex_unlock(&held_lock);
}

Err folder_hold(Pool *pool, const char *path)
{
    HeldFolder *held = NEW(pool, HeldFolder);
    size_t      n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    held->path = pool_textn(pool, path, n);
    pthread_mutex_lock(&held_lock);
    held->next = held_folders;
    held_folders = held;
    pthread_mutex_unlock(&held_lock);
    pool_at_free(pool, folder_release, held);
    return OK;
}

/* Length of the held folder that the path is in, or 0. */
static size_t file_held(const char *path)
{
    size_t found = 0;
    pthread_mutex_lock(&held_lock);
    for (HeldFolder *held = held_folders; held; held = held->next) {
        size_t n = strlen(held->path);
        if (n > found && !strncmp(path, held->path, n) && path[n] == '/')
            found = n;
    }
    pthread_mutex_unlock(&held_lock);
    return found;
}

Err file_check_held(const char *path)
{
    char        part[FILE_PATH_MAX];
    struct stat info;
    size_t      n = strlen(path), at = file_held(path);
    if (!at || n >= sizeof part)
        return OK;
    memcpy(part, path, n + 1);
    for (at++; at <= n; at++) {
        if (at < n && (path[at] != '/' || path[at - 1] == '/'))
            continue;
        part[at] = '\0';
        bool there = lstat(part, &info) == 0;
        if (there && S_ISLNK(info.st_mode))
            return fail(E_IO,
                        "cannot write %s: %s is a link, and a run writes only in its own folder; "
                        "remove the link",
                        path, part);
        if (there && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode))
            return fail(E_IO, "cannot write %s: it is a device or pipe; remove it", path);
        part[at] = path[at];
    }
    return OK;
}

Err file_open_end(const char *path, bool fresh, int *fd)
{
    struct stat info = { 0 };
    *fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (*fd < 0)
        return errno == ELOOP ? fail(E_IO, "cannot write %s: it is a link; remove it", path)
                              : file_fail("write", path, errno);
    Err err = fstat(*fd, &info) ? file_fail("write", path, errno)
              : !S_ISREG(info.st_mode)
                  ? fail(E_IO, "cannot write %s: it is a device or pipe; remove it", path)
              : fresh && ftruncate(*fd, 0) ? file_fail("write", path, errno)
                                           : OK;
    if (err)
        close(*fd);
    return err;
}

Err file_out_init(FileOut *out, const char *path)
{
    struct stat info;
    out->fd = -1;
    out->failed = 0;
    out->n_buffered = 0;
    out->temp[0] = '\0';
    if (strlen(path) >= sizeof out->path)
        return file_fail("write", path, ENAMETOOLONG);
    TRY(file_check_held(path));
    bool exists = stat(path, &info) == 0;
    if (!exists && errno != ENOENT)
        return file_fail("write", path, errno);
    size_t length = strlen(path);
    if ((exists && S_ISDIR(info.st_mode)) || (length && path[length - 1] == '/'))
        return file_fail("write", path, EISDIR);
    if (!length)
        return file_fail("write", path, ENOENT);
    if (!exists || !realpath(path, out->path)) /* a link stays, its target changes */
        memcpy(out->path, path, length + 1);
    out->direct = exists && !S_ISREG(info.st_mode);
    if (out->direct)
        out->fd = open(path, O_WRONLY | O_CLOEXEC);
    else if (exists && access(path, W_OK) != 0) /* a write-protected file stays protected */
        return file_fail("write", path, errno);
    else
        out->fd = file_open_temp(out);
    if (out->fd < 0)
        return file_fail("write", path, errno);
    if (exists && !out->direct && fchmod(out->fd, info.st_mode & 0777) != 0) {
        out->failed = errno; /* private files must not become readable */
        return file_out_done(out, OK);
    }
    return OK;
}

static void file_out_send(FileOut *out, const char *bytes, size_t n)
{
    while (n && !out->failed) {
        ssize_t sent = write(out->fd, bytes, n < 1u << 30 ? n : 1u << 30);
        if (sent < 0 && errno != EINTR)
            out->failed = errno;
        if (sent > 0) {
            bytes += sent;
            n -= (size_t)sent;
        }
    }
}

static void file_out_flush(FileOut *out)
{
    file_out_send(out, out->buffer, out->n_buffered);
    out->n_buffered = 0;
}

void file_out_add(FileOut *out, const void *bytes, size_t n)
{
    if (n > sizeof out->buffer - out->n_buffered)
        file_out_flush(out);
    if (n > sizeof out->buffer) {
        file_out_send(out, bytes, n);
    } else if (n) {
        memcpy(out->buffer + out->n_buffered, bytes, n);
        out->n_buffered += n;
    }
}

void file_out_print(FileOut *out, const char *fmt, ...)
{
    char    room[512];
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(room, sizeof room, fmt, args);
    va_end(args);
    if (n >= (int)sizeof room) {
        Pool *pool = pool_new(NULL, "file print");
        char *text = NEWN(pool, char, (size_t)n + 1);
        vsnprintf(text, (size_t)n + 1, fmt, again);
        file_out_add(out, text, (size_t)n);
        pool_free(pool);
    } else if (n > 0) {
        file_out_add(out, room, (size_t)n);
    }
    va_end(again);
}

Err file_out_done(FileOut *out, Err err)
{
    bool renamed = false;
    if (!err) {
        file_out_flush(out);
        if (!out->failed && !out->direct && fsync(out->fd) != 0)
            out->failed = errno;
    }
    if (close(out->fd) != 0 && !out->failed && errno != EINTR)
        out->failed = errno;
    out->fd = -1;
    if (!err && !out->failed && !out->direct) {
        renamed = rename(out->temp, out->path) == 0;
        char folder[FILE_PATH_MAX];
        file_folder(out->path, folder, sizeof folder);
        out->failed = renamed ? folder_sync(folder) : errno;
    }
    if (!renamed && !out->direct)
        unlink(out->temp);
    return err ? err : out->failed ? file_fail("write", out->path, out->failed) : OK;
}

Err file_write(const char *path, const void *bytes, size_t n)
{
    FileOut out;
    TRY(file_out_init(&out, path));
    file_out_add(&out, bytes, n);
    return file_out_done(&out, OK);
}

Err file_try(const char *path)
{
    struct stat info;
    FileOut     out;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode))
        return OK; /* opening a pipe would be seen at its other end */
    TRY(file_out_init(&out, path));
    file_out_done(&out, E_IO); /* drops its temporary */
    return OK;
}

Err file_remove(const char *path)
{
    return unlink(path) == 0 || errno == ENOENT ? OK : file_fail("remove", path, errno);
}

bool file_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}
