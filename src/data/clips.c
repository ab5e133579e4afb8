/* clips.c -- clips of frames: observed (To,H,W,C), future (Tp,H,W,C) in [-1,1], mask (Tp,H,W) 0/1.
 *
 * Every folder below the path that holds frames is one sequence, in the order of file_name_order.
 * Its frames are all images, or all range images in .npy or .npz files (range.h), where r <= 0 means
 * that the beam did not return. A video or an array of several frames is a sequence by itself. Clips
 * do not overlap; surplus frames are left out, half of them at the start. */
#include "data/kinds.h"

#include "base/file.h"
#include "base/text.h"
#include "data/draw.h"
#include "data/frames.h"
#include "data/media.h"
#include "data/range.h"
#include "data/video.h"

#include <math.h>
#include <string.h>

typedef enum SequenceKind { IMAGES, RANGES, RANGE_ARRAY, VIDEO } SequenceKind;

typedef struct Sequence {
    SequenceKind kind;
    const char  *path;   /* of a file that is a sequence by itself */
    const char **frames; /* IMAGES */
    int32_t      n, cap; /* frames */
    int32_t      first;  /* RANGES, RANGE_ARRAY: in Clips.ranges; VIDEO: in the cache's list */
    int64_t      height, width;
    int64_t      first_clip, first_frame; /* of the sequence; of its first clip */
} Sequence;

typedef struct Clips {
    int        observed, future, mask; /* indices in the spec, or -1 */
    int64_t    n_observed, n_future, height, width, channels;
    bool       newest;    /* one clip of each sequence: its newest frames are observed */
    int64_t    hold_back; /* newest: the frames after those, which are the future */
    Sequence  *sequences;
    int32_t    n, cap;
    ImageInfo  largest;
    RangeFile *ranges;
    int32_t    n_ranges, cap_ranges;
    Ranges    *arrays;
    Videos    *videos;
    FilePick   pick;
    RangeView  view;
} Clips;

static float *clip_frame(const Clips *c, int64_t k, void *const *to)
{
    int64_t size = c->height * c->width * c->channels;
    return k < c->n_observed
               ? (c->observed < 0 ? NULL : (float *)to[c->observed] + k * size)
               : (c->future < 0 ? NULL : (float *)to[c->future] + (k - c->n_observed) * size);
}

static uint8_t *clip_mask(const Clips *c, int64_t k, void *const *to)
{
    return k < c->n_observed || c->mask < 0
               ? NULL
               : (uint8_t *)to[c->mask] + (k - c->n_observed) * c->height * c->width;
}

static const Sequence *clips_sequence(const Clips *c, int64_t id)
{
    return &c->sequences[span_find(&c->sequences->first_clip, sizeof *c->sequences, c->n, id)];
}

/* One frame of a sequence; mask: (H,W), or NULL. */
static Err sequence_frame(const Clips *c, const Sequence *s, int64_t frame, float *out,
                          uint8_t *mask, Work *work)
{
    if (s->kind == RANGES)
        return range_frame(&c->ranges[s->first + frame], 0, &c->view, out, mask, work);
    if (s->kind == RANGE_ARRAY)
        return range_frame(&c->ranges[s->first], frame, &c->view, out, mask, work);
    if (mask)
        memset(mask, 1, (size_t)(c->height * c->width));
    if (s->kind == VIDEO)
        return video_frame(&c->videos->list.items[s->first], frame, out, work);
    TRY(image_load(s->frames[frame], c->height, c->width, c->channels, out, work));
    for (int64_t i = 0; i < c->height * c->width * c->channels; i++)
        out[i] = out[i] * 2 - 1;
    return OK;
}

/* A frame after the last one of a clip that was given. */
static void frame_absent(const Clips *c, float *out, uint8_t *mask)
{
    for (int64_t i = 0; i < c->height * c->width * c->channels; i++)
        out[i] = -1;
    if (mask)
        memset(mask, 0, (size_t)(c->height * c->width));
}

