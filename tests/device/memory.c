/* Memory limits from made-up /proc and control group folders; a little memory taken for real. */
#include "device/memory.h"

#include "base/file.h"
#include "test.h"

#include "profile/devices.h"

#include <string.h>

#include <stdio.h>

#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static Pool       *pool;
static const char *made[32];
static int         n_made;

static void put(const char *path, const char *text)
{
    char *folder = pool_text(pool, path);
    *strrchr(folder, '/') = '\0';
    CHECK_OK(folder_make(folder));
    CHECK_OK(file_write(path, text, strlen(text)));
    made[n_made++] = path;
}

static void remove_made(void) /* the next run begins with nothing */
{
    while (n_made > 0)
        CHECK_OK(file_remove(made[--n_made]));
}

static void limits_of_version_2(void)
{
    put("mem/proc/meminfo", "MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    800 kB\n");
    put("mem/proc/self/cgroup", "0::/user/job\n");
    put("mem/group/user/job/memory.max", "max\n");
    MemoryLimits l = memory_limits_in("mem/proc", "mem/group");
    CHECK_INT(l.total, 1000 * 1024);
    CHECK_INT(l.available, 800 * 1024);
    CHECK_INT(l.cgroup, INT64_MAX);
    CHECK_INT(memory_left(&l), 800 * 1024);

    put("mem/group/user/memory.max", "600000\n"); /* the parent's limit binds */
    put("mem/group/user/memory.current", "250000\n");
    put("mem/group/user/memory.stat", "anon 5\ninactive_file 50000\nfile 7\n");
    l = memory_limits_in("mem/proc", "mem/group");
    CHECK_INT(l.cgroup, 600000);
    CHECK_INT(l.cgroup_left, 400000); /* file cache can be dropped */
    CHECK_INT(memory_left(&l), 400000);

    put("mem/group/user/memory.current", "700000\n"); /* over its limit: nothing left, not less */
    l = memory_limits_in("mem/proc", "mem/group");
    CHECK_INT(memory_left(&l), 0);

    put("mem/group/memory.max", "1000\n"); /* a container sees its own group as the root */
    put("mem/group/memory.current", "10\n");
    put("mem/proc/self/cgroup", "0::/\n");
    l = memory_limits_in("mem/proc", "mem/group");
    CHECK_INT(l.cgroup, 1000);
    CHECK_INT(l.cgroup_left, 990);
    remove_made();
}

static void limits_of_version_1(void)
{
    put("mem1/proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 800 kB\n");
    put("mem1/proc/self/cgroup", "12:cpu,cpuacct:/x\n4:memory:/box\n");
    put("mem1/group/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("mem1/group/memory/box/memory.limit_in_bytes", "500000\n");
    put("mem1/group/memory/box/memory.usage_in_bytes", "100000\n");
    MemoryLimits l = memory_limits_in("mem1/proc", "mem1/group");
    CHECK_INT(l.cgroup, 500000);
    CHECK_INT(l.cgroup_left, 400000);
    remove_made();
}

static void odd_files(void)
{
    MemoryLimits l = memory_limits_in("nowhere", "nowhere");
    CHECK_INT(l.total, INT64_MAX);
    CHECK_INT(l.cgroup, INT64_MAX);
    put("mem2/proc/meminfo", "MemTotal:\nMemAvailable: many kB\nMemAvailableX: 3 kB\n");
    put("mem2/proc/self/cgroup", "nonsense\n:\n::\n0::");
    l = memory_limits_in("mem2/proc", "mem2/group");
    CHECK_INT(l.total, INT64_MAX);
    CHECK_INT(l.available, INT64_MAX);
    remove_made();
}

static void this_machine(void)
{
    MemoryLimits l = memory_limits();
    CHECK(l.total > 0 && l.available > 0 && l.available <= l.total);
    CHECK(memory_left(&l) > 0);
}

static void takes(void)
{
    TakenMemory taken;
    CHECK_OK(memory_take(&(TakeOptions){ .most = 5 << 20, .seconds = 60 }, &taken));
    CHECK_INT(taken.bytes, 5 << 20);
    CHECK_TEXT(taken.ended_by, "as many as were asked for");

    CHECK_OK(memory_take(&(TakeOptions){ .reserve = INT64_MAX / 2, .seconds = 60 }, &taken));
    CHECK_INT(taken.bytes, 0);
    CHECK_TEXT(taken.ended_by, "the rest is left to others");

    CHECK_OK(memory_take(&(TakeOptions){ .seconds = -1 }, &taken));
    CHECK_INT(taken.bytes, 0);
    CHECK_TEXT(taken.ended_by, "the time was up");
    CHECK(waitpid(-1, NULL, WNOHANG) < 0); /* no child is left behind */
}

/* A limit that holds the arena but not what a run takes beside it is refused at the start. The device
 * is opened before, as the plan is made in between. */
static void arena_and_what_is_beside(void)
{
#ifndef __SANITIZE_ADDRESS__ /* which maps terabytes */
    const int64_t bytes = 64 << 20;
    struct rlimit before;
    Pool         *pool = pool_new(NULL, "arena");
    Device       *device;
    Arena        *arena;
    CHECK_OK(device_cpu(pool, &(DeviceOptions){ .threads = 2, .backend = "builtin" }, &device));
    CHECK_INT(getrlimit(RLIMIT_AS, &before), 0);
    long long pages = 0;
    FILE     *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%lld", &pages) == 1);
    fclose(file);
    struct rlimit tight = { (rlim_t)(pages * 4096 + bytes + (8 << 20)), before.rlim_max };
    struct rlimit enough = { tight.rlim_cur + (64 << 20), before.rlim_max };
    CHECK_INT(setrlimit(RLIMIT_AS, &tight), 0);
    Err err = arena_cpu(pool, device, bytes, &arena);
    CHECK_INT(setrlimit(RLIMIT_AS, &enough), 0);
    CHECK_INT(err, E_BUDGET);
    CHECK(strstr(err_text(), "outside it") && strstr(err_text(), "--budget"));
    CHECK_OK(arena_cpu(pool, device, bytes, &arena));
    CHECK_INT(setrlimit(RLIMIT_AS, &before), 0);
    pool_free(pool);
#endif
}

int main(void)
{
    pool = pool_new(NULL, "test");
    RUN(limits_of_version_2);
    RUN(limits_of_version_1);
    RUN(odd_files);
    RUN(this_machine);
    RUN(takes);
    pool_free(pool);
    RUN(arena_and_what_is_beside);
    return test_end();
}
