/* arrays.c -- inputs by name: NAME.npy or NAME.npz in a folder, or tensors of these names in .npz or
 * .safetensors files, one or a folder of them. The first axis counts samples; an input that is one
 * tensor for all samples is given as it is. Tensors of several safetensors files (shards) are
 * joined. Files are mapped only while they are opened; each sample is read with a call that can
 * fail, so that a file that is cut short or replaced in mid-run is an error and not a signal. */
#include "data/kinds.h"

#include "base/file.h"
#include "base/npy.h"
#include "base/safetensors.h"
#include "base/text.h"
#include "base/zip.h"
#include "device/convert.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct ArrayPart { /* the tensor of one file */
    const char *path;
    SafeType    type;
    int         rank;
    int64_t     shape[NPY_MAX_RANK];
    const char *data; /* unpacked, in memory; NULL: it is in the file, where `at` says */
    size_t      at;
    size_t      file_bytes;
    int64_t     first; /* number of its first sample */
} ArrayPart;

typedef struct ArrayFeed {
    DataFeed   feed;
    ArrayPart *parts;
    int32_t    n, cap;
    int64_t    rows;
} ArrayFeed;

typedef struct Arrays {
    ArrayFeed *feeds;
    int        n;
} Arrays;

/* ---- files ---- */

/* data: the tensor's bytes, in the mapped file or unpacked from it. */
static void part_add(Pool *pool, const MapFile *map, const void *data, ArrayPart part, ArrayFeed *f)
{
    uintptr_t at = (uintptr_t)data - (uintptr_t)map->bytes;
    bool      mapped = at <= map->n;
    part.path = pool_text(pool, map->path);
    part.at = mapped ? at : 0;
    part.data = mapped ? NULL : data;
    part.file_bytes = map->n;
    part.first = f->rows;
    f->rows += part.rank ? part.shape[0] : 1;
    VEC_ADD(pool, f->parts, f->n, f->cap, part);
}

static void npy_add(Pool *pool, const MapFile *map, const Npy *npy, ArrayFeed *f)
{
    static const SafeType types[NPY_COUNT] = {
        [NPY_F4] = SAFE_F32, [NPY_F8] = SAFE_F64, [NPY_F2] = SAFE_F16, [NPY_I1] = SAFE_I8,
        [NPY_I2] = SAFE_I16, [NPY_I4] = SAFE_I32, [NPY_I8] = SAFE_I64, [NPY_U1] = SAFE_U8,
        [NPY_U2] = SAFE_U16, [NPY_B1] = SAFE_BOOL
    };
    ArrayPart part = { .type = types[npy->type], .rank = npy->rank };
    memcpy(part.shape, npy->shape, sizeof part.shape);
    part_add(pool, map, npy->data, part, f);
}

static Err npy_file(Pool *pool, Pool *maps, const char *path, ArrayFeed *f)
{
    MapFile map;
    Npy     npy;
    TRY(file_map(maps, path, &map));
    TRY(npy_parse(path, map.bytes, map.n, &npy));
    npy_add(pool, &map, &npy, f);
    return OK;
}

/* The array of the input's name; alone: any, if it is the only one. */
static Err npz_file(Pool *pool, const MapFile *map, const ZipFile *zip, bool alone, ArrayFeed *f)
{
    const ZipMember     *m = zip_find(zip, pool_print(pool, "%s.npy", f->feed.name));
    const unsigned char *bytes;
    size_t               n;
    Npy                  npy;
    if (!m && alone && zip->n == 1)
        m = &zip->members[0];
    if (!m)
        return OK;
    TRY(zip_content(pool, zip, m, 0, &bytes, &n));
    TRY(npy_parse(pool_print(pool, "%s/%s", map->path, m->name), bytes, n, &npy));
    npy_add(pool, map, &npy, f);
    return OK;
}

static Err zip_map(Pool *maps, const char *path, MapFile *map, ZipFile *zip)
{
    TRY(file_map(maps, path, map));
    return zip_parse(maps, path, map->bytes, map->n, zip);
}

static Err safe_file(Pool *pool, const MapFile *map, const SafeFile *file, ArrayFeed *f)
{
    const SafeTensor *t = safetensors_find(file, f->feed.name);
    if (!t)
        return OK;
    if (t->rank > NPY_MAX_RANK)
        return fail(E_FORMAT, "%s: '%s' has %d axes", file->path, t->name, t->rank);
    ArrayPart part = { .type = t->type, .rank = t->rank };
    for (int a = 0; a < t->rank; a++)
        part.shape[a] = t->shape[a];
    part_add(pool, map, t->data, part, f);
    return OK;
}

