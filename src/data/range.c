/* range.c -- range images of any size, as the model's. */
#include "data/range.h"

#include "base/text.h"
#include "base/zip.h"
#include "data/frames.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

/* ---- files ---- */

static Err shape_read(const char *path, const Npy *a, RangeFile *f)
{
    int  rank = a->rank;
    bool flat = rank >= 2 && a->shape[rank - 1] > RANGE_CHANNELS; /* no axis of channels */
    if (rank == 2)
        flat = true;
    if (rank < 2 || rank > 4 || (rank == 4 && flat) || a->count < 1)
        return fail(E_FORMAT,
                    "%s has %d axes%s; a range image is (height, width), with channels behind them "
                    "(at most %d) and frames before them if there are several",
                    path, rank, a->count < 1 ? " and no numbers" : "", RANGE_CHANNELS);
    int at = rank - (flat ? 2 : 3); /* of the height */
    f->frames = at ? a->shape[0] : 1;
    f->height = a->shape[at];
    f->width = a->shape[at + 1];
    f->channels = flat ? 1 : a->shape[at + 2];
    f->type = a->type;
    return OK;
}

static Err channel_read(const DataSpec *spec, RangeFile *f)
{
    f->channel = spec->range_channel < 0 ? 0 : spec->range_channel;
    if (spec->range_channel < 0 && f->channels > 1)
        return fail(E_USAGE,
                    "%s has %lld channels; say which one holds the metres: --set "
                    "data.range_channel=0 is the first",
                    f->path, (long long)f->channels);
    if (f->channel >= f->channels)
        return fail(E_USAGE, "%s has %lld channels, and data.range_channel is %lld (from 0)",
                    f->path, (long long)f->channels, (long long)f->channel);
    return OK;
}

/* The array of that name; without a name, the only one. */
static Err member_find(const DataSpec *spec, const ZipFile *zip, const ZipMember **out)
{
    const char *name = spec->array;
    *out = NULL;
    for (int32_t i = 0; i < zip->n; i++) {
        const char *member = zip->members[i].name;
        size_t      n = strlen(member);
        n -= name_ends(member, ".npy") ? 4 : 0;
        if (name ? strlen(name) == n && !strncmp(member, name, n) : zip->n == 1)
            *out = &zip->members[i];
    }
    if (*out)
        return OK;
    return name ? fail(E_USAGE, "%s has no array %s (data.array)", zip->path, name)
                : fail(E_USAGE, "%s holds %d arrays, %.*s among them; name one with data.array",
                       zip->path, zip->n, zip->n ? (int)strcspn(zip->members[0].name, ".") : 4,
                       zip->n ? zip->members[0].name : "none");
}

/* Maps an .npz file and finds its array. */
static Err member_open(Pool *pool, const DataSpec *spec, const char *path, MapFile *map,
                       ZipFile *zip, const ZipMember **member)
{
    TRY(file_map(pool, path, map));
    TRY(zip_parse(pool, path, map->bytes, map->n, zip));
    TRY(member_find(spec, zip, member));
    if ((*member)->deflated && spec->memory && (*member)->size > (size_t)spec->memory)
        return fail(E_BUDGET,
                    "%s: inflating %s takes %s, more than --loader-memory allows; allow more, or "
                    "save it with numpy.savez instead of savez_compressed",
                    path, (*member)->name, bytes_text((int64_t)(*member)->size));
    return OK;
}

static Err member_look(Pool *pool, const void *own, int fd, CacheItem *item)
{
    (void)fd;
    (void)pool;
    const Ranges        *r = own;
    Pool                *local = pool_new(NULL, "member");
    MapFile              map;
    ZipFile              zip;
    const ZipMember     *member;
    const unsigned char *bytes;
    size_t               n;
    Npy                  a;
    Err                  err = member_open(local, r->spec, item->path, &map, &zip, &member);
    err = err ? err : zip_content(local, &zip, member, 0, &bytes, &n);
    err = err ? err : npy_parse(item->path, bytes, n, &a);
    if (!err && (a.rank < 1 || a.rank > CACHE_RANK))
        err = fail(E_FORMAT, "%s has %d axes", item->path, a.rank);
    if (!err) {
        item->type = a.type;
        item->rank = a.rank;
        memcpy(item->shape, a.shape, sizeof item->shape);
    }
    pool_free(local);
    return err;
}

static Err member_decode(const void *own, int fd, const CacheItem *item, FileOut *out)
{
    (void)fd;
    const Ranges        *r = own;
    Pool                *pool = pool_new(NULL, "member");
    MapFile              map;
    ZipFile              zip;
    const ZipMember     *member;
    const unsigned char *bytes;
    size_t               n;
    Npy                  a;
    Err                  err = member_open(pool, r->spec, item->path, &map, &zip, &member);
    err = err ? err : zip_content(pool, &zip, member, 0, &bytes, &n);
    err = err ? err : npy_parse(item->path, bytes, n, &a);
    if (!err)
        file_out_add(out, a.data, a.n_bytes);
    pool_free(pool);
    return err;
}

Ranges *ranges_new(Pool *pool, const DataSpec *spec)
{
    Ranges *r = NEW(pool, Ranges);
    r->spec = spec;
    r->form = (CacheForm){ .what = "arrays",
                           .settings = spec->array ? spec->array : "",
                           .look = member_look,
                           .decode = member_decode };
    r->list = cache_list(spec, &r->form, r);
    return r;
}

