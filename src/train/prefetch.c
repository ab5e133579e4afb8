/* prefetch.c -- threads that load the next micro-batches while a step runs.
 *
 * Sets of buffers form a ring, one micro-batch each, in the order of the run. Each idle loader
 * takes the next row of the ring. The training loop takes the oldest set in exchange for its own
 * buffers, and the ring advances. There are enough sets that every loader has a row to load, even
 * if a micro-batch has only one. */
#include "base/int_math.h"
#include "train/feeds_int.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LOADERS_MAX = 16 };
static const int64_t ring_bytes = (int64_t)512 << 20; /* limit; one set is always allowed */

typedef struct Loader {
    Prefetcher *all;
    pthread_t   thread;
    Work        work;
} Loader;

typedef struct PrefetchSet { /* one micro-batch, before its split */
    void  **bytes;           /* per served feed */
    int64_t done;            /* rows loaded */
    Err     err;             /* of the failed row with the smallest number */
    int64_t err_row;
    char    message[1024];
} PrefetchSet;

struct Prefetcher {
    Loader          loaders[LOADERS_MAX];
    int             n_loaders;
    Feeds          *feeds;
    int64_t         rows;   /* of a set */
    int64_t         stride; /* sets of the run from one to the next of this rank */
    PrefetchSet    *ring;
    int64_t         n_sets;
    pthread_mutex_t lock; /* guards all below, and everything in a set except its bytes */
    pthread_cond_t  changed;
    int64_t         drawn;       /* position of the ring's first row in the run; -1: not started */
    int64_t         taken;       /* sets taken since then */
    int64_t         begun, done; /* rows since then */
    bool            stop;
};

static PrefetchSet *ring_at(Prefetcher *p, int64_t micro_batch)
{
    return &p->ring[micro_batch % p->n_sets];
}

static void *loader_run(void *arg)
{
    Loader     *me = arg;
    Prefetcher *p = me->all;
    pthread_mutex_lock(&p->lock);
    while (!p->stop) {
        if (p->drawn < 0 || p->begun >= (p->taken + p->n_sets) * p->rows) {
            pthread_cond_wait(&p->changed, &p->lock);
            continue;
        }
        int64_t      at = p->begun++, row = at % p->rows;
        int64_t      first = p->drawn + (at - row) * p->stride;
        PrefetchSet *set = ring_at(p, at / p->rows);
        pthread_mutex_unlock(&p->lock);
        Err err = feeds_load_row(p->feeds, set->bytes, first, row, false, me->work);
        pthread_mutex_lock(&p->lock);
        if (err && (!set->err || row < set->err_row)) {
            set->err = err;
            set->err_row = row;
            snprintf(set->message, sizeof set->message, "%s", err_text());
        }
        set->done++;
        p->done++;
        pthread_cond_broadcast(&p->changed);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static void prefetch_stop(void *arg)
{
    Prefetcher *p = arg;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->n_loaders; i++)
        pthread_join(p->loaders[i].thread, NULL);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
}

/* On the CPU one loader, because kernels use the cores; a GPU leaves the cores free. */
static int64_t loaders_max(const Feeds *feeds)
{
    int64_t cores = feeds->loaders ? feeds->loaders : sysconf(_SC_NPROCESSORS_ONLN);
    if (!feeds->loaders && session_engine(feeds->session)->device->kind == DEVICE_CPU)
        return 1;
    return cores < 1 ? 1 : cores < LOADERS_MAX ? cores : LOADERS_MAX;
}

static int64_t feeds_set_bytes(const Feeds *feeds)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < feeds->n_served; i++)
        bytes += feeds->split * (int64_t)feed_bytes(&feeds->list[feeds->served[i]]);
    return bytes;
}

/* Would so many sets and loaders take more than the limit? */
static bool ring_over(const Feeds *feeds, int64_t sets, int64_t loaders)
{
    return feeds->limit &&
           feeds->bytes + sets * feeds_set_bytes(feeds) + loaders * (int64_t)feeds->work.n >
               feeds->limit;
}

