/* captioned.c -- clips with captions: clip (F,H,W,C) in [-1,1], text (width).
 *
 *   DIR/NAME.mp4 ...                    a video (media.h): the middle of its frames, resized
 *   DIR/NAME/1.png ... or DIR/NAME.npy  frames, PNG or JPEG; .npy (F,H,W,C): uint8, or floats in
 *                                       [-1,1]
 *   DIR/NAME.txt                        the caption
 *   DIR/NAME.text.npy                   optional: its embedding, here or in data.texts;
 *                                       otherwise the caption's words are embedded
 *                                       (base/prompt.h)
 *
 * A clip is the first F frames, or with data.excerpt any F that follow each other; if there are fewer,
 * the last is repeated. Larger frames of images and arrays are cropped to their middle, smaller ones
 * have a black border. */
#include "data/kinds.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/prompt.h"
#include "base/text.h"
#include "data/draw.h"
#include "data/frames.h"
#include "data/media.h"
#include "data/video.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define CLIP_MAX 1.001 /* 1, and a margin for rounding */

typedef struct Captioned {
    const char  *name, *npy; /* npy: the clip's file; NULL: it has frames */
    const char **frames;
    int64_t      n_frames; /* of images, array or video */
    int32_t      video;    /* in the cache's list; -1: none */
    const char  *caption;
    float       *text; /* embedding; NULL if the feed is absent */
} Captioned;

typedef struct CaptionedClips {
    int         clip, text; /* indices in the spec, or -1 */
    int64_t     frames, height, width, channels, text_width;
    Captioned  *list;
    int32_t     n, cap;
    ImageInfo   largest;
    size_t      npy_bytes;
    Videos     *videos;
    FilePick    pick;
    bool        any_excerpt;
    int32_t     embedded; /* clips with an embedding of their own */
    const char *without;  /* the first clip without one */
    const char *texts;    /* their folder; NULL: that of the captions */
} CaptionedClips;

/* Writes one frame: the value at (y, x, ch) of a frame of (h,w) that is centred on ours. */
#define PLACE_MIDDLE(c, out, h, w, ...)                                                            \
    do {                                                                                           \
        int64_t up_ = ((h) - (c)->height) / 2, left_ = ((w) - (c)->width) / 2;                     \
        for (int64_t y_ = 0; y_ < (c)->height; y_++)                                               \
            for (int64_t x_ = 0; x_ < (c)->width; x_++)                                            \
                for (int64_t ch = 0; ch < (c)->channels; ch++) {                                   \
                    int64_t y = y_ + up_, x = x_ + left_;                                          \
                    bool    in_ = y >= 0 && y < (h) && x >= 0 && x < (w);                          \
                    (out)[(y_ * (c)->width + x_) * (c)->channels + ch] = in_ ? (__VA_ARGS__) : -1; \
                }                                                                                  \
    } while (0)

static Err clip_npy(const CaptionedClips *c, const Captioned *item, int64_t start, float *to,
                    Work *work)
{
    Npy a;
    TRY(npy_load(item->npy, work, &a));
    if (a.rank != 4 || a.shape[0] < 1 || (a.shape[3] != c->channels && a.shape[3] != 1))
        return fail(E_IO, "%s has changed since the run began; restart the run", item->npy);
    if (a.type != NPY_U1)
        TRY(npy_within(item->npy, &a, CLIP_MAX));
    int64_t h = a.shape[1], w = a.shape[2], has = a.shape[3];
    for (int64_t f = 0; f < c->frames; f++) {
        int64_t at = int_min(start + f, a.shape[0] - 1) * h * w * has;
        float  *out = to + f * c->height * c->width * c->channels;
        PLACE_MIDDLE(c, out, h, w, npy_number(&a, at + (y * w + x) * has + (has == 1 ? 0 : ch)));
        for (int64_t i = 0; i < c->height * c->width * c->channels && a.type == NPY_U1; i++)
            out[i] = out[i] < 0 ? -1 : out[i] / 255 * 2 - 1;
    }
    return OK;
}

static Err clip_frames(const CaptionedClips *c, const Captioned *item, int64_t start, float *to,
                       Work *work)
{
    size_t used = work->used;
    for (int64_t f = 0; f < c->frames; f++, work->used = used) {
        Raster      r;
        float      *out = to + f * c->height * c->width * c->channels;
        const char *path = item->frames[int_min(start + f, item->n_frames - 1)];
        TRY(image_open(path, work, &r));
        size_t bytes = (size_t)(r.height * r.width * c->channels) * sizeof(float);
        TRY(work_left(work, path, work_size(bytes)));
        float *all = work_take(work, bytes);
        raster_floats(&r, 0, 0, r.height, r.width, c->channels, all);
        PLACE_MIDDLE(c, out, r.height, r.width, all[(y * r.width + x) * c->channels + ch] * 2 - 1);
    }
    return OK;
}

