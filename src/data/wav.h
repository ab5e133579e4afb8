/* wav.h -- audio in RIFF/WAVE files: integer samples of 8, 16, 24 and 32 bits, floats of 32 and 64
 * bits, A-law and mu-law.
 *
 * Parsing reads the chunk headers only and is strict: what a header says must be true of the file.
 */
#ifndef DATA_WAV_H
#define DATA_WAV_H

#include "base/err.h"
#include "base/pool.h"

#include <stdbool.h>

enum { WAV_MAX_BYTES = 8 }; /* of a sample in a file */

typedef struct WavInfo {
    int64_t rate, channels, frames; /* a frame is one sample of every channel */
    int     bits;                   /* of a sample in the file */
    bool    floats, a_law, mu_law;
    size_t  offset; /* of the first frame in the file */
} WavInfo;

static inline size_t wav_frame_bytes(const WavInfo *info)
{
    return (size_t)info->channels * (size_t)(info->bits / 8);
}

/* `bytes` are the first n of a file of file_bytes; the chunks before the audio must be among
 * them. */
Err wav_parse(const char *name, const unsigned char *bytes, size_t n, size_t file_bytes,
              WavInfo *info);
Err wav_look(const char *path, WavInfo *info);

/* Frames first .. first + n - 1 as floats in [-1,1], (n, channels). `raw` has room for n frames.
 * Fails if the file is no longer the one that `info` describes. */
Err  wav_read(const char *path, const WavInfo *info, int64_t first, int64_t n, unsigned char *raw,
              float *to);
void wav_floats(const WavInfo *info, const unsigned char *raw, int64_t n_samples, float *to);

/* 16-bit samples from floats in [-1,1], (frames, channels). */
Err wav_write(const char *path, const float *samples, int64_t frames, int64_t channels,
              int64_t rate);
/* The same with its memory from a pool. path NULL: does everything but write the file. */
Err wav_write_in(Pool *pool, const char *path, const float *samples, int64_t frames,
                 int64_t channels, int64_t rate);

#endif
