/* set_array.c -- images of .npz and .npy files, by class. */
#include "data/set_array.h"

#include "base/file.h"
#include "base/text.h"
#include "base/zip.h"
#include "data/frames.h"
#include "data/image.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#define LEVEL_MAX 1.001 /* 1, and a margin for rounding */
enum { SIDE_MIN = 8 };  /* of images behind an axis of classes: what is narrower has other axes */

static bool is_channels(int64_t n) { return n == 1 || n == 3; }

/* ---- arrays ---- */

/* Sets the axes of the images, the last ones of `a`: (H,W,C), (C,H,W) or (H,W). */
static bool image_axes(const Npy *a, int first, SetArray *s)
{
    const int64_t *d = a->shape + first;
    int            rank = a->rank - first;
    s->planes = rank == 3 && !is_channels(d[2]) && is_channels(d[0]);
    if (rank == 2 || (rank == 3 && (is_channels(d[2]) || s->planes))) {
        s->channels = rank == 2 ? 1 : s->planes ? d[0] : d[2];
        s->height = d[s->planes ? 1 : 0];
        s->width = d[s->planes ? 2 : 1];
        return true;
    }
    return false;
}

/* CIFAR's rows of 3,072 bytes are planes of 32 x 32. */
static bool cifar_axes(const Npy *a, SetArray *s)
{
    enum { SIDE = 32 };
    if (a->rank != 2 || a->shape[1] != 3 * SIDE * SIDE)
        return false;
    s->planes = true;
    s->channels = 3;
    s->height = s->width = SIDE;
    return true;
}

static Err array_values(Pool *pool, const char *path, const char *name, const Npy *a, SetArray *s)
{
    if (a->type == NPY_U1 || a->type == NPY_B1)
        return OK;
    if (!npy_floats(a))
        return fail(E_FORMAT, "%s: %s holds %s; images are uint8, or floats in [0,1] or [-1,1]",
                    path, name, npy_type_name(a->type));
    if (npy_within(path, a, LEVEL_MAX))
        return fail(E_FORMAT,
                    "%s; images of floats are in [0,1] or [-1,1]: divide them by 255, or save "
                    "array.astype('uint8')",
                    pool_text(pool, err_text()));
    for (int64_t i = 0; i < a->count && !s->is_signed; i++)
        s->is_signed = npy_number(a, i) < -0.001f;
    return OK;
}

Err set_array_new(Pool *pool, const char *path, const char *name, const void *bytes, size_t n,
                  const Npy *a, SetArray **out, int64_t *n_each)
{
    SetArray             s = { .path = path, .file_bytes = n, .type = a->type };
    const unsigned char *data = a->data, *file = bytes;
    *n_each = 0;
    bool images = cifar_axes(a, &s) || (a->rank >= 3 && image_axes(a, 1, &s));
    if (!images && a->rank >= 4 && image_axes(a, 2, &s) && s.height >= SIDE_MIN &&
        s.width >= SIDE_MIN)
        *n_each = a->shape[1];
    if ((!images && !*n_each) || a->count < 1)
        return fail(E_FORMAT,
                    "%s: %s has %d axes%s; images are (n, height, width, channels) with 1 or 3 "
                    "channels, or with an axis of classes before them",
                    path, name, a->rank, a->count < 1 ? " and no numbers" : "");
    s.n = a->shape[0] * (*n_each ? *n_each : 1);
    s.stride = a->n_bytes / (size_t)s.n;
    if (data >= file && data + a->n_bytes <= file + n)
        s.at = (size_t)(data - file);
    else
        s.bytes = data;
    TRY(array_values(pool, path, name, a, &s));
    *out = NEW(pool, SetArray);
    **out = s;
    return OK;
}

void set_array_give(Pool *pool, const char *name, const SetArray *array, int64_t n_each,
                    SetTake *take, void *to)
{
    const char *class_name = name;
    for (int64_t i = 0; i < array->n; i++) {
        if (n_each && i % n_each == 0)
            class_name = pool_print(pool, "class %lld", (long long)(i / n_each));
        take(to, class_name, array, i);
    }
}

/* ---- .npz and .npy ---- */

typedef struct Member {
    const char *name;
    Npy         array;
} Member;

typedef struct Members { /* arrays of one file */
    Pool         *pool;
    const char   *path;
    const void   *bytes;
    size_t        n_bytes;
    const Member *list;
    int32_t       n;
} Members;

/* (N) or, as Keras has them, (N,1). */
static bool is_labels(const Npy *a)
{
    return (a->rank == 1 || (a->rank == 2 && a->shape[1] == 1)) && !npy_floats(a) &&
           a->type != NPY_B1;
}

static bool is_images(const Npy *a)
{
    SetArray unused;
    return a->rank >= 3 || cifar_axes(a, &unused);
}

