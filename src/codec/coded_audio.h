/* coded_audio.h -- the file that `compress` writes (.plz; docs/user/FORMATS.md, plimsoll-audio-1).
 *
 * Little endian:
 *
 *   char[8] "PLZAUDIO"; u32 version, 1; u32 flags: 1 = averaged weights
 *   u64 hash of the weights; u64 step of the checkpoint; u64 checksum of the samples; u64 frames
 *   u32 threads; u32 rate; u16 channels; u16 bits; char[24] ISA, zeros behind
 *   u32 steps of a block; u32 bytes of the head; u32 bytes of the tail
 *   u32[] bytes of each block
 *   the WAV file before its samples (head), after them (tail), the blocks
 *   u64 checksum of all bytes before it
 *
 * A step is one sample of one channel. The checksums are XXH64. */
#ifndef CODEC_CODED_AUDIO_H
#define CODEC_CODED_AUDIO_H

#include "base/err.h"
#include "base/int_math.h"
#include "base/pool.h"

#include <stdbool.h>

enum {
    CODED_VERSION = 1,
    CODED_ISA = 24,
    CODED_THREADS = 1024,
    CODED_BLOCK_MIN = 16,
    CODED_BLOCK_MAX = 1 << 26, /* steps */
    CODED_FIXED = 96           /* bytes before the table */
};

typedef struct CodedBlock {
    const uint8_t *bytes;
    uint32_t       n;
} CodedBlock;

typedef struct CodedAudio {
    uint64_t       weights, samples; /* hash, checksum */
    int64_t        step, frames, threads, rate, channels, bits, block_steps;
    bool           averaged;
    char           isa[CODED_ISA + 1];
    const uint8_t *head, *tail;
    int64_t        n_head, n_tail, n_blocks;
    CodedBlock    *blocks;
} CodedAudio;

/* The number of blocks that these frames need. */
static inline int64_t coded_blocks(int64_t frames, int64_t channels, int64_t block_steps)
{
    return ceil_div(frames * channels, block_steps);
}
static inline bool coded_is(const unsigned char *bytes, size_t n) /* by its first bytes */
{
    return n >= 8 && !__builtin_memcmp(bytes, "PLZAUDIO", 8);
}

int64_t coded_bytes(const CodedAudio *a);
Err     coded_write(const char *path, const CodedAudio *a);
/* Points into the bytes. Nothing is allocated before sizes and the checksum have been checked. */
Err coded_parse(Pool *pool, const char *name, const unsigned char *bytes, size_t n, CodedAudio *a);

#endif
