/* cache.c -- the folder of decoded files. */
#include "data/cache.h"

#include "base/checksum.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
    CACHE_FORM = 1, /* changes when the same file and settings are decoded to other numbers */
    HASH_BLOCK = 1 << 16,
    LARGE = 1 << 28 /* bytes: a digest takes longer than a look */
};

CacheList cache_list(const DataSpec *spec, const CacheForm *form, const void *own)
{
    return (CacheList){ .spec = spec, .form = form, .own = own };
}

/* The digest of the file's bytes and of the settings. */
static Err cache_key(const CacheList *list, int fd, const char *path, size_t n, uint64_t *key)
{
    unsigned char block[HASH_BLOCK];
    Checksum      sum = checksum_begin();
    int           form = CACHE_FORM;
    checksum_add(&sum, &form, sizeof form);
    checksum_add(&sum, list->form->what, strlen(list->form->what) + 1);
    checksum_add(&sum, list->form->settings, strlen(list->form->settings) + 1);
    for (size_t at = 0; at < n; at += HASH_BLOCK) {
        size_t some = n - at < HASH_BLOCK ? n - at : HASH_BLOCK;
        TRY(file_read_at(fd, path, at, block, some));
        checksum_add(&sum, block, some);
    }
    *key = checksum_end(&sum);
    return OK;
}

/* Takes an entry that is there; one that is no whole array will be decoded again. */
static Err entry_look(CacheItem *item)
{
    Npy     a;
    MapFile file;
    Pool   *pool = pool_new(NULL, "cache entry");
    bool    good = !file_map(pool, item->entry, &file) &&
                !npy_parse(item->entry, file.bytes, file.n, &a) && a.rank >= 1 &&
                a.rank <= CACHE_RANK && a.count > 0;
    if (good) {
        item->type = a.type;
        item->rank = a.rank;
        memcpy(item->shape, a.shape, (size_t)a.rank * sizeof *a.shape);
        item->first = (size_t)((const unsigned char *)a.data - file.bytes);
        item->n_bytes = a.n_bytes;
    }
    item->ready = good;
    pool_free(pool);
    return OK;
}

static Err item_look(Pool *pool, CacheList *list, int fd, size_t n, CacheItem *item)
{
    uint64_t key;
    bool     looked = n > LARGE; /* what is no video or audio is refused before it is read whole */
    if (looked)
        TRY(list->form->look(pool, list->own, fd, item));
    TRY(cache_key(list, fd, item->path, n, &key));
    if (list->spec->cache) {
        item->entry = pool_print(pool, "%s/%016" PRIx64 ".npy", list->spec->cache, key);
        if (file_exists(item->entry))
            TRY(entry_look(item));
    } else
        item->entry = pool_print(pool, "%016" PRIx64 ".npy", key);
    if (item->ready)
        return OK;
    if (!looked)
        TRY(list->form->look(pool, list->own, fd, item));
    item->n_bytes = npy_type_bytes(item->type);
    for (int a = 0; a < item->rank; a++) {
        if (item->shape[a] < 1 || (size_t)item->shape[a] > SIZE_MAX / 8 / item->n_bytes)
            return fail(E_FORMAT, "%s would be %lld numbers long on axis %d", item->path,
                        (long long)item->shape[a], a);
        item->n_bytes *= (size_t)item->shape[a];
    }
    return OK;
}

Err cache_add(Pool *pool, CacheList *list, const char *path)
{
    CacheItem item = { .path = path };
    size_t    n;
    int       fd;
    TRY(file_open_plain(path, &fd, &n));
    Err err = item_look(pool, list, fd, n, &item);
    close(fd);
    TRY(err);
    VEC_ADD(pool, list->items, list->n, list->cap, item);
    return OK;
}

/* ---- decoding ---- */

static void folder_drop(void *folder)
{
    Pool  *pool = pool_new(NULL, "cache");
    char **names;
    int    n;
    if (!folder_list(pool, folder, &names, &n))
        for (int i = 0; i < n; i++)
            unlink(pool_print(pool, "%s/%s", (const char *)folder, names[i]));
    rmdir(folder);
    pool_free(pool);
}