/* An array in a mapped file: a .npy file, or a stored member of an archive. */
static Err array_look(const MapFile *map, const unsigned char *bytes, size_t n, RangeFile *f)
{
    Npy a;
    TRY(npy_parse(f->path, bytes, n, &a));
    TRY(shape_read(f->path, &a, f));
    f->file = f->path;
    f->first = (size_t)((const unsigned char *)a.data - map->bytes);
    f->file_bytes = map->n;
    return OK;
}

static Err npz_look(Pool *pool, Pool *local, Ranges *r, const char *path, RangeFile *f)
{
    MapFile          map;
    ZipFile          zip;
    const ZipMember *member;
    Npy              a = { 0 };
    TRY(member_open(local, r->spec, path, &map, &zip, &member));
    if (!member->deflated)
        return array_look(&map, member->data, member->size, f);
    f->cached = r->list.n;
    TRY(cache_add(pool, &r->list, path));
    const CacheItem *item = &r->list.items[f->cached];
    a.rank = item->rank;
    a.type = item->type;
    memcpy(a.shape, item->shape, sizeof item->shape);
    a.count = 1;
    return shape_read(path, &a, f);
}

Err range_look(Pool *pool, Ranges *r, const char *path, RangeFile *out)
{
    Pool   *local = pool_new(NULL, "range");
    MapFile map;
    *out = (RangeFile){ .path = path, .cached = -1 };
    Err err = name_ends(path, ".npz") ? npz_look(pool, local, r, path, out)
                                      : file_map(local, path, &map);
    if (!err && !name_ends(path, ".npz"))
        err = array_look(&map, map.bytes, map.n, out);
    pool_free(local);
    return err ? err : channel_read(r->spec, out);
}

Err ranges_ready(Pool *pool, Ranges *r, RangeFile *files, int32_t n)
{
    TRY(cache_fill(pool, &r->list));
    for (int32_t i = 0; i < n; i++)
        if (files[i].cached >= 0) {
            const CacheItem *item = &r->list.items[files[i].cached];
            files[i].file = item->entry;
            files[i].first = item->first;
            files[i].file_bytes = item->first + item->n_bytes;
        }
    return OK;
}

/* ---- frames ---- */

static size_t frame_bytes(const RangeFile *f)
{
    return (size_t)(f->height * f->width * f->channels) * npy_type_bytes(f->type);
}

size_t range_frame_work(const RangeFile *f) { return work_size(frame_bytes(f)); }

static bool is_range(double r) { return r > 0 && isfinite(r); }

static Npy frame_array(const RangeFile *f, const void *bytes)
{
    return (Npy){ .type = f->type, .data = bytes };
}

static Err frame_read(const RangeFile *f, int64_t frame, void *to)
{
    size_t n;
    int    fd;
    TRY(file_open_plain(f->file, &fd, &n));
    Err err = n != f->file_bytes
                  ? fail(E_IO, "%s has changed since the run began; restart the run", f->path)
                  : file_read_at(fd, f->file, f->first + (size_t)frame * frame_bytes(f), to,
                                 frame_bytes(f));
    close(fd);
    return err;
}

Err range_extremes(const RangeFile *f, double *low, double *high)
{
    Pool *pool = pool_new(NULL, "range");
    void *bytes = pool_alloc(pool, frame_bytes(f), 1);
    Err   err = OK;
    for (int64_t k = 0; k < f->frames && !err; k++) {
        Npy a = frame_array(f, bytes);
        err = frame_read(f, k, bytes);
        for (int64_t i = f->channel; !err && i < f->height * f->width * f->channels;
             i += f->channels) {
            double r = (double)npy_number(&a, i);
            if (is_range(r)) {
                *low = fmin(*low, r);
                *high = fmax(*high, r);
            }
        }
    }
    pool_free(pool);
    return err;
}

/* A column is a direction: that of column x of w is x/w of the circle. */
static int64_t nearest_column(int64_t x, int64_t w, int64_t has)
{
    return (2 * x * has + w) / (2 * w) % has;
}

static int64_t nearest_row(int64_t y, int64_t h, int64_t has)
{
    return (2 * y + 1) * has / (2 * h);
}

Err range_frame(const RangeFile *f, int64_t frame, const RangeView *view, float *to, uint8_t *valid,
                Work *work)
{
    size_t used = work->used;
    void  *bytes = work_take(work, frame_bytes(f));
    Npy    a = frame_array(f, bytes);
    double span = view->high > view->low ? view->high - view->low : 1;
    TRY(frame_read(f, frame, bytes));
    for (int64_t i = 0; i < view->height * view->width; i++) {
        int64_t y = nearest_row(i / view->width, view->height, f->height);
        int64_t x = nearest_column(i % view->width, view->width, f->width);
        double  r = (double)npy_number(&a, (y * f->width + x) * f->channels + f->channel);
        double  level = is_range(r) ? floor(255 * fmin(fmax((r - view->low) / span, 0), 1)) : 0;
        for (int64_t c = 0; c < view->channels; c++)
            to[i * view->channels + c] = (float)(level / 255 * 2 - 1);
        if (valid)
            valid[i] = is_range(r);
    }
    work->used = used;
    return OK;
}
