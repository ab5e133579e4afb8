/* result_files.c -- single results in the formats that were asked for. */
#include "train/results_int.h"

#include "base/npy.h"
#include "base/text.h"
#include "data/gif.h"
#include "data/media.h"
#include "data/raster.h"
#include "data/wav.h"

#include <string.h>

typedef struct OneResult {
    ResultKind        kind;
    Shape             shape; /* without the axis of results */
    const float      *data;
    int64_t           rate; /* of audio */
    const ResultForm *form;
    const char       *stem; /* folder/clip-000; NULL: nothing is written */
} OneResult;

static const char *one_path(Pool *pool, const OneResult *r, const char *ending)
{
    return r->stem ? pool_print(pool, "%s%s", r->stem, ending) : NULL;
}

static Err one_png(Pool *pool, const OneResult *r, SampleReport *report)
{
    const char *path = one_path(pool, r, image_ending);
    bool        clip = r->kind == RESULT_CLIPS;
    TRY(sheet_write(pool, path, r->data, clip ? r->shape.dim[0] : 1,
                    clip ? strip_columns(r->shape) : 1, clip ? shape_drop(r->shape, 0) : r->shape,
                    false));
    report_file(pool, report, path);
    return OK;
}

static Err one_wav(Pool *pool, const OneResult *r, SampleReport *report)
{
    const char *path = one_path(pool, r, ".wav");
    TRY(wav_write_in(pool, path, r->data, r->shape.dim[0], r->shape.dim[1], r->rate));
    report_file(pool, report, path);
    return OK;
}

/* Metres for range images. */
static Err one_npy(Pool *pool, const OneResult *r, SampleReport *report)
{
    const char *path = one_path(pool, r, ".npy");
    int64_t     n = shape_count(r->shape);
    double      low = r->form->low, high = r->form->high;
    if (!path)
        return OK;
    Pool  *work = pool_new(pool, "npy");
    float *metres = high > low ? NEWN(work, float, n) : NULL;
    for (int64_t i = 0; metres && i < n; i++)
        metres[i] = (float)(low + ((double)r->data[i] + 1) / 2 * (high - low));
    Err err = npy_write(path, NPY_F4, r->shape.rank, r->shape.dim, metres ? metres : r->data);
    pool_free(work);
    report_file(pool, report, path);
    return err;
}

/* The frames as RGB of 8 bits; one channel of others than RGB. */
static VideoClip clip_pixels(Pool *pool, const OneResult *r)
{
    Shape          s = r->shape;
    int64_t        channels = s.dim[3], n = shape_count(s) / channels;
    unsigned char *rgb = NEWN(pool, unsigned char, (3 * n));
    for (int64_t i = 0; i < 3 * n; i++)
        rgb[i] = result_level(r->data[i / 3 * channels + (channels == 3 ? i % 3 : 0)]);
    return (VideoClip){ rgb, s.dim[0], s.dim[1], s.dim[2], r->form->rate };
}

static Err one_gif(Pool *pool, const OneResult *r, SampleReport *report)
{
    const char *path = one_path(pool, r, ".gif");
    if (!path)
        return OK;
    Pool     *work = pool_new(pool, "clip");
    VideoClip clip = clip_pixels(work, r);
    Err       err = gif_write(work, path, &clip);
    pool_free(work);
    report_file(pool, report, path);
    return err;
}

static Err one_video(Pool *pool, const OneResult *r, VideoForm wanted, SampleReport *report)
{
    VideoForm   form = wanted;
    const char *path;
    if (!r->stem)
        return OK;
    Pool     *work = pool_new(pool, "clip");
    VideoClip clip = clip_pixels(work, r);
    Err       err = video_write(pool, r->stem, &clip, &form, &path);
    pool_free(work);
    TRY(err);
    if (form != wanted)
        report->note = "libav has no H.264 encoder here, so clips are .webm instead of .mp4";
    report_file(pool, report, path);
    return OK;
}

static Err one_mp4(Pool *pool, const OneResult *r, SampleReport *report)
{
    return one_video(pool, r, VIDEO_MP4, report);
}

static Err one_webm(Pool *pool, const OneResult *r, SampleReport *report)
{
    return one_video(pool, r, VIDEO_WEBM, report);
}

enum { OF_IMAGES = 1 << RESULT_IMAGES, OF_CLIPS = 1 << RESULT_CLIPS, OF_AUDIO = 1 << RESULT_AUDIO };

static const struct FormatRow {
    ResultFormat format;
    const char  *word;
    int          kinds;
    Err (*write)(Pool *pool, const OneResult *r, SampleReport *report);
} format_rows[] = { { FORMAT_PNG, "png", OF_IMAGES | OF_CLIPS, one_png },
                    { FORMAT_GIF, "gif", OF_CLIPS, one_gif },
                    { FORMAT_MP4, "mp4", OF_CLIPS, one_mp4 },
                    { FORMAT_WEBM, "webm", OF_CLIPS, one_webm },
                    { FORMAT_WAV, "wav", OF_AUDIO, one_wav },
                    { FORMAT_NPY, "npy", OF_IMAGES | OF_CLIPS | OF_AUDIO, one_npy } };
enum { FORMAT_ROWS = sizeof format_rows / sizeof *format_rows };

static const struct FormatRow *format_find(const char *word, size_t n, ResultKind kind)
{
    for (int i = 0; i < FORMAT_ROWS; i++)
        if (strlen(format_rows[i].word) == n && !strncmp(format_rows[i].word, word, n) &&
            format_rows[i].kinds >> kind & 1)
            return &format_rows[i];
    return NULL;
}

static Err format_refused(const char *word, size_t n, ResultKind kind, const char *system)
{
    static const char *const kinds[] = { "images", "clips", "audio" };
    char                     list[64] = "";
    for (int i = 0; i < FORMAT_ROWS; i++)
        if (format_rows[i].kinds >> kind & 1)
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", *list ? ", " : "",
                     format_rows[i].word);
    return fail(E_USAGE, "--format: %s draws %s, written as %s, not as '%.*s'", system, kinds[kind],
                list, (int)n, word);
}

Err formats_read(const char *list, ResultKind kind, const char *system, int *formats)
{
    *formats = 0;
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        size_t                  n = strcspn(at, ",");
        const struct FormatRow *row = format_find(at, n, kind);
        if (!row)
            return format_refused(at, n, kind, system);
        *formats |= (int)row->format;
    }
    if (*formats & (FORMAT_MP4 | FORMAT_WEBM)) { /* found missing now, not once all is drawn */
        const VideoPlugin *unused;
        TRY(media_video_out(*formats & FORMAT_MP4 ? "--format mp4" : "--format webm", &unused));
    }
    return OK;
}

Err result_files(Pool *pool, const char *folder, const char *word, const SampleResult *result,
                 const ResultForm *form, SampleReport *report)
{
    int       formats = form->formats                  ? form->formats
                        : result->kind == RESULT_AUDIO ? FORMAT_WAV
                                                       : FORMAT_PNG;
    OneResult one = { .kind = result->kind,
                      .shape = shape_drop(result->shape, 0),
                      .rate = result->rate,
                      .form = form };
    for (int64_t i = 0; i < result->shape.dim[0]; i++) {
        one.data = result->data + i * shape_count(one.shape);
        one.stem = folder ? pool_print(pool, "%s/%s-%03lld", folder, word, (long long)i) : NULL;
        for (int k = 0; k < FORMAT_ROWS; k++)
            if (formats & (int)format_rows[k].format)
                TRY(format_rows[k].write(pool, &one, report));
    }
    return OK;
}
