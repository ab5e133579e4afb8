/* audio.c -- audio as tokens: folders of audio files in chunks, and synthetic notes.
 *
 *   target (L) levels of a chunk, channels interleaved; -100 beyond the end of the audio. They span
 *          the chunk's extremes, or with data.scaling: none are the file's own
 *   tokens (L) the target shifted right by one; the first is Q/2
 *   carry  (1) 1: this chunk follows the previous one of the same file. Its first token is then the
 *          last target of that chunk. With this input, levels are scaled by the range of the whole
 *          file instead of the chunk's
 *
 * Files are divided into chunks of L steps from their start. The rest is dropped, or with keep_rest
 * padded: tokens Q/2, targets -100, which the loss does not count. As an input to continue, each file is
 * one sample: its end. WAV files of the model's rate are
 * read where they are; others, and FLAC, Ogg and MP3, from the cache (audio_cache.h).
 */
#include "data/kinds.h"

#include "base/audio_levels.h"
#include "base/int_math.h"
#include "base/text.h"
#include "data/media.h"
#include "data/audio_cache.h"
#include "data/wav.h"

enum { NOT_COUNTED = -100 };

typedef struct AudioFile {
    const char *path;
    WavInfo     info;
    int32_t     audio; /* in the cache's list; -1: the WAV file itself is read */
    int64_t     frames, channels;
    int64_t     first_chunk;
    double      low, high; /* range of the whole file; only with carry */
} AudioFile;

typedef struct Audio {
    int         tokens, target, carry;          /* indices in the spec, or -1 */
    int64_t     length, channels, frames, rate; /* steps of a chunk; frames = length / channels */
    Levels      levels;
    bool        keep_rest, ends; /* ends: a file is one sample, its last frames */
    AudioFile  *files;
    int32_t     n, cap;
    AudioCache *cache;
} Audio;

static void range_add(const float *steps, int64_t n, double *low, double *high)
{
    for (int64_t i = 0; i < n; i++) {
        *low = fmin(*low, (double)steps[i]);
        *high = fmax(*high, (double)steps[i]);
    }
}

/* file: the levels span its range; NULL: the range of these steps. last: the step before them, or
 * NULL. */
static void audio_tokens(const Audio *a, const AudioFile *file, const float *last,
                         const float *steps, int64_t n, void *const *to)
{
    Levels levels = a->levels;
    levels.low = file ? file->low : n ? (double)steps[0] : 0;
    levels.high = file ? file->high : levels.low;
    if (!file)
        range_add(steps, n, &levels.low, &levels.high);
    int32_t before = last ? level_of(&levels, (double)*last) : (int32_t)(levels.count / 2);
    if (a->carry >= 0)
        *(float *)to[a->carry] = last != NULL;
    for (int64_t i = 0; i < a->length; i++) {
        int32_t level = i < n ? level_of(&levels, (double)steps[i]) : NOT_COUNTED;
        if (a->tokens >= 0)
            ((int32_t *)to[a->tokens])[i] = before;
        if (a->target >= 0)
            ((int32_t *)to[a->target])[i] = level;
        before = i < n ? level : (int32_t)(levels.count / 2);
    }
}

/* ---- files ---- */

static const AudioFile *audio_file(const Audio *a, int64_t id, int64_t *first, int64_t *frames)
{
    int32_t          at = span_find(&a->files->first_chunk, sizeof *a->files, a->n, id);
    const AudioFile *file = &a->files[at];
    *first = a->ends ? int_max(file->frames - a->frames, 0) : (id - file->first_chunk) * a->frames;
    *frames = file->frames - *first < a->frames ? file->frames - *first : a->frames;
    return file;
}

/* Frames first..first+n of a file as steps of the model's channels. */
static Err audio_steps(const Audio *a, const AudioFile *file, int64_t first, int64_t n, Work *work,
                       float **out)
{
    int64_t        has = file->channels;
    unsigned char *raw = work_take(work, (size_t)(n * has) * WAV_MAX_BYTES);
    float         *all = work_take(work, (size_t)(n * has) * sizeof(float));
    float         *steps = work_take(work, (size_t)(n * a->channels) * sizeof(float));
    if (file->audio >= 0)
        TRY(audio_read(&a->cache->list.items[file->audio], first, n, raw, all));
    else
        TRY(wav_read(file->path, &file->info, first, n, raw, all));
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < a->channels; c++) {
            float sum = 0;
            if (has == a->channels)
                sum = all[i * has + c];
            else
                for (int64_t k = 0; k < has; k++) /* the mean of all channels */
                    sum += all[i * has + k] / (float)has;
            steps[i * a->channels + c] = sum;
        }
    *out = steps;
    return OK;
}

