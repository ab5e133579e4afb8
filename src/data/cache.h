/* cache.h -- files that take long to read, decoded once, before the first step.
 *
 * A list of files is looked at one by one; then all that are not in the cache yet are decoded, each
 * into one .npy file of the cache folder, and read from there by position. The name of an entry is a
 * digest of the file's bytes and of the settings that it was decoded with, so a file that has
 * changed is decoded anew and a file that was only moved is not. An entry appears whole or not at
 * all; one that is damaged is decoded again.
 *
 *   CacheList list = cache_list(spec, &form, own);
 *   TRY(cache_add(pool, &list, path));             for each file
 *   TRY(cache_fill(pool, &list));                  says how large it will be, and decodes
 *   TRY(cache_read(&list.items[i], at, n, to));    bytes of its numbers, on any thread
 */
#ifndef DATA_CACHE_H
#define DATA_CACHE_H

#include "base/file.h"
#include "base/npy.h"
#include "data/source.h"

enum { CACHE_RANK = 4 };

typedef struct CacheItem {
    const char *path;  /* of the file */
    const char *entry; /* of its decoded form */
    NpyType     type;
    int         rank;
    int64_t     shape[CACHE_RANK];
    size_t      first, n_bytes; /* where its numbers begin in the entry, and how many bytes */
    bool        ready;          /* the entry is there and whole */
    const char *said;           /* NULL, or something to know about the file */
} CacheItem;

typedef struct CacheForm {
    const char *what;     /* "videos" */
    const char *settings; /* that change what is decoded */
    /* Sets type, rank and shape of what will be decoded. */
    Err (*look)(Pool *pool, const void *own, int fd, CacheItem *item);
    /* Adds exactly the numbers to `out`. */
    Err (*decode)(const void *own, int fd, const CacheItem *item, FileOut *out);
} CacheForm;

typedef struct CacheList {
    const DataSpec  *spec;
    const CacheForm *form;
    const void      *own;
    CacheItem       *items;
    int32_t          n, cap;
} CacheList;

CacheList cache_list(const DataSpec *spec, const CacheForm *form, const void *own);
Err       cache_add(Pool *pool, CacheList *list, const char *path);
Err       cache_fill(Pool *pool, CacheList *list);
/* E_IO if the entry has changed or gone. */
Err       cache_read(const CacheItem *item, size_t at, size_t n, void *to);

#endif
