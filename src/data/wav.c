/* wav.c -- reading and writing RIFF/WAVE. */
#include "data/wav.h"

#include "base/endian.h"
#include "base/file.h"
#include "data/source.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

enum {
    WAV_HEAD = 64 * 1024, /* bytes that must hold all chunks before the audio */
    FORMAT_PCM = 1,
    FORMAT_FLOAT = 3,
    FORMAT_A_LAW = 6,
    FORMAT_MU_LAW = 7,
    FORMAT_EXTENSIBLE = 0xFFFE,
    MAX_CHANNELS = 64
};

static Err wav_format(const char *name, const unsigned char *f, size_t n, WavInfo *info)
{
    if (n < 16)
        return fail(E_FORMAT, "%s: its 'fmt ' chunk has %zu bytes instead of 16 or more", name, n);
    uint32_t format = little16(f), channels = little16(f + 2), rate = little32(f + 4);
    uint32_t align = little16(f + 12), bits = little16(f + 14);
    if (format == FORMAT_EXTENSIBLE && n >= 40)
        format = little16(f + 24); /* the sub-format begins with the plain format */
    bool law = format == FORMAT_A_LAW || format == FORMAT_MU_LAW;
    if (format != FORMAT_PCM && format != FORMAT_FLOAT && !law)
        return fail(E_FORMAT,
                    "%s is in WAVE format %u; integers (1), floats (3), A-law (6) and mu-law (7) "
                    "are read",
                    name, format);
    if (law                      ? bits != 8
        : format == FORMAT_FLOAT ? bits != 32 && bits != 64
                                 : bits != 8 && bits != 16 && bits != 24 && bits != 32)
        return fail(E_FORMAT,
                    "%s has %s samples of %u bits; integers of 8, 16, 24 and 32 bits, floats of 32 "
                    "and 64, and A-law and mu-law of 8 are read",
                    name,
                    law                      ? "A-law or mu-law"
                    : format == FORMAT_FLOAT ? "float"
                                             : "integer",
                    bits);
    if (!channels || channels > MAX_CHANNELS || !rate || rate > 10000000 ||
        align != channels * bits / 8)
        return fail(E_FORMAT,
                    "%s has a wrong header: %u channels (at most %d), %u frames a second, %u bits, "
                    "%u bytes a frame",
                    name, channels, MAX_CHANNELS, rate, bits, align);
    *info = (WavInfo){ .rate = rate,
                       .channels = channels,
                       .bits = (int)bits,
                       .floats = format == FORMAT_FLOAT,
                       .a_law = format == FORMAT_A_LAW,
                       .mu_law = format == FORMAT_MU_LAW };
    return OK;
}

/* Files that are often called .wav and are none. */
static Err not_wav(const char *name, const unsigned char *bytes, size_t n)
{
    static const struct {
        const char *begin, *kind, *ending;
    } others[] = { { "fLaC", "FLAC", ".flac" },
                   { "OggS", "Ogg", ".ogg" },
                   { "ID3", "MP3", ".mp3" } };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (n >= strlen(others[i].begin) &&
            !memcmp(bytes, others[i].begin, strlen(others[i].begin)))
            return name_ends(name, others[i].ending)
                       ? fail(E_FORMAT, "%s is not a WAV file: it is %s; convert it to WAV", name,
                              others[i].kind)
                       : fail(E_FORMAT,
                              "%s is not a WAV file: it is %s; name it %s, or convert it to WAV",
                              name, others[i].kind, others[i].ending);
    if (n >= 4 && !memcmp(bytes, "RF64", 4))
        return fail(
            E_FORMAT,
            "%s is not a WAV file: it is RF64, for more than 4 GiB; divide it, or convert it "
            "to FLAC",
            name);
    TRY(file_check_fetched(name, bytes, n));
    return fail(E_FORMAT, "%s is not a WAV file: it does not begin with RIFF....WAVE", name);
}

/* A program that writes to a pipe cannot go back to fill in the size: ffmpeg leaves all ones, SoX as
 * many frames as 0x7ffff000 bytes hold. The audio then goes on to the end of the file. */
static size_t piped_size(const WavInfo *info, size_t size, size_t left)
{
    const size_t frame = wav_frame_bytes(info), sox = 0x7ffff000;
    bool         piped = size > left && (size == UINT32_MAX || size == sox / frame * frame);
    return piped ? left / frame * frame : size;
}

