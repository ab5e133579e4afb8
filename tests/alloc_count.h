/* alloc_count.h -- counts every allocation of the process, on any thread, by anyone.
 *
 * Include it in one file of a test program: it replaces malloc and the related functions and calls
 * the originals. They are looked up by name, so allocations of libraries are counted too. */
#ifndef TESTS_ALLOC_COUNT_H
#define TESTS_ALLOC_COUNT_H

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void  __libc_free(void *);

static atomic_llong alloc_calls, alloc_bytes, alloc_largest;

static inline void alloc_note(size_t size)
{
    atomic_fetch_add(&alloc_calls, 1);
    atomic_fetch_add(&alloc_bytes, (long long)size);
    long long old = atomic_load(&alloc_largest);
    while ((long long)size > old &&
           !atomic_compare_exchange_weak(&alloc_largest, &old, (long long)size)) {
    }
}

#ifndef __SANITIZE_ADDRESS__ /* the sanitizer replaces them itself: nothing is counted then */
void *malloc(size_t n)
{
    alloc_note(n);
    return __libc_malloc(n);
}
void *calloc(size_t n, size_t size)
{
    alloc_note(n * size);
    return __libc_calloc(n, size);
}
void *realloc(void *p, size_t n)
{
    alloc_note(n);
    return __libc_realloc(p, n);
}
void *memalign(size_t a, size_t n)
{
    alloc_note(n);
    return __libc_memalign(a, n);
}
void *aligned_alloc(size_t a, size_t n)
{
    alloc_note(n);
    return __libc_memalign(a, n);
}
void free(void *p) { __libc_free(p); }
int  posix_memalign(void **out, size_t a, size_t n)
{
    alloc_note(n);
    *out = __libc_memalign(a, n);
    return *out ? 0 : ENOMEM;
}
#endif

#endif