static Err clips_load(const DataSource *source, int64_t id, int64_t draw, void *const *to,
                      Work *work)
{
    (void)draw;
    const Clips    *c = source->own;
    const Sequence *s = clips_sequence(c, id);
    int64_t         length = c->n_observed + c->n_future,
            first = s->first_frame + (id - s->first_clip) * length;
    size_t used = work->used;
    for (int64_t k = 0; k < length; k++, work->used = used) {
        float   *out = clip_frame(c, k, to);
        uint8_t *mask = clip_mask(c, k, to);
        if (out && first + k >= s->n)
            frame_absent(c, out, mask);
        else if (out)
            TRY(sequence_frame(c, s, first + k, out, mask, work));
    }
    return OK;
}

static int64_t clips_group(const DataSource *source, int64_t id)
{
    return clips_sequence(source->own, id)->first_clip;
}

static const char *clips_about(const DataSource *source, int64_t id, char *room, size_t n)
{
    (void)room;
    (void)n;
    const Clips    *c = source->own;
    const Sequence *s = clips_sequence(c, id);
    int64_t         frame = s->first_frame + (id - s->first_clip) * (c->n_observed + c->n_future);
    return s->path             ? s->path
           : s->kind == RANGES ? c->ranges[s->first + frame].path
                               : s->frames[frame];
}

/* ---- opening ---- */

static bool is_range_name(const char *name)
{
    return name_ends(name, ".npy") || name_ends(name, ".npz");
}

/* A video, or an array of several frames. */
static void sequence_alone(Pool *pool, Clips *c, Sequence s)
{
    VEC_ADD(pool, c->sequences, c->n, c->cap, s);
}

static Err video_add(Pool *pool, Clips *c, const char *path)
{
    Sequence s = { .kind = VIDEO, .path = path, .first = c->videos->list.n };
    TRY(cache_add(pool, &c->videos->list, path));
    s.n = (int32_t)int_min(video_frames(&c->videos->list.items[s.first]), INT32_MAX);
    sequence_alone(pool, c, s);
    return OK;
}

/* alone: the file was a sequence by itself. */
static Err frame_look(Pool *pool, Clips *c, const char *path, SequenceKind kind, int64_t *height,
                      int64_t *width, bool *alone)
{
    ImageInfo info;
    RangeFile range;
    *alone = false;
    if (kind == IMAGES) {
        TRY(image_look(path, &info));
        info.path = path;
        largest_note(&c->largest, &info);
        *height = info.height;
        *width = info.width;
        return OK;
    }
    TRY(range_look(pool, c->arrays, path, &range));
    *alone = range.frames > 1;
    *height = range.height;
    *width = range.width;
    if (*alone)
        sequence_alone(pool, c,
                       (Sequence){ .kind = RANGE_ARRAY,
                                   .path = path,
                                   .first = c->n_ranges,
                                   .n = (int32_t)int_min(range.frames, INT32_MAX) });
    VEC_ADD(pool, c->ranges, c->n_ranges, c->cap_ranges, range);
    return OK;
}

static Err sequence_add(Pool *pool, Clips *c, Sequence *s, const char *path)
{
    SequenceKind kind = is_range_name(path) ? RANGES : IMAGES;
    int64_t      height = 0, width = 0;
    int32_t      at = c->n_ranges;
    bool         alone;
    TRY(frame_look(pool, c, path, kind, &height, &width, &alone));
    if (alone)
        return OK;
    if (s->n && (s->kind != kind || (kind == RANGES && at != s->first + s->n)))
        return fail(E_FORMAT,
                    "%s: its folder holds both images and .npy frames, or arrays of one frame and "
                    "of several; keep one kind",
                    path);
    if (s->n && (s->height != height || s->width != width))
        return fail(E_FORMAT,
                    "%s is %lld x %lld (height x width), the frames before it %lld x %lld; all "
                    "frames of a folder must have one size",
                    path, (long long)height, (long long)width, (long long)s->height,
                    (long long)s->width);
    s->first = s->n ? s->first : at;
    s->kind = kind;
    s->height = height;
    s->width = width;
    VEC_ADD(pool, s->frames, s->n, s->cap, path);
    return OK;
}

