/* file.h -- whole files in, whole files out (file.c), files as memory (file_map.c); folders
 * (folder.c).
 *
 * Reading: into a pool, or mapped (unmapped when the pool is freed).
 * Writing is all or nothing: the bytes go to a new temporary file in the same folder, which takes
 * the place of the old one only once everything is on the disk. After any failure the temporary is
 * gone and the old file is as it was. FileOut lives in the caller's memory and allocates nothing:
 *
 *   FileOut out;
 *   TRY(file_out_init(&out, path));
 *   file_out_add(&out, bytes, n);           any number of times; the first failure is remembered
 *   return file_out_done(&out, OK);         or the error that makes the file worthless
 *
 * A path that is a device or pipe (/dev/stdout, /dev/null) is written directly. In a folder that the
 * process holds (folder_hold) no link is followed and nothing but plain files is written: it may have
 * come from somebody else. Every failure is E_IO: what was tried, the path, the system's message,
 * and a remedy if there is one.
 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>

#include "base/err.h"
#include "base/pool.h"

typedef struct MapFile {
    const unsigned char *bytes; /* never NULL; read-only */
    size_t               n;
    const char          *path; /* a copy, in the pool */
} MapFile;

/* A '\0' follows the bytes. Plain files only, or "-" for the standard input: a device has no end.
 * More than `max` bytes are refused; file_read allows FILE_READ_MAX. */
#define FILE_READ_MAX ((size_t)1 << 30)
Err  file_read(Pool *pool, const char *path, char **bytes, size_t *n);
Err  file_read_within(Pool *pool, const char *path, size_t max, char **bytes, size_t *n);
Err  file_map(Pool *pool, const char *path, MapFile *out);
/* E_FORMAT if the bytes are what stands in for a file that was never downloaded: a pointer of Git LFS
 * or a web page. file_map checks it. */
Err  file_check_fetched(const char *path, const unsigned char *bytes, size_t n);
/* For programs: a mapped file that becomes shorter ends the process with a sentence that names it
 * (exit code 1) instead of a signal. What is read in mid-run is not mapped (file_read_at). */
void file_map_guard(void);
/* to read; folders, devices and pipes are refused */
Err  file_open_plain(const char *path, int *fd, size_t *n);
/* exactly n bytes of an open file */
Err  file_read_at(int fd, const char *path, size_t offset, void *to, size_t n);

enum { FILE_PATH_MAX = 4096, FILE_BUFFER = 32 * 1024 };

typedef struct FileOut {
    int    fd;
    int    failed; /* errno of the first failed write, or 0 */
    bool   direct; /* a device or pipe: no temporary, no rename */
    size_t n_buffered;
    char   path[FILE_PATH_MAX]; /* symbolic links followed */
    char   temp[FILE_PATH_MAX];
    char   buffer[FILE_BUFFER];
} FileOut;

Err  file_out_init(FileOut *out, const char *path);
void file_out_add(FileOut *out, const void *bytes, size_t n);
void file_out_print(FileOut *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
Err  file_out_done(FileOut *out, Err err); /* err != OK: drop what was written, return err */

Err file_write(const char *path, const void *bytes, size_t n);
/* Opens a file to write at its end, or a new one; never through a link or to a device. */
Err file_open_end(const char *path, bool fresh, int *fd);
Err file_try(const char *path);    /* can it be written? To ask before long work; changes nothing */
Err file_remove(const char *path); /* absent is fine */

bool file_exists(const char *path); /* a file, a folder, anything */
bool folder_exists(const char *path);
bool file_same(const char *a, const char *b); /* are both there, and the same file or folder? */
/* is path a folder, and not a link to a folder that contains it? */
bool folder_within(const char *folder, const char *path);
Err  folder_make(const char *path); /* with its parents; fine if it is there */
Err  folder_try(const char *path);  /* can it and files in it be made? As file_try */
/* Makes new names in the folder durable. Returns errno, or 0; some file systems cannot do it. */
int  folder_sync(const char *path);
/* keeps other processes out until the pool is freed */
Err  folder_lock(Pool *pool, const char *path);
/* What is written below the folder is never reached through a link, until the pool is freed. A
 * locked folder is held too. */
Err  folder_hold(Pool *pool, const char *path);
Err file_check_held(const char *path); /* E_IO if a link or device in a held folder is in the way */
void folder_tidy(const char *path);    /* removes temporaries of writers that were killed */
/* Names in the order of file_name_order, without those that start with '.'. */
Err  folder_list(Pool *pool, const char *path, char ***names, int *n);

/* "a/b/c" -> "a/b", "c" -> ".", "/c" -> "/" */
void file_folder(const char *path, char *folder, size_t room);

/* Natural order: "step9" before "step10"; equal only if the bytes are. */
int file_name_order(const char *a, const char *b);

/* fail(E_IO) with what was tried, the path, strerror(error) and a remedy where one exists. */
Err file_fail(const char *tried, const char *path, int error);
int file_error(void); /* errno of this thread's last file_fail since the last call; 0: none */

#endif
