/* plugin_audio.c -- FLAC, Ogg, MP3 and WAV by libsndfile; other sample rates by libsamplerate. */
#include "data/media.h"

#include <fcntl.h>
#include <math.h>
#include <samplerate.h>
#include <sndfile.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    BLOCK = 1 << 14, /* frames read at once */
    MAX_CHANNELS = 64,
    MAX_RATE = 10000000
};

static const MediaHost *host;

typedef struct AudioReader {
    const MediaFile *file;
    SNDFILE         *in;
    SF_INFO          info;
    SRC_STATE       *resampler;
    float           *from, *to; /* BLOCK frames; those that the resampler makes of them */
} AudioReader;

/* libmpg123, of which libsndfile makes use, prints warnings. The program's messages are its own, so
 * what comes meanwhile is dropped; decoding is over before the first step. */
static int stderr_hide(void)
{
    int before = dup(STDERR_FILENO), none = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (none >= 0 && before >= 0)
        dup2(none, STDERR_FILENO);
    if (none >= 0)
        close(none);
    return before;
}

static void stderr_show(int before)
{
    if (before >= 0) {
        dup2(before, STDERR_FILENO);
        close(before);
    }
}

static void audio_close(AudioReader *s)
{
    if (s->resampler)
        src_delete(s->resampler);
    if (s->in)
        sf_close(s->in);
    free(s->from);
    free(s->to);
}

static Err audio_open(const MediaFile *file, AudioReader *s)
{
    *s = (AudioReader){ .file = file };
    lseek(file->fd, 0, SEEK_SET);
    s->in = sf_open_fd(file->fd, SFM_READ, &s->info, 0);
    if (!s->in)
        return host->fail(E_FORMAT, "%s is not an audio file that is read: %s", file->path,
                          sf_strerror(NULL));
    const SF_INFO *i = &s->info;
    if (i->channels < 1 || i->channels > MAX_CHANNELS || i->samplerate < 1 ||
        i->samplerate > MAX_RATE || i->frames < 0 || i->frames > INT64_MAX / MAX_RATE / 8) {
        Err err = host->fail(E_FORMAT,
                             "%s has a wrong header: %d channels (at most %d), %d frames a second, "
                             "%lld frames",
                             file->path, i->channels, MAX_CHANNELS, i->samplerate,
                             (long long)i->frames);
        audio_close(s);
        return err;
    }
    return OK;
}

static int sample_bits(int format)
{
    switch (format & SF_FORMAT_SUBMASK) {
    case SF_FORMAT_PCM_S8:
    case SF_FORMAT_PCM_U8: return 8;
    case SF_FORMAT_PCM_16: return 16;
    case SF_FORMAT_PCM_24: return 24;
    case SF_FORMAT_PCM_32: return 32;
    default: return 0;
    }
}

static Err audio_look(const MediaFile *file, AudioInfo *info)
{
    AudioReader s;
    int         shown = stderr_hide();
    Err         err = audio_open(file, &s);
    stderr_show(shown);
    if (err)
        return err;
    *info = (AudioInfo){ .rate = s.info.samplerate,
                         .channels = s.info.channels,
                         .frames = s.info.frames,
                         .bits = sample_bits(s.info.format) };
    audio_close(&s);
    return OK;
}

/* Passes on n frames of s->from; last: no more follow. */
static Err audio_resample(AudioReader *s, int64_t rate, int64_t n, bool last, AudioTake *take,
                          void *to)
{
    double   ratio = (double)rate / s->info.samplerate;
    SRC_DATA d = { .data_in = s->from,
                   .input_frames = (long)n,
                   .data_out = s->to,
                   .output_frames = BLOCK,
                   .src_ratio = ratio,
                   .end_of_input = last };
    do {
        int error = src_process(s->resampler, &d);
        if (error)
            return host->fail(E_FORMAT, "%s cannot be converted to %lld samples a second: %s",
                              s->file->path, (long long)rate, src_strerror(error));
        Err err = d.output_frames_gen ? take(to, s->to, d.output_frames_gen) : OK;
        if (err)
            return err;
        d.data_in += d.input_frames_used * s->info.channels;
        d.input_frames -= d.input_frames_used;
    } while (d.input_frames > 0 || (last && d.output_frames_gen > 0));
    return OK;
}

static Err audio_read(AudioReader *s, int64_t rate, AudioTake *take, void *to)
{
    int64_t done = 0;
    for (;;) {
        sf_count_t n = sf_readf_float(s->in, s->from, BLOCK);
        for (int64_t i = 0; i < n * s->info.channels; i++) {
            if (!isfinite(s->from[i]))
                return host->fail(E_FORMAT,
                                  "%s: frame %lld is not a finite number; repair or remove the "
                                  "file",
                                  s->file->path, (long long)(done + i / s->info.channels));
            s->from[i] = s->from[i] > -1 ? (s->from[i] < 1 ? s->from[i] : 1) : -1;
        }
        done += n;
        Err err = s->resampler ? audio_resample(s, rate, n, n == 0, take, to)
                  : n          ? take(to, s->from, n)
                               : OK;
        if (err)
            return err;
        if (n == 0)
            break;
    }
    if (sf_error(s->in) != SF_ERR_NO_ERROR)
        return host->fail(E_FORMAT, "%s is damaged at frame %lld: %s", s->file->path,
                          (long long)done, sf_strerror(s->in));
    if (done < s->info.frames)
        return host->fail(E_FORMAT,
                          "%s is truncated or damaged: its header says %lld frames, and %lld can "
                          "be decoded",
                          s->file->path, (long long)s->info.frames, (long long)done);
    return OK;
}

static Err decode_quietly(const MediaFile *file, int64_t rate, AudioTake *take, void *to)
{
    AudioReader s;
    int         error = 0;
    Err         err = audio_open(file, &s);
    if (err)
        return err;
    size_t samples = (size_t)BLOCK * (size_t)s.info.channels;
    s.from = malloc(samples * sizeof(float));
    s.to = malloc(samples * sizeof(float));
    if (rate != s.info.samplerate)
        s.resampler = src_new(SRC_SINC_MEDIUM_QUALITY, s.info.channels, &error);
    if (!s.from || !s.to || error)
        err = host->fail(E_IO, "%s: no memory to decode it", file->path);
    err = err ? err : audio_read(&s, rate, take, to);
    audio_close(&s);
    return err;
}

static Err audio_decode(const MediaFile *file, int64_t rate, AudioTake *take, void *to)
{
    int shown = stderr_hide();
    Err err = decode_quietly(file, rate, take, to);
    stderr_show(shown);
    return err;
}

const AudioPlugin *plimsoll_audio(const MediaHost *program)
{
    static const AudioPlugin plugin = { audio_look, audio_decode };
    host = program;
    return program->form == MEDIA_FORM ? &plugin : NULL;
}