/* An array that is named by itself. */
static Err array_add(Pool *pool, Clips *c, const char *path)
{
    Sequence s = { 0 };
    TRY(sequence_add(pool, c, &s, path));
    if (s.n)
        sequence_alone(pool, c, s);
    return OK;
}

static Err clips_walk(Pool *pool, Clips *c, const char *folder, int depth)
{
    Sequence s = { 0 };
    char   **names;
    int      n;
    TRY(folder_list(pool, folder, &names, &n));
    for (int pass = 0; pass < 2; pass++) /* the frames of a folder are neighbours in c->ranges */
        for (int i = 0; i < n; i++) {
            const char *path = pool_print(pool, "%s/%s", folder, names[i]);
            int         deeper = depth;
            bool        below = folder_within(folder, path);
            if (below && pass && !folder_of_runs(path)) {
                TRY(folder_deeper(&deeper, path));
                TRY(clips_walk(pool, c, path, deeper));
            }
            if (below || folder_exists(path) || !file_picked(c->pick, path))
                continue;
            if (video_name(names[i]) && pass)
                TRY(video_add(pool, c, path));
            else if (!pass && (image_name(names[i]) || is_range_name(names[i])))
                TRY(sequence_add(pool, c, &s, path));
        }
    if (s.n)
        sequence_alone(pool, c, s);
    return OK;
}

/* The smallest and largest range of all frames, unless the recipe gives them. */
static Err clips_range(Clips *c, const DataSpec *spec)
{
    c->view = (RangeView){ c->height, c->width, c->channels, spec->range_low, spec->range_high };
    if (!c->n_ranges && spec->range_high > spec->range_low)
        return fail(E_USAGE,
                    "%s holds images, and data.range_low and data.range_high are those of range "
                    "images, which a run that was trained on them keeps; give arrays of metres "
                    "(.npy, .npz), or set both keys to 0",
                    spec->path);
    if (c->n_ranges && c->newest && !(c->view.high > c->view.low))
        return fail(E_USAGE,
                    "%s holds range images, and the run was trained on images or videos; give "
                    "such, or the metres of its levels -1 and 1: --set data.range_low=M --set "
                    "data.range_high=M",
                    spec->path);
    if (c->view.high > c->view.low || !c->n_ranges)
        return OK;
    c->view.low = INFINITY;
    c->view.high = -INFINITY;
    for (int32_t i = 0; i < c->n_ranges; i++)
        TRY(range_extremes(&c->ranges[i], &c->view.low, &c->view.high));
    if (!(c->view.high > c->view.low))
        return fail(E_FORMAT,
                    "%s: its range images hold %s; a beam that returned is a number of metres "
                    "above 0",
                    spec->path,
                    c->view.high < c->view.low ? "no return at all" : "the same range everywhere");
    return OK;
}

static Err clips_new(Pool *pool, const DataSpec *spec, const char *kind, Clips **out)
{
    Clips *c = *out = NEW(pool, Clips);
    TRY(spec_need(spec, kind, "observed", F32, 4, &c->observed));
    TRY(spec_need(spec, kind, "future", F32, 0, &c->future));
    TRY(spec_need(spec, kind, "mask", U8, 0, &c->mask));
    Shape shape = spec->feeds[c->observed].shape;
    TRY(channels_check(kind, shape));
    c->n_observed = shape.dim[0];
    c->n_future = c->future < 0 ? 0 : spec->feeds[c->future].shape.dim[0];
    c->height = shape.dim[1];
    c->width = shape.dim[2];
    c->channels = shape.dim[3];
    c->newest = spec->as_input;
    c->hold_back = spec->hold_back;
    return OK;
}

