/* prefetch.c -- the next micro-batch, loaded by threads of its own while a step runs. */
#include "train/feeds_int.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LOADERS_MOST = 16 };

typedef struct Loader { Prefetcher *all; pthread_t thread; Work work; } Loader;

/* Threads that load the rows of the next micro-batch into the spare buffers, whichever is free the
 * next row. */
struct Prefetcher {
    Loader          loaders[LOADERS_MOST];
    int             n_loaders;
    Feeds          *feeds;
    pthread_mutex_t lock;        /* of all below */
    pthread_cond_t  changed;
    int64_t         drawn;       /* the micro-batch that was asked for; -1: none yet */
    int64_t         next, done;  /* its rows that were begun, and ended */
    bool            stop;
    Err             err;         /* of the first row that failed, whoever came first */
    int64_t         err_row;
    char            said[1024];
};

static void *loader_run(void *arg)
{
    Loader     *me = arg;
    Prefetcher *p = me->all;
    int64_t     rows = feeds_rows_loaded(p->feeds);
    pthread_mutex_lock(&p->lock);
    while (!p->stop) {
        if (p->next >= rows) {
            pthread_cond_wait(&p->changed, &p->lock);
            continue;
        }
        int64_t row = p->next++, drawn = p->drawn;
        pthread_mutex_unlock(&p->lock);
        Err err = feeds_load_row(p->feeds, true, drawn, row, false, me->work);
        pthread_mutex_lock(&p->lock);
        if (err && (!p->err || row < p->err_row)) {
            p->err = err;
            p->err_row = row;
            snprintf(p->said, sizeof p->said, "%s", err_text());
        }
        if (++p->done == rows)
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

/* Beside kernels on the processor's own cores one thread; a card leaves them free. */
static int64_t loaders_most(const Feeds *feeds)
{
    if (session_engine(feeds->session)->device->kind == DEVICE_CPU)
        return 1;
    int64_t cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores < 1 ? 1 : cores < LOADERS_MOST ? cores : LOADERS_MOST;
}

Err feeds_prefetch(Pool *pool, Feeds *feeds)
{
    if (!feeds->n_served)
        return OK;
    Prefetcher *p = NEW(pool, Prefetcher);
    int64_t     rows = feeds_rows_loaded(feeds), most = loaders_most(feeds);
    p->feeds = feeds;
    p->drawn = -1;
    p->next = p->done = rows;
    for (int32_t i = 0; i < feeds->n_served; i++) {
        FeedBuffer *feed = &feeds->list[feeds->served[i]];
        size_t      bytes = (size_t)feeds->pieces * feed_bytes(feed);
        feed->spare = pool_alloc(pool, bytes, 1);
        feeds->bytes += (int64_t)bytes;
    }
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    pool_at_free(pool, prefetch_stop, p);
    while (p->n_loaders < (most < rows ? most : rows)) {
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

Err prefetch_take(Feeds *feeds, int64_t drawn)
{
    Prefetcher *p = feeds->prefetcher;
    int64_t     rows = feeds_rows_loaded(feeds);
    pthread_mutex_lock(&p->lock);
    while (p->done < rows)
        pthread_cond_wait(&p->changed, &p->lock);
    bool hit = p->drawn == drawn;
    pthread_mutex_unlock(&p->lock);
    if (!hit)
        TRY(feeds_load(feeds, drawn, false));
    else if (p->err)
        return fail(p->err, "%s", p->said);
    for (int32_t i = 0; hit && i < feeds->n_served; i++) {
        FeedBuffer *feed = &feeds->list[feeds->served[i]];
        void       *now = feed->spare;
        feed->spare = feed->bytes;
        feed->bytes = now;
    }
    pthread_mutex_lock(&p->lock);
    p->drawn = drawn + rows;
    p->next = p->done = 0;
    p->err = OK;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    return OK;
}
