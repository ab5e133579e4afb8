/* sets.c -- sets of images of one class: images (ns,H,W,C) in [-1,1].
 *
 * Each class is shuffled again in every epoch and divided into sets; images that do not fill a set
 * are left out of that epoch. Files: one folder of images for each class, or CIFAR's binary records
 * (one label byte, or two of which the second counts; then 32x32 bytes each of red, green and
 * blue). */
#include "data/kinds.h"

#include "base/file.h"
#include "base/text.h"
#include "data/draw.h"
#include "data/image.h"

#include <stdio.h>
#include <string.h>

enum { CIFAR_SIDE = 32, CIFAR_PIXELS = 3 * CIFAR_SIDE * CIFAR_SIDE };

typedef struct ImageClass {
    const char           *name;
    ImageList             files;   /* of a folder */
    const unsigned char **records; /* or CIFAR pixels; else NULL */
    int32_t               n, cap;  /* records */
    int64_t               first_set;
} ImageClass;

typedef struct Sets {
    int         feed;
    int64_t     size, height, width, channels;
    FilePick    pick;
    ImageClass *classes;
    int32_t     n, cap;
} Sets;

static int64_t class_count(const ImageClass *c) { return c->records ? c->n : c->files.n; }

static const ImageClass *sets_class(const Sets *s, int64_t id)
{
    return &s->classes[span_find(&s->classes->first_set, sizeof *s->classes, s->n, id)];
}

static void record_load(const Sets *s, const unsigned char *planes, float *to, Work *work)
{
    float *all = work_take(work, (size_t)(CIFAR_SIDE * CIFAR_SIDE * s->channels) * sizeof(float));
    for (int64_t p = 0; p < CIFAR_SIDE * CIFAR_SIDE; p++) {
        float rgb[3];
        for (int c = 0; c < 3; c++)
            rgb[c] = (float)planes[c * CIFAR_SIDE * CIFAR_SIDE + p] / 255;
        for (int64_t c = 0; c < s->channels; c++)
            all[p * s->channels + c] = s->channels == 1
                                           ? 0.299f * rgb[0] + 0.587f * rgb[1] + 0.114f * rgb[2]
                                           : rgb[c];
    }
    image_resize(all, CIFAR_SIDE, CIFAR_SIDE, s->channels, to, s->height, s->width, RESIZE_CUBIC,
                 work);
}