/* Numbers the clips; sequences without one are left out. Sets the longest sequence's frames. */
static int64_t clips_number(Clips *c, int64_t length, int64_t *longest)
{
    int64_t n = 0;
    int32_t kept = 0;
    *longest = 0;
    for (int32_t i = 0; i < c->n; i++) {
        Sequence s = c->sequences[i];
        int64_t  clips = c->newest ? s.n >= c->n_observed + c->hold_back : s.n / length;
        *longest = int_max(*longest, s.n);
        s.first_clip = n;
        s.first_frame = c->newest ? s.n - c->hold_back - c->n_observed : s.n % length / 2;
        n += clips;
        if (clips)
            c->sequences[kept++] = s;
    }
    c->n = kept;
    return n;
}

/* What is trained on: sequences, frames, and how range images become the model's; after the
 * sequences without a clip are removed. */
static const char *clips_detail(Pool *pool, const Clips *c, int32_t removed)
{
    Text    text = { .pool = pool };
    int64_t frames = 0;
    for (int32_t i = 0; i < c->n; i++)
        frames += c->sequences[i].n;
    text_add(&text, "%d %s of %s frames", c->n, c->n == 1 ? "sequence" : "sequences",
             count_text(frames));
    if (c->videos->list.n)
        text_add(&text, ", among them %s", videos_said(pool, c->videos));
    if (removed)
        text_add(&text, "; %d with fewer frames than a clip %s left out", removed,
                 removed == 1 ? "is" : "are");
    if (!c->n_ranges)
        return text.at;
    const RangeFile *f = &c->ranges[0];
    text_add(&text, "; range images of %lld x %lld", (long long)f->height, (long long)f->width);
    if (f->channels > 1)
        text_add(&text, ", channel %lld of %lld", (long long)f->channel, (long long)f->channels);
    if (f->height != c->height || f->width != c->width)
        text_add(&text, ", the nearest rows and columns of %lld x %lld", (long long)c->height,
                 (long long)c->width);
    text_add(&text, ", %g to %g m", c->view.low, c->view.high);
    return text.at;
}

static size_t clips_work(const Clips *c)
{
    size_t range = 0;
    for (int32_t i = 0; i < c->n_ranges; i++)
        range = size_max(range, range_frame_work(&c->ranges[i]));
    return image_work(&c->largest, c->height, c->width) + range + video_frame_work(c->videos);
}

Err clips_open(Pool *pool, const DataSpec *spec, DataSource **out)
{
    Clips  *c;
    int64_t longest;
    TRY(clips_new(pool, spec, "clips", &c));
    c->arrays = ranges_new(pool, spec);
    c->videos = videos_new(pool, spec, c->height, c->width, c->channels, FIT_STRETCH);
    c->pick = spec_pick(spec);
    bool file = file_exists(spec->path) && !folder_exists(spec->path);
    if (file && video_name(spec->path))
        TRY(video_add(pool, c, spec->path));
    else if (file && is_range_name(spec->path))
        TRY(array_add(pool, c, spec->path));
    else {
        TRY(folder_needed(spec->path));
        TRY(clips_walk(pool, c, spec->path, FOLDERS_DEEP));
    }
    if (!c->n)
        return files_none(pool, spec->path, c->pick, "frames (.png, .jpg, .npy or .npz) or videos");
    int32_t sequences = c->n;
    int64_t length = c->n_observed + c->n_future, n = clips_number(c, length, &longest);
    if (!n)
        return fail(E_FORMAT,
                    "%s: no folder or file has the %lld frames of a clip%s; the longest of its %d "
                    "sequences has %lld",
                    spec->path, (long long)(c->newest ? c->n_observed + c->hold_back : length),
                    c->hold_back ? " and of what --hold-back leaves out" : "", sequences,
                    (long long)longest);
    TRY(ranges_ready(pool, c->arrays, c->ranges, c->n_ranges));
    TRY(clips_range(c, spec));
    *out = NEW(pool, DataSource);
    **out = (DataSource){ .n_samples = n,
                          .load = clips_load,
                          .group = clips_group,
                          .about = clips_about,
                          .own = c,
                          .largest = c->largest.path,
                          .alpha = c->largest.alpha,
                          .range_low = c->n_ranges ? c->view.low : 0,
                          .range_high = c->n_ranges ? c->view.high : 0,
                          .work_bytes = clips_work(c) };
    TRY(source_fits(spec, *out));
    TRY(cache_fill(pool, &c->videos->list));
    (*out)->detail = clips_detail(pool, c, sequences - c->n);
    return OK;
}

