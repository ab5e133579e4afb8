/* wav.c -- WAV files read and written: every sample type, and wrong headers. */
#include "test.h"

#include "base/file.h"
#include "data/wav.h"
#include "base/audio_levels.h"

#include <stdlib.h>

static unsigned char bytes[4096];

static size_t little(size_t at, uint32_t x, int n)
{
    for (int i = 0; i < n; i++)
        bytes[at++] = (unsigned char)(x >> 8 * i);
    return at;
}

/* A file with a LIST chunk of odd length before the audio. */
static size_t make(int format, int channels, int rate, int bits, int align, const void *data,
                   uint32_t n)
{
    size_t at = 12;
    memcpy(bytes, "RIFF\0\0\0\0WAVE", 12);
    memcpy(bytes + at, "LIST", 4);
    at = little(at + 4, 3, 4) + 4;
    memcpy(bytes + at, "fmt ", 4);
    at = little(at + 4, 16, 4);
    at = little(at, (uint32_t)format, 2);
    at = little(at, (uint32_t)channels, 2);
    at = little(at, (uint32_t)rate, 4);
    at = little(at, (uint32_t)(rate * align), 4);
    at = little(at, (uint32_t)align, 2);
    at = little(at, (uint32_t)bits, 2);
    memcpy(bytes + at, "data", 4);
    at = little(at + 4, n, 4);
    memcpy(bytes + at, data, n);
    return at + n;
}

static void every_sample_type(void)
{
    WavInfo             info;
    float               x[4];
    const unsigned char u8[] = { 0, 128, 255, 64 };
    size_t              n = make(1, 1, 8000, 8, 1, u8, 4);
    CHECK_OK(wav_parse("a", bytes, n, n, &info));
    CHECK_INT(info.frames, 4);
    CHECK_INT(info.rate, 8000);
    wav_floats(&info, bytes + info.offset, 4, x);
    CHECK_NEAR(x[0], -1, 0);
    CHECK_NEAR(x[1], 0, 0);
    CHECK_NEAR(x[2], 127.0 / 128, 0);

    const int16_t s16[] = { -32768, 32767, 0, 1 };
    n = make(1, 2, 44100, 16, 4, s16, 8);
    CHECK_OK(wav_parse("a", bytes, n, n, &info));
    CHECK_INT(info.frames, 2);
    CHECK_INT(info.channels, 2);
    wav_floats(&info, bytes + info.offset, 4, x);
    CHECK_NEAR(x[0], -1, 0);
    CHECK_NEAR(x[1], 32767.0 / 32768, 0);
    CHECK_NEAR(x[3], 1.0 / 32768, 0);

    const unsigned char s24[] = { 0, 0, 0x80, 0xff, 0xff, 0x7f, 1, 0, 0 };
    n = make(1, 3, 48000, 24, 9, s24, 9);
    CHECK_OK(wav_parse("a", bytes, n, n, &info));
    wav_floats(&info, bytes + info.offset, 3, x);
    CHECK_NEAR(x[0], -1, 0);
    CHECK_NEAR(x[1], 1, 1e-6);
    CHECK_NEAR(x[2], 1.0 / 8388608, 1e-12);

    const int32_t s32[] = { INT32_MIN, INT32_MAX };
    n = make(1, 1, 48000, 32, 4, s32, 8);
    CHECK_OK(wav_parse("a", bytes, n, n, &info));
    wav_floats(&info, bytes + info.offset, 2, x);
    CHECK_NEAR(x[0], -1, 0);
    CHECK_NEAR(x[1], 1, 1e-6);

    const float f32[] = { -2, 0.25f, NAN, 3 };
    n = make(3, 1, 48000, 32, 4, f32, 16);
    CHECK_OK(wav_parse("a", bytes, n, n, &info));
    wav_floats(&info, bytes + info.offset, 4, x);
    CHECK_NEAR(x[0], -1, 0);
    CHECK_NEAR(x[1], 0.25, 0);
    CHECK_NEAR(x[2], -1, 0);
    CHECK_NEAR(x[3], 1, 0);

    const double f64[] = { -0.5, 1e300 };
    n = make(3, 1, 48000, 64, 8, f64, 16);
    CHECK_OK(wav_parse("a", bytes, n, n, &info));
    CHECK_INT(info.frames, 2);
    wav_floats(&info, bytes + info.offset, 2, x);
    CHECK_NEAR(x[0], -0.5, 0);
    CHECK_NEAR(x[1], 1, 0);
}

