/* file_map.c -- files as memory, and what happens if one becomes shorter while it is mapped: reading
 * beyond its new end is a signal, which file_map_guard turns into a sentence. */
#include "base/file.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

/* The mapped files, for the signal handler. With more of them some are not named. */
enum { MAPS_NAMED = 64 };
static _Atomic(const MapFile *) maps[MAPS_NAMED];

static void map_note(const MapFile *map)
{
    for (int i = 0; i < MAPS_NAMED; i++) {
        const MapFile *none = NULL;
        if (atomic_compare_exchange_strong(&maps[i], &none, map))
            return;
    }
}

static void map_forget(const MapFile *map)
{
    for (int i = 0; i < MAPS_NAMED; i++) {
        const MapFile *one = map;
        if (atomic_compare_exchange_strong(&maps[i], &one, NULL))
            return;
    }
}

/* Only functions that a handler may call. */
static void say(const char *text)
{
    ssize_t unused = write(STDERR_FILENO, text, strlen(text));
    (void)unused;
}

static void map_on_bus_error(int number, siginfo_t *info, void *unused)
{
    const unsigned char *at = info->si_addr;
    const char          *path = "a file";
    (void)unused;
    for (int i = 0; i < MAPS_NAMED; i++) {
        const MapFile *map = atomic_load(&maps[i]);
        if (map && at >= map->bytes && at < map->bytes + map->n)
            path = map->path;
    }
    if (info->si_code != BUS_ADRERR) { /* no fault of a file */
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    say("plimsoll: ");
    say(path);
    say(" became shorter while it was read\n");
    _exit(1);
}

void file_map_guard(void)
{
    struct sigaction act = { .sa_sigaction = map_on_bus_error, .sa_flags = SA_SIGINFO };
    sigaction(SIGBUS, &act, NULL);
}

static void file_unmap(void *arg)
{
    MapFile *map = arg;
    map_forget(map);
    munmap((void *)(uintptr_t)map->bytes, map->n);
}

static bool begins_with(const unsigned char *bytes, size_t n, const char *text)
{
    return n >= strlen(text) && !strncasecmp((const char *)bytes, text, strlen(text));
}

Err file_check_fetched(const char *path, const unsigned char *bytes, size_t n)
{
    if (begins_with(bytes, n, "version https://git-lfs.github.com/spec/"))
        return fail(E_FORMAT,
                    "%s is a pointer of Git LFS, not the file itself: run git lfs pull where it "
                    "was cloned",
                    path);
    return begins_with(bytes, n, "<!doctype html") || begins_with(bytes, n, "<html")
               ? fail(E_FORMAT,
                      "%s is a web page, not the file itself: open its link in a browser, and "
                      "download it again",
                      path)
               : OK;
}

Err file_map(Pool *pool, const char *path, MapFile *out)
{
    int    fd;
    size_t n;
    TRY(file_open_plain(path, &fd, &n));
    *out = (MapFile){ .bytes = (const unsigned char *)"", .n = n };
    if (out->n) { /* an empty file cannot be mapped */
        void *at = mmap(NULL, out->n, PROT_READ, MAP_PRIVATE, fd, 0);
        if (at == MAP_FAILED) {
            int error = errno;
            close(fd);
            return file_fail("map", path, error);
        }
        MapFile *keep = NEW(pool, MapFile);
        out->bytes = at;
        out->path = pool_text(pool, path);
        *keep = *out;
        pool_at_free(pool, file_unmap, keep);
        map_note(keep);
    } else {
        out->path = pool_text(pool, path);
    }
    close(fd);
    return file_check_fetched(path, out->bytes, out->n);
}