Err wav_parse(const char *name, const unsigned char *bytes, size_t n, size_t file_bytes,
              WavInfo *info)
{
    size_t at = 12;
    bool   format = false;
    *info = (WavInfo){ 0 };
    if (n < 12 || memcmp(bytes, "RIFF", 4) || memcmp(bytes + 8, "WAVE", 4))
        return not_wav(name, bytes, n);
    for (;;) {
        if (at + 8 > file_bytes)
            return fail(E_FORMAT, "%s ends before its 'data' chunk: it holds no audio", name);
        if (at + 8 > n)
            return fail(E_FORMAT, "%s: its 'data' chunk does not begin within the first %d KiB",
                        name, WAV_HEAD / 1024);
        const unsigned char *chunk = bytes + at;
        size_t               size = little32(chunk + 4);
        at += 8;
        if (!memcmp(chunk, "data", 4)) {
            if (!format)
                return fail(E_FORMAT, "%s has a 'data' chunk before its 'fmt ' chunk", name);
            size = piped_size(info, size, file_bytes - at);
            if (size > file_bytes - at)
                return fail(E_FORMAT,
                            "%s is a truncated WAV: its header says %zu bytes of audio, the file "
                            "has %zu",
                            name, size, file_bytes - at);
            if (size % wav_frame_bytes(info))
                return fail(E_FORMAT,
                            "%s: its %zu bytes of audio are not a multiple of the %zu bytes of a "
                            "frame",
                            name, size, wav_frame_bytes(info));
            info->offset = at;
            info->frames = (int64_t)(size / wav_frame_bytes(info));
            return OK;
        }
        if (size > file_bytes - at)
            return fail(E_FORMAT, "%s is a truncated WAV: chunk '%.4s' of %zu bytes does not fit",
                        name, (const char *)chunk, size);
        if (!memcmp(chunk, "fmt ", 4)) {
            if (at + size > n)
                return fail(E_FORMAT, "%s: its 'fmt ' chunk is not within the first %d KiB", name,
                            WAV_HEAD / 1024);
            TRY(wav_format(name, bytes + at, size, info));
            format = true;
        }
        at += size + size % 2; /* chunks begin at even offsets */
    }
}

static _Thread_local unsigned char wav_head[WAV_HEAD];

Err wav_look(const char *path, WavInfo *info)
{
    size_t file_bytes, n;
    int    fd;
    TRY(file_open_plain(path, &fd, &file_bytes));
    n = file_bytes < WAV_HEAD ? file_bytes : WAV_HEAD;
    Err err = file_read_at(fd, path, 0, wav_head, n);
    close(fd);
    return err ? err : wav_parse(path, wav_head, n, file_bytes, info);
}

/* Checks that the file has not changed since wav_look: by an old header other bytes would be
 * noise. */
static Err wav_same(int fd, const char *path, size_t file_bytes, const WavInfo *was)
{
    size_t  n = was->offset < WAV_HEAD ? was->offset : WAV_HEAD;
    WavInfo now;
    n = n < file_bytes ? n : file_bytes;
    TRY(file_read_at(fd, path, 0, wav_head, n));
    Err err = wav_parse(path, wav_head, n, file_bytes, &now);
    if (!err && now.rate == was->rate && now.channels == was->channels &&
        now.frames == was->frames && now.bits == was->bits && now.floats == was->floats &&
        now.a_law == was->a_law && now.mu_law == was->mu_law && now.offset == was->offset)
        return OK;
    return fail(E_FORMAT, "%s has changed since the run began; restore it, or restart the run",
                path);
}

/* ITU-T G.711: a sign, three bits of exponent, four of mantissa; to 16-bit numbers. */
static int mu_law_level(int code)
{
    int x = ~code & 0xff, level = (((x & 15) << 3) + 0x84) << (x >> 4 & 7);
    return x & 0x80 ? 0x84 - level : level - 0x84;
}

static int a_law_level(int code)
{
    int x = code ^ 0x55, exponent = x >> 4 & 7, level = ((x & 15) << 4) + 8;
    if (exponent)
        level = (level + 0x100) << (exponent - 1);
    return x & 0x80 ? level : -level;
}