/* ---- drawn: a scene as a rotating range finder sees it ---- */

enum { OBJECTS = 3, STREET_METRES = 60 };

typedef struct MovingObject {
    float x, y, speed, radius, metres;
    int   form;
} MovingObject;

/* A street that is nearer towards the bottom, and boxes and discs that pass by. 4% of the beams do
 * not return, and none returns from the sky. */
static Err moving_load(const DataSource *source, int64_t id, int64_t draw, void *const *to,
                       Work *work)
{
    (void)draw;
    (void)work;
    const Clips *c = source->own;
    Dice         dice = { sample_key(source, "moving-shapes", id), 0 };
    MovingObject objects[OBJECTS];
    float        h = (float)c->height, w = (float)c->width;
    for (int i = 0; i < OBJECTS; i++)
        objects[i] = (MovingObject){ .x = dice_unit(&dice) * w,
                                     .y = dice_range(&dice, 0.35f, 0.7f) * h,
                                     .speed = dice_range(&dice, 0.02f, 0.06f) * w *
                                              (dice_unit(&dice) < 0.5f ? -1 : 1),
                                     .radius = dice_range(&dice, 0.15f, 0.3f) * h,
                                     .metres = dice_range(&dice, 5, 25),
                                     .form = dice_below(&dice, 2) };
    for (int64_t k = 0; k < c->n_observed + c->n_future; k++) {
        float    *out = clip_frame(c, k, to);
        uint8_t  *mask = clip_mask(c, k, to);
        RandomKey beams = sample_key(source, "beams", id * 64 + k % 64);
        for (int64_t p = 0; out && p < c->height * c->width; p++) {
            float y = (float)(p / c->width) + 0.5f, x = (float)(p % c->width) + 0.5f;
            float r = 1.6f / (y / h - 0.28f) * 3;
            bool  sky = y < 0.3f * h;
            r = r > STREET_METRES || r < 0 ? STREET_METRES : r;
            for (int i = 0; i < OBJECTS; i++) {
                float dx = x - objects[i].x - objects[i].speed * (float)k;
                dx -= w * floorf(dx / w + 0.5f); /* the view is a full circle */
                Form form = objects[i].form ? FORM_BOX : FORM_DISC;
                if (objects[i].metres < r &&
                    draw_form(form, dx, y - objects[i].y, objects[i].radius) > 0.5f) {
                    r = objects[i].metres;
                    sky = false;
                }
            }
            bool  back = !sky && random_uniform_at(beams, (uint64_t)p) > 0.04f;
            float level = back ? floorf(255 * r / STREET_METRES) / 255 * 2 - 1 : -1;
            for (int64_t ch = 0; ch < c->channels; ch++)
                out[p * c->channels + ch] = level;
            if (mask)
                mask[p] = back;
        }
    }
    return OK;
}

Err moving_open(Pool *pool, const DataSpec *spec, DataSource **out)
{
    Clips *c;
    TRY(clips_new(pool, spec, "moving-shapes", &c));
    *out = NEW(pool, DataSource);
    **out = (DataSource){
        .n_samples = spec->samples, .load = moving_load, .own = c, .range_high = STREET_METRES
    };
    return OK;
}
