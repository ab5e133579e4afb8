/* coded_audio.c -- fuzz target: a .plz file that parses has blocks within its bytes, and decoding any block
 * stays within its intervals. The input is used as a file, and with the right magic, version and checksum. */
#include "codec/coded_audio.h"

#include "base/checksum.h"
#include "codec/range_coder.h"

#include <stdlib.h>
#include <string.h>

enum { TRAILER = 8, STEPS = 300 };

static void try_blocks(const CodedAudio *a, const unsigned char *bytes, size_t n)
{
    for (int64_t i = 0; i < a->n_blocks; i++) {
        RangeDecoder d = range_decoder(a->blocks[i].bytes, a->blocks[i].n);
        REQUIRE(a->blocks[i].bytes >= bytes && a->blocks[i].bytes + a->blocks[i].n <= bytes + n);
        for (int k = 0; k < STEPS && i < 4; k++) {
            uint32_t at = range_decode_at(&d);
            REQUIRE(at < (uint32_t)1 << RANGE_BITS);
            range_decode(&d, at & ~(uint32_t)0xfff, 0x1000);
        }
    }
}

static void try_file(const unsigned char *bytes, size_t n)
{
    Pool      *pool = pool_new(NULL, "fuzz");
    CodedAudio a;
    if (coded_parse(pool, "fuzz", bytes, n, &a) == OK) {
        REQUIRE(a.head + a.n_head == a.tail && a.tail + a.n_tail <= bytes + n);
        REQUIRE(coded_bytes(&a) == (int64_t)n && strlen(a.isa) <= CODED_ISA);
        try_blocks(&a, bytes, n);
    }
    pool_free(pool);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    try_file(bytes, n);
    if (n < CODED_FIXED + TRAILER)
        return 0;
    unsigned char *copy = malloc(n);
    memcpy(copy, bytes, n);
    memcpy(copy, "PLZAUDIO\1\0\0\0", 12);
    Checksum sum = checksum_begin();
    checksum_add(&sum, copy, n - TRAILER);
    for (int i = 0; i < TRAILER; i++)
        copy[n - TRAILER + (size_t)i] = (unsigned char)(checksum_end(&sum) >> 8 * i);
    try_file(copy, n);
    free(copy);
    return 0;
}