static void ring_new(Pool *pool, Prefetcher *p, int64_t loaders)
{
    Feeds  *feeds = p->feeds;
    int64_t bytes = feeds_set_bytes(feeds), max_sets = ring_bytes / (bytes > 0 ? bytes : 1);
    p->n_sets = int_max(int_min(ceil_div(loaders, p->rows), max_sets), 1);
    while (p->n_sets > 1 && ring_over(feeds, p->n_sets, 1))
        p->n_sets--;
    p->ring = NEWN(pool, PrefetchSet, p->n_sets);
    for (int64_t s = 0; s < p->n_sets; s++) {
        p->ring[s].bytes = NEWN(pool, void *, feeds->n_served);
        for (int32_t i = 0; i < feeds->n_served; i++) {
            size_t n = (size_t)feeds->split * feed_bytes(&feeds->list[feeds->served[i]]);
            p->ring[s].bytes[i] = pool_alloc(pool, n, 1);
        }
    }
    feeds->bytes += p->n_sets * bytes;
}

Err feeds_prefetch(Pool *pool, Feeds *feeds)
{
    if (!feeds->n_served || !feeds_stride(feeds) ||
        ring_over(feeds, 1, 1)) /* then each row is loaded when it is needed */
        return OK;
    Prefetcher *p = NEW(pool, Prefetcher);
    int64_t     loaders = loaders_max(feeds);
    p->feeds = feeds;
    p->rows = feeds_rows_loaded(feeds);
    p->stride = feeds_stride(feeds);
    p->drawn = -1;
    ring_new(pool, p, loaders);
    loaders = loaders < p->n_sets * p->rows ? loaders : p->n_sets * p->rows;
    while (loaders > 1 && ring_over(feeds, 0, loaders))
        loaders--;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    pool_at_free(pool, prefetch_stop, p);
    while (p->n_loaders < loaders) {
        Loader *loader = &p->loaders[p->n_loaders];
        *loader = (Loader){
            .all = p, .work = { .at = pool_alloc(pool, feeds->work.n, 1), .n = feeds->work.n }
        };
        feeds->bytes += (int64_t)loader->work.n;
        int error = pthread_create(&loader->thread, NULL, loader_run, loader);
        if (error)
            return fail(E_DEVICE, "cannot start a thread to load data: %s", strerror(error));
        p->n_loaders++;
    }
    feeds->prefetcher = p;
    return OK;
}

/* Waits for the oldest set and returns it. Returns NULL if it is another micro-batch than the one
 * wanted; all loaders are idle then. */
static PrefetchSet *ring_wait(Prefetcher *p, int64_t drawn)
{
    PrefetchSet *set = p->drawn >= 0 && p->drawn + p->taken * p->rows * p->stride == drawn
                           ? ring_at(p, p->taken)
                           : NULL;
    if (!set)
        p->drawn = -1; /* no loader begins another row */
    while (set ? set->done < p->rows : p->done < p->begun)
        pthread_cond_wait(&p->changed, &p->lock);
    return set;
}

static void ring_begin(Prefetcher *p, int64_t drawn)
{
    for (int64_t s = 0; s < p->n_sets; s++)
        p->ring[s].done = p->ring[s].err = 0;
    p->drawn = drawn;
    p->taken = p->begun = p->done = 0;
}

Err prefetch_take(Feeds *feeds, int64_t drawn)
{
    Prefetcher *p = feeds->prefetcher;
    pthread_mutex_lock(&p->lock);
    PrefetchSet *set = ring_wait(p, drawn);
    pthread_mutex_unlock(&p->lock);
    if (set && set->err)
        return fail(set->err, "%s", set->message);
    if (!set)
        TRY(feeds_load(feeds, drawn, false));
    for (int32_t i = 0; set && i < feeds->n_served; i++) {
        FeedBuffer *feed = &feeds->list[feeds->served[i]];
        void       *now = set->bytes[i];
        set->bytes[i] = feed->bytes;
        feed->bytes = now;
    }
    pthread_mutex_lock(&p->lock);
    if (set) {
        set->done = 0;
        p->taken++;
    } else {
        ring_begin(p, drawn + p->rows * p->stride);
    }
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    return OK;
}