/* A file that may hold several inputs. fresh: only those that no other file has given. */
static Err shared_file(Pool *pool, Pool *maps, const char *path, Arrays *own, bool fresh)
{
    MapFile map;
    if (name_ends(path, ".npz")) {
        ZipFile zip;
        TRY(zip_map(maps, path, &map, &zip));
        for (int i = 0; i < own->n; i++)
            if (!fresh || !own->feeds[i].n)
                TRY(npz_file(pool, &map, &zip, own->n == 1, &own->feeds[i]));
        return OK;
    }
    SafeFile file;
    TRY(file_map(maps, path, &map));
    TRY(safetensors_parse(maps, map.path, map.bytes, map.n, &file));
    for (int i = 0; i < own->n; i++)
        TRY(safe_file(pool, &map, &file, &own->feeds[i]));
    return OK;
}

/* NAME.npy and NAME.npz first, then whatever else the folder's files hold. */
static Err folder_find(Pool *pool, Pool *maps, const char *folder, Arrays *own)
{
    char **names;
    int    n;
    bool  *single = NEWN(pool, bool, own->n + 1);
    TRY(folder_list(pool, folder, &names, &n));
    for (int i = 0; i < own->n; i++) {
        ArrayFeed  *f = &own->feeds[i];
        const char *npy = pool_print(pool, "%s/%s.npy", folder, f->feed.name),
                   *npz = pool_print(pool, "%s/%s.npz", folder, f->feed.name);
        MapFile map;
        ZipFile zip;
        if (file_exists(npy)) {
            TRY(npy_file(pool, maps, npy, f));
        } else if (file_exists(npz)) {
            TRY(zip_map(maps, npz, &map, &zip));
            TRY(npz_file(pool, &map, &zip, true, f));
        }
        single[i] = f->n > 0;
    }
    for (int k = 0; k < n; k++) {
        const char *path = pool_print(pool, "%s/%s", folder, names[k]);
        Arrays      rest = { .feeds = NEWN(pool, ArrayFeed, own->n + 1) };
        int        *from = NEWN(pool, int, own->n + 1);
        if (!name_ends(path, ".npz") && !name_ends(path, ".safetensors"))
            continue;
        for (int i = 0; i < own->n; i++)
            if (!single[i]) {
                from[rest.n] = i;
                rest.feeds[rest.n++] = own->feeds[i];
            }
        if (rest.n)
            TRY(shared_file(pool, maps, path, &rest, name_ends(path, ".npz")));
        for (int i = 0; i < rest.n; i++)
            own->feeds[from[i]] = rest.feeds[i];
    }
    return OK;
}

static Err arrays_find(Pool *pool, Pool *maps, const char *path, Arrays *own)
{
    if (!file_exists(path))
        return fail(E_IO, "there is no folder or file %s", path);
    if (folder_exists(path))
        return folder_find(pool, maps, path, own);
    if (name_ends(path, ".npz") || name_ends(path, ".safetensors"))
        return shared_file(pool, maps, path, own, false);
    if (!name_ends(path, ".npy"))
        return fail(E_FORMAT,
                    "%s is no array file: give a .npy, .npz or .safetensors file, or a folder of "
                    "them",
                    path);
    for (int i = 0; i < own->n; i++) {
        const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
        if (own->n == 1 || !strcmp(name, pool_print(pool, "%s.npy", own->feeds[i].feed.name)))
            TRY(npy_file(pool, maps, path, &own->feeds[i]));
    }
    return OK;
}

/* ---- checks ---- */

static Err missing_inputs(Pool *pool, const char *path, const Arrays *own)
{
    Text        text = { .pool = pool };
    const char *first = NULL;
    for (int i = 0; i < own->n; i++)
        if (!own->feeds[i].n) {
            text_add(&text, "%s'%s'", first ? ", " : "", own->feeds[i].feed.name);
            first = first ? first : own->feeds[i].feed.name;
        }
    return first ? fail(E_USAGE,
                        "%s has nothing for the model's inputs %s: add %s.npy, or a tensor of that "
                        "name to a .npz or .safetensors file",
                        path, text.at, first)
                 : OK;
}

static bool type_converts(SafeType from, Type to)
{
    switch (from) {
    case SAFE_F64:
    case SAFE_F32:
    case SAFE_F16:
    case SAFE_BF16: return to == F32;
    case SAFE_I8:
    case SAFE_I16:
    case SAFE_U16: return true; /* exact in fp32 */
    case SAFE_U8:
    case SAFE_BOOL: return true;
    case SAFE_I32:
    case SAFE_I64:
    case SAFE_U32:
    case SAFE_U64: return to != F32;
    default: return false;
    }
}

static const char *part_shape(Pool *pool, const int64_t *shape, int rank)
{
    Text text = { .pool = pool };
    text_add(&text, "(");
    for (int a = 0; a < rank; a++)
        text_add(&text, "%s%lld", a ? "," : "", (long long)shape[a]);
    text_add(&text, ")");
    return text.at;
}

