/* Tests of base/file: reading, mapping, writing all or nothing, folders. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "test.h"

static Pool *pool;
static char  home[256]; /* a folder of our own */

static const char *in_home(const char *name) { return pool_print(pool, "%s/%s", home, name); }

static int files_in(const char *path) /* with hidden ones, such as forgotten temporaries */
{
    char *command = pool_print(pool, "ls -A '%s' | wc -l", path);
    FILE *list = popen(command, "r");
    int   n = -1;
    if (fscanf(list, "%d", &n) != 1)
        n = -1;
    pclose(list);
    return n;
}

static const char *content(const char *path)
{
    char  *bytes = NULL;
    size_t n = 0;
    CHECK_OK(file_read(pool, path, &bytes, &n));
    return bytes ? bytes : "";
}

static void says(const char *part)
{
    if (!CHECK(strstr(err_text(), part) != NULL))
        fprintf(stderr, "  said:   %s\n  wanted: %s\n", err_text(), part);
}

static void write_and_read(void)
{
    const char *path = in_home("a.txt");
    CHECK(!file_exists(path));
    CHECK_OK(file_write(path, "one", 3));
    CHECK(file_exists(path) && !folder_exists(path));
    CHECK_TEXT(content(path), "one");
    CHECK_OK(file_write(path, "", 0));
    CHECK_TEXT(content(path), "");
    enum { N = 1000003 };
    char *bytes = NEWN(pool, char, N), *back;
    for (int i = 0; i < N; i++)
        bytes[i] = (char)(i * 7 + i / 1000);
    size_t n;
    CHECK_OK(file_write(path, bytes, N));
    CHECK_OK(file_read(pool, path, &back, &n));
    CHECK(n == N && !memcmp(bytes, back, N) && back[N] == '\0');

    FileOut out; /* in chunks of all sizes, around the buffer's */
    CHECK_OK(file_out_init(&out, path));
    size_t at = 0;
    for (size_t chunk = 1; at < N; chunk = chunk * 3 + 1) {
        size_t take = chunk < N - at ? chunk : N - at;
        file_out_add(&out, bytes + at, take);
        at += take;
    }
    CHECK_OK(file_out_done(&out, OK));
    CHECK_OK(file_read(pool, path, &back, &n));
    CHECK(n == N && !memcmp(bytes, back, N));

    CHECK_OK(file_out_init(&out, path));
    file_out_print(&out, "%d-%s", 42, "x");
    file_out_print(&out, "%0600d", 7);
    CHECK_OK(file_out_done(&out, OK));
    CHECK_INT(strlen(content(path)), 604);
    CHECK_INT(files_in(home), 1);
    CHECK_OK(file_remove(path));
    CHECK_OK(file_remove(path));
}

static void maps(void)
{
    const char *path = in_home("map");
    MapFile     map;
    Pool       *own = pool_new(pool, "map");
    CHECK_OK(file_write(path, "mapped", 6));
    CHECK_OK(file_map(own, path, &map));
    CHECK(map.n == 6 && !memcmp(map.bytes, "mapped", 6));
    CHECK_TEXT(map.path, path);
    CHECK_OK(file_write(path, "changed!", 8)); /* a new file: the map keeps the old bytes */
    CHECK(!memcmp(map.bytes, "mapped", 6));
    pool_free(own);
    CHECK_OK(file_write(path, "", 0));
    CHECK_OK(file_map(pool, path, &map));
    CHECK(map.n == 0 && map.bytes != NULL);
    CHECK_INT(file_map(pool, "/dev/null", &map), E_IO);
    says("it is a device or pipe");
    CHECK_OK(file_write(path, "version https://git-lfs.github.com/spec/v1\noid", 46));
    CHECK_INT(file_map(pool, path, &map), E_FORMAT);
    says("is a pointer of Git LFS");
    CHECK_OK(file_write(path, "<!DOCTYPE html><html>", 21));
    CHECK_INT(file_map(pool, path, &map), E_FORMAT);
    says("is a web page");
    CHECK_OK(file_remove(path));
}

