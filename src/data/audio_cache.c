/* audio_cache.c -- audio files through the plugin, into the cache. */
#include "data/audio_cache.h"

#include "base/text.h"
#include "data/media.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

Err audio_channels_check(const char *path, int64_t has, int64_t channels)
{
    if (channels == 1 || has == channels || has == 1)
        return OK;
    return fail(E_FORMAT,
                "%s has %lld channels, the model %lld; convert the file, or --set "
                "model.channels=%lld (1: the mean of all)",
                path, (long long)has, (long long)channels, (long long)has);
}

static Err audio_look(Pool *pool, const void *own, int fd, CacheItem *item)
{
    const AudioCache  *s = own;
    const AudioPlugin *plugin;
    AudioInfo          info;
    TRY(media_audio(item->path, &plugin));
    TRY(plugin->look(&(MediaFile){ fd, item->path }, &info));
    TRY(audio_channels_check(item->path, info.channels, s->channels));
    if (info.frames < 1)
        return fail(E_FORMAT, "%s holds no audio", item->path);
    double frames = (double)info.frames * (double)s->rate / (double)info.rate;
    bool   mixed = s->channels == 1 && info.channels > 1;
    item->rank = 2;
    item->shape[0] = info.rate == s->rate ? info.frames : frames < 1 ? 1 : llround(frames);
    item->shape[1] = mixed ? 1 : info.channels;
    item->type = info.bits && info.bits <= 16 && info.rate == s->rate && !mixed ? NPY_I2 : NPY_F4;
    if (info.rate != s->rate)
        item->said = pool_print(pool, "%lld", (long long)info.rate);
    return OK;
}

typedef struct AudioOut {
    const CacheItem *item;
    FileOut         *out;
    int64_t          has; /* channels of the file */
    int64_t          n;   /* frames so far */
} AudioOut;

static void number_add(const AudioOut *o, float x)
{
    x = x > -1 ? (x < 1 ? x : 1) : -1;
    int16_t level = (int16_t)(x >= 1 ? 32767 : lrintf(x * 32768));
    if (o->item->type == NPY_I2)
        file_out_add(o->out, &level, sizeof level);
    else
        file_out_add(o->out, &x, sizeof x);
}

/* A resampled file may end a few frames late: what is beyond its length is left out. */
static Err audio_take(void *own, const float *frames, int64_t n)
{
    AudioOut *o = own;
    int64_t   channels = o->item->shape[1];
    for (int64_t i = 0; i < n && o->n < o->item->shape[0]; i++, o->n++) {
        float mean = 0;
        for (int64_t c = 0; c < o->has && channels != o->has; c++)
            mean += frames[i * o->has + c] / (float)o->has;
        for (int64_t c = 0; c < channels; c++)
            number_add(o, channels == o->has ? frames[i * o->has + c] : mean);
    }
    return OK;
}

static Err audio_decode(const void *own, int fd, const CacheItem *item, FileOut *out)
{
    const AudioCache  *s = own;
    const AudioPlugin *plugin;
    AudioInfo          info;
    MediaFile          file = { fd, item->path };
    AudioOut           o = { .item = item, .out = out };
    TRY(media_audio(item->path, &plugin));
    TRY(plugin->look(&file, &info));
    o.has = info.channels;
    TRY(plugin->decode(&file, s->rate, audio_take, &o));
    while (o.n < item->shape[0]) { /* or early */
        for (int64_t c = 0; c < item->shape[1]; c++)
            number_add(&o, 0);
        o.n++;
    }
    return OK;
}

AudioCache *audio_cache_new(Pool *pool, const DataSpec *spec, int64_t rate, int64_t channels)
{
    AudioCache *s = NEW(pool, AudioCache);
    *s = (AudioCache){ .rate = rate, .channels = channels };
    s->form = (CacheForm){ .what = "audio files", .look = audio_look, .decode = audio_decode };
    s->form.settings = pool_print(pool, "%lld a second, %s", (long long)rate,
                                  channels == 1 ? "one channel" : "all channels");
    s->list = cache_list(spec, &s->form, s);
    return s;
}

Err audio_read(const CacheItem *item, int64_t first, int64_t n, unsigned char *raw, float *to)
{
    int64_t channels = item->shape[1];
    size_t  bytes = npy_type_bytes(item->type);
    TRY(cache_read(item, (size_t)(first * channels) * bytes, (size_t)(n * channels) * bytes, raw));
    if (item->type == NPY_F4)
        memcpy(to, raw, (size_t)(n * channels) * bytes);
    for (int64_t i = 0; i < n * channels && item->type != NPY_F4; i++) {
        int16_t level;
        memcpy(&level, raw + 2 * i, sizeof level);
        to[i] = (float)level / 32768;
    }
    return OK;
}

const char *audio_cache_said(Pool *pool, const AudioCache *s)
{
    int32_t     converted = 0;
    const char *rate = NULL;
    for (int32_t i = 0; i < s->list.n; i++)
        if (s->list.items[i].said) {
            converted++;
            rate = rate && strcmp(rate, s->list.items[i].said) ? "other rates"
                                                               : s->list.items[i].said;
        }
    if (!s->list.n)
        return NULL;
    return !converted ? pool_print(pool, "%d decoded", s->list.n)
                      : pool_print(pool,
                                   "%d decoded, %d of them converted from %s to %lld samples "
                                   "a second",
                                   s->list.n, converted, rate, (long long)s->rate);
}
