/* events.c -- writes event files, and shortens those of an earlier part of the run. */
#include "train/events.h"

#include "base/clock.h"
#include "base/crc32.h"
#include "base/endian.h"
#include "base/file.h"
#include "train/records.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    EVENTS_BUFFER = 1 << 18,
    RECORD_MAX = 1024, /* bytes of a record of scalars */
    MAX_SCALARS = 8,
    MAX_TAG = 32,
    SAMPLE_CHUNK = 1 << 14,
    SAMPLE_MAX = 1 << 30
};
static const char sample_prefix[] = "samples/";

/* ---- messages ---- */

typedef struct Message {
    unsigned char bytes[RECORD_MAX];
    size_t        n;
} Message;

static void put_varint(Message *m, uint64_t number)
{
    do {
        REQUIRE(m->n < sizeof m->bytes);
        m->bytes[m->n++] = (unsigned char)((number & 127) | (number > 127 ? 128 : 0));
        number >>= 7;
    } while (number);
}

static void put_raw(Message *m, const void *bytes, size_t n)
{
    REQUIRE(n <= sizeof m->bytes - m->n);
    memcpy(m->bytes + m->n, bytes, n);
    m->n += n;
}

static void put_bytes(Message *m, int field, const void *bytes, size_t n)
{
    put_varint(m, (uint64_t)field << 3 | 2);
    put_varint(m, n);
    put_raw(m, bytes, n);
}

static void put_int(Message *m, int field, int64_t number)
{
    put_varint(m, (uint64_t)field << 3);
    put_varint(m, (uint64_t)number);
}

static void put_float(Message *m, int field, float number)
{
    put_varint(m, (uint64_t)field << 3 | 5);
    put_raw(m, &number, sizeof number); /* little-endian, as every supported processor */
}

static double wall_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Event: wall_time 1, step 2, then file_version 3, summary 5 or session_log 7. */
static void event_begin(Message *m, int64_t step)
{
    double now = wall_time();
    m->n = 0;
    put_varint(m, 1 << 3 | 1);
    put_raw(m, &now, sizeof now);
    put_int(m, 2, step);
}

/* ---- the file ---- */

static void events_close(void *arg)
{
    Events *events = arg;
    events_flush(events, false);
    close(events->fd);
}

static Err write_all(const Events *events, const unsigned char *bytes, size_t n, size_t *done)
{
    for (*done = 0; *done < n;) {
        ssize_t sent = write(events->fd, bytes + *done, n - *done);
        if (sent > 0)
            *done += (size_t)sent;
        else if (sent == 0 || errno != EINTR)
            return file_fail("write", events->path, sent == 0 ? EIO : errno);
    }
    return OK;
}

Err events_flush(Events *events, bool durable)
{
    size_t done;
    if (!events->path)
        return OK;
    Err err = write_all(events, events->buffer, events->n, &done);
    memmove(events->buffer, events->buffer + done, events->n - done);
    events->n -= done;
    TRY(err);
    if (durable && fsync(events->fd) && errno != EINVAL)
        return file_fail("write", events->path, errno);
    if (events->lost) {
        int64_t lost = events->lost;
        events->lost = 0;
        return fail(E_IO, "%s lacks %lld events: it could not be written for too long",
                    events->path, (long long)lost);
    }
    return OK;
}

static void events_add(Events *events, const Message *m)
{
    size_t         whole = RECORD_HEAD + m->n + RECORD_TAIL;
    unsigned char *at = events->buffer + events->n;
    if (EVENTS_BUFFER - events->n < whole) {
        events_flush(events, false);
        at = events->buffer + events->n;
    }
    if (EVENTS_BUFFER - events->n < whole) {
        events->lost++;
        return;
    }
    record_head(at, m->n);
    memcpy(at + RECORD_HEAD, m->bytes, m->n);
    record_tail(at + RECORD_HEAD + m->n, crc32c_add(0, m->bytes, m->n));
    events->n += whole;
}

void events_scalars(Events *events, int64_t step, const Scalar *scalars, int n)
{
    Message event, summary = { .n = 0 }, value;
    if (!events->path)
        return;
    REQUIRE(n <= MAX_SCALARS);
    for (int i = 0; i < n; i++) {
        REQUIRE(strlen(scalars[i].tag) <= MAX_TAG);
        value.n = 0;
        put_bytes(&value, 1, scalars[i].tag, strlen(scalars[i].tag));
        put_float(&value, 2, (float)scalars[i].value);
        put_bytes(&summary, 1, value.bytes, value.n);
    }
    event_begin(&event, step);
    put_bytes(&event, 5, summary.bytes, summary.n);
    events_add(events, &event);
    if (clock_now() - events->flushed < 1)
        return;
    events->flushed = clock_now(); /* so that the file can be followed; a save reports errors */
    events_flush(events, false);
}

