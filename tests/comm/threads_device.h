/* threads_device.h -- a device made of two threads that do in order what is queued: one for kernels,
 * one for transfers between ranks. Its memory is the host's, but nothing may be read in it before its
 * transfer was joined.
 *
 * With `kernels_at_once` the kernels are the CPU's and run when they are launched: a join then waits
 * on the host, as a GPU's kernels would. */
#ifndef TESTS_COMM_THREADS_DEVICE_H
#define TESTS_COMM_THREADS_DEVICE_H

#include "comm/queue.h"
#include "comm/queue_api.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { QUEUED_MAX = 4096 };

typedef struct Work {
    void (*call)(void *arg); /* NULL: a copy, or an event */
    void       *arg, *to;
    const void *from;
    size_t      bytes;
    int64_t    *event; /* set to `number`, or waited for */
    int64_t     number;
    bool        waits;
} Work;

typedef struct Stream {
    pthread_t thread;
    Work      work[QUEUED_MAX];
    int       queued, done;
} Stream;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t  changed = PTHREAD_COND_INITIALIZER;
static Stream          kernels, transfers;
static int64_t         begun, ended[COMM_SLOTS], n_begun, n_ended[COMM_SLOTS];
static bool            gave_up, kernels_at_once;
static int             library; /* what direct_find says */
static const char     *place = "";

static void stream_do(const Work *w)
{
    if (w->call) {
        pthread_mutex_unlock(&lock);
        w->call(w->arg);
        pthread_mutex_lock(&lock);
    } else if (w->event && w->waits) {
        while (*w->event < w->number && !gave_up)
            pthread_cond_wait(&changed, &lock);
    } else if (w->event) {
        *w->event = w->number;
    } else {
        memcpy(w->to, w->from, w->bytes);
    }
}

static void *stream_run(void *arg)
{
    Stream *s = arg;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (s->done == s->queued)
            pthread_cond_wait(&changed, &lock);
        stream_do(&s->work[s->done % QUEUED_MAX]);
        s->done++;
        pthread_cond_broadcast(&changed);
    }
    return NULL;
}

static void stream_add(Stream *s, Work work)
{
    pthread_mutex_lock(&lock);
    REQUIRE(s->queued - s->done < QUEUED_MAX);
    s->work[s->queued % QUEUED_MAX] = work;
    s->queued++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* Until no kernel is left, and this slot's transfer has ended (below 0: no transfer). */
static bool device_idle(int slot)
{
    pthread_mutex_lock(&lock);
    bool idle = kernels.done == kernels.queued && (slot < 0 || ended[slot] >= n_ended[slot]);
    pthread_mutex_unlock(&lock);
    return idle;
}

static Err device_idle_wait(const Device *device, int slot)
{
    const DeviceMeanwhile *m = device->meanwhile;
    if (m)
        m->begin(m->arg);
    while (!device_idle(slot))
        if (m)
            TRY(m->turn(m->arg));
    return OK;
}

static Err fake_alloc(const Device *device, int64_t bytes, void **base)
{
    (void)device;
    *base = calloc(1, (size_t)bytes + 1);
    return OK;
}
static void fake_free(const Device *device, void *base) { (void)device, free(base); }

static Err fake_wait(const Device *device) { return device_idle_wait(device, -1); }

static Err fake_write(const Device *device, void *to, const void *from, size_t bytes)
{
    TRY(fake_wait(device));
    memcpy(to, from, bytes);
    return OK;
}

/* Nothing measures this device, and its kernels have read their feeds when they return. */
static Err fake_event_new(const Device *device, void **event)
{
    (void)device;
    *event = &begun;
    return OK;
}
static void fake_event_free(const Device *device, void *event) { (void)device, (void)event; }
static Err  fake_event(const Device *device, void *event)
{
    (void)device, (void)event;
    return OK;
}
static Err fake_used(const Device *device, int64_t *used)
{
    (void)device;
    *used = 0;
    return OK;
}

static Err fake_open(const Device *device, int slots)
{
    (void)device, (void)slots;
    return OK;
}
static void fake_place(const Device *device, char name[QUEUE_PLACE])
{
    (void)device;
    snprintf(name, QUEUE_PLACE, "%s", place);
}
static Err fake_begin(const Device *device)
{
    (void)device;
    n_begun++;
    stream_add(&kernels, (Work){ .event = &begun, .number = n_begun });
    stream_add(&transfers, (Work){ .event = &begun, .number = n_begun, .waits = true });
    return OK;
}
static Err fake_end(const Device *device, int slot)
{
    (void)device;
    stream_add(&transfers, (Work){ .event = &ended[slot], .number = ++n_ended[slot] });
    return OK;
}
static Err fake_join(const Device *device, int slot)
{
    if (kernels_at_once)
        return device_idle_wait(device, slot);
    stream_add(&kernels, (Work){ .event = &ended[slot], .number = n_ended[slot], .waits = true });
    return OK;
}
static Err fake_copy(const Device *device, void *to, const void *from, size_t bytes)
{
    (void)device;
    stream_add(&transfers, (Work){ .to = to, .from = from, .bytes = bytes });
    return OK;
}
static Err fake_call(const Device *device, void (*function)(void *), void *arg)
{
    (void)device;
    stream_add(&transfers, (Work){ .call = function, .arg = arg });
    return OK;
}
static void fake_give_up(const Device *device)
{
    (void)device;
    pthread_mutex_lock(&lock);
    gave_up = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}
static int fake_find(char why[QUEUE_WHY])
{
    snprintf(why, QUEUE_WHY, "no library for the test");
    return library;
}

static const struct QueueApi queue_api = { .open = fake_open,
                                           .place = fake_place,
                                           .begin = fake_begin,
                                           .end = fake_end,
                                           .join = fake_join,
                                           .copy = fake_copy,
                                           .call = fake_call,
                                           .give_up = fake_give_up,
                                           .direct_find = fake_find };
static const DeviceApi       device_api = { .alloc = fake_alloc,
                                            .free = fake_free,
                                            .alloc_host = fake_alloc,
                                            .free_host = fake_free,
                                            .write = fake_write,
                                            .read = fake_write,
                                            .wait = fake_wait,
                                            .used_bytes = fake_used,
                                            .event_new = fake_event_new,
                                            .event_free = fake_event_free,
                                            .event = fake_event,
                                            .event_wait = fake_event };

static void device_of_threads(Device *device)
{
    device->kind = DEVICE_CUDA;
    device->name = "cuda";
    device->api = &device_api;
    device->transfers = &queue_api;
    pthread_create(&kernels.thread, NULL, stream_run, &kernels);
    pthread_create(&transfers.thread, NULL, stream_run, &transfers);
}

#endif
