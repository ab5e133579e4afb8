/* clips.c -- clips of frames: observed (To,H,W,C), future (Tp,H,W,C) in [-1,1], mask (Tp,H,W) 0/1.
 *
 * Every folder below the path that holds frames is one sequence, in the order of file_name_order.
 * Its frames are all images, or all .npy range images (H,W) in metres, where r <= 0 means that the
 * beam did not return. Clips do not overlap; surplus frames are left out, half of them at the
 * start. */
#include "data/kinds.h"

#include "base/file.h"
#include "data/draw.h"
#include "data/frames.h"

#include <math.h>
#include <string.h>

typedef struct Sequence {
    const char **frames;
    int32_t      n, cap;
    int64_t      height, width;
    int64_t      first_clip, first_frame; /* of the sequence; of its first clip */
    bool         range;
} Sequence;

typedef struct Clips {
    int       observed, future, mask; /* indices in the spec, or -1 */
    int64_t   n_observed, n_future, height, width, channels;
    Sequence *sequences;
    int32_t   n, cap;
    ImageInfo largest;
    size_t    npy_bytes;
    int64_t   npy_pixels;
    double    low, high;
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

static Err range_load(const Clips *c, const char *path, float *to, uint8_t *mask, Work *work)
{
    Npy metres;
    TRY(npy_load(path, work, &metres));
    int64_t h = metres.shape[0], w = metres.rank > 1 ? metres.shape[1] : 0,
            n = c->height * c->width;
    if (metres.count != h * w || metres.count > c->npy_pixels)
        return fail(E_IO, "%s has changed since the run began; restart the run", path);
    TRY(work_left(work, path,
                  work_size((size_t)metres.count * sizeof(float)) +
                      work_size((size_t)n * sizeof(float)) + work_size((size_t)metres.count) +
                      image_resize_work(h, w, 1, c->height, c->width)));
    float *all = work_take(work, (size_t)metres.count * sizeof *all),
          *fit = work_take(work, (size_t)n * sizeof *fit);
    uint8_t *valid = work_take(work, (size_t)metres.count);
    range_scale(&metres, c->low, c->high, all, valid);
    if (h == c->height && w == c->width)
        memcpy(fit, all, (size_t)n * sizeof *fit);
    else
        image_resize(all, h, w, 1, fit, c->height, c->width, RESIZE_CUBIC, work);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t ch = 0; ch < c->channels; ch++)
            to[i * c->channels + ch] = fit[i] < -1 ? -1 : fit[i] > 1 ? 1 : fit[i];
        if (mask) { /* the nearest pixel's */
            int64_t y = (2 * (i / c->width) + 1) * h / (2 * c->height);
            int64_t x = (2 * (i % c->width) + 1) * w / (2 * c->width);
            mask[i] = valid[y * w + x];
        }
    }
    return OK;
}

static const Sequence *clips_sequence(const Clips *c, int64_t id)
{
    return &c->sequences[span_find(&c->sequences->first_clip, sizeof *c->sequences, c->n, id)];
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
        if (!out)
            continue;
        if (s->range) {
            TRY(range_load(c, s->frames[first + k], out, mask, work));
            continue;
        }
        TRY(image_load(s->frames[first + k], c->height, c->width, c->channels, out, work));
        for (int64_t i = 0; i < c->height * c->width * c->channels; i++)
            out[i] = out[i] * 2 - 1;
        if (mask)
            memset(mask, 1, (size_t)(c->height * c->width));
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
    return s->frames[s->first_frame + (id - s->first_clip) * (c->n_observed + c->n_future)];
}

/* ---- opening ---- */

static Err frame_look(Clips *c, const char *path, bool range, int64_t *height, int64_t *width)
{
    ImageInfo info;
    Npy       array;
    size_t    bytes;
    if (!range) {
        TRY(image_look(path, &info));
        info.path = path;
        largest_note(&c->largest, &info);
        *height = info.height;
        *width = info.width;
        return OK;
    }
    TRY(npy_look(path, 0, &array, &bytes));
    if (array.rank != 2 || array.count < 1)
        return fail(E_FORMAT, "%s has %d axes%s; a range image has two, (height, width)", path,
                    array.rank, array.count < 1 ? " and no numbers" : "");
    *height = array.shape[0];
    *width = array.shape[1];
    c->npy_bytes = bytes > c->npy_bytes ? bytes : c->npy_bytes;
    c->npy_pixels = array.count > c->npy_pixels ? array.count : c->npy_pixels;
    return OK;
}