/* ---- images and audio ---- */

typedef struct SampleFile {
    int           fd;
    uint64_t      n; /* bytes */
    unsigned char head[64];
    size_t        n_head;
} SampleFile;

/* Image: height 1, width 2, colourspace 3, then the file as 4. False: it is no PNG. */
static bool image_fields(const SampleFile *file, Message *m)
{
    static const unsigned char begin[] = { 0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n' };
    if (file->n_head < 26 || memcmp(file->head, begin, sizeof begin))
        return false;
    put_int(m, 1, big32(file->head + 20));
    put_int(m, 2, big32(file->head + 16));
    put_int(m, 3, file->head[25] == 2 ? 3 : 1); /* RGB, or grey */
    return true;
}

/* Audio: sample_rate 1, num_channels 2, length_frames 3, content_type 5, then the file as 4. The
 * layout is that of wav_write: 44 bytes, then 16-bit samples. */
static bool audio_fields(const SampleFile *file, Message *m)
{
    const unsigned char *h = file->head;
    if (file->n_head < 44 || memcmp(h, "RIFF", 4) || memcmp(h + 8, "WAVEfmt ", 8))
        return false;
    uint32_t channels = h[22], frame = little16(h + 32);
    put_float(m, 1, (float)little32(h + 24));
    put_int(m, 2, channels);
    put_int(m, 3, frame ? little32(h + 40) / frame : 0);
    put_bytes(m, 5, "audio/wav", 9);
    return true;
}

static size_t varint_size(uint64_t number)
{
    size_t n = 1;
    for (; number > 127; number >>= 7)
        n++;
    return n;
}

/* Everything of the event before the file's own bytes: each message's length counts them. */
static void sample_event(Message *event, int64_t step, const char *tag, int field,
                         const Message *fields, uint64_t n_file)
{
    Message  name = { .n = 0 };
    uint64_t media = fields->n + 1 + varint_size(n_file) + n_file;
    put_bytes(&name, 1, tag, strlen(tag));
    uint64_t value = name.n + 1 + varint_size(media) + media,
             summary = 1 + varint_size(value) + value;
    event_begin(event, step);
    put_varint(event, 5 << 3 | 2);
    put_varint(event, summary);
    put_varint(event, 1 << 3 | 2);
    put_varint(event, value);
    put_raw(event, name.bytes, name.n);
    put_varint(event, (uint64_t)field << 3 | 2);
    put_varint(event, media);
    put_raw(event, fields->bytes, fields->n);
    put_varint(event, 4 << 3 | 2);
    put_varint(event, n_file);
}

/* Copies the file through the buffer, which is empty. */
static Err sample_copy(Events *events, const SampleFile *file, const char *path, uint32_t *crc)
{
    size_t done;
    for (uint64_t at = 0; at < file->n;) {
        size_t  n = file->n - at < SAMPLE_CHUNK ? (size_t)(file->n - at) : SAMPLE_CHUNK;
        ssize_t got = pread(file->fd, events->buffer, n, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return file_fail("read", path, got ? errno : EIO);
        *crc = crc32c_add(*crc, events->buffer, (size_t)got);
        TRY(write_all(events, events->buffer, (size_t)got, &done));
        at += (uint64_t)got;
    }
    return OK;
}

static Err sample_write(Events *events, const Message *event, const SampleFile *file,
                        const char *path)
{
    unsigned char head[RECORD_HEAD], tail[RECORD_TAIL];
    uint32_t      crc = crc32c_add(0, event->bytes, event->n);
    size_t        done;
    record_head(head, event->n + file->n);
    TRY(write_all(events, head, sizeof head, &done));
    TRY(write_all(events, event->bytes, event->n, &done));
    TRY(sample_copy(events, file, path, &crc));
    record_tail(tail, crc);
    return write_all(events, tail, sizeof tail, &done);
}

/* The tag of a sampled file; NULL: it is left out. Single images are: the sheet has them all. */
static const char *sample_tag(const char *path, bool *image, char *tag, size_t room)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path,
               *ending = strrchr(name, '.');
    if (!ending)
        return NULL;
    const char *dash = strrchr(name, '-');
    bool        one = dash && dash + 1 < ending &&
               strspn(dash + 1, "0123456789") == (size_t)(ending - dash - 1);
    *image = !strcmp(ending, ".png");
    if ((*image && one) || (!*image && strcmp(ending, ".wav")))
        return NULL;
    snprintf(tag, room, "%s%.*s", sample_prefix, (int)(ending - name), name);
    return tag;
}

static Err sample_add(Events *events, int64_t step, const char *tag, bool image, const char *path,
                      SampleFile *file)
{
    Message event, fields = { .n = 0 };
    ssize_t got = pread(file->fd, file->head, sizeof file->head, 0);
    off_t   end;
    file->n_head = got > 0 ? (size_t)got : 0;
    if (file->n > SAMPLE_MAX || !(image ? image_fields : audio_fields)(file, &fields))
        return OK;
    sample_event(&event, step, tag, image ? 4 : 6, &fields, file->n);
    TRY(events_flush(events, false));
    end = lseek(events->fd, 0, SEEK_END);
    Err err = sample_write(events, &event, file, path);
    if (err && end >= 0 && ftruncate(events->fd, end)) { /* half a record would hide the rest */
    }
    return err;
}

Err events_sample(Events *events, int64_t step, const char *path)
{
    char       tag[256];
    bool       image;
    SampleFile file;
    size_t     n;
    if (!events->path || !sample_tag(path, &image, tag, sizeof tag))
        return OK;
    TRY(file_open_plain(path, &file.fd, &n));
    file.n = n;
    Err err = sample_add(events, step, tag, image, path, &file);
    close(file.fd);
    return err;
}

/* ---- resuming ---- */

size_t events_kept(const unsigned char *bytes, size_t n, int64_t step, bool sampled,
                   int64_t *n_kept)
{
    size_t    at = 0, kept = 0;
    Record    record;
    EventHead head;
    *n_kept = 0;
    while (record_next(bytes, n, &at, &record) && event_head(&record, &head)) {
        bool sample = head.tag && head.n_tag >= sizeof sample_prefix - 1 &&
                      !memcmp(head.tag, sample_prefix, sizeof sample_prefix - 1);
        if (head.step > step || (sample && head.step == step && !sampled))
            break;
        kept = at;
        *n_kept += head.tag != NULL;
    }
    return kept;
}

/* Shortens one file of an earlier part of the run; a file without events is removed. */
static Err events_shorten(Pool *pool, const char *path, int64_t step, bool sampled)
{
    MapFile file;
    int64_t n_kept = 0;
    TRY(file_check_held(path));
    TRY(file_map(pool, path, &file));
    size_t kept = step < 0 ? 0 : events_kept(file.bytes, file.n, step, sampled, &n_kept);
    if (!n_kept)
        return file_remove(path);
    return kept < file.n && truncate(path, (off_t)kept) ? file_fail("write", path, errno) : OK;
}

static const char name_begin[] = "events.out.tfevents.", name_end[] = ".plimsoll";

/* Shortens all files; *newest: the number in the name of the newest. */
static Err events_shorten_all(Pool *pool, const char *folder, int64_t step, bool sampled,
                              long long *newest)
{
    char    **names;
    int       n;
    long long number;
    TRY(folder_list(pool, folder, &names, &n));
    for (int i = 0; i < n; i++) {
        size_t length = strlen(names[i]);
        if (length < sizeof name_end ||
            strcmp(names[i] + length - (sizeof name_end - 1), name_end) ||
            sscanf(names[i], "events.out.tfevents.%lld.", &number) != 1)
            continue;
        TRY(events_shorten(pool, pool_print(pool, "%s/%s", folder, names[i]), step, sampled));
        *newest = number > *newest ? number : *newest;
    }
    return OK;
}

static void events_start(Events *events, int64_t step)
{
    Message event, start = { .n = 0 };
    event_begin(&event, 0);
    put_bytes(&event, 3, "brain.Event:2", 13);
    events_add(events, &event);
    if (step < 0)
        return;
    put_int(&start, 1, 1); /* START: readers drop what they have read of later steps */
    event_begin(&event, step + 1);
    put_bytes(&event, 7, start.bytes, start.n);
    events_add(events, &event);
}

Err events_open(Pool *pool, Events *events, const char *run, int64_t step, bool sampled)
{
    const char *folder = pool_print(pool, "%s/tensorboard", run);
    long long   newest = 0, number = (long long)wall_time();
    Pool       *work = pool_new(pool, "event files");
    *events = (Events){ 0 };
    TRY(folder_make(folder));
    Err err = events_shorten_all(work, folder, step, sampled, &newest);
    pool_free(work);
    TRY(err);
    number = number > newest ? number : newest + 1; /* readers take the files in this order */
    const char *path = pool_print(pool, "%s/%s%010lld%s", folder, name_begin, number, name_end);
    TRY(file_check_held(path));
    TRY(file_open_end(path, true, &events->fd));
    events->path = path;
    events->buffer = pool_alloc(pool, EVENTS_BUFFER, 1);
    pool_at_free(pool, events_close, events);
    events_start(events, step);
    return OK;
}