static Err clip_video(const CaptionedClips *c, const Captioned *item, int64_t start, float *to,
                      Work *work)
{
    const CacheItem *video = &c->videos->list.items[item->video];
    for (int64_t f = 0; f < c->frames; f++)
        TRY(video_frame(video, start + f, to + f * c->height * c->width * c->channels, work));
    return OK;
}

/* The first frame of this draw's part. */
static int64_t clip_start(const DataSource *source, const Captioned *item, int64_t draw)
{
    const CaptionedClips *c = source->own;
    Dice                  dice = { sample_key(source, "clip part", draw), 0 };
    int64_t               room = int_min(item->n_frames - c->frames, INT32_MAX - 1);
    return c->any_excerpt && room > 0 ? dice_below(&dice, (int)room + 1) : 0;
}

static Err captioned_load(const DataSource *source, int64_t id, int64_t draw, void *const *to,
                          Work *work)
{
    const CaptionedClips *c = source->own;
    const Captioned      *item = &c->list[id];
    if (c->text >= 0)
        memcpy(to[c->text], item->text, (size_t)c->text_width * sizeof(float));
    if (c->clip < 0)
        return OK;
    int64_t start = clip_start(source, item, draw);
    return item->video >= 0 ? clip_video(c, item, start, to[c->clip], work)
           : item->npy      ? clip_npy(c, item, start, to[c->clip], work)
                            : clip_frames(c, item, start, to[c->clip], work);
}

static const char *captioned_about(const DataSource *source, int64_t id, char *room, size_t n)
{
    (void)room;
    (void)n;
    return ((const CaptionedClips *)source->own)->list[id].caption;
}

/* The caption's embedding, from its file or by the stand-in. */
static Err caption_embed(Pool *pool, CaptionedClips *c, const char *folder, Captioned *item)
{
    const char *given = pool_print(pool, "%s/%s.text.npy", c->texts ? c->texts : folder,
                                   item->name);
    Pool       *one = pool_new(pool, "text");
    Npy         a;
    item->text = NEWN(pool, float, c->text_width);
    if (!file_exists(given)) {
        c->without = c->without ? c->without : given;
        prompt_embed(item->caption, item->text, c->text_width);
        return OK;
    }
    c->embedded++;
    TRY(npy_read(one, given, &a));
    if (a.count != c->text_width)
        return fail(E_FORMAT, "%s holds %lld numbers; an embedding here has %lld", given,
                    (long long)a.count, (long long)c->text_width);
    TRY(npy_within(given, &a, FLT_MAX));
    for (int64_t i = 0; i < a.count; i++)
        item->text[i] = npy_number(&a, i);
    pool_free(one);
    return OK;
}

static Err captioned_text(Pool *pool, CaptionedClips *c, const char *folder, Captioned *item)
{
    const char *path = pool_print(pool, "%s/%s.txt", folder, item->name);
    if (!file_exists(path))
        return fail(E_FORMAT, "%s/%s has no caption: %s is missing", folder, item->name, path);
    TRY(caption_read(pool, path, &item->caption));
    return c->text < 0 ? OK : caption_embed(pool, c, folder, item);
}

static Err captioned_add(Pool *pool, CaptionedClips *c, const char *folder, const char *name)
{
    const char *path = pool_print(pool, "%s/%s", folder, name);
    Captioned   item = { .name = name, .video = -1 };
    size_t      bytes;
    Npy         a;
    if (!file_picked(c->pick, path))
        return OK;
    if (video_name(name) && !folder_exists(path)) {
        item.name = pool_textn(pool, name, (size_t)(strrchr(name, '.') - name));
        TRY(captioned_text(pool, c, folder, &item));
        if (c->clip >= 0) { /* a sampler needs the caption alone */
            item.video = c->videos->list.n;
            TRY(cache_add(pool, &c->videos->list, path));
            item.n_frames = video_frames(&c->videos->list.items[item.video]);
        }
        VEC_ADD(pool, c->list, c->n, c->cap, item);
        return OK;
    }
    if (folder_exists(path)) {
        ImageList list;
        TRY(image_list(pool, path, (FilePick){ 0 }, &list));
        largest_note(&c->largest, &list.largest);
        item.frames = list.paths;
        item.n_frames = list.n;
    } else if (name_ends(name, ".npy") && !name_ends(name, ".text.npy")) {
        TRY(npy_look(path, CLIP_MAX, &a, &bytes));
        if (a.rank != 4 || a.count < 1 || (a.shape[3] != c->channels && a.shape[3] != 1))
            return fail(E_FORMAT, "%s has %d axes%s; a clip is (frames, height, width, %lld)", path,
                        a.rank, a.rank == 4 ? " of wrong sizes" : "", (long long)c->channels);
        if (a.type != NPY_U1 && !npy_floats(&a))
            return fail(E_FORMAT, "%s holds %s; a clip has uint8, or floats in [-1,1]", path,
                        npy_type_name(a.type));
        c->npy_bytes = bytes > c->npy_bytes ? bytes : c->npy_bytes;
        item.npy = path;
        item.n_frames = a.shape[0];
        item.name = pool_textn(pool, name, strlen(name) - 4);
    } else
        return OK;
    TRY(captioned_text(pool, c, folder, &item));
    VEC_ADD(pool, c->list, c->n, c->cap, item);
    return OK;
}

