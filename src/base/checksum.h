/* checksum.h -- XXH64 of a stream of bytes: detects changed files at the speed of memory.
 *
 * The published algorithm (github.com/Cyan4973/xxHash, doc/xxhash_spec.md) with seed 0, so that
 * other tools can check a file too (xxhsum -H64). It detects accidents, not attacks.
 */
#ifndef BASE_CHECKSUM_H
#define BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

enum { CHECKSUM_STRIPE = 32 }; /* bytes, a quarter for each lane */

typedef struct Checksum {
    uint64_t      lane[4], n;            /* n: bytes so far */
    unsigned char rest[CHECKSUM_STRIPE]; /* the last n % CHECKSUM_STRIPE of them */
} Checksum;

Checksum checksum_begin(void);
void     checksum_add(Checksum *sum, const void *bytes, size_t n);
uint64_t checksum_end(const Checksum *sum); /* of all bytes so far; more may follow */

#endif