static Err part_check(Pool *pool, const DataFeed *feed, const ArrayPart *p)
{
    Shape s = feed->shape;
    int   skip = feed->whole ? 0 : 1;
    bool  same = p->rank == s.rank + skip;
    for (int a = 0; same && a < s.rank; a++)
        same = p->shape[a + skip] == s.dim[a];
    if (feed->whole && shape_count(s) == 1 && !p->rank) /* a number */
        same = true;
    if (!same) {
        const char *needs = shape_text(s) + 1;
        return fail(E_FORMAT, "%s: '%s' is %s, but the model needs %s%s%s", p->path, feed->name,
                    part_shape(pool, p->shape, p->rank), skip ? "(samples" : "(",
                    skip && s.rank ? "," : "", needs);
    }
    if (!type_converts(p->type, feed->type))
        return fail(E_FORMAT, "%s: '%s' holds %s, which does not convert to the model's %s exactly",
                    p->path, feed->name, safe_type_name(p->type), type_name(feed->type));
    return OK;
}

/* Every input has the same number of samples, in every shard too. */
static Err rows_check(const Arrays *own, int64_t *rows)
{
    const ArrayFeed *first = NULL;
    *rows = 1;
    for (int i = 0; i < own->n; i++) {
        const ArrayFeed *f = &own->feeds[i];
        if (f->feed.whole)
            continue;
        first = first ? first : f;
        *rows = first->rows;
        if (f->rows != first->rows)
            return fail(E_FORMAT, "'%s' has %lld samples in %s, and '%s' has %lld in %s",
                        first->feed.name, (long long)first->rows, first->parts[0].path,
                        f->feed.name, (long long)f->rows, f->parts[0].path);
        for (int32_t k = 0; f->n == first->n && k < f->n; k++)
            if (f->parts[k].first != first->parts[k].first)
                return fail(E_FORMAT, "%s holds other numbers of samples of '%s' and '%s'",
                            f->parts[k - 1].path, first->feed.name, f->feed.name);
        if (!f->rows)
            return fail(E_FORMAT, "%s: '%s' has no samples", f->parts[0].path, f->feed.name);
    }
    return OK;
}

/* ---- elements ---- */

#define READ(type)                                                                                 \
    do {                                                                                           \
        type x;                                                                                    \
        memcpy(&x, p, sizeof x);                                                                   \
        return x;                                                                                  \
    } while (0)

static double element_real(SafeType type, const char *p)
{
    uint16_t h;
    float    f;
    switch (type) {
    case SAFE_F64: READ(double);
    case SAFE_BF16: memcpy(&h, p, 2); return (double)bf16_to_f32(h);
    case SAFE_F16:
        memcpy(&h, p, 2);
        convert_rows(F32, &f, F16, &h, 1);
        return (double)f;
    default: memcpy(&f, p, 4); return (double)f;
    }
}

static int64_t element_whole(SafeType type, const char *p)
{
    switch (type) {
    case SAFE_I64: READ(int64_t);
    case SAFE_U64: { /* beyond int64 is beyond every range here */
        uint64_t x;
        memcpy(&x, p, 8);
        return x > INT64_MAX ? INT64_MAX : (int64_t)x;
    }
    case SAFE_I32: READ(int32_t);
    case SAFE_U32: READ(uint32_t);
    case SAFE_I16: READ(int16_t);
    case SAFE_U16: READ(uint16_t);
    case SAFE_I8: READ(int8_t);
    case SAFE_BOOL: return *p != 0;
    default: READ(uint8_t);
    }
}

static bool is_real(SafeType t)
{
    return t == SAFE_F64 || t == SAFE_F32 || t == SAFE_F16 || t == SAFE_BF16;
}

/* Of the same type: nothing is converted. */
static bool part_is_plain(const DataFeed *feed, const ArrayPart *part)
{
    return (part->type == SAFE_F32 && feed->type == F32) ||
           (part->type == SAFE_I32 && feed->type == I32) ||
           (part->type == SAFE_U8 && feed->type == U8);
}

/* Elements at..at+n of the part, as they are in the file, to `to`. */
static Err part_read(const ArrayPart *part, int64_t at, int64_t n, void *to)
{
    size_t bytes = safe_type_bytes(part->type), size;
    int    fd;
    if (part->data) {
        memcpy(to, part->data + (size_t)at * bytes, (size_t)n * bytes);
        return OK;
    }
    TRY(file_open_plain(part->path, &fd, &size));
    Err err = size != part->file_bytes
                  ? fail(E_IO,
                         "%s has changed since the run began: it had %zu bytes, now it has "
                         "%zu; restart the run",
                         part->path, part->file_bytes, size)
                  : file_read_at(fd, part->path, part->at + (size_t)at * bytes, to,
                                 (size_t)n * bytes);
    close(fd);
    return err;
}