static Err captioned_new(Pool *pool, const DataSpec *spec, const char *kind, CaptionedClips **out)
{
    CaptionedClips *c = *out = NEW(pool, CaptionedClips);
    TRY(spec_need(spec, kind, "clip", F32, 0, &c->clip));
    TRY(spec_need(spec, kind, "text", F32, 0, &c->text));
    c->channels = 3;
    if (c->clip >= 0) {
        Shape shape = spec->feeds[c->clip].shape;
        TRY(spec_need(spec, kind, "clip", F32, 4, &c->clip));
        TRY(channels_check(kind, shape));
        c->frames = shape.dim[0];
        c->height = shape.dim[1];
        c->width = shape.dim[2];
        c->channels = shape.dim[3];
    }
    c->text_width = c->text < 0 ? 0 : shape_count(spec->feeds[c->text].shape);
    return OK;
}

/* Embeddings of two encoders have nothing in common, so it is all clips or none. */
static Err captioned_encoder(Pool *pool, const CaptionedClips *c, const char *folder,
                             DataSource *source)
{
    const char *said = "no text embeddings: a stand-in made of the captions' words, which knows no "
                       "meaning, takes their place (plimsoll encode makes them)";
    if (c->text < 0)
        return OK;
    if (c->without && (c->embedded || c->texts))
        return fail(
            E_USAGE,
            "%d of %d clips have an embedding NAME.text.npy, and %s is missing: write those "
            "of the other %d too (plimsoll encode), or remove all",
            c->embedded, c->n, c->without, c->n - c->embedded);
    source->text = (TextSpace){ TEXT_STAND_IN, prompt_hash(c->text_width), NULL, NULL };
    if (c->embedded)
        TRY(text_space_read(pool, c->texts ? c->texts : folder, &source->text));
    if (c->embedded && !source->text.encoder) {
        source->text = (TextSpace){ TEXT_FROM_FILES, HASH_EMPTY, NULL, NULL };
        for (int32_t i = 0; i < c->n; i++)
            source->text.hash = hash_bytes(source->text.hash, c->list[i].text,
                                           (size_t)c->text_width * sizeof(float));
    }
    if (c->embedded)
        said = pool_print(pool, "text embeddings from NAME.text.npy%s%s",
                          strcmp(source->text.encoder, TEXT_FROM_FILES) ? ", made by " : "",
                          strcmp(source->text.encoder, TEXT_FROM_FILES) ? source->text.encoder
                                                                        : "");
    source->detail = pool_print(pool, "%s%s", source->detail ? source->detail : "", said);
    return OK;
}

/* How many clips are longer or shorter than the model's, if the model has clips; ends in "; ". */
static const char *captioned_detail(Pool *pool, const CaptionedClips *c)
{
    Text    text = { .pool = pool };
    int32_t longer = 0, shorter = 0;
    for (int32_t i = 0; i < c->n && c->clip >= 0; i++) {
        longer += c->list[i].n_frames > c->frames;
        shorter += c->list[i].n_frames < c->frames;
    }
    text_add(&text, "%s", "");
    if (c->videos->list.n)
        text_add(&text, "%s, ", videos_said(pool, c->videos));
    if (c->clip >= 0)
        text_add(&text, "%lld frames each", (long long)c->frames);
    if (longer)
        text_add(&text, " (%s of %d longer)", c->any_excerpt ? "any excerpt" : "the first", longer);
    if (shorter)
        text_add(&text, " (the last repeated in %d shorter)", shorter);
    if (text.n)
        text_add(&text, "; ");
    return text.at;
}

