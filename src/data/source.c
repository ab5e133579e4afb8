/* source.c -- the order of samples: a keyed permutation that needs no table.
 *
 * A four-round Feistel network over the next even number of bits, walked until it lands inside
 * [0, n) (cycle walking): a bijection of [0, n) for every key. */
#include "data/source.h"

#include "base/random.h"

int64_t source_order(const DataSource *source, uint64_t seed, int64_t drawn)
{
    uint64_t n = (uint64_t)source->n_samples, epoch = (uint64_t)drawn / n, at = (uint64_t)drawn % n;
    int      half = 1;
    while ((uint64_t)1 << (2 * half) < n)
        half++;
    uint64_t mask = ((uint64_t)1 << half) - 1;
    do {
        uint64_t left = at >> half, right = at & mask;
        for (uint32_t round = 0; round < 4; round++) {
            uint32_t  word[4];
            RandomKey key = { .seed = seed, .stream = 0x5eed0000u + round, .step = (uint32_t)epoch };
            random_block(key, right, word);
            uint64_t next = left ^ (word[0] & mask);
            left = right;
            right = next;
        }
        at = left << half | right;
    } while (at >= n);
    return (int64_t)at;
}
