/* memory.c -- memory limits from /proc and control groups; memory allocated for real in a child. */
#include "device/memory.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATH_ROOM = 4096 };

/* The number after `word` at the start of a line (NULL: the file's first number); -1: none. */
static int64_t number_in(const char *path, const char *word)
{
    FILE   *file = fopen(path, "r");
    char    line[256];
    int64_t found = -1;
    size_t  n = word ? strlen(word) : 0;
    while (file && found < 0 && fgets(line, sizeof line, file)) {
        char *end;
        if (n && (strncmp(line, word, n) || (line[n] != ' ' && line[n] != ':' && line[n] != '\t')))
            continue;
        char     *at = line + n + (n && line[n] == ':');
        long long number = strtoll(at, &end, 10);
        found = end > at && number >= 0 ? number : -1; /* "max" is no number */
        if (!n)
            break;
    }
    if (file)
        fclose(file);
    return found;
}

static void lower_to(int64_t *a, int64_t b)
{
    if (b < *a)
        *a = b;
}

/* One control group: its limit, its usage, and how much of that is file cache it could drop. */
static void group_limit(MemoryLimits *limits, const char *folder, const char *limit,
                        const char *used, const char *cache)
{
    char path[PATH_ROOM];
    snprintf(path, sizeof path, "%s/%s", folder, limit);
    int64_t max = number_in(path, NULL);
    if (max < 0 || max >= (int64_t)1 << 60) /* version 1 writes a huge number for none */
        return;
    snprintf(path, sizeof path, "%s/%s", folder, used);
    int64_t now = number_in(path, NULL);
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    int64_t dropped = number_in(path, cache);
    now = now < 0 ? 0 : now - (dropped > 0 ? dropped : 0);
    lower_to(&limits->cgroup, max);
    lower_to(&limits->cgroup_left, max > now ? max - now : 0);
}

/* A limit also binds the groups below: all count, from this process's group up to the root. */
static void group_limits(MemoryLimits *limits, const char *root, char *group, bool first_version)
{
    char folder[PATH_ROOM];
    for (;;) {
        snprintf(folder, sizeof folder, "%s%s%s", root, first_version ? "/memory" : "",
                 strcmp(group, "/") ? group : "");
        if (first_version)
            group_limit(limits, folder, "memory.limit_in_bytes", "memory.usage_in_bytes",
                        "total_inactive_file");
        else
            group_limit(limits, folder, "memory.max", "memory.current", "inactive_file");
        char *slash = strrchr(group, '/');
        if (!slash || !*group)
            return;
        *slash = '\0';
    }
}

MemoryLimits memory_limits_in(const char *proc, const char *cgroups)
{
    MemoryLimits  limits = { INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX };
    struct rlimit rlimit;
    char          path[PATH_ROOM], line[PATH_ROOM];

    snprintf(path, sizeof path, "%s/meminfo", proc);
    int64_t total = number_in(path, "MemTotal"), available = number_in(path, "MemAvailable");
    if (total > 0)
        limits.total = total * 1024;
    if (available >= 0)
        limits.available = available * 1024;

    snprintf(path, sizeof path, "%s/self/cgroup", proc);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) { /* "0::/a/b" or "4:memory:/a/b" */
        char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        if (!names[1])
            group_limits(&limits, cgroups, group, false);
        else if (!strcmp(names + 1, "memory"))
            group_limits(&limits, cgroups, group, true);
    }
    if (file)
        fclose(file);

    if (!getrlimit(RLIMIT_AS, &rlimit) && rlimit.rlim_cur != RLIM_INFINITY) {
        snprintf(path, sizeof path, "%s/self/status", proc);
        int64_t mapped = number_in(path, "VmSize");
        limits.address_left = (int64_t)rlimit.rlim_cur - (mapped > 0 ? mapped * 1024 : 0);
    }
    return limits;
}

MemoryLimits memory_limits(void) { return memory_limits_in("/proc", "/sys/fs/cgroup"); }

int64_t memory_left(const MemoryLimits *limits)
{
    int64_t left = limits->available;
    lower_to(&left, limits->cgroup_left);
    lower_to(&left, limits->address_left);
    return left > 0 ? left : 0;
}

typedef struct TakeNote { /* the child's report after each chunk */
    int64_t bytes;
    int32_t ended_by; /* index into take_endings; 0: it goes on */
} TakeNote;

static const char *const take_endings[] = {
    "the system killed the process that took them",
    "as many as were asked for",
    "the rest is left to others",
    "the system refused more",
    "the time was up",
};
enum { MIN_CHUNK = 1 << 20, MAX_CHUNK = 256 << 20, PAGE = 4096 }; /* bytes */
enum { TAKE_KILLED, TAKE_MAX, TAKE_RESERVE, TAKE_REFUSED, TAKE_TIME };

static void take_child(const TakeOptions *o, int pipe)
{
    TakeNote note = { 0 };
    double   end = clock_now() + o->seconds;
    int      score = open("/proc/self/oom_score_adj", O_WRONLY);
    prctl(PR_SET_PDEATHSIG, SIGKILL);               /* never outlives its parent */
    if (score >= 0 && write(score, "1000", 4) == 4) /* killed first if memory runs out */
        close(score);
    while (!note.ended_by) {
        MemoryLimits limits = memory_limits();
        int64_t      left = memory_left(&limits) - o->reserve, chunk = left / 8;
        chunk = chunk > MAX_CHUNK ? MAX_CHUNK : chunk < MIN_CHUNK ? MIN_CHUNK : chunk;
        if (o->most && chunk > o->most - note.bytes)
            chunk = o->most - note.bytes;
        if (!chunk) {
            note.ended_by = TAKE_MAX;
        } else if (left < chunk) {
            note.ended_by = TAKE_RESERVE;
        } else if (clock_now() > end) {
            note.ended_by = TAKE_TIME;
        } else {
            char *at = mmap(NULL, (size_t)chunk, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (at == MAP_FAILED) {
                note.ended_by = TAKE_REFUSED;
            } else {
                madvise(at, (size_t)chunk, MADV_HUGEPAGE);
                for (int64_t i = 0; i < chunk; i += PAGE)
                    at[i] = 1;
                note.bytes += chunk;
            }
        }
        if (write(pipe, &note, sizeof note) != sizeof note)
            _exit(1);
    }
    _exit(0);
}

Err memory_take(const TakeOptions *options, TakenMemory *taken)
{
    int pipes[2];
    *taken = (TakenMemory){ 0, take_endings[TAKE_KILLED] };
    if (pipe(pipes))
        return fail(E_DEVICE, "cannot measure the free memory: %s", strerror(errno));
    pid_t child = fork();
    if (child < 0) {
        close(pipes[0]);
        close(pipes[1]);
        return fail(E_DEVICE, "cannot measure the free memory: %s", strerror(errno));
    }
    if (!child) {
        close(pipes[0]);
        take_child(options, pipes[1]);
    }
    close(pipes[1]);
    MemoryLimits before = memory_limits();
    int64_t      hope = memory_left(&before) - options->reserve;
    TakeNote     note;
    ssize_t      n;
    if (options->most)
        lower_to(&hope, options->most);
    while ((n = read(pipes[0], &note, sizeof note)) == sizeof note || (n < 0 && errno == EINTR)) {
        if (n < 0)
            continue;
        taken->bytes = note.bytes;
        if (note.ended_by)
            taken->ended_by = take_endings[note.ended_by];
        if (options->progress)
            options->progress(options->progress_arg,
                              hope > 0 ? (double)note.bytes / (double)hope : 1, "memory");
    }
    close(pipes[0]);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
    return OK;
}
