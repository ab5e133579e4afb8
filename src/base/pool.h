/* pool.h -- host memory for C objects, as a tree of lifetimes.
 *
 * A function that makes something takes the pool it shall live in as its first argument; nothing
 * is freed singly. Freeing a pool frees its children first, then runs its undo calls (files,
 * handles) in reverse order, then returns the bytes. Running out of host memory stops the program,
 * unless the thread has a guard.
 * Pools are for host objects only: tensor bytes live in an arena (device/device.h).
 */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Pool Pool;

Pool *pool_new(Pool *parent, const char *name);      /* freed with its parent, at the latest */
void *pool_alloc(Pool *pool, size_t n, size_t size); /* zeroed; overflow or no memory stops */
void *pool_grow(Pool *pool, void *old, size_t old_bytes, size_t new_bytes); /* moved; rest zeroed */
char *pool_text(Pool *pool, const char *text);                              /* a copy */
char *pool_textn(Pool *pool, const char *text, size_t n);
char *pool_print(Pool *pool, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void  pool_at_free(Pool *pool, void (*undo)(void *), void *arg);
void  pool_free(Pool *pool); /* NULL is allowed */
/* For repeated work: memory that the pool and its children free stays with the pool for the next
 * round; pool_reset frees all of it. From the second round on nothing is asked of the system. */
void  pool_keep(Pool *pool);
void  pool_reset(Pool *pool);
size_t  pool_bytes(const Pool *pool); /* held by it and its children */
int64_t pool_allocations(void);       /* pool_alloc calls so far, all pools */

/* For a library, which must not stop its program. While a guard is set, running out of memory jumps
 * to it, and pools without a parent become children of its pool, so that freeing that one frees all:
 *
 *   PoolGuard guard;
 *   pool_guard(&guard, pool);
 *   bool enough = !setjmp(guard.at);
 *   if (enough)
 *       work(pool);
 *   pool_unguard(&guard);
 *
 * A guard is its thread's own; a parallel region needs one per thread. */
typedef struct PoolGuard {
    jmp_buf           at;
    Pool             *pool;
    struct PoolGuard *outer;
} PoolGuard;

void  pool_guard(PoolGuard *guard, Pool *pool);
void  pool_unguard(PoolGuard *guard);
Pool *pool_try(const char *name); /* a pool without a parent; NULL: no memory */
/* To the thread's guard; if it has none, the program stops. */
void  pool_out_of_memory(size_t bytes) __attribute__((noreturn));

#define NEW(pool, T)     ((T *)pool_alloc((pool), 1, sizeof(T)))
#define NEWN(pool, T, n) ((T *)pool_alloc((pool), (size_t)(n), sizeof(T)))

/* Append to a pooled array that doubles: VEC_ADD(pool, list, n, cap, item); n and cap are
 * int32_t. */
void *pool_room(Pool *pool, void *list, int32_t n, int32_t *cap, size_t size);

#define VEC_ADD(pool, list, n, cap, ...)                                                           \
    do {                                                                                           \
        (list) = pool_room((pool), (list), (n), &(cap), sizeof *(list));                           \
        (list)[(n)++] = __VA_ARGS__;                                                               \
    } while (0)

#endif