static float float_at(const unsigned char *p, int bits)
{
    uint64_t wide = little32(p);
    uint32_t narrow = (uint32_t)wide;
    float    single;
    double   twice;
    memcpy(&single, &narrow, 4);
    if (bits == 32)
        return single;
    wide |= (uint64_t)little32(p + 4) << 32;
    memcpy(&twice, &wide, 8);
    return (float)twice;
}

void wav_floats(const WavInfo *info, const unsigned char *raw, int64_t n, float *to)
{
    for (int64_t i = 0; i < n; i++) {
        const unsigned char *p = raw + i * (info->bits / 8);
        if (info->floats) {
            to[i] = float_at(p, info->bits);
            to[i] = to[i] > -1 ? (to[i] < 1 ? to[i] : 1) : -1;
        } else if (info->a_law || info->mu_law)
            to[i] = (float)(info->a_law ? a_law_level(p[0]) : mu_law_level(p[0])) / 32768;
        else if (info->bits == 8)
            to[i] = (float)((int)p[0] - 128) / 128;
        else if (info->bits == 16)
            to[i] = (float)(int16_t)little16(p) / 32768;
        else {
            int32_t x = info->bits == 24 ? (int32_t)((uint32_t)p[0] << 8 | (uint32_t)p[1] << 16 |
                                                     (uint32_t)p[2] << 24)
                                         : (int32_t)little32(p);
            to[i] = (float)((double)x / 2147483648.0);
        }
    }
}

Err wav_read(const char *path, const WavInfo *info, int64_t first, int64_t n, unsigned char *raw,
             float *to)
{
    size_t frame = wav_frame_bytes(info), file_bytes;
    int    fd;
    TRY(file_open_plain(path, &fd, &file_bytes));
    Err err = wav_same(fd, path, file_bytes, info);
    if (!err)
        err = file_read_at(fd, path, info->offset + (size_t)first * frame, raw, (size_t)n * frame);
    close(fd);
    TRY(err);
    for (int64_t i = 0; info->floats && i < n * info->channels; i++)
        if (!isfinite(float_at(raw + i * (info->bits / 8), info->bits)))
            return fail(E_FORMAT,
                        "%s: frame %lld is not a finite number; repair or remove the file", path,
                        (long long)(first + i / info->channels));
    wav_floats(info, raw, n * info->channels, to);
    return OK;
}

static unsigned char *put_little(unsigned char *to, uint32_t x, int n)
{
    little_put(to, x, n);
    return to + n;
}

Err wav_write(const char *path, const float *samples, int64_t frames, int64_t channels,
              int64_t rate)
{
    return wav_write_in(NULL, path, samples, frames, channels, rate);
}

Err wav_write_in(Pool *parent, const char *path, const float *samples, int64_t frames,
                 int64_t channels, int64_t rate)
{
    int64_t n = frames * channels;
    if (frames < 0 || channels < 1 || channels > MAX_CHANNELS || rate < 1 ||
        n > (INT32_MAX - 44) / 2)
        return fail(E_USAGE, "%s: cannot write %lld frames of %lld channels at %lld a second",
                    path ? path : "a sample", (long long)frames, (long long)channels,
                    (long long)rate);
    Pool          *pool = pool_new(parent, "wav");
    unsigned char *file = NEWN(pool, unsigned char, 44 + 2 * n), *at = file;
    memcpy(at, "RIFF", 4);
    at = put_little(at + 4, (uint32_t)(36 + 2 * n), 4);
    memcpy(at, "WAVEfmt ", 8);
    at = put_little(at + 8, 16, 4);
    at = put_little(at, FORMAT_PCM, 2);
    at = put_little(at, (uint32_t)channels, 2);
    at = put_little(at, (uint32_t)rate, 4);
    at = put_little(at, (uint32_t)(rate * channels * 2), 4);
    at = put_little(at, (uint32_t)(channels * 2), 2);
    at = put_little(at, 16, 2);
    memcpy(at, "data", 4);
    at = put_little(at + 4, (uint32_t)(2 * n), 4);
    for (int64_t i = 0; i < n; i++) {
        float x = samples[i] > -1 ? (samples[i] < 1 ? samples[i] : 1) : -1;
        long  level = lrintf(x * 32768);
        at = put_little(at, (uint32_t)(level > 32767 ? 32767 : level), 2);
    }
    Err err = path ? file_write(path, file, (size_t)(at - file)) : OK;
    pool_free(pool);
    return err;
}