/* G.711, tables 2a and 1a: both ends, the middle, and the first code of every segment. */
static void telephone_codes(void)
{
    static const struct {
        int           format;
        unsigned char code[4];
        int           level[4];
    } rows[] = {
        { 7, { 0x00, 0x80, 0xff, 0x7f }, { -32124, 32124, 0, 0 } },
        { 7, { 0x0f, 0x8f, 0xef, 0xf0 }, { -16764, 16764, 132, 120 } },
        { 6, { 0x2a, 0xaa, 0xd5, 0x55 }, { -32256, 32256, 8, -8 } },
        { 6, { 0x80, 0xc5, 0xf5, 0x85 }, { 5504, 264, 528, 4224 } },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        WavInfo info;
        float   x[4];
        size_t  n = make(rows[i].format, 1, 8000, 8, 1, rows[i].code, 4);
        CHECK_OK(wav_parse("a", bytes, n, n, &info));
        wav_floats(&info, bytes + info.offset, 4, x);
        for (int k = 0; k < 4; k++)
            CHECK_NEAR(x[k] * 32768, rows[i].level[k], 0);
    }
}

static void lies_are_named(void)
{
    WavInfo       info;
    const int16_t s[] = { 1, 2, 3, 4 };
    const struct {
        int         format, channels, rate, bits, align;
        const char *says;
    } wrong[] = {
        { 2, 1, 8000, 16, 2, "WAVE format 2" },
        { 1, 0, 8000, 16, 0, "0 channels" },
        { 1, 1, 0, 16, 2, "wrong header" },
        { 1, 1, 8000, 12, 2, "12 bits" },
        { 1, 2, 8000, 16, 2, "wrong header" },
        { 3, 1, 8000, 16, 2, "float samples of 16" },
        { 1, 65535, 8000, 16, 65535, "wrong header" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        size_t n = make(wrong[i].format, wrong[i].channels, wrong[i].rate, wrong[i].bits,
                        wrong[i].align, s, 8);
        CHECK_INT(wav_parse("odd.wav", bytes, n, n, &info), E_FORMAT);
        CHECK(strstr(err_text(), "odd.wav") && strstr(err_text(), wrong[i].says));
    }
    size_t n = make(1, 1, 8000, 16, 2, s, 8);
    for (size_t k = 0; k < n; k++)
        CHECK_INT(wav_parse("x", bytes, k, k, &info), E_FORMAT);
    CHECK(strstr(err_text(), "truncated") != NULL);
    n = make(1, 1, 8000, 16, 2, s, 7);
    CHECK_INT(wav_parse("x", bytes, n, n, &info), E_FORMAT);
    n = make(1, 1, 8000, 16, 2, s, 0);
    CHECK_OK(wav_parse("x", bytes, n, n, &info));
    CHECK_INT(info.frames, 0);
    memcpy(bytes + 16, "\xff\xff\xff\xff", 4); /* a chunk of 4 GiB */
    CHECK_INT(wav_parse("x", bytes, n, n, &info), E_FORMAT);
}

/* Written to a pipe: the audio goes on to the end of the file. */
static void piped(void)
{
    WavInfo       info;
    const int16_t s[] = { 1, 2, 3, 4 };
    size_t        n = make(1, 2, 8000, 16, 4, s, 8);
    little(n - 12, UINT32_MAX, 4); /* ffmpeg */
    CHECK_OK(wav_parse("x", bytes, n, n, &info));
    CHECK_INT(info.frames, 2);
    CHECK_OK(wav_parse("x", bytes, n - 1, n - 1, &info));
    CHECK_INT(info.frames, 1);
    little(n - 12, 0x7ffff000, 4); /* SoX */
    CHECK_OK(wav_parse("x", bytes, n, n, &info));
    CHECK_INT(info.frames, 2);
    little(n - 12, 0x7ffff004, 4); /* a size, and untrue */
    CHECK_INT(wav_parse("x", bytes, n, n, &info), E_FORMAT);
    CHECK_INT(wav_parse("x", (const unsigned char *)"fLaC and so on", 14, 14, &info), E_FORMAT);
    CHECK(strstr(err_text(), "it is FLAC; name it .flac") != NULL);
    CHECK_INT(wav_parse("x.flac", (const unsigned char *)"fLaC and so on", 14, 14, &info),
              E_FORMAT);
    CHECK(strstr(err_text(), "it is FLAC; convert it to WAV") != NULL); /* it has that name */
}

static void written_and_read(void)
{
    const char   *path = "wav_test.wav";
    float         in[10] = { 0, 0.5f, -0.5f, 1, -1, 2, -2, NAN, 1e-5f, 0.25f }, out[10];
    unsigned char raw[64];
    WavInfo       info;
    CHECK_OK(wav_write(path, in, 5, 2, 22050));
    CHECK_OK(wav_look(path, &info));
    CHECK_INT(info.rate, 22050);
    CHECK_INT(info.frames, 5);
    CHECK_OK(wav_read(path, &info, 0, 5, raw, out));
    for (int i = 0; i < 5; i++)
        CHECK_NEAR(out[i], in[i], 1.0 / 32768);
    CHECK_NEAR(out[5], 1, 1.0 / 32768);
    CHECK_NEAR(out[6], -1, 0);
    CHECK_NEAR(out[7], -1, 0);
    CHECK_OK(wav_read(path, &info, 4, 1, raw, out));
    CHECK_NEAR(out[1], 0.25, 0);
    CHECK_INT(wav_read(path, &info, 4, 2, raw, out), E_IO); /* beyond the end */
    CHECK_OK(wav_write(path, in, 10, 1, 22050));            /* of the same length, but mono */
    CHECK_INT(wav_read(path, &info, 0, 5, raw, out), E_FORMAT);
    CHECK(strstr(err_text(), "wav_test.wav has changed since the run began") != NULL);
    CHECK_INT(wav_write(path, in, 1, 0, 22050), E_USAGE);
    CHECK_OK(wav_write(path, in, 0, 1, 1));
    CHECK_OK(wav_look(path, &info));
    CHECK_INT(info.frames, 0);
    remove(path);
    CHECK_INT(wav_look(path, &info), E_IO);
}

static void levels_go_round(void)
{
    for (int mu = 0; mu < 2; mu++)
        for (int bits = 1; bits <= 16; bits++) {
            Levels  l = { .count = 1 << bits, .mu_law = mu, .low = -1, .high = 1 };
            int32_t before = 0;
            double  worst = 0;
            CHECK_INT(level_of(&l, -1), 0);
            CHECK_INT(level_of(&l, 1), (1 << bits) - 1);
            CHECK_INT(level_of(&l, 5), (1 << bits) - 1);
            for (int i = 0; i <= 4000; i++) {
                double  x = -1 + i / 2000.0;
                int32_t k = level_of(&l, x);
                CHECK(k >= before); /* louder is never a lower level */
                before = k;
                worst = fmax(worst, fabs(level_audio(&l, k) - x) / (mu ? 0.02 + fabs(x) : 1));
            }
            if (bits >= 8)
                CHECK_NEAR(worst, 0, mu ? 0.08 : 2.02 / (1 << bits) + 2e-6);
        }
    Levels quiet = { .count = 256, .mu_law = true, .low = -1, .high = 1 },
           plain = { .count = 256, .low = -1, .high = 1 };
    CHECK(level_of(&quiet, 0.01) - level_of(&quiet, -0.01) >
          10 * (level_of(&plain, 0.01) - level_of(&plain, -0.01)));
    /* silence: a level, not a division by 0 */
    Levels flat = { .count = 256, .low = 0.3, .high = 0.3 };
    CHECK_INT(level_of(&flat, 0.3), 0);
}

int main(void)
{
    RUN(every_sample_type);
    RUN(telephone_codes);
    RUN(lies_are_named);
    RUN(piped);
    RUN(written_and_read);
    RUN(levels_go_round);
    return test_end();
}