/* Without a folder for the cache, one that lasts as long as the run. */
static Err folder_temporary(Pool *pool, CacheList *list, const char **folder)
{
    const char *tmp = getenv("TMPDIR");
    char       *path = pool_print(pool, "%s/plimsoll-cache-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(path))
        return fail(E_IO, "cannot make a folder %s for the decoded %s; name one with --cache DIR",
                    path, list->form->what);
    pool_at_free(pool, folder_drop, path);
    for (int32_t i = 0; i < list->n; i++)
        list->items[i].entry = pool_print(pool, "%s/%s", path, list->items[i].entry);
    *folder = path;
    return OK;
}

static Err cache_room(const CacheList *list, const char *folder, int32_t n, int64_t bytes)
{
    struct statvfs disk;
    bool           known = !statvfs(folder, &disk) && disk.f_frsize;
    int64_t        room = known ? (int64_t)disk.f_bavail * (int64_t)disk.f_frsize : INT64_MAX;
    if (bytes > room)
        return fail(E_IO,
                    "the decoded %s take %s, and %s has %s left; name a larger disk with "
                    "--cache DIR",
                    list->form->what, bytes_text(bytes), folder, bytes_text(room));
    if (!list->spec->quiet)
        print_sentence(stderr, "data: decoding %d of %d %s once, into %s (%s)", n, list->n,
                       list->form->what, list->spec->cache ? folder : "a temporary folder",
                       bytes_text(bytes));
    return OK;
}

static Err item_decode(const CacheList *list, CacheItem *item)
{
    FileOut out;
    size_t  n;
    int     fd;
    if (file_exists(item->entry)) { /* twice in the list: decoded already */
        TRY(entry_look(item));
        if (item->ready)
            return OK;
    }
    TRY(file_open_plain(item->path, &fd, &n));
    Err err = file_out_init(&out, item->entry);
    if (!err) {
        npy_head_add(&out, item->type, item->rank, item->shape);
        err = file_out_done(&out, list->form->decode(list->own, fd, item, &out));
    }
    close(fd);
    TRY(err);
    size_t was = item->n_bytes;
    TRY(entry_look(item));
    return item->ready && item->n_bytes == was
               ? OK
               : fail(E_IO, "%s, decoded from %s, cannot be read again", item->entry, item->path);
}

static void show_done(const CacheList *list, int32_t done, int32_t of)
{
    if (!list->spec->quiet && isatty(2))
        fprintf(stderr, "\r  decoded %d of %d%s", done, of, done == of ? "\n" : "");
}

/* The rest is decoded anyway after a file that cannot be: the next try then has less to do. The
 * first failure in the order of the files is the one that is reported. */
static Err items_decode(CacheList *list, int32_t missing)
{
    Err     err = OK;
    int32_t done = 0;
    for (int32_t i = 0; i < list->n && !err; i++)
        if (!list->items[i].ready) {
            err = item_decode(list, &list->items[i]);
            if (!err)
                show_done(list, ++done, missing);
        }
    return err;
}

Err cache_fill(Pool *pool, CacheList *list)
{
    const char *folder = list->spec->cache;
    int64_t     bytes = 0;
    int32_t     missing = 0;
    for (int32_t i = 0; i < list->n; i++)
        if (!list->items[i].ready) {
            missing++;
            bytes += (int64_t)list->items[i].n_bytes;
        }
    if (!missing)
        return OK;
    bool fresh = folder && !folder_exists(folder);
    if (folder) {
        TRY(folder_make(folder));
        folder_tidy(folder);
    } else
        TRY(folder_temporary(pool, list, &folder));
    Err err = cache_room(list, folder, missing, bytes);
    err = err ? err : items_decode(list, missing);
    if (err && fresh)
        rmdir(folder); /* if nothing is in it */
    return err;
}

Err cache_read(const CacheItem *item, size_t at, size_t n, void *to)
{
    size_t size;
    int    fd;
    TRY(file_open_plain(item->entry, &fd, &size));
    Err err = size != item->first + item->n_bytes
                  ? fail(E_IO,
                         "%s has changed since the run began; remove it, and the run can "
                         "continue: it is decoded again",
                         item->entry)
                  : file_read_at(fd, item->entry, item->first + at, to, n);
    close(fd);
    return err;
}
