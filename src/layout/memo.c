/* memo.c -- keeps the layouts of the last searches.
 *
 * Planning places the same buffers many times: everything kept, the plan with the smallest peak, a
 * plan that two settings of the levers share. The result depends on buffers and options alone, so
 * the last few are kept for the process, each under two hashes of its input. A collision of both is
 * practically impossible, and layout_check, which checks every placement, would refuse the result.
 */
#include "base/hash.h"
#include "layout/layout_int.h"

#include <pthread.h>
#include <stdlib.h>

enum { MEMO_ENTRIES = 64 }; /* at most 8 MiB of offsets */

typedef struct Memo {
    MemoKey      key;
    int          n;
    int64_t     *offset; /* NULL: free */
    LayoutResult result;
} Memo;

static pthread_mutex_t memo_lock = PTHREAD_MUTEX_INITIALIZER;
static Memo            memos[MEMO_ENTRIES];
static int             memo_next; /* the oldest entry, replaced next */

MemoKey memo_key(const Buffer *buffers, int n, const LayoutOptions *options)
{
    const int64_t rest[] = { n, options->capacity, options->max_nodes, (int64_t)options->seed };
    MemoKey       key = { hash_bytes(HASH_EMPTY, rest, sizeof rest), 0x9e3779b97f4a7c15u };
    for (int i = 0; i < n; i++) {
        const Buffer *b = &buffers[i];
        const int64_t words[] = { b->lower, b->upper, b->size, b->align,
                                  b->fixed ? b->offset : -1 };
        key.a = hash_bytes(key.a, words, sizeof words);
        for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
            key.b = (key.b ^ (uint64_t)words[w]) * 0xff51afd7ed558ccdu;
            key.b ^= key.b >> 32;
        }
    }
    return key;
}

/* NULL: not found. The caller holds the lock. */
static Memo *memo_at(MemoKey key, int n)
{
    for (int i = 0; i < MEMO_ENTRIES; i++)
        if (memos[i].offset && memos[i].n == n && memos[i].key.a == key.a &&
            memos[i].key.b == key.b)
            return &memos[i];
    return NULL;
}

bool memo_find(MemoKey key, Buffer *buffers, int n, LayoutResult *result)
{
    pthread_mutex_lock(&memo_lock);
    const Memo *memo = memo_at(key, n);
    for (int i = 0; memo && i < n; i++)
        buffers[i].offset = memo->offset[i];
    if (memo)
        *result = memo->result;
    pthread_mutex_unlock(&memo_lock);
    return memo != NULL;
}

void memo_keep(MemoKey key, const Buffer *buffers, int n, const LayoutResult *result)
{
    int64_t *offset = malloc(sizeof *offset * (size_t)n);
    if (!offset)
        return; /* it will be searched again */
    for (int i = 0; i < n; i++)
        offset[i] = buffers[i].offset;
    pthread_mutex_lock(&memo_lock);
    Memo *memo = &memos[memo_next];
    memo_next = (memo_next + 1) % MEMO_ENTRIES;
    free(memo->offset);
    *memo = (Memo){ key, n, offset, *result };
    pthread_mutex_unlock(&memo_lock);
}