static Err sequence_add(Pool *pool, Clips *c, Sequence *s, const char *path)
{
    bool    range = name_ends(path, ".npy");
    int64_t height = 0, width = 0;
    TRY(frame_look(c, path, range, &height, &width));
    if (s->n && s->range != range)
        return fail(E_FORMAT, "%s: its folder holds both images and .npy frames; keep one kind",
                    path);
    if (s->n && (s->height != height || s->width != width))
        return fail(E_FORMAT,
                    "%s is %lld x %lld (height x width), the frames before it %lld x %lld; all "
                    "frames of a folder must have one size",
                    path, (long long)height, (long long)width, (long long)s->height,
                    (long long)s->width);
    s->range = range;
    s->height = height;
    s->width = width;
    VEC_ADD(pool, s->frames, s->n, s->cap, path);
    return OK;
}

static Err clips_walk(Pool *pool, Clips *c, const char *folder, int depth)
{
    Sequence s = { 0 };
    char   **names;
    int      n;
    TRY(folder_list(pool, folder, &names, &n));
    for (int i = 0; i < n; i++) {
        const char *path = pool_print(pool, "%s/%s", folder, names[i]);
        int         deeper = depth;
        if (folder_within(folder, path)) {
            TRY(folder_deeper(&deeper, path));
            TRY(clips_walk(pool, c, path, deeper));
        } else if ((image_name(names[i]) || name_ends(names[i], ".npy")) && !folder_exists(path)) {
            TRY(sequence_add(pool, c, &s, path));
        }
    }
    if (s.n)
        VEC_ADD(pool, c->sequences, c->n, c->cap, s);
    return OK;
}

/* The smallest and largest range of all frames, unless the recipe gives them. */
static Err clips_range(Pool *pool, Clips *c, const DataSpec *spec)
{
    c->low = spec->range_low;
    c->high = spec->range_high;
    if (c->high > c->low)
        return OK;
    c->low = INFINITY;
    c->high = -INFINITY;
    bool any = false;
    for (int32_t i = 0; i < c->n; i++)
        for (int32_t f = 0; c->sequences[i].range && f < c->sequences[i].n; f++) {
            Npy   metres;
            Pool *one = pool_new(pool, "range");
            any = true;
            TRY(npy_read(one, c->sequences[i].frames[f], &metres));
            for (int64_t p = 0; p < metres.count; p++) {
                double r = (double)npy_number(&metres, p);
                if (r > 0 && isfinite(r)) {
                    c->low = fmin(c->low, r);
                    c->high = fmax(c->high, r);
                }
            }
            pool_free(one);
        }
    if (any && !(c->high > c->low))
        return fail(E_FORMAT,
                    "%s: its range images hold %s; a beam that returned is a number of metres "
                    "above 0",
                    spec->path,
                    c->high < c->low ? "no return at all" : "the same range everywhere");
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
    return OK;
}

Err clips_open(Pool *pool, const DataSpec *spec, DataSource **out)
{
    Clips  *c;
    int64_t n = 0, longest = 0;
    int32_t kept = 0;
    TRY(clips_new(pool, spec, "clips", &c));
    TRY(folder_needed(spec->path));
    TRY(clips_walk(pool, c, spec->path, FOLDERS_DEEP));
    if (!c->n)
        return files_none(pool, spec->path, "frames (.png, .jpg or .npy)");
    int64_t length = c->n_observed + c->n_future;
    for (int32_t i = 0; i < c->n; i++) {
        Sequence s = c->sequences[i];
        longest = s.n > longest ? s.n : longest;
        s.first_clip = n;
        s.first_frame = s.n % length / 2;
        n += s.n / length;
        if (s.n >= length)
            c->sequences[kept++] = s;
    }
    if (!n)
        return fail(E_FORMAT,
                    "%s: no folder has the %lld frames of a clip; the longest of its %d sequences "
                    "has %lld",
                    spec->path, (long long)length, c->n, (long long)longest);
    c->n = kept;
    TRY(clips_range(pool, c, spec));
    int64_t max_h = c->height, max_w = c->width;
    for (int32_t i = 0; i < c->n; i++) {
        max_h = c->sequences[i].height > max_h ? c->sequences[i].height : max_h;
        max_w = c->sequences[i].width > max_w ? c->sequences[i].width : max_w;
    }
    size_t range_work = work_size(c->npy_bytes) + work_size((size_t)c->npy_pixels * 4) +
                        work_size((size_t)c->npy_pixels) +
                        work_size((size_t)(c->height * c->width) * 4) +
                        image_resize_work(max_h, max_w, 1, c->height, c->width);
    *out = NEW(pool, DataSource);
    **out = (DataSource){ .n_samples = n,
                          .load = clips_load,
                          .group = clips_group,
                          .about = clips_about,
                          .own = c,
                          .largest = c->largest.path,
                          .work_bytes = image_work(&c->largest, c->height, c->width) + range_work };
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
    **out = (DataSource){ .n_samples = spec->samples, .load = moving_load, .own = c };
    return OK;
}