static Err audio_load(const DataSource *source, int64_t id, int64_t draw, void *const *to,
                      Work *work)
{
    (void)draw;
    const Audio     *a = source->own;
    int64_t          first, n;
    float           *steps;
    const AudioFile *file = audio_file(a, id, &first, &n);
    int64_t          before = a->carry >= 0 && first > 0; /* one frame more, for its last step */
    TRY(audio_steps(a, file, first - before, n + before, work, &steps));
    const float *begin = steps + before * a->channels;
    audio_tokens(a, a->carry >= 0 ? file : NULL, before ? begin - 1 : NULL, begin, n * a->channels,
                 to);
    return OK;
}

static int64_t audio_counted(const DataSource *source, int64_t id)
{
    const Audio *a = source->own;
    int64_t      first, n;
    audio_file(a, id, &first, &n);
    return n * a->channels;
}

static int64_t audio_group(const DataSource *source, int64_t id)
{
    int64_t first, frames;
    return audio_file(source->own, id, &first, &frames)->first_chunk;
}

static const char *audio_about(const DataSource *source, int64_t id, char *room, size_t n)
{
    (void)room;
    (void)n;
    int64_t first, frames;
    return audio_file(source->own, id, &first, &frames)->path;
}

/* A WAV file of the model's rate is read as it is; everything else goes through the cache. */
static Err audio_add(Pool *pool, Audio *a, const char *path)
{
    AudioFile file = { .path = path, .audio = -1 };
    if (!audio_name(path))
        TRY(wav_look(path, &file.info));
    if (file.info.rate == a->rate) {
        TRY(audio_channels_check(path, file.info.channels, a->channels));
        file.frames = file.info.frames;
        file.channels = file.info.channels;
    } else {
        const AudioPlugin *plugin;
        if (file.info.rate && media_audio(path, &plugin))
            return fail(E_FORMAT,
                        "%s has %lld samples a second, the model %lld; convert the file, --set "
                        "model.rate=%lld, or run make media, which builds what converts it",
                        path, (long long)file.info.rate, (long long)a->rate,
                        (long long)file.info.rate);
        file.audio = a->cache->list.n;
        TRY(cache_add(pool, &a->cache->list, path));
        file.frames = audio_cache_frames(&a->cache->list.items[file.audio]);
        file.channels = audio_cache_channels(&a->cache->list.items[file.audio]);
    }
    VEC_ADD(pool, a->files, a->n, a->cap, file);
    return OK;
}

/* Numbers the chunks; files without one are left out. */
static int64_t audio_chunks(Audio *a)
{
    int64_t n = 0;
    int32_t kept = 0;
    for (int32_t i = 0; i < a->n; i++) {
        AudioFile file = a->files[i];
        int64_t chunks = a->keep_rest ? ceil_div(file.frames, a->frames) : file.frames / a->frames;
        chunks = a->ends ? file.frames > 0 : chunks;
        file.first_chunk = n;
        n += chunks;
        if (chunks)
            a->files[kept++] = file;
    }
    a->n = kept;
    return n;
}

static Err audio_new(Pool *pool, const DataSpec *spec, const char *kind, Audio **out)
{
    Audio *a = *out = NEW(pool, Audio);
    TRY(spec_need(spec, kind, "target", I32, 0, &a->target));
    TRY(spec_need(spec, kind, "tokens", I32, a->target < 0, &a->tokens));
    TRY(spec_need(spec, kind, "carry", F32, 0, &a->carry));
    a->length = spec->feeds[a->tokens >= 0 ? a->tokens : a->target].shape.dim[0];
    a->channels = spec->channels > 0 ? spec->channels : 1;
    a->rate = spec->rate > 0 ? spec->rate : 16000;
    a->levels = (Levels){ .count = spec->levels > 1 ? spec->levels : 256,
                          .mu_law = spec->mu_law,
                          .as_is = spec->unscaled };
    a->keep_rest = spec->keep_rest;
    a->ends = spec->as_input;
    a->frames = a->length / a->channels;
    if (a->length % a->channels)
        return fail(E_USAGE, "model.length is %lld, which is not a multiple of %lld channels",
                    (long long)a->length, (long long)a->channels);
    return OK;
}

/* Reads files once where that is needed: with carry for their range, and files of floats to find
 * those that are not finite. */
static Err audio_ranges(Pool *pool, Audio *a, size_t work_bytes)
{
    Pool *room = pool_new(pool, "ranges");
    char *bytes = pool_alloc(room, work_bytes + 64, 1);
    Err   err = OK;
    for (int32_t i = 0; i < a->n && !err; i++) {
        AudioFile *file = &a->files[i];
        if (a->carry < 0 && (file->audio >= 0 || !file->info.floats))
            continue;
        file->low = INFINITY;
        file->high = -INFINITY;
        for (int64_t at = 0; at < file->frames && !err; at += a->frames) {
            Work    work = { .at = bytes, .n = work_bytes + 64 };
            int64_t n = file->frames - at < a->frames ? file->frames - at : a->frames;
            float  *steps;
            err = audio_steps(a, file, at, n, &work, &steps);
            if (!err)
                range_add(steps, n * a->channels, &file->low, &file->high);
        }
    }
    pool_free(room);
    return err;
}

