/* cpu.c -- the CPU's arena in host memory, with a guard page behind it; resident bytes. */
#include "device/device.h"
#include "device/memory.h"

#include "base/int_math.h"
#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ARENA_ALIGN = 64 }; /* bytes: Device.align of the CPU */

typedef struct Mapping {
    void  *at;
    size_t bytes;
} Mapping;

static void mapping_undo(void *arg)
{
    Mapping *mapping = arg;
    munmap(mapping->at, mapping->bytes);
}

/* What a run takes besides its arena once that is allocated: generated kernels, stacks of threads,
 * page tables. A limit that leaves less than this would end it later, by a signal. */
static int64_t arena_outside(const Device *device, int64_t bytes)
{
    enum { BASE = 24 << 20, PER_THREAD = 256 << 10, PAGE_TABLES = 512 };
    return BASE + (int64_t)device->threads * PER_THREAD + bytes / PAGE_TABLES;
}

static Err arena_refuse(int64_t bytes, int64_t outside, int64_t left)
{
    char smaller[48] = "";
    if (left > outside) /* else no budget helps */
        snprintf(smaller, sizeof smaller, "use --budget %lld or ", (long long)(left - outside));
    return fail(E_BUDGET,
                "the arena needs %s and about %s outside it (code, generated kernels), but this "
                "machine has only %s to give; %sclose other programs",
                bytes_text(bytes), bytes_text(outside), bytes_text(left), smaller);
}

Err arena_cpu(Pool *pool, const Device *device, int64_t bytes, Arena **out)
{
    REQUIRE(bytes >= 0);
    size_t page = (size_t)sysconf(_SC_PAGESIZE), body = align_bytes((size_t)bytes, page);

    /* Allocated as a whole before the first step: running out shows here as an error, not as a
     * crash later. */
    MemoryLimits limits = memory_limits();
    int64_t      left = memory_left(&limits), outside = arena_outside(device, bytes);
    if (device->memory_bytes > 0 && device->memory_bytes < left)
        left = device->memory_bytes;
    if (bytes > left - outside)
        return arena_refuse(bytes, outside, left);
    char *map = mmap(NULL, body + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return fail(E_DEVICE, "cannot allocate an arena of %s: %s", bytes_text(bytes),
                    strerror(errno));
    mprotect(map + body, page, PROT_NONE);
    madvise(map, body, MADV_HUGEPAGE);

    Mapping *mapping = NEW(pool, Mapping);
    *mapping = (Mapping){ map, body + page };
    pool_at_free(pool, mapping_undo, mapping);

    Arena *arena = NEW(pool, Arena);
    /* as close to the guard page as alignment allows */
    *arena = (Arena){ device, map + (body - (size_t)bytes) / ARENA_ALIGN * ARENA_ALIGN, bytes };
    memset(arena->base, 0, (size_t)bytes);
    *out = arena;
    return OK;
}

static int64_t resident_row(const char *row)
{
    FILE     *file = fopen("/proc/self/smaps_rollup", "r");
    char      line[128];
    long long kib = -1;
    size_t    n = strlen(row);
    while (file && kib < 0 && fgets(line, sizeof line, file))
        if (!strncmp(line, row, n) && sscanf(line + n, " %lld kB", &kib) != 1)
            kib = -1;
    if (file)
        fclose(file);
    return kib < 0 ? -1 : (int64_t)kib * 1024;
}

/* clang-format off */
int64_t resident_bytes(void)           { return resident_row("Rss:"); }
int64_t resident_anonymous_bytes(void) { return resident_row("Anonymous:"); }
/* clang-format on */