Err captioned_open(Pool *pool, const DataSpec *spec, DataSource **out)
{
    CaptionedClips *c;
    char          **names;
    int             n;
    TRY(captioned_new(pool, spec, "captioned-clips", &c));
    c->videos = videos_new(pool, spec, c->height, c->width, c->channels, FIT_COVER);
    c->pick = spec_pick(spec);
    c->any_excerpt = spec->any_excerpt;
    c->texts = spec->texts;
    TRY(folder_needed(spec->path));
    TRY(folder_list(pool, spec->path, &names, &n));
    for (int i = 0; i < n; i++)
        if (!folder_of_runs(pool_print(pool, "%s/%s", spec->path, names[i])))
            TRY(captioned_add(pool, c, spec->path, names[i]));
    if (!c->n)
        return files_none(pool, spec->path, c->pick,
                          "clips: videos NAME.mp4, folders NAME of frames (.png, .jpg) or files "
                          "NAME.npy, each with a caption NAME.txt");
    TRY(cache_fill(pool, &c->videos->list));
    *out = NEW(pool, DataSource);
    **out = (DataSource){ .n_samples = c->n,
                          .load = captioned_load,
                          .about = captioned_about,
                          .own = c,
                          .largest = c->largest.path,
                          .alpha = c->largest.alpha,
                          .detail = captioned_detail(pool, c),
                          .work_bytes = image_open_work(&c->largest) + work_size(c->npy_bytes) +
                                        video_frame_work(c->videos) +
                                        work_size((size_t)(c->largest.pixels * c->channels) *
                                                  sizeof(float)) };
    return captioned_encoder(pool, c, spec->path, *out);
}

/* ---- drawn ---- */

enum { COLOURS = 6, CAPTION = 64 };
static const char *const colour_names[COLOURS] = { "red",  "yellow", "green",
                                                   "cyan", "blue",   "magenta" };

static void shape_caption(int64_t id, char *to)
{
    snprintf(to, CAPTION, "%s %s", colour_names[id % COLOURS],
             form_names[id / COLOURS % FORM_COUNT]);
}

/* A "red disc" crosses half of a black image from left to right. The caption describes nearly all
 * of the clip, so that a small model can learn it in minutes. */
static Err captioned_shapes_load(const DataSource *source, int64_t id, int64_t draw,
                                 void *const *to, Work *work)
{
    (void)draw;
    (void)work;
    const CaptionedClips *c = source->own;
    Dice                  dice = { sample_key(source, "captioned-shapes", id), 0 };
    Form                  form = (Form)(id / COLOURS % FORM_COUNT);
    float                 rgb[3], across = dice_range(&dice, 0.48f, 0.52f);
    float start = dice_range(&dice, 0.23f, 0.27f), radius = dice_range(&dice, 0.25f, 0.27f);
    radius *= (float)(c->height < c->width ? c->height : c->width);
    draw_hue((float)(id % COLOURS) / COLOURS, rgb);
    if (c->text >= 0) {
        char caption[CAPTION];
        shape_caption(id, caption);
        prompt_embed(caption, to[c->text], c->text_width);
    }
    float *out = c->clip < 0 ? NULL : to[c->clip];
    for (int64_t f = 0; out && f < c->frames; f++) {
        float gone = start + 0.5f * (c->frames > 1 ? (float)f / (float)(c->frames - 1) : 0);
        float cx = gone * (float)c->width, cy = across * (float)c->height;
        for (int64_t y = 0; y < c->height; y++)
            for (int64_t x = 0; x < c->width; x++) {
                float in = draw_form(form, (float)x + 0.5f - cx, (float)y + 0.5f - cy, radius);
                for (int64_t ch = 0; ch < c->channels; ch++)
                    *out++ = 2 * in * rgb[c->channels == 1 ? 0 : ch] - 1;
            }
    }
    return OK;
}

static const char *captioned_shapes_about(const DataSource *source, int64_t id, char *room,
                                          size_t n)
{
    (void)source;
    char caption[CAPTION];
    shape_caption(id, caption);
    snprintf(room, n, "%s", caption);
    return room;
}

Err captioned_shapes_open(Pool *pool, const DataSpec *spec, DataSource **out)
{
    CaptionedClips *c;
    TRY(captioned_new(pool, spec, "captioned-shapes", &c));
    *out = NEW(pool, DataSource);
    **out = (DataSource){ .n_samples = spec->samples,
                          .text = { c->text < 0 ? NULL : TEXT_STAND_IN,
                                    c->text < 0 ? 0 : prompt_hash(c->text_width), NULL, NULL },
                          .load = captioned_shapes_load,
                          .about = captioned_shapes_about,
                          .own = c };
    return OK;
}