static Err sets_load(const DataSource *source, int64_t id, int64_t draw, void *const *to,
                     Work *work)
{
    const Sets       *s = source->own;
    const ImageClass *c = sets_class(s, id);
    int64_t           size = s->height * s->width * s->channels, epoch = draw / source->n_samples;
    for (int64_t k = 0; k < s->size; k++) {
        int64_t at = shuffled(class_count(c), source->seed ^ random_stream(c->name),
                              (uint64_t)epoch, (id - c->first_set) * s->size + k);
        float  *out = (float *)to[s->feed] + k * size;
        size_t  used = work->used;
        if (c->records)
            record_load(s, c->records[at], out, work);
        else
            TRY(image_load(c->files.paths[at], s->height, s->width, s->channels, out, work));
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

static ImageClass *class_add(Pool *pool, Sets *s, const char *name)
{
    for (int32_t i = 0; i < s->n; i++)
        if (!strcmp(s->classes[i].name, name))
            return &s->classes[i];
    VEC_ADD(pool, s->classes, s->n, s->cap, (ImageClass){ .name = name });
    return &s->classes[s->n - 1];
}

static Err sets_binary(Pool *pool, Sets *s, const char *path)
{
    char  *bytes;
    size_t n, labels;
    TRY(file_read(pool, path, &bytes, &n));
    labels = n % (CIFAR_PIXELS + 1) == 0 ? 1 : 2;
    if (!n || n % (CIFAR_PIXELS + labels))
        return fail(E_FORMAT, "%s has %zu bytes, not a multiple of a CIFAR record's %d or %d bytes",
                    path, n, CIFAR_PIXELS + 1, CIFAR_PIXELS + 2);
    for (size_t at = 0; at < n; at += CIFAR_PIXELS + labels) {
        ImageClass *c = class_add(
            pool, s, pool_print(pool, "class %d", (unsigned char)bytes[at + labels - 1]));
        VEC_ADD(pool, c->records, c->n, c->cap, (const unsigned char *)bytes + at + labels);
    }
    return OK;
}

/* A data set's parts are no classes: with them, every set would mix all classes. */
static Err sets_parts(Pool *pool, const char *path, char *const *names, int n)
{
    static const char *const others[] = { "test", "val", "valid", "validation" };
    bool                     train = false;
    const char              *other = NULL;
    for (int i = 0; i < n; i++) {
        train |= !strcmp(names[i], "train");
        for (size_t k = 0; k < sizeof others / sizeof *others; k++)
            if (!strcmp(names[i], others[k]))
                other = names[i];
    }
    if (!train || !other || !folder_exists(pool_print(pool, "%s/train", path)) ||
        !folder_exists(pool_print(pool, "%s/%s", path, other)))
        return OK;
    return fail(E_USAGE,
                "%s holds train/ and %s/, which are parts of a data set and not classes; use "
                "--data %s/train --set data.holdout_path=%s/%s",
                path, other, path, path, other);
}

static Err sets_read(Pool *pool, Sets *s, const char *path, ImageInfo *largest)
{
    char **names;
    int    n;
    if (!file_exists(path))
        return fail(E_IO, "there is no folder or file %s", path);
    if (!folder_exists(path))
        return name_ends(path, ".bin")
                   ? sets_binary(pool, s, path)
                   : fail(E_FORMAT, "%s is neither a folder of classes nor a CIFAR .bin file",
                          path);
    TRY(folder_list(pool, path, &names, &n));
    TRY(sets_parts(pool, path, names, n));
    for (int i = 0; i < n; i++) {
        const char *sub = pool_print(pool, "%s/%s", path, names[i]);
        if (folder_exists(sub)) {
            ImageClass *c = class_add(pool, s, names[i]);
            TRY(image_list(pool, sub, s->pick, &c->files));
            largest_note(largest, &c->files.largest);
        } else if (name_ends(names[i], ".bin"))
            TRY(sets_binary(pool, s, sub));
    }
    if (!s->n) { /* images in no folder of their own: one class */
        ImageClass *c = class_add(pool, s, path);
        TRY(image_list(pool, path, s->pick, &c->files));
        largest_note(largest, &c->files.largest);
    }
    return OK;
}

static Err sets_new(Pool *pool, const DataSpec *spec, const char *kind, Sets **out)
{
    Sets *s = *out = NEW(pool, Sets);
    s->pick = spec_pick(spec);
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
    int64_t low = INT64_MAX, high = 0;
    Text    text = { .pool = pool };
    for (int32_t i = 0; i < s->n; i++) {
        int64_t n = class_count(&s->classes[i]);
        low = n < low ? n : low;
        high = n > high ? n : high;
    }
    text_add(&text, "%d %s of ", s->n, s->n == 1 ? "class" : "classes");
    if (low < high)
        text_add(&text, "%lld to ", (long long)low);
    text_add(&text, "%lld images, %lld a set", (long long)high, (long long)s->size);
    if (removed)
        text_add(&text, "; %d with fewer images than a set %s left out", removed,
                 removed == 1 ? "is" : "are");
    return text.at;
}

Err sets_open(Pool *pool, const DataSpec *spec, DataSource **out)
{
    Sets     *s;
    ImageInfo largest = { 0 };
    int64_t   n = 0, largest_class = 0, cifar = CIFAR_SIDE * CIFAR_SIDE * 3;
    TRY(sets_new(pool, spec, "sets", &s));
    TRY(sets_read(pool, s, spec->path, &largest));
    for (int32_t i = 0; i < s->n; i++) {
        ImageClass *c = &s->classes[i];
        largest_class = class_count(c) > largest_class ? class_count(c) : largest_class;
        c->first_set = n;
        n += class_count(c) / s->size;
    }
    if (!n)
        return fail(E_FORMAT,
                    "%s: no class has the %lld images of a set; the largest of %d classes has %lld",
                    spec->path, (long long)s->size, s->n, (long long)largest_class);
    /* Classes without a whole set are removed. */
    int32_t kept = 0;
    for (int32_t i = 0; i < s->n; i++)
        if (class_count(&s->classes[i]) >= s->size)
            s->classes[kept++] = s->classes[i];
    int32_t removed = s->n - kept;
    s->n = kept;
    *out = NEW(pool, DataSource);
    **out = (DataSource){ .n_samples = n,
                          .detail = sets_detail(pool, s, removed),
                          .load = sets_load,
                          .about = sets_about,
                          .own = s,
                          .largest = largest.path,
                          .work_bytes = image_work(&largest, s->height, s->width) +
                                        work_size((size_t)cifar * sizeof(float)) +
                                        image_resize_work(CIFAR_SIDE, CIFAR_SIDE, 3, s->height,
                                                          s->width) };
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