/* What is trained on: files, their time, and what is decoded. */
static const char *audio_detail(Pool *pool, const Audio *a)
{
    int64_t     frames = 0;
    const char *decoded = audio_cache_said(pool, a->cache);
    for (int32_t i = 0; i < a->n; i++)
        frames += a->files[i].frames;
    return pool_print(pool, "%d %s, %.1f s of audio%s%s", a->n, a->n == 1 ? "file" : "files",
                      (double)frames / (double)a->rate, decoded ? ", " : "",
                      decoded ? decoded : "");
}

static Err audio_files(Pool *pool, const DataSpec *spec, Audio *a, int64_t *n_chunks)
{
    static const char *const endings[] = { ".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", NULL };
    PathList                 files;
    TRY(files_list(pool, spec->path, spec_pick(spec), endings,
                   "audio files (.wav, .flac, .ogg, .opus, .mp3)", &files));
    a->cache = audio_cache_new(pool, spec, a->rate, a->channels);
    for (int32_t i = 0; i < files.n; i++)
        TRY(audio_add(pool, a, files.paths[i]));
    *n_chunks = audio_chunks(a);
    return *n_chunks ? cache_fill(pool, &a->cache->list)
                     : fail(E_FORMAT,
                            "%s: none of its %d audio files has the %lld frames of a sample; use a "
                            "smaller model.length, or data.keep_rest: true",
                            spec->path, files.n, (long long)a->frames);
}

Err audio_open(Pool *pool, const DataSpec *spec, DataSource **out)
{
    Audio  *a;
    int64_t n_chunks, max_channels = 1;
    TRY(audio_new(pool, spec, "audio", &a));
    TRY(audio_files(pool, spec, a, &n_chunks));
    for (int32_t i = 0; i < a->n; i++)
        max_channels = int_max(a->files[i].channels, max_channels);
    size_t frames = (size_t)(a->frames + 1); /* with carry, a frame of the previous chunk */
    size_t file_samples = frames * (size_t)max_channels;
    *out = NEW(pool, DataSource);
    **out = (DataSource){ .n_samples = n_chunks,
                          .detail = audio_detail(pool, a),
                          .load = audio_load,
                          .counted = audio_counted,
                          .group = audio_group,
                          .about = audio_about,
                          .own = a,
                          .work_bytes = work_size(file_samples * WAV_MAX_BYTES) +
                                        work_size(file_samples * sizeof(float)) +
                                        work_size(frames * (size_t)a->channels * sizeof(float)) };
    TRY(source_fits(spec, *out));
    return audio_ranges(pool, a, (*out)->work_bytes);
}

/* ---- notes ---- */

/* The next note of a melody: a note of a pentatonic scale from 400 Hz on, with one overtone. It fades,
 * and ends where the next one begins. */
static void note_add(const Audio *a, Dice *dice, int64_t start, int64_t frames, float *steps)
{
    static const double scale[] = { 1, 9 / 8.0, 5 / 4.0, 3 / 2.0, 5 / 3.0 };
    double turn = 6.283185307179586 * 400 * scale[dice_below(dice, 5)] / (double)a->rate;
    double fade = 1.5 / (double)frames, side = (double)dice_unit(dice);
    for (int64_t t = start; t < start + frames && t < a->frames; t++) {
        double age = (double)(t - start);
        double x = exp(-fade * age) * (sin(turn * age) + 0.3 * sin(2 * turn * age));
        for (int64_t c = 0; c < a->channels; c++)
            steps[t * a->channels + c] = (float)(x * (a->channels == 1 ? 1
                                                      : c % 2          ? side
                                                                       : 1 - side));
    }
}

/* A melody of plucked notes, each a sixteenth or an eighth of a second long. */
static Err tones_load(const DataSource *source, int64_t id, int64_t draw, void *const *to,
                      Work *work)
{
    (void)draw;
    const Audio *a = source->own;
    Dice         dice = { sample_key(source, "tones", id), 0 };
    float       *steps = work_take(work, (size_t)a->length * sizeof(float));
    int64_t      note = int_max(a->rate / 16, 1);
    for (int64_t start = 0, frames; start < a->frames; start += frames) {
        frames = note * (1 + dice_below(&dice, 2));
        note_add(a, &dice, start, frames, steps);
    }
    for (int64_t i = 0; a->levels.as_is && i < a->length; i++)
        steps[i] *= 0.75f; /* a note is at most 1.3 */
    audio_tokens(a, NULL, NULL, steps, a->length, to);
    return OK;
}

static int64_t tones_counted(const DataSource *source, int64_t id)
{
    (void)id;
    return ((const Audio *)source->own)->length;
}

Err tones_open(Pool *pool, const DataSpec *spec, DataSource **out)
{
    Audio *a;
    TRY(audio_new(pool, spec, "tones", &a));
    *out = NEW(pool, DataSource);
    **out = (DataSource){ .n_samples = spec->samples,
                          .load = tones_load,
                          .counted = tones_counted,
                          .own = a,
                          .work_bytes = work_size((size_t)a->length * sizeof(float)) };
    return OK;
}
