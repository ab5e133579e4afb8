/* sort_cpu.c -- sorting on the CPU. A key holds a value, made an unsigned number of the same order,
 * and its index: no two are equal, and equal values stay in the order of their indices. */
#include "ops/index/sort.h"

#include "device/convert.h"
#include "ops/parallel.h"

enum { FEW = 32, RADIX = 256, KEYS = 256 };

/* The k smallest keys by a heap, where that is less work than sorting them all. */
static bool heap_pays(int64_t n, int64_t k) { return k <= 64 && 4 * k <= n; }

static int64_t sort_keys(int64_t n, int64_t k) { return heap_pays(n, k) ? k : 2 * n; }

Err sort_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    choice->workspace_bytes = (size_t)device->threads *
                              (size_t)sort_keys(dim(in_shape(n, 0), -1), ATTR(n, SortAttr)->k) *
                              sizeof(uint64_t);
    return OK;
}

static uint32_t word_of(float value) /* unsigned words in the order of floats; NaN is largest */
{
    uint32_t word;
    value += 0.0f; /* -0 is 0 */
    memcpy(&word, &value, 4);
    word = value != value ? 0x7fc00000u : word;
    return word ^ (word >> 31 ? 0xffffffffu : 0x80000000u);
}

/* The keys of elements i to i + n of a row; n is at most KEYS. */
static void keys_load(Type type, const void *x, int64_t first, int64_t i, int64_t n,
                      bool descending, uint64_t *key)
{
    uint32_t flip = descending ? 0xffffffffu : 0;
    float    buffer[KEYS];
    if (type == I32)
        for (int64_t j = 0; j < n; j++)
            key[j] = (uint64_t)((uint32_t)((const int32_t *)x)[first + i + j] ^ 0x80000000u ^ flip)
                         << 32 |
                     (uint64_t)(i + j);
    else if (type == U8)
        for (int64_t j = 0; j < n; j++)
            key[j] = (uint64_t)(((const uint8_t *)x)[first + i + j] ^ flip) << 32 |
                     (uint64_t)(i + j);
    else {
        const float *value = row_load(type, x, first + i, n, buffer);
        for (int64_t j = 0; j < n; j++)
            key[j] = (uint64_t)(word_of(value[j]) ^ flip) << 32 | (uint64_t)(i + j);
    }
}

static void sort_few(uint64_t *key, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        uint64_t own = key[i];
        int64_t  j = i;
        for (; j > 0 && key[j - 1] > own; j--)
            key[j] = key[j - 1];
        key[j] = own;
    }
}

/* By the bytes of the value, from the lowest on; each pass keeps the order of equals. */
static void sort_radix(uint64_t *key, uint64_t *other, int64_t n)
{
    for (int shift = 32; shift < 64; shift += 8) {
        int64_t   at[RADIX] = { 0 }, sum = 0;
        uint64_t *swap = key;
        for (int64_t i = 0; i < n; i++)
            at[key[i] >> shift & 255]++;
        for (int b = 0; b < RADIX; b++) {
            int64_t count = at[b];
            at[b] = sum;
            sum += count;
        }
        for (int64_t i = 0; i < n; i++)
            other[at[key[i] >> shift & 255]++] = key[i];
        key = other;
        other = swap;
    }
}

static void heap_sink(uint64_t *heap, int64_t k, int64_t i) /* the largest is at the root */
{
    uint64_t own = heap[i];
    for (int64_t child; (child = 2 * i + 1) < k; i = child) {
        child += child + 1 < k && heap[child + 1] > heap[child];
        if (heap[child] <= own)
            break;
        heap[i] = heap[child];
    }
    heap[i] = own;
}

/* The k smallest keys of a row, in a heap. */
static void heap_row(Type type, const void *x, int64_t first, int64_t n, const SortAttr *at,
                     uint64_t *heap)
{
    uint64_t key[KEYS];
    int64_t  have = 0;
    for (int64_t i = 0; i < n; i += KEYS) {
        int64_t m = n - i < KEYS ? n - i : KEYS, j = 0;
        keys_load(type, x, first, i, m, at->descending, key);
        for (; j < m && have < at->k; j++) {
            heap[have++] = key[j];
            for (int64_t s = at->k / 2 - 1; have == at->k && s >= 0; s--)
                heap_sink(heap, at->k, s);
        }
        for (; j < m; j++)
            if (key[j] < heap[0]) {
                heap[0] = key[j];
                heap_sink(heap, at->k, 0);
            }
    }
}

static void sort_row(const Call *call, const SortAttr *at, int64_t row, uint64_t *key)
{
    Type    type = in_type(call->node, 0);
    int64_t n = dim(in_shape(call->node, 0), -1), first = row * n, k = at->k;
    if (heap_pays(n, k)) {
        heap_row(type, call->in[0], first, n, at, key);
        sort_few(key, k);
    } else {
        for (int64_t i = 0; i < n; i += KEYS)
            keys_load(type, call->in[0], first, i, n - i < KEYS ? n - i : KEYS, at->descending,
                      key + i);
        if (n <= FEW)
            sort_few(key, n);
        else
            sort_radix(key, key + n, n); /* four passes: back in place */
    }
    int64_t size = type_bytes(type);
    for (int64_t i = 0; i < k; i++) {
        int64_t from = (int64_t)(key[i] & 0xffffffffu);
        if (call->out[0])
            memcpy((char *)call->out[0] + (row * k + i) * size,
                   (const char *)call->in[0] + (first + from) * size, (size_t)size);
        if (call->out[1])
            ((int32_t *)call->out[1])[row * k + i] = (int32_t)from;
    }
}

Err sort_cpu(const Call *call)
{
    const SortAttr *at = ATTR(call->node, SortAttr);
    Shape           s = in_shape(call->node, 0);
    int64_t         rows = shape_rows(s), keys = sort_keys(dim(s, -1), at->k);
    int             threads = call->device->threads;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t r = 0; r < rows; r++)
        sort_row(call, at, r, (uint64_t *)call->workspace + omp_get_thread_num() * keys);
    return OK;
}
