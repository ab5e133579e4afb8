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

static Err array_values(const char *path, const char *name, const Npy *a, SetArray *s)
{
    if (a->type == NPY_U1 || a->type == NPY_B1)
        return OK;
    if (!npy_floats(a))
        return fail(E_FORMAT, "%s: %s holds %s; images are uint8, or floats in [0,1] or [-1,1]",
                    path, name, npy_type_name(a->type));
    TRY(npy_within(path, a, LEVEL_MAX));
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
    TRY(array_values(path, name, a, &s));
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

static bool is_labels(const Npy *a) { return a->rank == 1 && !npy_floats(a) && a->type != NPY_B1; }

/* The images to which the labels belong: the only other array with as many. */
static const Member *labelled(const Member *members, int32_t n, const Member *labels)
{
    const Member *found = NULL;
    for (int32_t i = 0; i < n; i++)
        if (members[i].array.rank >= 2 && members[i].array.shape[0] == labels->array.shape[0]) {
            if (found)
                return NULL;
            found = &members[i];
        }
    return found;
}

static Err labels_give(Pool *pool, const char *path, const void *bytes, size_t n,
                       const Member *images, const Npy *labels, SetTake *take, void *to)
{
    SetArray *array;
    int64_t   n_each;
    TRY(set_array_new(pool, path, images->name, bytes, n, &images->array, &array, &n_each));
    if (n_each || array->n != labels->count)
        return fail(E_FORMAT, "%s: %s has %lld images, and there are %lld labels", path,
                    images->name, (long long)array->n, (long long)labels->count);
    for (int64_t i = 0; i < array->n; i++)
        take(to, pool_print(pool, "class %lld", (long long)npy_whole(labels, i)), array, i);
    return OK;
}

static Err members_give(Pool *pool, const char *path, const void *bytes, size_t n,
                        const Member *members, int32_t count, SetTake *take, void *to)
{
    const Member *labels = NULL;
    for (int32_t i = 0; i < count; i++)
        if (is_labels(&members[i].array))
            labels = labels ? labels : &members[i];
    const Member *images = labels ? labelled(members, count, labels) : NULL;
    if (images)
        return labels_give(pool, path, bytes, n, images, &labels->array, take, to);
    if (labels)
        return fail(E_FORMAT,
                    "%s: %s looks like labels of %lld images, and %s array has as many images",
                    path, labels->name, (long long)labels->array.shape[0],
                    count > 2 ? "not exactly one" : "no");
    for (int32_t i = 0; i < count; i++) {
        SetArray *array;
        int64_t   n_each;
        TRY(set_array_new(pool, path, members[i].name, bytes, n, &members[i].array, &array,
                          &n_each));
        set_array_give(pool, members[i].name, array, n_each, take, to);
    }
    return OK;
}

Err set_npz_parse(Pool *pool, const char *path, const void *bytes, size_t n, int64_t memory,
                  SetTake *take, void *to)
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
    return members_give(pool, path, bytes, n, members, zip.n, take, to);
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
    return members_give(pool, path, bytes, n, &one, 1, take, to);
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
        return set_npz_parse(pool, path, map.bytes, map.n, spec->memory, take, to);
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