/* `from`: elements at..at+n of the part. */
static Err convert_elements(const DataFeed *feed, const ArrayPart *part, const char *from,
                            int64_t at, int64_t n, void *to)
{
    int64_t bytes = (int64_t)safe_type_bytes(part->type);
    int64_t low = feed->type == U8 ? 0 : INT32_MIN, high = feed->type == U8 ? 255 : INT32_MAX;
    for (int64_t i = 0; i < n; i++) {
        const char *p = from + i * bytes;
        if (feed->type == F32) {
            ((float *)to)[i] = is_real(part->type) ? (float)element_real(part->type, p)
                                                   : (float)element_whole(part->type, p);
            continue;
        }
        int64_t x = element_whole(part->type, p);
        if (x < low || x > high)
            return fail(E_FORMAT,
                        "%s: '%s' holds %lld at number %lld; only %lld to %lld are supported",
                        part->path, feed->name, (long long)x, (long long)(at + i), (long long)low,
                        (long long)high);
        if (feed->type == U8)
            ((uint8_t *)to)[i] = (uint8_t)x;
        else
            ((int32_t *)to)[i] = (int32_t)x;
    }
    return OK;
}

/* `room` has the size of part_room. */
static Err part_load(const DataFeed *feed, const ArrayPart *part, int64_t at, int64_t n, void *to,
                     char *room)
{
    if (part_is_plain(feed, part))
        return part_read(part, at, n, to);
    TRY(part_read(part, at, n, room));
    return convert_elements(feed, part, room, at, n, to);
}

static size_t part_room(const DataFeed *feed, const ArrayPart *part)
{
    return part_is_plain(feed, part)
               ? 0
               : (size_t)shape_count(feed->shape) * safe_type_bytes(part->type);
}

static Err arrays_load(const DataSource *source, int64_t id, int64_t draw, void *const *to,
                       Work *work)
{
    const Arrays *own = source->own;
    (void)draw;
    for (int i = 0; i < own->n; i++) {
        const ArrayFeed *f = &own->feeds[i];
        if (f->feed.whole)
            continue;
        const ArrayPart *p = &f->parts[span_find(&f->parts[0].first, sizeof *p, f->n, id)];
        int64_t          n = shape_count(f->feed.shape);
        size_t           used = work->used;
        char            *room = work_take(work, part_room(&f->feed, p));
        TRY(part_load(&f->feed, p, (id - p->first) * n, n, to[i], room));
        work->used = used;
    }
    return OK;
}

static Err arrays_load_whole(const DataSource *source, void *const *to)
{
    const Arrays *own = source->own;
    Pool         *pool = pool_new(NULL, "whole inputs");
    Err           err = OK;
    for (int i = 0; i < own->n && !err; i++) {
        const ArrayFeed *f = &own->feeds[i];
        if (f->feed.whole)
            err = part_load(&f->feed, &f->parts[0], 0, shape_count(f->feed.shape), to[i],
                            pool_alloc(pool, part_room(&f->feed, &f->parts[0]) + 1, 1));
    }
    pool_free(pool);
    return err;
}

/* The largest sample that has to be converted. */
static size_t arrays_work(const Arrays *own)
{
    size_t room = 0;
    for (int i = 0; i < own->n; i++)
        for (int32_t k = 0; !own->feeds[i].feed.whole && k < own->feeds[i].n; k++) {
            size_t one = part_room(&own->feeds[i].feed, &own->feeds[i].parts[k]);
            room = one > room ? one : room;
        }
    return work_size(room);
}

Err arrays_open(Pool *pool, const DataSpec *spec, DataSource **out)
{
    Arrays *own = NEW(pool, Arrays);
    int64_t rows;
    own->n = spec->n_feeds;
    own->feeds = NEWN(pool, ArrayFeed, own->n + 1);
    for (int i = 0; i < own->n; i++)
        own->feeds[i].feed = spec->feeds[i];
    Pool *maps = pool_new(pool, "mapped files");
    TRY(arrays_find(pool, maps, spec->path, own));
    pool_free(maps);
    TRY(missing_inputs(pool, spec->path, own));
    for (int i = 0; i < own->n; i++)
        for (int32_t k = 0; k < own->feeds[i].n; k++)
            TRY(part_check(pool, &own->feeds[i].feed, &own->feeds[i].parts[k]));
    TRY(rows_check(own, &rows));
    *out = NEW(pool, DataSource);
    **out = (DataSource){ .n_samples = rows,
                          .work_bytes = arrays_work(own),
                          .load = arrays_load,
                          .load_whole = arrays_load_whole,
                          .own = own };
    return OK;
}
