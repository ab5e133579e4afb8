/* sets.c -- sets of images of one class: images (ns,H,W,C) in [-1,1].
 *
 * Each class is shuffled again in every epoch and divided into sets; images that do not fill a set
 * are left out of that epoch. Where classes come from: sets.h. */
#include "data/sets.h"

#include "base/text.h"
#include "data/draw.h"
#include "data/kinds.h"

#include <stdio.h>
#include <string.h>

typedef struct Sets {
    int        feed;
    int64_t    size, height, width, channels;
    SetClasses classes;
} Sets;

static const ImageClass *sets_class(const Sets *s, int64_t id)
{
    const ImageClass *list = s->classes.list;
    return &list[span_find(&list->first_set, sizeof *list, s->classes.n, id)];
}

static Err array_image(const Sets *s, const SetItem *item, float *to, Work *work)
{
    const SetArray *a = item->array;
    size_t          used = work->used;
    bool            same = a->height == s->height && a->width == s->width;
    float          *all =
        same ? to : work_take(work, (size_t)(a->height * a->width * s->channels) * sizeof(float));
    TRY(set_array_load(a, item->index, s->channels, all, work));
    if (!same)
        image_resize(all, a->height, a->width, s->channels, to, s->height, s->width, RESIZE_CUBIC,
                     work);
    work->used = used;
    return OK;
}

static Err sets_load(const DataSource *source, int64_t id, int64_t draw, void *const *to,
                     Work *work)
{
    const Sets       *s = source->own;
    const ImageClass *c = sets_class(s, id);
    int64_t           size = s->height * s->width * s->channels, epoch = draw / source->n_samples;
    for (int64_t k = 0; k < s->size; k++) {
        int64_t        at = shuffled(c->n, source->seed ^ random_stream(c->name), (uint64_t)epoch,
                                     (id - c->first_set) * s->size + k);
        float         *out = (float *)to[s->feed] + k * size;
        size_t         used = work->used;
        const SetItem *item = &c->items[at];
        TRY(item->path ? image_load(item->path, s->height, s->width, s->channels, out, work)
                       : array_image(s, item, out, work));
        work->used = used;
        for (int64_t i = 0; i < size; i++)
            out[i] = clamp01(out[i]) * 2 - 1;
    }
    return OK;
}

static const char *sets_about(const DataSource *source, int64_t id, char *room, size_t n)
{
    (void)room;
    (void)n;
    return sets_class(source->own, id)->name;
}

static Err sets_new(Pool *pool, const DataSpec *spec, const char *kind, Sets **out)
{
    Sets *s = *out = NEW(pool, Sets);
    TRY(spec_need(spec, kind, spec_find(spec, "images") >= 0 ? "images" : "support", F32, 4,
                  &s->feed));
    Shape shape = spec->feeds[s->feed].shape;
    TRY(channels_check(kind, shape));
    s->size = shape.dim[0];
    s->height = shape.dim[1];
    s->width = shape.dim[2];
    s->channels = shape.dim[3];
    return OK;
}

/* Classes, images of each, and what is left out; after the classes without a set are removed. */
static const char *sets_detail(Pool *pool, const Sets *s, int32_t removed)
{
    const SetClasses *c = &s->classes;
    int64_t           low = INT64_MAX, high = 0;
    Text              text = { .pool = pool };
    for (int32_t i = 0; i < c->n; i++) {
        low = int_min(low, c->list[i].n);
        high = int_max(high, c->list[i].n);
    }
    text_add(&text, "%d %s of ", c->n, c->n == 1 ? "class" : "classes");
    if (low < high)
        text_add(&text, "%lld to ", (long long)low);
    text_add(&text, "%lld images, %lld a set", (long long)high, (long long)s->size);
    if (removed)
        text_add(&text, "; %d with fewer images than a set %s left out", removed,
                 removed == 1 ? "is" : "are");
    return text.at;
}