static bool labels_of(const Member *labels, const Member *images)
{
    return is_labels(&labels->array) && is_images(&images->array) &&
           labels->array.shape[0] == images->array.shape[0];
}

static bool is_label_name(const char *name)
{
    static const char *const names[] = { "labels",  "label",   "y",           "targets",
                                         "target",  "classes", "fine_labels", "class_ids",
                                         "y_train", "y_test",  NULL };
    for (int i = 0; names[i]; i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

/* The labels of an array of images: the only array that can be, or the only one with the name of
 * labels. *labels NULL: there are none. */
static Err labels_find(const Members *m, const Member *images, const Member **labels)
{
    const Member *any = NULL, *named = NULL;
    int           n = 0, n_named = 0;
    for (int32_t i = 0; i < m->n; i++)
        if (labels_of(&m->list[i], images)) {
            n++;
            any = any ? any : &m->list[i];
            if (is_label_name(m->list[i].name)) {
                n_named++;
                named = &m->list[i];
            }
        }
    *labels = n_named == 1 ? named : any;
    if (n > 1 && n_named != 1)
        return fail(E_USAGE,
                    "%s: %d arrays may be the labels of %s (%s is the first); save one of them, "
                    "as labels",
                    m->path, n, images->name, any->name);
    return OK;
}

/* The array that data.array names, or the only one that has labels. *images NULL: no array has. */
static Err images_find(const Members *m, const char *wanted, const Member **images)
{
    const Member *second = NULL;
    *images = NULL;
    for (int32_t i = 0; i < m->n; i++) {
        bool labelled = false;
        for (int32_t k = 0; k < m->n; k++)
            labelled = labelled || labels_of(&m->list[k], &m->list[i]);
        if (wanted ? strcmp(wanted, m->list[i].name) != 0 : !labelled)
            continue;
        second = *images ? &m->list[i] : second;
        *images = *images ? *images : &m->list[i];
    }
    if (wanted && !*images)
        return fail(E_USAGE, "%s has no array %s (data.array)", m->path, wanted);
    return second ? fail(E_USAGE,
                         "%s holds several sets of images (%s, %s); say which: --set data.array=%s",
                         m->path, (*images)->name, second->name, (*images)->name)
                  : OK;
}

static Err labels_give(const Members *m, const Member *images, const Npy *labels, SetTake *take,
                       void *to)
{
    SetArray *array;
    int64_t   n_each;
    TRY(set_array_new(m->pool, m->path, images->name, m->bytes, m->n_bytes, &images->array, &array,
                      &n_each));
    if (n_each || array->n != labels->count)
        return fail(E_FORMAT, "%s: %s has %lld images, and there are %lld labels", m->path,
                    images->name, (long long)array->n, (long long)labels->count);
    for (int64_t i = 0; i < array->n; i++)
        take(to, pool_print(m->pool, "class %lld", (long long)npy_whole(labels, i)), array, i);
    return OK;
}

/* Arrays of which each is a class, or has an axis of classes. */
static Err classes_give(const Members *m, const Member *list, int32_t n, SetTake *take, void *to)
{
    for (int32_t i = 0; i < n; i++) {
        SetArray *array;
        int64_t   n_each;
        if (list[i].array.rank == 2 && m->n > 1 && !is_images(&list[i].array))
            return fail(E_FORMAT,
                        "%s: %s has 2 axes, so it holds neither images nor labels; labels are one "
                        "whole number for each image: numpy.argmax(%s, 1), if it is one-hot",
                        m->path, list[i].name, list[i].name);
        TRY(set_array_new(m->pool, m->path, list[i].name, m->bytes, m->n_bytes, &list[i].array,
                          &array, &n_each));
        set_array_give(m->pool, list[i].name, array, n_each, take, to);
    }
    return OK;
}

static Err members_give(const Members *m, const char *wanted, SetTake *take, void *to)
{
    const Member *images, *labels = NULL;
    TRY(images_find(m, wanted, &images));
    if (images)
        TRY(labels_find(m, images, &labels));
    if (labels)
        return labels_give(m, images, &labels->array, take, to);
    if (images)
        return classes_give(m, images, 1, take, to);
    for (int32_t i = 0; i < m->n; i++)
        if (is_labels(&m->list[i].array))
            return fail(E_FORMAT,
                        "%s: %s looks like labels of %lld images, and no array has as many images",
                        m->path, m->list[i].name, (long long)m->list[i].array.shape[0]);
    return classes_give(m, m->list, m->n, take, to);
}

Err set_npz_parse(Pool *pool, const char *path, const void *bytes, size_t n, const char *wanted,
                  int64_t memory, SetTake *take, void *to)
{
    ZipFile zip;
    size_t  inflated = 0;
    TRY(zip_parse(pool, path, bytes, n, &zip));
    if (!zip.n)
        return fail(E_FORMAT, "%s holds no array", path);
    Member *members = NEWN(pool, Member, zip.n);
    for (int32_t i = 0; i < zip.n; i++) {
        const ZipMember     *m = &zip.members[i];
        const unsigned char *data;
        size_t               size, length = strlen(m->name);
        inflated += m->deflated ? m->size : 0;
        if (memory && inflated > (size_t)memory)
            return fail(E_BUDGET,
                        "%s: inflating its arrays takes more than --loader-memory (%s); allow "
                        "more, or save it with numpy.savez instead of savez_compressed",
                        path, bytes_text(memory));
        length -= name_ends(m->name, ".npy") ? 4 : 0;
        members[i].name = pool_textn(pool, m->name, length);
        TRY(zip_content(pool, &zip, m, 0, &data, &size));
        TRY(npy_parse(pool_print(pool, "%s/%s", path, m->name), data, size, &members[i].array));
    }
    Members all = { pool, path, bytes, n, members, zip.n };
    return members_give(&all, wanted, take, to);
}

/* Its file's name without folder and ending. */
static const char *file_stem(Pool *pool, const char *path)
{
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    const char *dot = strrchr(name, '.');
    return pool_textn(pool, name, dot > name ? (size_t)(dot - name) : strlen(name));
}

Err set_npy_parse(Pool *pool, const char *path, const void *bytes, size_t n, SetTake *take,
                  void *to)
{
    Member one = { .name = file_stem(pool, path) };
    TRY(npy_parse(path, bytes, n, &one.array));
    Members all = { pool, path, bytes, n, &one, 1 };
    return members_give(&all, NULL, take, to);
}

bool set_file_name(const char *name)
{
    return name_ends(name, ".npz") || name_ends(name, ".npy") || name_ends(name, ".pkl") ||
           name_ends(name, ".pickle");
}

/* The first bytes decide, because pickles have many endings or none; those of protocols 0 and 1 have
 * no mark. */
Err set_file_read(Pool *pool, const DataSpec *spec, const char *path, SetTake *take, void *to)
{
    MapFile map;
    TRY(file_map(pool, path, &map));
    if (zip_likely(map.bytes, map.n))
        return set_npz_parse(pool, path, map.bytes, map.n, spec->array, spec->memory, take, to);
    if (map.n >= 6 && !memcmp(map.bytes, "\x93NUMPY", 6))
        return set_npy_parse(pool, path, map.bytes, map.n, take, to);
    if (map.n && (map.bytes[0] == 0x80 || name_ends(path, ".pkl") || name_ends(path, ".pickle")))
        return set_pickle_parse(pool, path, map.bytes, map.n, take, to);
    return fail(E_FORMAT,
                "%s is neither a folder of classes nor a file with them (.npz, .npy, a pickle, or "
                "CIFAR's .bin)",
                path);
}

/* ---- images ---- */

static size_t image_size(const SetArray *s)
{
    return (size_t)(s->height * s->width * s->channels) * npy_type_bytes(s->type);
}

size_t set_array_work(const SetArray *s)
{
    return work_size(image_size(s)) +
           work_size((size_t)(s->height * s->width * s->channels) * sizeof(float));
}

static Err image_bytes(const SetArray *s, int64_t index, Work *work, const void **out)
{
    size_t size, at = (size_t)index * s->stride;
    int    fd;
    *out = s->bytes ? s->bytes + at : NULL;
    if (*out)
        return OK;
    void *room = work_take(work, image_size(s));
    TRY(file_open_plain(s->path, &fd, &size));
    Err err = size == s->file_bytes
                  ? file_read_at(fd, s->path, s->at + at, room, image_size(s))
                  : fail(E_IO, "%s has changed since the run began; restart the run", s->path);
    close(fd);
    *out = room;
    return err;
}

Err set_array_load(const SetArray *s, int64_t index, int64_t channels, float *to, Work *work)
{
    const void *bytes;
    size_t      used = work->used;
    int64_t     pixels = s->height * s->width;
    TRY(image_bytes(s, index, work, &bytes));
    Npy    a = { .type = s->type, .data = bytes };
    double scale = s->type == NPY_U1 ? 1.0 / 255 : s->is_signed ? 0.5 : 1;
    for (int64_t p = 0; p < pixels; p++) {
        float rgb[3];
        for (int64_t c = 0; c < 3; c++) {
            int64_t from = c < s->channels ? c : 0;
            float   x = npy_number(&a, s->planes ? from * pixels + p : p * s->channels + from);
            rgb[c] = clamp01((float)((double)x * scale + (s->is_signed ? 0.5 : 0)));
        }
        for (int64_t c = 0; c < channels; c++)
            to[p * channels + c] = channels == 3 || s->channels == 1
                                       ? rgb[c]
                                       : 0.299f * rgb[0] + 0.587f * rgb[1] + 0.114f * rgb[2];
    }
    work->used = used;
    return OK;
}