/* A mapped file that becomes shorter: one sentence and exit code 1, in a process of its own. */
static void a_mapped_file_cut_short(void)
{
    enum { BYTES = 1 << 16 };
    const char *path = in_home("short"), *said_in = in_home("said");
    char       *bytes = NEWN(pool, char, BYTES), *said;
    size_t      n;
    int         status;
    CHECK_OK(file_write(path, bytes, BYTES));
    pid_t child = fork();
    if (!child) {
        MapFile map;
        int     fd = open(said_in, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        file_map_guard();
        if (dup2(fd, 2) < 0 || file_map(pool, path, &map) || truncate(path, 100))
            _exit(9);
        volatile unsigned char last = map.bytes[BYTES - 1];
        _exit(8 + last);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK_INT(WEXITSTATUS(status), 1);
    CHECK_OK(file_read(pool, said_in, &said, &n));
    CHECK_TEXT(said, pool_print(pool, "plimsoll: %s became shorter while it was read\n", path));
    CHECK_OK(file_remove(path));
    CHECK_OK(file_remove(said_in));
}

static void refusals(void)
{
    char   *bytes;
    size_t  n;
    MapFile map;
    CHECK_INT(file_read(pool, in_home("none"), &bytes, &n), E_IO);
    says("/none: No such file or directory");
    CHECK_INT(file_read(pool, in_home("no/none"), &bytes, &n), E_IO);
    says("/no does not exist; make it first");
    CHECK_INT(file_read(pool, home, &bytes, &n), E_IO);
    says("Is a directory; give the name of a file");
    CHECK_INT(file_read(pool, "", &bytes, &n), E_IO);
    says("cannot read a file without a name");
    CHECK_INT(file_map(pool, in_home("none"), &map), E_IO);
    CHECK_INT(file_write(home, "x", 1), E_IO);
    says("Is a directory");
    CHECK_INT(file_write(in_home("new/"), "x", 1), E_IO);
    CHECK_INT(file_write("", "x", 1), E_IO);
    says("cannot write a file without a name");
    CHECK_INT(file_write(in_home("no/none"), "x", 1), E_IO);
    says("its folder");
    CHECK_OK(file_write(in_home("f"), "x", 1));
    CHECK_INT(file_write(in_home("f/g"), "x", 1), E_IO);
    says("Not a directory; a part of the path is a file");
    char *longest = NEWN(pool, char, 5001);
    memset(longest, 'x', 5000);
    CHECK_INT(file_write(longest, "x", 1), E_IO);
    CHECK_INT(file_write(in_home(longest + 4700), "x", 1), E_IO);
    says("File name too long");
    CHECK_OK(file_write(in_home(longest + 4745), "x", 1)); /* 255 bytes, the most there may be */
    CHECK_OK(file_remove(in_home(longest + 4745)));
    CHECK_OK(file_remove(in_home("f")));
    CHECK_INT(file_remove(home), E_IO);
    CHECK_INT(file_try(home), E_IO); /* a folder */
    CHECK_INT(file_try(in_home("no/none")), E_IO);
    CHECK_OK(file_try(in_home("f"))); /* leaves nothing behind */
    CHECK_OK(file_try("/dev/null"));
    CHECK_INT(files_in(home), 0);
}

static void a_failure_keeps_the_old_file(void)
{
    const char *path = in_home("kept");
    FileOut     out;
    CHECK_OK(file_write(path, "old", 3));
    CHECK_OK(file_out_init(&out, path));
    file_out_add(&out, "new", 3);
    CHECK_INT(file_out_done(&out, E_NUMBER), E_NUMBER);
    CHECK_TEXT(content(path), "old");
    CHECK_INT(files_in(home), 1);

    struct rlimit limit, small = { .rlim_cur = 100000 };
    getrlimit(RLIMIT_FSIZE, &limit);
    small.rlim_max = limit.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    Err err = file_write(path, NEWN(pool, char, 1000000), 1000000);
    setrlimit(RLIMIT_FSIZE, &limit);
    CHECK_INT(err, E_IO);
    says("/kept: File too large; the file size limit was reached");
    CHECK_TEXT(content(path), "old");
    CHECK_INT(files_in(home), 1);
    CHECK_OK(file_remove(path));
}

/* Devices of our own: were the code broken, root would replace the machine's /dev/full by a
 * file. */
static void devices_are_written_directly(void)
{
    struct stat info;
    const char *pipe_path = in_home("pipe"), *full = in_home("full");
    char        got[8] = "";
    CHECK_INT(mkfifo(pipe_path, 0600), 0);
    int reader = open(pipe_path, O_RDWR | O_NONBLOCK);
    CHECK_OK(file_write(pipe_path, "x", 1));
    CHECK(stat(pipe_path, &info) == 0 && S_ISFIFO(info.st_mode));
    CHECK_INT(read(reader, got, sizeof got), 1);
    CHECK_TEXT(got, "x");
    close(reader);
    CHECK_OK(file_remove(pipe_path));

    int fd = mknod(full, S_IFCHR | 0600, makedev(1, 7)) == 0 ? open(full, O_WRONLY) : -1;
    if (fd < 0) {
        printf("a full device: skipped, no right to make one\n");
    } else {
        close(fd);
        CHECK_INT(file_write(full, "x", 1), E_IO);
        says("/full: No space left on device; free some space or choose another folder");
        CHECK(stat(full, &info) == 0 && S_ISCHR(info.st_mode));
    }
    CHECK_OK(file_remove(full));
    CHECK_INT(files_in(home), 0);
}

static void a_full_disk(void)
{
    const char *disk = in_home("disk");
    CHECK_OK(folder_make(disk));
    if (mount("tmpfs", disk, "tmpfs", 0, "size=65536") != 0) {
        printf("a full disk: skipped, no right to mount a tmpfs\n");
        rmdir(disk);
        return;
    }
    const char *path = in_home("disk/file");
    CHECK_OK(file_write(path, "old", 3));
    CHECK_INT(file_write(path, NEWN(pool, char, 1000000), 1000000), E_IO);
    says("/disk/file: No space left on device; free some space");
    CHECK_TEXT(content(path), "old");
    CHECK_INT(files_in(disk), 1);
    CHECK_INT(mount("tmpfs", disk, "tmpfs", MS_REMOUNT | MS_RDONLY, "size=65536"), 0);
    CHECK_INT(file_write(path, "new", 3), E_IO);
    says("Read-only file system; choose a folder that can be written");
    CHECK_INT(umount(disk), 0);
    rmdir(disk);
}

/* A writer that was killed leaves its temporary: it goes, also where another process has its number
 * by now (in a container ours may), but not that of one who is at it, nor anything else. */
static void killed_writers(void)
{
    pid_t dead = fork();
    if (dead == 0)
        _exit(0);
    waitpid(dead, NULL, 0);
    const char *left = in_home(pool_print(pool, ".plimsoll-%ld-7.tmp", (long)dead));
    const char *same = in_home(pool_print(pool, ".plimsoll-%ld-999.tmp", (long)getpid()));
    FileOut     ours;
    const char *other = in_home(pool_print(pool, ".plimsoll-%ld-7.tmp.keep", (long)dead));
    CHECK_OK(file_write(left, "half", 4));
    CHECK_OK(file_write(same, "half", 4));
    CHECK_OK(file_out_init(&ours, in_home("being written")));
    CHECK_OK(file_write(other, "mine", 4));
    folder_tidy(home);
    CHECK(!file_exists(left));
    CHECK(!file_exists(same));
    CHECK(file_exists(ours.temp));
    CHECK(file_exists(other));
    folder_tidy(in_home("nowhere"));
    CHECK_OK(file_out_done(&ours, OK));
    CHECK_OK(file_remove(in_home("being written")));
    CHECK_OK(file_remove(other));
}

static void links_and_modes(void)
{
    struct stat info;
    const char *path = in_home("target"), *link = in_home("link");
    CHECK_OK(file_write(path, "old", 3));
    CHECK_INT(chmod(path, 0640), 0);
    CHECK_INT(symlink("target", link), 0);
    CHECK_OK(file_write(link, "new", 3));
    CHECK(lstat(link, &info) == 0 && S_ISLNK(info.st_mode));
    CHECK_TEXT(content(path), "new");
    CHECK(stat(path, &info) == 0 && (info.st_mode & 0777) == 0640);
    if (geteuid() != 0) {
        CHECK_INT(chmod(path, 0440), 0);
        CHECK_INT(file_write(path, "x", 1), E_IO);
        says("Permission denied; check the permissions");
    }
    CHECK_OK(file_remove(link));
    CHECK_OK(file_remove(path));
}

/* A device has no end and a pipe may never give a byte: plain files only, or "-". */
static void plain_files_only(void)
{
    int    ends[2], input = dup(0);
    char   name[40], *bytes;
    size_t n;
    CHECK_INT(pipe(ends), 0);
    snprintf(name, sizeof name, "/dev/fd/%d", ends[0]);
    CHECK_INT(file_read(pool, name, &bytes, &n), E_IO);
    says("it is a device or pipe");
    CHECK_INT(file_read(pool, "/dev/zero", &bytes, &n), E_IO);
    const char *link = in_home("zero"), *pipe_path = in_home("waits");
    CHECK_INT(symlink("/dev/zero", link), 0);
    CHECK_INT(file_read(pool, link, &bytes, &n), E_IO);
    says("it is a device or pipe");
    CHECK_OK(file_remove(link));
    CHECK_INT(mkfifo(pipe_path, 0600), 0);
    CHECK_INT(file_read(pool, pipe_path, &bytes, &n), E_IO); /* does not wait for a writer */
    CHECK_OK(file_remove(pipe_path));

    CHECK_INT(write(ends[1], "through a pipe", 14), 14);
    close(ends[1]);
    CHECK_INT(dup2(ends[0], 0), 0);
    CHECK_OK(file_read(pool, "-", &bytes, &n));
    CHECK_TEXT(bytes, "through a pipe");
    close(ends[0]);
    CHECK_INT(dup2(input, 0), 0);
    close(input);
    CHECK_OK(file_read(pool, "/proc/self/status", &bytes, &n)); /* says it has 0 bytes */
    CHECK(n > 100);
    CHECK_INT(file_read_within(pool, "/proc/self/status", 10, &bytes, &n), E_IO);
    says("more than 10 bytes");
}

/* Links to plain files are read: caches of model hubs are full of them. */
static void owned_folder(void)
{
    const char *own = in_home("run"), *mine = in_home("mine"), *file = in_home("run/a.json");
    char       *bytes;
    size_t      n;
    Pool       *run = pool_new(pool, "run");
    CHECK_OK(folder_make(own));
    CHECK_OK(file_write(mine, "mine", 4));
    CHECK_INT(symlink("../mine", file), 0);
    CHECK_OK(folder_lock(run, own));
    CHECK_OK(file_read(pool, file, &bytes, &n));
    CHECK_TEXT(bytes, "mine");
    CHECK_INT(file_write(file, "theirs", 6), E_IO);
    says("is a link, and a run writes only in its own folder");
    CHECK_OK(file_remove(file));
    CHECK_OK(file_write(file, "{}", 2));
    CHECK_INT(symlink("..", in_home("run/samples")), 0); /* a folder that is a link */
    CHECK_INT(file_write(in_home("run/samples/mine"), "theirs", 6), E_IO);
    says("run/samples is a link");
    CHECK_OK(file_remove(in_home("run/samples")));
    CHECK_INT(mkfifo(in_home("run/pipe"), 0600), 0);
    CHECK_INT(file_write(in_home("run/pipe"), "x", 1), E_IO);
    says("it is a device or pipe");
    CHECK_OK(file_remove(in_home("run/pipe")));
    CHECK_OK(file_read(pool, mine, &bytes, &n));
    CHECK_TEXT(bytes, "mine");
    CHECK_OK(file_remove(file));
    pool_free(run);
    CHECK_INT(symlink("../mine", file), 0); /* elsewhere a link stays, and its target changes */
    CHECK_OK(file_write(file, "ours", 4));
    CHECK_OK(file_read(pool, mine, &bytes, &n));
    CHECK_TEXT(bytes, "ours");
    CHECK_OK(file_remove(file));
    CHECK_OK(file_remove(mine));
    CHECK_INT(rmdir(own), 0);
}

static void folders(void)
{
    const char *deep = in_home("a/b//c/");
    char      **names;
    int         n;
    CHECK_OK(folder_make(deep));
    CHECK_OK(folder_make(deep));
    CHECK_OK(folder_make("/"));
    CHECK_OK(folder_make("."));
    CHECK(folder_exists(in_home("a/b/c")));
    static const char *const made[] = {
        "step10", "step9", "step1", ".hidden", "step09", "a", "step"
    };
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        CHECK_OK(file_write(in_home(pool_print(pool, "a/b/c/%s", made[i])), "", 0));
    CHECK_OK(folder_list(pool, in_home("a/b/c"), &names, &n));
    static const char *const want[] = { "a", "step", "step1", "step09", "step9", "step10" };
    if (CHECK_INT(n, 6))
        for (int i = 0; i < n; i++)
            CHECK_TEXT(names[i], want[i]);
    CHECK_INT(folder_make(in_home("a/b/c/a/x")), E_IO);
    says("cannot make the folder");
    CHECK_INT(folder_make(in_home("a/b/c/a")), E_IO);
    CHECK_INT(folder_make(""), E_IO);
    CHECK_OK(folder_try(in_home("a/b/c")));
    CHECK_OK(folder_try(in_home("a/b/new/er/")));
    CHECK(!file_exists(in_home("a/b/new")));
    CHECK_OK(folder_try("no_such_folder"));
    CHECK_INT(folder_try(in_home("a/b/c/a")), E_IO);
    says("Not a directory");
    CHECK_INT(folder_try(in_home("a/b/c/a/x/y")), E_IO);
    CHECK_INT(folder_try(""), E_IO);
    if (folder_exists("/sys/kernel")) { /* refused, to anybody: for its own reason */
        CHECK_INT(folder_make("/sys/kernel/plimsoll_test"), E_IO);
        CHECK(!strstr(err_text(), "No such file"));
    }
    CHECK_INT(folder_list(pool, in_home("a/b/c/a"), &names, &n), E_IO);
    says("it is not a folder");
    CHECK_INT(folder_list(pool, in_home("none"), &names, &n), E_IO);
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        CHECK_OK(file_remove(in_home(pool_print(pool, "a/b/c/%s", made[i]))));
    CHECK_OK(folder_list(pool, in_home("a/b/c"), &names, &n));
    CHECK_INT(n, 0);
    CHECK_INT(rmdir(in_home("a/b/c")) | rmdir(in_home("a/b")) | rmdir(in_home("a")), 0);
}

static void natural_order(void)
{
    static const char *const order[] = { "",
                                         "0",
                                         "00",
                                         "01",
                                         "1",
                                         "2",
                                         "10",
                                         "a",
                                         "a1",
                                         "a1b",
                                         "a2",
                                         "a10",
                                         "a99999999999999999999",
                                         "a100000000000000000000",
                                         "ab",
                                         "b",
                                         "\xC3\xA9" };
    int                      n = sizeof order / sizeof *order;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            if (!CHECK_INT(file_name_order(order[i], order[j]), (i > j) - (i < j)))
                fprintf(stderr, "  '%s' against '%s'\n", order[i], order[j]);
        }
}

int main(void)
{
    pool = pool_new(NULL, "test");
    snprintf(home, sizeof home, "test_file_%ld", (long)getpid());
    CHECK_OK(folder_make(home));
    RUN(write_and_read);
    RUN(maps);
    RUN(a_mapped_file_cut_short);
    RUN(refusals);
    RUN(a_failure_keeps_the_old_file);
    RUN(devices_are_written_directly);
    RUN(a_full_disk);
    RUN(killed_writers);
    RUN(links_and_modes);
    RUN(plain_files_only);
    RUN(owned_folder);
    RUN(folders);
    RUN(natural_order);
    CHECK_INT(rmdir(home), 0); /* nothing was left behind */
    pool_free(pool);
    return test_end();
}