/* Numbers the sets. Classes without a whole set are removed. */
static int64_t sets_number(Sets *s)
{
    SetClasses *c = &s->classes;
    int64_t     n = 0;
    int32_t     kept = 0;
    for (int32_t i = 0; i < c->n; i++) {
        ImageClass one = c->list[i];
        one.first_set = n;
        n += one.n / s->size;
        if (one.n >= s->size)
            c->list[kept++] = one;
    }
    c->n = kept;
    return n;
}

static size_t sets_work(const Sets *s)
{
    const SetClasses *c = &s->classes;
    size_t            pixels = (size_t)(c->array_height * c->array_width);
    size_t            array = pixels ? c->array_work + work_size(pixels * 3 * sizeof(float)) +
                                image_resize_work(c->array_height, c->array_width, 3, s->height,
                                                             s->width)
                                     : 0;
    return image_work(&c->largest, s->height, s->width) + array;
}

Err sets_open(Pool *pool, const DataSpec *spec, DataSource **out)
{
    Sets   *s;
    int64_t largest = 0;
    TRY(sets_new(pool, spec, "sets", &s));
    TRY(set_classes_read(pool, spec, &s->classes));
    int32_t all = s->classes.n;
    for (int32_t i = 0; i < all; i++)
        largest = int_max(largest, s->classes.list[i].n);
    int64_t n = sets_number(s);
    if (!n)
        return fail(E_FORMAT,
                    "%s: no class has the %lld images of a set; the largest of %d classes has %lld",
                    spec->path, (long long)s->size, all, (long long)largest);
    *out = NEW(pool, DataSource);
    **out = (DataSource){ .n_samples = n,
                          .detail = sets_detail(pool, s, all - s->classes.n),
                          .load = sets_load,
                          .about = sets_about,
                          .own = s,
                          .largest = s->classes.largest.path,
                          .alpha = s->classes.largest.alpha,
                          .work_bytes = sets_work(s) };
    return OK;
}

/* ---- drawn ---- */

enum { HUES = 6 };
static const char *const hue_names[HUES] = { "red", "yellow", "green", "cyan", "blue", "magenta" };

/* Each set has one hue and one form on black; place, size and brightness vary within the set. */
static Err coloured_load(const DataSource *source, int64_t id, int64_t draw, void *const *to,
                         Work *work)
{
    (void)draw;
    (void)work;
    const Sets *s = source->own;
    Dice        dice = { sample_key(source, "coloured-sets", id), 0 };
    Form        form = (Form)(id / HUES % FORM_COUNT);
    float       rgb[3], side = (float)(s->height < s->width ? s->height : s->width);
    draw_hue((float)(id % HUES) / HUES, rgb);
    for (int64_t k = 0; k < s->size; k++) {
        float  cx = dice_range(&dice, 0.46f, 0.54f) * (float)s->width;
        float  cy = dice_range(&dice, 0.46f, 0.54f) * (float)s->height;
        float  radius = dice_range(&dice, 0.34f, 0.4f) * side, light = dice_range(&dice, 0.8f, 1);
        float *out = (float *)to[s->feed] + k * s->height * s->width * s->channels;
        for (int64_t y = 0; y < s->height; y++)
            for (int64_t x = 0; x < s->width; x++) {
                float in = draw_form(form, (float)x + 0.5f - cx, (float)y + 0.5f - cy, radius);
                for (int64_t c = 0; c < s->channels; c++)
                    *out++ = 2 * in * light * (s->channels == 3 ? rgb[c] : rgb[0]) - 1;
            }
    }
    return OK;
}

static const char *coloured_about(const DataSource *source, int64_t id, char *room, size_t n)
{
    (void)source;
    snprintf(room, n, "%s %s", hue_names[id % HUES], form_names[id / HUES % FORM_COUNT]);
    return room;
}

Err coloured_sets_open(Pool *pool, const DataSpec *spec, DataSource **out)
{
    Sets *s;
    TRY(sets_new(pool, spec, "coloured-sets", &s));
    *out = NEW(pool, DataSource);
    **out = (DataSource){
        .n_samples = spec->samples, .load = coloured_load, .about = coloured_about, .own = s
    };
    return OK;
}
