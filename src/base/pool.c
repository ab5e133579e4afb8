/* pool.c -- chunked bump allocation with a tree of lifetimes. */
#include "base/pool.h"

#include "base/err.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 64 * 1024, ALIGN = 16 };

typedef struct PoolChunk {
    struct PoolChunk *next;
    size_t            used, size;
    _Alignas(ALIGN) unsigned char bytes[];
} PoolChunk;

typedef struct Undo {
    struct Undo *next;
    void (*call)(void *);
    void *arg;
} Undo;

struct Pool {
    Pool       *parent, *first_child, *prev, *next; /* siblings are a doubly linked list */
    PoolChunk  *chunks;
    Undo       *undo;
    const char *name;
    Pool       *keeper;      /* itself or an ancestor (pool_keep), or NULL */
    PoolChunk  *spare;       /* of a keeper: freed, for reuse */
    Pool       *spare_pools; /* by next */
};

static atomic_llong pool_count;

static _Thread_local PoolGuard *pool_guards; /* the innermost */

void pool_guard(PoolGuard *guard, Pool *pool)
{
    guard->pool = pool;
    guard->outer = pool_guards;
    pool_guards = guard;
}

void pool_unguard(PoolGuard *guard) { pool_guards = guard->outer; }

void pool_out_of_memory(size_t bytes)
{
    if (pool_guards)
        longjmp(pool_guards->at, 1);
    fprintf(stderr, "plimsoll: out of host memory asking for %zu bytes\n", bytes);
    exit(1);
}

static void *pool_system(size_t size)
{
    void *p = calloc(1, size);
    if (!p)
        pool_out_of_memory(size);
    return p;
}

Pool *pool_try(const char *name)
{
    Pool *pool = calloc(1, sizeof *pool);
    if (pool)
        pool->name = name;
    return pool;
}

Pool *pool_new(Pool *parent, const char *name)
{
    if (!parent && pool_guards)
        parent = pool_guards->pool;
    Pool *keeper = parent ? parent->keeper : NULL, *pool = keeper ? keeper->spare_pools : NULL;
    if (pool) {
        keeper->spare_pools = pool->next;
        *pool = (Pool){ 0 };
    } else {
        pool = pool_system(sizeof *pool);
    }
    pool->name = name;
    pool->keeper = keeper;
    pool->parent = parent;
    if (parent) {
        pool->next = parent->first_child;
        if (pool->next)
            pool->next->prev = pool;
        parent->first_child = pool;
    }
    return pool;
}

/* The smallest spare chunk that is large enough, or a new one. */
static PoolChunk *chunk_new(Pool *keeper, size_t want)
{
    PoolChunk **best = NULL;
    for (PoolChunk **at = keeper ? &keeper->spare : NULL; at && *at; at = &(*at)->next)
        if ((*at)->size >= want && (!best || (*at)->size < (*best)->size))
            best = at;
    if (!best) {
        PoolChunk *fresh = pool_system(sizeof *fresh + want);
        fresh->size = want;
        return fresh;
    }
    PoolChunk *chunk = *best;
    *best = chunk->next;
    memset(chunk->bytes, 0, chunk->size);
    chunk->used = 0;
    return chunk;
}

void *pool_alloc(Pool *pool, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes) || bytes > SIZE_MAX - CHUNK_BYTES)
        pool_out_of_memory(SIZE_MAX);
    atomic_fetch_add_explicit(&pool_count, 1, memory_order_relaxed);
    bytes = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);

    PoolChunk *chunk = pool->chunks;
    if (!chunk || chunk->size - chunk->used < bytes) {
        size_t     want = bytes > CHUNK_BYTES / 4 ? bytes : CHUNK_BYTES; /* large ones live alone */
        PoolChunk *fresh = chunk_new(pool->keeper, want);
        if (chunk && want == bytes) { /* keep filling the chunk that still has room */
            fresh->next = chunk->next;
            chunk->next = fresh;
        } else {
            fresh->next = chunk;
            pool->chunks = fresh;
        }
        chunk = fresh;
    }
    void *p = chunk->bytes + chunk->used;
    chunk->used += bytes;
    return p;
}

void *pool_grow(Pool *pool, void *old, size_t old_bytes, size_t new_bytes)
{
    void *p = pool_alloc(pool, new_bytes, 1);
    if (old_bytes)
        memcpy(p, old, old_bytes);
    return p;
}

void *pool_room(Pool *pool, void *list, int32_t n, int32_t *cap, size_t size)
{
    if (n < *cap)
        return list;
    REQUIRE(*cap <= INT32_MAX / 2);
    int32_t more = *cap ? 2 * *cap : 8;
    list = pool_grow(pool, list, (size_t)n * size, (size_t)more * size);
    *cap = more;
    return list;
}

char *pool_textn(Pool *pool, const char *text, size_t n)
{
    char *copy = pool_alloc(pool, n + 1, 1);
    memcpy(copy, text, n);
    return copy;
}

char *pool_text(Pool *pool, const char *text) { return pool_textn(pool, text, strlen(text)); }

char *pool_print(Pool *pool, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *text = pool_alloc(pool, (size_t)(n > 0 ? n : 0) + 1, 1);
    vsnprintf(text, (size_t)(n > 0 ? n : 0) + 1, fmt, again);
    va_end(again);
    return text;
}

void pool_at_free(Pool *pool, void (*call)(void *), void *arg)
{
    Undo *undo = NEW(pool, Undo);
    *undo = (Undo){ .next = pool->undo, .call = call, .arg = arg };
    pool->undo = undo;
}

static void chunks_free(PoolChunk *chunk)
{
    for (PoolChunk *next; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
}

void pool_keep(Pool *pool)
{
    REQUIRE(!pool->first_child && !pool->keeper); /* before it is used */
    pool->keeper = pool;
}

void pool_reset(Pool *pool)
{
    while (pool->first_child)
        pool_free(pool->first_child);
    for (Undo *undo = pool->undo; undo; undo = undo->next)
        undo->call(undo->arg);
    pool->undo = NULL;
    Pool *keeper = pool->keeper;
    for (PoolChunk *chunk = pool->chunks, *next; keeper && chunk; chunk = next) {
        next = chunk->next;
        chunk->next = keeper->spare;
        keeper->spare = chunk;
    }
    if (!keeper)
        chunks_free(pool->chunks);
    pool->chunks = NULL;
}

void pool_free(Pool *pool)
{
    if (!pool)
        return;
    pool_reset(pool);
    if (pool->prev)
        pool->prev->next = pool->next;
    else if (pool->parent)
        pool->parent->first_child = pool->next;
    if (pool->next)
        pool->next->prev = pool->prev;
    if (pool->keeper && pool->keeper != pool) {
        pool->next = pool->keeper->spare_pools;
        pool->keeper->spare_pools = pool;
        return;
    }
    chunks_free(pool->spare);
    for (Pool *spare = pool->spare_pools, *next; spare; spare = next) {
        next = spare->next;
        free(spare);
    }
    free(pool);
}

size_t pool_bytes(const Pool *pool)
{
    size_t bytes = 0;
    for (const PoolChunk *chunk = pool->chunks; chunk; chunk = chunk->next)
        bytes += sizeof *chunk + chunk->size;
    for (const PoolChunk *chunk = pool->spare; chunk; chunk = chunk->next)
        bytes += sizeof *chunk + chunk->size;
    for (const Pool *child = pool->first_child; child; child = child->next)
        bytes += pool_bytes(child);
    return bytes;
}

int64_t pool_allocations(void) { return atomic_load_explicit(&pool_count, memory_order_relaxed); }
